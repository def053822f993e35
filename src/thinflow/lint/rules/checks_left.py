"""Checks and messages that were for whoever trained the model."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count
from thinflow.ops.traits import Trait, has

_WATCHES = Trait.ASSERT | Trait.PRINT | Trait.SUMMARY


@rule("TF105", Severity.WARNING)
def checks_left(c: Context) -> Iterator[LintFinding]:
    """Asserts, prints, summaries and checks for NaN that run whenever the model does.

    Why: no runtime of phones has them, so that a converter refuses the node or cuts the model in two.

    Mend: `--fix` takes them out.

    Ignore: a model for a server that is to stop at bad input.
    """
    found = {*c.changed("remove_training_ops"), *c.changed("remove_nodes", op="CheckNumerics")}
    nodes = [n for n in c.graph if n.name in found and (has(n.op, _WATCHES) or n.op == "CheckNumerics")]
    if not nodes or c.is_translated:
        return
    ops = ", ".join(dict.fromkeys(n.op for n in nodes))
    yield LintFinding(
        f"{count(len(nodes), 'node')} that check or print ({ops}) in each run",
        tuple(n.name for n in nodes),
        fix=" ".join(s.transform for s in c.dry.of("remove_training_ops", "remove_nodes") if s.changes),
    )
