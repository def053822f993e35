"""Fourier transforms as products with matrices of sines and cosines, axis by axis.

LiteRT's own RFFT2D takes powers of two only, and nothing goes back.
"""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT
from thinflow.lower.tflite.builder import Builder, ints, require, shape_of
from thinflow.lower.tflite.complex import Complex, Part, combined, complex_rule, parts_of
from thinflow.lower.tflite.program import Tensor
from thinflow.lower.waves import MOST_POINTS, mirrored_weights, waves
from thinflow.typing import Array


def _product(b: Builder, x: Tensor, matrix: Array) -> Tensor:
    """x [...,n] times a matrix [n,m]."""
    # FULLY_CONNECTED takes [m,n]; waves are computed in float64 and rounded once.
    weights = b.const(np.ascontiguousarray(matrix.T, np.float32), "waves", FLOAT)
    shape = (*shape_of(x)[:-1], matrix.shape[1])
    return b.step("FULLY_CONNECTED", x, weights, None, shape=shape, keep_num_dims=True)


def _check(lengths: list[int]) -> None:
    good = min(lengths) > 0 and max(lengths) <= MOST_POINTS
    require(good, f"a transform of {', '.join(map(str, lengths))} points has no form")


def _points(x: Tensor, axis: int) -> int:
    count = shape_of(x, "x")[axis]
    require(count is not None, "the number of points is not known")
    _check([count or 0])
    return count or 0


def _last(b: Builder, x: Tensor, axis: int) -> Tensor:
    """x with an axis moved to the end, or the end moved back to it."""
    order = list(range(len(shape_of(x))))
    # A swap, which undoes itself.
    order[axis], order[-1] = order[-1], order[axis]
    return b.transposed(x, order)


def _along(b: Builder, x: Complex, axis: int, *, inverse: bool) -> Complex:
    """The transform along one axis; the inverse is divided by the number of points."""
    n = _points(x.real, axis)
    re, im = _last(b, x.real, axis), _last(b, x.imag, axis)
    cosine, sine = waves(n, n, n)
    scale = 1 / n if inverse else 1.0
    # exp(-i w) = cos w - i sin w forwards, exp(i w) / n backwards: (re + i im) times that, by parts.
    cosines, sines = cosine * scale, sine * (scale if inverse else -scale)
    real = combined(b, "SUB", _product(b, re, cosines), _product(b, im, sines))
    imag = combined(b, "ADD", _product(b, re, sines), _product(b, im, cosines))
    return Complex(_last(b, real, axis), _last(b, imag, axis))


@complex_rule("FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D")
def fft(b: Builder, node: Node, x: Part) -> Complex:
    y = parts_of(b, x)
    for axis in range(-_axes(node.op), 0):
        y = _along(b, y, axis, inverse=node.op.startswith("I"))
    return y


def _axes(op: str) -> int:
    return {"2D": 2, "3D": 3}.get(op[-2:], 1)


def _cut(b: Builder, x: Tensor, lengths: list[int]) -> Tensor:
    """x with its last axes cut to some lengths."""
    shape = shape_of(x, "x")
    before, own = shape[: len(shape) - len(lengths)], list(shape[len(shape) - len(lengths) :])
    fits = all(n is None or n >= m for n, m in zip(own, lengths, strict=True))
    require(fits, "x is shorter than the transform")
    if own == lengths:
        return x
    begin = b.ints([0] * len(shape), "begin")
    size = b.ints([*([-1] * len(before)), *lengths], "size")
    return b.step("SLICE", x, begin, size, shape=(*before, *lengths))


@complex_rule("RFFT", "RFFT2D", "RFFT3D")
def rfft(b: Builder, node: Node, x: Tensor, length: Tensor) -> Complex:
    """Of real numbers: the last axis keeps the first half of the frequencies."""
    require(x.dtype is FLOAT, f"LiteRT transforms float only, not {x.dtype}")
    lengths = list(ints(length, "fft_length"))
    _check(lengths)
    n = lengths[-1]
    # The op takes the first fft_length points; longer inputs are cut, shorter ones would need zeros.
    x = _cut(b, x, lengths)
    cosine, sine = waves(n, n // 2 + 1, n)
    # The last axis first: a real input has half as many products, and the other
    # axes then only half the columns.
    y = Complex(_product(b, x, cosine), _product(b, x, -sine))
    for axis in range(-len(lengths), -1):
        y = _along(b, y, axis, inverse=False)
    return y


@complex_rule("IRFFT", "IRFFT2D", "IRFFT3D")
def irfft(b: Builder, node: Node, x: Part, length: Tensor) -> Tensor:
    """The inverse of RFFT; the missing frequencies mirror those that are there."""
    lengths = list(ints(length, "fft_length"))
    _check(lengths)
    n = lengths[-1]
    half = n // 2 + 1
    z = parts_of(b, x)
    # The last axis last, as its result is real: only two of four products are needed.
    y = Complex(*(_cut(b, t, [*lengths[:-1], half]) for t in (z.real, z.imag)))
    for axis in range(-len(lengths), -1):
        y = _along(b, y, axis, inverse=True)
    (cosine, sine), weights = waves(half, n, n), mirrored_weights(n)
    re, im = _product(b, y.real, cosine * weights), _product(b, y.imag, sine * weights)
    return b.emit("SUB", re, im, like=re)
