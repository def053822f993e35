"""ATen's products, normalizations, embeddings and attention."""

from __future__ import annotations

import math

import numpy as np

from thinflow.decompose.terms import Term, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, INT64
from thinflow.lift.aten.arguments import Arguments, aten
from thinflow.lift.aten.arithmetic import operand
from thinflow.lift.onnx.attention import sees_nothing
from thinflow.lift.onnx.formulas import product, reshaped, size, sizes_of
from thinflow.lift.onnx.math import normalized
from thinflow.lift.onnx.normalization import group_normalized

# --- products -----------------------------------------------------------------------------------------------


def _biased(a: Arguments, y: Value, bias: Value | None) -> Value:
    """With a vector added along the last axis."""
    if bias is None:
        return y
    shape, rank = bias.spec.shape, len(a.body.term(y).shape)
    if shape is not None and len(shape) == 1 and rank > 1 and shape[0] == (y.spec.shape or (0,))[-1]:
        return a.emit("BiasAdd", y, bias, data_format="NHWC")
    return a.emit("AddV2", y, bias)


@aten("linear")
def _linear(a: Arguments) -> Value:
    """x @ weight^T + bias."""
    weight = a.body.term(a.tensor("weight"))
    if len(weight.shape) != 2:
        raise UnsupportedOp("its weights are no matrix")
    return _biased(a, _product(a, a.x, weight.transpose((1, 0)).value), a.maybe("bias"))


def _product(a: Arguments, x: Value, y: Value) -> Value:
    return a.onnx("MatMul", x, y)


@aten("matmul", "mm", "bmm", "mv", "dot", "vdot")
def _matmul(a: Arguments) -> Value:
    op = a.call.node.op
    names = {"aten.bmm": "mat2", "aten.mm": "mat2", "aten.mv": "vec", "aten.dot": "tensor"}
    return _product(a, a.x, a.tensor(names.get(op, "other")))


@aten("bilinear")
def _bilinear(a: Arguments) -> Value:
    """x^T @ W @ y of vectors, for each matrix W."""
    y = _forms(a.term("input1"), a.term("input2"), a.term("weight"))
    return _biased(a, y.value, a.maybe("bias"))


def _forms(x: Term, y: Term, weight: Term) -> Term:
    """x [..., width] and y [..., depth] with matrices [count, width, depth] -> [..., count]."""
    count, width, depth = (weight.static_size(n, "a size of its weights") for n in range(3))
    # All matrices side by side: [..., width] @ [width, count * depth].
    side = weight.transpose((1, 0, 2)).reshape([width, count * depth])
    rows = reshaped(x @ side, [*sizes_of(x)[:-1], count, depth])
    return (rows * y.expand_dims(-2)).sum(-1)


@aten("_trilinear", ignores=("unroll_dim",))
def _trilinear(a: Arguments) -> Value:
    """The sum over axes of the product of three tensors, each with further axes; `bilinear` in core ATen."""
    terms = [a.term(f"i{n}") for n in (1, 2, 3)]
    further = [a.ints(f"expand{n}") for n in (1, 2, 3)]
    summed = a.ints("sumdim")
    if (further, summed) == ([[1, 3], [0], [1, 2]], [2, 3]) and [len(t.shape) for t in terms] == [2, 3, 2]:
        return _forms(terms[0], terms[2], terms[1]).value
    for n, axes in enumerate(further):
        for axis in sorted(axes):
            terms[n] = terms[n].expand_dims(axis)
    return (terms[0] * terms[1] * terms[2]).sum(*summed).value


def _sum(a: Arguments, y: Value) -> Value:
    """alpha * y + beta * self."""
    alpha, beta = a.number("alpha", 1), a.number("beta", 1)
    if alpha != 1:
        y = (a.body.term(y) * alpha).value
    # Then PyTorch does not look at self at all: what is no number in it stays out of the result.
    if beta == 0:
        a.ignore("self")
        return y
    return _biased(a, y, a.x if beta == 1 else (a.term() * beta).value)


@aten("addmm")
def _addmm(a: Arguments) -> Value:
    return _sum(a, _product(a, a.tensor("mat1"), a.tensor("mat2")))


@aten("baddbmm")
def _baddbmm(a: Arguments) -> Value:
    return _sum(a, _product(a, a.tensor("batch1"), a.tensor("batch2")))


@aten("addbmm")
def _addbmm(a: Arguments) -> Value:
    """With the products of all matrices of a batch added up."""
    return _sum(a, (a.term("batch1") @ a.term("batch2")).sum(0).value)


@aten("addmv")
def _addmv(a: Arguments) -> Value:
    return _sum(a, _product(a, a.tensor("mat"), a.tensor("vec")))


@aten("addr")
def _addr(a: Arguments) -> Value:
    x, y = (a.body.term(a.cast(a.tensor(n), a.dtype)) for n in ("vec1", "vec2"))
    return _sum(a, (x.expand_dims(1) * y.expand_dims(0)).value)


@aten("tensordot", "inner")
def _tensordot(a: Arguments) -> Value:
    """Products summed over axes of both, in pairs; without being told over the last of each."""
    is_inner = a.call.node.op == "aten.inner"
    x, y = (a.body.term(a.cast(a.tensor(n), a.dtype)) for n in ("self", "other"))
    if is_inner and not (x.shape and y.shape):
        return (x * y).value
    over = [[-1], [-1]] if is_inner else [a.ints("dims_self"), a.ints("dims_other")]
    first, second = ([a.counted(n, len(t.shape)) for n in axes] for t, axes in zip((x, y), over, strict=True))
    own = [n for n in range(len(x.shape)) if n not in first]
    theirs = [n for n in range(len(y.shape)) if n not in second]
    sizes = [*(size(x, n) for n in own), *(size(y, n) for n in theirs)]
    shared = product([size(x, n) for n in first])
    rows = reshaped(x.transpose([*own, *first]), [product([size(x, n) for n in own]), shared])
    columns = reshaped(y.transpose([*second, *theirs]), [shared, product([size(y, n) for n in theirs])])
    return reshaped(a.body.term(_product(a, rows.value, columns.value)), sizes).value


@aten("linalg_vecdot")
def _vecdot(a: Arguments) -> Value:
    x, y = (a.body.term(a.cast(a.tensor(n), a.dtype)) for n in ("x", "y"))
    return (x * y).sum(a.axis(default=-1, rank=max(len(x.shape), len(y.shape)))).value


@aten("linalg_multi_dot")
def _multi_dot(a: Arguments) -> Value:
    first, *others = a.tensors("tensors")
    for other in others:
        first = _product(a, first, other)
    return first


@aten("linalg_matrix_power", "matrix_power")
def _matrix_power(a: Arguments) -> Value:
    """By squaring: a product for each bit of the exponent, and one more for each that is 1."""
    x, count = a.term(), a.integer("n")
    if not 0 < count <= _MOST_POWER:
        raise UnsupportedOp(f"it is the power of {count}")
    y: Term | None = None
    while count:
        if count % 2:
            y = x if y is None else y @ x
        count //= 2
        x = x @ x if count else x
    assert y is not None
    return a.emit("Identity", y.value)


_MOST_POWER = 1 << 16


@aten("einsum", ignores=("path",))
def _einsum(a: Arguments) -> Value:
    return a.onnx("Einsum", *a.tensors("tensors"), equation=a.text("equation").encode())


@aten("_weight_norm")
def _weight_norm(a: Arguments) -> Value:
    """Directions of the first axis or another, each with a length of its own."""
    v, g, axis = a.term("v"), a.term("g"), a.integer("dim", 0)
    # -1 is no axis in PyTorch's norm_except_dim: one length for all, then.
    others = [n for n in range(len(v.shape)) if n != axis % len(v.shape) or axis == -1]
    return (v * (g / v.square().sum(*others, keep=True).sqrt())).value


# --- normalizations -----------------------------------------------------------------------------------------


def _batch_norm(a: Arguments) -> list[Value]:
    x = a.body.term(a.x)
    if len(x.shape) < 2:
        raise UnsupportedOp("its operand has no axis of channels")
    mean, variance = a.tensor("running_mean"), a.tensor("running_var")
    depth = a.body.term(mean).static_size(0, "the number of its channels")
    scale, offset = (
        a.maybe(name) or a.like(np.full(depth, number), mean)
        for name, number in (("weight", 1.0), ("bias", 0.0))
    )
    _refuse_statistics(a)
    return [
        a.onnx("BatchNormalization", a.x, scale, offset, mean, variance, epsilon=float(a.number("eps", 1e-5)))
    ]


@aten("batch_norm", ignores=("momentum", "cudnn_enabled"))
def _batch_norm_of_mode(a: Arguments) -> list[Value]:
    if a.flag("training"):
        raise UnsupportedOp("it is in training mode", hint="export model.eval()")
    return _batch_norm(a)


aten("_native_batch_norm_legit_no_training", ignores=("momentum",))(_batch_norm)


@aten("_native_batch_norm_legit.no_stats", ignores=("momentum",))
def _batch_norm_of_itself(a: Arguments) -> list[Value]:
    """By the statistics of what it is given, as core ATen writes InstanceNorm over pictures side by side."""
    if not a.flag("training"):
        raise UnsupportedOp("it has no statistics to go by")
    _refuse_statistics(a)
    x = a.body.term(a.x)
    axes = [n for n in range(len(x.shape)) if n != 1]
    y = a.body.term(normalized(a.call, a.x, a.integers(axes), float(a.number("eps", 1e-5))))
    return [_scaled(a, y).value]


def _scaled(a: Arguments, y: Term) -> Term:
    """With a weight and a bias for each channel of axis 1."""
    sides = [1] * len(y.shape)
    sides[1] = -1
    weight, bias = a.maybe("weight"), a.maybe("bias")
    y = y if weight is None else y * a.body.term(weight).reshape(sides)
    return y if bias is None else y + a.body.term(bias).reshape(sides)


@aten("instance_norm", ignores=("momentum", "cudnn_enabled", "running_mean", "running_var"))
def _instance_norm(a: Arguments) -> Value:
    if not a.flag("use_input_stats"):
        raise UnsupportedOp("it goes by running statistics")
    x = a.body.term(a.x)
    depth = x.static_size(1, "the number of its channels")
    scale, offset = (
        a.maybe(name) or a.like(np.full(depth, number)) for name, number in (("weight", 1.0), ("bias", 0.0))
    )
    return a.onnx("InstanceNormalization", a.x, scale, offset, epsilon=float(a.number("eps", 1e-5)))


@aten("layer_norm", "native_layer_norm", ignores=("cudnn_enable",))
def _layer_norm(a: Arguments) -> list[Value]:
    x, over = a.body.term(a.x), a.ints("normalized_shape")
    if not over or list(x.shape[-len(over) :]) != over:
        raise UnsupportedOp(f"its normalized_shape is {over}, its operand has other sizes")
    _refuse_statistics(a)
    scale = a.maybe("weight") or a.like(np.ones(over))
    epsilon = float(a.number("eps", 1e-5))
    return [a.onnx("LayerNormalization", a.x, scale, a.maybe("bias"), axis=-len(over), epsilon=epsilon)]


def _refuse_statistics(a: Arguments) -> None:
    if any(a.is_read(n) for n in range(1, len(a.call.node.outputs))):
        raise UnsupportedOp("its mean or deviation is read, which training needs")


@aten("rms_norm", "_fused_rms_norm")
def _rms_norm(a: Arguments) -> list[Value]:
    x, over = a.body.term(a.x), a.ints("normalized_shape")
    if not over or list(x.shape[-len(over) :]) != over:
        raise UnsupportedOp(f"its normalized_shape is {over}, its operand has other sizes")
    _refuse_statistics(a)
    # The smallest step of the operand's type, where nothing is said.
    least = float(np.finfo(x.dtype.numpy()).eps) if x.dtype.is_floating else 0.0
    epsilon = float(a.number("eps", least))
    return [a.onnx("RMSNormalization", a.x, a.maybe("weight") or a.like(np.ones(over)), axis=-len(over),
                   epsilon=epsilon)]  # fmt: skip


@aten("group_norm", "native_group_norm", ignores=("cudnn_enabled", "N", "C", "HxW"))
def _group_norm(a: Arguments) -> list[Value]:
    """Channels of a group together have mean 0 and variance 1."""
    name = "group" if a.has("group") else "num_groups"
    x, groups = a.body.term(a.x), a.integer(name)
    depth = x.static_size(1, "the number of its channels")
    if groups < 1 or depth % groups:
        raise UnsupportedOp(f"it has {groups} groups of {depth} channels")
    _refuse_statistics(a)
    y = group_normalized(a.call, x.value, depth, groups, float(a.number("eps", 1e-5)))
    return [_scaled(a, a.body.term(y)).value]


# --- embeddings and attention -------------------------------------------------------------------------------


@aten("embedding", ignores=("padding_idx", "scale_grad_by_freq", "sparse"))
def _embedding(a: Arguments) -> Value:
    return a.term("weight").gather(a.term("indices"), 0).value


@aten("scaled_dot_product_attention")
def _attention(a: Arguments) -> Value:
    """softmax(q @ k^T * scale + mask) @ v."""
    q, k, v = a.term("query"), a.term("key"), a.term("value")
    if a.number("dropout_p", 0.0):
        raise UnsupportedOp("it drops at random", hint="export model.eval()")
    shared = _heads_for_each(q, k, v) if a.flag("enable_gqa") else 1
    width = q.static_size(-1, "the size of its heads")
    scale = float(a.number("scale")) if a.has("scale") else 1 / math.sqrt(width)
    scores = _by_group(q * scale, k.matrix_transpose(), shared)
    least = float("-inf")
    mask = a.maybe("attn_mask")
    if a.flag("is_causal"):
        rows, columns = (scores.static_size(n, "the length of its sequence") for n in (-2, -1))
        seen = a.body.constant(np.tril(np.ones((rows, columns), bool)), BOOL)
        scores = where(seen, scores, least)
    if mask is None:
        return _by_group(scores.apply("Softmax"), v, shared).value
    term = a.body.term(mask)
    scores = where(term, scores, least) if term.dtype is BOOL else scores + term
    # A row that sees nothing at all gives zeros.
    weights = where(sees_nothing(scores), scores.of(0.0), scores.apply("Softmax"))
    return _by_group(weights, v, shared).value


def _heads_for_each(q: Term, k: Term, v: Term) -> int:
    """How many heads of queries share a head of keys and values."""
    if min(len(t.shape) for t in (q, k, v)) < 3:
        return 1
    heads, keys, values = (t.static_size(-3, "the number of its heads") for t in (q, k, v))
    if keys != values or not keys or heads % keys:
        raise UnsupportedOp(f"its {heads} heads share {keys} heads of keys and {values} of values")
    return heads // keys


def _by_group(x: Term, y: Term, count: int) -> Term:
    """x @ y where neighbouring heads of x share one of y: with their rows in one piece, y is not copied."""
    if count == 1:
        return x @ y
    heads, rows = (size(x, n) for n in (-3, -2))
    assert isinstance(heads, int)
    outer = sizes_of(x)[:-3]
    z = reshaped(x, [*outer, heads // count, product([rows, count]), size(x, -1)]) @ y
    return reshaped(z, [*outer, heads, rows, size(z, -1)])


@aten("cosine_similarity")
def _cosine_similarity(a: Arguments) -> Value:
    x, y = a.term("x1"), a.term("x2")
    rank = max(len(x.shape), len(y.shape))
    axis, least = a.axis("dim", 1, rank), float(a.number("eps", 1e-8))
    x, y = (reshaped(t, [*(1,) * (rank - len(t.shape)), *sizes_of(t)]) for t in (x, y))
    x, y = (t / t.square().sum(axis, keep=True).sqrt().maximum(least) for t in (x, y))
    return (x * y).sum(axis).value


@aten("one_hot")
def _one_hot(a: Arguments) -> Value:
    count = a.integer("num_classes", -1)
    if count < 0:
        raise UnsupportedOp("its number of classes depends on what it is given")
    ends = [a.body.constant(n, INT64).value for n in (1, 0)]
    return a.emit("OneHot", a.x, a.call.constant(count), *ends)


@aten("outer", "ger")
def _outer(a: Arguments) -> Value:
    # Each may be of another type, as steps and frequencies of rotary embeddings are.
    first, second = (operand(a, name, a.dtype) for name in ("self", "vec2"))
    return (first.expand_dims(1) * second.expand_dims(0)).value
