"""Layers of codes with constant weights: one kernel that adds a bias, clamps and rounds to eight bits.

ONNX Runtime's quickest kernels for shallow sums, those of depthwise layers above all, want weights whose code
of 0 is 0. Weights less their code of 0 are such. Where some do not fit into int8, channels of the input are
given twice, and their weights divided among both; or else the channels of the result that they belong to get
scales of their own, if that moves no result by a code (see `channel_codes`).

A bias that follows is added before the sums are rounded, once instead of twice: an op may be a code off, and
leaving out its rounding moves results by half of that. What would have saturated between the two ops has to
saturate still. Where the kernel's own saturation is not enough for that, the results are limited per channel.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from thinflow.ir.types import INT8, INT32, UINT8
from thinflow.lower.channel_codes import INT8_MOST, channel_codes, is_close
from thinflow.lower.onnx.builder import Builder, shape_of
from thinflow.lower.onnx.eight_bit import Coded, Target
from thinflow.lower.onnx.integers import Conv
from thinflow.lower.onnx.merged_columns import merged
from thinflow.onnx.program import Operator, Tensor
from thinflow.typing import Array

_MOST = 2**30
"""A bias beyond might overflow the sum that it is added to."""
SHALLOW = 192
"""Products per sum up to which leaving out a pass over 32-bit sums is worth more than the fastest product."""
_HALF = 0.5
_INT8_LEAST = -128
_FOUR = 4
"""Channels that kernels read at once."""
_FEWER = 16
"""Times as many channels as fours of them that are given twice, so that this costs less than it saves."""


@dataclass(frozen=True)
class _Filter:
    """Weights as a kernel takes them: (codes - zero) * scales.

    Attributes:
        codes: int8 [kh,kw,c,m].
        zero: the code of 0.
        scales: the real, in units of `Products.unit`, that a code of 1 stands for; float64 [k] or [1].
        shift: what to add to the sums, in units of their own; float64 [k] or [1].
        copies: where the fours of channels begin that x has to hold once more, behind the others.
    """

    codes: Array
    zero: int
    scales: Array = field(default_factory=lambda: np.ones(1))
    shift: Array = field(default_factory=lambda: np.zeros(1))
    copies: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Products:
    """What a convolution of codes with constant weights adds up, real by real.

    Attributes:
        conv: the geometry, and the codes.
        x: what the codes stand for; its scale and its code of 0 are constants.
        weights: float64 [kh,kw,c,m].
        unit: the real that a weight of 1 stands for; 1 if they are reals.
        zero: what to add to `weights` to have int8 codes; None if they are reals.
        bias: real [k] or [].
        step: of the coarsest grid on the way to which sums are not rounded, in reals.
        reach: the reals [k] or [] within which sums saturate on none of these grids.
    """

    conv: Conv
    x: Coded
    weights: Array
    unit: float
    zero: int | None = None
    bias: Any = 0.0
    step: float = 0.0
    reach: tuple[Any, Any] = (-np.inf, np.inf)

    def narrow(self, b: Builder, to: Target) -> Tensor | None:
        """The sums as uint8 codes; None if that may be over a code off, or is not worth it."""
        limits = self._limits(to)
        filters = self._filter(to)
        if limits is None or filters is None or (limits and not b.limits_bytes):
            return None
        bias = self._whole_bias(filters, to)
        if np.abs(bias).max(initial=0) >= _MOST:
            return None
        y = self._emit(b, filters, bias, to)
        for code, ends in limits.items():
            y = self._limited(b, y, code, ends)
        return y

    def rounded(self, to: Target) -> Products:
        """These sums after they have become codes of a grid: nothing but what is beyond it has changed."""
        scale, zero = _numbers(to)
        shift = to.shift
        least, most = ((code - zero) * scale for code in (0, 255))
        assert self.reach == (-np.inf, np.inf), "behind one grid there is no second one"
        return replace(
            self, bias=np.asarray(self.bias) + shift, step=max(self.step, scale), reach=(least, most)
        )

    def plus(self, bias: Array) -> Products:
        """The sums and reals, [k] or []."""
        least, most = self.reach
        return replace(self, bias=np.asarray(self.bias) + bias, reach=(least + bias, most + bias))

    @property
    def is_depthwise(self) -> bool:
        return "group" in self.conv.options

    @property
    def columns(self) -> Array:
        """The weights of each result, float64 [taps,k]."""
        kh, kw, depth, _ = self.weights.shape
        return self.weights.reshape(kh * kw if self.is_depthwise else kh * kw * depth, -1)

    def _limits(self, to: Target) -> dict[str, Array] | None:
        """Op -> the codes uint8 [k] or [] that results must keep to; None if both ends need an op."""
        scale, zero = _numbers(to)
        bottom = 0.0 if to.clamped else -zero * scale
        top = min((255 - zero) * scale, to.top)
        least, most = (np.asarray(end, np.float64) for end in self.reach)
        found = {}
        if (least > bottom + _HALF * scale).any():
            found["Max"] = least
        if (most < top - _HALF * scale).any():
            found["Min"] = most
        if len(found) > 1:
            return None
        return {
            code: np.clip(np.rint((end + to.shift) / scale + zero), 0, 255).astype(np.uint8)
            for code, end in found.items()
        }

    def _limited(self, b: Builder, y: Tensor, code: str, ends: Array) -> Tensor:
        """y or its ends, whichever is more (less). They are told for a row: pixel by pixel is slower."""
        rows = np.broadcast_to(ends, tuple(n or 0 for n in self.conv.shape[2:]))[None, None]
        result = b.own("limited", y.shape, UINT8)
        inputs: list[Tensor | None] = [y, b.const(np.ascontiguousarray(rows), "ends", UINT8)]
        b.operators.append(Operator(code, inputs, [result], {}, origin=b.node.name))
        return result

    def _filter(self, to: Target) -> _Filter | None:
        columns = self.columns
        if self.zero is not None and len(columns) > SHALLOW:
            return self._as_stored()
        found = None if self.zero is None else self._divided()
        found = self._around_zero(columns, to) if found is None else found
        return self._as_stored() if found is None and self.zero is not None else found

    def _as_stored(self) -> _Filter:
        codes = (self.weights + self.zero).astype(np.int8)
        return _Filter(codes, self.zero or 0)

    def _divided(self) -> _Filter | None:
        """Weights around 0 that fit, of a few channels more; None if they are too many, or x has odd ones."""
        depth = self.weights.shape[2]
        is_wide = (self.weights < _INT8_LEAST) | (self.weights > INT8_MOST)
        starts = sorted({int(c) // _FOUR * _FOUR for c in np.nonzero(is_wide)[2]})
        if self.is_depthwise or depth % _FOUR or len(starts) * _FEWER > depth:
            return None
        first = np.clip(self.weights, _INT8_LEAST, INT8_MOST)
        rest = [(self.weights - first)[:, :, c : c + _FOUR] for c in starts]
        return _Filter(np.concatenate([first, *rest], axis=2).astype(np.int8), 0, copies=tuple(starts))

    def _around_zero(self, columns: Array, to: Target) -> _Filter | None:
        """Weights whose code of 0 is 0; None if rounding them may move a result by a code."""
        _, zero = _numbers(replace(to, scale=self.x.scale, zero=self.x.zero))
        step = _numbers(to)[0] / (float(self.x.scale.array()) * self.unit)
        reach = max(step, self.step / (float(self.x.scale.array()) * self.unit))
        wide = np.ones(columns.shape[1], bool)
        if self.zero is not None:
            wide = np.abs(columns).max(axis=0, initial=0) > INT8_MOST
        codes, scales, shift = columns.copy(), np.ones(len(wide)), np.zeros(len(wide))
        if wide.any():
            coded = channel_codes(columns[:, wide], zero, step)
            if not is_close(coded, reach):
                return None
            codes[:, wide], scales[wide], shift[wide] = coded.weights, coded.scales, coded.shift
        else:
            scales, shift = scales[:1], shift[:1]
        return _Filter(codes.reshape(self.weights.shape).astype(np.int8), 0, scales, shift)

    def _whole_bias(self, filters: _Filter, to: Target) -> Array:
        """What to add to the sums, in units of theirs: float64 [k]."""
        unit = float(self.x.scale.array()) * self.unit
        bias = ((np.asarray(self.bias) + to.shift) / unit + filters.shift) / filters.scales
        return np.rint(np.broadcast_to(bias, self.columns.shape[1:]))

    def _emit(self, b: Builder, filters: _Filter, bias: Array, to: Target) -> Tensor:
        scales = (filters.scales * self.unit).astype(np.float32)
        conv, codes, times = replace(self.conv, x=self._with_copies(b, filters.copies)), filters.codes, 1
        found = None if filters.zero else merged(b, conv, codes)
        if found is not None:
            conv, codes, times = found
        scales = np.tile(scales, times) if scales.size > 1 else scales.reshape(())
        rest = (
            b.const(scales, "scale"),
            b.const(np.full(scales.shape, filters.zero, np.int8), "zero", INT8),
            *(to.scale, to.zero),
            *([b.const(np.tile(bias, times).astype(np.int32), "bias", INT32)] if bias.any() else []),
        )
        code = "com.microsoft.QLinearConv" if b.extended else "QLinearConv"
        weights = b.const(codes, "weights", INT8)
        y = conv.emit(b, code, weights, *rest, of_x=(self.x.scale, self.x.zero), element=UINT8)
        return y if found is None else b.reshaped(y, self.conv.shape)

    def _with_copies(self, b: Builder, starts: tuple[int, ...]) -> Tensor:
        """The codes [n,h,w,c], some channels once more."""
        x = self.conv.x
        if not starts:
            return x
        n, height, width, depth = shape_of(x)
        size = (n, height, width, _FOUR)
        parts = [b.sliced(x, [start], [start + _FOUR], [3], shape=size) for start in starts]
        shape = (n, height, width, (depth or 0) + len(starts) * _FOUR)
        return b.step("Concat", x, *parts, shape=shape, axis=3)


def products_of(conv: Conv, x: Coded, w: Coded) -> Products | None:
    """A convolution of codes with codes; None if a scale or a code of 0 is not known, or sizes are not."""
    constant = (x.scale, x.zero, w.codes, w.scale, w.zero)
    if not all(t.is_constant for t in constant) or w.codes.dtype is not INT8 or None in conv.shape[1:]:
        return None
    zero = int(w.zero.array())
    weights = w.codes.array().astype(np.float64) - zero
    return Products(conv, x, weights, float(w.scale.array()), zero)


def _numbers(to: Target) -> tuple[float, int]:
    """The width of a code, and the code of 0."""
    return float(to.scale.array()), int(to.zero.array())
