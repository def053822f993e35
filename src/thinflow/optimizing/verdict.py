"""The main job's verdict in one sentence: how much faster and smaller, how good, and what to ship."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from thinflow.optimizing.quality import decibels

if TYPE_CHECKING:
    from thinflow.lower.tflite.program import Operator
    from thinflow.optimizing.job_report import OptimizeReport

POOR_SQNR_DB = 20.0
"""Below this the noise of eight bits is more than a tenth of the signal: doubtful where the numbers
themselves count.
"""
SAME_SIZE = 0.05
WORTH_SMALLER = 1.1
"""A file that shrinks less than this is as large as before."""
SAME_SPEED = 0.03
"""Ratios this near to 1 are told as equal."""
SMALL_MS = 2.0
"""Milliseconds of a float run from which what happens at the ends of a model no longer matters."""
MOST_TAPS = 25
"""Of a depthwise window, for XNNPACK's eight-bit kernels; it takes general convolutions for more."""


def verdict_of(report: OptimizeReport) -> str:
    """One sentence: how much faster and smaller, how good, and which file to ship."""
    name, speed = report.recipe.scheme, speed_ratio(report)
    size, end = _size(times_smaller(report)), _advice(report)
    if speed is None:
        return f"{name} is {size}; {end}"
    if abs(speed - 1) < SAME_SPEED:
        return f"{name} is as fast as float and {size}; {end}"
    if speed < 1:
        return f"{name} is {_times(1 / speed)} SLOWER here because {why_slower(report)}, and {size}; {end}"
    return f"{name} is {_times(speed)} faster and {size}; {end}"


def _times(ratio: float) -> str:
    """A ratio above 1; near 1 with the digit that tells it from 1."""
    return f"{ratio:.1f}x" if ratio >= 1.1 else f"{ratio:.2f}x"


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
    speed = speed_ratio(report)
    return not why_not(report) and (speed is None or speed >= 1 - SAME_SPEED)


def why_not(report: OptimizeReport) -> str:
    """What speaks against the quantized model; empty if nothing does."""
    name = report.recipe.scheme
    quality, drop = report.int8_quality, report.int8_quality.drop
    if drop is not None and drop > report.max_drop:
        what = "accuracy" if quality.accuracy is not None else "answers"
        return f"{name} loses {drop:.1f} points of {what}, more than {report.max_drop:g}"
    if drop is None and quality.sqnr_db < POOR_SQNR_DB:
        return f"the {name} output is poor (SQNR {decibels(quality.sqnr_db)})"
    speed = speed_ratio(report)
    if speed is not None and speed < 1 - SAME_SPEED:
        return "float is faster here"
    if speed is not None and speed < 1 + SAME_SPEED and times_smaller(report) < WORTH_SMALLER:
        return f"{name} brings nothing here, the work is in operators that stay float"
    return ""


def why_slower(report: OptimizeReport) -> str:
    """The likeliest reason for a slow quantized model, from what was counted."""
    program = report.int8.quantized.program
    counts = Counter(o.code for o in program.subgraphs[0].operators)
    borders = counts["QUANTIZE"] + counts["DEQUANTIZE"]
    floats = len(report.int8.quantized.float_operators)
    if not report.recipe.needs_samples:
        return "rounding or unpacking costs more than it saves"
    if floats > 2:
        return f"{floats} of {sum(counts.values())} operators stay float, with {borders} conversions between"
    if report.latency is not None and report.latency.machine.multiplies_eight_bit is False:
        return "this CPU has no eight-bit dot product (VNNI or dotprod)"
    if wide := sum(map(_is_wide, program.subgraphs[0].operators)):
        return f"{wide} depthwise windows are wider than 5x5, for which there is no fast eight-bit kernel"
    timing = report.latency.timing(report.files["fp32"]) if report.latency is not None else None
    if timing is not None and timing.median_ms >= SMALL_MS:
        return "its eight-bit kernels take longer than the float ones on this CPU"
    return "the model is so small that quantizing input and output costs more than it saves"


def _is_wide(operator: Operator) -> bool:
    """Whether it is a depthwise convolution with more taps than XNNPACK's eight-bit kernels are made for."""
    filters = operator.inputs[1] if operator.code == "DEPTHWISE_CONV_2D" else None
    shape = filters.shape if filters is not None else None
    return shape is not None and all(shape[1:3]) and math.prod(n or 0 for n in shape[1:3]) > MOST_TAPS


def speed_ratio(report: OptimizeReport) -> float | None:
    """Float time over the quantized model's time at the first thread count; None if not measured."""
    if report.latency is None:
        return None
    value = report.latency.ratio(report.files["fp32"], report.files["int8"]).value
    return value if math.isfinite(value) else None
