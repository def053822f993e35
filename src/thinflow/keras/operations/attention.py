"""Attention and normalization that a model calls as functions, with tensors for their weights."""

from __future__ import annotations

import math

from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, FLOAT
from thinflow.keras.activations import hidden
from thinflow.keras.call import Call
from thinflow.keras.layers.attention import all_of, causal, repeated
from thinflow.keras.layers.normalization import centred, moments
from thinflow.keras.nodes import common
from thinflow.keras.operations.arrays import numbers
from thinflow.keras.operations.elementwise import first, tensor
from thinflow.keras.registry import Result, operation


@operation("DotProductAttention", ignores=("flash_attention",))
def dot_product_attention(c: Call) -> Result:
    """softmax(q k^T * scale + bias) v in each head.   q [b, T, N, H], k and v [b, S, N or less, H]"""
    q, k, v = (tensor(c, name, place) for place, name in enumerate(("query", "key", "value")))
    element = common(common(c.type_of(q), c.type_of(k)), c.type_of(v))
    parts: list[Value] = [causal(c, q, k)] if c.flag("is_causal") else []
    bias, mask, scale = (c.argument(name, 3 + n) for n, name in enumerate(("bias", "mask", "scale")))
    heads, shared = c.size(q, 2), c.size(k, 2)
    if c.rank(q) != 4 or not element.is_floating or not shared or heads % shared:
        raise c.refuse(f"its query is {c.shape(q)} and its key {c.shape(k)}, of the type {element.name}")
    q, k, v = (c.transpose(c.cast(x, element), (0, 2, 1, 3)) for x in (q, k, v))
    k, v = (repeated(c, x, heads // shared) for x in (k, v))
    q = c.emit("Mul", q, c.literal(1 / math.sqrt(c.size(k, -1)) if scale is None else scale, q))
    scores = c.emit("BatchMatMulV2", q, k, name="scores", adj_x=False, adj_y=True)
    if bias is not None:
        scores = c.emit("AddV2", scores, c.cast(c.literal(bias, scores), element))
    if mask is not None:
        parts.append(c.cast(c.literal(mask), BOOL))
    allowed = all_of(c, parts)
    weights = c.emit("Softmax", scores if allowed is None else hidden(c, scores, allowed))
    y = c.emit("BatchMatMulV2", weights, v, name="attention", adj_x=False, adj_y=False)
    return c.transpose(y, (0, 2, 1, 3))


def _wide(c: Call, x: Value) -> Value:
    """In float32 at least."""
    return c.cast(x, common(c.type_of(x), FLOAT))


def _epsilon(c: Call) -> float:
    return 1e-7 if c.get("epsilon") is None else c.number("epsilon")


@operation("LayerNorm")
def layer_norm(c: Call) -> Result:
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta over axes."""
    given = first(c)
    x, rank = _wide(c, given), c.rank(given)
    axes = sorted(c.axis(n, rank) for n in numbers(c, "axis", 3, -1) or [])
    shape = [c.shape(x)[n] if n in axes else 1 for n in range(rank)]

    def factor(name: str, place: int) -> Value | None:
        if c.argument(name, place) is None:
            return None
        value = c.cast(tensor(c, name, place, x), c.type_of(x))
        return value if c.rank(value) == rank or axes == [rank - 1] else c.reshape(value, shape)

    gamma, beta = factor("gamma", 1), factor("beta", 2)
    if not c.flag("rms_scaling"):
        return c.cast(centred(c, x, axes, _epsilon(c), gamma, beta), c.type_of(given))
    # Keras scales by the deviation here, and takes neither the mean nor the offset.
    y = c.emit("Mul", x, c.emit("Rsqrt", c.emit("AddV2", moments(c, x, axes)[1], _epsilon(c))))
    return c.cast(y if gamma is None else c.emit("Mul", y, gamma), c.type_of(given))


@operation("RMSNorm")
def rms_norm(c: Call) -> Result:
    """x / sqrt(mean(x^2) + epsilon) * scale over axes; the factors go with the last ones."""
    given = first(c)
    x = _wide(c, given)
    axes = [c.axis(n, c.rank(x)) for n in numbers(c, "axis", 2, -1) or []]
    mean = c.reduce("Mean", c.emit("Square", x), axes, True)
    y = c.emit("Mul", x, c.emit("Rsqrt", c.emit("AddV2", mean, _epsilon(c))))
    if c.argument("scale", 1) is not None:
        y = c.emit("Mul", y, c.cast(tensor(c, "scale", 1, y), c.type_of(y)))
    return c.cast(y, c.type_of(given))
