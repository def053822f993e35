"""Sums and products of two tensors of eight-bit codes, element by element."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from thinflow.analysis.grids import grid
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT, INT8, QINT8
from thinflow.lower.code_sums import Addend, steps_of
from thinflow.lower.tflite.coding import landed, quantization
from thinflow.lower.tflite.formulas import Float
from thinflow.lower.tflite.program import Tensor
from thinflow.lower.tflite.sums import Landing, Products, Sums
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.lower.tflite.builder import Builder


_LIMIT = 0.9
"""Codes that a result may move by: rounding adds up to half a code, so it stays within one."""
_STRAIGHT = 0.3
"""Codes that a result may move by because of what float computes of one operand."""
_UNSEEN = 0.05
"""Codes that a result may move by unheeded."""
_COARSEST = 256.0
"""Steps of a result that a step of an operand may be: LiteRT's kernels are exact up to there."""


@dataclass(frozen=True, eq=False)
class Pairs(Sums):
    """Sums or products of two tensors, element by element.

    Attributes:
        code: ADD or MUL.
        other: the second tensor.
        addends: what TensorFlow's kernel adds for the codes of both; none for products.
        folded: the sums as those of the operator in front of it; None where that is not possible.
    """

    code: str = "ADD"
    other: Tensor = None  # type: ignore[assignment]
    addends: tuple[Addend, ...] = ()
    folded: Products | None = None

    def rounded(self, b: Builder, to: Landing) -> Tensor:
        """The result by one operator on codes, or in float where that is more than a code off.

        Raises:
            UnsupportedOp: both are.
        """
        folded = self._in_front(b, to)
        if folded is not None:
            return folded
        if self.code == "MUL":
            return self._joined(b, self.tensor, self.other, to)
        if self.tensor.is_constant:
            return replace(self, tensor=self.other, other=self.tensor, addends=self.addends[::-1])._added(
                b, to
            )
        return self._added(b, to)

    def _in_front(self, b: Builder, to: Landing) -> Tensor | None:
        """The result by the operator in front; None if there is none, or it is too coarse for that."""
        if self.folded is None or not self.folded.reaches(to.grid, self.activation):
            return None
        try:
            return replace(self.folded, activation=self.activation).rounded(b, to)
        except UnsupportedOp:
            return None

    def _joined(self, b: Builder, x: Tensor, other: Tensor, to: Landing) -> Tensor:
        y = landed(b, to.grid)
        b.append(self.code, [x, other], [y], {"fused_activation_function": self.activation})
        return y

    def _added(self, b: Builder, to: Landing) -> Tensor:
        x, other, step = self.tensor, self.other, to.grid.scale
        off, moved = self._off(to), self._moved(b, to)
        if max(a.grid.scale for a in self.addends) > _COARSEST * step:
            off, moved = np.inf, None
        if moved is not None and off > _UNSEEN * step and moved[1] < min(off, _LIMIT * step):
            return self._joined(b, x, moved[0], to)
        if off <= _LIMIT * step:
            return self._joined(b, x, other, to)
        return self._in_float(b, to)

    def _off(self, to: Landing) -> float:
        """How far sums of what the codes stand for may be beside those of TensorFlow's kernel, in reals."""
        first, second = (a.excess if codes is None else a.excess[codes] for a, codes in self._used())
        offset = to.offset * to.grid.scale
        return float(max(first.max() + second.max() + offset, -first.min() - second.min() - offset))

    def _used(self) -> list[tuple[Addend, Array | None]]:
        """The operands with the codes that occur, counted from the lowest; None for all."""
        tensors = self.tensor, self.other
        codes = (
            np.unique(np.asarray(t.array()).astype(np.int16)) + 128 if t.is_constant else None
            for t in tensors
        )
        return list(zip(self.addends, codes, strict=True))

    def _moved(self, b: Builder, to: Landing) -> tuple[Tensor, float] | None:
        """A constant that holds all that the kernel adds, and how far sums are off then; None without one."""
        if not self.other.is_constant or not np.asarray(self.other.array()).size:
            return None
        excess = self.addends[0].excess
        middle = float(excess.max() + excess.min()) / 2
        reals = self._constant(to) + middle
        own = grid(float(min(reals.min(), 0)), float(max(reals.max(), 0)), QINT8)
        if own is None:
            return None
        codes = np.clip(np.rint(reals / own.scale) + own.zero_point, -128, 127).astype(np.int8)
        y = b.const(codes, "codes", INT8)
        y.quantization = quantization(own)
        rest = (codes.astype(np.float64) - own.zero_point) * own.scale - reals
        return y, float(np.abs(rest).max() + (excess.max() - excess.min()) / 2)

    def _constant(self, to: Landing) -> Array:
        """What TensorFlow's kernels add for the constant, and to be on the op's own grid, float64."""
        codes = np.asarray(self.other.array()).astype(np.int16) + 128
        reals: Array = self.addends[1].reals[codes] + to.offset * to.grid.scale
        return reals

    # --- in float -------------------------------------------------------------------------------------------

    def _in_float(self, b: Builder, to: Landing) -> Tensor:
        x = self._real(b, self.tensor, self.addends[0], to)
        if self.other.is_constant:
            other = b.const(self._constant(to).astype(np.float32), "addend", FLOAT)
        else:
            other = (self._real(b, self.other, self.addends[1], to) + to.offset * to.grid.scale).tensor
        total = b.step("ADD", x.tensor, other, shape=self.shape)
        if self.activation != "NONE":
            total = b.step(self.activation, total, shape=self.shape)
        y = landed(b, to.grid)
        b.append("QUANTIZE", [total], [y], {})
        return y

    def _real(self, b: Builder, x: Tensor, addend: Addend, to: Landing) -> Float:
        """What TensorFlow's kernel adds for codes: a line over what they stand for, or in its steps."""
        real = Float(b, b.step("DEQUANTIZE", x, shape=x.shape, element=FLOAT))
        slope, intercept, rest = addend.line()
        if rest > _STRAIGHT * to.grid.scale:
            return _in_steps(real, addend)
        if abs(slope - 1) * 255 * addend.grid.scale > _UNSEEN * to.grid.scale:
            real = real * slope
        return real + intercept if abs(intercept) > _UNSEEN * to.grid.scale else real


def _in_steps(real: Float, addend: Addend) -> Float:
    """The same rounded to steps of the 32-bit grid, in the operations and the precision of the kernel.

    Raises:
        UnsupportedOp: it has others.
    """
    steps = steps_of(addend)
    if steps is None:
        raise UnsupportedOp(
            "its result is so much finer than its operands that TensorFlow's roundings would show",
            hint="give the result a wider range",
        )
    codes = (real * (1 / addend.grid.scale) + float(addend.grid.zero_point)).rounded()
    return ((codes * steps.width + steps.base) * steps.per).rounded() * addend.step + steps.more
