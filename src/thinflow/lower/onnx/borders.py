"""Zeros around images, left to the convolution that reads them."""

from __future__ import annotations

from thinflow.lower.onnx.builder import Builder, Dims
from thinflow.onnx.program import Operator, Tensor

Border = tuple[int, ...]
"""Pixels above, left of, below and right of an image."""


def inside_border(b: Builder, x: Tensor) -> tuple[Tensor, Border | None]:
    """An image x [n,h,w,c] without the zeros around it, and how many: above, left, below and right."""
    pad = b.producer(x, "Pad")
    border = None if pad is None else border_of_zeros(pad)
    if pad is None or border is None or pad.inputs[0] is None:
        return x, None
    return pad.inputs[0], border


def with_border(b: Builder, codes: Tensor, zero: Tensor, border: Border | None, shape: Dims) -> Tensor:
    """Values with their zero point around them, which a convolution that reads them may add itself."""
    if border is None:
        return codes
    pads = b.ints([0, *border[:2], 0, 0, *border[2:], 0], "pads")
    whole = b.step("Pad", codes, pads, zero, shape=shape, mode="constant")
    b.notes["border", whole] = codes, border
    return whole


def border_of_zeros(pad: Operator) -> Border | None:
    """The border if it is one of zeros, around height and width alone; else None."""
    pads = pad.inputs[1].array() if pad.inputs[1] is not None and pad.inputs[1].is_constant else None
    value = pad.inputs[2] if len(pad.inputs) > 2 else None
    is_zero = value is None or (value.is_constant and not value.array().any())
    if (
        pads is None
        or len(pad.inputs) > 3
        or not is_zero
        or pad.options.get("mode", "constant") != "constant"
    ):
        return None
    # ONNX lists the beginnings of all axes, then the ends; images are channels-last here. Numbers below 0 cut
    # off instead.
    begins, ends = pads.reshape(2, -1)
    if len(begins) != 4 or (pads < 0).any() or begins[[0, 3]].any() or ends[[0, 3]].any():
        return None
    return tuple(int(n) for n in (*begins[1:3], *ends[1:3]))


def without_border(b: Builder, x: Tensor) -> tuple[Tensor, Border]:
    """Values without the zeros around them, and how many there were: above, left, below and right."""
    found = b.notes.get(("border", x))
    return (x, (0, 0, 0, 0)) if found is None else found
