"""Layers of low rank over the features of the last runs."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.layer import Constant
from thinflow.lower.c.operators.recurrent import activated, kept
from thinflow.lower.c.requantize import folded_bias
from thinflow.ops._fixed_point import quantized_multiplier
from thinflow.tflite.model import Operator
from thinflow.typing import Array

_FEATURES, _TIMES, _BIAS, _STATE = 1, 2, 3, 4


@form("SVDF", types="float")
def svdf_float(b: LayerBuilder, op: Operator) -> None:
    """x [b,inputs], features [filters,inputs], times [filters,memory] -> y [b,filters/rank]."""
    if b.input(_FEATURES).dtype.name != "float":
        raise NotHere
    sizes, features, times = read_svdf(b, op)
    settings = b.struct(
        "",
        **sizes,
        features=b.constant("features", features),
        times=b.constant("times", times),
        bias=svdf_bias(b, sizes, np.float32),
    )
    memory = kept(b, _STATE, "memory", "float", sizes["batches"] * times.size)
    b.call("svdf_float", b.input(0), b.output(), memory, settings, **activated(op, "total"))


@form("SVDF", types="int8")
def svdf_int8(b: LayerBuilder, op: Operator) -> None:
    """As of floats; features are kept in 16 bits."""
    sizes, features, times = read_svdf(b, op)
    if features.dtype != np.int8 or times.dtype != np.int16 or b.input(_STATE).dtype.name != "int16":
        raise UnsupportedOp("its operands are not of the types that its kernel of eight bits takes")
    # LiteRT's kernel refuses every other one, and leaves it to the zero point of the output.
    if op.options.get("fused_activation_function", "NONE") != "RELU":
        raise UnsupportedOp("its kernel of eight bits has no activation but RELU")
    (x_scale, x_zero), (y_scale, y_zero) = b.scale(b.input(0)), b.scale(b.output())
    w_scale, time_scale, state_scale = (b.scale(b.input(n))[0] for n in (_FEATURES, _TIMES, _STATE))
    # In float32 one after the other, and only then in double, as the kernel prepares them.
    first = quantized_multiplier(float(x_scale * w_scale / state_scale))
    second = quantized_multiplier(float(state_scale * time_scale / y_scale))
    # There is no bias before the memory: what the input's zero point adds is all.
    moved = folded_bias(b, len(op.inputs), features, x_zero, 0)
    settings = b.struct(
        "",
        **sizes,
        features=b.constant("features", features),
        times=b.constant("times", times),
        feature_bias=b.constant("feature_bias", moved),
        bias=svdf_bias(b, sizes, np.int32),
        feature_multiplier=first[0],
        feature_shift=first[1],
        multiplier=second[0],
        shift=second[1],
        zero_point=y_zero,
    )
    memory = kept(b, _STATE, "memory", "int16_t", sizes["batches"] * times.size)
    b.call("svdf_int8", b.input(0), b.output(), memory, settings)


def read_svdf(b: LayerBuilder, op: Operator) -> tuple[dict[str, int], Array, Array]:
    """Members that tell sizes, and both weights; the cost is noted."""
    features, times = b.array(_FEATURES), b.array(_TIMES)
    batches, inputs = b.shape(b.input(0))
    filters, memory = times.shape
    rank = b.option("rank", 1)
    if rank < 1 or filters % rank:
        raise UnsupportedOp(f"its {filters} filters are not of rank {rank}")
    b.macs(batches * (features.size + times.size))
    sizes = {"batches": batches, "inputs": inputs, "filters": filters, "rank": rank, "memory": memory}
    return sizes, features, times


def svdf_bias(b: LayerBuilder, sizes: dict[str, int], dtype: type) -> Constant:
    """What is added to the sums of each unit."""
    units = sizes["filters"] // sizes["rank"]
    return b.constant("bias", b.array_or_zeros(_BIAS, units, dtype))
