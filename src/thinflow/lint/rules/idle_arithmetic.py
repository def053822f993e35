"""Arithmetic that does nothing, or in two steps what one does."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count

_SIMPLIFIES = "simplify_arithmetic"


@rule("TF306", Severity.INFO)
def idle_arithmetic(c: Context) -> Iterator[LintFinding]:
    """Additions of 0, factors of 1, reshapes to the shape that is there, two factors in a row.

    Why: each reads and writes its whole input.

    Mend: `--fix` takes them out.

    Ignore: never, but for the names of the nodes.
    """
    if c.is_translated:
        return
    nodes = [n for n in c.changed(_SIMPLIFIES) if n in c.needed_names]
    if nodes:
        yield LintFinding(
            f"{count(len(nodes), 'node')} that can go, or go with another",
            tuple(nodes),
            flops=c.flops(nodes),
            fix=_SIMPLIFIES,
        )
