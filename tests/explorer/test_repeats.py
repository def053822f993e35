"""Repetitions in a row."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from thinflow.explorer.repeats import LONG_ROW, Repeat, find_repeats


def found(text: str, widths: list[int] | None = None, most: int = 1) -> list[Repeat]:
    return find_repeats(text, widths or [1] * (len(text) + 1), most)


def test_the_shortest_period_wins() -> None:
    assert found("xabababab") == [Repeat(1, 2, 4)]


def test_several_stand_in_their_order() -> None:
    assert found("abcabcabcxydededede") == [Repeat(0, 3, 3), Repeat(11, 2, 4)]


def test_nothing_repeats() -> None:
    assert found("abcdefgh") == []


def test_two_of_one_kind_are_no_repetition() -> None:
    assert found("aabbcc") == []


def test_a_short_row_is_left() -> None:
    assert found("abababab", most=8) == []


def test_it_is_cut_where_least_is_handed_across() -> None:
    widths = [1, 3, 1, 3, 1, 3, 1, 3, 1, 3]
    assert found("babababab", widths)[0].start % 2 == 0
    shifted = [3, 1, 3, 1, 3, 1, 3, 1, 3, 1]
    assert found("babababab", shifted)[0].start % 2 == 1


def test_a_long_row_takes_no_longer_periods() -> None:
    row = list(range(LONG_ROW)) * 2
    assert find_repeats(row, [1] * (len(row) + 1), 1) == []


@given(st.text("abc", max_size=60))
def test_what_is_found_repeats(text: str) -> None:
    end = 0
    for repeat in found(text):
        copies = [text[at : at + repeat.period] for at in range(repeat.start, repeat.end, repeat.period)]
        assert len(set(copies)) == 1
        assert len(copies) == repeat.copies >= 2
        assert repeat.start >= end
        end = repeat.end
    assert end <= len(text)
