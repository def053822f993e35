"""Inputs whose sizes are open."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from thinflow.analysis.shapes import declared_spec
from thinflow.ir.graph import Value
from thinflow.ir.types import STRING
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule


@rule("TF407", Severity.WARNING)
def open_sizes(c: Context) -> Iterator[LintFinding]:
    """Inputs with sizes that are open beyond the batch.

    Why: delegates for GPUs and accelerators take fixed sizes only; memory cannot be planned, and costs cannot
    be told.

    Mend: fix them when the model is converted: `thinflow convert MODEL OUT.tflite --shape NAME=1,...`.

    Ignore: a model that has to take any size, on the processor.
    """
    opened: dict[Value, str] = {}
    for value in c.graph.inputs:
        spec = declared_spec(value)
        if spec.dtype is STRING or spec.shape == ():
            continue
        if spec.shape is None or None in spec.shape[1:]:
            sizes = ",".join("?" if n is None else str(n) for n in spec.shape or ())
            opened[value] = sizes or "not even the rank is known"
    if opened:
        told = "; ".join(f"of the input '{value.name}': {sizes}" for value, sizes in opened.items())
        flags = "".join(f" --shape {shlex.quote(value.name + '=SIZES')}" for value in opened)
        yield LintFinding(
            f"open sizes {told}",
            tuple(value.node.name for value in opened),
            mend=f"thinflow convert MODEL OUT.tflite{flags}",
        )
