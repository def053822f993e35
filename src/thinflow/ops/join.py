"""Joining tensors along an axis and taking them apart again."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from thinflow.ir.types import Shape, TensorSpec, shape_text
from thinflow.ops._shapes import known_list, merge, moved, normalize_axis, scalar, with_elements
from thinflow.ops.array import _Free
from thinflow.ops.registry import op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


def _merge_all(shapes: Iterable[Shape]) -> Shape:
    merged: Shape = None
    for shape in shapes:
        merged = merge(merged, shape)
    return merged


@op("Pack")
class Pack(_Free):
    """y = the n inputs side by side along a new `axis` (of y) of size n."""

    traits = Trait.T_OF_ALL_INPUTS | Trait.LINEAR | Trait.STACK

    @staticmethod
    def infer(*xs: TensorSpec, axis: int = 0) -> TensorSpec:
        shape = _merge_all(x.shape for x in xs)
        if shape is None:
            return xs[0].with_shape(None)
        axis = normalize_axis(axis, len(shape) + 1)
        result = xs[0].with_shape((*shape[:axis], len(xs), *shape[axis:]))
        return moved(result, lambda *arrays: np.stack(arrays, axis), *xs)

    @staticmethod
    def kernel(*xs: Array, axis: int = 0) -> Array:
        return np.stack(xs, axis)


@op("Unpack")
class Unpack(_Free):
    """y_i = x[..., i, ...] along `axis`, for each of the `num` places."""

    traits = Trait.T_OF_FIRST_INPUT | Trait.LINEAR | Trait.REARRANGES
    num_outputs = "num"

    @staticmethod
    def infer(x: TensorSpec, *, num: int, axis: int = 0) -> tuple[TensorSpec, ...]:
        if x.shape is None:
            return (x.with_shape(None),) * num
        axis = normalize_axis(axis, len(x.shape))
        require(x.shape[axis] in (num, None), f"axis {axis} of {x} has not {num} places")
        result = x.with_shape(x.shape[:axis] + x.shape[axis + 1 :])
        if x.shape[axis] is None:
            return (result,) * num
        # `i=i`, as the lambda would see the last i of the loop.
        return tuple(moved(result, lambda v, i=i: np.take(v, i, axis), x) for i in range(num))

    @staticmethod
    def kernel(x: Array, *, num: int, axis: int = 0) -> tuple[Array, ...]:
        axis = normalize_axis(axis, x.ndim)
        require(x.shape[axis] == num, f"axis {axis} of {list(x.shape)} has not {num} places")
        front = np.moveaxis(x, axis, 0)
        return tuple(front[i, ...] for i in range(num))


def _concat_spec(axis: TensorSpec, xs: tuple[TensorSpec, ...]) -> TensorSpec:
    ranks = {x.rank for x in xs if x.rank is not None}
    require(len(ranks) <= 1, f"cannot join tensors of ranks {sorted(ranks)}")
    if not ranks:
        return xs[0].with_shape(None)
    (rank,) = ranks
    require(rank > 0, "cannot join scalars")
    along = scalar(axis)
    if along is None:
        return xs[0].with_shape((None,) * rank)
    along = normalize_axis(along, rank)
    shapes = [x.shape if x.shape is not None else (None,) * rank for x in xs]
    # The joined axis is hidden, so that merge checks and completes all others.
    others: list[Shape] = [(*s[:along], None, *s[along + 1 :]) for s in shapes]
    merged = list(_merge_all(others) or ())
    sizes = [s[along] for s in shapes]
    known = [s for s in sizes if s is not None]
    merged[along] = sum(known) if len(known) == len(sizes) else None
    return moved(xs[0].with_shape(merged), lambda *arrays: np.concatenate(arrays, along), *xs)


@op("Concat")
class Concat(_Free):
    """y = the inputs one after the other along the axis in the first input."""

    traits = Trait.CONCAT | Trait.LINEAR

    @staticmethod
    def infer(concat_dim: TensorSpec, *xs: TensorSpec) -> TensorSpec:
        return _concat_spec(concat_dim, xs)

    @staticmethod
    def kernel(concat_dim: Array, *xs: Array) -> Array:
        return np.concatenate(xs, normalize_axis(int(concat_dim), xs[0].ndim))


@op("ConcatV2")
class ConcatV2(_Free):
    """y = all inputs but the last, one after the other along the axis in the last input."""

    traits = Trait.CONCAT | Trait.LINEAR

    @staticmethod
    def infer(*inputs: TensorSpec) -> TensorSpec:
        return _concat_spec(inputs[-1], inputs[:-1])

    @staticmethod
    def kernel(*inputs: Array) -> Array:
        return np.concatenate(inputs[:-1], normalize_axis(int(inputs[-1]), inputs[0].ndim))


@op("ConcatOffset")
class ConcatOffset(_Free):
    """y_i = where tensor i starts in a concatenation of tensors of these shapes.   shape_i [r] -> y_i [r]."""

    num_outputs = "N"

    @staticmethod
    def infer(concat_dim: TensorSpec, *shapes: TensorSpec) -> tuple[TensorSpec, ...]:
        axis = scalar(concat_dim)
        results = [s.with_shape(s.shape) for s in shapes]
        lists = [known_list(s) for s in shapes]
        if axis is None or any(dims is None for dims in lists):
            return tuple(results)
        # One unknown size leaves the offsets behind it unknown, not those before.
        position: int | None = 0
        for i, dims in enumerate(lists):
            assert dims is not None
            along = normalize_axis(axis, len(dims))
            results[i] = with_elements(results[i], [position if a == along else 0 for a in range(len(dims))])
            size = dims[along]
            position = None if position is None or size is None else position + size
        return tuple(results)

    @staticmethod
    def kernel(concat_dim: Array, *shapes: Array) -> tuple[Array, ...]:
        axis = normalize_axis(int(concat_dim), shapes[0].size)
        offsets = []
        position = 0
        for shape in shapes:
            rest = np.delete(shape, axis)
            require(
                bool((rest == np.delete(shapes[0], axis)).all()), "the shapes differ beside the joined axis"
            )
            offset = np.zeros_like(shape)
            offset[axis] = position
            position += int(shape[axis])
            offsets.append(offset)
        return tuple(offsets)


@op("Split")
class Split(_Free):
    """y_i = the i-th of `num_split` equal parts of x along an axis."""

    traits = Trait.SPLIT | Trait.LINEAR
    num_outputs = "num_split"

    @staticmethod
    def infer(split_dim: TensorSpec, x: TensorSpec, *, num_split: int) -> tuple[TensorSpec, ...]:
        if x.shape is None:
            return (x.with_shape(None),) * num_split
        axis = scalar(split_dim)
        if axis is None:
            return (x.with_shape((None,) * len(x.shape)),) * num_split
        axis = normalize_axis(axis, len(x.shape))
        size = x.shape[axis]
        if size is None:
            return (x.with_shape(x.shape),) * num_split
        require(size % num_split == 0, f"axis {axis} of {x} does not split into {num_split} equal parts")
        result = x.with_shape((*x.shape[:axis], size // num_split, *x.shape[axis + 1 :]))
        return tuple(
            moved(result, lambda v, i=i: np.split(v, num_split, axis)[i], x) for i in range(num_split)
        )

    @staticmethod
    def kernel(split_dim: Array, x: Array, *, num_split: int) -> tuple[Array, ...]:
        return tuple(np.split(x, num_split, normalize_axis(int(split_dim), x.ndim)))


@op("SplitV")
class SplitV(_Free):
    """y_i = the next sizes[i] places of x along an axis; one size may be -1, for what remains."""

    traits = Trait.SPLIT | Trait.LINEAR
    num_outputs = "num_split"

    @staticmethod
    def infer(
        x: TensorSpec, size_splits: TensorSpec, split_dim: TensorSpec, *, num_split: int
    ) -> tuple[TensorSpec, ...]:
        if x.shape is None:
            return (x.with_shape(None),) * num_split
        axis = scalar(split_dim)
        if axis is None:
            return (x.with_shape((None,) * len(x.shape)),) * num_split
        axis = normalize_axis(axis, len(x.shape))
        sizes = list(known_list(size_splits) or (None,) * num_split)
        require(len(sizes) == num_split, f"{len(sizes)} sizes for {num_split} parts")
        total = x.shape[axis]
        # The only part is everything, whatever its size says.
        if num_split == 1:
            sizes = [total]
        elif total is not None and size_splits.ints is not None:
            sizes = list(_part_sizes(size_splits.ints, total))
        shapes = [(*x.shape[:axis], None if s == -1 else s, *x.shape[axis + 1 :]) for s in sizes]
        results = tuple(x.with_shape(s) for s in shapes)
        if any(s in (None, -1) for s in sizes) or total is None:
            return results
        bounds = np.cumsum(np.array(sizes[:-1], np.int64))
        return tuple(
            moved(result, lambda v, i=i: np.split(v, bounds, axis)[i], x) for i, result in enumerate(results)
        )

    @staticmethod
    def kernel(x: Array, size_splits: Array, split_dim: Array, *, num_split: int) -> tuple[Array, ...]:
        axis = normalize_axis(int(split_dim), x.ndim)
        sizes = _part_sizes(tuple(int(s) for s in size_splits.ravel()), x.shape[axis])
        require(len(sizes) == num_split, f"{len(sizes)} sizes for {num_split} parts")
        return tuple(np.split(x, np.cumsum(np.array(sizes[:-1], np.int64)), axis))


def _part_sizes(sizes: tuple[int, ...], total: int) -> tuple[int, ...]:
    require(sizes.count(-1) <= 1, f"more than one size is -1 in {list(sizes)}")
    rest = total - sum(s for s in sizes if s != -1)
    fits = rest >= 0 if -1 in sizes else rest == 0
    require(fits, f"parts {shape_text(sizes)} do not add up to the {total} places of the axis")
    return tuple(rest if s == -1 else s for s in sizes)
