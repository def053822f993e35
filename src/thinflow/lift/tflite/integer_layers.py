"""LiteRT's eight-bit layers code by code, for the interpreter.

    y = clip(round((sum of (x - zero_x) (w - zero_w) + bias) * (scale_x scale_w / scale_y)) + zero_y)

Sums of whole numbers are exact, and one factor in float32 scales them: that is what XNNPACK computes, with
which LiteRT runs these layers by default. Its reference kernels scale by integers, and may come out one code
away.
"""

from __future__ import annotations

import numpy as np

from thinflow.analysis.foreign_quant_params import TensorParams, params_of
from thinflow.ir.graph import Value
from thinflow.ir.types import DOUBLE, FLOAT, INT32, DType, dtype
from thinflow.lift.grids import Grid
from thinflow.lift.lifter import Call
from thinflow.lift.rules import Rule
from thinflow.typing import Array

_CODES = (dtype("int8"), dtype("uint8"))
_CHANNELS = {"tfl.CONV_2D": 0, "tfl.DEPTHWISE_CONV_2D": 3, "tfl.FULLY_CONNECTED": 0}
"""Op -> the axis of its weights that counts the channels of the result."""
_BOUNDS = {"NONE": (None, None), "RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
"""Activation -> what it keeps the result between."""
_EXACT = 1 << 24
"""Up to here float32 holds every whole number."""
_ACTIVATION = "fused_activation_function"


def integer_layer(c: Call, rule: Rule) -> Value | None:
    """The codes that an eight-bit layer gives; None if it is none, or not of the usual form."""
    if c.node.op not in _CHANNELS or c.lifter.keeps_grids or c.xs[0] is None:
        return None
    x, w, y = (_known(v) for v in (c.sources[0], c.sources[1], c.node.output()))
    bounds = _BOUNDS.get(str(c.get(_ACTIVATION, "NONE")))
    weights = _constant(c.sources[1])
    if x is None or w is None or y is None or bounds is None or weights is None:
        return None
    if x.is_per_channel or y.is_per_channel or (w.is_per_channel and w.axis != _CHANNELS[c.node.op]):
        return None
    bias = _bias(c)
    if bias is None and len(c.sources) > 2 and c.sources[2] is not None:
        return None
    zeros = np.array(w.zero_point or (0,), np.float64)
    whole = weights.astype(np.float64) - (zeros[0] if len(set(zeros.tolist())) == 1 else np.nan)
    if np.isnan(whole).any():
        return None
    kind = _sum_type(c, whole, bias, x)
    c.xs[0] = _less(c, c.xs[0], _zero(x), kind)
    c.xs[1] = c.constant(whole.astype(kind.numpy()))
    if bias is not None:
        c.xs[2] = c.constant(bias.astype(kind.numpy()))
    # The activation is a bound on codes.
    c.given[_ACTIVATION] = "NONE"
    result = rule(c)
    assert isinstance(result, Value)
    target = c.node.output().dtype
    assert target is not None
    return _scaled(c, result, x, w, y, Grid(y.scale[0], _zero(y), target), bounds)


def _known(value: Value | None) -> TensorParams | None:
    """The parameters of a value of eight bits."""
    return params_of(value) if value is not None and value.dtype in _CODES else None


def _constant(value: Value | None) -> Array | None:
    tensor = None if value is None else value.node.tensor
    return None if tensor is None else tensor.numpy()


def _bias(c: Call) -> Array | None:
    source = c.sources[2] if len(c.sources) > 2 else None
    return _constant(source) if source is not None and source.dtype is INT32 else None


def _zero(params: TensorParams) -> int:
    return params.zero_point[0] if params.zero_point else 0


def _sum_type(c: Call, weights: Array, bias: Array | None, x: TensorParams) -> DType:
    """The type in which all sums are exact."""
    axis = _CHANNELS[c.node.op]
    others = tuple(n for n in range(weights.ndim) if n != axis)
    source = c.sources[0]
    assert source is not None
    assert source.dtype is not None
    least, greatest = Grid(1.0, 0, source.dtype).limits
    most = max(greatest - _zero(x), _zero(x) - least)
    largest = float(np.abs(weights).sum(axis=others).max(initial=0)) * most
    largest += float(np.abs(bias.astype(np.float64)).max(initial=0)) if bias is not None else 0
    return FLOAT if largest < _EXACT else DOUBLE


def _less(c: Call, x: Value, zero: int, kind: DType) -> Value:
    wide = c.emit("Cast", x, SrcT=x.dtype, DstT=kind)
    return c.emit("Sub", wide, c.constant(float(zero), wide)) if zero else wide


def _scaled(
    c: Call,
    total: Value,
    x: TensorParams,
    w: TensorParams,
    y: TensorParams,
    grid: Grid,
    bounds: tuple[float | None, float | None],
) -> Value:
    """Sums as codes of the result."""
    if total.dtype is not FLOAT:
        total = c.emit("Cast", total, SrcT=total.dtype, DstT=FLOAT)
    # In float32 one after the other, as XNNPACK's delegate does it.
    factor = np.float32(x.scale[0]) * np.array(w.scale, np.float32) / np.float32(y.scale[0])
    scaled = c.emit("Mul", total, c.constant(factor if len(factor) > 1 else factor.reshape(())))
    low, high = grid.limits
    least, most = (None if b is None else round(b / grid.scale) + grid.zero_point for b in bounds)
    low, high = max(low, least if least is not None else low), min(high, most if most is not None else high)
    codes = c.emit("AddV2", c.emit("Round", scaled), c.constant(float(grid.zero_point), scaled))
    bounded = c.emit("Maximum", codes, c.constant(float(low), codes))
    bounded = c.emit("Minimum", bounded, c.constant(float(high), codes))
    return c.emit("Cast", bounded, SrcT=FLOAT, DstT=grid.kind)
