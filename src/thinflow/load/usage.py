"""How the inputs of a graph are used, where its file does not say so but its first steps tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from thinflow.analysis.foreign_quant_params import params_of
from thinflow.errors import ThinflowError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import DType
from thinflow.ir.usage import GREY, IMAGE, RGB, InputUsage, Usage, scaling_text
from thinflow.ops.traits import Trait, has
from thinflow.typing import Array

_STEPS = Trait.ELEMENTWISE | Trait.REARRANGES | Trait.IDENTITY
_MOST_STEPS = 16
_COLOURS = 3
_SMALLEST_SIDE = 16
"""Pixels. A smaller square of one channel may as well be a table of numbers."""
_LARGEST_INPUT = 5.0
"""What networks are fed lies within some deviations of its mean: the pixels of ImageNet within 2.7."""
_WHY = "these give numbers that networks compute with"
_GREYS = (1.0, 100.0, 255.0)
_MIDDLE = (80.0, 140.0)
"""Means of pixels 0..255 that are only subtracted, as the networks of Caffe do: 104 to 124."""


def completed(graph: Graph) -> Usage:
    """The graph's usage, with what can be told of inputs in the form of pictures that nothing is said of.

    An input of eight-bit codes takes pixels as they are; one that the graph itself scales takes the pixels
    for which that makes sense. Both are marked as assumed. O(steps before the first layer).
    """
    usage = graph.usage
    found = {}
    for value in graph.inputs:
        stated = usage.input(value.name) or InputUsage()
        channels = _channels(value)
        if stated.is_scaled or stated.own or not channels or stated.kind not in ("", IMAGE):
            continue
        made = _of_codes(value, stated) or _of_own_steps(graph, value, stated, channels)
        if made is not None:
            found[value.name] = made
    return replace(usage, inputs={**usage.inputs, **found}) if found else usage


def _channels(value: Value) -> int:
    """How many channels an input in the form of pictures has; 0 if it is none."""
    shape = value.shape
    if shape is None or len(shape) != 4:
        return 0
    for channels, sides in ((shape[3], shape[1:3]), (shape[1], shape[2:])):
        known = [side for side in sides if side is not None]
        if any(side < _SMALLEST_SIDE for side in known):
            continue
        # Spectra have one channel, too, and are hardly ever as high as long.
        if channels == _COLOURS or (channels == 1 and len(known) == 2 and known[0] == known[1]):
            return channels
    return 0


def _of_codes(value: Value, stated: InputUsage) -> InputUsage | None:
    """The usage of an input of eight-bit codes, from the numbers that they stand for."""
    params = params_of(value)
    element = value.dtype
    if params is None or params.is_per_channel or element is None or element.name not in ("uint8", "int8"):
        return None
    zero = params.zero_point[0] if params.zero_point else 0
    mean = float(zero + (128 if element.name == "int8" else 0))
    how = "pixels as they are" if element.name == "uint8" else "pixels less 128"
    return replace(
        stated,
        kind=IMAGE,
        # float32 holds seven digits, and 1 / 0.003921569 is meant to be 255.
        mean=(mean,),
        std=(float(f"{1 / params.scale[0]:.6g}"),),
        assumed=f"its codes are {how}",
    )


def _of_own_steps(graph: Graph, value: Value, stated: InputUsage, channels: int) -> InputUsage | None:
    """The usage of an input that the graph scales before its first layer."""
    if graph.vocabulary:
        return None
    try:
        scaling = _own_scaling(graph, value, channels)
    except ThinflowError:  # the steps do not run alone; then nothing is known
        return None
    if scaling is None:
        return None
    factor, offset, is_reversed = scaling
    top = 255.0 if _is_whole(value) else _top(factor, offset)
    own = _text(factor, offset) + (", its channels in reverse" if is_reversed else "")
    usage = replace(stated, kind=IMAGE, own=own, colours=stated.colours or (GREY if channels == 1 else ""))
    if is_reversed and not stated.colours:
        # Who reverses the channels was trained on blue first, and takes what decoders give.
        usage = replace(usage, colours=RGB)
    if top is None:
        return usage
    usage = replace(usage, mean=(0.0,), std=(255.0 / top,))
    return usage if _is_whole(value) else replace(usage, assumed=_WHY)


def _is_whole(value: Value) -> bool:
    element = value.node.get("dtype")
    return isinstance(element, DType) and element.name == "uint8"


def _text(factor: Array, offset: Array) -> str:
    """x * factor + offset as a difference and a division where that has rounder numbers."""
    with np.errstate(all="ignore"):
        return scaling_text(*((_rounded(numbers)) for numbers in (-offset / factor, 1 / factor)))


def _rounded(numbers: Array) -> tuple[float, ...]:
    # The graph computes in float32: what is told of it has six digits.
    return tuple(float(f"{number:.6g}") + 0.0 for number in numbers)


def _top(factor: Array, offset: Array) -> float | None:
    """The largest raw number of a picture, 255 or 1, for which a scaling gives what networks are fed; None
    if neither does.
    """
    for top in (255.0, 1.0):
        ends = np.stack([offset, factor * top + offset])
        spread = np.abs(ends[1] - ends[0])
        if np.abs(ends).max() <= _LARGEST_INPUT and spread.min() >= 0.5:
            return top
    low, high = _MIDDLE
    return 255.0 if np.allclose(factor, 1) and np.all((-offset >= low) & (-offset <= high)) else None


def _own_scaling(graph: Graph, value: Value, channels: int) -> tuple[Array, Array, bool] | None:
    """Factors and offsets of each channel as they leave the first steps of a graph, and whether the channels
    change places; None if nothing is done to them.
    """
    steps = list(_steps(value))
    if not steps:
        return None
    shape = value.shape or ()
    axis = 3 if shape[3] == channels and shape[1] != channels else (1 if shape[1] == channels else 3)
    element = value.node.get("dtype")
    numpy_type = element.numpy() if isinstance(element, DType) else np.float32
    plan = Plan(graph, steps, [value])

    def run(pixel: Array) -> list[Array]:
        sizes = [1] * 4
        sizes[axis] = channels
        made = plan.run({value: pixel.reshape(sizes).astype(numpy_type)})
        return [np.asarray(array, np.float64).reshape(-1) for array in made]

    # Of all numbers that a picture has: a line through some of them need not be one.
    zero, *greys = (run(np.full(channels, number)) for number in (0.0, *_GREYS))
    single = [run(row) for row in np.eye(channels) * 255]
    best = None
    for number in range(len(steps)):
        if zero[number].size != channels:
            break
        matrix = np.stack([one[number] - zero[number] for one in single]) / 255
        lines = (matrix.sum(0) * grey + zero[number] for grey in _GREYS)
        # A step that is no line, such as an activation, is the model's work and not its scaling.
        if not all(np.allclose(line, g[number], 1e-4, 1e-4) for line, g in zip(lines, greys, strict=True)):
            break
        is_reversed = channels > 1 and np.count_nonzero(np.diag(matrix[::-1])) == channels
        factor = np.diag(matrix[::-1] if is_reversed else matrix)
        if np.count_nonzero(matrix) != channels or np.count_nonzero(factor) != channels:
            break
        # Of reversed channels in the order in which they are fed.
        order = slice(None, None, -1 if is_reversed else 1)
        best = factor[order], zero[number][order], is_reversed
    if best is None or (np.allclose(best[0], 1) and not best[1].any() and not best[2]):
        return None
    return best


def _steps(value: Value) -> Iterator[Value]:
    """What becomes of a value, step by step, until several read it or a layer does."""
    for _ in range(_MOST_STEPS):
        if value.is_graph_output:
            return
        readers = list(value.uses)
        if len(readers) != 1 or not has(readers[0].node.op, _STEPS):
            return
        node = readers[0].node
        others = [v for place, v in enumerate(node.inputs) if place != readers[0].index]
        if node.control_inputs or any(v.node.tensor is None or v.node.tensor.size > 16 for v in others):
            return
        value = node.output()
        yield value
