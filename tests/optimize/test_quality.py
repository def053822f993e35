"""How good a smaller model still is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from thinflow.errors import VerificationError
from thinflow.optimize.chance import difference_interval, split_chance, wilson
from thinflow.optimize.class_labels import class_numbers
from thinflow.optimize.quality import (
    LOUDEST,
    Quality,
    QualityMeter,
    Score,
    decibels,
    finite_decibels,
    is_ranked,
)
from thinflow.optimize.quality_text import quality_data, quality_lines

A = np.array([[0.1, 0.7, 0.2]], np.float32)
B = np.array([[0.6, 0.3, 0.1]], np.float32)


def test_equal_answers() -> None:
    meter = QualityMeter()
    for _ in range(3):
        meter.add([A], [A.copy()])
    quality = meter.result()
    assert (quality.samples, quality.same_answer, quality.drop) == (3, 3, 0)
    assert quality.sqnr_db == math.inf
    assert quality.sentence() == "same top answer on 3 of 3 samples"
    assert quality.sentence(detailed=True).endswith("SQNR without noise")


def test_another_answer_is_counted_and_remembered() -> None:
    meter = QualityMeter()
    meter.add([A], [A])
    meter.add([A], [B])
    quality = meter.result()
    assert (quality.same_answer, quality.worst_samples, quality.drop) == (1, [1], 50)
    assert quality.largest == pytest.approx(0.5 / 0.7, rel=1e-6)


def test_labels_give_accuracy() -> None:
    meter = QualityMeter([1, 1])
    meter.add([A], [A])
    meter.add([A], [B])
    quality = meter.result()
    assert (quality.accuracy_before, quality.accuracy, quality.drop) == (100, 50, 50)
    assert quality.sentence() == "accuracy 50.00% against 100.00% on 2 samples, which may be chance"
    assert (quality.lost, quality.gained) == (1, 0)


def test_outputs_without_floats_are_equal_or_not() -> None:
    meter = QualityMeter(ranked=False)
    for after in (3, 3, 4):
        meter.add([np.array([3])], [np.array([after])])
    quality = meter.result()
    assert quality.sentence(detailed=True) == "equal outputs on 2 of 3 samples"
    assert (quality.worst_samples, quality.drop) == ([2], pytest.approx(100 / 3))


def test_decibels_for_json() -> None:
    assert finite_decibels(math.inf) is None
    assert finite_decibels(-math.inf) == -LOUDEST
    assert finite_decibels(29.4949) == 29.49


def test_noise_in_decibels() -> None:
    meter = QualityMeter(ranked=False)
    meter.add([np.full(10, 10, np.float32)], [np.full(10, 11, np.float32)])
    quality = meter.result()
    assert quality.sqnr_db == pytest.approx(20)
    assert quality.drop is None
    assert quality.sentence() == "output SQNR 20.0 dB over 1 sample"
    assert decibels(29.49) == "29.5 dB"


def test_other_shapes_of_the_same_size_and_infinities() -> None:
    meter = QualityMeter(ranked=False)
    meter.add([np.array([[1, np.inf]], np.float32)], [np.array([1, np.inf], np.float32)])
    assert meter.result().largest == 0


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("count", [1, 3])
def test_answers_that_are_no_numbers_are_the_worst(odd: float, count: int) -> None:
    meter = QualityMeter([1, 1])
    broken = A.copy()
    broken[0, :count] = odd
    meter.add([A], [A])
    meter.add([A], [broken])
    quality = meter.result()
    assert (quality.sqnr_db, quality.largest, quality.not_finite) == (-math.inf, math.inf, 1)
    assert "without noise" not in quality.sentence(detailed=True)
    assert "SQNR of nothing but noise, NaN or infinity instead of numbers on 1" in quality.sentence(
        detailed=True
    )


def test_nan_is_no_right_answer() -> None:
    # argmax finds the first NaN, at the place of class 0.
    meter = QualityMeter([0])
    meter.add([B], [np.full_like(B, np.nan)])
    quality = meter.result()
    assert (quality.same_answer, quality.correct, quality.correct_before) == (0, 0, 1)


def test_noise_where_the_original_is_zero() -> None:
    meter = QualityMeter(ranked=False)
    meter.add([np.zeros(4, np.float32)], [np.full(4, 3, np.float32)])
    quality = meter.result()
    assert (quality.sqnr_db, quality.largest, quality.not_finite) == (-math.inf, math.inf, 0)
    assert quality.sentence() == "output SQNR of nothing but noise over 1 sample"


@pytest.mark.parametrize(
    ("shape", "kind", "ranked"),
    [
        ((10,), "f4", True),
        ((1, 10), "f4", True),
        ((2, 10), "f4", False),
        ((1, 1), "f4", False),
        ((1, 10), "i4", False),
    ],
)
def test_is_ranked(shape: tuple[int, ...], kind: str, ranked: bool) -> None:
    assert is_ranked(np.zeros(shape, kind)) is ranked


def test_class_numbers() -> None:
    assert class_numbers([3, np.int64(1)], None) == [3, 1]
    assert class_numbers(["no", "yes"], ["yes", "no"]) == [1, 0]
    assert class_numbers(["no"], None) is None


def test_nothing_measured() -> None:
    assert Quality().drop is None
    assert Quality().accuracy is None


def test_answers_of_other_sizes_cannot_be_judged() -> None:
    with pytest.raises(VerificationError, match="the model gives 15 numbers where the graph gives 16"):
        QualityMeter(ranked=False).add([np.zeros(16, np.float32)], [np.zeros(15, np.float32)])


def test_intervals_of_what_is_counted() -> None:
    # As in Wilson's formula, worked out by hand for 95 of 100 and for all of ten.
    assert wilson(95, 100) == pytest.approx((88.825, 97.846), abs=2e-3)
    assert wilson(10, 10) == pytest.approx((72.247, 100.0), abs=2e-3)
    assert wilson(0, 10) == pytest.approx((0.0, 27.753), abs=2e-3)
    quality = Quality(samples=100, same_answer=95)
    assert quality.intervals == {"same_answer": wilson(95, 100)}
    assert Quality().intervals == {}


def test_the_interval_of_a_difference() -> None:
    # Worked out by hand for 6 lost and none gained of 100.
    more, fewer = 7 / 102, 1 / 102
    half = 1.959964 * math.sqrt((more + fewer - (more - fewer) ** 2) / 102)
    assert difference_interval(6, 0, 100) == pytest.approx(
        (100 * (more - fewer - half), 100 * (more - fewer + half))
    )
    assert difference_interval(0, 0, 400) == pytest.approx((-0.69, 0.69), abs=0.01)
    assert difference_interval(2, 0, 2)[1] == 100


def of_labelled(lost: int, gained: int, samples: int) -> Quality:
    right = samples - lost - gained
    return Quality(
        samples,
        same_answer=right,
        correct=right + gained,
        correct_before=right + lost,
        lost=lost,
        gained=gained,
        sqnr_db=50.0,
    )


@pytest.mark.parametrize("lost", range(12))
@pytest.mark.parametrize("gained", range(12))
def test_no_difference_is_told_whose_interval_holds_zero(lost: int, gained: int) -> None:
    quality = of_labelled(lost, gained, 100)
    assert quality.drop_interval is not None
    assert quality.chance == split_chance(lost, gained)
    low, high = quality.drop_interval
    assert low <= (quality.drop or 0) <= high
    line = quality_lines(quality)[1]
    if low <= 0 <= high:
        assert quality.may_be_chance or lost == gained
        assert "more than chance" not in line
        assert not quality.surely_drops(0)
    assert quality_data(quality)["may_be_chance"] is quality.may_be_chance


def test_a_loss_is_sure_only_if_its_interval_lies_beyond_what_is_allowed() -> None:
    quality = of_labelled(9, 0, 100)
    assert quality.drop_interval == pytest.approx((2.68, 14.96), abs=0.01)
    assert (quality.surely_drops(2), quality.surely_drops(5)) == (True, False)


def test_quality_in_lines() -> None:
    assert quality_lines(of_labelled(1, 0, 400)) == [
        "right: 399 of 400, 99.75% (98.6% to 100.0%); float 400, 100.00% (99.0% to 100.0%)",
        "lost: 0.2 points (-0.6 to 1.1), 1 lost and 0 gained: chance does as much"
        " (McNemar's exact test, p = 1)",
        "same top answer: 399 of 400, 99.8% (98.6% to 100.0%)",
        "signal to noise: outputs 50.0 dB",
    ]
    assert quality_lines(of_labelled(20, 0, 100))[1].endswith(
        "more than chance does (McNemar's exact test, p = 1.9e-06)"
    )
    assert "no difference" in quality_lines(of_labelled(1, 1, 100))[1]


def test_logits_are_told_beside_outputs() -> None:
    quality = Quality(100, sqnr_db=60.0, logits=Score(1000.0, 1.0, 95, 100))
    assert quality_lines(quality) == [
        "signal to noise: logits 30.0 dB, the same top answer at 95.0% of 100 places, outputs 60.0 dB"
    ]
    quality.same_answer = 94
    assert quality_lines(quality)[-1] == (
        "signal to noise: logits 30.0 dB, the same top logit in 95 of 100, outputs 60.0 dB"
    )
    assert quality_data(quality)["logits"] == {"sqnr_db": 30.0, "same_answer": 95, "of": 100}
    assert quality_data(Quality())["logits"] is None


def test_numbers_of_several_kinds_have_no_top_answer() -> None:
    rng = np.random.default_rng(0)

    def judged(*sizes: float, labelled: bool = False) -> Quality:
        halves = [QualityMeter(), QualityMeter()]
        for number in range(40):
            x = (rng.uniform(0.5, 1, (1, len(sizes))) * sizes).astype(np.float32)
            halves[number % 2].add([x], [x], 0 if labelled else None)
        halves[0].merge(QualityMeter.of_state(halves[1].state()))
        return halves[0].result()

    assert judged(5000, 1, 0.1).same_answer is None
    assert "SQNR" in judged(5000, 1, 0.1).sentence()
    assert judged(5000, 1, 0.1, labelled=True).same_answer == 40
    # Scores of which one is always the largest, and shares of one that is sure.
    assert judged(3, 1, 1).same_answer == judged(1, 0.01, 0.01).same_answer == 40
