"""Layers: convolutions, pools, matrix products, norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.coreml.builder import Builder, Var, whole
from thinflow.lower.coreml.rules import says
from thinflow.onnx.program import Operator
from thinflow.typing import Array


def pairs(pads: list[int]) -> list[int]:
    """ONNX's pads, all beginnings before all ends, as MIL has them: in pairs."""
    half = len(pads) // 2
    return [n for pair in zip(pads[:half], pads[half:], strict=True) for n in pair]


def _padding(o: Operator, rank: int) -> dict[str, Any]:
    mode = o.options.get("auto_pad", "NOTSET")
    if mode == "SAME_UPPER":
        return {"pad_type": "same"}
    if mode == "VALID":
        return {"pad_type": "valid"}
    if mode != "NOTSET":
        raise UnsupportedOp(f"its padding {mode} is not written")
    return {"pad_type": "custom", "pad": pairs(whole(o.options.get("pads", [0] * 2 * rank)))}


def _window(b: Builder, o: Operator, x: Var) -> tuple[int, dict[str, Any]]:
    """The number of axes that a window moves along, and its strides and padding."""
    rank = len(x.shape) - 2
    if rank not in (1, 2, 3):
        raise UnsupportedOp(f"it moves along {rank} axes; Core ML has 1 to 3")
    return rank, {"strides": whole(o.options.get("strides", [1] * rank)), **_padding(o, rank)}


def _bias(b: Builder, o: Operator) -> Array | None:
    found = b.maybe_known(o, 2)
    return None if found is None else found.astype(np.float32)


def _added(b: Builder, o: Operator, y: Var) -> Var:
    """Add a bias that is computed, [c]."""
    if not b.has(o, 2) or b.maybe_known(o, 2) is not None:
        return y
    row = b.mb.expand_dims(x=b.read(o, 2), axes=list(range(1, len(y.shape) - 1)))
    return b.mb.add(x=y, y=row)


@says("Conv")
def conv(b: Builder, o: Operator) -> Var:
    """x [n,c,...], w [k,c/groups,...]."""
    x = b.require_float(b.read(o, 0))
    rank, options = _window(b, o, x)
    bias = _bias(b, o)
    if bias is not None:
        options["bias"] = bias
    dilations = whole(o.options.get("dilations", [1] * rank))
    y = b.mb.conv(
        x=x, weight=b.read(o, 1), dilations=dilations, groups=int(o.options.get("group", 1)), **options
    )
    return _added(b, o, y)


@says("ConvTranspose")
def conv_transpose(b: Builder, o: Operator) -> Var:
    """x [n,c,...], w [c,k/groups,...]. With output_padding fewer rows are cut off behind the last."""
    x = b.require_float(b.read(o, 0))
    rank, options = _window(b, o, x)
    if options["pad_type"] != "custom" or "output_shape" in o.options:
        raise UnsupportedOp("its padding follows from its output's shape")
    w = b.known(o, 1, "its filter").astype(np.float32)
    bias = _bias(b, o)
    pad, more = options["pad"], whole(o.options.get("output_padding", [0] * rank))
    after = [pad[2 * i + 1] - more[i] for i in range(rank)]
    short = [max(-n, 0) for n in after]
    options["pad"] = [n for i in range(rank) for n in (pad[2 * i], max(after[i], 0))]
    if bias is not None and not any(short):
        options["bias"] = bias
    y = b.mb.conv_transpose(
        x=x,
        weight=w,
        dilations=whole(o.options.get("dilations", [1] * rank)),
        groups=int(o.options.get("group", 1)),
        **options,
    )
    if any(short):
        # Nothing reaches the rows behind the whole result but the bias.
        y = b.mb.pad(x=y, pad=[n for m in short for n in (0, m)], mode="constant", constant_val=0.0)
        if bias is not None:
            y = b.mb.add(x=y, y=bias.reshape(-1, *[1] * rank))
    return _added(b, o, y)


@says("MaxPool", "AveragePool")
def pool(b: Builder, o: Operator) -> Var:
    """x [n,c,...]."""
    x = b.require_float(b.read(o, 0))
    _, options = _window(b, o, x)
    if len(o.outputs) > 1:
        raise UnsupportedOp("Core ML does not tell where a largest number was")
    if any(n != 1 for n in whole(o.options.get("dilations", [1]))):
        raise UnsupportedOp("Core ML's pools have no dilations")
    if o.options.get("ceil_mode", 0):
        options["ceil_mode"] = True
    options["kernel_sizes"] = whole(o.options["kernel_shape"])
    if o.code == "MaxPool":
        return b.mb.max_pool(x=x, **options)
    counted = bool(o.options.get("count_include_pad", 0))
    return b.mb.avg_pool(x=x, exclude_padding_from_average=not counted, **options)


@says("GlobalAveragePool", "GlobalMaxPool")
def global_pool(b: Builder, o: Operator) -> Var:
    x = b.require_float(b.read(o, 0))
    axes = list(range(2, len(x.shape)))
    reduce = b.mb.reduce_mean if o.code == "GlobalAveragePool" else b.mb.reduce_max
    return reduce(x=x, axes=axes, keep_dims=True)


@says("MatMul")
def matmul(b: Builder, o: Operator) -> Var:
    """x [..., m,k], y [..., k,n]; a vector stands for a row on the left, for a column on the right."""
    x, y = b.read(o, 0), b.read(o, 1)
    row, column = len(x.shape) == 1, len(y.shape) == 1
    x = b.mb.expand_dims(x=x, axes=[0]) if row else x
    y = b.mb.expand_dims(x=y, axes=[1]) if column else y
    product = b.mb.matmul(x=x, y=y)
    if row and column:
        return b.mb.reshape(x=product, shape=np.zeros(0, np.int32))
    gone = [-2] * row + [-1] * column
    return b.mb.squeeze(x=product, axes=gone) if gone else product


@says("Gemm")
def gemm(b: Builder, o: Operator) -> Var:
    """alpha * a @ b + beta * c; one `linear` where weights and bias are constant."""
    x, w = b.require_float(b.read(o, 0)), b.maybe_known(o, 1)
    alpha, beta = float(o.options.get("alpha", 1.0)), float(o.options.get("beta", 1.0))
    left, right = bool(o.options.get("transA", 0)), bool(o.options.get("transB", 0))
    bias = b.maybe_known(o, 2)
    is_row = bias is None or bias.size == (w.shape[0 if right else 1] if w is not None else 0)
    fits = w is not None and not left and is_row and not (b.has(o, 2) and bias is None)
    if fits and w is not None:
        weight = np.ascontiguousarray(w if right else w.T, np.float32) * np.float32(alpha)
        if bias is None:
            return b.mb.linear(x=x, weight=weight)
        row = bias.reshape(-1).astype(np.float32) * np.float32(beta)
        return b.mb.linear(x=x, weight=weight, bias=row)
    y = b.mb.matmul(x=x, y=b.read(o, 1), transpose_x=left, transpose_y=right)
    if alpha != 1:
        y = b.mb.mul(x=y, y=np.float32(alpha))
    if not b.has(o, 2):
        return y
    addend = b.read(o, 2)
    return b.mb.add(x=y, y=addend if beta == 1 else b.mb.mul(x=addend, y=np.float32(beta)))


@says("BatchNormalization")
def batch_norm(b: Builder, o: Operator) -> Var:
    """x [n,c,...]; as a factor and an addend where MIL's own does not take so many axes."""
    x = b.require_float(b.read(o, 0))
    names = ("its scale", "its offset", "its mean", "its variance")
    scale, offset, mean, variance = (
        b.known(o, i, name).astype(np.float32) for i, name in enumerate(names, 1)
    )
    epsilon = float(o.options.get("epsilon", 1e-5))
    if len(x.shape) in (3, 4, 5) and epsilon > 0:
        return b.mb.batch_norm(
            x=x, mean=mean, variance=variance, gamma=scale, beta=offset, epsilon=np.float32(epsilon)
        )
    factor = scale / np.sqrt(variance + np.float32(epsilon))
    column = (-1, *[1] * (len(x.shape) - 2))
    y = b.mb.mul(x=x, y=factor.reshape(column))
    return b.mb.add(x=y, y=(offset - mean * factor).reshape(column))


@says("LayerNormalization")
def layer_norm(b: Builder, o: Operator) -> Var:
    """Over all axes from one on, the scale and the offset of as many."""
    x, axis = b.require_float(b.read(o, 0)), int(o.options.get("axis", -1))
    rank = len(x.shape)
    rows = {"gamma": b.known(o, 1, "its scale").astype(np.float32)}
    if b.has(o, 2):
        rows["beta"] = b.known(o, 2, "its offset").astype(np.float32)
    epsilon = np.float32(o.options.get("epsilon", 1e-5))
    return b.mb.layer_norm(x=x, axes=list(range(axis % rank, rank)), epsilon=epsilon, **rows)


@says("LRN")
def lrn(b: Builder, o: Operator) -> Var:
    """x [n,c,...], over channels."""
    x = b.require_float(b.read(o, 0))
    size = int(o.options["size"])
    if size % 2 == 0:
        raise UnsupportedOp("its window has an even size, which has no middle")
    return b.mb.local_response_norm(
        x=x,
        size=size,
        alpha=np.float32(o.options.get("alpha", 1e-4)),
        beta=np.float32(o.options.get("beta", 0.75)),
        k=np.float32(o.options.get("bias", 1.0)),
    )
