"""Variables whose values are not there."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count
from thinflow.ops.traits import Trait, has


@rule("TF107", Severity.ERROR)
def unfrozen_variables(c: Context) -> Iterator[LintFinding]:
    """Variables that the outputs need, and whose values are in no file that was opened.

    Why: the graph cannot run, and nothing can be said of its weights, folded or quantized.

    Mend: `thinflow freeze MODEL OUT --checkpoint PREFIX` puts the values of a checkpoint in.

    Ignore: a training graph that is kept for its structure.
    """
    nodes = [n for n in c.graph if n in c.needed and has(n.op, Trait.VARIABLE)]
    if nodes:
        yield LintFinding(
            f"{count(len(nodes), 'variable')} without a value: the graph was never frozen",
            tuple(n.name for n in nodes),
            mend="thinflow freeze MODEL OUT --checkpoint PREFIX",
        )
