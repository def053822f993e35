"""Parts of tensors, joining and splitting."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from thinflow.errors import ShapeError
from thinflow.ir.graph import Node
from thinflow.ir.types import INT64
from thinflow.lower.onnx.builder import END, Builder, ints, require, shape_of
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor

_LIMIT = 2**62


@lower("Slice", to="onnx")
def slice_(b: Builder, node: Node, x: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    """A size of -1 means up to the end."""
    begin, size = b.index(begin), b.index(size)
    if begin.is_constant and size.is_constant:
        starts, sizes = ints(begin, "begin"), ints(size, "size")
        stops = [END if n == -1 else s + n for s, n in zip(starts, sizes, strict=True)]
        return b.result(b.sliced(x, starts, stops, range(len(starts))))
    to_end = b.step("Equal", size, b.int64(-1))
    ends = b.step("Where", to_end, b.int64(END), b.step("Add", begin, size))
    return b.emit("Slice", x, begin, ends)


@dataclass
class _Plan:
    """The plan of a StridedSlice, axis by axis of x.

    Attributes:
        terms: which entry of begin and end is about which axis.
        shrunk: axes of x that go.
        added: axes of the result that come, of size 1.
    """

    terms: list[tuple[int, int]] = field(default_factory=list)
    shrunk: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)


def _plan(count: int, rank: int | None, ellipsis: int, new_axis: int, shrink: int) -> _Plan:
    # A number with one bit has none in common with the number before it.
    require(ellipsis & (ellipsis - 1) == 0, "there are several ellipses")
    plan = _Plan()
    # TensorFlow's precedence: an ellipsis beats a new axis, which beats an index.
    taken = sum(1 for i in range(count) if not ((ellipsis | new_axis & ~ellipsis) >> i) & 1)
    axis = place = 0
    for i in range(count):
        if ellipsis >> i & 1:
            if rank is None:
                raise ShapeError("the rank of x is not known, and the slice has an ellipsis")
            axis += rank - taken
            place += rank - taken
        elif new_axis >> i & 1:
            plan.added.append(place)
            place += 1
        else:
            plan.terms.append((i, axis))
            if shrink >> i & 1:
                plan.shrunk.append(axis)
            else:
                place += 1
            axis += 1
    require(rank is None or taken <= rank, f"the slice has {taken} terms for rank {rank}")
    return plan


@lower("StridedSlice", to="onnx")
def strided_slice(
    b: Builder,
    node: Node,
    x: Tensor,
    begin: Tensor,
    end: Tensor,
    strides: Tensor,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Tensor:
    """A Slice, a Squeeze of the axes that are indexed, an Unsqueeze of new ones. Strides must be fixed."""
    steps = ints(strides, "strides")
    rank = None if x.shape is None else len(x.shape)
    plan = _plan(len(steps), rank, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    starts = _Bounds(b, b.index(begin), plan)
    stops = _Bounds(b, b.index(end), plan)
    for k, (i, _) in enumerate(plan.terms):
        shrinks, backwards = shrink_axis_mask >> i & 1, steps[i] < 0
        require(steps[i] != 0, "a stride is 0")
        if shrinks:
            stops.follow(k, starts)
            continue
        if begin_mask >> i & 1:
            starts.set(k, END if backwards else 0)
        if end_mask >> i & 1:
            stops.set(k, -END if backwards else END)
    trivial = [
        starts.fixed[k] == 0 and stops.fixed[k] == END and steps[i] == 1
        for k, (i, _) in enumerate(plan.terms)
    ]
    chosen = [k for k, is_trivial in enumerate(trivial) if not is_trivial]
    y = x
    if chosen:
        axes = [plan.terms[k][1] for k in chosen]
        by = [
            # An index takes one element, whatever its stride.
            1 if axis in plan.shrunk else steps[plan.terms[k][0]]
            for k, axis in zip(chosen, axes, strict=True)
        ]
        shape = _sliced_shape(b, x, plan, axes)
        if starts.is_fixed(chosen) and stops.is_fixed(chosen):
            # None of these is None here: `or 0` is for the type alone.
            begins, ends = ([bounds.fixed[k] or 0 for k in chosen] for bounds in (starts, stops))
            y = b.sliced(x, begins, ends, axes, None if set(by) == {1} else by, shape=shape)
        else:
            operands = [
                starts.tensor(chosen),
                stops.tensor(chosen),
                b.ints(axes, "axes"),
                b.ints(by, "steps"),
            ]
            y = b.step("Slice", x, *operands, shape=shape)
    return b.result(b.unsqueezed(b.squeezed(y, plan.shrunk), plan.added))


def _sliced_shape(b: Builder, x: Tensor, plan: _Plan, axes: list[int]) -> tuple[int | None, ...] | None:
    """The shape before axes go and come."""
    result = b.result_spec().shape
    if x.shape is None or result is None:
        return None if x.shape is None else tuple(None if a in axes else n for a, n in enumerate(x.shape))
    left = [n for place, n in enumerate(result) if place not in plan.added]
    return tuple(1 if a in plan.shrunk else left.pop(0) if left else None for a in range(len(x.shape)))


class _Bounds:
    """Begins or ends of a slice, some fixed and some computed."""

    def __init__(self, b: Builder, source: Tensor, plan: _Plan) -> None:
        known = b.elements(source)
        places = [i for i, _ in plan.terms]
        self._b = b
        self._places = places
        self._source = source
        self._next_to: _Bounds | None = None
        self._following: set[int] = set()
        self.fixed: list[int | None] = [None] * len(places) if known is None else [known[i] for i in places]
        # Bounds at the limits of int64 mean "as far as it goes"; some steps from there must not wrap around.
        self.fixed = [None if n is None else max(min(n, _LIMIT), -_LIMIT) for n in self.fixed]

    def set(self, k: int, number: int) -> None:
        self.fixed[k] = number

    def follow(self, k: int, starts: _Bounds) -> None:
        """End right after the start; after the last element there is no 0 to end at."""
        start = starts.fixed[k]
        self.fixed[k] = None if start is None else END if start == -1 else start + 1
        if start is None:
            self._next_to = starts
            self._following.add(k)

    def is_fixed(self, chosen: list[int]) -> bool:
        return all(self.fixed[k] is not None for k in chosen)

    def tensor(self, chosen: list[int]) -> Tensor:
        """The bounds of the chosen terms, int64 [n]."""
        b = self._b
        if self.is_fixed(chosen):
            return b.ints([self.fixed[k] or 0 for k in chosen], "bounds")
        own = self._gathered(chosen)
        if self._following & set(chosen):
            assert self._next_to is not None
            start = self._next_to._gathered(chosen)
            is_last = b.step("Equal", start, b.int64(-1))
            after = b.step("Where", is_last, b.int64(END), b.step("Add", start, b.int64(1)))
            follows = b.const(np.array([k in self._following for k in chosen]), "follows")
            own = b.step("Where", follows, after, own, shape=(len(chosen),))
        if any(self.fixed[k] is not None for k in chosen):
            is_fixed = b.const(np.array([self.fixed[k] is not None for k in chosen]), "is_fixed")
            numbers = b.ints([self.fixed[k] or 0 for k in chosen], "fixed")
            own = b.step("Where", is_fixed, numbers, own, shape=(len(chosen),))
        return own

    def _gathered(self, chosen: list[int]) -> Tensor:
        places = [self._places[k] for k in chosen]
        if places == list(range(len(shape_of(self._source, "the bounds", 1)))) and self._source.shape == (
            len(places),
        ):
            return self._source
        where = self._b.ints(places, "places")
        return self._b.step("Gather", self._source, where, shape=(len(places),), element=INT64, axis=0)


# ---- Joining and splitting.


_MOST = 1 << 16
"""Parts of a split."""


def _concat(b: Builder, xs: tuple[Tensor, ...], axis: Tensor) -> Tensor:
    require(len(xs) > 0, "there is nothing to join")
    (place,) = b.axes(axis, len(shape_of(xs[0])))
    return b.emit("Concat", *xs, axis=place)


@lower("Concat", to="onnx")
def concat(b: Builder, node: Node, axis: Tensor, *xs: Tensor) -> Tensor:
    return _concat(b, xs, axis)


@lower("ConcatV2", to="onnx")
def concat_v2(b: Builder, node: Node, *xs: Tensor) -> Tensor:
    return _concat(b, xs[:-1], xs[-1])


@lower("Pack", to="onnx")
def pack(b: Builder, node: Node, *xs: Tensor, axis: int = 0) -> Tensor:
    """Each with a new axis, joined along it."""
    if axis < 0:
        # A negative axis counts in the result, which has one axis more.
        axis += len(shape_of(xs[0])) + 1
    return b.emit("Concat", *(b.unsqueezed(x, [axis]) for x in xs), axis=axis)


@lower("Unpack", to="onnx")
def unpack(b: Builder, node: Node, x: Tensor, *, num: int, axis: int = 0) -> tuple[Tensor, ...]:
    shape = shape_of(x, "x")
    axis %= max(len(shape), 1)
    require(shape[axis] in (num, None) and num <= _MOST, f"there are no {num} parts")
    part = (*shape[:axis], 1, *shape[axis + 1 :])
    return tuple(
        b.result(b.squeezed(t, [axis]), port)
        for port, t in enumerate(_split(b, x, [1] * num, axis, [part] * num))
    )


def _split(
    b: Builder, x: Tensor, sizes: list[int], axis: int, shapes: list[tuple[int | None, ...]]
) -> tuple[Tensor, ...]:
    count = len(sizes)
    # ONNX's Split of one part would be a copy.
    if count == 1:
        return (x,)
    return b.step_ports(
        "Split", x, b.ints(sizes, "sizes"), shapes=shapes, elements=[x.dtype] * count, axis=axis
    )


@lower("Split", to="onnx")
def split(b: Builder, node: Node, axis: Tensor, x: Tensor, *, num_split: int) -> tuple[Tensor, ...] | Tensor:
    """Equal parts."""
    if num_split == 1:
        return x
    require(0 < num_split <= _MOST, f"{num_split} parts cannot be")
    (place,) = b.axes(axis, None if x.shape is None else len(x.shape))
    size = None if x.shape is None else x.shape[place]
    if size is not None:
        require(size % num_split == 0, f"{size} elements cannot be split into {num_split} equal parts")
        sizes = b.ints([size // num_split] * num_split, "sizes")
        return b.emit_ports("Split", x, sizes, count=num_split, axis=place)
    # Opset 18 wants the number of outputs said; before, it followed from their names.
    more = {"num_outputs": num_split} if b.opset >= 18 else {}
    return b.emit_ports("Split", x, count=num_split, axis=place, **more)


@lower("SplitV", to="onnx")
def split_v(
    b: Builder, node: Node, x: Tensor, sizes: Tensor, axis: Tensor, *, num_split: int
) -> tuple[Tensor, ...] | Tensor:
    """Parts of given sizes, of which one may be -1 for the rest."""
    (place,) = b.axes(axis, None if x.shape is None else len(x.shape))
    if num_split == 1:
        return x
    require(0 < num_split <= _MOST, f"{num_split} parts cannot be")
    known = b.elements(sizes)
    if known is not None and -1 in known:
        total = None if x.shape is None else x.shape[place]
        require(total is not None and None not in known, "the size of the split axis is not known")
        # The -1 is in the sum itself: the last 1 makes up for it.
        rest = (total or 0) - sum(n or 0 for n in known) - 1
        sizes = b.ints([rest if n == -1 else n or 0 for n in known], "sizes")
    return b.emit_ports("Split", x, b.index(sizes), count=num_split, axis=place)
