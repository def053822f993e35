"""Weights that no output needs."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count


@rule("TF203", Severity.WARNING)
def unneeded_weights(c: Context) -> Iterator[LintFinding]:
    """Constants that lead to no output: of other heads, of training, of initializers.

    Why: they make the file larger, and nothing else.

    Mend: `--fix` leaves them out. Check that the outputs are the right ones; `--outputs` names others.

    Ignore: a graph that has more heads than are asked for here.
    """
    if not c.has_own_nodes:
        return
    dead = [k for k in c.constants if not k.is_needed and k.tensor.size]
    if dead:
        yield LintFinding(
            f"{count(len(dead), 'constant')} that no output needs",
            tuple(k.node.name for k in dead),
            size_bytes=sum(k.stored_bytes for k in dead),
            fix="strip_unused_nodes",
        )
