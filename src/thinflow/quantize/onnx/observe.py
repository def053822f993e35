"""Run samples through the float ONNX program and let an observer watch every activation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from thinflow.errors import EngineUnavailable, FeedError
from thinflow.ir.types import TensorSpec
from thinflow.onnx.program import Program, Tensor
from thinflow.onnx.writer import to_bytes
from thinflow.quantize import observers
from thinflow.quantize.calibrate import Calibration, Feed, watch
from thinflow.quantize.fitting import fit
from thinflow.quantize.observers import Observer
from thinflow.quantize.onnx.kernels import KERNELS, data_inputs, float_outputs, is_float
from thinflow.quantize.recipe import Recipe
from thinflow.typing import Array, Progress

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


DECIDES = frozenset(("Softmax", "LogSoftmax", "ArgMax", "ArgMin", "TopK"))
"""Ops whose input is the model's answer."""


def observe(
    program: Program,
    feeds: Iterable[Feed],
    recipe: Recipe | None = None,
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> Calibration:
    """Ranges of all activations over some samples. Memory does not grow with their number.

    Args:
        feeds: one dict per sample, input name -> array. An observer of several passes walks them again, so
            then it may not be an iterator.
        threads: of the runtime.
        progress: called after each sample with the number done, the number of all (0 if unknown) and a text.

    Raises:
        FeedError: a sample does not fit the inputs, or there are no samples.
        EngineUnavailable: ONNX Runtime is missing or cannot run the program.
    """
    recipe = recipe or Recipe()
    answers = _answers(program)
    watched = _observers(program, recipe, answers)
    runner = _Runner(program, list(watched), threads)
    return watch(runner, watched, answers, feeds, recipe, progress=progress)


def _observers(program: Program, recipe: Recipe, answers: set[Tensor]) -> dict[Tensor, Observer]:
    """One per activation that borders on an op with an integer kernel; min-max for the model's answers."""
    activations: dict[Tensor, None] = {}
    for operator in program.operators:
        if operator.code in KERNELS:
            computed = [t for t in data_inputs(operator) if not t.is_constant]
            activations.update(dict.fromkeys([*computed, *float_outputs(operator)]))
    return {
        t: observers.make("minmax")
        if t in answers
        else observers.make(recipe.observer, recipe.observer_options)
        for t in activations
    }


def _answers(program: Program) -> set[Tensor]:
    """Outputs, what decides between classes, and what they are tied to."""
    found = set(program.outputs)
    for operator in reversed(program.operators):
        kernel = KERNELS.get(operator.code)
        follows = kernel is not None and kernel.tied and found.intersection(operator.outputs)
        if operator.code in DECIDES or follows:
            found.update(t for t in operator.inputs if t is not None and is_float(t) and not t.is_constant)
    return found


class _Runner:
    """An ONNX Runtime session that gives every watched tensor."""

    def __init__(self, program: Program, watched: list[Tensor], threads: int) -> None:
        self._inputs = {t.name: t for t in program.inputs}
        fetched = [t for t in watched if t not in program.inputs]
        self._names = list(dict.fromkeys(t.name for t in (*program.outputs, *fetched)))
        # Fetched tensors need no declared sizes.
        extra = [t for t in fetched if t not in program.outputs]
        self._session = _session(to_bytes(replace(program, outputs=[*program.outputs, *extra])), threads)
        self._found: dict[str, Array] = {}

    def run(self, feed: Feed, where: str) -> None:
        arrays = self._arrays(feed, where)
        try:
            results = self._session.run(self._names, arrays)
        except Exception as e:  # its exceptions have no common base but this
            raise EngineUnavailable(
                f"ONNX Runtime cannot run the float model: {_first_line(e)}", where
            ) from e
        self._found = {**arrays, **{n: np.asarray(y) for n, y in zip(self._names, results, strict=True)}}

    def view(self, tensor: Tensor) -> Array:
        return self._found[tensor.name]

    def _arrays(self, feed: Mapping[str, Array], where: str) -> dict[str, Array]:
        missing = [name for name in self._inputs if name not in feed]
        if missing:
            raise FeedError(f"nothing is given for input '{missing[0]}'", where)
        return {
            name: np.ascontiguousarray(
                fit(np.asarray(feed[name]), name, TensorSpec(tensor.dtype, tensor.shape), where)
            )
            for name, tensor in self._inputs.items()
        }


def _session(content: bytes, threads: int) -> InferenceSession:
    try:
        import onnxruntime
    except ImportError as e:
        raise EngineUnavailable(
            "the package onnxruntime is missing", hint="pip install 'thinflow[onnx]'"
        ) from e
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as e:  # as above
        raise EngineUnavailable(f"ONNX Runtime cannot load the float model: {_first_line(e)}") from e


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(". ") or "no reason given"
