"""ONNX's attention: scores of queries and keys, what may be seen, and the mean of values that they weigh.

q [batch,heads,steps,size], k [batch,kv_heads,keys,size], v [batch,kv_heads,keys,values]; heads may share keys
y = softmax(q k^T * scale + bias) v
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.decompose.terms import Term, concat, stack, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BFLOAT16, BOOL, FLOAT, HALF, INT32, DType
from thinflow.lift.inline import inlined
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula, Size, counted, product, reshaped, size
from thinflow.lift.onnx.values import NUMBERS
from thinflow.lift.rules import lifts

# --- heads and groups of them -------------------------------------------------------------------------------


def heads_apart(x: Term, heads: int) -> Term:
    """[batch,steps,heads * size] as [batch,heads,steps,size]."""
    width = x.static_size(2, "the size of its last axis")
    if heads < 1 or width % heads:
        raise UnsupportedOp(f"its {width} numbers are not {heads} heads of equal size")
    apart = reshaped(x, [size(x, 0), size(x, 1), heads, width // heads])
    return apart.transpose((0, 2, 1, 3))


def heads_joined(x: Term) -> Term:
    """[batch,heads,steps,size] as [batch,steps,heads * size]."""
    y = x.transpose((0, 2, 1, 3))
    return reshaped(y, [size(y, 0), size(y, 1), product([size(y, 2), size(y, 3)])])


def _grouped(x: Term, heads: Size) -> Term:
    """[batch,heads,steps,n] with the heads that share a key below each other: [batch,kv_heads,*,n]."""
    whole = size(x, 1)
    if isinstance(whole, Term) or isinstance(heads, Term):
        # Numbers of heads that only the run knows are taken to be the same.
        return x
    if whole == heads:
        return x
    if not heads or whole % heads:
        raise UnsupportedOp(f"{whole} heads of queries do not share {heads} heads of keys")
    return reshaped(x, [size(x, 0), heads, product([whole // heads, size(x, 2)]), size(x, 3)])


def scores_of(q: Term, k: Term) -> Term:
    """q k^T [batch,heads,steps,keys]."""
    grouped = _grouped(q, size(k, 1))
    y = grouped.apply("BatchMatMulV2", k, adj_x=False, adj_y=True)
    return y if grouped is q else reshaped(y, [size(q, 0), size(q, 1), size(q, 2), size(k, 2)])


def weighed(weights: Term, v: Term) -> Term:
    """The values that are weighed [batch,heads,steps,values]."""
    grouped = _grouped(weights, size(v, 1))
    y = grouped.apply("BatchMatMulV2", v, adj_x=False, adj_y=False)
    if grouped is weights:
        return y
    return reshaped(y, [size(weights, 0), size(weights, 1), size(weights, 2), size(v, 3)])


def capped(x: Term, cap: float) -> Term:
    """x bent so that it stays within a cap; 0 for none."""
    return (x / cap).apply("Tanh") * cap if cap > 0 else x


# --- what may be seen ---------------------------------------------------------------------------------------


def sees_nothing(scores: Term) -> Term:
    """Where scores are -inf alone on the last axis, which is kept.

    Not the largest score decides: where all are -inf, LiteRT's reference kernels, which are TFLite Micro's,
    find the least finite number.
    """
    seen = scores.apply("NotEqual", -np.inf).cast(FLOAT)
    return seen.reduced("Max", -1, keep=True).equal(0)


@dataclass
class Sight:
    """What the queries may see of the keys, as numbers that are added to the scores.

    Attributes:
        bias: of the scores' type, -inf for what is not seen; None for nothing.
        may_be_blind: True if there may be queries that see nothing.
    """

    c: Call
    kind: DType
    bias: Term | None = None
    may_be_blind: bool = False

    def add(self, bias: Term, *, may_be_blind: bool = True) -> None:
        """Add a bias."""
        self.bias = bias if self.bias is None else self.bias + bias
        self.may_be_blind = self.may_be_blind or may_be_blind

    def only(self, allowed: Term, *, may_be_blind: bool = True) -> None:
        """Let only that be seen where a condition holds."""
        zero = allowed.body.constant(0, self.kind)
        self.add(where(allowed, zero, -np.inf), may_be_blind=may_be_blind)

    def softmax(self, scores: Term, precision: DType) -> Term:
        """The weights; zeros for queries that see nothing."""
        # Softmax of -inf alone is not a number.
        weights = scores.cast(precision).apply("Softmax")
        bias = self.bias
        if bias is None or not self.may_be_blind:
            return weights
        known = self.c.content(bias.value)
        if known is not None and not np.isneginf(known.astype(np.float64).max(-1)).any():
            return weights
        return where(sees_nothing(bias), weights.body.constant(0, precision), weights)


def ahead(body: Formula, steps: Size, keys: Size, offset: int | Term) -> Term:
    """How far each query [steps,1] stands behind each key [1,keys]; negative for keys in the future."""
    i, j = counted(body, steps).reshape((-1, 1)), counted(body, keys).reshape((1, -1))
    return (i if isinstance(offset, int) and not offset else i + offset) - j


# --- the standard's Attention -------------------------------------------------------------------------------


def _mask(c: Call, body: Formula, sight: Sight, keys: Size) -> None:
    """The mask that is an operand: true for what is seen, or numbers to add."""
    mask = body.operand(3)
    if mask.dtype is not BOOL:
        mask = mask.cast(sight.kind)
    length = size(mask, len(mask.shape) - 1)
    if isinstance(length, int) and isinstance(keys, int) and length < keys and length != 1:
        # What it does not tell of is not seen.
        pads = [(0, 0)] * (len(mask.shape) - 1) + [(0, keys - length)]
        is_bool = mask.dtype is BOOL
        mask = mask.cast(INT32).pad(pads).cast(BOOL) if is_bool else mask.pad(pads, -np.inf)
    elif not isinstance(length, int) and c.has(6):
        raise UnsupportedOp("the size of its mask is not known, which may be shorter than the keys")
    if mask.dtype is BOOL:
        sight.only(mask)
    else:
        sight.add(mask)


def _positions(c: Call, body: Formula, sight: Sight, steps: Size, keys: Size, past: Size) -> None:
    """What the order of queries and keys allows."""
    is_causal = c.flag("is_causal")
    left, right = int(c.get("left_window_size", -1)), int(c.get("right_window_size", -1))
    if min(left, right) < -1:
        raise UnsupportedOp("its window has a negative size")
    offset: int | Term = past
    if c.has(6):
        counts = body.operand(6).cast(INT32).reshape((-1, 1, 1, 1))
        offset = counts - steps
        sight.only(counted(body, keys).reshape((1, 1, 1, -1)) < counts)
    if not is_causal and left < 0 and right < 0:
        return
    gap = ahead(body, steps, keys, offset)
    allowed = [gap >= 0] if is_causal else []
    allowed += [gap <= left] if left >= 0 else []
    allowed += [gap >= -right] if right >= 0 else []
    both = allowed[0]
    for one in allowed[1:]:
        both = both & one
    # Without a past the first key is seen by all.
    sees_first = is_causal and left < 0 and isinstance(offset, int | Term) and not c.has(6)
    sight.only(both, may_be_blind=not sees_first)


@lifts("onnx.Attention")
def _attention(c: Call) -> list[Value]:
    """Attention: queries, keys, values, mask, keys and values of the past, and how many keys count."""
    body = Formula(c)
    q, k, v = (body.operand(n) for n in range(3))
    is_flat = len(q.shape) == 3
    counts = int(c.get("q_num_heads", 0)), int(c.get("kv_num_heads", 0))
    if is_flat:
        q, k, v = (heads_apart(x, counts[n > 0]) for n, x in enumerate((q, k, v)))
    past: Size = 0
    if c.has(4) != c.has(5):
        raise UnsupportedOp("it has keys of the past without values, or values without keys")
    if c.has(4):
        past = size(body.operand(4), 2)
        k, v = (concat([body.operand(n), x], 2) for n, x in ((4, k), (5, v)))
    sight = Sight(c, q.dtype)
    steps, keys = size(q, 2), size(k, 2)
    if c.has(3):
        _mask(c, body, sight, keys)
    _positions(c, body, sight, steps, keys, past)
    raw = _scaled(c, q, k)
    bent = capped(raw, float(c.get("softcap", 0.0)))
    scores = bent if sight.bias is None else bent + sight.bias
    precision = NUMBERS.get(int(c.get("softmax_precision", 0)), q.dtype)
    weights = sight.softmax(scores, precision).cast(q.dtype)
    mode = int(c.get("qk_matmul_output_mode", 0))
    if not 0 <= mode <= 3:
        raise UnsupportedOp(f"its qk_matmul_output_mode is {mode}")
    y = weighed(weights, v)
    seen = (raw, bent, scores, weights)[mode]
    return [t.value for t in (heads_joined(y) if is_flat else y, k, v, seen)]


def _scaled(c: Call, q: Term, k: Term) -> Term:
    """The scores times `scale`, by default 1 / sqrt(size)."""
    scale = c.get("scale")
    if scale is None:
        scale = 1 / math.sqrt(q.static_size(3, "the size of its heads"))
    if q.dtype in (HALF, BFLOAT16):
        # Half of the factor on either side, as the standard has it: the product of small numbers overflows.
        root = math.sqrt(scale)
        return scores_of(q * root, k * root)
    return scores_of(q if scale == 1 else q * float(scale), k)


@lifts("onnx.ai.onnx.preview.FlexAttention")
def _flex(c: Call) -> Value:
    """FlexAttention: bodies of its own for scores and for weights."""
    body = Formula(c)
    q, k, v = (body.operand(n) for n in range(3))
    outside = [c[n] for n in range(len(c.xs) - int(c.get("captures", 0)), len(c.xs))]
    usual = q.dtype if q.dtype.itemsize > FLOAT.itemsize else FLOAT
    precision = NUMBERS.get(int(c.get("softmax_precision", 0)), usual)
    # Factors in the precision of the scores.
    q, k = q.cast(precision), k.cast(precision)
    scale = c.get("scale")
    factor = 1 / math.sqrt(q.static_size(3, "the size of its heads")) if scale is None else float(scale)
    scores = _changed(c, "score_mod", scores_of(q, k) * factor, outside)
    weights = _changed(c, "prob_mod", scores.apply("Softmax"), outside)
    return weighed(weights.cast(v.dtype), v).value


def _changed(c: Call, option: str, x: Term, outside: Sequence[Value]) -> Term:
    """x by the body of an option, if there is one."""
    if option not in c.node.attrs:
        return x
    (result,) = inlined(c, c.body(option), [x.value, *outside], name=f"{c.name}/{option}")
    return Term(x.body, result, None)


# --- rotary embeddings --------------------------------------------------------------------------------------


def rotated(x: Term, cos: Term, sin: Term, *, is_interleaved: bool) -> Term:
    """x [..., size] turned in pairs of its numbers; angles [..., width / 2] turn the first width numbers.

    Args:
        is_interleaved: pairs are neighbours, else number i and number width / 2 + i.
    """
    half = cos.static_size(-1, "the number of its angles")
    last = len(x.shape) - 1
    whole = x.static_size(last, "the size of its heads")
    if 2 * half > whole:
        raise UnsupportedOp(f"it turns {2 * half} numbers of {whole}")
    turning = x if 2 * half == whole else x.cut(last, 0, 2 * half)
    if is_interleaved:
        a, b = turning.cut(last, 0, None, 2), turning.cut(last, 1, None, 2)
    else:
        a, b = turning.split(2, last)
    real, imaginary = a * cos - b * sin, a * sin + b * cos
    if is_interleaved:
        y = stack([real, imaginary], last + 1)
        y = reshaped(y, [*(size(x, n) for n in range(last)), 2 * half])
    else:
        y = concat([real, imaginary], last)
    return y if 2 * half == whole else concat([y, x.cut(last, 2 * half, None)], last)


@lifts("onnx.RotaryEmbedding")
def _rotary(c: Call) -> Value:
    """RotaryEmbedding: x, cosines, sines, and the positions whose angles are taken."""
    body = Formula(c)
    x, cos, sin = (body.operand(n) for n in range(3))
    if c.has(3):
        places = body.operand(3)
        cos, sin = cos.gather(places), sin.gather(places)
    width = int(c.get("rotary_embedding_dim", 0))
    is_flat = len(x.shape) == 3
    if is_flat:
        heads, whole = int(c.get("num_heads", 0)), x.static_size(2, "the size of its last axis")
        if heads < 1 or whole % heads:
            raise UnsupportedOp(f"its {whole} numbers are not {heads} heads of equal size")
        # [batch,steps,heads,size], and angles for all heads.
        apart = reshaped(x, [size(x, 0), size(x, 1), heads, whole // heads])
        axis = 2
    else:
        c.get("num_heads", 0)
        apart, axis = x, 1
    expected = (width or apart.static_size(3, "the size of its heads")) // 2
    if cos.static_size(-1, "the number of its angles") != expected:
        raise UnsupportedOp(f"it has {cos.shape[-1]} angles, {expected} are needed")
    cos, sin = cos.expand_dims(axis), sin.expand_dims(axis)
    y = rotated(apart, cos, sin, is_interleaved=c.flag("interleaved"))
    return (reshaped(y, [size(x, n) for n in range(3)]) if is_flat else y).value
