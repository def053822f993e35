"""Run samples through the float program and let an observer watch every activation."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from thinflow.errors import EngineUnavailable, FeedError, ParameterError, closest
from thinflow.ir.brief import brief_repr
from thinflow.ir.types import TensorSpec
from thinflow.lower.tflite.program import Operator, Program, Subgraph, Tensor, to_bytes
from thinflow.quantize import observers
from thinflow.quantize.fitting import fit
from thinflow.quantize.kernels import KERNELS
from thinflow.quantize.observers import Observer
from thinflow.quantize.placement import float_outputs, is_float
from thinflow.quantize.ranges import Range
from thinflow.quantize.recipe import Recipe
from thinflow.typing import Array, Progress

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Interpreter

logger = logging.getLogger(__name__)

Feed = Mapping[str, Array]

_LARGEST = float(np.finfo(np.float32).max)  # LiteRT clamps an infinite sum or product to it

DECIDES = frozenset(("SOFTMAX", "LOG_SOFTMAX", "ARG_MAX", "ARG_MIN", "TOPK_V2"))
"""Ops whose input is the model's answer."""


@brief_repr
@dataclass
class Calibration:
    """What the samples showed.

    Attributes:
        ranges: by tensor of the float program; tensors that never had a finite value are missing.
        samples: number of samples.
        not_finite: tensor name -> how many NaN and infinite values were skipped.
        warnings: what makes the ranges doubtful.
    """

    ranges: dict[Any, Range] = field(default_factory=dict)
    samples: int = 0
    not_finite: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def calibrate(
    program: Program,
    feeds: Iterable[Feed],
    recipe: Recipe | None = None,
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> Calibration:
    """Ranges of all activations over some samples. Memory does not grow with their number.

    Args:
        feeds: one dict per sample, input name (with or without ":0") -> array. An observer of several passes
            walks them again, so then it may not be an iterator.
        threads: of the runtime.
        progress: called after each sample with the number done, the number of all (0 if unknown) and a text.

    Raises:
        FeedError: a sample does not fit the inputs, or there are no samples.
        EngineUnavailable: LiteRT cannot run the program.
    """
    recipe = recipe or Recipe()
    main = program.subgraphs[0]
    answers = _answers(main)
    watched = _observers(main, recipe, answers)
    return watch(_Runner(program, threads), watched, answers, feeds, recipe, progress=progress)


def watch_program(
    program: Program,
    watched: Mapping[Tensor, Observer],
    feeds: Iterable[Feed],
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> Calibration:
    """Let observers of one's own see tensors of a float program; see `calibrate`."""
    return watch(_Runner(program, threads), watched, (), feeds, Recipe(), progress=progress)


class Runner(Protocol):
    """Runs a float program and shows its tensors."""

    def run(self, feed: Feed, where: str) -> None: ...

    def view(self, tensor: Any) -> Array:
        """What a tensor held in the last run."""


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
    result = Calibration()
    done = 0
    for walk in range(walks):
        active = {t: o for t, o in watched.items() if walk < o.passes}
        for one in active.values():
            one.begin(walk)
        for feed in feeds:
            runner.run(feed, f"sample {done}" if walk == 0 else "")
            for tensor, one in active.items():
                skipped = _show(one, runner.view(tensor))
                if skipped and walk == 0:
                    result.not_finite[tensor.name] = result.not_finite.get(tensor.name, 0) + skipped
            done += 1
            if walk == 0:
                result.samples = done
            if progress is not None:
                progress(done, total, "calibrating")
    if not result.samples:
        raise FeedError("there are no calibration samples", hint="give at least one; 200 are usual")
    result.ranges = _ranges(watched, answers, recipe)
    _warn(result, recipe)
    return result


def _ranges(watched: Mapping[Any, Observer], answers: Collection[Any], recipe: Recipe) -> dict[Any, Range]:
    """What the observers found, of those that saw anything."""
    found = {}
    for tensor, one in watched.items():
        low, high = one.range()
        if low <= high:
            found[tensor] = Range(low, high, "minmax" if tensor in answers else recipe.observer)
    return found


def _count(feeds: Iterable[Feed]) -> int:
    try:
        return len(feeds)  # type: ignore[arg-type]
    except TypeError:
        return 0


def _observers(main: Subgraph, recipe: Recipe, answers: Collection[Tensor]) -> dict[Tensor, Observer]:
    """One per activation; always min-max for the model's answers, since clipping them changes the answer."""
    produced = [t for o in main.operators for t in float_outputs(o)]
    activations = dict.fromkeys([t for t in main.inputs if is_float(t)] + produced)
    return {
        t: observers.make("minmax")
        if t in answers
        else observers.make(recipe.observer, recipe.observer_options)
        for t in activations
        if not t.is_variable
    }


def _answers(main: Subgraph) -> set[Tensor]:
    """Outputs, what decides between classes, and what they are tied to."""
    found = set(main.outputs)
    for operator in reversed(main.operators):
        kernel = KERNELS.get(operator.code)
        follows = kernel is not None and kernel.tied and found.intersection(operator.outputs)
        if operator.code in DECIDES or follows:
            found.update(t for t in operator.inputs if t is not None and is_float(t) and not t.is_constant)
    return found


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
        result.warnings.append(
            f"only {result.samples} calibration samples; values they do not show will be clipped"
            f" (use {recipe.few_samples} or more, 200 are usual)"
        )
    for name, count in result.not_finite.items():
        result.warnings.append(f"'{name}' had {count} values that are NaN or infinite; they were skipped")
    for text in result.warnings:
        logger.info("%s", text)


class _Runner:
    """A LiteRT interpreter that keeps every intermediate tensor until the next run."""

    def __init__(self, program: Program, threads: int) -> None:
        # Delegates hide the tensors inside the regions they take over, so there must be none.
        try:
            from ai_edge_litert.interpreter import Interpreter, OpResolverType
        except ImportError as e:
            raise EngineUnavailable(
                f"LiteRT cannot be imported: {e}", hint="pip install ai-edge-litert"
            ) from e
        main = program.subgraphs[0]
        try:
            self.interpreter: Interpreter = Interpreter(
                model_content=to_bytes(program),
                num_threads=1 if any(map(_taken_for_dense, main.operators)) else threads,
                experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
                experimental_preserve_all_tensors=True,
            )
        except (RuntimeError, ValueError) as e:
            raise EngineUnavailable(f"LiteRT cannot load the float model: {_first_line(e)}") from e
        self.index = {tensor: i for i, tensor in enumerate(main.tensors())}
        self.names = _feed_names(program)
        self.inputs = main.inputs
        self.allocated: dict[Tensor, tuple[int, ...]] | None = None

    def run(self, feed: Feed, where: str) -> None:
        arrays = self._arrays(feed, where)
        shapes = {t: a.shape for t, a in arrays.items()}
        try:
            if shapes != self.allocated:
                for tensor, shape in shapes.items():
                    self.interpreter.resize_tensor_input(self.index[tensor], shape)
                self.interpreter.allocate_tensors()
                self.allocated = shapes
            for tensor, array in arrays.items():
                self.interpreter.set_tensor(self.index[tensor], array)
            self.interpreter.invoke()
        except (RuntimeError, ValueError) as e:
            raise EngineUnavailable(f"LiteRT cannot run the float model: {_first_line(e)}", where) from e

    def view(self, tensor: Tensor) -> Array:
        """The tensor's memory, valid until the next run; a copy where the runtime gives no view."""
        index = self.index[tensor]
        with suppress(RuntimeError, ValueError):
            view: Array = self.interpreter.tensor(index)()
            return view
        return np.zeros(0, np.float32)  # a branch that did not run

    def _arrays(self, feed: Feed, where: str) -> dict[Tensor, Array]:
        given: dict[Tensor, Array] = {}
        for name, array in feed.items():
            tensor = self.names.get(name) or self.names.get(name.removesuffix(":0"))
            if tensor is None:
                hint = closest(name, self.names) or f"it has: {', '.join(t.name for t in self.inputs)}"
                raise FeedError(f"the model has no input '{name}'", where, hint=hint)
            given[tensor] = np.asarray(
                fit(np.asarray(array), name, TensorSpec(tensor.dtype, tensor.shape), where), order="C"
            )
        for tensor in self.inputs:
            if tensor not in given:
                raise FeedError(f"nothing is given for input '{tensor.name}'", where)
        return given


def _taken_for_dense(operator: Operator) -> bool:
    """Whether LiteRT's own CONV_2D goes wrong on several threads.

    It takes a filter as large as the image, without padding in front, for a dense layer: one pixel is
    computed. SAME padding behind may ask for more of them, and these stay whatever was in memory.
    """
    if operator.code != "CONV_2D" or operator.options.get("padding") != "SAME":
        return False
    x, w = (t.shape if t is not None else None for t in operator.inputs[:2])
    kernel = w[1:3] if w is not None else (2, 2)
    image = x[1:3] if x is not None else (None, None)
    fits = (k in (None, 1, 2) and d in (None, k) for k, d in zip(kernel, image, strict=True))
    return kernel != (1, 1) and all(fits)


def _feed_names(program: Program) -> dict[str, Tensor]:
    """Every name an input can be fed by: its own without ":0", and those in signatures."""
    main = program.subgraphs[0]
    names = {}
    for signature in program.signatures.values():
        names.update({name: t for name, t in signature.inputs.items() if t in main.inputs})
    for tensor in main.inputs:
        names[tensor.name] = names[tensor.name.removesuffix(":0")] = tensor
    return names


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["no reason given"])[0]
