"""Attention layers.   T queries, S keys and values, N heads of H features."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, INT32
from thinflow.keras.activations import hidden
from thinflow.keras.call import Call
from thinflow.keras.config import LayerConfig
from thinflow.keras.registry import Inside, Result, Slot, layer

_TRAINING_ONLY = ("dropout", "seed", "flash_attention", "training")
_SHAPES = ("query_shape", "key_shape", "value_shape")
"""What Keras 2 notes of the inputs."""


def _slots(config: LayerConfig, inside: Inside) -> list[Slot]:
    gate = ["gate"] if config.options.get("use_gate") else []
    names = ["kernel", *(["bias"] if config.options.get("use_bias", True) else [])]
    parts = ["query", "key", *gate, "value", "output"]
    return [Slot(f"{part}_dense/{name}") for part in parts for name in names]


@layer("MultiHeadAttention", weights=_slots, ignores=(*_TRAINING_ONLY, *_SHAPES), masks="own")
def multi_head_attention(c: Call) -> Result:
    """softmax(q k^T / sqrt(H)) v in each head, and a dense layer over all of them."""
    heads, size = c.integer("num_heads"), c.integer("key_dim")
    of_values = c.get("value_dim")
    depth = of_values if isinstance(of_values, int) else size
    _require_steps(c)
    return _attended(c, heads, heads, size, depth)


@layer("GroupQueryAttention", "GroupedQueryAttention", weights=_slots, ignores=_TRAINING_ONLY, masks="own")
def grouped_query_attention(c: Call) -> Result:
    """As MultiHeadAttention; several heads of queries share one of keys and values."""
    heads, shared = c.integer("num_query_heads"), c.integer("num_key_value_heads")
    size = c.integer("head_dim")
    if shared < 1 or heads % shared:
        raise c.refuse(f"{heads} heads cannot share {shared}")
    return _attended(c, heads, shared, size, size)


def _require_steps(c: Call) -> None:
    axes = c.get("attention_axes")
    c.read.add("output_shape")
    if axes not in (None, [1], 1, (1,)):
        raise c.refuse(f"it attends over the axes {axes}; only over axis 1 is known")


def _tensor(c: Call, name: str, place: int) -> Value | None:
    """A tensor that is an argument of the call."""
    found = c.argument(name, place)
    return found if isinstance(found, Value) else None


def _attended(c: Call, heads: int, shared: int, size: int, depth: int) -> Result:
    query = c[0]
    value = _tensor(c, "value", 1)
    if value is None:
        raise c.refuse("it is called without a value")
    key = _tensor(c, "key", 2)
    key = value if key is None else key
    q = _heads(c, query, "query", heads, size)
    k = repeated(c, _heads(c, key, "key", shared, size), heads // shared)
    v = repeated(c, _heads(c, value, "value", shared, depth), heads // shared)
    q = c.emit("Mul", q, 1.0 / math.sqrt(size))
    scores = c.emit("BatchMatMulV2", q, k, name="scores", adj_x=False, adj_y=True)
    mask = _mask_of_heads(c, query, key, value)
    if mask is not None:
        scores = hidden(c, scores, mask)
    weights = c.emit("Softmax", scores)
    returns_scores = bool(c.argument("return_attention_scores", 99, False))
    if mask is not None and c.generation > 2 and (returns_scores or c.number("dropout", 0.0) > 0):
        # Queries of which all is masked: here Keras 3 gives zeros, in its fused form the mean of all.
        weights = c.emit("Mul", weights, c.cast(mask, c.type_of(weights)))
    y = c.emit("BatchMatMulV2", weights, v, name="attention", adj_x=False, adj_y=False)
    if c.flag("use_gate"):
        y = c.emit("Mul", y, c.emit("Sigmoid", _heads(c, query, "gate", heads, depth)))
    y = c.transpose(y, (0, 2, 1, 3))
    y = c.shaped(y, [c.dim(y, 0), c.dim(y, 1), heads * depth])
    kernel = c.array("output_dense/kernel")
    sizes = kernel.shape[2:]
    if kernel.shape[:2] != (heads, depth) or len(sizes) != 1:
        raise c.refuse(f"its output has {len(sizes)} axes of features; only one is known")
    y = c.matmul(y, c.const(kernel.reshape(heads * depth, -1), "output_dense_kernel"))
    if c.flag("use_bias", True):
        y = c.emit("BiasAdd", y, c.weight("output_dense/bias", sizes), data_format="NHWC")
    # The mask of the query goes on.
    c.mask_out = _query_mask(c, query)
    return [y, weights] if returns_scores else y


def _heads(c: Call, x: Value, which: str, heads: int, size: int) -> Value:
    """x [batch, steps, features] in each head: [batch, heads, steps, size]."""
    if c.rank(x) != 3:
        raise c.refuse(f"its {which} has {c.rank(x)} dimensions; only three are known")
    kernel = c.array(f"{which}_dense/kernel", (c.size(x, -1), heads, size))
    y = c.matmul(x, c.const(kernel.reshape(kernel.shape[0], -1), f"{which}_dense_kernel"))
    if c.flag("use_bias", True):
        bias = c.array(f"{which}_dense/bias", (heads, size)).reshape(-1)
        y = c.emit("BiasAdd", y, c.const(bias, f"{which}_dense_bias"), data_format="NHWC")
    y = c.shaped(y, [c.dim(x, 0), c.dim(x, 1), heads, size])
    return c.transpose(y, (0, 2, 1, 3))


def repeated(c: Call, x: Value, times: int) -> Value:
    """Each head several times, side by side.   [batch, heads, steps, size]"""
    if times == 1:
        return x
    places = np.repeat(np.arange(c.size(x, 1), dtype=np.int32), times)
    axis, numbers = c.const(1, "axis"), c.const(places, "heads")
    return c.emit("GatherV2", x, numbers, axis, T=None, Tparams=c.type_of(x), Tindices=INT32, Taxis=INT32)


# --- masks --------------------------------------------------------------------------------------------------


def _query_mask(c: Call, query: Value) -> Value | None:
    c.read |= {"query_mask", "mask"}
    given = c.kwargs.get("query_mask")
    return given if isinstance(given, Value) else c.builder.masks.get(query)


def _side_mask(c: Call, name: str, x: Value) -> Value | None:
    c.read.add(name)
    given = c.kwargs.get(name)
    return given if isinstance(given, Value) else c.builder.masks.get(x)


def _mask_of_heads(c: Call, query: Value, key: Value, value: Value) -> Value | None:
    """What may be attended to: [batch or 1, 1, T or 1, S]; None for all."""
    parts: list[Value] = []
    q_mask = _query_mask(c, query)
    if q_mask is not None:
        parts.append(c.expand(c.expand(q_mask, -1), 1))
    sides = dict.fromkeys([_side_mask(c, "value_mask", value), _side_mask(c, "key_mask", key)])
    parts += [c.expand(c.expand(side, 1), 1) for side in sides if side is not None]
    if c.argument("use_causal_mask", 99, False):
        parts.append(causal(c, query, value))
    if c.get("sliding_window") is not None:
        parts.append(causal(c, query, value, c.integer("sliding_window")))
    given = _tensor(c, "attention_mask", 3 if c.generation < 3 else 6)
    if given is not None:
        given = given if c.type_of(given) is BOOL else c.cast(given, BOOL)
        parts.append(c.expand(given, 1) if c.rank(given) == 3 else given)
    return all_of(c, parts)


def all_of(c: Call, parts: Sequence[Value]) -> Value | None:
    if not parts:
        return None
    mask = parts[0]
    for part in parts[1:]:
        mask = c.emit("LogicalAnd", mask, part, T=None)
    return mask


def causal(c: Call, query: Value, value: Value, window: int | None = None) -> Value:
    """True where the key is not later than the query, or by fewer steps away than a window: [1, 1, T, S]."""
    rows, columns = c.dim(query, 1), c.dim(value, 1)
    if isinstance(rows, int) and isinstance(columns, int):
        away = np.arange(rows)[:, None] - np.arange(columns)
        mask = away >= 0 if window is None else np.abs(away) < window
        return c.const(mask[None, None], "causal_mask")
    numbers = []
    for count, axis in ((rows, 1), (columns, 0)):
        limit = count if isinstance(count, Value) else c.const(count, "limit")
        steps = c.emit("Range", c.const(0, "start"), limit, c.const(1, "delta"), T=None, Tidx=INT32)
        numbers.append(c.expand(steps, axis))
    if window is None:
        near = c.emit("GreaterEqual", numbers[0], numbers[1])
    else:
        near = c.emit("Less", c.emit("Abs", c.emit("Sub", numbers[0], numbers[1])), window)
    return c.expand(c.expand(near, 0), 0)


# --- attention without heads --------------------------------------------------------------------------------


def _three(c: Call) -> tuple[Value, Value, Value]:
    """Query, value and key of the list that the layer is called with."""
    if len(c.xs) not in (2, 3):
        raise c.refuse(f"it is called with {len(c.xs)} tensors, two or three are needed")
    return c[0], c[1], c[2] if len(c.xs) == 3 else c[1]


def _attention_slots(config: LayerConfig, inside: Inside) -> list[Slot]:
    scale = [Slot("scale")] if config.options.get("use_scale") else []
    is_concat = config.options.get("score_mode") == "concat"
    return [*scale, *([Slot("concat_score_weight")] if is_concat else [])]


@layer(
    "Attention",
    weights=_attention_slots,
    ignores=("dropout", "seed", "training"),
    masks="own",
)
def attention(c: Call) -> Result:
    """softmax(q k^T) v, or with scores of sums through tanh (score_mode "concat")."""
    query, value, key = _three(c)
    scale = c.weight("scale", ()) if c.flag("use_scale") else None
    if c.choice("score_mode", "dot", "concat") == "concat":
        total = c.emit("AddV2", c.expand(query, 2), c.expand(key, 1))
        total = total if scale is None else c.emit("Mul", total, scale)
        scores = c.reduce("Sum", c.emit("Tanh", total), [-1])
        scores = c.emit("Mul", scores, c.weight("concat_score_weight", ()))
    else:
        scores = c.emit("BatchMatMulV2", query, key, adj_x=False, adj_y=True)
        scores = scores if scale is None else c.emit("Mul", scores, scale)
    return _weighted(c, scores, query, value)


@layer("AdditiveAttention", weights="scale?use_scale", ignores=("dropout", "seed", "training"), masks="own")
def additive_attention(c: Call) -> Result:
    """softmax(sum(scale * tanh(q + k))) v."""
    query, value, key = _three(c)
    total = c.emit("Tanh", c.emit("AddV2", c.expand(query, 2), c.expand(key, 1)))
    if c.flag("use_scale", True):
        total = c.emit("Mul", total, c.weight("scale", (c.shape(query)[-1],)))
    return _weighted(c, c.reduce("Sum", total, [-1]), query, value)


def _weighted(c: Call, scores: Value, query: Value, value: Value) -> Result:
    """The values by the softmax of the scores [batch, T, S]; queries that are masked give zeros."""
    parts: list[Value] = []
    masks = _pair_of_masks(c)
    if masks[1] is not None:
        parts.append(c.expand(masks[1], 1))
    if c.argument("use_causal_mask", 99, False) or c.flag("causal"):
        parts.append(c.squeeze(causal(c, query, value), 0))
    mask = all_of(c, parts)
    weights = c.emit("Softmax", scores if mask is None else hidden(c, scores, mask))
    y = c.emit("BatchMatMulV2", weights, value, adj_x=False, adj_y=False)
    if masks[0] is not None:
        y = c.emit("Mul", y, c.cast(c.expand(masks[0], -1), c.type_of(y)))
        c.mask_out = masks[0]
    return [y, weights] if c.argument("return_attention_scores", 99, False) else y


def _pair_of_masks(c: Call) -> tuple[Value | None, Value | None]:
    """Masks of query and value."""
    c.read.add("mask")
    given = c.kwargs.get("mask")
    if isinstance(given, list):
        found = [m if isinstance(m, Value) else None for m in given]
        return (found[0], found[1]) if len(found) > 1 else (None, None)
    return c.masks[0], c.masks[1]
