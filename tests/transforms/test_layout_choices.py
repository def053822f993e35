"""The parts of which the choice of a layout is made: reshapes of transposed tensors, and smallest cuts."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thinflow.transforms.layout.cut import NO, YES, Choices
from thinflow.transforms.layout.reshapes import behind, inner_order, pieces

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@st.composite
def views(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Two shapes of the same elements, made of the same pieces, and a permutation of the first one's axes."""
    parts = draw(SIZES)
    shapes = []
    for _ in range(2):
        cuts = sorted(draw(st.sets(st.integers(0, len(parts)))) | {0, len(parts)})
        shapes.append(tuple(math.prod(parts[a:b]) for a, b in pairwise(cuts)))
    return shapes[0], shapes[1], tuple(draw(st.permutations(range(len(shapes[0])))))


@given(views())
def test_a_reshape_of_what_lies_in_another_order(
    view: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
) -> None:
    before, after, perm = view
    # y = reshape(transpose(x, perm)).
    x = np.arange(math.prod(before)).reshape([before[perm.index(axis)] for axis in range(len(perm))])
    y = x.transpose(perm).reshape(after)
    rest = behind(before, after, perm)
    if rest is not None:
        stored = x.reshape([after[rest.index(axis)] for axis in range(len(rest))])
        np.testing.assert_array_equal(stored.transpose(rest), y)
    if (orders := inner_order(before, after, perm)) is not None:
        for axis, order in orders.items():
            y = np.take(y, order, axis)
        np.testing.assert_array_equal(x.reshape(after), y)


def test_what_a_reshape_of_nhwc_pictures_gives() -> None:
    last = (0, 3, 1, 2)  # transposes [n, h, w, c] to [n, c, h, w]
    assert behind((2, 6, 4, 5), (2, 2, 3, 4, 5), last) == (0, 3, 4, 1, 2)
    assert behind((None, 6, 4, 5), (None, 2, 3, 4, 5), last) == (0, 3, 4, 1, 2)
    assert behind((2, 6, 4, 5), (2, 6, 20), last) == (0, 2, 1)
    assert behind((2, 6, 1, 1), (2, 6), last) == (0, 1)
    # Of the channels some would come before the picture, some behind it.
    assert behind((2, 6, 4, 5), (2, 120), last) is None
    assert inner_order((2, 3, 1, 2), (2, 6), last) == {1: [0, 2, 4, 1, 3, 5]}


def test_shapes_without_common_pieces() -> None:
    assert pieces((6, 4), (2, 3, 4)) == ([[0, 1], [2]], [[0], [1], [2]])
    assert pieces((6, 4), (4, 6)) is None
    assert pieces((None, None), (None, None)) is None
    assert pieces((2, 0), (0, 2)) is None
    assert pieces((2, 3), (2, 4)) is None
    assert pieces(None, (2,)) is None


COSTS = st.lists(
    st.tuples(st.sampled_from([YES, "a", "b", "c", "d"]), st.sampled_from([NO, "a", "b", "c", "d"]),
              st.integers(0, 9)),
    max_size=14,
)  # fmt: skip


@given(COSTS)
def test_the_cheapest_choices_are_found(costs: list[tuple[str, str, int]]) -> None:
    choices = Choices()
    for yes, no, price in costs:
        choices.cost(yes, no, price)

    def total(chosen: set[object]) -> int:
        return sum(price for yes, no, price in costs if yes in chosen and no not in chosen)

    best = min(
        total({YES, *(name for name, is_yes in zip("abcd", picks, strict=True) if is_yes)})
        for picks in product((False, True), repeat=4)
    )
    found = choices.cheapest()
    assert YES in found
    assert NO not in found
    assert total(found) == best
