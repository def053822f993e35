"""Arithmetic that does nothing or that one node can do, and shapes that can be known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import INT32, INT64, DType
from thinflow.ops.traits import RuleTable, Trait, has
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.pattern import Match, any_value, constant_node, constant_tensor, node
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.shared.constants import awaited_by_constant, side_outputs
from thinflow.transforms.shared.effects import in_loops
from thinflow.transforms.shared.identities import broadcasts_into, handed_on, known_shapes, single, takes_all


@transform("simplify_arithmetic")
@dataclass(frozen=True)
class SimplifyArithmetic(Transform):
    """Take out arithmetic that does nothing, and do two steps with constants in one.

    x * 1, x + 0, x - 0, x / 1, x ** 1, -(-x), relu(relu(x))  ->  x, and relu(x)
    (x * a) * b, (x + a) - b, max(max(x, a), b)               ->  x * ab, x + (a - b), max(x, ab)
    x ** 2, x ** 0.5, x * x                                   ->  square(x), sqrt(x), square(x)
    reshape(reshape(x, a), b), x[:, newaxis]                  ->  reshape(x, b)

    Likewise casts to the same type, tiles by 1, pads by 0, full slices, squeezed ExpandDims, joins of one.
    Constants merge in floating point only.

    Attributes:
        merge: also do two steps in one, which may change the last digit.
    """

    tolerance = 1e-5

    merge: bool = True

    def apply(self, graph: Graph, trace: Trace) -> None:
        known_shapes(graph)
        while True:
            trace.forget_left()
            before = len(trace.changes)
            for candidate in execution_order(graph):
                if candidate.graph is graph:
                    self._simplify(graph, candidate, trace)
            if len(trace.changes) == before:
                break

    def _simplify(self, graph: Graph, node: Node, trace: Trace) -> None:
        same = handed_on(node)
        if same is not None:
            if node.is_protected:
                trace.leave(node, "it is asked for by name")
            elif not side_outputs(node):
                trace.changed(node, f"does nothing; its readers read '{same.name}'")
                sources = [v.node for v in node.inputs]
                # Nodes between may go with this one, and with them what they waited for.
                for awaited in _awaited_between(node, same):
                    node.add_control_input(awaited)
                graph.bypass(node, {0: same})
                sweep(graph, sources)
            return
        if not self.merge or any(v.is_graph_input for v in node.outputs):
            return
        built = merged(node, Site(graph, node, self.name))
        if built is None:
            return
        sources = [v.node for v in node.inputs]
        trace.changed(node, f"is now {built.node.op} of '{_data(built.node)}'")
        # Attributes that rules do not know, such as those of a layout, go on with the op.
        if built.node.op == node.op:
            for key, attr in node.attrs.items():
                built.node.attrs.setdefault(key, attr)
        graph.replace(node, built.node)
        for source in sources:
            # What the inner node waited for, its successor waits for.
            for awaited in source.control_inputs if not source.is_used else ():
                built.node.add_control_input(awaited)
        sweep(graph, sources)


def _awaited_between(node: Node, value: Value) -> list[Node]:
    """The nodes for which those between a node and the value that it hands on wait."""
    awaited: list[Node] = []
    at = node
    while value not in at.inputs and at.inputs:
        at = at.inputs[0].node
        awaited += at.control_inputs
    return awaited


def _data(node: Node) -> str:
    return next((v.name for v in node.inputs if v.node.tensor is None), "")


def _has_constant_shape(reshape: Node) -> str | None:
    return "its shape is constant" if reshape.inputs[1].node.tensor is not None else None


def _sizes(shape: Value) -> list[int]:
    """The sizes a Reshape asks for, -1 for the one it has to find.

    Raises:
        Refuse: too little is known.
    """
    if shape.is_graph_input:
        raise Refuse("its shape is fed")
    element = shape.dtype
    if not isinstance(element, DType) or element not in (INT32, INT64):
        raise Refuse("the type of its shape is not known")
    sizes = shape.spec.elements
    if sizes is None or shape.spec.rank != 1 or shape.spec.size != len(sizes):
        raise Refuse(f"nothing is known of its shape, which comes from '{shape.name}'")
    unknown = [i for i, size in enumerate(sizes) if size is None]
    if len(unknown) > 1:
        raise Refuse(f"{len(unknown)} sizes of its shape are not known")
    # -1 is found by division, which a 0 among the others makes impossible.
    if unknown and (0 in sizes or -1 in sizes):
        raise Refuse("one size is not known, and another is 0 or to be found")
    return [-1 if size is None else size for size in sizes]


@transform("simplify_shapes")
@dataclass(frozen=True)
class SimplifyShapes(Rewrite):
    """Replace shapes that a graph computes by constants, size by size.

    reshape(x, pack(strided_slice(shape(x), 0), 7, 64))  ->  reshape(x, [-1, 7, 64])

    That needs all sizes but one, which the Reshape then finds itself. Shapes known in full are the business
    of `fold_constants`, wherever they are read.
    """

    in_file_order = True
    until_fixpoint = False
    outputs = 0
    pattern: ClassVar = node(
        "Reshape", any_value("x"), any_value("shape"), name="reshape", where=_has_constant_shape
    )

    def prepare(self, graph: Graph, trace: Trace) -> Mapping[str, object]:
        # Shape inference costs a walk over the graph, which is spared if no Reshape has use for it.
        if all(_has_constant_shape(n) for n in graph if n.op == "Reshape" and len(n.inputs) == 2):
            return {}
        known_shapes(graph)
        return {"loops": in_loops(graph)}

    def check(self, m: Match) -> None:
        # A constant in a loop would have to wait for something inside.
        if m.reshape in m.loops:
            raise Refuse("it is in a loop")
        m.bind("sizes", _sizes(m.shape))

    def describe(self, m: Match) -> str:
        return f"takes the constant shape {m.sizes}"

    def build(self, m: Match, site: Site) -> None:
        element = m.shape.dtype
        tensor = Tensor.from_array(np.asarray(m.sizes, element.numpy()), element)
        m.reshape.set_input(1, site.constant(tensor, f"{m.reshape.name}/shape"))


# ---- Two nodes that one node can do: constants merge, powers become roots and squares
#
# The inner node must have no other reader; it goes when nothing uses it any more.


Merge = Callable[[Node, Site], Value | None]
"""Builds the replacement of a node at a site; None if there is none, and then nothing was built."""

MAX_ELEMENTS = 1 << 16
"""Larger constants are weights: they are not merged here."""
_SUMS = Trait.ADD | Trait.SUBTRACT
_FACTORS = Trait.MULTIPLY | Trait.DIVIDE
_POWERS = {2.0: "Square", 0.5: "Sqrt", -0.5: "Rsqrt", -1.0: "Reciprocal"}


def merged(node: Node, site: Site) -> Value | None:
    """The replacement of a node, None if there is none."""
    return next((rule(node, site) for rule in _RULES.of(node.op)), None)


_RULES: RuleTable[Merge] = RuleTable()


def _element(node: Node) -> DType | None:
    element = node.attrs.get("T")
    return element if isinstance(element, DType) else None


def _sole(node: Node, traits: Trait) -> Node | None:
    """The node, if its op has one of the traits and its output is read just once."""
    return node if has(node.op, traits) and len(node.output().uses) == 1 and not node.is_protected else None


def _parts(node: Node) -> tuple[Value, Tensor, bool] | None:
    """Data, constant, and whether the constant comes first; None unless just one input is constant."""
    if len(node.inputs) != 2:
        return None
    left, right = (constant_tensor(v) for v in node.inputs)
    if right is not None and left is None:
        return node.inputs[0], right, False
    if left is not None and right is None:
        return node.inputs[1], left, True
    return None


def _chain(node: Node, site: Site, family: Trait) -> Value | None:
    """f(g(x, a), b) with f and g of one family and float constants a and b."""
    outer, element = _parts(node), _element(node)
    if outer is None or element is None or not element.is_floating:
        return None
    inner = _sole(outer[0].node, family)
    parts = _parts(inner) if inner is not None else None
    if inner is None or parts is None or _element(inner) != element:
        return None
    x, a, a_first = parts
    _, b, b_first = outer
    # Merging a row with a column would store their product.
    if max(a.size, b.size) > MAX_ELEMENTS or not _shapes_fit(x, a, b):
        return None
    result = _combine(inner.op, node.op, a.numpy(), b.numpy(), first=(a_first, b_first))
    if result is None:
        return None
    op, array = result
    tensor = Tensor.from_array(array.astype(element.numpy()), element)
    constant = site.constant(tensor, f"{node.name}/merged")
    old = [v for n in (inner, node) for v in n.inputs if constant_tensor(v) is not None]
    constant.node.set_control_inputs(dict.fromkeys(n for v in old for n in awaited_by_constant(v)))
    return _with_constant(site, op, x, constant, element)


@_RULES.rule(Trait.DIVIDE)
def _quotient(node: Node, site: Site) -> Value | None:
    return _chain(node, site, _FACTORS)


@_RULES.rule(Trait.EXTREME)
def _extreme(node: Node, site: Site) -> Value | None:
    return _chain(node, site, Trait.EXTREME)


def _shapes_fit(x: Value, a: Tensor, b: Tensor) -> bool:
    """True if both constants vary along axes that x has, so that merging enlarges nothing."""
    if a.shape == b.shape or not a.shape or not b.shape:
        return True
    return broadcasts_into(a, x.shape) and broadcasts_into(b, x.shape)


def _with_constant(site: Site, op: str, x: Value, constant: Value, element: DType) -> Value:
    if op.endswith("From"):
        return site.add(op.removesuffix("From"), constant, x, attrs={"T": element})
    return site.add(op, x, constant, attrs={"T": element})


def _combine(
    inner: str, outer: str, a: Any, b: Any, *, first: tuple[bool, bool]
) -> tuple[str, np.ndarray[Any, Any]] | None:
    """Op and constant that do both, in double precision; `SubFrom` takes x away from the constant."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    # Infinite and NaN results are thrown away below, not warned of.
    with np.errstate(all="ignore"):
        if has(outer, _SUMS):
            result: tuple[str, Any] | None = _summed(inner, outer, a, b, first)
        elif has(outer, _FACTORS):
            result = _scaled(inner, outer, a, b, first)
        elif inner == outer:
            result = (outer, np.maximum(a, b) if outer == "Maximum" else np.minimum(a, b))
        else:
            result = None
    # A constant that overflows would not be what the two steps give.
    return result if result is not None and np.isfinite(result[1]).all() else None


def _summed(inner: str, outer: str, a: Any, b: Any, first: tuple[bool, bool]) -> tuple[str, Any]:
    # The inner node as sign * x + offset, then the outer one applied to that.
    sign, offset = (-1.0, a) if inner == "Sub" and first[0] else (1.0, -a if inner == "Sub" else a)
    if outer == "Sub" and first[1]:
        sign, offset = -sign, b - offset
    else:
        offset = offset + (-b if outer == "Sub" else b)
    return ("AddV2", offset) if sign > 0 else ("SubFrom", offset)


def _scaled(inner: str, outer: str, a: Any, b: Any, first: tuple[bool, bool]) -> tuple[str, Any] | None:
    # a / x cannot be written as a factor of x.
    if (inner != "Mul" and first[0]) or (outer != "Mul" and first[1]):
        return None  # a constant divided by the data
    divisors = [n for op, n in ((inner, a), (outer, b)) if op != "Mul"]
    if any((n == 0).any() for n in divisors):
        return None
    factor = (1.0 / a if inner != "Mul" else a) * (1.0 / b if outer != "Mul" else b)
    return "Mul", factor


@_RULES.rule("Pow")
def _power(node: Node, site: Site) -> Value | None:
    """x ** 2 and the like, of floats."""
    element = _element(node)
    exponent = constant_tensor(node.inputs[1]) if len(node.inputs) == 2 else None
    if element is None or not element.is_floating or exponent is None:
        return None
    # None counts as 0, which is no power that has an op either.
    op = _POWERS.get(single(node.inputs[1]) or 0.0)
    if op is None or not broadcasts_into(exponent, node.inputs[0].shape):
        return None
    return site.add(op, node.inputs[0], attrs={"T": element})


@_RULES.rule(Trait.MULTIPLY)
def _product(node: Node, site: Site) -> Value | None:
    """x * x; otherwise constants that follow each other."""
    element = _element(node)
    left, right = node.inputs if len(node.inputs) == 2 else (None, None)
    # A constant times itself is folding's business.
    if left is not None and left is right and element is not None and constant_node(left) is None:
        return site.add("Square", left, attrs={"T": element})
    return _chain(node, site, _FACTORS)


@_RULES.rule(_SUMS)
def _negated(node: Node, site: Site) -> Value | None:
    """x + (-y) and x - (-y); otherwise constants that follow each other."""
    if len(node.inputs) != 2:
        return None
    left, right = node.inputs
    negated, element = right.node, _element(node)
    # Neg read twice would be computed all the same.
    is_sole = negated.op == "Neg" and len(right.uses) == 1 and not negated.is_protected
    if not is_sole or element is None or len(negated.inputs) != 1:
        return _chain(node, site, _SUMS)
    op = "AddV2" if node.op == "Sub" else "Sub"
    return site.add(op, left, negated.inputs[0], attrs={"T": element})


@_RULES.rule("Reshape")
def _reshape(node: Node, site: Site) -> Value | None:
    """The last of several reshapes alone tells the shape."""
    if len(node.inputs) != 2:
        return None
    inner = node.inputs[0].node
    if not has(inner.op, Trait.RESHAPE) or not inner.inputs:
        return None
    if any(v.is_graph_input for v in inner.outputs):
        return None
    return site.add("Reshape", inner.inputs[0], node.inputs[1], attrs=dict(node.attrs))


@_RULES.rule("StridedSlice")
def _with_new_axes(node: Node, site: Site) -> Value | None:
    """Axes of size 1 that are all a slice adds, and nothing that it cuts."""
    shape = node.output().shape
    if not node.get("new_axis_mask", 0) or shape is None or shape.count(None) > 1 or not takes_all(node):
        return None
    if 0 in shape and None in shape:
        return None  # the size to be found would be divided by 0
    sizes = site.constant(np.asarray([-1 if n is None else n for n in shape], np.int32), f"{node.name}/shape")
    element = _element(node)
    attrs: dict[str, Attr] = {"Tshape": INT32} if element is None else {"T": element, "Tshape": INT32}
    return site.add("Reshape", node.inputs[0], sizes, attrs=attrs)


@_RULES.rule("Relu6")
def _clipped(node: Node, site: Site) -> Value | None:
    """Relu6 of Relu."""
    inner = node.inputs[0] if len(node.inputs) == 1 else None
    if inner is None or inner.node.op != "Relu" or not inner.node.inputs or inner.is_graph_input:
        return None
    return site.add("Relu6", inner.node.inputs[0], attrs=dict(node.attrs))
