"""Nodes that compute nothing: which of their inputs they hand on unchanged, told op by op.

Shapes and small integer contents must be known as far as they can be; see `infer_shapes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import DType, Shape
from thinflow.ops.traits import RuleTable, Trait, has
from thinflow.rewrite.pattern import constant_tensor, source_of

Identity = Callable[[Node], Value | None]
"""The value a node hands on; None if it does something."""

_RULES: RuleTable[Identity] = RuleTable()


# Floats hold whole numbers of their significand's bits: half 11, float 24, double 53.
_HOLDS = {  # type -> types that hold every one of its values
    "bool": {"uint8", "int8", "int16", "int32", "int64", "half", "float", "double"},
    "uint8": {"int16", "int32", "int64", "uint16", "uint32", "uint64", "half", "float", "double"},
    "int8": {"int16", "int32", "int64", "half", "float", "double"},
    "int16": {"int32", "int64", "float", "double"},
    "uint16": {"int32", "int64", "uint32", "uint64", "float", "double"},
    "int32": {"int64", "double"},
    "uint32": {"int64", "uint64", "double"},
    "half": {"float", "double"},
    "bfloat16": {"float", "double"},
    "float": {"double"},
}


def known_shapes(graph: Graph) -> None:
    """Infer shapes, but trust no contents that are fed in the middle of the graph. O(nodes + edges)."""
    infer_shapes(graph)
    # A size computed from a fed value is not what shape inference would make of it.
    cut = {v: v.spec.with_shape(v.spec.shape) for v in graph.inputs if v.spec.elements is not None}
    if cut:
        infer_shapes(graph, cut)


def handed_on(node: Node) -> Value | None:
    """The value that output 0 of the node equals, None if there is none."""
    return next((value for rule in _RULES.of(node.op) if (value := rule(node)) is not None), None)


def single(value: Value) -> float | None:
    """The number that every element of a numeric constant is; None for any other value."""
    tensor = constant_tensor(value)
    if tensor is None or not tensor.size or not (tensor.dtype.is_floating or tensor.dtype.is_integer):
        return None
    array = tensor.numpy()
    first = array.reshape(-1)[0]
    return float(first) if (array == first).all() else None


def broadcasts_into(tensor: Tensor, shape: Shape) -> bool:
    """True if combining a constant with a tensor of that shape gives that shape."""
    if not tensor.shape:
        return True
    if shape is None or len(tensor.shape) > len(shape):
        return False
    pairs = zip(tensor.shape[::-1], shape[::-1], strict=False)
    return all(size in (1, own) for size, own in pairs)


def same_shape(a: Shape, b: Shape) -> bool:
    """True if two tensors with equally many elements have the same shape for sure.

    One size may be unknown in both: the others and the number of elements settle it, unless one is 0.
    """
    if a is None or b is None or len(a) != len(b) or 0 in a:
        return False
    unknown = [i for i, (m, n) in enumerate(zip(a, b, strict=True)) if m is None or n is None]
    return len(unknown) <= 1 and all(
        m == n for i, (m, n) in enumerate(zip(a, b, strict=True)) if i not in unknown
    )


def ints(value: Value) -> tuple[int, ...] | None:
    """The elements of a small integer value, when all of them are known."""
    tensor = constant_tensor(value)
    if tensor is not None and tensor.dtype.is_integer and tensor.size <= 64:
        return tuple(int(n) for n in tensor.numpy().reshape(-1))
    return None if value.is_graph_input else value.spec.ints


def axes_of(value: Value, rank: int) -> tuple[int, ...] | None:
    """Axes as numbers from 0, sorted."""
    axes = ints(value)
    if axes is None or any(not -rank <= axis < rank for axis in axes):
        return None
    return tuple(sorted(axis % rank for axis in axes))


def _beside(node: Node, number: float, sides: Sequence[int]) -> Value | None:
    """The other input, where one of the inputs on these sides is the number."""
    for side in sides if len(node.inputs) == 2 else ():
        tensor = constant_tensor(node.inputs[side])
        other = node.inputs[1 - side]
        # Both constant: that is folding's business, which gives the result a name.
        if tensor is None or single(node.inputs[side]) != number or constant_tensor(other) is not None:
            continue
        # Otherwise the constant would make the result larger than the data.
        if broadcasts_into(tensor, other.shape):
            return other
    return None


@_RULES.rule(Trait.ADD)
def _plus_zero(node: Node) -> Value | None:
    return _beside(node, 0.0, (0, 1))


@_RULES.rule(Trait.SUBTRACT)
def _minus_zero(node: Node) -> Value | None:
    return _beside(node, 0.0, (1,))


@_RULES.rule(Trait.MULTIPLY)
def _times_one(node: Node) -> Value | None:
    return _beside(node, 1.0, (0, 1))


@_RULES.rule("DivNoNan", "Pow", Trait.DIVIDE)
def _by_one(node: Node) -> Value | None:
    """x / 1 and x ** 1."""
    return _beside(node, 1.0, (1,))


@_RULES.rule("Neg", "LogicalNot", "Conj")
def _twice(node: Node) -> Value | None:
    """Neg of Neg, and the like."""
    inner = _inner(node)
    return inner.inputs[0] if inner is not None and inner.op == node.op and len(inner.inputs) == 1 else None


@_RULES.rule("Ceil", "Floor", "Round", "Rint", "Sign", "Relu6", "Abs")
def _idempotent(node: Node) -> Value | None:
    inner = _inner(node)
    return node.inputs[0] if inner is not None and inner.op == node.op else None


@_RULES.rule("Relu", "Abs")
def _positive(node: Node) -> Value | None:
    """Relu or Abs of what is not negative. The types of such ops are floating point."""
    inner = _inner(node)
    element = node.attrs.get("T")
    floating = isinstance(element, DType) and element.is_floating
    # Integers may overflow: the square of one can be negative.
    return node.inputs[0] if inner is not None and floating and has(inner.op, Trait.NOT_NEGATIVE) else None


def _inner(node: Node) -> Node | None:
    if len(node.inputs) != 1:
        return None
    source = source_of(node.inputs[0])
    return None if source.is_graph_input or source.port else source.node


@_RULES.rule("Cast")
def _cast(node: Node) -> Value | None:
    source, target = node.attrs.get("SrcT"), node.attrs.get("DstT")
    if len(node.inputs) != 1 or not isinstance(source, DType) or not isinstance(target, DType):
        return None
    if source == target:
        return node.inputs[0]
    inner = _inner(node)
    if inner is None or inner.op != "Cast" or inner.attrs.get("SrcT") != target:
        return None
    # There and back again loses nothing if the type in between holds all values.
    return inner.inputs[0] if source.name in _HOLDS.get(target.name, ()) else None


@_RULES.rule("Squeeze")
def _squeeze(node: Node) -> Value | None:
    """ExpandDims undone, whatever the sizes of the other axes."""
    inner = _inner(node)
    if inner is None or inner.op != "ExpandDims" or len(inner.inputs) != 2:
        return None
    rank = node.inputs[0].spec.rank
    added = None if rank is None else axes_of(inner.inputs[1], rank)
    dims = node.attrs.get("squeeze_dims", node.attrs.get("axis", ()))
    if added is None or rank is None or not isinstance(dims, tuple) or len(dims) != 1:
        return None
    wanted = dims[0]
    return inner.inputs[0] if isinstance(wanted, int) and wanted % rank == added[0] else None


@_RULES.rule(Trait.RESHAPE)
def _reshape(node: Node) -> Value | None:
    """Back to a shape that the tensor had before a chain of reshapes."""
    value = node.inputs[0] if node.inputs else None
    earlier = None
    while value is not None:
        if same_shape(value.shape, node.output().shape):
            earlier = value
        value = source_of(value)
        inner = value.node
        value = (
            inner.inputs[0]
            if has(inner.op, Trait.RESHAPE) and inner.inputs and not value.is_graph_input
            else None
        )
    return earlier


@_RULES.rule("Tile")
def _tile_once(node: Node) -> Value | None:
    return _input_0_if_all(node, 1)


@_RULES.rule("MirrorPad", Trait.PAD)
def _no_margin(node: Node) -> Value | None:
    return _input_0_if_all(node, 0)


def _input_0_if_all(node: Node, number: int) -> Value | None:
    """Input 0, where every element of input 1 is the number."""
    elements = ints(node.inputs[1]) if len(node.inputs) >= 2 else None
    return node.inputs[0] if elements is not None and all(n == number for n in elements) else None


@_RULES.rule("Slice")
def _slice(node: Node) -> Value | None:
    if len(node.inputs) != 3:
        return None
    x = node.inputs[0]
    begin, size = ints(node.inputs[1]), ints(node.inputs[2])
    if begin is None or size is None or any(begin) or len(begin) != len(size):
        return None
    # Of unknown shape only -1, to the end, is sure to be everything.
    shape = x.shape if x.shape is not None else (None,) * len(size)
    return x if all(n in (-1, own) for n, own in zip(size, shape, strict=True)) else None


@_RULES.rule("StridedSlice")
def _strided_slice(node: Node) -> Value | None:
    return node.inputs[0] if not node.get("new_axis_mask", 0) and takes_all(node) else None


def takes_all(node: Node) -> bool:
    """True if a StridedSlice cuts nothing and drops no axis; it may add some."""
    if len(node.inputs) != 4 or node.get("shrink_axis_mask", 0):
        return False
    shape = node.inputs[0].shape
    begin, end, stride = (ints(v) for v in node.inputs[1:])
    if begin is None or end is None or stride is None or not len(begin) == len(end) == len(stride):
        return False
    ellipsis, new = int(node.get("ellipsis_mask", 0)), int(node.get("new_axis_mask", 0))
    axis = 0
    for place, (first, last, step) in enumerate(zip(begin, end, stride, strict=True)):
        if (ellipsis | new) >> place & 1:
            # Behind an ellipsis axes count from the end: only bounds that are left open are sure.
            if ellipsis >> place & 1:
                shape = None
            continue
        size = shape[axis] if shape is not None and axis < len(shape) else None
        axis += 1
        starts = node.get("begin_mask", 0) >> place & 1 or first == 0
        # An end beyond the size is cut back to it.
        ends = node.get("end_mask", 0) >> place & 1 or (size is not None and last >= size)
        if step != 1 or not starts or not ends:
            return False
    return True


@_RULES.rule("AddN", "Split", Trait.CONCAT)
def _one(node: Node) -> Value | None:
    """The input of an op that joins or sums any number, if there is one."""
    data = node.inputs
    if node.op == "ConcatV2":
        data = data[:-1]
    elif node.op in {"Concat", "Split"}:
        data = data[1:]
    count = node.get("num_split" if node.op == "Split" else "N", len(data))
    return data[0] if len(data) == 1 and count == 1 else None


@_RULES.rule(Trait.REDUCTION)
def _no_axes(node: Node) -> Value | None:
    # A norm over no axes still takes the absolute value of each element.
    if node.op == "EuclideanNorm" or len(node.inputs) != 2:
        return None
    return node.inputs[0] if ints(node.inputs[1]) == () else None


@_RULES.rule("BroadcastTo")
def _broadcast(node: Node) -> Value | None:
    if len(node.inputs) != 2:
        return None
    own, wanted = node.inputs[0].shape, ints(node.inputs[1])
    return node.inputs[0] if own is not None and wanted is not None and own == wanted else None
