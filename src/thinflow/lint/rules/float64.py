"""Double precision."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.ir.types import DOUBLE
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count


@rule("TF201", Severity.WARNING)
def float64(c: Context) -> Iterator[LintFinding]:
    """Weights or values in double precision.

    Why: a double takes twice the room and time of a float, and the runtimes of phones compute in float: they
    refuse the node, or convert around it. It mostly comes from a numpy array that nobody cast.

    Mend: `--fix` computes in float; the outputs are compared, and the step is undone if they need the digits.

    Ignore: a sum over very many numbers, or a time, that needs the precision on purpose.
    """
    stored = [k for k in c.constants if k.tensor.dtype is DOUBLE and k.is_needed and k.tensor.size]
    computing = [
        n.name
        for n in c.file
        if n.inputs and n.name in c.needed_names and any(v.dtype is DOUBLE for v in n.outputs)
    ]
    if not computing and not stored:
        return
    told = [count(len(computing), "node")] * bool(computing) + [count(len(stored), "constant")] * bool(stored)
    yield LintFinding(
        f"{' and '.join(told)} in double precision",
        (*(k.node.name for k in stored), *computing),
        size_bytes=sum(k.stored_bytes for k in stored) // 2,
        fix="widen_floats(from=double)",
    )
