"""Windows that convolutions and pools move over pictures."""

from __future__ import annotations

from typing import NamedTuple

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.layer import Struct
from thinflow.tflite.model import Operator, Tensor

PAD_TOP = "pad_top"
"""The option of an operator on some rows of a picture: how many rows of padding lie above them."""


class Moves(NamedTuple):
    """How the windows of an operator move, side by side.

    Attributes:
        steps: from one window to the next.
        dilations: from one tap to the next.
        is_same: whether there is padding where windows stand out.
    """

    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    is_same: bool

    @property
    def is_dilated(self) -> bool:
        return max(self.dilations) > 1


def moves(operator: Operator, sides: str = "hw") -> Moves:
    """How the windows of an operator move over height and width, or over other sides."""
    # Options that are left out have LiteRT's default; a step of 0 would stay where it is.
    steps, dilations = (
        tuple(max(int(operator.options.get(name.format(side), 1)), 1) for side in sides)
        for name in ("stride_{}", "dilation_{}_factor")
    )
    # An enumerator that a file leaves out is the first.
    return Moves(steps, dilations, operator.options.get("padding", "SAME") == "SAME")


def window(b: LayerBuilder, size: tuple[int, int]) -> Struct:
    """The struct `window_t` of a layer from its first input to its output.

    Args:
        b: of the layer.
        size: height and width of the window, without dilation.
    """
    batches, in_height, in_width, in_channels = b.shape(b.input(0))
    _, out_height, out_width, out_channels = b.shape(b.output())
    steps, dilations, is_same = moves(b.operator)
    pads = [
        before(*sides) if is_same else 0
        for sides in zip((in_height, in_width), (out_height, out_width), size, steps, dilations, strict=True)
    ]
    pads[0] = b.option(PAD_TOP, pads[0])
    return b.struct(
        "window_t",
        batches=batches,
        in_height=in_height,
        in_width=in_width,
        in_channels=in_channels,
        out_height=out_height,
        out_width=out_width,
        out_channels=out_channels,
        height=size[0],
        width=size[1],
        stride_y=steps[0],
        stride_x=steps[1],
        dilation_y=dilations[0],
        dilation_x=dilations[1],
        pad_top=pads[0],
        pad_left=pads[1],
    )


def rows_before(operator: Operator, height: int) -> int:
    """Rows of padding above the picture that the windows of a height of an operator move over."""
    steps, dilations, is_same = moves(operator)
    if not is_same:
        return 0
    (_, rows, *_), (_, out, *_) = ((n or 0 for n in t.shape or ()) for t in _ends(operator))
    return before(rows, out, height, steps[0], dilations[0])


def keeps_place(b: LayerBuilder, size: tuple[int, int]) -> bool:
    """Whether the window moves pixel by pixel, and the output has the sizes of the input: row for row, then,
    it may be written over what is read."""
    # A multiplier of channels would make rows grow, and steps would leave them behind.
    x, y = b.shape(b.input(0)), b.shape(b.output())
    members = window(b, size).members
    return x == y and members["stride_y"] == members["stride_x"] == 1


def rows_above(b: LayerBuilder, size: tuple[int, int]) -> int:
    """Rows of the input, the middle one included, that a window reaches up to."""
    # "SAME" pads as many rows above as the window reaches up.
    above = window(b, size).members["pad_top"]
    assert isinstance(above, int)
    return above + 1


def _ends(operator: Operator) -> tuple[Tensor, Tensor]:
    x = operator.inputs[0]
    assert x is not None
    return x, operator.outputs[0]


def before(size: int, out: int, window: int, step: int, dilation: int) -> int:
    """Rows or columns that "SAME" adds in front; the odd one goes behind."""
    return max((out - 1) * step + (window - 1) * dilation + 1 - size, 0) // 2
