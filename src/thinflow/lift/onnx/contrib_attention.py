"""ONNX Runtime's own attention ops, which its optimizer puts for the layers of transformers.

Their masks are of whole numbers: what is not seen gets a finite number added, `mask_filter_value`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from thinflow.decompose.terms import Term, concat, stack, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32, INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.attention import (
    ahead,
    capped,
    heads_apart,
    heads_joined,
    rotated,
    scores_of,
    weighed,
)
from thinflow.lift.onnx.formulas import Formula, Size, counted, reshaped, scalar, size
from thinflow.lift.onnx.quantized import real
from thinflow.lift.onnx.values import text
from thinflow.lift.rules import lifts

_LOWEST = -3.4028234663852886e38
"""What ONNX Runtime adds to scores of keys in the future: the least number of float32."""


def _padding(c: Call, mask: Term, keys: Size) -> Term:
    """What a mask of whole numbers adds to scores [batch,heads,steps,keys]."""
    body, rank = mask.body, len(mask.shape)
    if rank == 1:
        # Where the keys that count end, of each row; twice as many numbers say where they begin as well.
        rows, count = c.sizes(0)[0], mask.shape[0]
        if rows is None or count not in (rows, 2 * rows):
            raise UnsupportedOp("its mask is of a form that is not known here")
        at, ends = counted(body, keys).reshape((1, 1, 1, -1)), mask.cast(INT32).reshape((-1, 1, 1, 1))
        seen = at < ends.cut(0, 0, rows)
        if count != rows:
            seen = seen & (at >= ends.cut(0, rows, None))
    elif rank in (2, 3):
        whole = mask.cast(INT32)
        seen = (whole.expand_dims(1).expand_dims(1) if rank == 2 else whole.expand_dims(1)) > 0
    else:
        raise UnsupportedOp(f"its mask has {rank} dimensions")
    value = float(c.get("mask_filter_value", -10000.0))
    return where(seen, body.constant(0, FLOAT), value)


def _attended(
    c: Call, q: Term, k: Term, v: Term, biases: Sequence[Term], *, past: Size = 0
) -> tuple[Term, Term]:
    """The result [batch,heads,steps,values] and the scores before the Softmax."""
    scale = float(c.get("scale", 0.0)) or 1 / math.sqrt(q.static_size(3, "the size of its heads"))
    scores = scores_of(q, k) * scale
    for bias in biases:
        scores = scores + bias.cast(scores.dtype)
    steps, body = size(q, 2), Formula(c)
    # Without a mask nothing is filled.
    c.get("mask_filter_value")
    if c.flag("unidirectional") and steps != 1:
        is_last = counted(body, steps).reshape((-1, 1)).equal(scalar(body, steps) - 1)
        # The last query sees all keys: ONNX Runtime takes it for the newest, even where there are more keys.
        seen = (ahead(body, steps, size(k, 2), past) >= 0) | is_last
        scores = scores + where(seen, scores.body.constant(0, scores.dtype), _LOWEST)
    return weighed(scores.apply("Softmax"), v), scores


def _refuse(c: Call, *options: str) -> None:
    for option in options:
        if c.get(option, 0):
            raise UnsupportedOp(f"its option '{option}' is {c.get(option)}")


def _refuse_operands(c: Call, *places: int) -> None:
    for place in places:
        if c.has(place):
            raise UnsupportedOp(f"it has operand {place}, which is not known here")


@lifts("onnx.com.microsoft.Attention", "onnx.com.microsoft.QAttention")
def _attention(c: Call) -> list[Value]:
    """Attention: x [batch,steps,n] times the weights of queries, keys and values side by side.

    Results: y [batch,steps,values], and keys and values with those of the past [2,batch,heads,keys,size].
    """
    body, is_quantized = Formula(c), c.node.op.endswith("QAttention")
    _refuse(c, "do_rotary", "past_present_share_buffer")
    # QAttention: x, weights, bias, their scales, mask, their zero points, past.
    mask_at, past_at = (5, 8) if is_quantized else (3, 4)
    if not is_quantized:
        _refuse_operands(c, 6)
    x = body.term(real(c, 0, 3, 6)) if is_quantized else body.operand(0)
    w = body.term(real(c, 1, 4, 7)) if is_quantized else body.operand(1)
    width = w.static_size(1, "the size of its weights")
    sizes = [int(n) for n in c.get("qkv_hidden_sizes", ())] or [width // 3] * 3
    if len(sizes) != 3 or sum(sizes) != width:
        raise UnsupportedOp(f"its sizes {sizes} do not make up its {width} columns")
    joined = reshaped(x, [-1, x.static_size(2, "the size of its rows")]).apply("MatMul", w)
    if c.has(2):
        joined = joined.apply("BiasAdd", body.operand(2))
    rows = reshaped(joined, [size(x, 0), size(x, 1), width])
    heads = int(c.get("num_heads", 0))
    ends = [0, sizes[0], sizes[0] + sizes[1], width]
    q, k, v = (heads_apart(rows.cut(2, a, b), heads) for a, b in itertools.pairwise(ends))
    past: Size = 0
    if c.has(past_at):
        before = body.operand(past_at)
        past = size(before, 3)
        k, v = concat([before.at(0, 0), k], 2), concat([before.at(0, 1), v], 2)
    biases = [_padding(c, body.operand(mask_at), size(k, 2))] if c.has(mask_at) else []
    biases += [body.operand(5)] if not is_quantized and c.has(5) else []
    y, _ = _attended(c, q, k, v, biases, past=past)
    results = [heads_joined(y)]
    if len(c.node.outputs) > 1:
        results.append(stack([k, v], 0))
    return [t.value for t in results]


@lifts("onnx.com.microsoft.MultiHeadAttention")
def _multi_head(c: Call) -> list[Value]:
    """MultiHeadAttention: queries, keys, values, their biases side by side, masks, and those of the past.

    Keys and values may be there by heads already [batch,heads,keys,size], and all may share one tensor.
    """
    body = Formula(c)
    heads = int(c.get("num_heads", 0))
    _refuse_operands(c, 8, 9)
    q, k, v = _three(c, body, heads)
    past: Size = 0
    if c.has(6) != c.has(7):
        raise UnsupportedOp("it has keys of the past without values, or values without keys")
    if c.has(6):
        past = size(body.operand(6), 2)
        k, v = concat([body.operand(6), k], 2), concat([body.operand(7), v], 2)
    biases = [_padding(c, body.operand(4), size(k, 2))] if c.has(4) else []
    biases += [body.operand(5)] if c.has(5) else []
    y, scores = _attended(c, q, k, v, biases, past=past)
    return [t.value for t in (heads_joined(y), k, v, scores)]


def _three(c: Call, body: Formula, heads: int) -> tuple[Term, Term, Term]:
    """Queries, keys and values by heads, with their biases."""
    q = body.operand(0)
    if len(q.shape) == 5:
        # [batch,steps,heads,3,size]
        _refuse_operands(c, 1, 2, 3)
        apart = [q.at(3, n).transpose((0, 2, 1, 3)) for n in range(3)]
        return apart[0], apart[1], apart[2]
    k = body.operand(1)
    if len(k.shape) == 5:
        # [batch,keys,heads,2,size]
        _refuse_operands(c, 2, 3)
        pair = [k.at(3, n).transpose((0, 2, 1, 3)) for n in range(2)]
        return heads_apart(q, heads), pair[0], pair[1]
    parts = [q, k, body.operand(2)]
    if c.has(3):
        bias, start = body.operand(3), 0
        for n, part in enumerate(parts):
            width = part.static_size(2, "the size of its rows") if len(part.shape) == 3 else 0
            if not width:
                raise UnsupportedOp("it has biases for keys that are there by heads")
            parts[n] = part + bias.cut(0, start, start + width)
            start += width
    q, k, v = (heads_apart(x, heads) if len(x.shape) == 3 else x for x in parts)
    return q, k, v


@lifts("onnx.com.microsoft.RotaryEmbedding")
def _rotary(c: Call) -> Value:
    """RotaryEmbedding: x, positions or the first of them, and tables of cosines and sines."""
    body = Formula(c)
    _refuse(c, "is_packed_batching")
    if float(c.get("scale", 1.0)) != 1:
        raise UnsupportedOp(f"its option 'scale' is {c.get('scale')}")
    x, places, cos, sin = (body.operand(n) for n in range(4))
    is_flat = len(x.shape) == 3
    steps = size(x, 1 if is_flat else 2)
    if places.shape in ((1,), ()):
        # Positions count on from one for all; a batch of one sample of one step is the same.
        places = (counted(body, steps) + places.cast(INT32).reshape(())).expand_dims(0)
    cos, sin = (table.gather(places.cast(INT64)) for table in (cos, sin))
    width, heads = int(c.get("rotary_embedding_dim", 0)), int(c.get("num_heads", 0))
    if is_flat:
        whole = x.static_size(2, "the size of its last axis")
        own = whole // heads if heads else 2 * cos.static_size(-1, "the number of its angles")
        if own < 1 or whole % own:
            raise UnsupportedOp(f"its {whole} numbers are not heads of {own}")
        apart, axis = reshaped(x, [size(x, 0), size(x, 1), whole // own, own]), 2
    else:
        apart, axis = x, 1
    half = cos.static_size(-1, "the number of its angles")
    if width and width != 2 * half:
        raise UnsupportedOp(f"it has {half} angles, {width // 2} are needed")
    cos, sin = cos.expand_dims(axis), sin.expand_dims(axis)
    y = rotated(apart, cos, sin, is_interleaved=c.flag("interleaved"))
    return (reshaped(y, [size(x, n) for n in range(3)]) if is_flat else y).value


# --- attention with a cache of keys and values ------------------------------------------------------------


@lifts(
    "onnx.com.microsoft.GroupQueryAttention",
    ignores=("kv_cache_bit_width", "qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon"),
)
def _group_query(c: Call) -> list[Value]:
    """GroupQueryAttention: queries, keys, values, the cache of both, how many keys each sample has, angles.

    Results: y [batch,steps,heads * size], and the caches of keys and values [batch,kv_heads,keys,size].
    """
    body = Formula(c)
    _refuse(c, "qk_output", "sliding_window_cache")
    _refuse_operands(c, *range(12, 17))
    for option in ("k_quant_type", "v_quant_type"):
        if text(c, option, "NONE") != "NONE":
            raise UnsupportedOp(f"its option '{option}' is {text(c, option, '')}")
    q, k, v = _apart(c, body)
    steps = size(q, 2)
    # Of each sample: all keys that count, and those of them that were there before.
    total = body.operand(5).cast(INT32).reshape([-1]) + 1
    before = (total - steps).maximum(0)
    if c.flag("do_rotary"):
        q, k = _turned(c, body, q, k, before)
    past: Size = 0
    if c.has(3) != c.has(4):
        raise UnsupportedOp("it has keys of the past without values, or values without keys")
    if c.has(3):
        past = size(body.operand(3), 2)
    length = _cache_length(body.operand(6), past)
    k, v = (
        _appended(body.operand(n) if c.has(n) else None, x, past, before, length) for n, x in ((3, k), (4, v))
    )
    y = weighed(_grouped_weights(c, body, q, k, before, total), v)
    return [t.value for t in (heads_joined(y), k, v)]


def _apart(c: Call, body: Formula) -> tuple[Term, Term, Term]:
    """Queries, keys and values by heads, which may be side by side in one tensor."""
    heads, kv_heads = int(c.get("num_heads", 0)), int(c.get("kv_num_heads", 0))
    q = body.operand(0)
    if c.has(1) != c.has(2) or min(heads, kv_heads) < 1 or heads % kv_heads:
        raise UnsupportedOp(f"its {heads} heads of queries do not share {kv_heads} heads of keys")
    if c.has(1):
        if body.operand(1).shape[1] != q.shape[1]:
            raise UnsupportedOp("it has not as many new keys as queries")
        return (
            heads_apart(q, heads),
            heads_apart(body.operand(1), kv_heads),
            heads_apart(body.operand(2), kv_heads),
        )
    whole = heads_apart(q, heads + 2 * kv_heads)
    ends = [0, heads, heads + kv_heads, heads + 2 * kv_heads]
    q, k, v = (whole.cut(1, a, b) for a, b in itertools.pairwise(ends))
    return q, k, v


def _turned(c: Call, body: Formula, q: Term, k: Term, before: Term) -> tuple[Term, Term]:
    """Queries and keys turned by the angles of their positions, which count on from the keys before."""
    steps = size(q, 2)
    line = counted(body, steps).expand_dims(0)
    if c.has(9):
        given = body.operand(9).cast(INT32)
        # Of the first steps of all, ONNX Runtime reads a single position, and counts on from there.
        is_first = body.operand(6).cast(INT32).reshape(()).equal(scalar(body, steps))
        places = where(is_first, line + given.reshape([-1]).at(0, 0), given)
    else:
        places = line + before.expand_dims(1)
    cos, sin = (body.operand(n).gather(places.cast(INT64)).expand_dims(1) for n in (7, 8))
    is_interleaved = c.flag("rotary_interleaved")
    return (rotated(q, cos, sin, is_interleaved=is_interleaved),
            rotated(k, cos, sin, is_interleaved=is_interleaved))  # fmt: skip


def _cache_length(total: Term, past: Size) -> Size:
    """The number of keys in the results: a cache with room for all is filled, another one grows."""
    most = total.known
    if most is not None and isinstance(past, int):
        return max(int(most.reshape(())), past)
    known = total.cast(INT32).reshape(())
    return known if past == 0 else known.maximum(past)


def _appended(past: Term | None, new: Term, room: Size, before: Term, length: Size) -> Term:
    """The cache [batch,heads,length,size]: so many of the past, then the new ones, then zeros."""
    body = new.body
    if past is None:
        # All are new, and as many as there are keys.
        return new
    both = concat([past, new], 2)
    at = counted(body, length).expand_dims(0)
    first, steps = before.expand_dims(1), size(new, 2)
    places = where(at < first, at, (at - first + room).minimum(scalar(body, size(both, 2)) - 1))
    kept = body.add("GatherV2", [both.value, places.value, body.constant(2, INT32).value], batch_dims=1)[0]
    is_there = (at < first + steps).expand_dims(1).expand_dims(3)
    return where(is_there, kept, 0.0)


def _grouped_weights(c: Call, body: Formula, q: Term, k: Term, before: Term, total: Term) -> Term:
    """What each query [batch,heads,steps,keys] takes of each key."""
    scale = float(c.get("scale", 0.0)) or 1 / math.sqrt(q.static_size(3, "the size of its heads"))
    scores = capped(scores_of(q, k) * scale, float(c.get("softcap", 0.0)))
    at = counted(body, size(k, 2)).reshape((1, 1, 1, -1))
    own = counted(body, size(q, 2)).reshape((1, 1, -1, 1)) + before.reshape((-1, 1, 1, 1))
    window = int(c.get("local_window_size", -1))
    seen = at <= own if c.flag("causal", default=True) else at < total.reshape((-1, 1, 1, 1))
    if window > 0:
        seen = seen & (at > own - window)
    if c.has(10):
        bias = body.operand(10)
        # A cache may have room for more keys than the bias tells of, none of which are seen.
        last = scalar(body, size(bias, 3)) - 1
        scores = scores + bias.gather(counted(body, size(k, 2)).minimum(last), 3)
    scores = where(seen, scores, _LOWEST)
    if not c.has(11) and int(c.get("smooth_softmax", 0)) != 1:
        return scores.apply("Softmax")
    # A share that goes to no key.
    sink = body.operand(11).reshape((1, -1, 1, 1)) if c.has(11) else scores.of(0.0)
    column = scores.cut(3, 0, 1) * 0.0 + sink
    return concat([column, scores], 3).apply("Softmax").cut(3, 1, None)
