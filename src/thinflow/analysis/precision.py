"""The numbers a model computes in, and how far rounding alone moves its answers then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from thinflow.errors import ThinflowError
from thinflow.ir.function import reachable
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import BFLOAT16, FLOAT, HALF, INT8, UINT8, DType, dtype
from thinflow.ops.traits import Trait, has

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
_AS_IT_RUNS = "(dynamic range)"
_SMALL = frozenset({INT8, UINT8, dtype("int4"), dtype("uint4"), dtype("int2")})
_DEQUANTIZERS = frozenset({"tfl.DEQUANTIZE", "onnx.DequantizeLinear", "onnx.Cast"})


def precision(graph: Graph) -> str:
    """A few words, such as "int8", "float32 with float16 weights", "int8, 2 of 30 heavy ops in float32"."""
    kinds = Counter(_kind(n, _HEAVY[n.op]) for n in graph if n.op in _HEAVY and len(n.inputs) > 1)
    if not kinds:
        element = next((v.dtype for v in (*graph.inputs, *graph.outputs) if v.dtype is not None), None)
        return _name(element)
    (main, count), total = kinds.most_common(1)[0], sum(kinds.values())
    if count == total:
        return main
    others = ", ".join(f"{n} of {total} heavy ops in {kind}" for kind, n in kinds.most_common()[1:])
    return f"{main}, {others}"


def _kind(node: Node, place: int) -> str:
    inputs = node.inputs
    x = _stored(inputs[min(place, len(inputs) - 1)])
    w = _stored(inputs[1])
    # What open sizes leave unknown is of the weights' type, where that is one to compute in.
    x = w if x is None and w is not None and w not in _SMALL else x
    # Their activations are integers only because the file quantizes them while it runs.
    if node.op in ("onnx.ConvInteger", "onnx.MatMulInteger"):
        return f"float32 with int8 weights {_AS_IT_RUNS}"
    # LiteRT's 16x8 quantization.
    if x is _INT16 and w in _SMALL:
        return "int16 with int8 weights"
    if x in _SMALL:
        return _name(x)
    if w in _SMALL:
        return f"{_name(x)} with {_name(w)} weights" + (
            f" {_AS_IT_RUNS}" if inputs[1].node.op == "Const" else ""
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


def quantizes_as_it_runs(graph: Graph) -> bool:
    """True if a file keeps weights in eight bits and brings what they are multiplied with to as many, in each
    run anew. O(nodes).
    """
    return any(map(is_quantized_as_it_runs, graph))


def is_quantized_as_it_runs(node: Node) -> bool:
    """True if a node of a file is one of those, see `quantizes_as_it_runs`."""
    return node.op in _HEAVY and len(node.inputs) > 1 and _AS_IT_RUNS in _kind(node, _HEAVY[node.op])


def _name(element: DType | None) -> str:
    names = {FLOAT: "float32", HALF: "float16", None: "unknown numbers"}
    return names.get(element) or str(element)


# --- floats of fewer digits ---------------------------------------------------------------------------------


DEFAULT_TOLERANCE = 1e-4
"""Relative difference up to which answers of float models count as the same, computed in one runtime."""
# float32 rounds to 6e-8. Sums of n products in another order, or with fused multiply-add, differ by up to n
# times that: by 1e-3 for n = 16,000. What a wrong op gives is of the size of the values.
RUNTIMES_TOLERANCE = 1e-3
"""The same for what two runtimes compute: when a file is converted and proven, and when it is compared."""
AS_IT_RUNS_TOLERANCE = 0.1
"""The same where one of them brings activations to eight bits in each run: 0.002 for a keyword network, 0.026
for a recurrent one that removes noise."""
# float16 stores 10 bits of the mantissa, bfloat16 7.
_STEPS = {HALF: 2.0**-10, BFLOAT16: 2.0**-7}
"""Distance of 1 to the next number."""
_SPARE = 8
"""Steps by which rounding may add up. An LSTM and a GRU over six steps each in bfloat16 make 4.4."""


def computed_in(*graphs: Graph) -> DType | None:
    """The coarsest of half and bfloat16 that one of the graphs computes in; None if none does.

    Weights that are only kept in it do not count. O(nodes, those of functions included).
    """
    types = {t for graph in graphs for node in _nodes(graph) for t in _types(node)}
    return max(types & _STEPS.keys(), key=lambda t: _STEPS[t], default=None)


def usual_tolerance(*graphs: Graph, runtimes: int = 2) -> tuple[float, str]:
    """A relative difference up to which answers may differ, and why it is not the usual one; "" if it is.

    Some steps of the coarsest type: what one runtime rounds after each op, another keeps in more digits.

    Args:
        graphs: those that are not run from their files.
        runtimes: how many compute.
    """
    usual = DEFAULT_TOLERANCE if runtimes == 1 else RUNTIMES_TOLERANCE
    element = computed_in(*graphs)
    if element is None:
        return usual, ""
    tolerance = max(_SPARE * _STEPS[element], usual)
    return tolerance, f"a model computes in {element}, and the tolerance is {_SPARE} steps of that type"


def _nodes(graph: Graph) -> Iterator[Node]:
    yield from graph
    try:
        names = sorted(reachable(graph))
    except ThinflowError:  # a damaged library is told by whoever runs it
        return
    for name in names:
        yield from graph.functions[name].graph


def _types(node: Node) -> Iterator[DType]:
    if (
        # Constants, casts and what hands a value on store such numbers; they do not round anything anew.
        not node.inputs
        or node.op in ("Cast", "Dequantize")
        or has(node.op, Trait.IDENTITY | Trait.PLACEHOLDER)
    ):
        return
    for attr in node.attrs_view.values():
        yield from (t for t in (attr if isinstance(attr, tuple) else (attr,)) if isinstance(t, DType))
