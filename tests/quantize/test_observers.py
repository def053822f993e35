"""Each observer alone, on numbers whose right range is known."""

from __future__ import annotations

import numpy as np
import pytest

from thinflow.errors import ParameterError
from thinflow.quantize import observers
from thinflow.quantize.ranges import Range, parameters_for


def watch(name: str, *samples: np.ndarray, **options) -> tuple[float, float]:
    one = observers.make(name, options)
    for walk in range(one.passes):
        one.begin(walk)
        for values in samples:
            one.observe(values, float(values.min()), float(values.max()))
    return one.range()


def normal(seed: int, size: int = 20_000) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


@pytest.mark.parametrize("name", observers.names())
def test_range_lies_within_what_was_seen(name: str) -> None:
    samples = [normal(seed) for seed in range(4)]
    low, high = watch(name, *samples)
    assert min(s.min() for s in samples) <= low < -1
    assert 1 < high <= max(s.max() for s in samples)


@pytest.mark.parametrize("name", observers.names())
@pytest.mark.parametrize("value", [0.0, 2.5, -1e-30])
def test_always_the_same_value(name: str, value: float) -> None:
    low, high = watch(name, np.full(10, value, np.float32), np.full((2, 3), value, np.float32))
    assert (low, high) == (pytest.approx(value), pytest.approx(value))


@pytest.mark.parametrize("name", observers.names())
def test_nothing_seen_is_an_empty_range(name: str) -> None:
    one = observers.make(name)
    for walk in range(one.passes):
        one.begin(walk)
    low, high = one.range()
    assert not low <= high


def test_minmax() -> None:
    assert watch("minmax", np.float32([1, 2]), np.float32([-3, 0])) == (-3.0, 2.0)


def test_moving_follows_slowly() -> None:
    # One sample of many is loud: its extremes move the range by a part of the way.
    calm = [normal(seed, 500_000) for seed in range(3)]
    low, high = watch("moving", calm[0], np.float32([40, -40]), calm[1], rate=0.1)
    after = calm[0].max() + 0.1 * (40 - calm[0].max())
    assert high == pytest.approx(after + 0.1 * (calm[1].max() - after))
    assert -10 < low < -5
    assert watch("moving", *calm, rate=1.0)[1] == pytest.approx(calm[2].max())


def test_moving_keeps_all_where_what_it_cuts_off_matters() -> None:
    # Large numbers of half of the samples, as the right class has them, are no outliers.
    quiet, loud = np.float32([0, 1]), np.float32([-1, 3])
    assert watch("moving", quiet, loud, quiet, loud, rate=0.25) == (-1.0, 3.0)


def test_sigma_cuts_a_tail_where_that_pays() -> None:
    many = [normal(seed, 500_000) * 3 + 5 for seed in range(2)]
    together = np.concatenate([*many, [60.0]]).astype(np.float64)
    low, high = watch("sigma", *many, np.float32([60.0]), k=6.0)
    assert low == together.min()
    # Not all values of large tensors are counted.
    assert high == pytest.approx(together.mean() + 6 * together.std(), rel=5e-3)
    # Two deviations leave out one value of twenty, which costs more than finer steps bring.
    assert watch("sigma", *many, k=2.0) == (together.min(), max(m.max() for m in many))


@pytest.mark.parametrize("percent", [90.0, 99.9])
def test_percentile_of_two_sided_data(percent: float) -> None:
    values = normal(3, 200_000)
    low, high = watch("percentile", *np.split(values, 4), percent=percent)
    width = float(values.max() - values.min()) / 1000
    assert low == pytest.approx(np.percentile(values, 100 - percent), abs=width)
    assert high == pytest.approx(np.percentile(values, percent), abs=width)


def test_percentile_of_one_sided_data_cuts_the_far_side_only() -> None:
    values = np.abs(normal(4)) + 0.5
    low, high = watch("percentile", values, percent=90.0)
    assert low == values.min()
    assert high == pytest.approx(np.percentile(values, 90), abs=0.01)
    low, high = watch("percentile", -values, percent=90.0)
    assert high == -values.min()
    assert low == pytest.approx(-np.percentile(values, 90), abs=0.01)


def test_percentile_with_few_values_cuts_nothing() -> None:
    values = normal(5, 1000)
    low, high = watch("percentile", values)
    assert (low, high) == (pytest.approx(values.min()), pytest.approx(values.max()))


def error(values: np.ndarray, low: float, high: float, levels: int) -> float:
    scale = (high - low) / (levels - 1)
    zero = np.rint(-low / scale)
    back = scale * (np.clip(np.rint(values / scale) + zero, 0, levels - 1) - zero)
    return float(np.square(values - back).mean())


@pytest.mark.parametrize("levels", [16, 256])
def test_mse_beats_every_range_of_a_fine_search(levels: int) -> None:
    values = np.concatenate([normal(6), np.float32([-15, 25])]).astype(np.float64)
    found = watch("mse", values.astype(np.float32), levels=levels)
    least = min(error(values, -15 * f, 25 * f, levels) for f in np.linspace(0.02, 1, 200) if f >= 0.2)
    assert error(values, *found, levels) <= least * 1.01
    assert found[1] < 25


def test_kl_ignores_a_far_outlier() -> None:
    many = normal(7, 1_000_000)
    low, high = watch("kl", many, np.float32([40]))
    assert 3 < high < 40
    assert low == pytest.approx(many.min(), abs=0.5)


@pytest.mark.parametrize("name", ["kl", "sigma", "moving"])
def test_one_sided_data_keep_their_large_values(name: str) -> None:
    """Behind a ReLU half of the values are 0, and the few large ones decide between classes."""
    rng = np.random.default_rng(8)
    values = np.where(rng.random(20_000) < 0.7, 0, rng.exponential(1, 20_000)).astype(np.float32)
    low, high = watch(name, values)
    assert low == 0
    assert error(values, 0, high, 256) <= error(values, 0, float(values.max()), 256)
    assert high > 0.6 * values.max()


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("moving", "rate", 0),
        ("percentile", "percent", 50),
        ("percentile", "percent", 101),
        ("mse", "levels", 1),
        ("kl", "levels", 5000),
        ("sigma", "k", 0),
    ],
)
def test_options_out_of_bounds(name: str, option: str, value: float) -> None:
    with pytest.raises(ParameterError, match=f"{option} is {value}") as error:
        observers.make(name, {option: value})
    assert error.value.hint


def test_mse_does_not_depend_on_the_last_digits() -> None:
    """Of the same network from two files: every number differs in the seventh digit."""
    values = np.concatenate([normal(8), np.zeros(5000, np.float32), np.float32([-9, 11])])
    others = (values * (1 + 2e-7 * normal(9, values.size).clip(-2, 2))).astype(np.float32)
    one, other = watch("mse", values), watch("mse", others)
    assert np.any(values != others)
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_range_as_long_on_both_sides_has_one_zero_point() -> None:
    ends = [(-3 * (1 + a * 1e-7), 3 * (1 + b * 1e-7)) for a in range(-3, 4) for b in range(-3, 4)]
    assert {parameters_for(Range(*pair)).zero_point for pair in ends} == {0}
