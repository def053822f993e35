"""Compute in float what the graph computes in half precision or bfloat16.

LiteRT has few kernels for half precision and none for bfloat16, which ONNX Runtime lacks as well. Inputs and
outputs keep their types, and so do ops that look at the bits, draw random numbers or hold state: casts stand
around those. Loops, branches and calls become float as a whole, with what they pass on and the lists they
fill, unless one of their functions has to keep its types.

LiteRT computes next to nothing in double either. Where it is asked for, doubles become floats too: they lose
digits, so that the step is undone where that is more than 1e-3 of an output, and they stay if a constant lies
beyond a float's range.

y = MatMul(x, w) {T=bfloat16}  ->  y = MatMul(x, w) {T=float}      w: float, of the same values
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import ParameterError, ThinflowError
from thinflow.ir.attrs import Attr, PlaceholderAttr
from thinflow.ir.function import ARGUMENT, Function, mentioned, reachable
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import BFLOAT16, DOUBLE, FLOAT, HALF, RESOURCE, STRING, VARIANT, DType
from thinflow.ops import registry
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Trace, Transform, transform
from thinflow.transforms.flow.dependence import CALLING_OPS
from thinflow.transforms.flow.library import tell, with_changes
from thinflow.typing import Array

OTHER_FLOATS = {t.name: t for t in (HALF, BFLOAT16, DOUBLE)}


@transform("widen_floats")
@dataclass(frozen=True)
class WidenFloats(Transform):
    """Turn half precision and bfloat16 into float, and double if asked for.

    Attributes:
        from_: types to turn into float, of half, bfloat16 and double; default: the first two.
        ends: whether inputs and outputs of the graph become float as well, for runtimes that lack the type.
    """

    exact = False  # nothing is rounded to fewer bits in between any more
    tolerance = 1e-3  # of double alone, which must not need more digits than float has

    reaches_functions: ClassVar[bool] = True

    from_: tuple[str, ...] = ()
    ends: bool = False

    def __post_init__(self) -> None:
        # From double digits are lost, so that the result is compared; the other types gain some.
        if self.from_ == (DOUBLE.name,):
            object.__setattr__(self, "exact", True)  # the class is frozen

    def apply(self, graph: Graph, trace: Trace) -> None:
        strange = next((name for name in self.from_ if name not in OTHER_FLOATS), None)
        if strange is not None:
            raise ParameterError(
                f"'{strange}' cannot be widened to float", hint="write half, bfloat16 or double"
            )
        narrow = frozenset(OTHER_FLOATS[name] for name in self.from_ or (HALF.name, BFLOAT16.name))
        # A constant that becomes infinite would not be the same model, so then doubles stay.
        narrow -= _beyond(graph, narrow, trace)
        scope = Scope(narrow, ends=self.ends)
        if self.reaches_functions:
            scope = widen_functions(graph, scope, trace)
        Widening(graph, scope, trace).run()

    def for_function(self) -> WidenFloats:
        return _InBodies(self.from_)


class _InBodies(WidenFloats):
    """The same in the body of a function that keeps its arguments and results."""

    reaches_functions = False


def _beyond(graph: Graph, narrow: Collection[DType], trace: Trace) -> set[DType]:
    """Double, if a constant of the graph has no place among floats; tells which."""
    if DOUBLE not in narrow:
        return set()
    graphs = [graph, *(graph.functions[name].graph for name in sorted(reached(graph)))]
    found = [
        n for g in graphs for n in g if (t := n.tensor) is not None and t.dtype is DOUBLE and _overflows(t)
    ]
    for node in found:
        trace.leave(node, "its numbers lie beyond the range of float")
    return {DOUBLE} if found else set()


def _overflows(tensor: Tensor) -> bool:
    """True if a finite number becomes infinite as float."""
    array = tensor.numpy()
    return bool((np.isinf(as_float(array)) & np.isfinite(array)).any())


# ---- One graph: which of its nodes compute in float, and the casts around the others


# Generators draw other numbers for another type.
_RANDOM = ("Random", "Stateless", "Truncated", "Parameterized", "Multinomial")
_HANDLES = frozenset({RESOURCE, VARIANT, STRING})
_FRAMES = Trait.MERGE | Trait.NEXT_ITERATION | Trait.ENTER | Trait.EXIT | Trait.SWITCH


@dataclass(frozen=True)
class Scope:
    """The types, functions and ends that may be widened.

    Attributes:
        narrow: the types to turn into float.
        functions: the library functions that are widened as well, arguments and results included.
        lists: whether lists of tensors and TensorArrays hold floats then.
        ends: whether the graph's own inputs and outputs are floats then.
    """

    narrow: frozenset[DType]
    functions: Collection[str] = ()
    lists: bool = False
    ends: bool = False

    def why_kept(self, node: Node, graph: Graph, *, is_body: bool = False) -> str:
        """The reason why a node keeps its types; "" if it need not.

        Args:
            is_body: whether the graph is the body of a function that is widened, ends included.
        """
        if is_body and node.op == ARGUMENT:
            return ""
        outputs = node.outputs or (node.output(),)
        called = {name for name in mentioned(node) if name in graph.functions}
        if node.op.startswith("Placeholder") and self.ends:
            return ""
        if node.op.startswith("Placeholder") or any(v in graph.inputs for v in outputs):
            return "it is an input, and keeps its type"
        definition = registry.find(node.op)
        if definition is None and not called:
            return "nothing here knows what its op does"
        if called and not (has(node.op, CALLING_OPS) and called <= set(self.functions)):
            return "it calls a function, whose types stay"
        # The cast that keeps the name of an output takes the place of a node, which has just one port 0.
        if not is_body and len(outputs) > 1 and any(v in graph.outputs for v in outputs):
            return "it has several outputs, of which the graph gives one"
        if called or has(node.op, _FRAMES) or (self.lists and has(node.op, Trait.TENSOR_LIST)):
            return ""
        is_computed = definition is not None and definition.kernel is not None
        if has(node.op, Trait.TYPE_BITS) or node.op.startswith(_RANDOM) or not is_computed:
            return "its result hangs on the type"
        if any(v.spec.dtype in _HANDLES for v in (*node.inputs, *outputs)):
            return "it handles text, or what other nodes keep"
        return ""


def holds_only_lists(graph: Graph) -> bool:
    """True if all variants of a graph are lists of tensors, handed on by nothing but loops and calls."""
    readers = (n for n in graph if any(v.spec.dtype is VARIANT for v in (*n.inputs, *n.outputs)))
    return all(
        has(n.op, Trait.TENSOR_LIST | CALLING_OPS | _FRAMES) or n.op in {ARGUMENT, "Identity"}
        for n in readers
    )


@dataclass
class Widening:
    """The widening of one graph.

    Attributes:
        graph: to change; its types and shapes are inferred.
        scope: what to widen.
        trace: where it is told.
        is_body: see `Scope.why_kept`.
    """

    graph: Graph
    scope: Scope
    trace: Trace
    is_body: bool = False

    def run(self) -> None:
        graph, narrow = self.graph, self.scope.narrow
        if not _mentioned(graph, self.scope):
            return
        infer_shapes(graph)
        # Nodes that nobody reads have no ports yet.
        values = [v for n in graph for v in (n.outputs or (n.output(),))]
        types = {v: t for v in values if (t := v.spec.dtype) is not None and t in narrow}
        kept = {
            n: why
            for n in graph
            if mentions_type(n, narrow) and (why := self.scope.why_kept(n, graph, is_body=self.is_body))
        }
        for node, why in kept.items():
            self.trace.leave(node, why)
        nodes = [
            n for n in graph if mentions_type(n, narrow) and n not in kept and not _is_border(n, narrow, kept)
        ]
        wide = set(nodes)
        casts = _Casts(graph, types, wide)
        # Readers that stay narrow need casts as well.
        for node in [n for n in graph if n in wide or any(v in types for v in n.inputs)]:
            casts.connect(node)
        if self.is_body:
            graph.outputs = [casts.widened(v) for v in graph.outputs]
        if nodes:
            found = sorted({t.name for n in nodes for t in narrow if mentions_type(n, {t})})
            self.trace.notes.append(f"computes in float what was {' and '.join(found)}")
        if self.scope.ends and not self.is_body and (told := self._told_ends(types)):
            self.trace.notes.append(told)
        for node in nodes:
            self.trace.changed(node, "computes in float now")
            _widen(node, narrow)
            if not (self.is_body or self.scope.ends):
                _restore_name(graph, node, types)

    def _told_ends(self, types: dict[Value, DType]) -> str:
        """A sentence about inputs and outputs of the graph that are of another type now; "" if none is."""
        ends = {"takes": self.graph.inputs, "gives": self.graph.outputs}
        told = {verb: [v.name for v in values if v in types] for verb, values in ends.items()}
        parts = [f"{verb} float for {', '.join(names)}" for verb, names in told.items() if names]
        kinds = " and ".join(sorted({types[v].name for vs in ends.values() for v in vs if v in types}))
        return f"{' and '.join(parts)}, {kinds} in the model" if parts else ""


def mentions_type(node: Node, narrow: Collection[DType]) -> bool:
    """True if one of some types stands in a node's attributes."""
    return any(t in narrow for attr in node.attrs_view.values() for t in _types_in(attr))


def _mentioned(graph: Graph, scope: Scope) -> bool:
    return any(mentions_type(node, scope.narrow) for node in graph)


def _types_in(attr: Attr) -> list[DType]:
    if isinstance(attr, Tensor):
        return [attr.dtype]
    return [t for t in (attr if isinstance(attr, tuple) else (attr,)) if isinstance(t, DType)]


def as_float(array: Array) -> Array:
    """The numbers as float32; the largest of all, which masks are made with, stays the largest."""
    # What is too large for float32 is infinite there, as it has to be; numpy would warn of it.
    with np.errstate(over="ignore"):
        result = array.astype(np.float32)
    if array.dtype == np.float64:
        top = np.abs(array) == np.finfo(np.float64).max
        result[top] = np.sign(array[top]) * np.finfo(np.float32).max
    return result


def _is_border(node: Node, narrow: frozenset[DType], kept: Collection[Node]) -> bool:
    """True if a cast stands between what computes in float and what keeps its type, as it has to."""
    if node.op != "Cast":
        return False
    if node.get("DstT") is FLOAT:
        # Behind a node that keeps its type a cast to float is needed anyway: this is it.
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

    def widened(self, value: Value) -> Value:
        """A result of a function as float, if it is one of the narrow types and keeps it inside."""
        if value not in self.types or value.node in self.wide:
            return value
        if value not in self._made:
            self._made[value] = self._cast(value, None)
        return self._made[value]

    def _cast(self, value: Value, reader: Node | None) -> Value:
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
                node.attrs[key] = Tensor.from_array(as_float(attr.numpy()), FLOAT)
        elif isinstance(attr, tuple):
            node.attrs[key] = tuple(FLOAT if isinstance(t, DType) and t in narrow else t for t in attr)
        elif isinstance(attr, DType) and attr in narrow:
            node.attrs[key] = FLOAT
    # A cast to float of what is float by now.
    if node.op == "Cast" and node.get("SrcT") is node.get("DstT"):
        node.op = "Identity"
        node.attrs.clear()
        node.attrs["T"] = FLOAT


def _restore_name(graph: Graph, node: Node, types: dict[Value, DType]) -> None:
    """Put a cast to its old type in the place of a node that is an output of the graph."""
    value = node.output()
    if value not in types or value not in graph.outputs:
        return
    # The name stays with a value of the old type.
    name = node.name
    graph.rename(node, graph.unique_name(f"{name}/wide"))
    attrs: dict[str, Attr] = {"SrcT": FLOAT, "DstT": types[value]}
    cast = graph.add("Cast", [value], name, attrs=attrs).output()
    graph.outputs = [cast if v is value else v for v in graph.outputs]


def reached(graph: Graph) -> set[str]:
    """The functions that a graph calls, directly or through others; none if one of them cannot be read."""
    try:
        return reachable(graph)
    except ThinflowError:
        return set()


def widen_functions(graph: Graph, scope: Scope, trace: Trace) -> Scope:
    """Widen all that a graph calls, or nothing: what is called has the types that its callers pass on.

    Args:
        graph: its library is replaced; itself it is not changed.
        scope: the types.
        trace: where it is told.

    Returns:
        The scope with these functions; lists of tensors belong to it if no function keeps them as they are.
    """
    names = reached(graph)
    # Most graphs have none of the types, and inferring all shapes takes longer than to see that.
    if not any(_mentioned(each, scope) for each in [graph, *(graph.functions[n].graph for n in names)]):
        return scope
    bodies = {name: graph.functions[name].copied() for name in sorted(names)}
    graphs = [graph, *(f.graph for f in bodies.values())]
    for each in graphs:
        infer_shapes(each)
    wider = replace(scope, functions=frozenset(names), lists=all(map(holds_only_lists, graphs)))
    # All or nothing: a caller that stays narrow would pass the wrong type to a body that is wide.
    if not all(_is_plain(f) for f in bodies.values()) or any(
        wider.why_kept(node, each, is_body=each is not graph)
        for each in graphs
        for node in each
        if any(name in each.functions for name in mentioned(node))
    ):
        return replace(scope, lists=wider.lists and not names)
    changed = {n: _widened(f, wider, trace) for n, f in bodies.items() if _mentioned(f.graph, wider)}
    if changed:
        graph.functions = with_changes(graph.functions, changed)
    return wider


def _is_plain(function: Function) -> bool:
    """True if no caller decides on its types."""
    # Types of a generic body come from each caller, and cannot be changed once for all.
    attrs = (a for node in function.graph for a in node.attrs_view.values())
    return function.specialized is None and not any(isinstance(a, PlaceholderAttr) for a in attrs)


def _widened(function: Function, scope: Scope, trace: Trace) -> Function:
    """The function on floats.

    Args:
        function: a copy, whose body is edited.
    """
    inside = Trace()
    Widening(function.graph, scope, inside, is_body=True).run()
    tell(function.name, inside, trace)
    trace.notes.extend(inside.notes)
    return replace(
        function.settled(),
        input_types=tuple(_wide(t, scope) for t in function.input_types),
        output_types=tuple(_wide(t, scope) for t in function.output_types),
        source=None,
    )


def _wide(element: DType | None, scope: Scope) -> DType | None:
    return FLOAT if element in scope.narrow else element
