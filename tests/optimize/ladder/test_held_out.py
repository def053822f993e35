"""Samples that are held out to judge on."""

from __future__ import annotations

from typing import Any

from thinflow.optimize.ladder.held_out import held_out
from thinflow.optimize.samples import Samples


def samples(count: int, *, known: bool = True) -> Samples:
    feeds: list[Any] = [{"x": n} for n in range(count)]
    numbers = list(range(count)) if known else None
    return Samples(
        lambda: iter(feeds),
        count if known else None,
        False,
        labels=numbers,
        note=f"{count} samples",
        given_labels=numbers,
        places=[f"{n}.npy" for n in numbers or ()],
        loudest=5 if known else None,
        doubts=["one was left out"],
    )


def test_every_fourth_judges_and_the_others_make_ranges() -> None:
    fitting, judging = held_out(samples(10))
    assert [feed["x"] for feed in fitting] == [0, 1, 2, 4, 5, 6, 8, 9]  # type: ignore[index, comparison-overlap]
    assert [feed["x"] for feed in judging] == [3, 7]  # type: ignore[index, comparison-overlap]
    assert (fitting.labels, judging.labels) == ([0, 1, 2, 4, 5, 6, 8, 9], [3, 7])
    assert (fitting.count, judging.count) == (8, 2)
    assert judging.place(1) == "7.npy"
    assert (fitting.loudest, judging.loudest) == (4, None)
    assert judging.note == "2 held out to judge on, of 10 samples"
    assert [*fitting.doubts, *judging.doubts] == ["one was left out"]


def test_few_samples_do_both() -> None:
    for given in (samples(7), samples(7, known=False)):
        assert held_out(given) == (given, given)


def test_samples_that_nobody_counted() -> None:
    fitting, judging = held_out(samples(9, known=False))
    assert (len(list(fitting)), len(list(judging)), judging.count) == (7, 2, None)
    assert judging.note == "some held out to judge on, of 9 samples"
