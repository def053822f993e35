"""Which ONNX ops ONNX Runtime computes on 8-bit codes when they stand between DequantizeLinear and
QuantizeLinear, and what it asks of them.

The runtime replaces such a group by one integer kernel (QLinearConv, QGemm, QLinearAdd ...), or drops the
pair around ops that only move numbers. What stands here was found by letting it do so; the tests do it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from thinflow.ir.types import FLOAT
from thinflow.onnx.program import Operator, Tensor


class Kernel(NamedTuple):
    """What an integer kernel asks for.

    Attributes:
        tied: inputs and outputs share scale and zero point.
        is_heavy: it multiplies and adds, so eight bits pay off even between float neighbours.
        reads_all: every input is data; otherwise the first one is, and the others say what to do with it.
        tail_is_free: it can also give floats, straight from its 32-bit sums.
        on_codes: it runs on the codes themselves, without a pair around it.
        clamps: quantizing its output does all that it does.
    """

    tied: bool = False
    is_heavy: bool = False
    reads_all: bool = False
    tail_is_free: bool = False
    on_codes: bool = False
    clamps: bool = False


_GROUPS: dict[str, Kernel] = {
    "Conv": Kernel(is_heavy=True),
    "Gemm": Kernel(is_heavy=True, reads_all=True, tail_is_free=True),
    "MatMul": Kernel(is_heavy=True, reads_all=True, tail_is_free=True),
    "Add Mul": Kernel(reads_all=True),
    "AveragePool GlobalAveragePool LeakyRelu Sigmoid Softmax ArgMax": Kernel(),
    "Relu Clip": Kernel(clamps=True),
    "Concat": Kernel(tied=True, reads_all=True),
    "Pad": Kernel(tied=True, on_codes=True),
    "MaxPool ReduceMax ReduceMin Reshape Transpose Squeeze Unsqueeze Flatten Slice Split Gather Tile Expand"
    " DepthToSpace Resize": Kernel(tied=True),
}
KERNELS: dict[str, Kernel] = {code: kernel for codes, kernel in _GROUPS.items() for code in codes.split()}

UNIT_RANGE = frozenset(("Sigmoid", "Softmax"))
"""Ops whose results lie between 0 and 1."""

WEIGHTED = frozenset(("Conv", "Gemm", "MatMul"))
"""Ops whose second input, if it is constant, gets a scale per output channel."""

_WIDE = "its results span more orders of magnitude than 8 bits hold"
_NOT_INT8 = {
    **dict.fromkeys(("Sqrt", "Reciprocal", "Exp", "Log", "Pow", "Div", "ReduceProd"), _WIDE),
    **dict.fromkeys(("Equal",), "rounded numbers are equal where the numbers are not"),
}


def why_not_int8(code: str) -> str:
    """Why an op has no row in KERNELS."""
    return _NOT_INT8.get(code) or f"ONNX Runtime has no 8-bit kernel for {code}"


def is_float(tensor: Tensor | None) -> bool:
    """Whether a tensor is one that quantization is about."""
    return tensor is not None and tensor.dtype is FLOAT


def weights_of(operator: Operator) -> Tensor | None:
    """The constant weights of a convolution or matrix product; None if there are none."""
    if operator.code not in WEIGHTED or len(operator.inputs) < 2:
        return None
    w = operator.inputs[1]
    return w if w is not None and w.is_constant else None


def bias_of(operator: Operator) -> Tensor | None:
    """What a convolution or Gemm adds to its sums."""
    has_bias = operator.code in ("Conv", "Gemm") and len(operator.inputs) > 2
    return operator.inputs[2] if has_bias else None


def weight_axis(operator: Operator) -> int | None:
    """The axis of the weights that counts output channels; None if the kernel takes one scale only."""
    if operator.code == "Conv":
        return 0
    if operator.code == "Gemm":
        return 0 if operator.options.get("transB") else 1
    w = weights_of(operator)
    return 1 if w is not None and w.array().ndim == 2 else None


def data_inputs(operator: Operator) -> list[Tensor]:
    """The float inputs whose numbers the op works on, weights and bias left out; constants included."""
    kernel = KERNELS.get(operator.code)
    inputs = operator.inputs if kernel is None or kernel.reads_all else operator.inputs[:1]
    special = (weights_of(operator), bias_of(operator))
    places = [t for n, t in enumerate(inputs) if not (n in (1, 2) and any(t is s for s in special))]
    return [t for t in places if t is not None and is_float(t)]


def computed_inputs(operator: Operator) -> list[Tensor]:
    """Those of `data_inputs` that are computed or fed, each once."""
    return list(dict.fromkeys(t for t in data_inputs(operator) if not t.is_constant))


def float_outputs(operator: Operator) -> list[Tensor]:
    """Its float32 outputs."""
    return [t for t in operator.outputs if is_float(t)]


def all_reads(operators: Sequence[Operator]) -> dict[Tensor, list[Operator]]:
    """Tensor -> who reads it. Loops and branches count as readers of what their bodies read."""
    readers: dict[Tensor, list[Operator]] = {}
    for operator in operators:
        for tensor in dict.fromkeys(operator.inputs):
            if tensor is not None:
                readers.setdefault(tensor, []).append(operator)
    return readers
