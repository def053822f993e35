"""Measuring noise layer by layer: every tensor of a float program beside the same one in fewer bits."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from thinflow.errors import ThinflowError
from thinflow.onnx import program as onnx
from thinflow.optimize.layer_errors import LayerError, LayerErrors
from thinflow.optimize.quality import LOUDEST, Score
from thinflow.optimize.quantized import with_float_borders
from thinflow.program.model import Operator
from thinflow.quantize.kernels import Kernels, is_float
from thinflow.quantize.macs import kernels_of, main_block, multiplications
from thinflow.quantize.recipe import STATED, Quantized, names_of
from thinflow.quantize.runners import Feed, real_numbers, runner_of
from thinflow.tflite import model as tflite
from thinflow.typing import Array

logger = logging.getLogger(__name__)

# Eight samples of MobileNet v1, 569 million each, take a second and a half, float and eight bits together.
_SAMPLES, _MULTIPLICATIONS = 8, 4.6e9
"""Samples that are run at most, and multiplications of all of them."""


def layer_errors(made: Quantized[Any], feeds: Iterable[Feed], *, threads: int = 2) -> LayerErrors:
    """The noise in each layer's output on the first few samples; nothing where it cannot be measured."""
    if made.source is None:
        return LayerErrors()
    try:
        return _measured(made.source, made, feeds, threads)
    # The answers have been compared by now: a runtime that cannot show its tensors spoils nothing.
    except ThinflowError as error:
        logger.debug("layers were not compared: %s", error.message)
        return LayerErrors()


def _measured(before: Any, made: Quantized[Any], feeds: Iterable[Feed], threads: int) -> LayerErrors:
    each = max(sum(multiplications(before).values()), 1)
    count = int(np.clip(_MULTIPLICATIONS / each, 1, _SAMPLES))
    after = made.program if isinstance(before, onnx.Program) else with_float_borders(made.program)
    pairs = dict(_pairs(before, after))
    clamped = _with_stated_ends(before, _stated_ends(made, pairs))
    exact, rounded = runner_of(clamped, list(pairs), threads), runner_of(after, list(pairs.values()), threads)
    found = LayerErrors()
    scores = dict.fromkeys(pairs, Score())
    for number, feed in enumerate(islice(feeds, count)):
        exact.run(feed, f"sample {number}")
        rounded.run(feed, f"sample {number}")
        for tensor, twin in pairs.items():
            # Nothing keeps a view of the runtime's memory: it could not run again.
            one = _score(exact.view(tensor), real_numbers(rounded.view(twin), twin))
            scores[tensor] = scores[tensor].plus(one)
            found.sizes.setdefault(tensor.name, exact.view(tensor).shape)
        found.samples += 1
    floats = {name for o, _ in made.float_operators for name in names_of(o)}
    noise = {t: score.sqnr_db for t, score in scores.items() if score.signal}
    found.layers = list(_layers(before, noise, floats))
    return found


def _stated_ends(made: Quantized[Any], pairs: Mapping[Any, Any]) -> dict[Any, tuple[float, float]]:
    """Float tensors -> the ends of the ranges that the model itself states for them."""
    stated = {d.tensor: d.range for d in made.decisions if d.observer in STATED}
    # ONNX has codes beside what they stand for, LiteRT in its place.
    names = {tensor: (twin.name, f"{tensor.name}/codes") for tensor, twin in pairs.items()}
    return {t: stated[name] for t, both in names.items() for name in both if name in stated}


def _with_stated_ends(program: Any, ends: Mapping[Any, tuple[float, float]]) -> Any:
    """The program with what lies beyond the ends of stated ranges cut off.

    Files of eight bits say a ReLU6 by the ends of a grid alone, which are gone with the grid. Without, their
    float twin would drift away from the first layer on, and all of that would be told as noise. The tensors
    keep their identity; what is not clamped yet has a new one.
    """
    is_onnx, operators = isinstance(program, onnx.Program), list[Any]()
    kinds: tuple[Any, Any] = (onnx.Tensor, onnx.Operator) if is_onnx else (tflite.Tensor, tflite.Operator)
    make, step = kinds

    def number(tensor: Any, value: float, side: str) -> Any:
        return make(f"{tensor.name}/{side}", (), tensor.dtype, np.array(value, tensor.dtype.numpy()))

    for operator in main_block(program).operators:
        outputs, behind = list(operator.outputs), list[Any]()
        for place, tensor in enumerate(operator.outputs):
            if tensor not in ends:
                continue
            low, high = (number(tensor, end, side) for end, side in zip(ends[tensor], _SIDES, strict=True))
            outputs[place] = make(f"{tensor.name}/whole", tensor.shape, tensor.dtype)
            if is_onnx:
                behind.append(step("Clip", [outputs[place], low, high], [tensor]))
                continue
            part = make(f"{tensor.name}/part", tensor.shape, tensor.dtype)
            behind.append(step("MAXIMUM", [outputs[place], low], [part]))
            behind.append(step("MINIMUM", [part, high], [tensor]))
        operators += [replace(operator, outputs=outputs) if behind else operator, *behind]
    if is_onnx:
        return replace(program, operators=operators)
    main = replace(program.subgraphs[0], operators=operators)
    return replace(program, subgraphs=[main, *program.subgraphs[1:]])


_SIDES = ("low", "high")


def _score(expected: Array, found: Array) -> Score:
    if expected.shape != found.shape:
        return Score()
    wide = expected.astype(np.float64)
    gap = wide - found
    # What is no number in float is none in fewer bits, either.
    judged = np.isfinite(wide) & np.isfinite(gap)
    return Score(float(np.square(wide[judged]).sum()), float(np.square(gap[judged]).sum()))


def _pairs(
    before: tflite.Program | onnx.Program, after: tflite.Program | onnx.Program
) -> Iterator[tuple[Any, Any]]:
    """Float tensors that are computed or fed, and those that hold the same in fewer bits."""
    main = main_block(after)
    there = {t.name: t for t in (*main.inputs, *(t for o in main.operators for t in o.outputs))}
    # Both forms where integers border on floats: the rounded one tells what a layer reads.
    endings = ("/rounded",) if isinstance(after, onnx.Program) else ("/int8", "/int16")
    source = main_block(before)
    # What a loop gives and nobody reads need not be there.
    wanted = {*source.outputs, *(t for o in source.operators for t in o.reads())}
    for tensor in (*source.inputs, *(t for o in source.operators for t in o.outputs)):
        names = (*(f"{tensor.name}{ending}" for ending in endings), tensor.name)
        twin = next((there[name] for name in names if name in there), None)
        if is_float(tensor) and twin is not None and tensor in wanted:
            yield tensor, twin


def _layers(
    program: tflite.Program | onnx.Program, noise: dict[Any, float], floats: set[str]
) -> Iterator[LayerError]:
    """The layers of a program: what multiplies by weights or adds up, and not what only moves numbers."""
    kernels, readers = kernels_of(program), main_block(program).consumers()
    taken: set[Any] = set()
    for operator in main_block(program).operators:
        outputs = [t for t in operator.outputs if t in noise]
        behind = [o for t in operator.outputs for o, _ in readers.get(t, ())]
        is_clamped = not outputs and len(behind) == 1 and _clamps(behind[0], kernels)
        # One step of integers in the smaller program, told by the name of the layer. What a sigmoid takes may
        # be cut off where it makes no difference: that is no noise.
        if is_clamped or (behind and all(o.code in kernels.saturates for o in behind)):
            outputs = [t for o in behind for t in o.outputs if t in noise] or outputs
            taken.update(behind)
        if operator in taken or not outputs or _only_moves(operator, kernels) or not names_of(operator):
            continue
        read = [noise[t] for t in operator.reads() if t in noise and noise[t] < LOUDEST]
        after = min(noise[t] for t in outputs)
        if after >= LOUDEST:
            continue
        name = names_of(operator)[0]
        yield LayerError(name, operator.code, after, min(read, default=None), name in floats)


def _clamps(operator: Operator[Any], kernels: Kernels) -> bool:
    kernel = kernels.table.get(operator.code)
    return kernel is not None and kernel.is_clamp


def _only_moves(operator: Operator[Any], kernels: Kernels) -> bool:
    kernel = kernels.table.get(operator.code)
    return kernel is not None and kernel.same_scale
