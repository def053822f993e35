"""What is computed anew in each run, and never differs."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.ir.graph import Node
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count

_FOLDS = "fold_constants"


@rule("TF304", Severity.WARNING)
def constant_computation(c: Context) -> Iterator[LintFinding]:
    """Nodes that depend on no input, so that they give the same in each run.

    Why: a runtime computes them again and again, or holds both what goes in and what comes out.

    Mend: `--fix` computes them once.

    Ignore: a table that is much larger than what it is made of; `fold_constants` leaves the worst of them.
    """
    if not c.has_own_nodes:
        return
    # Reading a variable that became a constant is none, nor is unpacking weights that are stored small.
    gone = _dropped(c)
    nodes = [n for n in c.changed_own(_FOLDS, text="folded") if n not in gone]
    if nodes:
        yield LintFinding(
            f"{count(len(nodes), 'node')} that {'gives' if len(nodes) == 1 else 'give'} the same in each run",
            tuple(nodes),
            flops=c.flops(nodes),
            fix=_FOLDS,
            # A state of zeros that every run makes anew is worth a word, and no warning.
            severity=Severity.INFO if c.is_trifle(nodes) else None,
        )


def _dropped(c: Context) -> set[str]:
    """Names of the nodes that only draw random numbers for dropout that goes: TF102 tells of those."""
    dropouts = set(c.changed("remove_dropout"))
    if not dropouts:
        return set()
    kept: set[Node] = set()
    pending = [v.node for v in c.graph.outputs]
    while pending:
        node = pending.pop()
        if node not in kept:
            kept.add(node)
            # Its other side is what it drops from.
            pending += [v.node for v in node.inputs if node.name not in dropouts or v.node in c.fed]
    return {n.name for n in c.needed if n not in kept}
