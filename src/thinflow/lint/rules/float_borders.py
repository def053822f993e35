"""Eight-bit models that take or give floats."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import listed


@rule("TF604", Severity.INFO)
def float_borders(c: Context) -> Iterator[LintFinding]:
    """An eight-bit .tflite file whose inputs or outputs are floats.

    Why: the app turns the bytes of a picture into floats, four times as large, and the model turns them back;
    accelerators for integers stop at both ends.

    Mend: quantize the float model again with integers at the ends (`--input-type int8 --output-type int8`).

    Ignore: an app that has floats anyway, or does not want to know scales.
    """
    entering = [n.inputs[0] for n in c.file if n.op == "tfl.QUANTIZE" and n.inputs]
    leaving = [n.output() for n in c.file if n.op == "tfl.DEQUANTIZE" and n.inputs[0].node.tensor is None]
    inputs = [v.name for v in c.file.inputs if v in entering]
    outputs = [v.name for v in c.file.outputs if v in leaving]
    told = [f"takes {listed(inputs)} as floats"] * bool(inputs)
    told += [f"gives {listed(outputs)} as floats"] * bool(outputs)
    if told:
        yield LintFinding(f"the model {' and '.join(told)}, and computes in eight bits", (*inputs, *outputs))
