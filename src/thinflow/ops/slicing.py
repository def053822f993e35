"""Strided slices, the op behind Python's `x[...]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._shapes import known_list, moved
from thinflow.ops.array import _Free
from thinflow.ops.registry import op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array

Bound = int | None
_NEW_AXIS = "new axis"
_REST = "rest"
_Unknown = "unknown bound"


class _Range:
    """begin:end:stride along one axis. None is a masked bound, `_Unknown` one that is not known yet."""

    def __init__(self, begin: Any, end: Any, stride: Any) -> None:
        self.bounds = slice(begin, end, stride)

    def size(self, total: int | None) -> int | None:
        bounds = self.bounds
        # A whole axis keeps its size even while that is unknown.
        if (bounds.start, bounds.stop, bounds.step) in {(None, None, 1), (None, None, -1)}:
            return total
        if total is None or _Unknown in (bounds.start, bounds.stop, bounds.step):
            return None
        # Python's own rules for bounds from the end and beyond it, which are TensorFlow's, too.
        return len(range(*bounds.indices(total)))


class _Pick:
    """One place along an axis, which disappears."""

    def __init__(self, place: Any) -> None:
        self.place = place


def _terms(
    begin: Sequence[Bound],
    end: Sequence[Bound],
    strides: Sequence[Bound],
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> list[Any]:
    """The slice's terms: `_Range`, `_Pick`, `_NEW_AXIS`, and one `_REST`, at the end if not written."""
    require(
        len(begin) == len(end) == len(strides),
        f"begin, end and strides have {len(begin)}, {len(end)}, {len(strides)} entries",
    )
    terms: list[Any] = []
    for i, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << i
        require(step != 0, f"stride {i} is 0")
        # Where masks overlap, the ellipsis wins over the new axis, and that over the single place.
        if ellipsis_mask & bit:
            require(_REST not in terms, "a slice can have only one ellipsis")
            terms.append(_REST)
        elif new_axis_mask & bit:
            terms.append(_NEW_AXIS)
        elif shrink_axis_mask & bit:
            require(step is None or step > 0, f"stride {i} is {step}, a single place needs a positive one")
            terms.append(_Pick(_Unknown if first is None else first))
        else:
            terms.append(
                _Range(
                    None if begin_mask & bit else _Unknown if first is None else first,
                    None if end_mask & bit else _Unknown if last is None else last,
                    _Unknown if step is None else step,
                )
            )
    if _REST not in terms:
        terms.append(_REST)
    return terms


def _index(terms: list[Any]) -> tuple[Any, ...] | None:
    """The terms as a numpy index, None if a bound is unknown."""
    index: list[Any] = []
    for term in terms:
        if term is _REST:
            index.append(Ellipsis)
        elif term is _NEW_AXIS:
            index.append(np.newaxis)
        elif isinstance(term, _Pick):
            index.append(term.place)
        else:
            index.append(term.bounds)
    unknown = any(
        _Unknown in ((i.start, i.stop, i.step) if isinstance(i, slice) else (i,))
        for i in index
        if i is not Ellipsis
    )
    return None if unknown else tuple(index)


def _sliced_shape(shape: tuple[int | None, ...], terms: list[Any]) -> tuple[int | None, ...]:
    taken = sum(isinstance(t, _Range | _Pick) for t in terms)
    require(taken <= len(shape), f"the slice has {taken} terms for rank {len(shape)}")
    dims: list[int | None] = []
    axis = 0
    for term in terms:
        if term is _REST:
            dims += shape[axis : axis + len(shape) - taken]
            axis += len(shape) - taken
        elif term is _NEW_AXIS:
            dims.append(1)
        elif isinstance(term, _Pick):
            total = shape[axis]
            if total is not None and term.place is not _Unknown:
                require(-total <= term.place < total, f"place {term.place} is outside an axis of {total}")
            axis += 1
        else:
            dims.append(term.size(shape[axis]))
            axis += 1
    return tuple(dims)


@op("StridedSlice")
class StridedSlice(_Free):
    """y = x[begin:end:strides], with a bit per entry in each mask.   begin, end, strides [n].

    begin_mask, end_mask: that bound is absent. ellipsis_mask: the entry is `...`. new_axis_mask: it is a new
    axis of size 1. shrink_axis_mask: it is a single place, begin, and its axis disappears.
    """

    traits = Trait.T_OF_FIRST_INPUT | Trait.LINEAR | Trait.REARRANGES

    @staticmethod
    def infer(
        x: TensorSpec,
        begin: TensorSpec,
        end: TensorSpec,
        strides: TensorSpec,
        *,
        begin_mask: int = 0,
        end_mask: int = 0,
        ellipsis_mask: int = 0,
        new_axis_mask: int = 0,
        shrink_axis_mask: int = 0,
    ) -> TensorSpec:
        lists = [known_list(s) for s in (begin, end, strides)]
        count = next((len(v) for v in lists if v is not None), None)
        if x.shape is None or count is None:
            return x.with_shape(None)
        first, last, step = (v if v is not None else (None,) * count for v in lists)
        terms = _terms(
            first, last, step, begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask
        )
        result = x.with_shape(_sliced_shape(x.shape, terms))
        index = _index(terms)
        return result if index is None else moved(result, lambda v: v[index], x)

    @staticmethod
    def kernel(
        x: Array,
        begin: Array,
        end: Array,
        strides: Array,
        *,
        begin_mask: int = 0,
        end_mask: int = 0,
        ellipsis_mask: int = 0,
        new_axis_mask: int = 0,
        shrink_axis_mask: int = 0,
    ) -> Array:
        masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
        return x[_index(_terms(begin.tolist(), end.tolist(), strides.tolist(), *masks))]


@op("TensorStridedSliceUpdate")
class TensorStridedSliceUpdate(_Free):
    """y = x, with the places that StridedSlice would read replaced by `value` (broadcast to them)."""

    @staticmethod
    def infer(
        x: TensorSpec, begin: TensorSpec, end: TensorSpec, strides: TensorSpec, value: TensorSpec
    ) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(
        x: Array,
        begin: Array,
        end: Array,
        strides: Array,
        value: Array,
        *,
        begin_mask: int = 0,
        end_mask: int = 0,
        ellipsis_mask: int = 0,
        new_axis_mask: int = 0,
        shrink_axis_mask: int = 0,
    ) -> Array:
        masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
        y: Array = x.copy()
        y[_index(_terms(begin.tolist(), end.tolist(), strides.tolist(), *masks))] = value
        return y
