"""Strided slices, checked against Python's own indexing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of, text
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, INT32, TensorSpec

X = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def _attrs(begin: int = 0, end: int = 0, dots: int = 0, new: int = 0, shrink: int = 0) -> dict[str, int]:
    return {
        "begin_mask": begin,
        "end_mask": end,
        "ellipsis_mask": dots,
        "new_axis_mask": new,
        "shrink_axis_mask": shrink,
    }


CASES: dict[str, list[Case]] = {
    "StridedSlice": [
        ([X, ints(0, 1), ints(1, 3), ints(1, 1)], _attrs()),
        ([X, ints(-1, 0), ints(0, -100), ints(-1, -2)], _attrs(begin=2, end=2)),
        ([X, ints(1, 0, -2), ints(0, 0, 0), ints(1, 1, 1)], _attrs(dots=2, shrink=5)),
        ([X, ints(0, 0, 0, 1), ints(0, 0, 0, 9), ints(1, 1, 1, 2)], _attrs(dots=2, new=5)),
        ([X, ints(1, 0, 2), ints(0, 0, 0), ints(1, 1, 1)], _attrs(new=2, shrink=7)),
        ([X, ints(1, 0), ints(2, 0), ints(1, 1)], _attrs(dots=2, new=2, shrink=2)),
        ([ints(5, 6, 7), ints(-1), ints(0), ints(1)], _attrs(begin=1, shrink=1)),
        ([text(b"ab", b"c"), ints(1), ints(0), ints(1)], _attrs(shrink=1)),
        ([X, np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32)], _attrs()),
        ([X, np.array([5]), np.array([9]), np.array([1])], _attrs()),
    ],
    "TensorStridedSliceUpdate": [
        ([X, ints(1, 0), ints(2, 3), ints(1, 2), np.float32(-1)], _attrs()),
        ([X[0, 0], ints(0, 0), ints(0, 4), ints(1, 1), np.ones(4, np.float32)], _attrs(shrink=1)),
    ],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


def _encode(index: tuple[Any, ...]) -> tuple[list[np.ndarray], dict[str, int]]:
    """A Python index as StridedSlice's inputs and masks."""
    begin, end, strides = [], [], []
    masks = _attrs()
    for i, term in enumerate(index):
        first, last, step = 0, 0, 1
        if term is Ellipsis:
            masks["ellipsis_mask"] |= 1 << i
        elif term is None:
            masks["new_axis_mask"] |= 1 << i
        elif isinstance(term, int):
            masks["shrink_axis_mask"] |= 1 << i
            first = term
        else:
            step = 1 if term.step is None else term.step
            masks["begin_mask"] |= (term.start is None) << i
            masks["end_mask"] |= (term.stop is None) << i
            first, last = term.start or 0, term.stop or 0
        begin.append(first)
        end.append(last)
        strides.append(step)
    return [np.array(v, np.int32) for v in (begin, end, strides)], masks


_bound = st.none() | st.integers(-6, 6)
_range = st.builds(slice, _bound, _bound, st.sampled_from([None, 1, 2, 3, -1, -2]))
_term = _range | st.integers(-2, 1) | st.none()


@given(st.lists(_term, max_size=3), st.lists(_term, max_size=2), st.booleans())
def test_it_is_what_python_does(before: list[Any], after: list[Any], dots: bool) -> None:
    index = (*before, *([Ellipsis] if dots else []), *after)
    taken = sum(term is not None and term is not Ellipsis for term in index)
    if taken > X.ndim:
        return
    inputs, masks = _encode(index)
    inputs = [v.reshape(-1) for v in inputs]
    np.testing.assert_array_equal(run("StridedSlice", X, *inputs, **masks), X[index])
    check_agreement("StridedSlice", ([X, *inputs], masks))


def _taken(spec: TensorSpec, index: tuple[Any, ...]) -> TensorSpec:
    inputs, masks = _encode(index)
    return infer("StridedSlice", spec, *map(spec_of, inputs), **masks)


def test_one_size_of_a_partly_known_shape() -> None:
    shape = infer("Shape", TensorSpec(FLOAT, (None, 7, 8)))
    assert _taken(shape, (1,)).elements == (7,)
    assert _taken(shape, (0,)).elements is None
    assert _taken(shape, (slice(-2, None),)).elements == (7, 8)
    assert _taken(shape, (slice(None, None, -1),)).elements == (8, 7, None)


def test_unknown_sizes_stay_where_they_are() -> None:
    x = TensorSpec(FLOAT, (None, 4, None))
    assert _taken(x, (slice(None), slice(0, 2))).shape == (None, 2, None)
    assert _taken(x, (Ellipsis, None)).shape == (None, 4, None, 1)
    assert _taken(x, (0, Ellipsis, slice(0, 1))).shape == (4, None)
    bounds = [TensorSpec(INT32, (2,)), TensorSpec(INT32, (2,), (None, 3)), spec_of(ints(1, 1))]
    assert infer("StridedSlice", x, *bounds, begin_mask=2).shape == (None, 3, None)
    assert infer("StridedSlice", x, *[TensorSpec(INT32)] * 3).shape is None


@pytest.mark.parametrize(
    ("inputs", "masks", "message"),
    [
        ([ints(2), ints(3), ints(1)], _attrs(shrink=1), "outside"),
        ([ints(0), ints(3), ints(0)], _attrs(), "is 0"),
        ([ints(0), ints(3), ints(-1)], _attrs(shrink=1), "positive"),
        ([ints(0, 0), ints(3, 0), ints(1, 1)], _attrs(dots=3), "one ellipsis"),
        ([ints(0, 0), ints(3), ints(1)], _attrs(), "entries"),
        ([ints(0, 0, 0, 0, 0), ints(1, 1, 1, 1, 1), ints(1, 1, 1, 1, 1)], _attrs(), "rank 4"),
    ],
)
def test_refusals(inputs: list[np.ndarray], masks: dict[str, int], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        infer("StridedSlice", spec_of(X), *map(spec_of, inputs), **masks)
