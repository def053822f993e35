"""The climb to a better smaller model: rung by rung, each judged on samples that made no ranges."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Generic, NamedTuple, TypeVar

from thinflow.errors import EngineUnavailable, ParameterError, closest
from thinflow.onnx import program as onnx
from thinflow.optimize.answers_at_risk import are_at_risk, changed_answers_advice
from thinflow.optimize.converted import CoreFeeds
from thinflow.optimize.gains import Gain, usual_db
from thinflow.optimize.quality import Score
from thinflow.optimize.recurrent_advice import dynamic_advice
from thinflow.optimize.rungs import Best, Rung, rungs
from thinflow.optimize.sqnr import SqnrMeter, before_squashing, class_axes
from thinflow.optimize.trials import Climb, Trial, with_measured_reasons
from thinflow.quantize.calibrate import Calibration
from thinflow.quantize.fit import Fit
from thinflow.quantize.macs import main_block, multiplications
from thinflow.quantize.ranges import Range
from thinflow.quantize.recipe import PLAIN, QdqOptions, Quantized, Recipe
from thinflow.quantize.rescale import UNEQUAL, Rescaling
from thinflow.quantize.runners import Feed
from thinflow.tflite import model as tflite
from thinflow.typing import Progress

P = TypeVar("P", bound=tflite.Program | onnx.Program)

HOLD_OUT = 4
"""Every fourth sample judges; the others make ranges."""
# An observer that harms costs many decibels, which few samples show.
OBSERVER_DB, JUDGED = 0.5, 32
"""What an observer may cost beside min-max without a word, and samples that are looked at for it."""


class Effort(NamedTuple):
    """How much is tried.

    Attributes:
        samples: that are looked at; more are left out, evenly. They are kept in memory: 256 pictures of
            224x224x3 floats are 154 MB.
        multiplications: of all of them in one walk; of large networks fewer samples are looked at.
        folds: how many of the four parts of the samples judge in turn.
    """

    samples: int
    multiplications: float
    folds: int

    def most_samples(self, program: tflite.Program | onnx.Program) -> int:
        """Samples of a program that are looked at, at most."""
        each = max(sum(multiplications(program).values()), 1)
        return min(self.samples, max(FEWEST, int(self.multiplications / each)))


FEWEST = 16
"""Samples of the largest networks that are looked at: a smaller part for judging would tell nothing."""

# A climb walks its samples some ten times. What bounds it is the size of the network, and not time: what is
# made must not depend on the machine. 10^10 are 33 pictures for MobileNet v2.
EFFORTS = {
    "none": Effort(0, 0, 0),
    "fast": Effort(32, 1e10, 1),
    "default": Effort(256, 1e10, 1),
    "best": Effort(256, 1e11, 4),
}
"""Every effort, from the smallest: nothing is tried; what would wreck the model is mended; what often helps
and makes nothing much slower, too; and what rarely helps, judged on all samples in turn."""


def require_effort(name: str) -> Effort:
    """The effort of a name.

    Raises:
        ParameterError: there is none, with the closest name.
    """
    if name not in EFFORTS:
        hint = closest(name, EFFORTS) or f"there are: {', '.join(EFFORTS)}"
        raise ParameterError(f"there is no effort '{name}'", hint=hint)
    return EFFORTS[name]


@dataclass(frozen=True)
class Goal(Generic[P]):
    """What is to become smaller, and by what means; see `Fit`."""

    program: P
    stated: dict[Any, Range]
    options: QdqOptions | None = None
    threads: int = 2

    def fit(self, feeds: Iterable[Feed], few: Sequence[Feed], progress: Progress | None = None) -> Fit[P]:
        """What samples tell of the program."""
        return Fit(
            self.program,
            feeds,
            few,
            stated=self.stated,
            options=self.options,
            threads=self.threads,
            progress=progress,
        )


def climb(
    goal: Goal[P], feeds: Sequence[Feed], recipe: Recipe, effort: str, progress: Progress | None = None
) -> Climb:
    """The best recipe that is found from one on.

    Args:
        feeds: samples, all of which are held in memory; see `spread`.
        recipe: what it leaves open is tried.

    Raises:
        FeedError: a sample does not fit.
    """
    if goal.stated:
        return Climb(recipe, note="ranges that a model was trained with are kept as they are")
    levels = list(EFFORTS)
    possible = [
        r
        for r in rungs()
        if levels.index(r.effort) <= levels.index(effort) or (r.mends and effort == "default")
    ]
    tried = [r for r in possible if len(feeds) >= r.fewest]
    if not tried:
        return Climb(recipe)
    made = _Climber(goal, feeds, recipe, effort, progress).climb(tried)
    if len(tried) < len(possible):
        least = max(r.fewest for r in possible)
        few = f"{len(feeds)} samples are too few to tell what else helps; {least} are the least"
        made.note = "; ".join(filter(None, [made.note, few]))
    return made


@dataclass(frozen=True)
class _Fold(Generic[P]):
    """Samples that fit, and others that judge."""

    fit: Fit[P]
    meter: SqnrMeter[P]

    def scores(self, recipe: Recipe) -> list[Score]:
        """How near the program of a recipe comes to float on each of the samples that judge."""
        # The ranges of the whole program fit: what is left of it holds the very same tensors.
        made = self.fit.quantized(recipe, before_squashing)
        return self.meter.scores(made.program)

    def score(self, recipe: Recipe) -> Score:
        """The same of all of them together."""
        return reduce(Score.plus, self.scores(recipe), Score())


def _fold(goal: Goal[P], fitting: Sequence[Feed], judging: Sequence[Feed]) -> _Fold[P]:
    names = [t.name for t in main_block(goal.program).inputs]
    rows = [[feed[name] for name in names] for feed in judging]
    # A softmax that is cut off tells where the classes are.
    axes = class_axes(goal.program)
    meter = SqnrMeter(before_squashing(goal.program), rows, threads=goal.threads, axes=axes)
    return _Fold(goal.fit(fitting, fitting), meter)


def _numbered_fold(goal: Goal[P], feeds: Sequence[Feed], number: int) -> _Fold[P]:
    """Every fourth sample from a number on judges."""
    fitting = [feed for i, feed in enumerate(feeds) if i % HOLD_OUT != number]
    return _fold(goal, fitting, feeds[number::HOLD_OUT])


def judged_db(goal: Goal[P], fitting: Sequence[Feed], judging: Sequence[Feed], recipe: Recipe) -> float:
    """Signal to quantization noise in decibels that ranges of some samples leave on others."""
    return _fold(goal, fitting, judging).score(recipe).sqnr_db


def observer_doubts(goal: Goal[P], feeds: Sequence[Feed], recipe: Recipe) -> list[str]:
    """A warning if min-max would leave less noise than the recipe's observer.

    Args:
        feeds: samples, some of which judge; at least two, or nothing is told.
    """
    if not recipe.needs_samples or len(feeds) < 2:
        return []
    fold = _numbered_fold(goal, feeds, 0)
    plain = replace(recipe, observer=PLAIN.observer, observer_options={})
    found, better = fold.score(recipe).sqnr_db, fold.score(plain).sqnr_db
    # Written so that a quality that is no number warns.
    if found >= better - OBSERVER_DB:
        return []
    return [
        f"observer '{recipe.observer}' costs {better - found:.1f} dB: on {len(feeds[::HOLD_OUT])} samples"
        f" held out its ranges leave {found:.1f} dB, and those of {PLAIN.observer}, the default,"
        f" {better:.1f} dB"
    ]


class _Climber(Generic[P]):
    """The best recipe so far."""

    def __init__(
        self, goal: Goal[P], feeds: Sequence[Feed], recipe: Recipe, effort: str, progress: Progress | None
    ) -> None:
        self._goal, self._feeds, self._effort, self._progress = goal, feeds, effort, progress
        self._folds = [_numbered_fold(goal, feeds, number) for number in range(EFFORTS[effort].folds)]
        self._best = Best(recipe, recipe, self._folds[0].fit)
        self._scores: list[Score] = []
        self._trials: list[Trial] = []
        self._refused: list[str] = []

    def climb(self, tried: Sequence[Rung]) -> Climb:
        """Try rungs, one after the other."""
        for number, one in enumerate(tried):
            if self._progress is not None:
                self._progress(number, len(tried) + 1, f"trying {one.name.replace('_', ' ')}")
            if not self._is_needed(one):
                continue
            for what, recipe in one.candidates(self._best):
                # What there is to beat: it is judged once it is known that something is to be tried at all.
                if not self._trials:
                    self._try("as asked for", self._best.recipe)
                try:
                    self._try(what, recipe, one)
                except EngineUnavailable as error:
                    # What a runtime refuses is worse than what there is already, which it runs.
                    self._refused.append(f"{what}: {error.message}")
                if one.mends and self._trials[-1].kept and not self._is_needed(one):
                    break
        return Climb(self._best.recipe, self._trials, "; ".join(self._refused), self._scores)

    def _is_needed(self, one: Rung) -> bool:
        """False for what only mends, if the best changes few enough answers."""
        if not one.mends or self._effort != "default":
            return True
        return bool(self._scores) and are_at_risk(
            self._goal.program, self._feeds, self._scores, self._goal.threads, share=one.mends
        )

    def _try(self, what: str, recipe: Recipe, by: Rung | None = None) -> None:
        started = time.monotonic()
        scores = [score for fold in self._folds for score in fold.scores(recipe)]
        gain = None if by is None else Gain.between(self._scores, scores)
        in_float = tuple(recipe.reasons_beside(self._best.recipe))
        is_kept = by is None or gain is None or gain.believed(by.usual_db) >= by.worth_db
        if is_kept:
            self._best.recipe, self._scores = recipe, scores
        seconds = time.monotonic() - started
        agreement = reduce(Score.plus, scores).agreement
        told = dict(zip(("gain_db", "error_db"), gain or (), strict=False))
        trial = Trial(what, usual_db(scores), is_kept, agreement, seconds, **told, in_float=in_float)
        self._trials.append(trial)


@dataclass(frozen=True)
class Smaller(Generic[P]):
    """A program in fewer bits, the ranges it has, and the way there.

    Attributes:
        judged: what is to be said of the observer that was asked for.
    """

    quantized: Quantized[P]
    calibration: Calibration
    way: Climb
    judged: Sequence[str] = ()

    @property
    def warnings(self) -> list[str]:
        """Sentences for the reader."""
        # Samples of which nothing was taken need no warning.
        doubts = self.calibration.warnings if self.quantized.measured else []
        return [*filter(None, [self.way.note]), *doubts, *self.judged, *self.quantized.warnings]


def smaller_program(
    goal: Goal[P],
    feeds: Iterable[Feed],
    recipe: Recipe,
    effort: str,
    *,
    made_up: bool = False,
    progress: Progress | None = None,
) -> Smaller[P]:
    """The program in fewer bits, by the best recipe that an effort finds from one on.

    Args:
        feeds: samples, which can be walked several times; all of them make the ranges in the end.
        made_up: nothing can be told from the samples, and nothing is tried.

    Raises:
        ParameterError: there is no such effort.
        FeedError: no samples, or they do not fit.
    """
    level = require_effort(effort)
    if level.samples and not made_up:
        recipe = replace(recipe, looked_at=level.most_samples(goal.program))
    # A recipe that was found before is repeated with as many samples as it was found with.
    looks = recipe.needs_a_look or (level.samples and not made_up)
    few = spread(feeds, recipe.looked_at) if looks else []
    way = Climb(recipe) if made_up else climb(goal, few, recipe, effort, progress)
    fit = goal.fit(feeds, few, progress)
    quantized = fit.quantized(way.recipe)
    quantized.float_operators = with_measured_reasons(quantized.float_operators, way.trials)
    quantized.source = fit.rescaling(way.recipe).program
    if way.recipe.rescale != recipe.rescale:
        way.note = " ".join(filter(None, [way.note, _rescaling_note(fit.rescaling(way.recipe), way.trials)]))
    way.note = " ".join(filter(None, [fit.pruned(way.recipe).sentence, way.note]))
    # What the climb chose has been judged; what was asked for may have been taken as it is.
    asked = recipe.observer == way.recipe.observer != PLAIN.observer and not made_up
    judged = observer_doubts(goal, few or spread(feeds, JUDGED), way.recipe) if asked else []
    if level.samples and not made_up and len(few) >= HOLD_OUT:
        judged += dynamic_advice(
            goal.program, way.recipe, lambda one: _numbered_fold(goal, few, 0).scores(one)
        )
    judged += changed_answers_advice(goal.program, few, way.scores, effort, threads=goal.threads)
    return Smaller(quantized, fit.calibration(way.recipe), way, judged)


def _rescaling_note(made: Rescaling[Any], trials: Sequence[Trial]) -> str:
    """A sentence on channels of very unequal size; "" if there are none."""
    if made.ratio <= UNEQUAL:
        return ""
    before, after = trials[0].sqnr_db, max(t.sqnr_db for t in trials if t.kept)
    return (
        f"channels were of very unequal size (at '{made.where}' one is {made.ratio:.0f} times the middle one)"
        f" and were rescaled in {made.groups} places, which changes no answer in float: {after:.1f} instead"
        f" of {before:.1f} dB on samples held out"
    )


def _step(count: int, most: int) -> int:
    """The distance of those that are kept of so many."""
    step = 1
    while -(-count // step) > most:
        step *= 2
    return step


def spread(feeds: Iterable[Feed], most: int) -> list[Feed]:
    """At most so many feeds, evenly spread, without knowing how many will come."""
    if isinstance(feeds, CoreFeeds) and (count := feeds.count) is not None:
        # As below, but what is not wanted is not read.
        return [*feeds.some(range(0, count, _step(count, max(most, 1))))]
    kept: list[Feed] = []
    step = 1
    for number, feed in enumerate(feeds):
        if number % step == 0:
            kept.append(feed)
            # Half of them go once there are too many, and every other one is taken from then on.
            if len(kept) > most:
                kept, step = kept[::2], 2 * step
    return kept
