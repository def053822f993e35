"""What is computed twice."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.own_ops import is_storage
from thinflow.lint.rules import rule
from thinflow.lint.words import count

_MERGES = "merge_duplicate_nodes"


@rule("TF305", Severity.WARNING)
def duplicate_computation(c: Context) -> Iterator[LintFinding]:
    """Nodes of the same op that read the same, and give the same.

    Why: each computes, and holds memory for, what another has.

    Mend: `--fix` lets one do it for all.

    Ignore: never, but for the names of the nodes.
    """
    if not c.has_own_nodes:
        return
    nodes = [n for n in c.changed_own(_MERGES) if not is_storage(c.own.node(n).op)]
    if nodes:
        yield LintFinding(
            f"{count(len(nodes), 'node')} that compute{'s' if len(nodes) == 1 else ''} what another does",
            tuple(nodes),
            flops=c.flops(nodes),
            fix=_MERGES,
            # A state of zeros that every run makes anew is worth a word, and no warning.
            severity=Severity.INFO if c.is_trifle(nodes) else None,
        )
