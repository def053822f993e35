"""Fourier transforms as products with matrices of sines and cosines, axis by axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from thinflow.decompose.complex import Complex, by_parts
from thinflow.decompose.terms import Term, refuse_unless
from thinflow.typing import Array

MOST_POINTS = 1 << 13
"""Along an axis; a matrix has this squared elements."""


def waves(rows: int, columns: int, points: int) -> tuple[Array, Array]:
    """Cosine and sine of 2 pi k n / points, float64 [rows,columns]; exact for large products, and where 0."""
    product = np.outer(np.arange(rows, dtype=np.int64), np.arange(columns, dtype=np.int64))
    # Reduced while whole: 2 pi k n / points of a large k n would lose its fraction to the mantissa.
    angles = 2 * np.pi / points * (product % points)
    cosines, sines = np.cos(angles), np.sin(angles)
    # The frequencies of real numbers that are real themselves have no imaginary part at all.
    sines[2 * product % points == 0] = 0
    cosines[(4 * product % points == 0) & (2 * product % points != 0)] = 0
    return cosines, sines


def mirrored_weights(points: int) -> Array:
    """The weight of each frequency [points // 2 + 1, 1] in the inverse transform to real numbers."""
    # Frequencies k and points - k are one pair of conjugates, but for 0 and, if there is one, the middle.
    weights = np.full((points // 2 + 1, 1), 2.0 / points)
    weights[0] = 1 / points
    if points % 2 == 0:
        weights[-1] = 1 / points
    return weights


def _check(lengths: Sequence[int]) -> None:
    good = min(lengths) > 0 and max(lengths) <= MOST_POINTS
    refuse_unless(good, f"a transform of {', '.join(map(str, lengths))} points has no form")


def _product(x: Term, matrix: Array) -> Term:
    """x [...,n] times a matrix [n,m], which was computed in float64 and is rounded once."""
    return x @ x.of(matrix)


def _last(axis: int) -> Callable[[Term], Term]:
    """Moves an axis to the end, or the end back to it."""

    def swapped(x: Term) -> Term:
        order = list(range(len(x.shape)))
        order[axis], order[-1] = order[-1], order[axis]
        return x if axis == -1 else x.transpose(order)

    return swapped


def _along(x: Complex, axis: int, *, inverse: bool, is_real: bool = False) -> Complex:
    """The transform along one axis; the inverse is divided by the number of points."""
    n = x.real.static_size(axis, "the number of points")
    _check([n])
    x = x.each(_last(axis))
    cosine, sine = waves(n, n, n)
    scale = 1 / n if inverse else 1.0
    # exp(-i w) = cos w - i sin w forwards, exp(i w) / n backwards: (re + i im) times that, by parts.
    cosines, sines = cosine * scale, sine * (scale if inverse else -scale)
    if is_real:
        return Complex(_product(x.real, cosines), _product(x.real, sines)).each(_last(axis))
    real = _product(x.real, cosines) - _product(x.imag, sines)
    return Complex(real, _product(x.real, sines) + _product(x.imag, cosines)).each(_last(axis))


def _matrices(x: Term) -> Term:
    """A vector as a matrix of one row, for products; anything else as it is."""
    return x.expand_dims(0) if len(x.shape) == 1 else x


def _like(x: Term) -> Callable[[Term], Term]:
    """Makes vectors of what `_matrices` made of one."""
    return lambda y: y.reshape([-1]) if len(x.shape) == 1 else y


_FFT = ("FFT", "FFT2D", "FFT3D")


@by_parts(*_FFT, *(f"I{op}" for op in _FFT), *(f"Batch{op}" for op in _FFT), *(f"BatchI{op}" for op in _FFT))
def fft(x: Complex) -> Complex:
    y, is_real = x.each(_matrices), x.imag.is_all(0)
    for axis in range(-{"2D": 2, "3D": 3}.get(x.body.op[-2:], 1), 0):
        y, is_real = _along(y, axis, inverse="IFFT" in x.body.op, is_real=is_real), False
    return y.each(_like(x.real))


def _cut(x: Term, lengths: Sequence[int]) -> Term:
    """x with its last axes cut to some lengths."""
    refuse_unless(len(x.shape) >= len(lengths), "it has fewer axes than its transform")
    own = x.shape[len(x.shape) - len(lengths) :]
    fits = all(n is None or n >= m for n, m in zip(own, lengths, strict=True))
    refuse_unless(fits, "x is shorter than fft_length")
    axes = range(-len(lengths), 0)
    cuts = {a: (0, m, 1) for a, n, m in zip(axes, own, lengths, strict=True) if n != m}
    return x.slice(cuts) if cuts else x


@by_parts("RFFT", "RFFT2D", "RFFT3D")
def rfft(x: Term, length: Term) -> Complex:
    """Of real numbers: the last axis keeps the first half of the frequencies."""
    lengths = length.ints("fft_length")
    _check(lengths)
    real = _matrices(_cut(x, lengths))
    n = lengths[-1]
    cosine, sine = waves(n, n // 2 + 1, n)
    # The last axis first: a real input has half as many products, and the other axes then half the columns.
    y = Complex(_product(real, cosine), _product(real, -sine))
    for axis in range(-len(lengths), -1):
        y = _along(y, axis, inverse=False)
    return y.each(_like(x))


@by_parts("IRFFT", "IRFFT2D", "IRFFT3D")
def irfft(x: Complex, length: Term) -> Term:
    """The inverse of RFFT; the missing frequencies mirror those that are there."""
    lengths = length.ints("fft_length")
    _check(lengths)
    n = lengths[-1]
    half = n // 2 + 1
    # The last axis last, as its result is real: only two of four products are needed.
    y = x.each(lambda t: _matrices(_cut(t, [*lengths[:-1], half])))
    for axis in range(-len(lengths), -1):
        y = _along(y, axis, inverse=True)
    # Two frequencies that mirror each other add up to twice the real part of one, which the weights say.
    (cosine, sine), weights = waves(half, n, n), mirrored_weights(n)
    # The sines of frequency 0 and of the middle are exactly 0 (see `waves`): imaginary parts there do not
    # count.
    return _like(x.real)(_product(y.real, cosine * weights) - _product(y.imag, sine * weights))
