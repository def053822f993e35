"""Who is told how far work is."""

from __future__ import annotations

import threading

import pytest

from thinflow.progress import counted, watched

Told = list[tuple[int, int, str]]


def test_nobody_watches() -> None:
    items = [1, 2]
    assert counted(items, 2, "work") is items


def test_every_item_and_the_end_are_told() -> None:
    told: Told = []
    with watched(lambda *step: told.append(step)):
        assert list(counted("ab", 2, "work")) == ["a", "b"]
    assert told == [(0, 2, "work"), (1, 2, "work"), (2, 2, "work")]
    assert list(counted("ab", 2, "work")) == ["a", "b"]
    assert len(told) == 3


def test_steps_within_a_step_are_not_told() -> None:
    told: Told = []
    with watched(lambda *step: told.append(step)):
        for _ in counted("ab", 2, "outer"):
            assert list(counted("cd", 2, "inner")) == ["c", "d"]
        assert list(counted("cd", 2, "inner")) == ["c", "d"]
    assert [label for _, _, label in told] == ["outer"] * 3 + ["inner"] * 3


def test_more_than_was_said() -> None:
    told: Told = []
    with watched(lambda *step: told.append(step)):
        assert len(list(counted(range(3), 1, "work"))) == 3
    assert told == [(0, 1, "work"), (1, 1, "work")]


def test_what_fails_ends() -> None:
    told: Told = []
    with watched(lambda *step: told.append(step)):
        with pytest.raises(ZeroDivisionError):
            list(counted((1 // n for n in (1, 0)), 2, "work"))
        assert told[-1] == (2, 2, "work")
        # And the next is told.
        list(counted("a", 1, "next"))
    assert told[-1] == (1, 1, "next")


def test_other_threads_are_not_told_of() -> None:
    told: Told = []
    with watched(lambda *step: told.append(step)):
        thread = threading.Thread(target=lambda: list(counted("ab", 2, "work")))
        thread.start()
        thread.join()
        with watched(None):
            list(counted("ab", 2, "work"))
    assert told == []
