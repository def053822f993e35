"""Float ops that have an eight-bit form in TensorFlow, and how their nodes differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import INT32, QINT32, QUINT8
from thinflow.ops._defaults import defaults_of
from thinflow.transforms.quantized import checks as checks

# Sums of products of codes have 32 bits, which a Requantize brings back to eight.
_TO_32_BITS: dict[str, Attr] = {"T1": QUINT8, "T2": QUINT8, "Toutput": QINT32}


@dataclass(frozen=True)
class EightBit:
    """The eight-bit form of an op.

    Attributes:
        op: its name.
        types: attributes that tell types.
        copied: attributes that both forms have.
        check: raises Refuse where the eight-bit form would compute something else.
        plain: input that stays what it is, such as a shape; None if all are coded.
        arity: number of inputs, None for any number.
    """

    op: str
    types: dict[str, Attr]
    copied: tuple[str, ...] = ()
    check: Callable[[Node], None] | None = None
    plain: int | None = None
    arity: int | None = 2

    @property
    def widens(self) -> bool:
        """Whether the result has 32 bits and must be brought back to eight."""
        return QINT32 in self.types.values()


_CONCAT = EightBit("QuantizedConcat", {"T": QUINT8}, ("N",), checks.check_concat, arity=None)
_ADD = EightBit("QuantizedAdd", _TO_32_BITS, check=checks.check_broadcast)
_POOL = ("ksize", "strides", "padding")

EIGHT_BIT = {
    "Add": _ADD,
    "AddV2": _ADD,
    # Pools, joins and moves of codes stay in eight bits and hand the range of their input on.
    "AvgPool": EightBit("QuantizedAvgPool", {"T": QUINT8}, _POOL, checks.check_pool, arity=1),
    "BiasAdd": EightBit(
        "QuantizedBiasAdd", {"T1": QUINT8, "T2": QUINT8, "out_type": QINT32}, check=checks.check_bias
    ),
    "Concat": _CONCAT,
    "ConcatV2": _CONCAT,
    "Conv2D": EightBit(
        "QuantizedConv2D",
        {"Tinput": QUINT8, "Tfilter": QUINT8, "out_type": QINT32},
        ("strides", "padding"),
        checks.check_conv,
    ),
    "MatMul": EightBit("QuantizedMatMul", _TO_32_BITS, ("transpose_a", "transpose_b"), checks.check_matmul),
    "MaxPool": EightBit("QuantizedMaxPool", {"T": QUINT8}, _POOL, checks.check_pool, arity=1),
    "Mul": EightBit("QuantizedMul", _TO_32_BITS, check=checks.check_broadcast),
    "Relu": EightBit("QuantizedRelu", {"Tinput": QUINT8}, arity=1),
    "Relu6": EightBit("QuantizedRelu6", {"Tinput": QUINT8}, arity=1),
    "Reshape": EightBit("QuantizedReshape", {"T": QUINT8}, ("Tshape",), checks.check_reshape, plain=1),
    "ResizeBilinear": EightBit(
        "QuantizedResizeBilinear", {"T": QUINT8}, ("align_corners",), checks.check_resize, plain=1
    ),
}
"""Float op -> its eight-bit form."""

NO_KERNEL = dict.fromkeys(
    (
        *("AddN", "BatchMatMul", "BatchMatMulV2", "BiasAddV1", "Conv2DBackpropInput", "Conv3D"),
        *("DepthwiseConv2dNative", "Div", "Elu", "Exp", "FusedBatchNorm", "FusedBatchNormV2"),
        *("FusedBatchNormV3", "LRN", "LeakyRelu", "Maximum", "Mean", "Minimum", "MirrorPad", "Pad", "PadV2"),
        *("RealDiv", "ResizeNearestNeighbor", "Rsqrt", "Selu", "Sigmoid", "Softmax", "Sub", "Tanh"),
        *("BatchNormWithGlobalNormalization", "Squeeze", "ExpandDims", "Transpose"),
    ),
    "no processor has an eight-bit kernel for it",
)
NO_KERNEL["DepthwiseConv2dNative"] = (
    "its eight-bit kernel exists in few builds, and reads codes in another way"
)
"""Ops one may expect here, and why they stay in float."""


def data_inputs(node: Node) -> tuple[Value, ...]:
    """The inputs that are to be coded, in order."""
    if node.op == "Concat":
        return node.inputs[1:]
    if node.op == "ConcatV2":
        return node.inputs[:-1]
    plain = EIGHT_BIT[node.op].plain
    return tuple(v for i, v in enumerate(node.inputs) if i != plain)


def attrs_of(node: Node) -> dict[str, Attr]:
    """The attributes of a node's eight-bit form; those it leaves out have their defaults."""
    form = EIGHT_BIT[node.op]
    usual = defaults_of(node.op) or {}
    found = {name: node.attrs.get(name, usual.get(name)) for name in form.copied}
    kept = {name: value for name, value in found.items() if value is not None}
    if form is _CONCAT:
        kept["N"] = len(data_inputs(node))
    if kept.get("Tshape") == INT32:
        del kept["Tshape"]
    return {**form.types, **kept}
