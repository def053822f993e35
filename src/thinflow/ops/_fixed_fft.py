"""Fourier transforms in fixed point as KISS FFT computes them: each stage halves or quarters what it adds up.

Complex numbers are pairs of int64 arrays here, in which each step wraps to the width of the samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from thinflow.ops._fixed_point import wrapped
from thinflow.typing import Array

Pair = tuple[Array, Array]


@dataclass(frozen=True)
class FixedFFT:
    """The transform of real numbers of `bits` bits, whose fraction takes all bits but the sign.

    Attributes:
        length: real numbers, a power of two and at least 4.
        bits: 16 or 32.
        inverse: from half a spectrum to real numbers, not the other way.
    """

    length: int
    bits: int
    inverse: bool = False

    @property
    def _largest(self) -> int:
        return int(2 ** (self.bits - 1)) - 1

    def forward(self, x: Array) -> Array:
        """x [...,length] -> [...,length+2]: real and imaginary parts by turns, from 0 to half the rate."""
        half = self.length // 2
        # Neighbours are one complex number: a transform of half the length holds both halves.
        pairs = x.astype(np.int64)
        re, im = self._whole(pairs[..., ::2], pairs[..., 1::2])
        re, im = self._divided(re, 2), self._divided(im, 2)
        k = np.arange(1, half // 2 + 1)
        # At zero and half the rate all is real: the sum and the difference of what the first holds.
        y_re, y_im = np.zeros((2, *x.shape[:-1], half + 1), np.int64)
        y_re[..., 0], y_re[..., half] = (
            self._wrap(re[..., 0] + im[..., 0]),
            self._wrap(re[..., 0] - im[..., 0]),
        )
        mirrored = re[..., half - k], self._wrap(-im[..., half - k])
        # The mirror image tells the even samples from the odd ones, which are half a turn ahead.
        both = self._wrap(re[..., k] + mirrored[0]), self._wrap(im[..., k] + mirrored[1])
        apart = self._wrap(re[..., k] - mirrored[0]), self._wrap(im[..., k] - mirrored[1])
        turned = self._product(apart, self.between(k, half))
        y_re[..., k], y_im[..., k] = (both[0] + turned[0]) >> 1, (both[1] + turned[1]) >> 1
        y_re[..., half - k], y_im[..., half - k] = (both[0] - turned[0]) >> 1, (turned[1] - both[1]) >> 1
        return self._wrap(np.stack([y_re, y_im], -1).reshape(*x.shape[:-1], self.length + 2))

    def backward(self, x: Array) -> Array:
        """x [...,length+2] -> [...,length]."""
        half = self.length // 2
        spectrum = x.astype(np.int64)
        re, im = spectrum[..., ::2], spectrum[..., 1::2]
        k = np.arange(1, half // 2 + 1)
        z_re, z_im = np.zeros((2, *x.shape[:-1], half), np.int64)
        z_re[..., 0] = self._divided(self._wrap(re[..., 0] + re[..., half]), 2)
        z_im[..., 0] = self._divided(self._wrap(re[..., 0] - re[..., half]), 2)
        low = self._divided(re[..., k], 2), self._divided(im[..., k], 2)
        high = self._divided(re[..., half - k], 2), self._divided(self._wrap(-im[..., half - k]), 2)
        both = self._wrap(low[0] + high[0]), self._wrap(low[1] + high[1])
        apart = self._wrap(low[0] - high[0]), self._wrap(low[1] - high[1])
        odd = self._product(apart, self.between(k, half))
        z_re[..., k], z_im[..., k] = both[0] + odd[0], both[1] + odd[1]
        z_re[..., half - k], z_im[..., half - k] = both[0] - odd[0], odd[1] - both[1]
        y = self._whole(self._wrap(z_re), self._wrap(z_im))
        return np.stack(y, -1).reshape(*x.shape[:-1], self.length)

    def _whole(self, re: Array, im: Array) -> Pair:
        """The transform of complex numbers [...,n], n a power of two, by stages of four, the last of two."""
        # As KISS FFT factors lengths: the order of stages decides where is rounded.
        n = re.shape[-1]
        if n == 1:
            return re, im
        parts = 4 if n % 4 == 0 else 2
        inner = [self._whole(re[..., part::parts], im[..., part::parts]) for part in range(parts)]
        inner = [(self._divided(a, parts), self._divided(b, parts)) for a, b in inner]
        k = np.arange(n // parts)
        # The first turn is not quite 1 in fixed point, and rounds like the others.
        x = [inner[0], *(self._product(inner[j], self.turns(j * k, n)) for j in range(1, parts))]
        found = self._four(x) if parts == 4 else [_sum(x[0], x[1]), _difference(x[0], x[1])]
        return tuple(self._wrap(np.concatenate(side, -1)) for side in zip(*found, strict=True))  # type: ignore[return-value]

    def _four(self, x: list[Pair]) -> list[Pair]:
        even, odd = self._wrapped(_sum(x[0], x[2])), self._wrapped(_sum(x[1], x[3]))
        rest = self._wrapped(_difference(x[0], x[2]))
        a, b = self._wrapped(_difference(x[1], x[3]))
        # By a quarter of a turn, whose direction is that of the transform.
        quarter = (-b, a) if self.inverse else (b, -a)
        return [_sum(even, odd), _sum(rest, quarter), _difference(even, odd), _difference(rest, quarter)]

    def _wrap(self, x: Array) -> Array:
        return wrapped(x, self.bits)

    def _wrapped(self, x: Pair) -> Pair:
        return self._wrap(x[0]), self._wrap(x[1])

    def _rounded(self, product: Array) -> Array:
        shift = self.bits - 1
        return self._wrap((product + (1 << (shift - 1))) >> shift)

    def _divided(self, x: Array, by: int) -> Array:
        # Times a fraction that is a little less: the runtime does not shift either.
        return self._rounded(x * (self._largest // by))

    def _product(self, x: Pair, y: Pair) -> Pair:
        return self._rounded(x[0] * y[0] - x[1] * y[1]), self._rounded(x[0] * y[1] + x[1] * y[0])

    def turns(self, places: Array, n: int) -> Pair:
        """What stages of a transform of n complex numbers multiply by: so many n-ths of a whole turn."""
        # By the table of the whole transform: what is equal there is not always equal as floats.
        whole = self.length // 2
        return self._unit(-2 * math.pi * (places * (whole // n)) / whole)

    def between(self, k: Array, half: int) -> Pair:
        """What parts the two halves that are one transform: k halves of turns, a quarter ahead."""
        return self._unit(-math.pi * (k / half + 0.5))

    def _unit(self, phase: Array) -> Pair:
        # Towards the nearest, halves upwards: numpy would round them to even.
        phase = -phase if self.inverse else phase
        cos, sin = (np.floor(0.5 + self._largest * f(phase)).astype(np.int64) for f in (np.cos, np.sin))
        return cos, sin


def _sum(x: Pair, y: Pair) -> Pair:
    return x[0] + y[0], x[1] + y[1]


def _difference(x: Pair, y: Pair) -> Pair:
    return x[0] - y[0], x[1] - y[1]
