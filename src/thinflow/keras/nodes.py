"""Nodes added to the graph, and what is known of the sizes of their results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, TypeAlias

from thinflow.ir.graph import Node, Value
from thinflow.ir.types import BOOL, FLOAT, DType, dtype
from thinflow.keras.config import LayerConfig
from thinflow.keras.options import Options
from thinflow.keras.writer import Writer, element_type, typed
from thinflow.typing import Array

Operand: TypeAlias = "Value | Array | float | int | bool"


def common(x: DType, y: DType) -> DType:
    """The type that holds both; of floats the wider, and any float before any whole number."""
    if x is y:
        return x
    low, high = sorted((x, y), key=lambda t: (t.is_floating, t is not BOOL, t.itemsize, t.kind))
    if low.is_floating and low.itemsize == high.itemsize:
        return FLOAT  # half and bfloat16
    if high.kind == "u" and low.kind == "i":
        # Numbers without a sign need one bit more among those that have one.
        return FLOAT if high.itemsize == 8 else dtype(f"int{16 * high.itemsize}")
    return high  # float32 for 64-bit whole numbers, too, in Keras 3


class Nodes(Options):
    """The nodes that a layer becomes.

    Attributes:
        writer: the graph.
    """

    def __init__(self, layer: LayerConfig, writer: Writer) -> None:
        super().__init__(layer)
        self.writer = writer

    def const(self, content: Any, name: str = "Const", like: Value | None = None) -> Value:
        """A new constant; numbers take the type of `like`, whole numbers are int32 without it."""
        import numpy as np

        if isinstance(content, np.ndarray) and like is None:
            return self.writer.constant(content, name)
        element = element_type(like) if like is not None else dtype("int32")
        return self.writer.constant(typed(content, element), name)

    def emit(self, op: str, *inputs: Operand, name: str = "", **attrs: Any) -> Value:
        """The first output of a new node; numbers and arrays among its inputs take the type of the first
        tensor.
        """
        return self.node(op, *inputs, name=name, **attrs).output()

    def node(self, op: str, *inputs: Operand, name: str = "", **attrs: Any) -> Node:
        """A new node.

        Raises:
            ShapeError: the inputs do not fit; placed at the layer by whoever calls its function.
        """
        like = next((x for x in inputs if isinstance(x, Value)), None)
        values = [x if isinstance(x, Value) else self.const(x, f"{name or op}/const", like) for x in inputs]
        return self.writer.add(op, values, name, attrs)

    def shape(self, x: Value) -> tuple[int | None, ...]:
        """The sizes of a value, None where one is open.

        Raises:
            UnsupportedOp: not even the rank is known.
        """
        if x.spec.shape is None:
            raise self.refuse("the rank of its input is not known")
        return x.spec.shape

    def rank(self, x: Value) -> int:
        return len(self.shape(x))

    def size(self, x: Value, axis: int, what: str = "a size of its input") -> int:
        """The size of an axis.

        Raises:
            UnsupportedOp: it is open.
        """
        found = self.shape(x)[axis]
        if found is None:
            raise self.refuse(f"{what} is open", "give the model's input a shape in Keras, and save it again")
        return found

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front.

        Raises:
            UnsupportedOp: there is none of that number.
        """
        if not -rank <= axis < rank:
            raise self.refuse(f"its axis is {axis}, and its input has {rank}")
        return axis % rank

    def reshape(self, x: Value, sizes: Sequence[int | None], name: str = "") -> Value:
        """Another shape; of open sizes one is left to the op, and more are computed from the input's."""
        if sum(n is None or n < 0 for n in sizes) <= 1:
            fixed = self.const([-1 if n is None else n for n in sizes], f"{name or 'Reshape'}/shape")
            return self.emit("Reshape", x, fixed, name=name, Tshape=dtype("int32"))
        raise self.refuse(
            "more than one size of its result is open", "give the model's input a shape in Keras"
        )

    def shaped(self, x: Value, sizes: Sequence[Value | int | None], name: str = "") -> Value:
        """Another shape, of which some sizes may be scalar tensors."""
        fixed = [n for n in sizes if not isinstance(n, Value)]
        if len(fixed) == len(sizes):
            return self.reshape(x, fixed, name)
        # One computed size can be left to the op.
        if len(fixed) == len(sizes) - 1 and all(n is not None and n >= 0 for n in fixed):
            return self.reshape(x, [None if isinstance(n, Value) else n for n in sizes], name)
        vector = self.sizes_vector([-1 if n is None else n for n in sizes])
        return self.emit("Reshape", x, vector, name=name, Tshape=dtype("int32"))

    def transpose(self, x: Value, perm: Sequence[int], name: str = "") -> Value:
        if tuple(perm) == tuple(range(len(perm))):
            return x
        order = self.const(list(perm), f"{name or 'transpose'}/perm")
        return self.emit("Transpose", x, order, name=name or "transpose", Tperm=dtype("int32"))

    def cast(self, x: Value, element: DType) -> Value:
        source = element_type(x)
        if source is element:
            return x
        return self.emit("Cast", x, name="Cast", T=None, SrcT=source, DstT=element)

    def agreed(self, xs: Sequence[Value]) -> list[Value]:
        """Values in the type that holds them all."""
        element = reduce(common, (element_type(x) for x in xs))
        return [self.cast(x, element) for x in xs]

    def type_of(self, x: Value) -> DType:
        """The element type of a value."""
        return element_type(x)

    def reduce(self, op: str, x: Value, axes: Sequence[int], keepdims: bool = False, name: str = "") -> Value:
        """`Mean`, `Sum`, `Max`, `All`... over axes."""
        places = self.const(list(axes), f"{name or op}/reduction_indices")
        is_logical = element_type(x) is BOOL
        kind: dict[str, Any] = {"T": None} if is_logical else {}
        return self.emit(op, x, places, name=name, keep_dims=keepdims, Tidx=dtype("int32"), **kind)

    def concat(self, xs: Sequence[Value], axis: int, name: str = "concat") -> Value:
        if len(xs) == 1:
            return xs[0]
        place = self.const(axis, f"{name}/axis")
        return self.emit("ConcatV2", *xs, place, name=name, N=len(xs), Tidx=dtype("int32"))

    def expand(self, x: Value, axis: int, name: str = "ExpandDims") -> Value:
        return self.emit("ExpandDims", x, self.const(axis, f"{name}/dim"), name=name, Tdim=dtype("int32"))

    def squeeze(self, x: Value, axis: int, name: str = "Squeeze") -> Value:
        return self.emit("Squeeze", x, name=name, squeeze_dims=(axis,))

    def sliced(
        self, x: Value, begin: Sequence[int], end: Sequence[int | None], name: str = "strided_slice"
    ) -> Value:
        """From begin to end along each of the first axes; None for an end that is the axis's."""
        parts = {"begin": begin, "end": [0 if n is None else n for n in end], "strides": [1] * len(begin)}
        inputs = [self.const(list(numbers), f"{name}/{key}") for key, numbers in parts.items()]
        open_ends = sum(1 << i for i, n in enumerate(end) if n is None)
        open_begins = sum(1 << i for i, n in enumerate(begin) if n == 0)
        masks: dict[str, Any] = {"begin_mask": open_begins, "end_mask": open_ends}
        return self.emit("StridedSlice", x, *inputs, name=name, Index=dtype("int32"), **masks)

    def pad(self, x: Value, widths: Sequence[Sequence[int]], name: str = "Pad") -> Value:
        """Zeros before and behind each axis."""
        if not any(n for pair in widths for n in pair):
            return x
        around = self.const([list(pair) for pair in widths], f"{name}/paddings")
        return self.emit("Pad", x, around, name=name, Tpaddings=dtype("int32"))

    def dim(self, x: Value, axis: int) -> Value | int:
        """The size of an axis; a scalar tensor where it is open."""
        size = self.shape(x)[axis]
        if size is not None:
            return size
        sizes = self.emit("Shape", x, out_type=dtype("int32"))
        ends = [self.const([n], "strided_slice/stack") for n in (axis, axis + 1, 1)]
        return self.emit(
            "StridedSlice", sizes, *ends, name="strided_slice", Index=dtype("int32"), shrink_axis_mask=1
        )

    def dim_of(self, op: str, size: Value | int, other: int) -> Value | int:
        """A size times or plus a number."""
        if isinstance(size, Value):
            return self.emit(op, size, other)
        return size * other if op == "Mul" else size + other

    def sizes_vector(self, sizes: Sequence[Value | int]) -> Value:
        """A shape from sizes, of which some may be scalar tensors."""
        if not any(isinstance(n, Value) for n in sizes):
            return self.const(list(sizes), "stack")
        parts = [n if isinstance(n, Value) else self.const(n, "stack") for n in sizes]
        return self.emit("Pack", *parts, name="stack", N=len(parts), axis=0)
