"""Complex numbers and Fourier transforms, whose real and imaginary parts are tensors of their own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, FLOAT, INT32, dtype
from thinflow.keras.call import Call
from thinflow.keras.layers.audio import halves, transformed, waves_of, window_of
from thinflow.keras.layers.convolution import transposed
from thinflow.keras.operations.elementwise import first, floats, tensor
from thinflow.keras.registry import Result, Rule, operation
from thinflow.typing import Array

# --- complex numbers ----------------------------------------------------------------------------------------


def _part(op: str) -> Rule:
    def rule(c: Call) -> Value:
        x = first(c)
        if c.type_of(x).kind == "c":
            element = dtype("float" if c.type_of(x).itemsize == 8 else "double")
            return c.emit(op, x, Tout=element)
        return c.emit("ZerosLike", x) if op == "Imag" else x

    return rule


operation("Real")(_part("Real"))
operation("Imag")(_part("Imag"))


@operation("Conj", "Conjugate")
def conj(c: Call) -> Result:
    return c.emit("Conj", first(c)) if c.type_of(first(c)).kind == "c" else first(c)


@operation("Angle")
def angle(c: Call) -> Result:
    """Of real numbers pi below zero, else zero."""
    x = first(c)
    if c.type_of(x).kind == "c":
        raise c.refuse("its input is complex")
    x = floats(c, x)
    return c.emit("Mul", c.cast(c.emit("Less", x, 0.0), c.type_of(x)), math.pi)


@operation("Isreal")
def isreal(c: Call) -> Result:
    x = first(c)
    if c.type_of(x).kind == "c":
        return c.emit("Equal", c.emit("Imag", x, Tout=FLOAT), 0.0)
    return c.emit("LogicalNot", c.cast(c.emit("ZerosLike", x), BOOL), T=None)


def _complex(c: Call, real: Value, imaginary: Value) -> Value:
    name = "complex64" if c.type_of(real) is FLOAT else "complex128"
    return c.emit("Complex", real, imaginary, Tout=dtype(name))


def _parts(c: Call, x: Value) -> list[Value]:
    element = dtype("float" if c.type_of(x).itemsize == 8 else "double")
    return [c.emit(op, x, Tout=element) for op in ("Real", "Imag")]


@operation("ViewAsComplex")
def view_as_complex(c: Call) -> Result:
    x = first(c)
    if c.size(x, -1) != 2:
        raise c.refuse(f"its last axis has {c.shape(x)[-1]} elements; two are known")
    node = c.node("Unpack", x, name="unstack", num=2, axis=c.rank(x) - 1)
    return _complex(c, node.output(0), node.output(1))


@operation("ViewAsReal")
def view_as_real(c: Call) -> Result:
    parts = _parts(c, first(c))
    return c.emit("Pack", *parts, N=2, axis=c.rank(parts[0]), name="stack")


@operation("Polar")
def polar(c: Call) -> Result:
    """A complex number by its size and its angle."""
    size, angle = tensor(c, "abs_", 0), tensor(c, "angle", 1)
    return _complex(c, *(c.emit("Mul", size, c.emit(op, angle)) for op in ("Cos", "Sin")))


# --- Fourier transforms -------------------------------------------------------------------------------------


def _of_pair(op: str) -> Rule:
    return lambda c: _parts(c, c.emit(op, _complex(c, c[0], c[1])))


operation("FFT")(_of_pair("FFT"))
operation("FFT2")(_of_pair("FFT2D"))
operation("IFFT2")(_of_pair("IFFT2D"))


def _padded(c: Call, x: Value, size: int) -> Value:
    """With zeros up to a size of the last axis; what is behind it the op leaves out."""
    return c.pad(x, [[0, 0]] * (c.rank(x) - 1) + [[0, max(0, size - c.size(x, -1))]])


@operation("RFFT")
def rfft(c: Call) -> Result:
    x, count = first(c), c.get("fft_length")
    size = c.integer("fft_length") if count is not None else c.size(x, -1)
    x, length = _padded(c, x, size), c.const([size], "fft_length")
    name = "complex64" if c.type_of(x) is FLOAT else "complex128"
    return _parts(c, c.emit("RFFT", x, length, T=None, Treal=c.type_of(x), Tcomplex=dtype(name)))


@operation("IRFFT")
def irfft(c: Call) -> Result:
    count = c.get("fft_length")
    given = c.integer("fft_length") if count is not None else 2 * (c.size(c[0], -1) - 1)
    pair = _complex(c, *(_padded(c, x, given // 2 + 1) for x in c.xs[:2]))
    kinds: dict[str, Any] = {"T": None, "Treal": c.type_of(c[0]), "Tcomplex": c.type_of(pair)}
    return c.emit("IRFFT", pair, c.const([given], "fft_length"), **kinds)


@operation("STFT")
def stft(c: Call) -> Result:
    """A short-time Fourier transform.   [..., samples] -> twice [..., frames, bins]"""
    x, size = first(c), c.integer("fft_length")
    if c.type_of(x) is not FLOAT:
        raise c.refuse(f"its input is of the type {c.type_of(x).name}")
    lead = [c.dim(x, n) for n in range(c.rank(x) - 1)]
    rows = c.shaped(x, [None, c.dim(x, -1)])
    y = transformed(c, rows, size, c.integer("sequence_stride"), c.flag("center", True))
    cosines, sines = halves(c, c.shaped(y, [*lead, c.dim(y, 1), c.dim(y, 2)]))
    # The transform is by exp(-i w t), whose imaginary part is minus the sine.
    return [cosines, c.emit("Neg", sines)]


@operation("ISTFT")
def istft(c: Call) -> Result:
    """The sound of a short-time Fourier transform.   twice [..., frames, bins] -> [..., samples]

    Each frame by the inverse transform's basis under the window that undoes the forward one, and what
    overlaps added up, which is a transposed convolution.
    """
    real, imaginary = c.xs[:2]
    size, step, bins = c.integer("fft_length"), c.integer("sequence_stride"), c.size(c[0], -1)
    if c.type_of(real) is not FLOAT:
        raise c.refuse(f"its input is of the type {c.type_of(real).name}")
    lead = [c.dim(real, n) for n in range(c.rank(real) - 2)]
    both = c.concat([real, c.emit("Neg", imaginary)], c.rank(real) - 1)
    frames = c.shaped(both, [None, c.dim(real, -2), 2 * bins])
    kernel = _inverse_basis(c, size, bins, step)
    y = transposed(c, frames, kernel, (step,), "valid", (1,), (0,))
    y = c.shaped(y, [*lead, c.dim(y, 1)])
    start = size // 2 if c.flag("center", True) else 0
    length = c.get("length")
    if length is not None:
        end: int | None = start + c.integer("length")
    else:
        # As Keras cuts: with no half of a transform to take off it takes everything off.
        end = -start if c.flag("center", True) else None
    rest = c.rank(y) - 1
    return c.sliced(y, [*[0] * rest, start], [*[None] * rest, end])


def _inverse_basis(c: Call, size: int, bins: int, step: int) -> Array:
    """What cosines, then sines add to each sample of a frame.   [size, 1, 2 * bins]"""
    # All frequencies but the first and, of an even size, the last stand for two.
    shares = np.full(bins, 2.0) * (np.arange(bins) < size // 2 + 1)
    shares[0] = 1
    if size % 2 == 0 and bins > size // 2:
        shares[size // 2] = 1
    waves = waves_of(size, bins) * np.tile(shares, 2) / size
    # Without a window nothing is undone.
    if c.get("window", "hann") is not None:
        window = window_of(c, size)
        count = -(-size // step)
        power = np.pad(window**2, (0, count * step - size)).reshape(count, step).sum(axis=0)
        with np.errstate(all="ignore"):  # of no window at all there is no inverse
            waves = waves * (window / np.tile(power, count)[:size])[:, None]
    else:
        c.integer("sequence_length")
    return np.asarray(waves[:, None], np.float32)


@operation("ExtractSequences")
def sequences(c: Call) -> Result:
    """Parts of one length, which begin so many elements apart, along the last axis."""
    x, length, step = first(c), c.integer("sequence_length"), c.integer("sequence_stride")
    count = max(0, (c.size(x, -1) - length) // step + 1)
    places = np.arange(count)[:, None] * step + np.arange(length)
    table = c.const(places.astype(np.int32), "places")
    axis = c.const(c.rank(x) - 1, "axis")
    return c.emit("GatherV2", x, table, axis, T=None, Tparams=c.type_of(x), Tindices=INT32, Taxis=INT32)
