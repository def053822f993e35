"""Nodes that no output needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from thinflow.analysis.foreign import UNREAD
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count, listed

_SHOWN_OPS = 4


@rule("TF104", Severity.WARNING)
def unneeded_nodes(c: Context) -> Iterator[LintFinding]:
    """Nodes that lead to no output: savers, initializers, gradients, optimizers, summaries, other heads.

    Why: they are read, checked and laid out whenever the model is opened, and hide what it is about.

    Mend: `--fix` keeps what the outputs need. Check that these are the right ones; `--outputs` names others.

    Ignore: a graph that is trained on, or has more heads than are asked for here.
    """
    if not c.has_own_nodes:
        return
    left = [n for n in c.file if n.tensor is None and n.name not in c.needed_names and n.op not in UNREAD]
    if not left:
        return
    ops = Counter(n.op for n in left).most_common()
    kinds = ", ".join(f"{number} {op}" for op, number in ops[:_SHOWN_OPS])
    more = f" and {count(len(ops) - _SHOWN_OPS, 'other op')}" if len(ops) > _SHOWN_OPS else ""
    ends = [v.name for v in c.graph.outputs]
    outputs = f"{'output is' if len(ends) == 1 else 'outputs are'} {listed(ends)}"
    yield LintFinding(
        f"{len(left):,} of {len(c.file):,} nodes lead to no output ({kinds}{more}); the {outputs}",
        tuple(n.name for n in left),
        fix="strip_unused_nodes",
    )
