"""TFLite Micro's signal ops on one frame of sound: window, spectrum, its energy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import Struct
from thinflow.lower.c.operators.complex_numbers import transform_settings
from thinflow.lower.c.sound import options_of
from thinflow.ops._fixed_fft import FixedFFT
from thinflow.tflite.model import Operator
from thinflow.typing import Array

_LONGEST = 1 << 16


@form("SignalWindow", types="int16")
def window(b: LayerBuilder, op: Operator) -> None:
    """x [...,n], window [n] -> y [...,n]."""
    # More bits than a product has would be undefined in C.
    (shift,) = numbers_of(op, shift=range(32))
    size = b.size(b.input(1))
    b.in_place()
    b.call("signal_window", b.input(0), b.input(1), b.output(), b.size(b.output()) // size, size, shift)


@form("SignalFftAutoScale", types="int16")
def fft_auto_scale(b: LayerBuilder, op: Operator) -> None:
    """x [n] -> y [n], bits []."""
    b.call("signal_fft_auto_scale", b.input(0), b.output(), b.output(1), b.size(b.output()))


@form("SignalRfft", types="float int16 int32")
def rfft(b: LayerBuilder, op: Operator) -> None:
    """x [...,n] -> y [...,fft_length+2]."""
    *outer, size = b.shape(b.input(0))
    length = _length(op)
    if size > length:
        raise UnsupportedOp(f"{size} samples are too many for a transform of {length}")
    if b.input(0).dtype.name == "float":
        line, settings = transform_settings(b, math.prod(outer), (1, size), (1, length))
        b.call("real_transform", b.input(0), b.output(), line, settings)
        return
    _call_fixed(b, "signal_rfft", FixedFFT(length, _bits(b)), math.prod(outer), size)


@form("SignalIrfft", types="float int16 int32")
def irfft(b: LayerBuilder, op: Operator) -> None:
    """x [...,fft_length+2] -> y [...,fft_length]."""
    *outer, size = b.shape(b.input(0))
    length = _length(op)
    if size != length + 2:
        raise UnsupportedOp(f"{size} numbers are no spectrum of a transform of {length}")
    if b.input(0).dtype.name == "float":
        line, settings = transform_settings(b, math.prod(outer), (1, size), (1, length), "real_transform_t")
        b.call("signal_irfft_float", b.input(0), b.output(), line, settings)
        return
    _call_fixed(b, "signal_irfft", FixedFFT(length, _bits(b), inverse=True), math.prod(outer), length)


@form("SignalEnergy", types="int16")
def energy(b: LayerBuilder, op: Operator) -> None:
    """x [2*bins] -> y [bins]."""
    bins = b.size(b.output())
    start, end = numbers_of(op, start_index=range(bins + 1), end_index=range(bins + 1))
    b.call("signal_energy", b.input(0), b.output(), bins, start, end)


def numbers_of(op: Operator, **limits: range) -> list[int]:
    """Options that are whole numbers.

    Args:
        limits: name -> what it may be.

    Raises:
        UnsupportedOp: one is missing, or is another.
    """
    options: dict[str, Any] = options_of(op)
    # Files come from anywhere: what C does with other numbers it does not say.
    for name, limit in limits.items():
        if name not in options:
            raise UnsupportedOp(f"its option '{name}' is missing")
        if int(options[name]) not in limit:
            raise UnsupportedOp(
                f"its option '{name}' is {options[name]}, not {limit.start} to {limit.stop - 1}"
            )
    return [int(options[name]) for name in limits]


def _length(op: Operator) -> int:
    (length,) = numbers_of(op, fft_length=range(4, _LONGEST + 1))
    if length & (length - 1):
        raise UnsupportedOp(f"a transform of {length} is no power of two")
    return length


def _bits(b: LayerBuilder) -> int:
    return 8 * b.input(0).dtype.itemsize


def _call_fixed(b: LayerBuilder, kernel: str, transform: FixedFFT, rows: int, size: int) -> None:
    kind = b.input(0).dtype.name
    # Products of two samples, and their sums.
    sums = {"sum_type": "int32_t" if kind == "int16" else "int64_t", "fraction": str(transform.bits - 1)}
    b.call(kernel, b.input(0), b.output(), _fixed_settings(b, transform, rows, size), type=kind, **sums)


def _fixed_settings(b: LayerBuilder, transform: FixedFFT, rows: int, size: int) -> Struct:
    """The struct of a transform in fixed point."""
    half, kind = transform.length // 2, b.input(0).dtype.name
    # Stages of four parts take three quarters of a turn at most, those of two none.
    turns = np.stack(transform.turns(np.arange(max(3 * half // 4, 1)), half), -1)
    between = np.stack(transform.between(np.arange(1, half // 2 + 1), half), -1)
    return b.struct(
        "",
        rows=rows,
        size=size,
        half=half,
        places=b.constant("places", _places(half), "uint16"),
        turns=b.constant("turns", turns, kind),
        between=b.constant("between", between, kind),
    )


def _places(count: int) -> Array:
    """Where the first stage of a transform has what comes in: that of four parts side by side, or of two."""
    if count == 1:
        return np.zeros(1, np.int64)
    parts = 4 if count % 4 == 0 else 2
    part, inside = np.arange(count) % parts, _places(count // parts)
    return part * (count // parts) + inside[np.arange(count) // parts]
