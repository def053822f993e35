"""In which numbers a .tflite or .onnx model computes, told by its heavy ops."""

from __future__ import annotations

from collections import Counter

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import FLOAT, HALF, INT8, UINT8, DType, dtype

_INT16 = dtype("int16")
_HEAVY = {
    "tfl.CONV_2D": 0,
    "tfl.DEPTHWISE_CONV_2D": 0,
    "tfl.FULLY_CONNECTED": 0,
    "tfl.BATCH_MATMUL": 0,
    "tfl.CONV_3D": 0,
    "tfl.TRANSPOSE_CONV": 2,
    "tfl.UNIDIRECTIONAL_SEQUENCE_LSTM": 0,
    "onnx.Conv": 0,
    "onnx.ConvTranspose": 0,
    "onnx.MatMul": 0,
    "onnx.Gemm": 0,
    "onnx.LSTM": 0,
    "onnx.GRU": 0,
    "onnx.QLinearConv": 0,
    "onnx.QLinearMatMul": 0,
    "onnx.ConvInteger": 0,
    "onnx.MatMulInteger": 0,
}
"""Op -> number of its activations among the inputs; the weights are at 1."""
_SMALL = frozenset({INT8, UINT8, dtype("int4"), dtype("uint4"), dtype("int2")})
_DEQUANTIZERS = frozenset({"tfl.DEQUANTIZE", "onnx.DequantizeLinear", "onnx.Cast"})


def precision(graph: Graph) -> str:
    """A few words, such as "int8", "float32 with float16 weights", "int8, 2 of 30 heavy ops in float32"."""
    kinds = Counter(_kind(n, _HEAVY[n.op]) for n in graph if n.op in _HEAVY and len(n.inputs) > 1)
    if not kinds:
        found = next((v.dtype for v in (*graph.inputs, *graph.outputs) if v.dtype is not None), None)
        return _name(found)
    (main, count), total = kinds.most_common(1)[0], sum(kinds.values())
    if count == total:
        return main
    others = ", ".join(f"{n} of {total} heavy ops in {kind}" for kind, n in kinds.most_common()[1:])
    return f"{main}, {others}"


def _kind(node: Node, place: int) -> str:
    inputs = node.inputs
    x = _stored(inputs[min(place, len(inputs) - 1)])
    w = _stored(inputs[1])
    # Their activations are integers only because the file quantizes them while it runs.
    if node.op in ("onnx.ConvInteger", "onnx.MatMulInteger"):
        return "float32 with int8 weights (dynamic range)"
    # LiteRT's 16x8 quantization.
    if x is _INT16 and w in _SMALL:
        return "int16 with int8 weights"
    if x in _SMALL:
        return _name(x)
    if w in _SMALL:
        return f"{_name(x)} with {_name(w)} weights" + (
            " (dynamic range)" if inputs[1].node.op == "Const" else ""
        )
    if w is HALF and x is not HALF:
        return f"{_name(x)} with float16 weights"
    return _name(x)


def _stored(value: Value) -> DType | None:
    """The type of a value, or of what was dequantized to give it."""
    node = value.node
    if node.op in _DEQUANTIZERS and node.inputs and node.inputs[0].dtype is not None:
        source = node.inputs[0]
        is_constant = source.node.tensor is not None
        # A float16 activation is cast for other reasons; a float16 constant is a weight that is stored so.
        if source.dtype in _SMALL or (is_constant and source.dtype is HALF):
            return source.dtype
    return value.dtype


def _name(element: DType | None) -> str:
    names = {FLOAT: "float32", HALF: "float16", None: "unknown numbers"}
    return names.get(element) or str(element)
