"""Fourier transforms of real numbers."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT, dtype
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, ints, require, shape_of
from thinflow.lower.tflite.program import Tensor


def _lengths(x: Tensor, lengths: Tensor, count: int) -> tuple[int, ...]:
    """The lengths of the transforms, which the kernel wants to be powers of two."""
    found = ints(lengths, "the length of the transform")
    require(len(found) == count, f"{len(found)} lengths for a transform along {count} axes")
    for size, length in zip(shape_of(x)[-count:], found, strict=True):
        fits = size is None or size >= length
        require(fits, f"axes of {size} are shorter than the transform, {length}")
    # n & (n - 1) clears the lowest bit that is set: 0 is left of a power of two.
    broken = [n for n in found if n < 1 or n & (n - 1)]
    require(found[-1:] != (1,), "LiteRT's transform of single numbers adds up others beside them")
    require(not broken, f"LiteRT transforms powers of two only, not {', '.join(map(str, broken))}")
    return found


@lower("RFFT2D", to="tflite")
def rfft2d(b: Builder, node: Node, x: Tensor, lengths: Tensor) -> Tensor:
    require(x.dtype is FLOAT, f"LiteRT transforms float only, not {x.dtype}")
    require(len(shape_of(x)) >= 2, "the input has no two axes")
    return b.emit("RFFT2D", x, b.ints(_lengths(x, lengths, 2), "lengths"))


@lower("RFFT", to="tflite")
def rfft(b: Builder, node: Node, x: Tensor, lengths: Tensor) -> Tensor:
    """[...,n] as [...,1,n], whose other transform has length 1."""
    require(x.dtype is FLOAT, f"LiteRT transforms float only, not {x.dtype}")
    sizes = shape_of(x)
    require(len(sizes) >= 1 and sizes.count(None) <= 1, "more than one size is not known")
    (length,) = _lengths(x, lengths, 1)
    wide = b.reshaped(x, (*sizes[:-1], 1, sizes[-1]))
    shape = (*sizes[:-1], 1, length // 2 + 1)
    both = b.step("RFFT2D", wide, b.ints([1, length], "lengths"), shape=shape, element=dtype("complex64"))
    # RESHAPE copies bytes, so complex numbers go through it as well.
    inputs, options = b.reshape_operands([-1 if n is None else n for n in (*sizes[:-1], shape[-1])], both)
    return b.emit("RESHAPE", *inputs, **options)
