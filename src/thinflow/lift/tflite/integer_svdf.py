"""LiteRT's SVDF of eight bits: the factors between its scales, as its kernel works them out."""

from __future__ import annotations

import numpy as np

from thinflow.analysis.foreign_quant_params import TensorParams, params_of
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT8, INT32, dtype
from thinflow.lift.grids import Grid, operand_codes, result_codes
from thinflow.lift.lifter import Call
from thinflow.ops._fixed_point import quantized_multiplier

_X, _FEATURES, _TIMES, _BIAS, _STATE = range(5)
_KINDS = {_X: INT8, _FEATURES: INT8, _TIMES: dtype("int16"), _BIAS: INT32, _STATE: dtype("int16")}


def integer_svdf(c: Call) -> Value:
    """A quantized SVDF; x [batch,inputs], features [filters,inputs], times [filters,memory].

    Raises:
        UnsupportedOp: it is not of the types that LiteRT's kernel takes, or has another activation.
    """
    if any(c.has(n) and c[n].dtype is not kind for n, kind in _KINDS.items()):
        raise UnsupportedOp("its operands are not of the types that its kernel of eight bits takes")
    # LiteRT's kernel refuses every other one.
    if c.get("fused_activation_function", "NONE") != "RELU":
        raise UnsupportedOp("its kernel of eight bits has no activation but the rectifier")
    filters, rank = c.sizes(_TIMES)[0], c.get("rank", 1)
    if rank < 1 or filters % rank:
        raise UnsupportedOp(f"its {filters} filters are not of rank {rank}")
    x, features, times, state = (_params(c.sources[n], n) for n in (_X, _FEATURES, _TIMES, _STATE))
    y = _params(c.node.output(), -1)
    # In float32 one after the other, as in the kernel, and only then in double.
    first = np.float32(x.scale[0]) * np.float32(features.scale[0]) / np.float32(state.scale[0])
    second = np.float32(state.scale[0]) * np.float32(times.scale[0]) / np.float32(y.scale[0])
    numbers = [n for f in (first, second) for n in quantized_multiplier(float(f))]
    bias = c[_BIAS] if c.has(_BIAS) else c.constant(np.zeros(filters // rank, np.int32))
    node = c.many(
        "LiteRTIntegerSVDF",
        *(
            operand_codes(c, c[_X], Grid(x.scale[0], _zero(x), INT8)),
            c[_FEATURES],
            c[_TIMES],
            bias,
            c.state(_STATE),
        ),
        rank=rank,
        factors=tuple(numbers),
        zeros=(_zero(x), _zero(y)),
        scales=tuple(p.scale[0] for p in (x, features, times, state, y)),
        T=None,
    )
    c.leave(_STATE, node.output(1))
    (made,) = c.lifter.after_effects([node.output(0)])
    return result_codes(c, made, Grid(y.scale[0], _zero(y), INT8))


def _params(source: Value | None, place: int) -> TensorParams:
    params = None if source is None else params_of(source)
    if params is None or params.is_per_channel:
        what = "its result" if place < 0 else f"its operand {place}"
        raise UnsupportedOp(f"{what} has not one scale")
    return params


def _zero(params: TensorParams) -> int:
    return params.zero_point[0] if params.zero_point else 0
