"""Gains in decibels, compared sample by sample, and what is believed of them."""

from __future__ import annotations

import math

import pytest

from thinflow.optimize.gains import USUAL_SPREAD_DB, Gain, usual_db
from thinflow.optimize.quality import LOUDEST, Score


def noises(*values: float) -> list[Score]:
    return [Score(100.0, n) for n in values]


def test_a_gain_is_the_mean_of_the_samples_gains() -> None:
    gain = Gain.between(noises(1, 1, 100), noises(0.1, 0.1, 100))
    assert gain.mean_db == pytest.approx(20 / 3)
    # Together they gain next to nothing: the third sample's noise is all that is heard.
    assert 10 * math.log10(102 / 100.2) < 0.1


def test_few_or_scattered_samples_tell_less() -> None:
    assert (
        Gain.between(noises(1), noises(0.5)).error_db
        > Gain.between(noises(*[1] * 9), noises(*[0.5] * 9)).error_db
    )
    even, uneven = (
        Gain.between(noises(1, 1, 1, 1), noises(*after)) for after in ((0.5,) * 4, (2, 0.1, 2, 0.1))
    )
    assert even.error_db < uneven.error_db


def test_an_error_is_that_of_the_mean() -> None:
    """Of twenty gains of one decibel's spread."""
    gains = [1 + (-1) ** n for n in range(20)]
    gain = Gain.between(noises(*[1.0] * 20), noises(*(10 ** (-g / 10) for g in gains)))
    assert gain.mean_db == pytest.approx(1.0)
    assert gain.error_db == pytest.approx((22 / 21 / 20) ** 0.5)


def test_what_is_measured_well_counts_for_more_than_what_is_usual() -> None:
    assert Gain(3.0, 0.01, 0.0).believed(0.0) == pytest.approx(3.0, abs=0.01)
    assert Gain(3.0, 100.0, 0.0).believed(0.5) == pytest.approx(0.5, abs=0.01)
    assert Gain(2.0, USUAL_SPREAD_DB, 0.0).believed(1.0) == pytest.approx(1.5)
    assert Gain.between([], []).believed(0.7) == 0.7


def test_no_noise_is_no_infinite_gain() -> None:
    assert Gain.between(noises(0, 1), noises(0, 1)).mean_db == 0
    assert Gain.between(noises(1), noises(0)).mean_db == pytest.approx(100)


def test_nothing_but_zeros() -> None:
    silent = [Score(0.0, 0.0), Score(0.0, 0.0)]
    assert Gain.between(silent, silent).mean_db == 0
    assert usual_db(silent) == 0
    assert usual_db([]) == LOUDEST


def test_what_is_no_number_is_never_believed() -> None:
    assert Gain.between(noises(1, 1), noises(1, 1e60)).believed(2.0) < -100


def test_a_level_is_beside_the_signal_of_all() -> None:
    found = usual_db([Score(190.0, 1.0), Score(10.0, 1.0)])
    assert found == pytest.approx(20.0)


def test_a_gain_that_single_samples_pay_for_is_none() -> None:
    many, paid = noises(*[1.0] * 50), noises(*[0.5] * 49, 100.0)
    gain = Gain.between(many, paid)
    assert gain.mean_db > 2
    assert gain.believed(1.0) == gain.together_db < -3
