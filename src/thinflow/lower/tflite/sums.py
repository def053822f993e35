"""What stands for 32-bit codes, and for codes whose grid is found while the model runs.

LiteRT has no tensors of 32-bit codes: its kernels round sums to eight bits as they make them. So nothing is
emitted for the op that adds up, but for the one that rounds, which knows the grid that is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from thinflow.analysis.grids import Grid, grid
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT8, INT32, QINT8, QINT32, QUINT8, DType
from thinflow.lower.building import Dims
from thinflow.lower.channel_codes import INT8_MOST, ChannelCodes, channel_codes, is_close
from thinflow.lower.tflite.coding import landed, not_fixed, own_codes, quantization
from thinflow.lower.tflite.program import Quantization, Tensor
from thinflow.lower.tflite.symmetric import Split, split
from thinflow.ops._quantized import codes_of

if TYPE_CHECKING:
    from thinflow.lower.tflite.builder import Builder

_SLACK = 0.9
"""Codes that a result may move by because weights do not fit into int8."""
_UNSEEN = 0.05
"""Codes that a result may move by unheeded."""
_FEW_CHANNELS = 0.05
"""Share of the channels whose weights may be rounded once more, which is not proven to move nothing."""
_LIMIT = 0.95
"""Codes that a result may move by in all: rounding adds up to half a code, so it stays within one."""


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
        step: of the finest grid that the op rounds to on the way, in reals; 0 if there is none.
        reach: between which reals sums are that saturate on no grid on the way, whatever the channel.
        finish: emits the operator, given input, weights int8 [taps,c',m], their scales [1] or [m] in
            `weights`, bias int32 [m] and the result.
    """

    zero: int = 0
    weights: np.ndarray = None  # type: ignore[assignment]
    scale: float = 1.0
    bias: Any = 0.0
    step: float = 0.0
    reach: tuple[float, float] = (-np.inf, np.inf)
    finish: Callable[[Builder, Tensor, np.ndarray, np.ndarray, Tensor, Tensor, str], None] = None  # type: ignore[assignment]

    def rounded(self, b: Builder, to: Landing) -> Tensor:
        step = to.grid.scale / self.scale  # sums per code
        reach = max(to.grid.scale, self.step) / self.scale
        parts = split(self.weights, self.zero, _SLACK * reach)
        weights, scales, shift = parts.weights, np.ones(1, np.float32), parts.shift.astype(np.float64)
        x = self.tensor
        coded = self._in_channels(step) if parts.copies else None
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

    def plus(self, bias: np.ndarray, to: Landing) -> Products | None:
        """The sums and a real bias [m], without the rounding to a grid in between; None behind a clamp.

        Rounding moves values by up to half a step of that grid, an op that is within one code of TensorFlow's
        by up to a step: the result is no further off than if both were done one by one.
        """
        if self.activation != "NONE":
            return None
        shifted = bias + to.offset * to.grid.scale
        least, most = ends(to.grid)
        return replace(
            self,
            bias=np.asarray(self.bias) + shifted,
            step=max(self.step, to.grid.scale),
            reach=(least + float(shifted.max()), most + float(shifted.min())),
        )

    def reaches(self, grid: Grid, activation: str) -> bool:
        """Whether what would have saturated on the way saturates on the grid, too."""
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


@dataclass(frozen=True, eq=False)
class Pairs(Sums):
    """Sums or products of two tensors, element by element.

    Attributes:
        code: ADD or MUL.
        other: the second tensor.
        shift: a real that the op adds to each sum on its own account.
        folded: the sums as those of the operator in front of it; None where that is not possible.
    """

    code: str = "ADD"
    other: Tensor = None  # type: ignore[assignment]
    shift: float = 0.0
    folded: Products | None = None

    def rounded(self, b: Builder, to: Landing) -> Tensor:
        if self.folded is not None and self.folded.reaches(to.grid, self.activation):
            return replace(self.folded, activation=self.activation).rounded(b, to)
        x, other = self.tensor, self.other
        if self.code == "ADD":
            if not other.is_constant:
                x, other = other, x
            other = _shifted(b, other, self.shift, to)
        scales = [float(t.quantization.scale[0]) for t in (x, other) if t.quantization]
        if self.code == "ADD" and 2 * max(scales) >= to.grid.scale * 2**20:
            raise UnsupportedOp("its result is too fine for LiteRT's ADD of codes")
        y = landed(b, to.grid)
        b.append(self.code, [x, other], [y], {"fused_activation_function": self.activation})
        return y


def _shifted(b: Builder, x: Tensor, by: float, to: Landing) -> Tensor:
    """An addend, and with it all sums, moved to where the op's own sums are on its own grid.

    Raises:
        UnsupportedOp: it is no constant, and the result would be more than a code off.
    """
    offset = to.offset * to.grid.scale
    if not x.is_constant or x.quantization is None:
        if abs(by + offset) < _LIMIT * to.grid.scale:
            return x
        raise UnsupportedOp(
            f"TensorFlow's kernel adds {by:.3g} to sums in these ranges, and LiteRT's does not",
            hint="widen one of the ranges a little",
        )
    by += offset
    if abs(by) < _UNSEEN * to.grid.scale:
        return x
    zero, scale = int(x.quantization.zero_point[0]), float(x.quantization.scale[0])
    reals = (np.asarray(x.array()).astype(np.float64) - zero) * scale + by
    moved = grid(float(min(reals.min(initial=0), 0)), float(max(reals.max(initial=0), 0)), QINT8)
    if moved is None:
        return x
    codes = np.clip(np.rint(reals / moved.scale) + moved.zero_point, -128, 127).astype(np.int8)
    y = b.const(codes, "codes", INT8)
    y.quantization = quantization(moved)
    return y


@dataclass(frozen=True, eq=False)
class Reals:
    """Codes whose grid is found while the model runs, by the reals that they stand for.

    Attributes:
        tensor: float; not yet moved to the grid if there is a range.
        range: the ends of the grid's range, float []; None for sums, and where all reals are on the grid.
        dtype: of the codes.
    """

    tensor: Tensor
    range: tuple[Tensor, Tensor] | None = None
    dtype: DType = QUINT8

    is_constant = False
    element = QUINT8

    @property
    def shape(self) -> Dims:
        return self.tensor.shape

    def stored(self, b: Builder, value: Value) -> NoReturn:
        """Refuse to hand the codes out.

        Raises:
            UnsupportedOp: always.
        """
        raise not_fixed(value)

    def on_grid(self, b: Builder) -> Tensor:
        """The reals that the codes stand for, float."""
        return self.tensor if self.range is None else snapped(b, self.tensor, *self.range)


Slot: TypeAlias = Tensor | Sums | Reals
"""What stands for codes."""


def snapped(b: Builder, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Reals rounded to the 256 values of the range that QuantizeV2 makes of low and high."""

    def small(code: str, *inputs: Tensor) -> Tensor:
        return b.step(code, *inputs, shape=())

    def constant(number: float) -> Tensor:
        return b.const(np.float32(number), "const", FLOAT)

    zero, one = constant(0), constant(1)
    low, high = b.reshaped(low, ()), b.reshaped(high, ())
    least = small("MINIMUM", low, zero)
    size = small("MAXIMUM", small("MAXIMUM", small("ABS", low), small("ABS", high)), one)
    margin = small("ADD", least, small("MUL", size, constant(0.01)))
    most = small("MAXIMUM", small("MAXIMUM", high, zero), margin)
    width = small("SUB", most, least)
    step = small("MUL", width, constant(1 / 255))
    first = small("ROUND", small("DIV", least, step))
    last = small("ADD", first, constant(255))
    codes = b.step("ROUND", b.step("MUL", x, small("DIV", one, step), shape=x.shape), shape=x.shape)
    codes = b.step("MINIMUM", b.step("MAXIMUM", codes, first, shape=x.shape), last, shape=x.shape)
    return b.step("MUL", codes, step, shape=x.shape)


__all__ = ["Landing", "Pairs", "Products", "Reals", "Slot", "Sums", "snapped"]
