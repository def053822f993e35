"""How inputs of different sizes meet in an output."""

from __future__ import annotations

import math
from collections.abc import Sequence

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.layer import Struct

_DIMENSIONS = 4


def broadcast(b: LayerBuilder) -> Struct:
    """The struct `broadcast_t` of a layer with two inputs; dimensions that both walk alike are one.

    Raises:
        UnsupportedOp: there are too many that differ.
    """
    # Most networks add what is of one size: a single loop, then.
    count, a_step, b_step = meeting(b, (0, 1))
    return b.struct("broadcast_t", count=count, a_step=a_step, b_step=b_step)


def meeting(b: LayerBuilder, inputs: Sequence[int]) -> list[tuple[int, ...]]:
    """Elements along each of four dimensions of the output, and for each input the steps along them.

    Raises:
        UnsupportedOp: there are too many dimensions that differ.
    """
    out = b.shape(b.output())
    steps = [_steps(b.shape(b.input(n)), out) for n in inputs]
    # (count, step of each input), the last dimension first.
    merged: list[list[int]] = []
    for count, *walks in reversed(list(zip(out, *steps, strict=True))):
        if count == 1:
            continue
        if merged and all(step == merged[-1][0] * merged[-1][i] for i, step in enumerate(walks, 1)):
            merged[-1][0] *= count
        else:
            merged.append([count, *walks])
    if len(merged) > _DIMENSIONS:
        raise UnsupportedOp(f"its inputs meet along {len(merged)} dimensions, more than {_DIMENSIONS}")
    merged += [[1, *[0] * len(inputs)]] * (_DIMENSIONS - len(merged))
    return [tuple(row[i] for row in reversed(merged)) for i in range(len(inputs) + 1)]


def _steps(shape: tuple[int, ...], out: tuple[int, ...]) -> list[int]:
    """Elements from one to the next along each dimension of the output; 0 where there is one for all."""
    sizes = (1,) * (len(out) - len(shape)) + shape
    return [0 if n == 1 else math.prod(sizes[i + 1 :]) for i, n in enumerate(sizes)]
