"""Element types of values whose op nobody knows, told by the ops that read them."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.ir.graph import Node, Value
from thinflow.ir.types import UNKNOWN, DType, TensorSpec

_TYPED = frozenset(
    {"Conv2D", "Conv2DBackpropInput", "Conv3D", "DepthwiseConv2dNative", "MatMul", "BatchMatMul"}
    | {"BatchMatMulV2", "BiasAdd", "BiasAddV1", "Add", "AddV2", "AddN", "Sub", "Mul", "Div", "RealDiv"}
    | {"Maximum", "Minimum", "SquaredDifference", "Pow", "Relu", "Relu6", "Elu", "Selu", "LeakyRelu"}
    | {"Sigmoid", "Tanh", "Softplus", "Softmax", "LogSoftmax", "Exp", "Log", "Sqrt", "Rsqrt", "Square"}
    | {"Neg", "Abs", "Identity", "Reshape", "Squeeze", "ExpandDims", "Transpose", "Mean", "Sum", "Max", "Min"}
    | {"MaxPool", "AvgPool", "LRN", "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "Pad", "PadV2"}
    | {"MirrorPad", "StridedSlice", "Slice", "Unpack", "Pack", "ArgMax", "Tile", "DepthToSpace"}
    | {"BatchNormWithGlobalNormalization", "SpaceToDepth", "ResizeBilinear", "ResizeNearestNeighbor"}
)
"""Ops whose first input has the type that their attribute T names."""
_EVERY = frozenset({"Add", "AddV2", "AddN", "Sub", "Mul", "Div", "RealDiv", "Maximum", "Minimum", "Pack"})
"""Of these, the ones of which that holds for every input."""


def unknown_specs(node: Node) -> tuple[TensorSpec, ...]:
    """Specs of the outputs that a node of an unknown op is seen to have: the types their readers ask for."""
    return tuple(TensorSpec(_asked_for(value)) for value in node.outputs)


def typed_inputs(node: Node, inputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Specs of a node's inputs, with the type it says they have where they come without one."""
    if all(spec.dtype is not None for spec in inputs):
        return inputs
    return [
        TensorSpec(_stated(node, i), spec.shape) if spec is UNKNOWN or spec.dtype is None else spec
        for i, spec in enumerate(inputs)
    ]


def _asked_for(value: Value) -> DType | None:
    found = {_stated(use.node, use.index) for use in value.uses} - {None}
    return found.pop() if len(found) == 1 else None


def _stated(node: Node, index: int) -> DType | None:
    """The type an op says its input has; None if it says none."""
    if node.op not in _TYPED or (index and node.op not in _EVERY):
        return None
    element = node.attrs_view.get("T")
    return element if isinstance(element, DType) else None
