"""Pictures of which nothing says how they become numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from thinflow.ir.graph import Value
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.optimize.first_norm import FAR, FirstNorm, first_norm
from thinflow.synthetic import concrete_shape

_COLOURS = 3
_SMALLEST_SIDE = 16
"""What is smaller is hardly a picture."""
_RANGES = {"-1..1": (-1.0, 1.0), "0..255": (0.0, 255.0)}
"""0..1 is too near the first for weights to tell."""


@rule("TF405", Severity.INFO)
def unstated_preprocessing(c: Context) -> Iterator[LintFinding]:
    """A float input in the form of colour pictures, for which neither the file nor the graph says a range.

    Why: pixels of 0..255 where -1..1 was trained on, or the other way round, give wrong answers and no error.
    Where there is a batch norm at the beginning, its statistics tell which of the two it was.

    Mend: write it down: metadata of a .tflite says it, `--mean` and `--std` pass it on to every command.

    Ignore: a model whose app is written and right.
    """
    for value in c.graph.inputs:
        usage = c.graph.usage.input(value.name)
        if not _is_picture(value) or (usage is not None and (usage.own or usage.is_scaled)):
            continue
        yield LintFinding(
            f"nothing says which numbers the pictures of '{value.name}' are made of{_told(c, value)}",
            (value.node.name,),
            mend="state the scaling: --mean and --std of quantize and evaluate, metadata of a .tflite",
        )


def _is_picture(value: Value) -> bool:
    shape = value.shape
    if shape is None or len(shape) != 4 or value.dtype is None or not value.dtype.is_floating:
        return False
    layouts = (shape[3], shape[1:3]), (shape[1], shape[2:])
    return any(n == _COLOURS and all(s is None or s >= _SMALLEST_SIDE for s in sides) for n, sides in layouts)


def _told(c: Context, value: Value) -> str:
    """What the first batch norm tells of the range, behind a semicolon; "" if it does not tell."""
    norm = first_norm(c.graph)
    if norm is None or len(c.graph.inputs) != 1:
        return ""
    times = {name: _times(norm, value, *ends) for name, ends in _RANGES.items()}
    known = {name: t for name, t in times.items() if t is not None and t > 0}
    if len(known) < len(_RANGES):
        return ""
    (near, far) = sorted(known, key=lambda name: abs(math.log(known[name])))
    # Both may be far off: then the norm sees something else, and tells nothing.
    if not 1 / FAR < known[near] < FAR or 1 / FAR < known[far] < FAR:
        return ""
    return (
        f"; its first batch norm was trained on numbers as of {near}: noise of 0..255 spreads "
        f"{known['0..255']:.3g} times as wide as in training, of -1..1 {known['-1..1']:.3g} times"
    )


def _times(norm: FirstNorm, value: Value, low: float, high: float) -> float | None:
    shape = concrete_shape(value.spec)
    # Neighbouring pixels are alike, which noise of single pixels is not.
    noise = np.random.default_rng(0).uniform(low, high, [min(n, 8) if n > _COLOURS else n for n in shape])
    for axis, size in enumerate(shape):
        noise = np.repeat(noise, -(-size // noise.shape[axis]), axis=axis).take(range(size), axis=axis)
    gap = norm.gap([{value: noise.astype(np.float32)}])
    return None if gap is None else gap.times
