"""Channels of very unequal size are rescaled before a model is quantized, if its answers gain by that.

A trained network may hold channels that are a hundred times larger than others: nothing in training forbids
it. One scale for a whole tensor then leaves nothing of the small ones, and answers fall to chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice
from typing import NamedTuple

import numpy as np

from thinflow.optimize.sqnr import SqnrMeter, before_squashing
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.channel_groups import Group, find_groups
from thinflow.quantize.channels import channel_statistics
from thinflow.quantize.equalize import (
    channel_sizes,
    equalizing_factors,
    rescaled,
    smoothing_factors,
    weight_sizes,
)
from thinflow.quantize.recipe import Recipe, names_of
from thinflow.quantize.schemes import quantize_program
from thinflow.tflite.model import Program
from thinflow.typing import Array

Feed = Mapping[str, Array]

# Of 8 bits, a channel of the middle size has 4 left where the largest is 16 times as large. Networks as they
# come from training stay below 4 (benchmarks/ptq: 1.2 to 3 in eight of them).
UNEQUAL = 16.0
# Sizes of channels are coarse numbers: a few samples tell them, and a quarter of these whether it helped.
SAMPLES, HOLD_OUT = 16, 4
WORTH_DB = 0.3
"""A smaller gain on samples that made no ranges may be luck."""


class Rescaling(NamedTuple):
    """What became of a program's unequal channels.

    Attributes:
        program: with rescaled channels if that was better, else as it was.
        note: a sentence on what was done; "" if nothing was.
    """

    program: Program
    note: str = ""


def with_equal_channels(
    program: Program, feeds: Iterable[Feed], recipe: Recipe, *, threads: int = 1
) -> Rescaling:
    """The program with unequal channels rescaled, if its quantized form is better then.

    Schemes with ranges of activations ask for smoothing, by what samples show; others store weights alone,
    and ask for equalization, by weights.

    Args:
        feeds: samples, of which the first are looked at; every fourth judges, and the others make ranges.

    Raises:
        FeedError: a sample does not fit.
    """
    groups, first = find_groups(program), list[Feed]()
    if groups and recipe.needs_samples:
        first = list(islice(feeds, SAMPLES))
        unequal, factors = _smoothed(program, groups, first, threads)
    else:
        unequal, factors = _equalized(groups)
        # Weights tell at once whether samples are needed at all.
        first = list(islice(feeds, SAMPLES)) if unequal else []
    if not unequal or len(first) < 2:
        return Rescaling(program)
    candidate = rescaled(program, factors)
    before, after = _qualities(program, candidate, first, recipe, threads)
    # Written so that a quality that is no number keeps the program as it was.
    if not after >= before + WORTH_DB:
        return Rescaling(program)
    return Rescaling(candidate, _note(unequal, before, after))


Unequal = dict[Group, float]
"""Groups -> the size of their largest channel over that of the middle one."""
Factors = dict[Group, Array]


def _smoothed(
    program: Program, groups: Sequence[Group], feeds: Sequence[Feed], threads: int
) -> tuple[Unequal, Factors]:
    """Groups of very unequal activations, and their smoothing factors."""
    watched = [t for group in groups for t in group.watched]
    seen = channel_statistics(program, watched, feeds, threads=threads)
    unequal = _unequal(groups, [channel_sizes(g, seen) for g in groups])
    return unequal, {g: smoothing_factors(g, seen) for g in unequal}


def _equalized(groups: Sequence[Group]) -> tuple[Unequal, Factors]:
    """Groups that are read by very unequal weights, and their equalizing factors."""
    unequal = _unequal(groups, [weight_sizes(g) for g in groups])
    return unequal, dict(zip(unequal, equalizing_factors([*unequal]), strict=True))


def _unequal(groups: Sequence[Group], sizes: Sequence[Array]) -> Unequal:
    """Those that are very unequal; channels of zeros left out."""
    ratios = (float(s[s > 0].max() / np.median(s[s > 0])) if s.any() else 1.0 for s in sizes)
    return {g: ratio for g, ratio in zip(groups, ratios, strict=True) if ratio > UNEQUAL}


def _qualities(
    program: Program, candidate: Program, feeds: Sequence[Feed], recipe: Recipe, threads: int
) -> tuple[float, float]:
    """Signal to quantization noise of both programs' logits in decibels, on every fourth sample."""
    fitting = [feed for number, feed in enumerate(feeds) if number % HOLD_OUT]
    names = [t.name for t in program.subgraphs[0].inputs]
    held_out = ([feed[n] for n in names] for feed in feeds[::HOLD_OUT])
    logits = before_squashing(program)
    meter = SqnrMeter(logits, held_out, threads=threads)
    # Patterns for operators behind the logits match nothing there, which is an error elsewhere.
    there = [name for o in logits.subgraphs[0].operators for name in names_of(o)]
    kept = tuple(p for p in recipe.skip_nodes if any(fnmatchcase(name, p) for name in there))
    judged = replace(recipe, skip_nodes=kept)

    def quality(one: Program) -> float:
        ranges = calibrate(one, fitting, recipe, threads=threads).ranges if recipe.needs_samples else {}
        return meter.sqnr(quantize_program(before_squashing(one), judged, ranges).program)

    return quality(program), quality(candidate)


def _note(unequal: Mapping[Group, float], before: float, after: float) -> str:
    most = max(unequal, key=lambda g: unequal[g])
    return (
        f"channels were of very unequal size in {len(unequal)} places (at '{most.tensors[0].name}' one is"
        f" {unequal[most]:.0f} times the middle one) and were rescaled, which changes no answer in float:"
        f" {after:.1f} instead of {before:.1f} dB on samples held out"
    )
