"""The choice among measured candidates."""

from __future__ import annotations

import pytest

from tests.optimize.ladder.made_up import one
from thinflow.optimize.ladder.budget import Budget
from thinflow.optimize.ladder.choice import choose, front, misfits
from thinflow.optimize.ladder.measured import Latency, Measured, on_one_clock

FLOAT = one("float32", 400, db=float("inf"), ram=40)
INT8 = one("int8", 100, same=998, db=35, time=0.5)
TUNED = one("int8 (default)", 104, same=1000, db=41, time=0.51)
WIDE = one("int16x8", 105, same=1000, db=60, time=3, ram=20)
INT4 = one("int4_weights", 60, same=960, db=20, time=1, ram=40)
ALL = [FLOAT, INT8, TUNED, WIDE, INT4]


@pytest.mark.parametrize(
    ("budget", "best"),
    [
        (Budget(0.5), "int8 (default)"),  # of two that are about as small and fast, the more exact
        (Budget(5), "int8 (default)"),  # smaller, but no faster: the product of both decides
        (Budget(5, size_bytes=103), "int8"),
        (Budget(5, size_bytes=80), "int4_weights"),
        (Budget(0.5, latency_ms=6), "int8 (default)"),
        (Budget(0.5, size_bytes=400, latency_ms=100), "float32"),  # all is kept: the most exact
        (Budget(0.5, size_bytes=200, latency_ms=100), "int16x8"),
        (Budget(0.5, ram_bytes=10), "int8 (default)"),
    ],
)
def test_the_best_that_fits(budget: Budget, best: str) -> None:
    made = choose(ALL, budget)
    assert made is not None
    assert (made.best.name, made.missed) == (best, "")


@pytest.mark.parametrize(
    ("budget", "best", "missed"),
    [
        (
            Budget(0.5, size_bytes=50),
            "int8 (default)",
            "int8 (default) has a size of 104 bytes, not 50 bytes,"
            " and even the smallest, int4_weights, has 60 bytes",
        ),
        (
            Budget(0.5, size_bytes=70),
            "int8 (default)",
            "int8 (default) has a size of 104 bytes, not 70 bytes; what fits otherwise loses too much:"
            " int4_weights loses 4.0 points of answers, more than 0.5",
        ),
        (
            Budget(0.5, latency_ms=1),
            "int8 (default)",
            "int8 (default) has a latency of 5.1 ms, not 1 ms, and even the fastest, int8, has 5 ms",
        ),
        (
            Budget(0.5, ram_bytes=5),
            "int8 (default)",
            "int8 (default), the leanest of all, has a RAM of 10 bytes, not 5 bytes",
        ),
    ],
)
def test_the_best_found_and_why_nothing_fits(budget: Budget, best: str, missed: str) -> None:
    made = choose(ALL, budget)
    assert made is not None
    assert (made.best.name, made.missed) == (best, missed)


def test_good_answers_come_before_small_files() -> None:
    poor = one("int8", 100, same=500, db=5)
    made = choose([FLOAT, poor], Budget(0.5, size_bytes=200))
    assert made is not None
    assert (made.best.name, made.smaller.name) == ("float32", "int8")
    assert made.missed == (
        "float32 has a size of 400 bytes, not 200 bytes; what fits otherwise loses too much:"
        " int8 loses 50.0 points of answers, more than 0.5"
    )


def test_a_time_that_is_not_known_is_not_kept() -> None:
    made = choose([FLOAT, one("int8", 100, time=None)], Budget(0.5, latency_ms=5))
    assert made is not None
    assert made.best.name == "float32"
    made = choose([one("int8", 100, time=None)], Budget(0.5, latency_ms=5))
    assert made is not None
    assert made.missed == "latency could not be measured"


def test_what_failed_is_never_chosen() -> None:
    broken = Measured("int8", "int8", "none", size_bytes=1, failure="it gives NaN")
    twin = Measured("dynamic (fast)", "dynamic", "fast", size_bytes=1, same_as="dynamic")
    assert choose([FLOAT, broken, twin], Budget()) is None
    assert misfits(broken, Budget()) == ["failed"]
    assert front([FLOAT, broken, twin]) == [FLOAT]


def test_outputs_without_answers_go_by_their_noise() -> None:
    noisy, clear = one("int8", 100, same=None, db=12), one("int16x8", 120, same=None, db=50)
    made = choose([FLOAT, noisy, clear], Budget())
    assert made is not None
    assert made.best is clear
    assert misfits(noisy, Budget()) == ["drop"]


def test_the_front_has_what_nothing_else_beats() -> None:
    worse = one("dynamic", 110, same=999, db=36, time=0.9)
    assert [m.name for m in front([*ALL, worse])] == [
        "int4_weights",
        "int8",
        "int8 (default)",
        "int16x8",
        "float32",
    ]
    # Slower by what two measurements of one model differ by is no drawback.
    near = one("near", 99, same=998, db=35, time=0.505)
    assert INT8 not in front([INT8, near])


def test_times_of_different_hours_are_brought_to_one_clock() -> None:
    calm, busy = one("a", 1), one("b", 1)
    busy = Measured("b", "b", "none", latency=Latency(10, 20, 0.5, 0.5))
    found = on_one_clock({"a": calm, "b": busy, "c": calm})
    assert found["b"].latency == Latency(5, 10, 0.5, 0.5)
    assert on_one_clock({"b": Measured("b", "b", "none")})["b"].latency is None
