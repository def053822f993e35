"""The main job's verdict: one sentence on speed, size, quality, and what to ship."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from thinflow.analysis.stats import Interval, describe, ratio_of_medians
from thinflow.bench.rows import Ratio, Row
from thinflow.optimize.quality import Quality, split_chance, tail_chance
from thinflow.optimize.report_text import duration
from thinflow.optimize.verdict import pair_verdict, shipped
from thinflow.quantize.recipe import Decision, Quantized, Recipe

ROLES = {"fp32": "m_fp32.tflite", "int8": "m_int8.tflite"}


def quality(same: int | None, sqnr_db: float = 40.0, samples: int = 100) -> Quality:
    """Of a model with so many equal answers; None if its outputs are no answers."""
    return Quality(samples=samples, same_answer=same, sqnr_db=sqnr_db, largest=0.1)


def labelled(lost: int, gained: int, samples: int = 100) -> Quality:
    """Of a model that is wrong on so many samples that float has right, and the other way round."""
    right = samples // 2
    return Quality(
        samples=samples,
        same_answer=samples,
        correct=right - lost + gained,
        correct_before=right,
        lost=lost,
        gained=gained,
    )


def ratio(
    speed: float, low: float | None = None, high: float | None = None, ms: float = 8.0, device: str = ""
) -> Ratio:
    """Float time over that of the smaller model, with its interval; `ms` is float's."""
    known = Interval(speed, 0.99 * speed if low is None else low, 1.01 * speed if high is None else high)
    rows: Any = [SimpleNamespace(median_ms=m, device=device) for m in (ms, ms / speed)]
    return Ratio(rows[0], rows[1], known)


def report(
    *,
    speed: float | Ratio | None = 2.0,
    sizes: tuple[int, int] = (400, 100),
    synthetic: bool = False,
    **found: Any,
) -> Any:
    """What a verdict is made of; sizes are those of the float and the smaller file."""
    latency = None
    if speed is not None:
        measured = speed if isinstance(speed, Ratio) else ratio(speed)
        latency = SimpleNamespace(ratio=lambda a, b: measured)
    return SimpleNamespace(
        recipe=found.get("recipe", Recipe()),
        files={role: Path(name) for role, name in ROLES.items()},
        sizes=dict(zip(ROLES, sizes, strict=True)),
        int8_quality=found.get("quality", quality(100)),
        synthetic=synthetic,
        int8=SimpleNamespace(quantized=Quantized(None, found.get("decisions", []))),
        max_drop=1.5,
        latency=latency,
        source="zoo/own.tflite",
        quantized_source_bytes=found.get("own", 0),
        race=None,
        is_part=False,
        ladder=None,
    )


FASTER, BOTH = "int8 is 2.0x faster and 4.0x smaller; ", " and 4.0x smaller; "
NOT_TOLD = ": ship m_fp32.tflite: whether int8 loses more than 1.5 points of "


@pytest.mark.parametrize(
    ("told", "beginning", "end"),
    [
        (report(), FASTER, ": ship m_int8.tflite"),
        (report(speed=None), "int8 is 4.0x smaller; ", ": ship m_int8.tflite"),
        (report(speed=1.04), f"int8 is 1.04x faster{BOTH}", ": ship m_int8.tflite"),
        (
            report(speed=ratio(0.944, 0.85, 1.05)),
            f"int8 is 0.8x to 1.1x as fast as float, as far as was measured,{BOTH}",
            ": ship m_int8.tflite",
        ),
        (
            report(speed=ratio(2.6, 0.8, 6.0)),
            "int8 could not be told from float in speed, as times varied too much, and is 4.0x smaller; ",
            ": ship m_int8.tflite",
        ),
        (
            report(speed=ratio(1.01, 0.97, 1.03)),
            f"int8 is as fast as float within what was measured (0.97x to 1.05x){BOTH}",
            ": ship m_int8.tflite",
        ),
        (
            report(speed=ratio(1.024, 1.01, 1.05)),  # the farther end is 0.026 off, and so may the other be
            f"int8 is as fast as float within what was measured (1.00x to 1.05x){BOTH}",
            ": ship m_int8.tflite",
        ),
        (report(speed=ratio(2.6, 0.0, math.inf)), "int8 is 4.0x smaller; ", ": ship m_int8.tflite"),
        (report(speed=ratio(2.6, 1.9, 3.3)), f"int8 is 2.6x (1.9x to 3.3x) faster{BOTH}", "m_int8.tflite"),
        (report(speed=0.96), f"int8 is 1.04x SLOWER here{BOTH}", "m_fp32.tflite: float is faster here"),
        (report(speed=0.5), f"int8 is 2.0x SLOWER here{BOTH}", "m_fp32.tflite: float is faster here"),
        (report(sizes=(100, 102)), "int8 is 2.0x faster and of the same size; ", ": ship m_int8.tflite"),
        (report(sizes=(100, 200)), "int8 is 2.0x faster and 2.0x LARGER; ", ": ship m_int8.tflite"),
        (
            report(speed=ratio(1.0), sizes=(100, 95)),
            "int8 is as fast as float within what was measured (0.99x to 1.01x) and 1.1x smaller; ",
            ": ship m_fp32.tflite: int8 brings nothing here",
        ),
        (
            report(quality=quality(90)),
            FASTER,
            ": ship m_fp32.tflite: int8 loses 10.0 points of answers, more than 1.5",
        ),
        (report(quality=quality(19, samples=20)), FASTER, f"{NOT_TOLD}answers takes more samples to tell"),
        (
            report(quality=labelled(3, 0)),
            f"{FASTER}accuracy 47.00% against 50.00% on 100 samples, which may be chance: ship",
            f"{NOT_TOLD}accuracy takes more samples to tell",
        ),
        (
            report(quality=labelled(12, 2)),
            f"{FASTER}accuracy 40.00% against 50.00% on 100 samples: ship",
            ": ship m_fp32.tflite: int8 loses 10.0 points of accuracy, more than 1.5",
        ),
        (
            report(quality=labelled(0, 1)),
            f"{FASTER}accuracy 51.00% against 50.00% on 100 samples, which may be chance: ship",
            ": ship m_int8.tflite",
        ),
        (
            report(quality=replace(quality(100), sqnr_db=-math.inf, not_finite=2)),
            f"{FASTER}same top answer on 100 of 100 samples, NaN or infinity instead of numbers on 2: ship",
            ": ship m_fp32.tflite: int8 gives NaN or infinity where the model gives numbers",
        ),
        (
            report(quality=quality(None, 12.0)),
            FASTER,
            ": ship m_fp32.tflite: the int8 output is poor (SQNR 12.0 dB)",
        ),
    ],
)
def test_verdict(told: Any, beginning: str, end: str) -> None:
    sentence = pair_verdict(told)
    assert sentence.startswith(beginning)
    assert sentence.endswith(end)
    assert "because" not in sentence, "nobody measured why"


@pytest.mark.parametrize(
    ("told", "end", "file"),
    [
        (
            report(own=110, quality=quality(90)),
            "own.tflite, which is quantized already and 3.6x smaller than float: int8",
            "own",
        ),
        (report(own=110, synthetic=True), "than float, until real samples have been tried", "own"),
        (report(own=110), "ship m_int8.tflite", "m_int8"),
        (report(own=500, synthetic=True), "ship m_fp32.tflite until real samples have been tried", "m_fp32"),
    ],
)
def test_float_never_takes_the_place_of_a_smaller_quantized_file(told: Any, end: str, file: str) -> None:
    assert end in pair_verdict(told)
    assert f" {shipped(told).name}" in pair_verdict(told)
    assert shipped(told).name == f"{file}.tflite"


def test_the_device_is_named() -> None:
    """Of a device, nothing is said of this machine."""
    assert pair_verdict(report(speed=ratio(2.0, device="pi"))).startswith("int8 is 2.0x faster on pi and")
    slower = pair_verdict(report(speed=ratio(0.5, device="pi")))
    assert slower.startswith("int8 is 2.0x SLOWER on pi and")
    assert slower.endswith(": float is faster on pi")
    assert "a run on pi, as float does" in pair_verdict(report(speed=ratio(1.0, ms=0.01, device="pi")))


@pytest.mark.parametrize("speed", [0.4, 0.94, 1.0, 1.06, 2.1])
def test_which_of_two_short_runs_is_shorter_does_not_matter(speed: float) -> None:
    told = report(speed=ratio(speed, ms=0.01))
    assert pair_verdict(told) == (
        "int8 takes less than 0.1 ms a run, as float does, and is 4.0x smaller; "
        "same top answer on 100 of 100 samples: ship m_int8.tflite"
    )
    for far in (0.3, 3.3):
        assert "0.1 ms" not in pair_verdict(report(speed=ratio(far, ms=0.01)))


def test_what_brings_nothing_needs_no_samples() -> None:
    """Trees have no weights to round: the same file in the same time is not to be calibrated."""
    told = pair_verdict(report(speed=ratio(1.0), sizes=(100, 100), synthetic=True))
    assert told.endswith("of the same size; ship m_fp32.tflite: int8 brings nothing here")
    assert "until" in pair_verdict(report(speed=ratio(1.5), sizes=(100, 100), synthetic=True))


def test_benchmark_and_verdict_go_by_the_same_judgement() -> None:
    rng = np.random.default_rng(0)
    for scale, spread in ((1.0, 0.1), (1.02, 0.5), (1.3, 0.01), (0.6, 0.02), (2.6, 1.5)):
        before = rng.normal(84, 84 * spread, 40).clip(1)
        row: Any = SimpleNamespace(median_ms=84.0, device="")
        found = Ratio(row, row, ratio_of_medians(before, before[::-1] / scale))
        words = {"faster": "faster and", "slower": "SLOWER", "even": ""}[found.outcome]
        told = pair_verdict(report(speed=found))
        assert words in told
        assert found.outcome != "even" or "as fast as float" in told or "not be told from float" in told


def test_chances_are_exact() -> None:
    assert split_chance(1, 0) == 1
    assert split_chance(5, 0) == pytest.approx(0.0625)
    assert split_chance(6, 0) == pytest.approx(0.03125)
    assert split_chance(4000, 4000) == 1
    assert tail_chance(1, 20, 0.015) == pytest.approx(1 - 0.985**20)
    assert tail_chance(0, 20, 0.0) == 1
    assert tail_chance(3, 20, 0.0) == 0
    assert tail_chance(1, 20, 1.0) == 1
    assert tail_chance(200, 10_000, 0.015) < 1e-3


@pytest.mark.parametrize(
    ("scheme", "observer", "until"),
    [
        ("int8", "minmax", "it is calibrated"),
        ("int8", "trained", "real samples have been tried"),
        ("dynamic", "weights", "real samples have been tried"),
    ],
)
def test_made_up_samples_prove_nothing(scheme: str, observer: str, until: str) -> None:
    decisions = [Decision("x", np.ones(1, np.float32), 0, (0.0, 1.0), observer, "")]
    told = report(synthetic=True, recipe=Recipe(scheme=scheme), quality=quality(50), decisions=decisions)
    assert pair_verdict(told) == (
        f"{scheme} is 2.0x faster and 4.0x smaller; how good its answers are only real samples can tell: "
        f"ship m_fp32.tflite until {until}"
    )


def test_a_few_runs_have_no_spread() -> None:
    for times, told in (
        ([745.4], "745 ± ? ms"),
        ([0.0123] * 3, "12.3 ± ? µs"),
        ([5.0] * 9, "5.000 ± 0.000 ms"),
    ):
        latency = describe(times)
        row = Row("m", "litert", 1, latency, None, (), converged=False)
        assert duration(row) == told
