"""Quantization parameters of the values of a graph, where they are known before anything runs.

A quantized tensor is values plus two scalars, the ends of its range. The ends are known when they are
constants or follow from constants by what the ops say of the ranges of their results: a convolution's from
those of its operands, a pool's from its input's. Those measured in each run (RequantizationRange, Min and Max
of the values) are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.errors import ThinflowError
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import runnable
from thinflow.ir.types import DType
from thinflow.ops import registry
from thinflow.ops._quantized import (
    QuantizedOp,
    QuantizedOperand,
    QuantizedReader,
    codes_of,
    zero_code,
)
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


_LARGEST = 64  # elements of a constant that may be a range


def operands(node: Node) -> tuple[QuantizedOperand, ...]:
    """The quantized operands of a node, () for other ops and for nodes with too few inputs."""
    if node.op == "QuantizedConcat":
        n = (len(node.inputs) - 1) // 3
        return tuple(QuantizedOperand(1 + i, 1 + n + i, 1 + 2 * n + i) for i in range(n))
    definition = registry.find(node.op)
    if definition is None or not issubclass(definition, QuantizedReader):
        return ()
    places = definition.operands
    return places if all(place.high < len(node.inputs) for place in places) else ()


def _quantized_op(node: Node) -> type[QuantizedOp] | None:
    """The definition of an op with the results values, low, high; None for another."""
    definition = registry.find(node.op)
    return definition if definition is not None and issubclass(definition, QuantizedOp) else None


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
        element = result_type(node)
        if element is not None:
            result = _params_between(scalars, node.output(1), node.output(2), element)
            _note(parameters, node.output(), result if _is_min_first(node) else None)
    for node in graph:
        for value, low, high in _read(node):
            element = quantized_type(value)
            _note(
                parameters, value, None if element is None else _params_between(scalars, low, high, element)
            )
    return {value: params for value, params in parameters.items() if params is not None}


def quantized_type(value: Value) -> DType | None:
    """The quantized type of a value, by its producer's attributes; None if it is not quantized."""
    node = value.node
    if value.port == 0 and (element := result_type(node)) is not None:
        return element
    declared = node.attrs.get("dtype", value.dtype)
    if node.tensor is not None:
        declared = node.tensor.dtype
    elif node.op == "Identity":
        declared = node.attrs.get("T", value.dtype)
    return declared if isinstance(declared, DType) and declared.is_quantized else None


def result_type(node: Node) -> DType | None:
    """The type of the quantized values that a node gives beside their range; None if it gives none."""
    definition = _quantized_op(node)
    if definition is None:
        return None
    attr, default = definition.result_type
    declared = node.attrs.get(attr, default)
    return declared if isinstance(declared, DType) else default


def _is_min_first(node: Node) -> bool:
    """True if a node reads and makes quantized values in the mode MIN_FIRST."""
    if not has(node.op, Trait.QUANTIZE | Trait.DEQUANTIZE):
        return True
    return bool(node.get("mode", "MIN_COMBINED") == "MIN_FIRST" and node.get("axis", -1) < 0)


def _read(node: Node) -> Iterator[tuple[Value, Value, Value]]:
    if _is_min_first(node):
        yield from ((node.inputs[c.values], node.inputs[c.low], node.inputs[c.high]) for c in operands(node))


def _params_between(
    scalars: Mapping[Value, Any], low: Value, high: Value, element: DType
) -> QuantParams | None:
    """The parameters of a range whose ends are known."""
    if low not in scalars or high not in scalars:
        return None
    return params_of_range(float(scalars[low].reshape(())), float(scalars[high].reshape(())), element)


def _note(parameters: dict[Value, QuantParams | None], value: Value, params: QuantParams | None) -> None:
    """Keep parameters; two that differ cancel each other."""
    parameters[value] = params if parameters.get(value, params) == params else None


def _known_scalars(graph: Graph) -> dict[Value, Any]:
    """The range ends that are known: constants of one element, and what ops make of them."""
    known: dict[Value, Any] = {}
    for node in runnable(graph):
        if any(value.is_graph_input for value in node.outputs):
            continue
        try:
            results = _results(node, known)
        except (ThinflowError, *registry.RULE_ERRORS):  # such a node fails when it runs
            continue
        known.update(
            (node.output(port), value)
            for port, value in results.items()
            if isinstance(value, np.ndarray) and value.size == 1 and value.dtype == F32
        )
    return known


def _results(node: Node, known: Mapping[Value, Any]) -> dict[int, Any]:
    """Known values of a node's outputs, by port."""
    tensor, inputs = node.tensor, node.inputs
    if tensor is not None:
        is_small = tensor.size is not None and tensor.size <= _LARGEST
        return {0: np.asarray(tensor.numpy())} if is_small else {}
    if (definition := _quantized_op(node)) is not None:
        return _ends(node, definition, known)
    if not inputs or inputs[0] not in known:
        return {}
    if has(node.op, Trait.PASSES_THROUGH | Trait.RESHAPE):
        return {0: known[inputs[0]]}
    if not has(node.op, Trait.ELEMENTWISE) or not all(v in known for v in inputs):
        return {}
    with np.errstate(all="ignore"):
        result = registry.call_kernel(registry.get(node.op), [known[v] for v in inputs], node.attrs)[0]
    return {0: np.asarray(result)}


def _ends(node: Node, definition: type[QuantizedOp], known: Mapping[Value, Any]) -> dict[int, Any]:
    """The ends of a quantized result's range, ports 1 and 2."""
    inputs = node.inputs
    if has(node.op, Trait.KEEPS_RANGE) or node.op == "Requantize":
        low, high = inputs[3:5] if node.op == "Requantize" else inputs[operands(node)[0].low :][:2]
        return {1: known[low], 2: known[high]} if low in known and high in known else {}
    arguments = _probe(node, definition, known)
    if arguments is None:
        return {}
    # Attributes with which operands of one element fit; the range of the result depends on none of them.
    attrs = {**node.attrs, "padding": b"VALID", "strides": (1, 1, 1, 1), "dilations": (1, 1, 1, 1)}
    with np.errstate(all="ignore"):
        results = registry.call_kernel(definition, arguments, attrs)
    return {1: np.asarray(results[1], F32), 2: np.asarray(results[2], F32)}


def _probe(node: Node, definition: type[QuantizedOp], known: Mapping[Value, Any]) -> list[Any] | None:
    """Inputs of a node: its ranges, and the smallest operands; None if they do not tell the range."""
    if node.op == "QuantizeV2":
        ends = [known.get(v) for v in node.inputs[1:3]]
        is_known = all(end is not None for end in ends) and node.get("axis", -1) < 0
        return [np.zeros((1,), F32), *ends] if is_known else None
    places = operands(node)
    ranks = definition.operand_ranks or _settled_ranks(node, len(places))
    if not places or not ranks:
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


def _settled_ranks(node: Node, count: int) -> tuple[int, ...]:
    """The ranks of the operands, if attributes settle the result's range or it is the union of theirs."""
    if node.op == "QuantizedConcat":
        return (1,) * count
    return (4,) if node.get("output_range_given", False) else ()
