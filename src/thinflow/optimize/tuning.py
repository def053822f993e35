"""Tries what often helps a quantized model, and keeps what helps on samples that made no ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from thinflow.ir.brief import brief_repr
from thinflow.optimize.litert import FloatModel, smaller_model
from thinflow.optimize.quantized import QuantizedModel
from thinflow.optimize.samples import Samples
from thinflow.optimize.sqnr import SqnrMeter, before_squashing
from thinflow.quantize.calibrate import Calibration, calibrate
from thinflow.quantize.channel_groups import find_groups
from thinflow.quantize.channels import channel_statistics, corrected, layers_to_correct
from thinflow.quantize.equalize import equalizing_factors, rescaled, smoothing_factors
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.schemes import quantize_program, storing
from thinflow.quantize.simulate import rounded_weights
from thinflow.quantize.trained import without_fake_quants
from thinflow.tflite.model import Program
from thinflow.typing import Array, Progress

Feeds = list[dict[str, Array]]

# 7 % of the noise's power: 10 ** 0.03 = 1.07.
WORTH_DB = 0.3
"""A smaller gain on the hold-out may be luck."""
HOLD_OUT = 4
"""Every fourth sample judges; the others make ranges."""
# Of 8 samples 2 judge and 6 make ranges.
FEWEST = 8
# Inputs are kept in memory, once for each trial to read: 400 pictures of 224x224x3 floats are 240 MB.
MOST = 400
"""Samples that are looked at; more are left out, evenly."""
# From clipping next to nothing (one of 100,000 values) to whatever makes the error least: a narrower range
# gives up outliers for a finer step everywhere else.
OBSERVERS: tuple[tuple[str, dict[str, float]], ...] = (
    ("percentile", {"percent": 99.999}),
    ("percentile", {"percent": 99.99}),
    ("mse", {}),
)


@dataclass(frozen=True)
class Trial:
    """One thing that was tried.

    Attributes:
        what: in words.
        sqnr_db: of the logits on the hold-out, in decibels.
        kept: whether it was at least `WORTH_DB` better than the best before it.
    """

    what: str
    sqnr_db: float
    kept: bool


@brief_repr
@dataclass
class TunedModel(QuantizedModel):
    """A quantized model and the way to it.

    Attributes:
        trials: in order; the first is the plain recipe.
        recipe: what was chosen.
    """

    trials: list[Trial] = field(default_factory=list)
    recipe: Recipe = field(default_factory=Recipe)


def tuned_model(
    model: FloatModel,
    samples: Samples,
    *,
    recipe: Recipe | None = None,
    threads: int = 2,
    progress: Progress | None = None,
) -> TunedModel:
    """The quantized model after smoothing, other observers and bias correction, each only if it helps.

    Every fourth sample is held out to judge; the final ranges come from all of them. With fewer than
    `FEWEST` samples, or made-up ones, nothing is tried and a warning says so.

    Raises:
        FeedError: no samples, or they do not fit.
    """
    recipe = recipe or Recipe()
    feeds = _bounded(model.feeds(samples))
    program = without_fake_quants(model.program)[0] if recipe.needs_samples else model.program
    tuner = _Tuner(model, program, feeds, recipe, threads, progress)
    if samples.synthetic or len(feeds) < FEWEST:
        reason = "made-up samples" if samples.synthetic else f"{len(feeds)} samples"
        tuner.warnings.append(f"nothing was tuned: {reason} do not show what helps")
    else:
        tuner.search()
    return tuner.finish()


def _bounded(feeds: Iterable[dict[str, Array]]) -> Feeds:
    """At most `MOST` feeds, evenly spread."""
    kept: Feeds = []
    step = 1
    for number, feed in enumerate(feeds):
        if number % step == 0:
            kept.append(feed)
            # Half of them go once there are too many, and every other one is taken from then on: evenly
            # spread, without knowing how many will come.
            if len(kept) > MOST:
                kept, step = kept[::2], 2 * step
    return kept


class _Tuner:
    """The best recipe and program so far."""

    def __init__(
        self,
        model: FloatModel,
        program: Program,
        feeds: Feeds,
        recipe: Recipe,
        threads: int,
        progress: Progress | None,
    ) -> None:
        self.model, self.program, self.recipe = model, program, recipe
        self.feeds, self.threads, self.progress = feeds, threads, progress
        self.trials: list[Trial] = []
        self.warnings: list[str] = []
        self._corrects = False
        # Complement of the hold-out: what judges must not have made the ranges.
        self._fitting = [f for i, f in enumerate(feeds) if i % HOLD_OUT] if len(feeds) > HOLD_OUT else feeds

    def search(self) -> None:
        """Try everything the scheme allows, one after the other."""
        held_out = self.feeds[::HOLD_OUT]
        names = [t.name for t in self.program.subgraphs[0].inputs]
        judged = before_squashing(self.program)
        self._meter = SqnrMeter(judged, ([f[n] for n in names] for f in held_out), threads=self.threads)
        self.trials.append(Trial("the plain recipe", self._try(self.program, self.recipe, False), True))
        for what, program, recipe, corrects in self._candidates():
            sqnr = self._try(program, recipe, corrects)
            # Against the best so far: gains add up only if each builds on what was kept.
            is_kept = sqnr >= max(t.sqnr_db for t in self.trials if t.kept) + WORTH_DB
            self.trials.append(Trial(what, sqnr, is_kept))
            if is_kept:
                self.program, self.recipe, self._corrects = program, recipe, corrects
            if self.progress is not None:
                # Three besides the observers: the plain recipe, the rescaling and the bias correction.
                self.progress(len(self.trials), len(OBSERVERS) + 3, "trying what helps")

    def _candidates(self) -> Iterator[tuple[str, Program, Recipe, bool]]:
        """Built one by one, each upon what was kept before it."""
        # Rescaling moves the spread of values between activations
        # and weights, which pays where both have 8 bits.
        if self.recipe.scheme == "int8":
            rescaling = self._rescaling()
            if rescaling is not None:
                yield (*rescaling, self.recipe, False)
        if self.recipe.needs_samples:
            for name, options in OBSERVERS:
                if (name, options) != (self.recipe.observer, dict(self.recipe.observer_options)):
                    shown = "".join(f"({k}={v:g})" for k, v in options.items())
                    chosen = replace(self.recipe, observer=name, observer_options=options)
                    yield f"observer {name}{shown}", self.program, chosen, False
        # Last, as it corrects what the kept rescaling and ranges leave.
        yield "bias correction", self.program, self.recipe, True

    def _rescaling(self) -> tuple[str, Program] | None:
        """Per-channel weights are smoothed, others equalized: each would harm in the other's place."""
        groups = find_groups(self.program)
        if not groups:
            return None
        if not self.recipe.per_channel:
            factors = dict(zip(groups, equalizing_factors(groups), strict=True))
            return "cross-layer equalization", rescaled(self.program, factors)
        watched = [t for group in groups for t in group.watched]
        seen = channel_statistics(self.program, watched, self._fitting, threads=self.threads)
        factors = {group: smoothing_factors(group, seen) for group in groups}
        return "smoothing", rescaled(self.program, factors)

    def _try(self, program: Program, recipe: Recipe, corrects: bool) -> float:
        calibration = self._calibrated(program, recipe, self._fitting)
        if corrects:
            program = self._corrected(program, recipe, self._fitting)
        # The ranges of the whole program fit: what is left of it holds the very same tensors.
        judged = before_squashing(program)
        return self._meter.sqnr(quantize_program(judged, recipe, calibration.ranges).program)

    def _calibrated(self, program: Program, recipe: Recipe, feeds: Feeds) -> Calibration:
        if not recipe.needs_samples:
            return Calibration(samples=len(feeds))
        return calibrate(program, feeds, recipe, threads=self.threads)

    def _corrected(self, program: Program, recipe: Recipe, feeds: Feeds) -> Program:
        layers = layers_to_correct(program)
        seen = channel_statistics(program, set(layers.values()), feeds, threads=self.threads)
        return corrected(program, rounded_weights(program, recipe, storing(program, recipe)), seen)

    def finish(self) -> TunedModel:
        """The best one again, with all samples."""
        program = self.program
        # The hold-out has judged and may now make ranges, too.
        calibration = self._calibrated(program, self.recipe, self.feeds)
        if self._corrects:
            program = self._corrected(program, self.recipe, self.feeds)
        quantized = quantize_program(program, self.recipe, calibration.ranges)
        warnings = [*self.warnings, *calibration.warnings, *quantized.warnings]
        made = smaller_model(self.model, quantized, calibration, warnings)
        fields = (made.core, made.quantized, made.calibration, made.float_bytes, made.warnings)
        return TunedModel(*fields, trials=self.trials, recipe=self.recipe)
