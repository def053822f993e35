"""From one element type to another, and complex numbers to and from their parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import DType, TensorSpec, dtype
from thinflow.ops._numeric import broadcast_spec, is_narrow, quiet, widen
from thinflow.ops._shapes import in_range, map_elements, with_elements
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


@op("Cast")
class Cast(OpDef):
    """y = x in the type DstT.

    To an integer: towards zero, then modulo 2^bits. What no integer type holds (NaN, infinities, beyond 64
    bits) becomes the smallest int32 or int64 first, as x86 does; TensorFlow leaves these cases open and
    saturates in some of its vector loops. To bool: x != 0. From complex: the real part, for bool too. To a
    narrower float: to the nearest, halves to even, or towards zero if Truncate (half and bfloat16 only).
    """

    traits = Trait.ELEMENTWISE | Trait.CAST

    @staticmethod
    def infer(x: TensorSpec, *, DstT: DType) -> TensorSpec:
        result = TensorSpec(DstT, x.shape)
        if x.dtype is None or x.dtype.kind not in "iub" or DstT.kind not in "iub":
            return result
        return with_elements(result, map_elements(lambda v: in_range(v, DstT), x, shape=x.shape))

    @staticmethod
    @quiet
    def kernel(x: Array, *, DstT: DType, Truncate: bool = False) -> Array:
        target = DstT.numpy()
        if x.dtype == target:
            return x
        if x.dtype.kind == "c" and target.kind != "c":
            x = x.real
        if target.kind == "b":
            return np.asarray(widen(x) != 0)
        if target.kind in "iu" and x.dtype.kind not in "iub":
            return _to_integers(widen(x), target)
        if Truncate and is_narrow(target) and x.dtype.kind == "f":
            return _round_down(widen(x), target)
        return widen(x).astype(target) if is_narrow(target) else x.astype(target)


def _to_integers(x: Array, target: np.dtype[Any]) -> Array:
    # The upper half of uint64 fits no int64: 2^63 is taken off as a float, exactly, and put back as an
    # integer.
    if target == np.uint64:
        high = (x >= 2.0**63) & (x < 2.0**64)
        upper = np.where(high, x - x.dtype.type(2.0**63), 0).astype(np.uint64) + np.uint64(1 << 63)
        return np.where(high, upper, _to_signed(x, np.dtype(np.int64)).astype(np.uint64))
    # Narrow types go through int32 and wrap from there, as x86's cvttss2si and a truncating store do.
    wide = np.dtype(np.int64 if target.itemsize == 8 or target == np.uint32 else np.int32)
    return _to_signed(x, wide).astype(target)


def _to_signed(x: Array, wide: np.dtype[Any]) -> Array:
    limit = 2.0 ** (8 * wide.itemsize - 1)
    # Truncation is towards zero, so anything above -limit - 1 fits. Where float32 cannot tell that from
    # -limit, the smallest integer is what -limit gives anyway.
    inside = (x > -limit - 1) & (x < limit)
    return np.where(inside, np.where(inside, x, 0).astype(wide), np.iinfo(wide).min)


def _round_down(x: Array, target: np.dtype[Any]) -> Array:
    """To a 16-bit float, dropping the bits that do not fit."""
    x = x.astype(np.float32)
    # Infinities and NaN keep what rounding makes of them; finite numbers beyond half's range become infinite,
    # too.
    nearest = x.astype(target)
    if target == np.float16:
        too_far = np.isfinite(x) & np.isfinite(nearest) & (np.abs(nearest.astype(np.float32)) > np.abs(x))
        return np.where(too_far, np.nextafter(nearest, np.float16(0)), nearest)
    # bfloat16 is the upper half of a float32, so cutting the lower half off rounds towards zero.
    bits = np.ascontiguousarray(x).reshape(x.shape).view(np.uint32) >> np.uint32(16)
    return np.where(np.isfinite(x), bits.astype(np.uint16).view(target), nearest)


@op("Bitcast")
class Bitcast(OpDef):
    """y = the bytes of x read as `type`.

    x [...] -> y [...] for equal sizes, [..., k] for k smaller elements, and from [..., k] for one larger.
    """

    traits = Trait.TYPE_BITS | Trait.CAST

    @staticmethod
    def infer(x: TensorSpec, *, type: DType) -> TensorSpec:
        if x.dtype is None or x.shape is None or not x.dtype.itemsize or not type.itemsize:
            return TensorSpec(type)
        before, after = x.dtype.itemsize, type.itemsize
        if before == after:
            same = x.dtype.kind in "iu" and type.kind in "iu"
            elements = map_elements(lambda v: in_range(v, type), x, shape=x.shape) if same else None
            return with_elements(TensorSpec(type, x.shape), elements)
        if before > after:
            return TensorSpec(type, (*x.shape, before // after))
        require(
            len(x.shape) > 0 and x.shape[-1] in (None, after // before),
            _bitcast_problem(x.shape, after // before),
        )
        return TensorSpec(type, x.shape[:-1])

    @staticmethod
    def kernel(x: Array, *, type: DType) -> Array:
        target = type.numpy()
        # A view as another size needs contiguous memory; reshape, as ascontiguousarray makes a vector of a
        # scalar.
        x = np.ascontiguousarray(x).reshape(x.shape)
        if x.dtype.itemsize == target.itemsize:
            return x.view(target)
        if x.dtype.itemsize > target.itemsize:
            return x[..., np.newaxis].view(target)
        count = target.itemsize // x.dtype.itemsize
        require(x.ndim > 0 and x.shape[-1] == count, _bitcast_problem(x.shape, count))
        return x.view(target)[..., 0]


def _bitcast_problem(shape: tuple[int | None, ...], count: int) -> str:
    return f"the last dimension of {list(shape)} must be {count} to become one larger element"


# ---- Complex numbers


_PARTS = {"complex64": "float", "complex128": "double"}


class _Part(OpDef):
    """y = a real number for each complex one.   complex64 -> float, complex128 -> double."""

    traits = Trait.ELEMENTWISE

    @staticmethod
    def infer(x: TensorSpec, *, Tout: DType | None = None) -> TensorSpec:
        if Tout is None:
            Tout = dtype(_PARTS.get(x.dtype.name, x.dtype.name)) if x.dtype is not None else dtype("float")
        return TensorSpec(Tout, x.shape)


@op("Real")
class Real(_Part):
    """y = real part."""

    @staticmethod
    def kernel(x: Array) -> Array:
        return x.real


@op("Imag")
class Imag(_Part):
    """y = imaginary part."""

    @staticmethod
    def kernel(x: Array) -> Array:
        return x.imag


@op("ComplexAbs")
class ComplexAbs(_Part):
    """y = sqrt(real^2 + imag^2)."""

    @staticmethod
    @quiet
    def kernel(x: Array) -> Array:
        return np.abs(x)


@op("Angle")
class Angle(_Part):
    """y = angle in radians, in (-pi, pi]."""

    @staticmethod
    @quiet
    def kernel(x: Array) -> Array:
        return np.asarray(np.angle(x))


@op("Conj")
class Conj(OpDef):
    """y = x with the imaginary part negated."""

    traits = Trait.ELEMENTWISE

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array) -> Array:
        return np.conj(x)


@op("Complex")
class Complex(OpDef):
    """z = real + i imag.   float -> complex64, double -> complex128; broadcasts."""

    traits = Trait.ELEMENTWISE

    @staticmethod
    def infer(real: TensorSpec, imag: TensorSpec, *, Tout: DType | None = None) -> TensorSpec:
        if Tout is None:
            double = real.dtype is not None and real.dtype.name == "double"
            Tout = dtype("complex128" if double else "complex64")
        return broadcast_spec(Tout, real, imag)

    @staticmethod
    def kernel(real: Array, imag: Array) -> Array:
        z = np.empty(
            np.broadcast_shapes(real.shape, imag.shape), np.complex64 if real.itemsize == 4 else np.complex128
        )
        z.real = real  # not `real + 1j * imag`: an infinite part would make the other one NaN
        z.imag = imag
        return z
