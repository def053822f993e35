"""Cost of ONNX's ops; a multiply-add counts as 2 operations. Layouts of weights: ONNX's op definitions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from thinflow.analysis.foreign import CostRule, Operands
from thinflow.analysis.tflite_cost import count, multiply_adds, sizes
from thinflow.ir.types import TensorSpec
from thinflow.ops.registry import Cost

FREE = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Shape", "Size", "Dropout"})
# Their bodies are graphs of their own; how often they run is not known.
FREE |= {"If", "Loop", "Scan"}
"""Ops that compute nothing themselves."""


def _conv(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    """Conv: W [cout, cin/groups, kernel...]."""
    del attrs
    return multiply_adds(count(y) * math.prod(sizes(xs[1])[1:]), _bias(y, xs, 2))


def _bias(y: TensorSpec, xs: Operands, place: int) -> int:
    return count(y) if len(xs) > place and xs[place] is not None else 0


def _quantized_conv(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    """QLinearConv: W is the fourth operand, the bias the ninth."""
    del attrs
    return multiply_adds(count(y) * math.prod(sizes(xs[3])[1:]), _bias(y, xs, 8))


def _transposed(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    """ConvTranspose: W [cin, cout/groups, kernel...]."""
    del attrs
    # Every input element is multiplied with the weights of its channel, which gives several outputs.
    return multiply_adds(count(xs[0]) * math.prod(sizes(xs[1])[1:]), _bias(y, xs, 2))


def _gemm(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    inner = sizes(xs[0])[0 if attrs.get("transA") else 1]
    return multiply_adds(count(y) * inner, _bias(y, xs, 2))


def _matmul(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    del attrs
    return multiply_adds(count(y) * sizes(xs[0])[-1])


def _recurrent(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    """LSTM, GRU, RNN: X [steps, batch, in], W and R [directions, gates * hidden, ...] in every step."""
    del y, attrs
    steps, batch, _ = sizes(xs[0])
    return multiply_adds(steps * batch * (count(xs[1]) + count(xs[2])))


def _pool(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    del xs
    return Cost(flops=count(y) * math.prod(attrs.get("kernel_shape", (1,))))


def _reduction(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    del y, attrs
    return Cost(flops=count(xs[0]))


RULES: dict[str, CostRule] = {
    **dict.fromkeys(("Conv", "ConvInteger"), _conv),
    "QLinearConv": _quantized_conv,
    "ConvTranspose": _transposed,
    "Gemm": _gemm,
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _matmul),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "ArgMax", "ArgMin"), _reduction),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"), _reduction),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare"), _reduction),
}
