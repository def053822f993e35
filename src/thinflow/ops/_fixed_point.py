"""Arithmetic on fixed-point numbers as gemmlowp and LiteRT's integer kernels do it, bit by bit.

A number of n bits with k integer bits stands for raw / 2^(n-1-k). Arrays hold raw numbers as int64.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from thinflow.typing import Array


def quantized_multiplier(factor: float) -> tuple[int, int]:
    """(m, shift) with factor = m * 2^(shift - 31), m of 31 bits; too small a factor becomes 0."""
    if not factor or not math.isfinite(factor):
        return 0, 0
    fraction, shift = math.frexp(factor)
    scaled = fraction * 2**31
    # Halves away from zero, as TfLiteRound; Python's round would take them to the even number.
    m = math.floor(scaled + 0.5) if scaled > 0 else math.ceil(scaled - 0.5)
    # The fraction was within half a unit of 1: m would need a 32nd bit.
    if m == 2**31:
        m, shift = m // 2, shift + 1
    # Beyond 31 places the shift would be undefined in C; LiteRT flushes such factors to 0.
    return (m, shift) if shift >= -31 else (0, 0)


def scaled(x: Array, multiplier: int, shift: int) -> Array:
    """x times what `quantized_multiplier` gave, of 32 bits; rounded twice, as LiteRT does by default."""
    return shifted(doubling_high(wrapped(x << max(shift, 0), 32), multiplier, 32), max(-shift, 0))


def wrapped(x: Array, bits: int) -> Array:
    """x as it is kept in so many bits."""
    half = 1 << (bits - 1)
    return ((x + half) & ((1 << bits) - 1)) - half


def saturated(x: Array, bits: int) -> Array:
    """x between the least and the largest number of so many bits."""
    return x.clip(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def doubling_high(a: Array | int, b: Array | int, bits: int) -> Array:
    """The high half of 2ab, to the nearest, halves upwards (gemmlowp's SaturatingRoundingDoublingHighMul)."""
    product = a * b
    # gemmlowp's nudge before a division that cuts towards zero: positive halves go up, and negative ones as
    # well, thanks to the 1. Only (-2^(bits-1))^2 overflows, hence the saturation.
    half = 1 << (bits - 2)
    rounded = product + np.where(product >= 0, half, 1 - half)
    return saturated(_divided(rounded, bits - 1), bits)


def _divided(x: Array, exponent: int) -> Array:
    """x / 2^exponent, cut off towards zero."""
    return np.where(x >= 0, x >> exponent, -(-x >> exponent))


def shifted(x: Array, exponent: int) -> Array:
    """x / 2^exponent, to the nearest, halves away from zero."""
    if not exponent:
        return x
    # gemmlowp's RoundingDivideByPOT: >> floors; the threshold is one higher for negative x, so that halves go
    # down.
    mask = (1 << exponent) - 1
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0))


def _times_power(x: Array, exponent: int, bits: int) -> Array:
    return saturated(x << exponent, bits) if exponent > 0 else shifted(x, -exponent)


# --- sigmoid and hyperbolic tangent of 16 bits --------------------------------------------------------------

_BITS = 16
_ONE = (1 << (_BITS - 1)) - 1
"""1 with no integer bits: the nearest there is."""
# exp(-x) is the product of these over the bits set in x, times a polynomial for the rest below 1/4.
_POWERS = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)
"""n and exp(-2^n), of 32 bits without integer bits."""
_LAST_PLAIN_BITS = 5
"""Numbers with more integer bits can be below -32, where the exponential counts as 0."""


def _constant(raw: int) -> int:
    """A constant of 32 bits in 16."""
    return int(shifted(np.int64(raw), 32 - _BITS))


def _times(a: Array | int, b: Array | int) -> Array:
    return doubling_high(a, b, _BITS)


@cache
def sigmoid_table() -> Array:
    """[65536] sigmoid(x / 2^12) * 2^15 for x from -2^15 on; int64."""
    x = np.arange(-(1 << 15), 1 << 15, dtype=np.int64)
    # -2^15 has no opposite in 16 bits; it wraps to itself, and once more below, as in LiteRT's int16
    # arithmetic.
    positive = wrapped(np.where(x > 0, x, -x), _BITS)
    above = _one_over_one_plus(_exponential(wrapped(-positive, _BITS), 3))
    table = np.where(x > 0, above, wrapped(_ONE - above, _BITS))
    # 1/2 exactly; 1 - above would be one unit less, as `_ONE` is just below 1.
    return np.where(x == 0, 1 << 14, table)


@cache
def tanh_table(integer_bits: int) -> Array:
    """[65536] tanh(x / 2^(15 - integer_bits)) * 2^15 for x from -2^15 on; int64."""
    x = np.arange(-(1 << 15), 1 << 15, dtype=np.int64)
    negative = np.where(x < 0, x, -x)
    t = _one_minus_over_one_plus(_exponential(negative, integer_bits + 1))
    return np.where(x == 0, 0, np.where(x < 0, wrapped(-t, _BITS), t))


def _exponential(a: Array, integer_bits: int) -> Array:
    """exp(a) without integer bits, of a <= 0."""
    fraction = _BITS - 1 - integer_bits
    # rest is a modulo 1/4, in [-1/4, 0); the remainder is a whole number of quarters.
    quarter = 1 << (fraction - 2)
    rest = (a & (quarter - 1)) - quarter
    result = _near_zero(_times_power(rest, integer_bits, _BITS))
    remainder = rest - a
    for exponent, raw in _POWERS:
        if integer_bits > exponent:
            has = remainder & (1 << (fraction + exponent))
            result = np.where(has != 0, _times(result, _constant(raw)), result)
    if integer_bits > _LAST_PLAIN_BITS:
        result = np.where(a < _constant(-(1 << (36 - integer_bits))), 0, result)
    return np.where(a == 0, _ONE, result)


def _near_zero(a: Array) -> Array:
    """exp(a) of -1/4 <= a < 0, by Taylor's series around -1/8."""
    # exp(-1/8) and 1/3, as raw numbers of 32 bits.
    constant, third = _constant(1895147668), _constant(715827883)
    # a + 1/8, centred: |x| <= 1/8 keeps the polynomial of degree 4 within 16 bits.
    x = a + (1 << (_BITS - 4))
    square = _times(x, x)
    cube, fourth = _times(square, x), _times(square, square)
    # x^2/2 + x^3/6 + x^4/24 = ((x^4/4 + x^3) / 3 + x^2) / 2.
    tail = _times(_times_power(fourth, -2, _BITS) + cube, third) + square
    return saturated(constant + _times(constant, x + _times_power(tail, -1, _BITS)), _BITS)


def _reciprocal(a: Array) -> Array:
    """1 / ((1 + a) / 2) with two integer bits, of 0 <= a <= 1, by Newton's iteration."""
    # gemmlowp's RoundingHalfSum of a and 1; the added 1 rounds up, as the sum is positive.
    half = _divided(a + _ONE + 1, 1)
    one = 1 << (_BITS - 3)
    # 48/17 - 32/17 d with two integer bits, the best linear guess of 1/d on [1/2, 1]; three iterations
    # suffice.
    x: Array = _constant(1515870810) + _times(half, _constant(-1010580540))
    for _ in range(3):
        x = x + _times_power(_times(x, one - _times(half, x)), 2, _BITS)
    return x


def _one_over_one_plus(a: Array) -> Array:
    return _times_power(_reciprocal(a), 1, _BITS)


def _one_minus_over_one_plus(a: Array) -> Array:
    return _times_power(_reciprocal(a) - (1 << (_BITS - 3)), 2, _BITS)


# --- 1 / sqrt(x) of 32 bits ---------------------------------------------------------------------------------


def inverse_root(x: int) -> tuple[int, int]:
    """(m, shift) with 1 / sqrt(x) = m * 2^(shift - 31), of x >= 0 of 31 bits; 0 counts as 1."""
    if x <= 1:
        return (1 << 31) - 1, 0
    # LiteRT's GetInvSqrtQuantizedMultiplierExp, step by step.
    shift = 11
    # Powers of 4 only, as the root of one is a power of 2: below 2^29 the iteration has three bits of room.
    while x >= 1 << 29:
        x, shift = x // 4, shift + 1
    pairs = (32 - x.bit_length() - 1) // 2 - 1
    shift -= pairs
    value = np.int64((x << (2 * pairs)) >> 1)
    half = shifted(value, 1)
    # 1 with three integer bits, the first guess; five iterations of root (3 - x root^2) / 2.
    root = np.int64(1 << 28)
    for _ in range(5):
        cube = _times_power(_times32(_times32(root, root), root), 6, 32)
        step = wrapped(_times32(np.int64(3 << 27), root) - _times32(half, cube), 32)
        root = _times_power(step, 3, 32)
    # sqrt(2) / 2 of 32 bits, for the half that x was shifted by.
    result = int(_times32(root, np.int64(1518500250)))
    return (result << -shift, 0) if shift < 0 else (result, -shift)


def _times32(a: Array, b: Array) -> Array:
    return doubling_high(a, b, 32)
