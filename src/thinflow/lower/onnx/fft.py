"""Fourier transforms as products with matrices of sines and cosines, axis by axis."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.lower.onnx.builder import Builder, ints, require, shape_of
from thinflow.lower.onnx.complex import Complex, Part, complex_rule, parts_of
from thinflow.lower.onnx.terms import Term
from thinflow.lower.waves import MOST_POINTS, mirrored_weights, waves
from thinflow.onnx.program import Tensor
from thinflow.typing import Array


def _product(b: Builder, x: Term, matrix: Array) -> Term:
    shape = (*shape_of(x.tensor)[:-1], matrix.shape[1])
    weights = b.const(matrix.astype(x.dtype.numpy()), "waves", x.dtype)
    return Term(b, b.step("MatMul", x.tensor, weights, shape=shape))


def _points(x: Tensor, axis: int) -> int:
    count = shape_of(x, "x")[axis]
    require(count is not None and 0 < count <= MOST_POINTS, f"a transform of {count} points has no form")
    return count or 0


def _last(b: Builder, x: Complex, axis: int) -> Complex:
    """The value with an axis moved to the end, or the end moved back to it."""
    rank = len(shape_of(x.real))
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return Complex(b.transposed(x.real, order), b.transposed(x.imag, order))


def _along(b: Builder, x: Complex, axis: int, *, inverse: bool) -> Complex:
    """The transform along one axis; the inverse is divided by the number of points."""
    n = _points(x.real, axis)
    x = _last(b, x, axis)
    cosine, sine = waves(n, n, n)
    scale = 1 / n if inverse else 1.0
    # exp(-iwt) = cos - i sin forward, exp(+iwt) = cos + i sin back.
    cosines, sines = cosine * scale, sine * (scale if inverse else -scale)
    re, im = Term(b, x.real), Term(b, x.imag)
    y = Complex(
        (_product(b, re, cosines) - _product(b, im, sines)).tensor,
        (_product(b, re, sines) + _product(b, im, cosines)).tensor,
    )
    return _last(b, y, axis)


def _axes(op: str) -> int:
    return {"2D": 2, "3D": 3}.get(op[-2:], 1)


@complex_rule("FFT", "FFT2D", "FFT3D", "BatchFFT", "BatchFFT2D", "BatchFFT3D")
@complex_rule("IFFT", "IFFT2D", "IFFT3D", "BatchIFFT", "BatchIFFT2D", "BatchIFFT3D")
def fft(b: Builder, node: Node, x: Part) -> Complex:
    y = parts_of(b, x)
    for axis in range(-_axes(node.op), 0):
        y = _along(b, y, axis, inverse="IFFT" in node.op)
    return y


def _cut(b: Builder, x: Tensor, lengths: list[int]) -> Tensor:
    """x with its last axes cut to some lengths."""
    shape = shape_of(x, "x")
    rank, count = len(shape), len(lengths)
    own = shape[rank - count :]
    require(
        all(n is None or n >= m for n, m in zip(own, lengths, strict=True)), "x is shorter than fft_length"
    )
    if list(own) == lengths:
        return x
    axes = list(range(rank - count, rank))
    return b.sliced(x, [0] * count, lengths, axes, shape=(*shape[: rank - count], *lengths))


@complex_rule("RFFT", "RFFT2D", "RFFT3D")
def rfft(b: Builder, node: Node, x: Tensor, length: Tensor) -> Complex:
    """Of real numbers: the last axis keeps the first half of the frequencies."""
    lengths = list(ints(length, "fft_length"))
    require(min(lengths) > 0 and max(lengths) <= MOST_POINTS, f"a transform of {lengths} points has no form")
    real = Term(b, _cut(b, x, lengths))
    cosine, sine = waves(lengths[-1], lengths[-1] // 2 + 1, lengths[-1])
    y = Complex(_product(b, real, cosine).tensor, _product(b, real, -sine).tensor)
    for axis in range(-len(lengths), -1):
        y = _along(b, y, axis, inverse=False)
    return y


@complex_rule("IRFFT", "IRFFT2D", "IRFFT3D")
def irfft(b: Builder, node: Node, x: Part, length: Tensor) -> Tensor:
    """The inverse of RFFT; the missing frequencies mirror those that are there."""
    lengths = list(ints(length, "fft_length"))
    require(min(lengths) > 0 and max(lengths) <= MOST_POINTS, f"a transform of {lengths} points has no form")
    n = lengths[-1]
    half = n // 2 + 1
    whole = parts_of(b, x)
    y = Complex(*(_cut(b, t, [*lengths[:-1], half]) for t in (whole.real, whole.imag)))
    # The last axis comes last: until then the missing half of its frequencies is not needed.
    for axis in range(-len(lengths), -1):
        y = _along(b, y, axis, inverse=True)
    (cosine, sine), weights = waves(half, n, n), mirrored_weights(n)
    re, im = Term(b, y.real), Term(b, y.imag)
    # Two frequencies that mirror each other add up to twice the real part of one, which the weights say.
    total = _product(b, re, cosine * weights) - _product(b, im, sine * weights)
    return b.result(total.tensor)
