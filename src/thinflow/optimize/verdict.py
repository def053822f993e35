"""The main job's verdict in one sentence: how much faster and smaller, how good, and what to ship."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from thinflow.optimize.quality import decibels

if TYPE_CHECKING:
    from thinflow.bench.report import Ratio
    from thinflow.bench.stats import Interval
    from thinflow.optimize.job_report import OptimizeReport

POOR_SQNR_DB = 20.0
"""Below this the noise of eight bits is more than a tenth of the signal: doubtful where the numbers
themselves count.
"""
SAME_SIZE = 0.05
WORTH_SMALLER = 1.1
"""A file that shrinks less than this is as large as before."""
SHORT_MS = 0.1
"""Two models that both take less are equally good for an app, unless one takes several times as long: what
lies around the run takes longer, and which of them is ahead differs from machine to machine.
"""
SEVERAL_TIMES = 3.0
WIDE = 0.1
"""A ratio whose interval reaches farther, relative to it, is told with the interval."""


def verdict_of(report: OptimizeReport) -> str:
    """One sentence: how much faster and smaller, how good, and which file to ship."""
    name, size, end = report.recipe.scheme, _size(times_smaller(report)), _advice(report)
    speed = _speed(report)
    return f"{name} {speed} {size}; {end}"


def _speed(report: OptimizeReport) -> str:
    """How fast the smaller model is beside float, as far as what was measured tells; up to the size.

    Why it is so was not measured, so no reason is given.
    """
    ratio = ratio_of(report)
    if ratio is None or ratio.outcome == "unknown":
        return "is"
    if is_short(ratio):
        return f"takes less than {SHORT_MS:g} ms a run, as float does, and is"
    if ratio.outcome == "even":
        return f"is as fast as float within what was measured ({_span(ratio.interval)}) and"
    if ratio.outcome == "faster":
        return f"is {_times(ratio.interval)} faster and"
    return f"is {_times(ratio.interval.inverse())} SLOWER here and"


def _times(interval: Interval) -> str:
    """A ratio above 1, near 1 with the digit that tells it from 1; with its interval where that is wide."""
    shown = f"{interval.value:.1f}x" if interval.value >= 1.1 else f"{interval.value:.2f}x"
    return f"{shown} ({_span(interval)})" if interval.half_width > WIDE * interval.value else shown


def _span(interval: Interval) -> str:
    """Both ends, each as far off as the farther one, since `Ratio.outcome` judges by that."""
    shown = interval if interval.value > 1 else interval.inverse()
    if shown.half_width >= shown.value:
        return f"ratio {interval}"
    low, high = shown.value - shown.half_width, shown.value + shown.half_width
    if interval.value <= 1:
        low, high = 1 / high, 1 / low
    digits = 2 if high - low < WIDE else 1
    return f"{low:.{digits}f}x to {high:.{digits}f}x"


def _size(times_smaller: float) -> str:
    if abs(times_smaller - 1) < SAME_SIZE:
        return "of the same size"
    return f"{times_smaller:.1f}x smaller" if times_smaller >= 1 else f"{1 / times_smaller:.1f}x LARGER"


def _advice(report: OptimizeReport) -> str:
    """How good the smaller model is, and which file to ship."""
    if report.synthetic:
        quality = "how good its answers are only real samples can tell"
        until = "it is calibrated" if report.recipe.needs_samples else "real samples have been tried"
        return f"{quality}: ship {report.files['fp32'].name} until {until}"
    quality = report.int8_quality.sentence()
    if is_good_enough(report):
        return f"{quality}: ship {report.files['int8'].name}"
    return f"{quality}: ship {report.files['fp32'].name}: {why_not(report)}"


def times_smaller(report: OptimizeReport) -> float:
    return report.sizes["fp32"] / max(report.sizes["int8"], 1)


def is_good_enough(report: OptimizeReport) -> bool:
    """Whether fewer bits cost no more than allowed, and bring something."""
    return not why_not(report)


def why_not(report: OptimizeReport) -> str:
    """What speaks against the quantized model; empty if nothing does."""
    name, ratio = report.recipe.scheme, ratio_of(report)
    if lost := _too_much_lost(report):
        return lost
    is_decided = ratio is not None and not is_short(ratio)
    if is_decided and ratio is not None and ratio.outcome == "slower":
        return "float is faster here"
    is_faster = is_decided and ratio is not None and ratio.outcome == "faster"
    if ratio is not None and not is_faster and times_smaller(report) < WORTH_SMALLER:
        return f"{name} brings nothing here"
    return ""


def _too_much_lost(report: OptimizeReport) -> str:
    """What the quantized model loses where that is more than allowed, or may be; empty if it is not."""
    name, quality = report.recipe.scheme, report.int8_quality
    if quality.drop is None:
        poor = quality.sqnr_db < POOR_SQNR_DB
        return f"the {name} output is poor (SQNR {decibels(quality.sqnr_db)})" if poor else ""
    if quality.drop <= report.max_drop:
        return ""
    what = "accuracy" if quality.accuracy is not None else "answers"
    if not quality.surely_drops(report.max_drop):
        points = f"{report.max_drop:g} points of {what}"
        return f"whether {name} loses more than {points} takes more samples to tell"
    return f"{name} loses {quality.drop:.1f} points of {what}, more than {report.max_drop:g}"


def ratio_of(report: OptimizeReport) -> Ratio | None:
    """Float time over the quantized model's time at the first thread count; None if not measured."""
    if report.latency is None:
        return None
    ratio = report.latency.ratio(report.files["fp32"], report.files["int8"])
    return ratio if math.isfinite(ratio.value) else None


def is_short(ratio: Ratio) -> bool:
    """Whether both runs are so short, and so alike, that it does not matter which is shorter."""
    longest = max(ratio.a.median_ms, ratio.b.median_ms)
    return longest < SHORT_MS and 1 / SEVERAL_TIMES < ratio.value < SEVERAL_TIMES


def speed_data(report: OptimizeReport) -> dict[str, Any] | None:
    """Float time over the quantized model's, with its interval and what may be said of it; for JSON."""
    ratio = ratio_of(report)
    return None if ratio is None else {**vars(ratio.interval), "outcome": ratio.outcome}
