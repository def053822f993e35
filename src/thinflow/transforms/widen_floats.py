"""Compute in float what the graph computes in half precision or bfloat16.

LiteRT has few kernels for half precision and none for bfloat16, which ONNX Runtime lacks as well. Inputs and
outputs keep their types, and so do ops that look at the bits, draw random numbers, hold state, or call
functions: casts stand around those. `inline_partitionedcall` before it opens functions.

LiteRT computes next to nothing in double either. Where it is asked for, doubles become floats too: they lose
digits, so that the step is undone where that is more than 1e-3 of an output, and they stay if a constant lies
beyond a float's range.

y = MatMul(x, w) {T=bfloat16}  ->  y = MatMul(x, w) {T=float}      w: float, of the same values
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import ParameterError
from thinflow.ir.attrs import Attr
from thinflow.ir.function import mentioned
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import BFLOAT16, DOUBLE, FLOAT, HALF, RESOURCE, STRING, VARIANT, DType
from thinflow.ops import registry
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace

Array = np.ndarray[Any, Any]

_BITS = frozenset({"Bitcast", "CompareAndBitpack", "ImmutableConst", "NextAfter", "Empty"})
_RANDOM = ("Random", "Stateless", "Truncated", "Parameterized", "Multinomial")
_HANDLES = frozenset({RESOURCE, VARIANT, STRING})
OTHER_FLOATS = {t.name: t for t in (HALF, BFLOAT16, DOUBLE)}


@transform("widen_floats")
@dataclass(frozen=True)
class WidenFloats(Transform):
    """Turn half precision and bfloat16 into float, and double if asked for.

    Attributes:
        from_: types to turn into float, of half, bfloat16 and double; default: the first two.
    """

    exact = False  # nothing is rounded to fewer bits in between any more
    tolerance = 1e-3  # of double alone, which must not need more digits than float has

    from_: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.from_ == (DOUBLE.name,):
            object.__setattr__(self, "exact", True)  # the class is frozen

    def apply(self, graph: Graph, trace: Trace) -> None:
        strange = next((name for name in self.from_ if name not in OTHER_FLOATS), None)
        if strange is not None:
            raise ParameterError(
                f"'{strange}' cannot be widened to float", hint="write half, bfloat16 or double"
            )
        narrow = frozenset(OTHER_FLOATS[name] for name in self.from_ or (HALF.name, BFLOAT16.name))
        narrow -= _beyond(graph, narrow, trace)
        if not any(mentions_type(n, narrow) for n in graph):
            return
        infer_shapes(graph)
        values = [v for n in graph for v in (n.outputs or (n.output(),))]
        types = {v: t for v in values if (t := v.spec.dtype) is not None and t in narrow}
        kept = {n: why for n in graph if mentions_type(n, narrow) and (why := _why_kept(n, graph))}
        for node, why in kept.items():
            trace.leave(node, why)
        nodes = [
            n for n in graph if mentions_type(n, narrow) and n not in kept and not _is_border(n, narrow, kept)
        ]
        wide = set(nodes)
        casts = _Casts(graph, types, wide)
        for node in [n for n in graph if n in wide or any(v in types for v in n.inputs)]:
            casts.connect(node)
        if nodes:
            found = sorted({t.name for n in nodes for t in narrow if mentions_type(n, {t})})
            trace.notes.append(f"computes in float what was {' and '.join(found)}")
        for node in nodes:
            trace.changed(node, "computes in float now")
            _widen(node, narrow)
            _restore_name(graph, node, types)


def mentions_type(node: Node, narrow: Collection[DType]) -> bool:
    """Whether one of some types stands in a node's attributes."""
    return any(t in narrow for attr in node.attrs_view.values() for t in _types_in(attr))


def _types_in(attr: Attr) -> list[DType]:
    if isinstance(attr, Tensor):
        return [attr.dtype]
    return [t for t in (attr if isinstance(attr, tuple) else (attr,)) if isinstance(t, DType)]


def _why_kept(node: Node, graph: Graph) -> str:
    """Why a node keeps its types; "" if it need not."""
    outputs = node.outputs or (node.output(),)
    definition = registry.find(node.op)
    if node.op.startswith("Placeholder") or any(v in graph.inputs for v in outputs):
        return "it is an input, and keeps its type"
    if definition is None:
        return "nothing here knows what its op does"
    if any(name in graph.functions for name in mentioned(node)) or node.op in graph.functions:
        return "it calls a function, whose types stay"
    if node.op in _BITS or node.op.startswith(_RANDOM) or definition.kernel is None:
        return "its result hangs on the type"
    if any(v.spec.dtype in _HANDLES for v in (*node.inputs, *outputs)):
        return "it handles text, or what other nodes keep"
    if len(outputs) > 1 and any(v in graph.outputs for v in outputs):
        return "it has several outputs, of which the graph gives one"
    return ""


def _beyond(graph: Graph, narrow: Collection[DType], trace: Trace) -> set[DType]:
    """Double, if a constant of the graph has no place among floats; tells which."""
    if DOUBLE not in narrow:
        return set()
    found = [n for n in graph if (t := n.tensor) is not None and t.dtype is DOUBLE and _overflows(t)]
    for node in found:
        trace.leave(node, "its numbers lie beyond the range of float")
    return {DOUBLE} if found else set()


def _overflows(tensor: Tensor) -> bool:
    """Whether a finite number becomes infinite as float."""
    array = tensor.numpy()
    return bool((np.isinf(_as_float(array)) & np.isfinite(array)).any())


def _as_float(array: Array) -> Array:
    """The numbers as float32; the largest of all, which masks are made with, stays the largest."""
    with np.errstate(over="ignore"):
        result = array.astype(np.float32)
    if array.dtype == np.float64:
        top = np.abs(array) == np.finfo(np.float64).max
        result[top] = np.sign(array[top]) * np.finfo(np.float32).max
    return result


def _is_border(node: Node, narrow: frozenset[DType], kept: Collection[Node]) -> bool:
    """Whether a cast stands between what computes in float and what keeps its type, as it has to."""
    if node.op != "Cast":
        return False
    if node.get("DstT") is FLOAT:
        return node.inputs[0].node in kept
    ends = node.output().is_graph_output or any(r in kept for r in node.readers)
    return node.get("SrcT") is FLOAT and ends and all(r in kept for r in node.readers)


class _Casts:
    """Casts between nodes that compute in float and those that do not, one for each value."""

    def __init__(self, graph: Graph, types: dict[Value, DType], wide: set[Node]) -> None:
        self.graph, self.types, self.wide = graph, types, wide
        self._made: dict[Value, Value] = {}

    def connect(self, node: Node) -> None:
        """Put casts in front of a node where it and what it reads part in type."""
        for index, value in enumerate(node.inputs):
            if value not in self.types or (value.node in self.wide) == (node in self.wide):
                continue
            if value not in self._made:
                self._made[value] = self._cast(value, node)
            node.set_input(index, self._made[value])

    def _cast(self, value: Value, reader: Node) -> Value:
        narrow = self.types[value]
        ends = (FLOAT, narrow) if value.node in self.wide else (narrow, FLOAT)
        name = self.graph.unique_name(f"{value.node.name}/{ends[1].name}")
        attrs: dict[str, Attr] = {"SrcT": ends[0], "DstT": ends[1]}
        return self.graph.add("Cast", [value], name, attrs=attrs, before=reader).output()


def _widen(node: Node, narrow: frozenset[DType]) -> None:
    """Float in the place of the narrow types, in every attribute."""
    for key, attr in list(node.attrs.items()):
        if isinstance(attr, Tensor):
            if attr.dtype in narrow:
                node.attrs[key] = Tensor.from_array(_as_float(attr.numpy()), FLOAT)
        elif isinstance(attr, tuple):
            node.attrs[key] = tuple(FLOAT if isinstance(t, DType) and t in narrow else t for t in attr)
        elif isinstance(attr, DType) and attr in narrow:
            node.attrs[key] = FLOAT
    if node.op == "Cast" and node.get("SrcT") is node.get("DstT"):
        _make_identity(node)


def _make_identity(node: Node) -> None:
    """A cast between equal types as what it is."""
    node.op = "Identity"
    node.attrs.clear()
    node.attrs["T"] = FLOAT


def _restore_name(graph: Graph, node: Node, types: dict[Value, DType]) -> None:
    """Where the node is an output of the graph, put a cast to its old type in its place."""
    value = node.output()
    if value not in types or value not in graph.outputs:
        return
    name = node.name
    graph.rename(node, graph.unique_name(f"{name}/wide"))
    attrs: dict[str, Attr] = {"SrcT": FLOAT, "DstT": types[value]}
    cast = graph.add("Cast", [value], name, attrs=attrs).output()
    graph.outputs = [cast if v is value else v for v in graph.outputs]
