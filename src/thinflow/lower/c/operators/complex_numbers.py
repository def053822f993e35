"""Fourier transforms of reals, and what is made of their complex numbers."""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import Scratch, Struct
from thinflow.tflite.model import Operator

_PARTS = {"REAL": "re", "IMAG": "im", "COMPLEX_ABS": "hypotf(re, im)"}


@form("RFFT2D", types="float")
def real_transform(b: LayerBuilder, op: Operator) -> None:
    """x [..., rows, columns] -> y [..., height, width / 2 + 1]; what is missing of height and width is 0."""
    height, width = (int(n) for n in b.array(1).reshape(-1))
    if height & (height - 1) or width & (width - 1):
        raise UnsupportedOp(f"its length of {height} by {width} is no power of two")
    *outer, rows, columns = b.shape(b.input(0))
    line, settings = transform_settings(b, math.prod(outer), (rows, columns), (height, width))
    b.call("real_transform", b.input(0), b.output(), line, settings)


def transform_settings(
    b: LayerBuilder, slices: int, read: tuple[int, int], sizes: tuple[int, int], type: str = ""
) -> tuple[Scratch, Struct]:
    """Memory for a line of a transform, and its settings.

    Args:
        slices: transforms beside each other.
        read: rows and columns that come in.
        sizes: rows and columns of the transform.
        type: of the struct, where the kernel's is another one's.
    """
    longest = max(sizes)
    angles = -2 * np.pi * np.arange(max(longest // 2, 1)) / longest
    settings = b.struct(
        type,
        slices=slices,
        rows=read[0],
        columns=read[1],
        height=sizes[0],
        width=sizes[1],
        longest=longest,
        cosines=b.constant("cosines", np.cos(angles), "float32"),
        sines=b.constant("sines", np.sin(angles), "float32"),
    )
    return b.scratch(8 * longest), settings


@form(*_PARTS, types="complex64")
def parts(b: LayerBuilder, op: Operator) -> None:
    """A real number of each complex one."""
    words = {"op": op.code.lower(), "expression": _PARTS[op.code]}
    b.call("map_complex", b.input(0), b.output(), b.size(b.output()), **words)
