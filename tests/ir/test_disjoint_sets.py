"""Items that are joined step by step."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from thinflow.ir.disjoint_sets import DisjointSets

PAIRS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=30)


def test_sets_keep_the_order_of_their_items() -> None:
    sets = DisjointSets("abcdef")
    sets.join("da")
    sets.join("fb")
    sets.find("g")
    assert ["".join(s) for s in sets.sets()] == ["ad", "bf", "c", "e", "g"]
    assert (sets.find("a"), sets.find("b")) == ("d", "f")
    assert [item for item in sets if sets.is_alone(item)] == ["c", "e", "g"]
    assert "g" in sets
    assert "h" not in sets


def test_joining_fewer_than_two_changes_nothing() -> None:
    sets = DisjointSets([1])
    sets.join([])
    sets.join([1])
    assert sets.is_alone(1)
    assert sets.sets() == [[1]]


@given(PAIRS)
def test_items_are_together_that_a_chain_of_pairs_joins(pairs: list[tuple[int, int]]) -> None:
    sets = DisjointSets(range(21))
    expected = [{n} for n in range(21)]
    for a, b in pairs:
        sets.join([a, b])
        if expected[a] is not expected[b]:
            merged = expected[a] | expected[b]
            for n in merged:
                expected[n] = merged
    for a in range(21):
        assert {b for b in range(21) if sets.find(b) == sets.find(a)} == expected[a]
