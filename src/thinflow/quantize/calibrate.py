"""Run samples through a float program and let an observer watch every activation."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.errors import FeedError, ParameterError
from thinflow.ir.brief import brief_repr
from thinflow.onnx import program as onnx
from thinflow.program.model import Block
from thinflow.quantize import observers
from thinflow.quantize.finite_samples import left_out, odd_input, require_few
from thinflow.quantize.kernels import Kernels, float_outputs, is_float
from thinflow.quantize.kernels import litert as litert_kernels
from thinflow.quantize.kernels import onnx as onnx_kernels
from thinflow.quantize.observers import Observer
from thinflow.quantize.ranges import Range
from thinflow.quantize.recipe import PLAIN, Recipe
from thinflow.quantize.runners import Feed, Runner, runner_of
from thinflow.tflite import model as tflite
from thinflow.typing import Array, Progress

logger = logging.getLogger(__name__)

_LARGEST = float(np.finfo(np.float32).max)  # LiteRT clamps an infinite sum or product to it


@brief_repr
@dataclass
class Calibration:
    """Ranges seen over all samples.

    Attributes:
        ranges: by tensor of the float program; tensors that never had a finite value are missing.
        samples: number of samples.
        not_finite: tensor name -> how many NaN and infinite values were skipped.
        first_odd: tensor name -> the first sample in which it had some.
        left_out: sample -> the input of it that held NaN or infinity; it made no ranges.
        warnings: what makes the ranges doubtful.
    """

    ranges: dict[Any, Range] = field(default_factory=dict)
    samples: int = 0
    not_finite: dict[str, int] = field(default_factory=dict)
    first_odd: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, seen: Seen, place: Callable[[int], str]) -> None:
        """What the next samples showed in the first walk; place: what a sample of a number is called."""
        self.samples += seen.samples
        for name, count in seen.not_finite.items():
            self.not_finite[name] = self.not_finite.get(name, 0) + count
        for name, number in seen.first_odd.items():
            self.first_odd.setdefault(name, place(number))
        self.left_out |= {place(number): name for number, name in seen.left_out.items()}


def calibrate(
    program: tflite.Program | onnx.Program,
    feeds: Iterable[Feed],
    recipe: Recipe = PLAIN,
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> Calibration:
    """Ranges of all activations over some samples. Memory does not grow with their number.

    Args:
        feeds: one dict per sample, input name -> array; for LiteRT with or without ":0". An observer of
            several passes walks them again, so then it may not be an iterator.
        threads: of the runtime.
        progress: called after each sample with the number done, the number of all (0 if unknown) and a text.

    Raises:
        FeedError: a sample does not fit the inputs, there are no samples, or more than a tenth of them hold
            NaN or infinity.
        EngineUnavailable: the runtime is missing or cannot run the program.
    """
    runner, activations = opened(program, threads)
    answers = answers_of(program)
    watched = observers_of(activations, recipe, answers)
    return watch(runner, watched, answers, feeds, recipe, progress=progress)


def opened(program: tflite.Program | onnx.Program, threads: int = 1) -> tuple[Runner, list[Any]]:
    """A runtime that shows tensors, and the activations of the program that get ranges, in running order.

    Raises:
        EngineUnavailable: the runtime is missing or cannot run the program.
    """
    watched = activations_of(program)
    return runner_of(program, watched, threads), watched


def activations_of(program: tflite.Program | onnx.Program) -> list[Any]:
    """The activations that get ranges, in running order."""
    if isinstance(program, onnx.Program):
        # ONNX Runtime fuses less around every tensor that it has to give out.
        return list(dict.fromkeys(_near_kernels(program, onnx_kernels.INT8_KERNELS)))
    return list(dict.fromkeys(_activations(program.subgraphs[0])))


def answers_of(program: tflite.Program | onnx.Program) -> set[Any]:
    """Those of them that are observed by min-max whatever the recipe says."""
    if isinstance(program, onnx.Program):
        return _answers(program, onnx_kernels.INT8_KERNELS)
    return _answers(program.subgraphs[0], litert_kernels.INT8_KERNELS)


def watch_program(
    program: tflite.Program | onnx.Program,
    watched: Mapping[Any, Observer],
    feeds: Iterable[Feed],
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> Calibration:
    """Let observers of one's own see tensors of a float program; see `calibrate`."""
    return watch(runner_of(program, watched, threads), watched, (), feeds, Recipe(), progress=progress)


def watch(
    runner: Runner,
    watched: Mapping[Any, Observer],
    answers: Collection[Any],
    feeds: Iterable[Feed],
    recipe: Recipe,
    *,
    progress: Progress | None = None,
) -> Calibration:
    """Let an observer see each tensor for every sample; see `calibrate`.

    Args:
        watched: tensor -> its observer.
        answers: those of them that are observed by min-max whatever the recipe says.
    """
    walks = max((o.passes for o in watched.values()), default=1)
    if walks > 1 and isinstance(feeds, Iterator):
        raise ParameterError(
            f"observer '{recipe.observer}' walks the samples {walks} times, and these can be walked once",
            hint="give a list, a folder or a file instead of an iterator",
        )
    total = walks * _count(feeds)
    result, place = Calibration(), getattr(feeds, "place", "sample {}".format)
    done = 0

    def told() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total, "calibrating")

    for walk in range(walks):
        # The model's answers are observed by min-max, which is done after one walk whatever the others need.
        active = {t: o for t, o in watched.items() if walk < o.passes}
        for one in active.values():
            one.begin(walk)
        seen = look(runner, active, feeds, told=told)
        if walk == 0:
            result.add(seen, place)
            require_few(result.left_out, result.samples + len(result.left_out))
    return finished(result, watched, answers, recipe)


@dataclass
class Seen:
    """What some of the samples showed besides what observers keep.

    Attributes:
        samples: number of those that made ranges.
        not_finite: tensor name -> how many values were skipped.
        first_odd: tensor name -> number of the first sample in which some were.
        left_out: number of a sample -> the input of it that holds NaN or infinity.
    """

    samples: int = 0
    not_finite: dict[str, int] = field(default_factory=dict)
    first_odd: dict[str, int] = field(default_factory=dict)
    left_out: dict[int, str] = field(default_factory=dict)


def look(
    runner: Runner,
    active: Mapping[Any, Observer],
    feeds: Iterable[Feed],
    *,
    first: int = 0,
    told: Callable[[], None] | None = None,
) -> Seen:
    """Let observers, whose walk has begun, see each tensor for every sample.

    Args:
        first: number of the first sample.
        told: called after each.
    """
    seen = Seen()
    for number, feed in enumerate(feeds, first):
        if odd := odd_input(feed):
            # Behind NaN come finite numbers, too: the lowest float of a maximum, the 0 of a clamp.
            seen.left_out[number] = odd
        else:
            runner.run(feed, f"sample {number}")
            for tensor, one in active.items():
                if skipped := _show(one, runner.view(tensor)):
                    seen.not_finite[tensor.name] = seen.not_finite.get(tensor.name, 0) + skipped
                    seen.first_odd.setdefault(tensor.name, number)
            seen.samples += 1
        if told is not None:
            told()
    return seen


def finished(
    result: Calibration, watched: Mapping[Any, Observer], answers: Collection[Any], recipe: Recipe
) -> Calibration:
    """The calibration with the ranges that observers propose after their last walk.

    Raises:
        FeedError: there were no samples.
    """
    if not result.samples:
        raise FeedError("there are no calibration samples", hint="give at least one; 200 are usual")
    result.ranges = _ranges(watched, answers, recipe)
    _warn(result, recipe)
    return result


def _ranges(watched: Mapping[Any, Observer], answers: Collection[Any], recipe: Recipe) -> dict[Any, Range]:
    """Ranges proposed by the observers that saw anything."""
    found = {}
    for tensor, one in watched.items():
        low, high = one.range()
        # Observers that saw no finite value answer with an empty range, its low end above the high one.
        if low <= high:
            found[tensor] = Range(low, high, "minmax" if tensor in answers else recipe.observer)
    return found


def _count(feeds: Iterable[Feed]) -> int:
    try:
        return len(feeds)  # type: ignore[arg-type]
    except TypeError:
        return 0


def _activations(main: tflite.Subgraph) -> list[Any]:
    """Everything computed or fed in float."""
    produced = [t for o in main.operators for t in float_outputs(o)]
    # Variables keep their values from run to run; the operators that read them stay float anyway.
    return [t for t in (*filter(is_float, main.inputs), *produced) if not t.is_variable]


def _near_kernels(block: Block[Any, Any], kernels: Kernels) -> list[Any]:
    """The activations that border on an op with an integer kernel."""
    placed = [o for o in block.operators if o.code in kernels.table]
    return [t for o in placed for t in (*kernels.computed_inputs(o), *float_outputs(o))]


def observers_of(activations: Iterable[Any], recipe: Recipe, answers: Collection[Any]) -> dict[Any, Observer]:
    """One per activation; always min-max for the model's answers, since clipping them changes the answer."""
    return {
        t: observers.make("minmax")
        if t in answers
        else observers.make(recipe.observer, recipe.observer_options)
        for t in dict.fromkeys(activations)
    }


def _answers(block: Block[Any, Any], kernels: Kernels) -> set[Any]:
    """Outputs, what decides between classes, and what shares its parameters with them."""
    answers = set(block.outputs)
    # Backwards, so that a tensor is known to be an answer before the operators above it ask.
    for operator in reversed(block.operators):
        kernel = kernels.table.get(operator.code)
        follows = kernel is not None and kernel.same_scale and answers.intersection(operator.outputs)
        # Their channels times a factor each are cut off where they are.
        scales = operator.code.upper() == "MUL" and answers.intersection(operator.outputs)
        is_row = scales and any(t.is_constant for t in operator.reads())
        if operator.code in kernels.decides or follows or is_row:
            answers.update(t for t in operator.inputs if is_float(t) and not t.is_constant)
    return answers


def _show(one: Observer, values: Array) -> int:
    """Let an observer see a tensor; the number of values that are not finite, which it is not shown."""
    if not values.size:
        return 0
    low, high = float(values.min()), float(values.max())
    skipped = 0
    if not max(abs(low), abs(high)) < _LARGEST:  # nor if they are NaN
        finite = values[np.abs(values) < _LARGEST]
        skipped = values.size - finite.size
        if not finite.size:
            return skipped
        values, low, high = finite, float(finite.min()), float(finite.max())
    one.observe(values, low, high)
    return skipped


def _warn(result: Calibration, recipe: Recipe) -> None:
    if result.samples < recipe.few_samples:
        samples = "sample" if result.samples == 1 else "samples"
        result.warnings.append(
            f"only {result.samples} calibration {samples}; values they do not show will be clipped"
            f" (use {recipe.few_samples} or more, 200 are usual)"
        )
    if result.left_out:
        result.warnings.append(left_out(result.left_out))
    for name, count in result.not_finite.items():
        result.warnings.append(
            f"'{name}' had {count} values that are NaN or infinite, first in {result.first_odd[name]};"
            " they were skipped"
        )
    for text in result.warnings:
        logger.info("%s", text)
