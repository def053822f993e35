"""Medians, intervals and ratios, on numbers whose answer is known."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from thinflow.analysis import stats
from thinflow.analysis.stats import Interval, describe, median_interval, plus_minus, ratio_of_medians


def test_describe() -> None:
    found = describe([1.0, 2.0, 3.0, 4.0, 100.0])
    assert (found.count, found.median, found.minimum, found.maximum, found.mad) == (5, 3.0, 1.0, 100.0, 1.0)
    assert (found.q1, found.q3) == (2.0, 4.0)
    assert found.outliers == ((4, 100.0),)
    assert found.uncertainty == math.inf  # five values do not bracket a median with 95 % confidence


def test_outliers_are_named_and_kept() -> None:
    values = [10.0 + 0.01 * (i % 7) for i in range(50)]
    values[17] = 50.0
    found = describe(values)
    assert found.outliers == ((17, 50.0),)
    assert found.maximum == 50.0


def test_scaled() -> None:
    found = describe([1.0, 2.0, 3.0, 4.0, 100.0]).scaled(1000)
    assert found.count == 5
    assert found.median == 3000.0
    assert found.outliers == ((4, 100000.0),)


@pytest.mark.parametrize(
    ("count", "ranks"),
    [
        (1, (1, 1)),
        (5, (1, 5)),
        (6, (1, 6)),
        (8, (1, 8)),
        (9, (2, 8)),
        (10, (2, 9)),
        (20, (6, 15)),
        (50, (18, 33)),
    ],
)
def test_median_interval_has_the_tabulated_ranks(count: int, ranks: tuple[int, int]) -> None:
    """Ranks as in the tables for the sign test at 95 %."""
    values = [*range(1, count + 1, 2), *range(2, count + 1, 2)][::-1]
    assert median_interval([values[7 * i % count] if count % 7 else values[i] for i in range(count)]) == ranks


@pytest.mark.parametrize("count", [15, 60, 100, 101, 400])
def test_median_interval_covers(count: int, rng: np.random.Generator) -> None:
    """The true median of a skewed distribution lies inside at least about 95 times in 100."""
    hits = 0
    for _ in range(400):
        low, high = median_interval(rng.exponential(1.0, count))
        hits += low <= math.log(2) <= high
    assert hits >= 0.93 * 400


def test_median_interval_is_wider_where_neighbours_are_alike(rng: np.random.Generator) -> None:
    hits = 0
    for _ in range(200):
        values = [0.0]
        for step in rng.normal(0, 1, 300):
            values.append(0.8 * values[-1] + step)
        low, high = median_interval(values[1:])
        hits += low <= 0 <= high
    assert hits >= 0.85 * 200  # about 0.5 if the values passed for independent


def test_ratio_of_equal_samples_contains_one(rng: np.random.Generator) -> None:
    a, b = rng.normal(10, 0.5, (2, 200))
    found = ratio_of_medians(a, b)
    assert 1.0 in found
    assert found.half_width < 0.05


def test_ratio_finds_a_difference(rng: np.random.Generator) -> None:
    a, b = rng.normal(30, 0.5, 100), rng.normal(10, 0.5, 80)
    found = ratio_of_medians(a, b)
    assert found.low <= 3.0 <= found.high
    assert found.half_width < 0.1
    assert found.inverse().low <= 1 / 3 <= found.inverse().high


def test_pairing_cancels_what_both_suffer(rng: np.random.Generator) -> None:
    drift = np.repeat([1.0, 1.5], 150)  # the machine slows down half-way
    a = 2 * drift * rng.normal(1, 0.01, 300)
    b = drift * rng.normal(1, 0.01, 300)
    paired, unpaired = ratio_of_medians(a, b, paired=True), ratio_of_medians(a, b)
    assert paired.low <= 2.0 <= paired.high
    assert paired.half_width < unpaired.half_width / 2


def test_ratio_is_repeatable(rng: np.random.Generator) -> None:
    a, b = rng.normal(10, 1, (2, 50))
    assert ratio_of_medians(a, b) == ratio_of_medians(a, b)
    assert ratio_of_medians(a, b, seed=1) != ratio_of_medians(a, b)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_ratio_of_few_values_claims_no_precision(count: int) -> None:
    found = ratio_of_medians([6.0] * count, [2.0] * 20)
    assert found == Interval(3.0, 0.0, math.inf)
    assert not found.known
    assert str(found) == "3 ± ?"
    assert found.inverse() == Interval(1 / 3, 0.0, math.inf)


@pytest.mark.parametrize(
    ("value", "half_width", "text"),
    [
        (3.14159, 0.12, "3.1 ± 0.1"),
        (3.14159, 0.097, "3.1 ± 0.1"),
        (3.14159, 0.0123, "3.14 ± 0.01"),
        (123.4, 17, "123 ± 17"),
        (2.07, 1.2, "2.1 ± 1.2"),
        (0.5, 0.0004, "0.5000 ± 0.0004"),
        (2.0, 0.0, "2 ± 0"),
        (2.0, math.inf, "2 ± ?"),
    ],
)
def test_plus_minus(value: float, half_width: float, text: str) -> None:
    assert plus_minus(value, half_width) == text


def test_long_measurements_have_the_interval_of_all_their_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    slow, fast = rng.normal(1.1, 0.1, 20_000), rng.normal(1.0, 0.1, 20_000)
    some = ratio_of_medians(slow, fast)
    monkeypatch.setattr(stats, "_MOST_DRAWN", 20_000)
    whole = ratio_of_medians(slow, fast)
    assert some.value == whole.value
    assert 0.8 < (some.high - some.low) / (whole.high - whole.low) < 1.25
    assert 1.1 in some


def test_a_measurement_of_many_runs_takes_no_gigabytes() -> None:
    values = np.random.default_rng(4).normal(1.0, 0.1, 200_000)
    tracemalloc.start()
    try:
        ratio_of_medians(values, values[::-1], paired=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 300e6
