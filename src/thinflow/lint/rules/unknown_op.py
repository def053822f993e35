"""Ops that nobody here knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from thinflow.analysis.foreign import UNREAD, is_foreign, is_in_runtime
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.ops import registry


@rule("TF502", Severity.ERROR)
def unknown_op(c: Context) -> Iterator[LintFinding]:
    """Custom ops: of an extension, or of a library that the file does not bring along.

    Why: the model runs only where that code is linked in; elsewhere it does not even open.

    Mend: export with the ops that everybody has, or ship the library and register it.

    Ignore: an app that registers them.
    """
    unknown = [n for n in c.file if n.name in c.needed_names and _is_unknown(n.op, c)]
    for op, number in Counter(n.op for n in unknown).most_common():
        yield LintFinding(
            f"{number} x {op.partition('.')[2] or op} is an op of an extension",
            tuple(n.name for n in unknown if n.op == op),
        )


def _is_unknown(op: str, c: Context) -> bool:
    if is_foreign(op):
        return not is_in_runtime(op) and op not in UNREAD and op not in c.file.functions
    return registry.find(op) is None and op not in c.file.functions
