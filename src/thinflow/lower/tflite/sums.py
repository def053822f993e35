"""What stands for 32-bit codes.

LiteRT has no tensors of 32-bit codes: its kernels round sums to eight bits as they make them. So nothing is
emitted for the op that adds up, but for the one that rounds, which knows the grid that is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from thinflow.analysis.grids import Grid
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32, QINT32
from thinflow.lower.building import Dims
from thinflow.lower.channel_codes import INT8_MOST, ChannelCodes, channel_codes, is_close
from thinflow.lower.tflite.coding import landed, not_fixed, own_codes
from thinflow.lower.tflite.measured import Measured, Reals
from thinflow.lower.tflite.program import Quantization, Tensor
from thinflow.lower.tflite.symmetric import Split, split
from thinflow.ops._quantized import codes_of

if TYPE_CHECKING:
    from thinflow.lower.tflite.builder import Builder

_SLACK = 0.9
"""Codes that a result may move by because weights do not fit into int8."""
_FEW_CHANNELS = 0.05
"""Share of the channels whose weights may be rounded once more, which is not proven to move nothing."""
_BLUR = 0.6
"""Codes that a result may move by because roundings on the way are left out."""


@dataclass(frozen=True)
class Landing:
    """Where sums are rounded to.

    Attributes:
        grid: of the result.
        offset: steps by which the op's own grid lies beside that one, -0.5 to 0.5: Requantize counts from the
            lower end of the range, its readers from 0.
    """

    grid: Grid
    offset: float = 0.0


@dataclass(frozen=True, eq=False)
class Sums:
    """32-bit codes. Activations clamp them.

    Attributes:
        tensor: something they are computed from.
        shape: theirs.
        activation: NONE, RELU or RELU6.
    """

    tensor: Tensor
    shape: Dims
    activation: str = "NONE"

    # What the walk over the graph asks of tensors.
    is_constant = False
    dtype = QINT32
    element = QINT32

    def stored(self, b: Builder, value: Value) -> NoReturn:
        """Refuse to hand the codes out.

        Raises:
            UnsupportedOp: always.
        """
        for node in value.readers:
            if node.op == "RequantizationRange" or (
                node.op == "Requantize" and b.coding.grid(node.output()) is None
            ):
                raise not_fixed(node.output())
        raise UnsupportedOp(
            "its 32-bit codes are wanted as such, and LiteRT's kernels round them to eight bits at once",
            hint="ask for the result of the Requantize behind it",
        )

    def rounded(self, b: Builder, to: Landing) -> Tensor:
        """The current node's result: the sums as codes on another grid."""
        raise NotImplementedError

    def activated(self, b: Builder, code: str) -> Sums:
        """Clamped from below, and with RELU6 from above."""
        return replace(self, activation=max(self.activation, code))


@dataclass(frozen=True, eq=False)
class Products(Sums):
    """What a convolution or a product with constant weights adds up.

    Attributes:
        zero: the code of 0 of the input, counted from its lowest code.
        weights: int16 [taps,c,m] around 0.
        scale: the real that a sum of 1 stands for.
        bias: real [m], or 0 for all.
        reach: between which reals sums are that saturate on no grid on the way, whatever the channel.
        blur: how far TensorFlow's sums may lie beside these, in reals: they are rounded on the way.
        finish: emits the operator, given input, weights int8 [taps,c',m], their scales [1] or [m] in
            `weights`, bias int32 [m] and the result.
    """

    zero: int = 0
    weights: np.ndarray = None  # type: ignore[assignment]
    scale: float = 1.0
    bias: Any = 0.0
    reach: tuple[float, float] = (-np.inf, np.inf)
    blur: float = 0.0
    finish: Callable[[Builder, Tensor, np.ndarray, np.ndarray, Tensor, Tensor, str], None] = None  # type: ignore[assignment]

    def rounded(self, b: Builder, to: Landing) -> Tensor:
        step = to.grid.scale / self.scale  # sums per code
        left = step - self.blur / self.scale
        parts = split(self.weights, self.zero, _SLACK * left)
        weights, scales, shift = parts.weights, np.ones(1, np.float32), parts.shift.astype(np.float64)
        x = self.tensor
        coded = self._in_channels(left) if parts.copies else None
        if coded is not None:
            weights, scales, shift = coded.weights.reshape(self.weights.shape), coded.scales, coded.shift
        else:
            x = _with_copies(b, x, parts)
        y = landed(b, to.grid)
        real = np.broadcast_to(np.asarray(self.bias, np.float64), shift.shape)
        units = scales.astype(np.float64)
        bias = np.rint((real / self.scale + to.offset * step + shift) / units)
        if np.abs(bias).max(initial=0) >= 2**31:
            raise UnsupportedOp("its bias does not fit 32 bits in steps of its products")
        addend = b.const(bias.astype(np.int32), "bias", INT32)
        zeros = np.zeros(len(scales), np.int64)
        addend.quantization = Quantization((units * self.scale).astype(np.float32), zeros)
        self.finish(b, x, weights, scales, addend, y, self.activation)
        b.coding.sums[y] = (self, to)
        return y

    def _in_channels(self, step: float) -> ChannelCodes | None:
        """The weights with a scale per channel instead of copies; None if that may be over a code off."""
        wide = self.weights.reshape(-1, self.weights.shape[-1])
        is_wide = np.abs(wide).max(axis=0, initial=0) > INT8_MOST
        if is_wide.mean() > _FEW_CHANNELS:
            return None
        coded = channel_codes(wide.astype(np.float64), self.zero, step)
        return coded if is_close(coded, step) else None

    def plus(self, bias: np.ndarray, to: Landing, blur: float = 0.0) -> Products | None:
        """The sums and a real bias [m], without the rounding to a grid in between; None behind a clamp.

        Args:
            bias: real.
            to: where the sums would be rounded.
            blur: how far the results of the op that adds are beside these sums, in reals.
        """
        if self.activation != "NONE":
            return None
        shifted = bias + to.offset * to.grid.scale
        least, most = ends(to.grid)
        return replace(
            self,
            bias=np.asarray(self.bias) + shifted,
            reach=(least + float(shifted.max()), most + float(shifted.min())),
            blur=self.blur + blur + to.grid.scale / 2,
        )

    def reaches(self, grid: Grid, activation: str) -> bool:
        """Whether codes of the grid are TensorFlow's, give or take one.

        It rounds to a grid on the way that is not much coarser, and what saturates there does so here, too.
        """
        if self.blur > _BLUR * grid.scale:
            return False
        least, most = clamped(grid, activation)
        slack = 0.5 * grid.scale
        return self.reach[0] <= least + slack and self.reach[1] >= most - slack


def ends(grid: Grid) -> tuple[float, float]:
    """The reals of the lowest and the highest code."""
    codes = codes_of(grid.dtype.numpy())
    return (codes.low - grid.zero_point) * grid.scale, (codes.high - grid.zero_point) * grid.scale


def clamped(grid: Grid, activation: str) -> tuple[float, float]:
    """The least and the greatest real that a result can be."""
    least, most = ends(grid)
    return (least if activation == "NONE" else 0.0), (min(most, 6.0) if activation == "RELU6" else most)


def _with_copies(b: Builder, x: Tensor, parts: Split) -> Tensor:
    """x with some of its channels once more."""
    if not parts.copies:
        return x
    shape = x.shape or ()
    rank, depth = len(shape), shape[-1]
    pieces = [x]
    for start, count in parts.copies:
        if (start, count) == (0, depth):
            pieces.append(x)
            continue
        piece = own_codes(b, "channels", (*shape[:-1], count), x)
        first, size = (*(0,) * (rank - 1), start), (*(-1,) * (rank - 1), count)
        b.append("SLICE", [x, b.ints(first, "begin"), b.ints(size, "size")], [piece], {})
        pieces.append(piece)
    depth_now = parts.weights.shape[1]
    joined = own_codes(b, "channels", (*shape[:-1], depth_now), x)
    b.append("CONCATENATION", pieces, [joined], {"axis": rank - 1})
    return joined


Slot: TypeAlias = Tensor | Sums | Reals | Measured
"""What stands for codes."""


__all__ = ["Landing", "Products", "Slot", "Sums", "clamped", "ends"]
