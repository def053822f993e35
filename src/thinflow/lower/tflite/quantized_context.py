"""Quantization parameters of a graph's values, and int8 tensors of a LiteRT program that have them.

Every quantized tensor is int8 inside of a program, whatever its type in the graph: accelerated kernels are
many times faster for int8 than for uint8. Values of quint8 are moved by 128, and so is their zero point,
which changes no real value. Where they enter or leave the program they are uint8, as the graph says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from thinflow.analysis.quant_params import (
    QuantParams,
    infer_quant_params,
    operands,
    params_of_range,
    quantized_type,
)
from thinflow.decompose.complex import has_form
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import INT8, QINT32
from thinflow.lower import rules
from thinflow.lower.operands import require
from thinflow.lower.quantized.accumulators import RequantTarget
from thinflow.lower.slots import Complex
from thinflow.lower.tflite.builder import Builder
from thinflow.ops._quantized import codes_of
from thinflow.ops.traits import Trait, has
from thinflow.tflite.model import Operator, Quantization, Tensor
from thinflow.typing import Array

FREEZE = "freeze_requantization_ranges"
_HINT = (
    "run typical inputs, then the transform 'freeze_requantization_ranges' with the ranges they showed, by "
    "which the answers change a little: docs/quantization.md"
)

_EIGHT_BIT = Trait.QUANTIZED | Trait.QUANTIZE | Trait.DEQUANTIZE | Trait.MEASURES_RANGE


def takes_quantized(op: str) -> bool:
    """True if the rule for an op takes quantized values as they stand in the program."""
    return has(op, _EIGHT_BIT) and rules.find(op, "tflite") is not None


def params_of(b: Builder, value: Value, reader: Node | None = None) -> QuantParams:
    """The quantization parameters of a value whose range is known and holds 0.

    Args:
        b: knows the graph.
        value: quantized.
        reader: who reads it: constants may be shared by nodes that give them different ranges.

    Raises:
        UnsupportedOp: the range is not known, or does not hold 0.
    """
    params = b.quantized.params(value) or (None if reader is None else _constant_params(value, reader))
    if params is None:
        raise unfixed_range(value)
    require(
        params.holds_zero,
        f"the range of '{value.name}', {params.low:.6g} to {params.high:.6g}, does not hold 0",
        hint="integer kernels need a zero point; give the layer a range that holds it",
    )
    return params


def _constant_params(value: Value, reader: Node) -> QuantParams | None:
    """The quantization parameters that a node gives a constant by constants."""
    constant = value.node.tensor
    # Constants have no producer that tells their range, only readers that name one each.
    for place in operands(reader) if constant is not None else ():
        ends = [reader.inputs[i].node.tensor for i in (place.low, place.high)]
        if reader.inputs[place.values] is value and constant is not None and None not in ends:
            low, high = (float(np.asarray(end.numpy()).reshape(-1)[0]) for end in ends if end is not None)
            return params_of_range(low, high, constant.dtype)
    return None


def unfixed_range(value: Value) -> UnsupportedOp:
    """The refusal of values whose range is measured while the model runs."""
    return UnsupportedOp(
        f"the range of '{value.name}' is found anew in every run, and LiteRT's integer kernels need it fixed:"
        f" see the transform '{FREEZE}'",
        hint=_HINT,
    )


def parameters_of(known: QuantParams | RequantTarget) -> Quantization:
    """Quantization parameters as those of an int8 tensor."""
    to = known if isinstance(known, RequantTarget) else RequantTarget.of(known)
    return Quantization(np.array([to.scale], np.float32), np.array([to.zero_point - 128], np.int64))


def quantized_result(b: Builder, known: QuantParams | RequantTarget) -> Tensor:
    """A new int8 tensor for the result of the current node."""
    y = b.value(b.node.output(), element=INT8)
    y.quantization = parameters_of(known)
    return y


def quantized_step(b: Builder, suffix: str, shape: tuple[int | None, ...] | None, like: Tensor) -> Tensor:
    """A new int8 tensor on the way, with the quantization parameters of another one."""
    y = b.own(suffix, shape, INT8)
    y.quantization = like.quantization
    return y


def as_int8(b: Builder, x: Tensor, params: QuantParams) -> Tensor:
    """Quantized values as an int8 tensor that states its parameters."""
    if x.is_constant:
        return _constant(b, x, params)
    if x.dtype is INT8 or x.dtype.name == "qint8":
        x.dtype, x.quantization = INT8, x.quantization or parameters_of(params)  # stored alike
        return x
    found = b.quantized.signed.get(x)
    if found is None:
        signed = parameters_of(params)
        # QUANTIZE between uint8 and int8 of one scale, with zero points 128 apart, flips the top bit of each
        # value.
        x.quantization = Quantization(signed.scale, signed.zero_point + 128)
        found = b.own("int8", x.shape, INT8)
        found.quantization = signed
        b.append("QUANTIZE", [x], [found], {})
        b.quantized.signed[x] = found
    return found


def centred(x: Tensor, params: QuantParams) -> Array:
    """A constant less its zero point, float64."""
    return np.asarray(x.array()).astype(np.float64) - params.zero_point


def _constant(b: Builder, x: Tensor, params: QuantParams) -> Tensor:
    # int16, or differences of uint8 would wrap around; qint8 has a lowest value of -128, which moves nothing.
    values = np.asarray(x.array()).astype(np.int16) - (128 + codes_of(params.dtype.numpy()).low)
    y = b.const(values.astype(np.int8), "codes", INT8)
    y.quantization = parameters_of(params)
    return y


def stored(b: Builder, value: Value, x: Any) -> Any:
    """A value in its own type: for ops that know no quantized values, and as a result.

    Raises:
        UnsupportedOp: it is nothing that can be stored.
    """
    if isinstance(x, Complex):
        raise UnsupportedOp("LiteRT cannot hand out complex numbers that it has computed with")
    if not isinstance(x, Tensor):
        return x.stored(b, value) if hasattr(x, "stored") else x
    spec = b.spec(value).dtype
    # A tensor that came from outside learns its parameters from the graph; its bytes are those that were fed.
    params = b.quantized.params(value) if x.dtype.is_quantized and x.quantization is None else None
    if params is not None and params.holds_zero and not x.is_constant:
        signed = parameters_of(params)
        x.quantization = Quantization(signed.scale, signed.zero_point + 128 * (x.dtype.name == "quint8"))
    if x.dtype is not INT8 or spec is None or spec.name not in ("quint8", "uint8"):
        return x
    found = b.quantized.unsigned.get(x)
    if found is None:
        found = b.own("uint8", x.shape, spec)
        q = x.quantization or Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))
        found.quantization = Quantization(q.scale, q.zero_point + 128)
        b.append("QUANTIZE", [x], [found], {})
        b.quantized.unsigned[x] = found
    return found


def is_quantized(operator: Operator) -> bool:
    """True if an operator reads or writes quantized values."""
    return any(t is not None and t.quantization is not None for t in (*operator.inputs, *operator.outputs))


# ---- Values that exist only between nodes that LiteRT computes together.
#
# They are quantized values whose range only those nodes know, and complex numbers in parts.


def inner_values(graph: Graph) -> set[Value]:
    """32-bit values, and values without a fixed range, between ops that LiteRT can compute together.

    Their producers and readers have to be lowered as one. Where one of them cannot be, none of what hangs
    together with it is here. O(nodes + edges).
    """
    found = _complex_values(graph)
    readers = [node for node in graph if takes_quantized(node.op)]
    if not readers:
        return found
    parameters = infer_quant_params(graph)
    results = [(node.output(), quantized_type(node.output())) for node in readers]
    # 8-bit values whose range is fixed are tensors like others: only these two kinds are not.
    inner = {v for v, kind in results if kind is not None and (kind is QINT32 or v not in parameters)}
    return found | (inner - _spoilt(inner, {v for v in inner if not _is_possible(v, parameters)}))


def _complex_values(graph: Graph) -> set[Value]:
    """Complex numbers between ops that have a form for them; what is handed out is none of them."""
    made = {v for node in graph for v in node.outputs if v.dtype is not None and v.dtype.kind == "c"}
    # Constants and inputs have a tensor to hold them, also of complex numbers.
    found = {v for v in made if v.node.tensor is None and v.node.op not in ("Placeholder", "PlaceholderV2")}
    stuck = {v for v in found if not all(has_form(n.op) for n in (v.node, *v.readers))}
    return found - _spoilt(found, stuck | {v for v in found if v.is_graph_output})


def _is_possible(value: Value, parameters: Mapping[Value, QuantParams]) -> bool:
    """True if LiteRT's kernels can take a value on the way from its producer to its readers."""
    # A range that is measured from 32-bit values has no form, nor a Requantize that asks for one.
    makes = value.node.op != "Requantize" and not has(value.node.op, Trait.MEASURES_RANGE)
    return makes and not value.is_graph_output and all(_takes(node, parameters) for node in value.readers)


def _takes(node: Node, parameters: Mapping[Value, QuantParams]) -> bool:
    if has(node.op, Trait.MEASURES_RANGE) or not takes_quantized(node.op):
        return False
    return node.op != "Requantize" or node.output() in parameters


def _spoilt(found: set[Value], start: set[Value]) -> set[Value]:
    """All that hangs together with `start`: over a node that makes or reads both."""
    spoilt, stack = set(start), list(start)
    while stack:
        value = stack.pop()
        for node in (value.node, *value.readers):
            near = {v for v in (*node.inputs, *node.outputs) if v in found} - spoilt
            spoilt |= near
            stack += near
    return spoilt


def inner_groups(graph: Graph) -> list[list[Node]]:
    """The nodes that make or read inner values, in groups that have to be lowered as one."""
    found = inner_values(graph)
    groups: list[list[Node]] = []
    seen: set[Node] = set()
    for start in (v.node for v in found):
        if start in seen:
            continue
        seen.add(start)
        group, stack = [], [start]
        while stack:
            node = stack.pop()
            group.append(node)
            values = [v for v in (*node.inputs, *node.outputs) if v in found]
            near = {n for v in values for n in (v.node, *v.readers)} - seen
            seen |= near
            stack += near
        groups.append(group)
    return groups
