"""The same weights under other names, in other layouts and formats."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thinflow.survey.entry import Entry, Looked
from thinflow.survey.likeness import mark_likeness, shared, unordered_digest


@given(st.permutations(range(4)), st.integers(0, 3), st.sampled_from(["float32", "int8", "float16", "int64"]))
def test_layout_does_not_matter(order: list[int], seed: int, dtype: str) -> None:
    kernel = (np.random.default_rng(seed).normal(size=(3, 2, 4, 5)) * 50).astype(dtype)
    assert unordered_digest(kernel.transpose(order)) == unordered_digest(kernel)
    assert unordered_digest(kernel.ravel()) == unordered_digest(kernel)


@given(st.integers(0, 119), st.integers(0, 50))
def test_one_other_number_does(place: int, seed: int) -> None:
    kernel = np.random.default_rng(seed).normal(size=120).astype(np.float32)
    other = kernel.copy()
    other[place] = np.nextafter(other[place], np.float32(9))
    assert unordered_digest(other) != unordered_digest(kernel)


def test_types_and_sums_do_not_mix() -> None:
    assert unordered_digest(np.zeros(8, np.int8)) != unordered_digest(np.zeros(8, np.uint8))
    assert unordered_digest(np.array([1, 4], np.int32)) != unordered_digest(np.array([2, 3], np.int32))


def looked(name: str, content: str, **weights: int) -> Looked:
    return Looked(Entry(name, "model", "a model"), content, weights)


def test_what_is_alike_is_marked() -> None:
    found = [
        looked("a", "1", x=100, y=50),
        looked("copy", "1", x=100, y=50),
        looked("b", "2", x=100, y=50),
        looked("c", "3", x=100, z=60),
        looked("d", "4", q=7),
    ]
    mark_likeness(found)
    a, copy, b, c, d = (one.entry for one in found)
    assert copy.same_as == "a"
    assert (a.same_weights, b.same_weights) == (["b"], ["a"])
    assert a.like == {"c": 0.625}
    assert c.like == {"a": 0.625, "b": 0.625}
    assert (d.same_as, d.same_weights, d.like) == ("", [], {})


def test_shares() -> None:
    assert shared({}, {}) == 0.0
    assert shared({"x": 4}, {"x": 4, "y": 4}) == 0.5
    assert shared({"x": 8}, {"x": 8}) == 1.0
