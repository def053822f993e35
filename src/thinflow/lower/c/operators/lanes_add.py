"""Sums of bytes on processors with wide registers."""

from __future__ import annotations

from itertools import product
from typing import TypeAlias

import numpy as np

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.lines import PARTS, nudged
from thinflow.lower.c.operators.arithmetic import common_factors, whole_factors
from thinflow.lower.c.requantize import activation_limits
from thinflow.ops._fixed_point import scaled
from thinflow.tflite.model import Operator
from thinflow.typing import Array

# Floats beside the exact slope, for both inputs: 49 pairs, each judged on all 65536 sums.
_ULPS = (0, 1, -1, 2, -2, 3, -3)


@form("ADD", "SUB", types="int8", needs="avx2 avx512 vnni")
def add_v4(b: LayerBuilder, op: Operator) -> None:
    """AVX-512: sixteen at once."""
    _add(b, "v4")


@form("ADD", "SUB", types="int8", needs="avx2")
def add_v3(b: LayerBuilder, op: Operator) -> None:
    """AVX2: eight at once."""
    _add(b, "v3")


@form("ADD", "SUB", types="int8", needs="neon")
def add_neon(b: LayerBuilder, op: Operator) -> None:
    """Eight at once, in two registers."""
    _add(b, "neon")


def _add(b: LayerBuilder, isa: str) -> None:
    x, other, y = b.input(0), b.input(1), b.output()
    if b.shape(x) != b.shape(other):
        raise NotHere
    least, most = activation_limits(b, y)
    wanted, slopes = _by_common_scale(b) if b.rounding == "litert" else _by_whole_factors(b)
    scales = _plane(np.clip(wanted, least, most), slopes, (least, most))
    layer = b.struct(
        "", count=b.size(y), a_scale=scales[0], b_scale=scales[1], offset=scales[2], min=least, max=most
    )
    b.call("add_lanes", x, other, y, layer, isa=isa)
    b.in_place(0)


Slopes: TypeAlias = "tuple[float, float]"


def _by_common_scale(b: LayerBuilder) -> tuple[Array, Slopes]:
    """int64 [256, 256]: what LiteRT's reference kernel answers for all bytes; and factors, about."""
    a_pair, b_pair, y_pair, spare = common_factors(b)
    every = np.arange(-128, 128, dtype=np.int64)
    a, other = ((every - b.scale(b.input(n))[1]) << spare for n in (0, 1))
    sums = scaled(a, *a_pair)[:, None] + scaled(other, *b_pair)
    a_scale, b_scale, y_scale = (float(b.scale(t)[0]) for t in (b.input(0), b.input(1), b.output()))
    sign = -1 if b.operator.code == "SUB" else 1
    return scaled(sums, *y_pair) + b.scale(b.output())[1], (a_scale / y_scale, sign * b_scale / y_scale)


def _by_whole_factors(b: LayerBuilder) -> tuple[Array, Slopes]:
    """The same of XNNPACK."""
    a_whole, b_whole, bias, shift = whole_factors(b)
    every = np.arange(-128, 128, dtype=np.int64)
    sums = bias + (every * a_whole)[:, None] + every * b_whole
    return (sums >> shift) + b.scale(b.output())[1], (a_whole / 2**shift, b_whole / 2**shift)


def _plane(wanted: Array, slopes: Slopes, limits: tuple[int, int]) -> tuple[float, float, float]:
    """Two scales and an offset of floats that answer as wanted for all pairs of bytes.

    Raises:
        NotHere: none of those tried do.
    """
    every = np.arange(-128, 128)
    for ulps in product(_ULPS, _ULPS):
        first, second = (
            float(nudged(np.array([s], np.float32), n)[0]) for s, n in zip(slopes, ulps, strict=True)
        )
        real = first * every[:, None] + second * every
        # At a limit the clamp stands behind: whatever lies beyond it will do as well.
        low = np.where(wanted > limits[0], wanted - 0.5 - real, -np.inf).max()
        high = np.where(wanted < limits[1], wanted + 0.5 - real, np.inf).min()
        if not -np.inf < low <= high < np.inf:
            continue
        for part in PARTS:
            # As the kernel computes it: the first of two fused additions is a float again.
            offset = np.float32(low + (high - low) * part)
            inner = (second * every + float(offset)).astype(np.float32).astype(np.float64)
            sums = (first * every[:, None] + inner).astype(np.float32)
            if (np.clip(np.rint(sums), *limits) == wanted).all():
                return first, second, float(offset)
    raise NotHere
