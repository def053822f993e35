"""Quantization parameters of the values of a graph, where they are known before anything runs.

A quantized tensor is values plus two scalars, the ends of its range. The ends are known when they are
constants or follow from constants by what the ops say of the ranges of their results: a convolution's from
those of its operands, a pool's from its input's. Those measured in each run (RequantizationRange, Min and Max
of the values) are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from thinflow.errors import ThinflowError
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import runnable
from thinflow.ir.types import QINT32, QUINT8, DType
from thinflow.ops import registry
from thinflow.ops._quantized import codes_of, zero_code
from thinflow.ops.traits import Trait, has

F32 = np.float32
# Scales below the smallest normal number lose digits, and kernels flush them to zero.
_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class QuantParams:
    """A quantized value stands for (value - zero_point) * scale, as the mode MIN_FIRST has it.

    Attributes:
        low, high: the ends of the range as the graph states them, float32 values.
        scale: above 0.
        zero_point: not saturated: none of the quantized values if the range does not reach 0.
        dtype: the type of the values (quint8, qint8, qint32...).
    """

    low: float
    high: float
    scale: float
    zero_point: int
    dtype: DType

    @property
    def holds_zero(self) -> bool:
        """True if the zero point is a quantized value, as integer kernels need it."""
        codes = codes_of(self.dtype.numpy())
        return codes.low <= self.zero_point <= codes.high


class QuantizedOperand(NamedTuple):
    """A quantized operand of a node: where its values and the ends of its range are among the inputs."""

    values: int
    low: int
    high: int


def params_of_range(low: float, high: float, dtype: DType) -> QuantParams | None:
    """The parameters of a range; None if it is empty, too narrow for normal numbers, or not finite."""
    least, most = F32(low), F32(high)
    codes = codes_of(dtype.numpy())
    with np.errstate(all="ignore"):
        width = float(F32(most - least))
    if not (np.isfinite(width) and width / (codes.steps - 1) >= _TINY):
        return None
    # By the kernels' own rounding, so that the parameters are those that a run uses.
    zero = zero_code(least, most, dtype.numpy())
    return QuantParams(float(least), float(most), width / (codes.steps - 1), zero, dtype)


# Where ops have the ends of their ranges: right behind the values, behind a second
# input, or behind both operands.
_ONE = (QuantizedOperand(0, 1, 2),)
_ONE_AND_MORE = (QuantizedOperand(0, 2, 3),)
_TWO = (QuantizedOperand(0, 2, 3), QuantizedOperand(1, 4, 5))
_OPERANDS: dict[str, tuple[QuantizedOperand, ...]] = {
    **dict.fromkeys(("Dequantize", "Requantize", "RequantizationRange", "QuantizeDownAndShrinkRange"), _ONE),
    **dict.fromkeys(("QuantizedRelu", "QuantizedRelu6", "QuantizedMaxPool", "QuantizedAvgPool"), _ONE),
    **dict.fromkeys(("QuantizedReluX", "QuantizedReshape", "QuantizedResizeBilinear"), _ONE_AND_MORE),
    **dict.fromkeys(("QuantizedConv2D", "QuantizedDepthwiseConv2D", "QuantizedMatMul"), _TWO),
    **dict.fromkeys(("QuantizedBiasAdd", "QuantizedAdd", "QuantizedMul"), _TWO),
    "QuantizedInstanceNorm": _ONE,
    "QuantizedBatchNormWithGlobalNormalization": tuple(
        QuantizedOperand(i, i + 1, i + 2) for i in range(0, 15, 3)
    ),
}
_RESULT_TYPES: dict[str, tuple[str, DType]] = {
    **dict.fromkeys(
        ("QuantizedConv2D", "QuantizedDepthwiseConv2D", "QuantizedBiasAdd"), ("out_type", QINT32)
    ),
    "QuantizedBatchNormWithGlobalNormalization": ("out_type", QINT32),
    **dict.fromkeys(("QuantizedMatMul", "QuantizedAdd", "QuantizedMul"), ("Toutput", QINT32)),
    **dict.fromkeys(("QuantizedRelu", "QuantizedRelu6", "QuantizedReluX"), ("out_type", QUINT8)),
    **dict.fromkeys(("Requantize", "QuantizeDownAndShrinkRange"), ("out_type", QUINT8)),
    **dict.fromkeys(("QuantizedMaxPool", "QuantizedAvgPool", "QuantizedReshape"), ("T", QUINT8)),
    **dict.fromkeys(("QuantizedResizeBilinear", "QuantizedConcat", "QuantizeV2"), ("T", QUINT8)),
    "QuantizedInstanceNorm": ("T", QUINT8),
}
"""Op with the results values, low, high -> the attribute that names the type of values, and its default."""

_HANDS_RANGE_ON = frozenset(
    {
        *("QuantizedRelu", "QuantizedRelu6", "QuantizedReluX", "QuantizedMaxPool", "QuantizedAvgPool"),
        *("QuantizedReshape", "QuantizedResizeBilinear"),
    }
)
_PROBED = {
    "QuantizedConv2D": (4, 4),
    "QuantizedDepthwiseConv2D": (4, 4),
    "QuantizedMatMul": (2, 2),
    "QuantizedBiasAdd": (2, 1),
    "QuantizedAdd": (1, 1),
    "QuantizedMul": (1, 1),
    "QuantizedBatchNormWithGlobalNormalization": (4, 1, 1, 1, 1),
}
"""Ops whose result has a range that depends on the operands' ranges alone -> the ranks of their operands."""
_SCALAR_OPS = frozenset(
    {"Maximum", "Minimum", "Neg", "Abs", "Add", "AddV2", "Sub", "Mul", "Reshape", "Squeeze"}
)
_LARGEST = 64  # elements of a constant that may be a range


def operands(node: Node) -> tuple[QuantizedOperand, ...]:
    """The quantized operands of a node, () for other ops and for nodes with too few inputs."""
    if node.op == "QuantizedConcat":
        n = (len(node.inputs) - 1) // 3
        return tuple(QuantizedOperand(1 + i, 1 + n + i, 1 + 2 * n + i) for i in range(n))
    found = _OPERANDS.get(node.op, ())
    return found if all(c.high < len(node.inputs) for c in found) else ()


def infer_quant_params(graph: Graph) -> Mapping[Value, QuantParams]:
    """The quantization parameters of every quantized value whose range is known. O(nodes + edges).

    Values that are stored or fed have the range that their readers give them. A value whose readers name
    another range than its producer, or different ones, is missing. So is one that is quantized in another
    mode than MIN_FIRST.
    """
    scalars = _known_scalars(graph)
    # None stays in it as a mark: nothing found later brings such a value back.
    parameters: dict[Value, QuantParams | None] = {}
    for node in graph:
        if node.op in _RESULT_TYPES:
            made = _made(scalars, node.output(1), node.output(2), result_type(node))
            _note(parameters, node.output(), made if _is_min_first(node) else None)
    for node in graph:
        for value, low, high in _read(node):
            element = quantized_type(value)
            _note(parameters, value, None if element is None else _made(scalars, low, high, element))
    return {value: found for value, found in parameters.items() if found is not None}


def quantized_type(value: Value) -> DType | None:
    """The quantized type of a value, by its producer's attributes; None if it is not quantized."""
    node = value.node
    if node.op in _RESULT_TYPES and value.port == 0:
        return result_type(node)
    declared = node.attrs.get("dtype", value.dtype)
    if node.tensor is not None:
        declared = node.tensor.dtype
    elif node.op == "Identity":
        declared = node.attrs.get("T", value.dtype)
    return declared if isinstance(declared, DType) and declared.is_quantized else None


def result_type(node: Node) -> DType:
    """The type of the quantized values that an op with the results values, low, high makes."""
    name, usual = _RESULT_TYPES[node.op]
    declared = node.attrs.get(name, usual)
    return declared if isinstance(declared, DType) else usual


def _is_min_first(node: Node) -> bool:
    """True if a node reads and makes quantized values in the mode MIN_FIRST."""
    if node.op not in ("QuantizeV2", "Dequantize"):
        return True
    return bool(node.get("mode", "MIN_COMBINED") == "MIN_FIRST" and node.get("axis", -1) < 0)


def _read(node: Node) -> Iterator[tuple[Value, Value, Value]]:
    if _is_min_first(node):
        yield from ((node.inputs[c.values], node.inputs[c.low], node.inputs[c.high]) for c in operands(node))


def _made(scalars: Mapping[Value, Any], low: Value, high: Value, element: DType) -> QuantParams | None:
    if low not in scalars or high not in scalars:
        return None
    return params_of_range(float(scalars[low].reshape(())), float(scalars[high].reshape(())), element)


def _note(parameters: dict[Value, QuantParams | None], value: Value, found: QuantParams | None) -> None:
    """Keep parameters; two that differ cancel each other."""
    parameters[value] = found if parameters.get(value, found) == found else None


def _known_scalars(graph: Graph) -> dict[Value, Any]:
    """The range ends that are known: constants of one element, and what ops make of them."""
    known: dict[Value, Any] = {}
    for node in runnable(graph):
        if any(value.is_graph_input for value in node.outputs):
            continue
        try:
            found = _results(node, known)
        except (ThinflowError, *registry.RULE_ERRORS):  # such a node fails when it runs
            continue
        known.update(
            (node.output(port), value)
            for port, value in found.items()
            if isinstance(value, np.ndarray) and value.size == 1 and value.dtype == F32
        )
    return known


def _results(node: Node, known: Mapping[Value, Any]) -> dict[int, Any]:
    """Known values of a node's outputs, by port."""
    tensor, inputs = node.tensor, node.inputs
    if tensor is not None:
        is_small = tensor.size is not None and tensor.size <= _LARGEST
        return {0: np.asarray(tensor.numpy())} if is_small else {}
    if node.op in _RESULT_TYPES:
        return _ends(node, known)
    if has(node.op, Trait.PASSES_THROUGH) and inputs:
        return {0: known[inputs[0]]} if inputs[0] in known else {}
    if node.op not in _SCALAR_OPS or not inputs or inputs[0] not in known:
        return {}
    if node.op in ("Reshape", "Squeeze"):
        return {0: known[inputs[0]]}
    if not all(v in known for v in inputs):
        return {}
    return {0: np.asarray(registry.call_kernel(registry.get(node.op), [known[v] for v in inputs], {})[0])}


def _ends(node: Node, known: Mapping[Value, Any]) -> dict[int, Any]:
    """The ends of a quantized result's range, ports 1 and 2."""
    inputs = node.inputs
    if node.op in _HANDS_RANGE_ON or node.op == "Requantize":
        low, high = inputs[3:5] if node.op == "Requantize" else inputs[operands(node)[0].low :][:2]
        return {1: known[low], 2: known[high]} if low in known and high in known else {}
    arguments = _probe(node, known)
    if arguments is None:
        return {}
    # Attributes with which operands of one element fit; the range of the result depends on none of them.
    attrs = {**node.attrs, "padding": b"VALID", "strides": (1, 1, 1, 1), "dilations": (1, 1, 1, 1)}
    with np.errstate(all="ignore"):
        results = registry.call_kernel(registry.get(node.op), arguments, attrs)
    return {1: np.asarray(results[1], F32), 2: np.asarray(results[2], F32)}


def _probe(node: Node, known: Mapping[Value, Any]) -> list[Any] | None:
    """Inputs of a node: its ranges, and the smallest operands; None if they do not tell the range."""
    if node.op == "QuantizeV2":
        ends = [known.get(v) for v in node.inputs[1:3]]
        is_known = all(end is not None for end in ends) and node.get("axis", -1) < 0
        return [np.zeros((1,), F32), *ends] if is_known else None
    places = operands(node)
    ranks = _PROBED.get(node.op, (1,) * len(places))
    if node.op == "QuantizedInstanceNorm":
        ranks = (4,)
    if not places or (node.op not in _PROBED and not _is_settled(node)):
        return None
    # The kernel itself tells the range, from operands of one element: no rule is written down twice.
    arguments: list[Any] = [np.zeros((), np.int32)] * len(node.inputs)
    for place, rank in zip(places, ranks, strict=True):
        low, high = node.inputs[place.low], node.inputs[place.high]
        element = quantized_type(node.inputs[place.values])
        if low not in known or high not in known or element is None:
            return None
        arguments[place.values] = np.zeros((1,) * rank, element.numpy())
        arguments[place.low], arguments[place.high] = known[low], known[high]
    return arguments


def _is_settled(node: Node) -> bool:
    """True if ranges of the operands, or attributes, settle that of the result."""
    return node.op == "QuantizedConcat" or (
        node.op == "QuantizedInstanceNorm" and bool(node.get("output_range_given", False))
    )
