"""Eight-bit weights of one scale for channels of very different size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thinflow.analysis.foreign_quant_params import params_of
from thinflow.ir.graph import Value
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count

_FEW_STEPS = 16.0
"""Steps that the largest weight of a channel has. Eight bits have 127."""


@rule("TF603", Severity.WARNING)
def per_tensor_weights(c: Context) -> Iterator[LintFinding]:
    """Convolutions of a .tflite file with one scale for all channels, where half of the channels use 16 of
    127 steps or fewer.

    Why: the largest channel sets the scale, and the others are rounded to a few numbers, which costs accuracy
    that a scale for each channel gives back for nothing.

    Mend: quantize the float model again, with a scale for each channel: `thinflow quantize` does.

    Ignore: a runtime that knows one scale only.
    """
    coarse: dict[str, float] = {}
    for node in c.file:
        if node.name not in c.needed_names or not node.op.endswith("CONV_2D") or len(node.inputs) < 2:
            continue
        weights = node.inputs[1]
        axis = 3 if node.op.endswith("DEPTHWISE_CONV_2D") else 0
        steps = _steps(weights, axis)
        if steps is not None and steps <= _FEW_STEPS:
            coarse[node.name] = steps
    if coarse:
        least = min(coarse.values())
        yield LintFinding(
            f"{count(len(coarse), 'convolution')} with one scale for all channels: half of the channels use "
            f"{least:.0f} steps of 127 or fewer in the worst",
            tuple(coarse),
            mend="thinflow quantize the float model again, which gives each channel its scale",
        )


def _steps(weights: Value, axis: int) -> float | None:
    """The steps that the largest weight of the median channel has; None if that says nothing."""
    params, tensor = params_of(weights), weights.node.tensor
    if params is None or params.is_per_channel or tensor is None or len(tensor.shape) != 4:
        return None
    if tensor.shape[axis] < 4 or tensor.dtype.itemsize != 1:
        return None
    zero = params.zero_point[0] if params.zero_point else 0
    codes = np.moveaxis(tensor.numpy(), axis, 0).reshape(tensor.shape[axis], -1).astype(np.int32) - zero
    return float(np.median(np.abs(codes).max(axis=1)))
