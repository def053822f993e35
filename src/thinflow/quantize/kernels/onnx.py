"""ONNX ops that ONNX Runtime computes in 8-bit integers when they stand between DequantizeLinear and
QuantizeLinear, and what it asks of them.

The runtime replaces such a group by one integer kernel (QLinearConv, QGemm, QLinearAdd ...), or drops the
pair around ops that only move numbers. What stands here was found by letting it do so; the tests do it again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from thinflow.quantize.kernels import Cost, Kernel, Kernels, Operator, Weighted, input_at, table_of
from thinflow.quantize.kernels.litert import EIGHT

_FIRST = (0,)

# Costs are those of ONNX Runtime 1.32 on one core with AVX-512, by its own profile: DequantizeLinear takes
# 0.115 ns for an element there.
# Sigmoid and Softmax lie between 0 and 1; 255/256 makes the scale 1/256, as in LiteRT's kernels.
_ROWS: dict[str, Kernel] = {
    "Conv": Kernel(Weighted(0, 1, 2, 0), is_heavy=True, data=_FIRST),
    # The axis of Gemm's and MatMul's weights depends on the operator, see `weight_axis`.
    "Gemm": Kernel(Weighted(0, 1, 2, 1, may_compute=True), is_heavy=True, gives_floats=True),
    "MatMul": Kernel(Weighted(0, 1, None, 1, may_compute=True), is_heavy=True, gives_floats=True),
    "Add Mul": Kernel(),
    "AveragePool": Kernel(data=_FIRST, cost=Cost(2.6, 19)),
    "GlobalAveragePool LeakyRelu ArgMax": Kernel(data=_FIRST),
    "Sigmoid": Kernel(data=_FIRST, known_range=(0.0, 255 / 256)),
    "Softmax": Kernel(data=_FIRST, known_range=(0.0, 255 / 256), cost=Cost(2.9, 24)),
    "Relu Clip": Kernel(data=_FIRST, is_clamp=True),
    "Concat": Kernel(same_scale=True),
    "Pad": Kernel(same_scale=True, data=(0, 2), moves_integers=True),
    "MaxPool ReduceMax ReduceMin Reshape Transpose Squeeze Unsqueeze Flatten Slice Split Gather Tile Expand"
    " DepthToSpace Resize": Kernel(same_scale=True, data=_FIRST),
}

_GELU = "it is a part of a GELU, which ONNX Runtime computes as one in float"
_WIDE = "its results span more orders of magnitude than 8 bits hold"
_NOT_INT8 = {
    **dict.fromkeys(("Sqrt", "Reciprocal", "Exp", "Log", "Pow", "Div", "ReduceProd"), _WIDE),
    **dict.fromkeys(("Equal",), "rounded numbers are equal where the numbers are not"),
}


class OnnxKernels(Kernels):
    """Integer kernels that ONNX Runtime puts in the place of operators between pairs."""

    def why_form(self, operator: Operator) -> str:
        options, bias = operator.options, self.bias(operator)
        if operator.code == "Gemm":
            if any(options.get(name, 1) != 1 for name in ("alpha", "beta")):
                return "it scales the product"
            if bias is not None and bias.is_constant and bias.array().size not in (1, _units(operator)):
                return "its bias is no row"
        if operator.code == "Resize" and options.get("mode", "nearest") != "nearest":
            return "ONNX Runtime resizes integers to the nearest only"
        if operator.code == "Clip":
            limits = self.clamp(operator)
            # A quantized range always holds 0, so it would let through what such a Clip cuts off.
            if limits is None or not limits[0] <= 0 <= limits[1]:
                return "its limits are computed, or 0 is not between them"
        border = input_at(operator, 2) if operator.code == "Pad" else None
        if border is not None and not border.is_constant:
            return "what it pads with is computed at run time"
        if all(t.is_constant for t in self.data_inputs(operator)):
            return "it does not compute on floats"
        return ""

    def clamp(self, operator: Operator) -> tuple[float, float] | None:
        if operator.code == "Relu":
            return 0.0, math.inf
        if operator.code != "Clip":
            return None
        limits = [-math.inf, math.inf]
        for number, tensor in enumerate(operator.inputs[1:3]):
            if tensor is not None:
                if not tensor.is_constant:
                    return None
                limits[number] = float(tensor.array().reshape(()))
        return limits[0], limits[1]

    def made_one(self, operators: Sequence[Operator]) -> dict[Operator, str]:
        """The GELUs, as they are written: x / 2 * (1 + erf(x / sqrt 2))."""
        makers = {t: o for o in operators for t in o.outputs}
        readers: dict[Any, list[Operator]] = {}
        for operator in operators:
            for tensor in operator.reads():
                readers.setdefault(tensor, []).append(operator)
        found: dict[Operator, str] = {}
        for erf in (o for o in operators if o.code == "Erf"):
            gates = readers.get(erf.outputs[0], [])
            ends = readers.get(gates[0].outputs[0], []) if len(gates) == 1 else []
            halves = [makers.get(t) for t in ends[0].reads() if t not in gates[0].outputs] if ends else []
            parts = [makers.get(input_at(erf, 0)), *halves, *gates, *ends[:1]]
            if [getattr(o, "code", "") for o in parts] == ["Div", "Mul", "Add", "Mul"]:
                found |= {o: _GELU for o in parts if o is not None}
        return found

    def weight_axis(self, operator: Operator) -> int | None:
        if operator.code == "Gemm":
            return 0 if operator.options.get("transB") else 1
        if operator.code == "MatMul":
            w = self.weights(operator)
            return 1 if w is not None and w.array().ndim == 2 else None
        return super().weight_axis(operator)


def _units(operator: Operator) -> int | None:
    """Columns of the product that a Gemm computes."""
    shape = operator.outputs[0].shape
    return None if shape is None else shape[-1]


# 1 - sigmoid(8) is 3.4e-4, less than a tenth of the output's scale.
INT8_KERNELS = OnnxKernels(
    arithmetic=EIGHT,
    table=table_of(_ROWS),
    refusals=_NOT_INT8,
    missing="ONNX Runtime has no 8-bit kernel for {}",
    saturates={"Sigmoid": 8.0},
    reads_sizes=frozenset(("Shape",)),
    decides=frozenset(("Softmax", "LogSoftmax", "ArgMax", "ArgMin", "TopK")),
    reciprocal_root="Sqrt",
    scalings=frozenset(("Mul", "Add", "Sub", "Div", "Reciprocal", "Reshape")),
    floats_are_free=True,
    float_row=("MatMul", "Add"),
    slower="ONNX Runtime's int8 kernel for it is {} times slower than float",
    # Some 1 us.
    call=8000,
    unit_ns=0.115,
)
