"""ONNX's Fourier transforms and bands of frequencies in TensorFlow's words."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import DOUBLE, FLOAT, DType, dtype
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.sizes import Size, counted, scalar, size, vector
from thinflow.lift.onnx.values import NUMBERS, along, bounded, integers, like, opset, rank, transposed, typed
from thinflow.lift.rules import lifts
from thinflow.typing import Array

_AXIS_IS_AN_INPUT = 20
"""The version of ONNX's op set from which on DFT reads its axis as an input."""
_REAL, _COMPLEX = 1, 2
"""Sizes of the last axis, which holds the parts of a number."""


@lifts("onnx.DFT")
def _dft(c: Call) -> Value:
    """[..., n, ..., 1 or 2] -> [..., k, ..., 2], or [..., 1] of a real result."""
    count = rank(c)
    axis = _axis(c, count)
    order = [*(i for i in range(count - 1) if i != axis), axis, count - 1]
    x = transposed(c, c[0], order)
    given = _given_length(c)
    y = _transformed(c, x, given, c.flag("inverse"), c.flag("onesided"))
    return transposed(c, y, [order.index(i) for i in range(count)])


def _axis(c: Call, count: int) -> int:
    is_input = opset(c) >= _AXIS_IS_AN_INPUT
    axis = (
        int(c.known(2).reshape(-1)[0]) if is_input and c.has(2) else int(c.get("axis", -2 if is_input else 1))
    )
    if not -count <= axis < count or axis % count == count - 1:
        raise UnsupportedOp(f"its axis is {axis} where there are {count}, the last for the parts of a number")
    return axis % count


def _given_length(c: Call) -> int | None:
    return _number(c, 1) if c.has(1) else None


def _number(c: Call, place: int) -> int:
    """A constant of one element."""
    return bounded(int(c.known(place).reshape(-1)[0]))


def _transformed(c: Call, x: Value, given: int | None, inverse: bool, onesided: bool) -> Value:
    """The transform along the axis before the last one, which holds the parts of a number."""
    count = len(x.spec.shape or ())
    width = (x.spec.shape or (None,))[-1]
    if width not in (_REAL, _COMPLEX):
        raise UnsupportedOp("whether its numbers are complex is not known")
    # Real numbers have one-sided frequencies, and come from such.
    if onesided and (width == _COMPLEX) != inverse:
        raise UnsupportedOp("it takes one side of the frequencies of complex numbers, which have two")
    kind = x.dtype
    # TensorFlow transforms floats and doubles alone: halves go by way of float32.
    wide = kind if kind is DOUBLE else FLOAT
    own = size(c, x, count - 2)
    if onesided and inverse:
        length: Size = given if given is not None else _mirrored(c, own)
        needed = length // 2 + 1 if isinstance(length, int) else own
    else:
        length = needed = own if given is None else given
    x = typed(c, _fitted(c, x, count - 2, own, needed), wide)
    y = _spectrum(c, x, width == _COMPLEX, vector(c, [length]), (inverse, onesided))
    return y if kind is None else typed(c, y, kind)


def _mirrored(c: Call, bins: Size) -> Size:
    """The even length of a signal that has so many frequencies."""
    if isinstance(bins, int):
        return 2 * (bins - 1)
    return c.emit("Mul", c.emit("Sub", bins, integers(c, 1)), integers(c, 2))


def _fitted(c: Call, x: Value, axis: int, own: Size, wanted: Size) -> Value:
    """x with zeros behind, or its first elements, as many as are wanted along an axis."""
    if own is wanted or (isinstance(own, int) and own == wanted):
        return x
    count = len(x.spec.shape or ())
    # Where sizes are open as many zeros as could be needed: what is too much is cut off behind.
    more = wanted if not isinstance(own, int) or not isinstance(wanted, int) else max(wanted - own, 0)
    if more != 0:
        ends: list[Size] = [0] * (2 * count)
        ends[2 * axis + 1] = more
        widths = c.emit("Reshape", vector(c, ends), integers(c, (count, 2)))
        x = c.emit("PadV2", x, widths, like(c, 0, x))
    sizes: list[Size] = [-1] * count
    sizes[axis] = wanted
    return c.emit("Slice", x, integers(c, [0] * count), vector(c, sizes))


def _spectrum(c: Call, x: Value, is_complex: bool, length: Value, how: tuple[bool, bool]) -> Value:
    """x [..., n, 1 or 2] -> [..., k, 1 or 2]."""
    inverse, onesided = how
    kind = _complex(x.dtype)
    real, imaginary = _parts(c, x, is_complex)
    lengths = typed(c, length, dtype("int32"))
    if onesided and not inverse:
        return _both(c, c.emit("RFFT", real, lengths, Tcomplex=kind), x.dtype)
    whole = c.emit("Complex", real, imaginary, Tout=kind)
    if onesided:
        y = c.emit("IRFFT", whole, lengths, Treal=x.dtype)
        return c.emit("ExpandDims", y, c.constant(-1))
    return _both(c, c.emit("IFFT" if inverse else "FFT", whole, Tcomplex=kind), x.dtype)


def _complex(kind: DType | None) -> DType:
    return dtype("complex128" if kind is DOUBLE else "complex64")


def _parts(c: Call, x: Value, is_complex: bool) -> tuple[Value, Value]:
    if not is_complex:
        real = c.emit("Squeeze", x, squeeze_dims=(-1,))
        return real, c.emit("ZerosLike", real)
    node = c.many("Unpack", x, num=2, axis=-1)
    return node.output(0), node.output(1)


def _both(c: Call, y: Value, kind: DType | None) -> Value:
    """Complex numbers as pairs along a last axis."""
    return c.emit("Pack", c.emit("Real", y, Tout=kind), c.emit("Imag", y, Tout=kind), axis=-1)


@lifts("onnx.STFT")
def _stft(c: Call) -> Value:
    """[batch, n, 1 or 2] or, of real numbers, [batch, n] -> [batch, frames, frequencies, 2]."""
    if rank(c) == 2:
        # PyTorch's exporter writes it so, and ONNX Runtime takes it.
        c.xs[0] = c.emit("ExpandDims", c[0], c.constant(-1))
    elif rank(c) != 3:
        raise UnsupportedOp("its signal is not [batch, length, parts]")
    step, whole = _number(c, 1), size(c, c[0], 1)
    window = c[2] if c.has(2) else None
    length = _number(c, 3) if c.has(3) else whole if window is None else size(c, window, 0)
    if not isinstance(length, int) or not step:
        raise UnsupportedOp("the length of its frames is not known")
    starts = counted(c, _frames(c, whole, length, step), step)
    places = c.emit("AddV2", along(c, starts, 0, 2), along(c, counted(c, length), 1, 2))
    x = c.emit("GatherV2", c[0], places, c.constant(1), batch_dims=0)
    if window is not None:
        x = c.emit("Mul", x, along(c, window, 2, 4))
    return _transformed(c, x, None, False, c.flag("onesided", default=True))


def _frames(c: Call, whole: Size, length: int, step: int) -> Size:
    """As many frames as fit."""
    if isinstance(whole, int):
        return max((whole - length) // step + 1, 0)
    room = c.emit("Sub", scalar(c, whole), integers(c, length))
    return c.emit("AddV2", c.emit("FloorDiv", room, integers(c, step)), integers(c, 1))


@lifts("onnx.MelWeightMatrix")
def _mel_weight_matrix(c: Call) -> Value:
    """[frequencies, bands]: how much of each frequency is in each band."""
    kind = NUMBERS.get(c.get("output_datatype", 1))
    if kind is None:
        raise UnsupportedOp("it makes a type that TensorFlow does not have")
    bands, length, rate = (_number(c, i) for i in range(3))
    if not rate:
        raise UnsupportedOp("its sample rate is 0")
    low, high = (float(c.known(i).reshape(-1)[0]) for i in (3, 4))
    bounded((length // 2 + 1) * bands)
    table = mel_bands(bands, length, rate, (low, high)).astype(kind.numpy())
    return c.emit("Identity", c.constant(table))


def mel_bands(bands: int, length: int, rate: int, edges: tuple[float, float]) -> Array:
    """Triangles whose corners are equally far apart on the mel scale, rounded down: [frequencies, bands].

    Args:
        bands: how many triangles.
        length: of the transform that gave the frequencies.
        rate: samples a second.
        edges: the lowest and the highest frequency, in hertz.
    """
    low, high = (2595 * np.log10(1 + edge / 700) for edge in edges)
    # The standard divides by the number of corners, of which the last thus lies below the upper edge.
    mels = low + np.arange(bands + 2) * ((high - low) / (bands + 2))
    hertz = 700 * (10 ** (mels / 2595) - 1)
    corners = ((length + 1) * hertz // rate).astype(np.int64)
    frequencies = np.arange(length // 2 + 1)[:, np.newaxis]
    start, peak, end = corners[:-2], corners[1:-1], corners[2:]
    with np.errstate(divide="ignore", invalid="ignore"):
        rising, falling = (frequencies - start) / (peak - start), (end - frequencies) / (end - peak)
    is_rising = (frequencies >= start) & (frequencies <= peak)
    # A triangle without a left side has its peak all the same.
    rising = np.where(peak == start, 1.0, rising)
    is_falling = (frequencies > peak) & (frequencies < end)
    return np.where(is_rising, rising, np.where(is_falling, falling, 0.0))
