"""MIL's convolutions, pools, products and norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT64
from thinflow.lift.coreml.rules import ints, mil, number, onnx, row, word
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.math import normalized
from thinflow.lift.onnx.values import along, like, rank, transposed

_AUTO_PADS = {"same": "SAME_UPPER", "same_lower": "SAME_LOWER", "valid": "VALID"}


def _window(c: Call, count: int) -> dict[str, Any]:
    """Strides and padding, as ONNX has them: all beginnings before all ends."""
    options: dict[str, Any] = {"strides": ints(c, "strides", (1,) * count)}
    mode, pads = word(c, "pad_type", "valid"), ints(c, "pad", (0,) * 2 * count)
    if mode in _AUTO_PADS:
        return options | {"auto_pad": _AUTO_PADS[mode]}
    if mode != "custom" or len(pads) != 2 * count:
        raise UnsupportedOp(f"it pads by '{mode[:20]}' and {len(pads)} numbers")
    return options | {"pads": (*pads[::2], *pads[1::2])}


@mil("conv")
def _conv(c: Call) -> Value:
    """x [n,c,...], w [k,c/groups,...]."""
    count = rank(c) - 2
    return onnx(
        c, "Conv", c[0], c[1], c[2] if c.has(2) else None, group=int(number(c, "groups", 1)),
        dilations=ints(c, "dilations", (1,) * count), **_window(c, count),
    )  # fmt: skip


@mil("conv_transpose")
def _conv_transpose(c: Call) -> Value:
    """x [n,c,...], w [c,k/groups,...]."""
    count = rank(c) - 2
    return onnx(
        c, "ConvTranspose", c[0], c[1], c[2] if c.has(2) else None, group=int(number(c, "groups", 1)),
        dilations=ints(c, "dilations", (1,) * count), **_window(c, count),
    )  # fmt: skip


def _pooled(c: Call, op: str, **more: Any) -> Value:
    kernel = ints(c, "kernel_sizes")
    options = _window(c, len(kernel)) | more
    if c.flag("ceil_mode"):
        options["ceil_mode"] = 1
    return onnx(c, op, c[0], kernel_shape=kernel, **options)


@mil("max_pool")
def _max_pool(c: Call) -> Value:
    return _pooled(c, "MaxPool")


@mil("avg_pool")
def _avg_pool(c: Call) -> Value:
    counted = not c.flag("exclude_padding_from_average")
    return _pooled(c, "AveragePool", **({"count_include_pad": 1} if counted else {}))


@mil("linear")
def _linear(c: Call) -> Value:
    """x [..., n], w [k,n] -> [..., k]."""
    if rank(c) == 2:
        return onnx(c, "Gemm", c[0], c[1], c[2] if c.has(2) else None, transB=1)
    y = onnx(c, "MatMul", c[0], transposed(c, c[1], (1, 0)))
    return c.emit("AddV2", y, c[2]) if c.has(2) else y


@mil("matmul")
def _matmul(c: Call) -> Value:
    x, y = c[0], c[1]
    x = _turned(c, x, rank(c)) if c.flag("transpose_x") else x
    y = _turned(c, y, rank(c, 1)) if c.flag("transpose_y") else y
    return onnx(c, "MatMul", x, y)


def _turned(c: Call, x: Value, count: int) -> Value:
    return transposed(c, x, (*range(count - 2), count - 1, count - 2))


@mil("einsum")
def _einsum(c: Call) -> Value:
    return onnx(c, "Einsum", *(c[i] for i in range(len(c.xs))), equation=word(c, "equation"))


@mil("batch_norm")
def _batch_norm(c: Call) -> Value:
    mean = c.known(1)
    ones, zeros = np.ones_like(mean), np.zeros_like(mean)
    gamma = c[3] if c.has(3) else c.constant(ones)
    beta = c[4] if c.has(4) else c.constant(zeros)
    epsilon = number(c, "epsilon", 1e-5)
    return onnx(c, "BatchNormalization", c[0], gamma, beta, c[1], c[2], epsilon=epsilon)


def _scaled(c: Call, y: Value, axis: int | None) -> Value:
    """A factor and an addend behind a norm, along an axis, or as they broadcast."""
    for place, op in ((1, "Mul"), (2, "AddV2")):
        if c.has(place):
            y = c.emit(op, y, c[place] if axis is None else along(c, c[place], axis, rank(c)))
    return y


@mil("instance_norm")
def _instance_norm(c: Call) -> Value:
    axes = row(c, range(2, rank(c)))
    return _scaled(c, normalized(c, c[0], axes, number(c, "epsilon", 1e-5)), 1)


@mil("layer_norm")
def _layer_norm(c: Call) -> Value:
    """Over some axes; factors have the sizes of those, which have to be the last ones."""
    count = rank(c)
    axes = sorted(a % count for a in ints(c, "axes", range(count)))
    if axes != list(range(count - len(axes), count)) and (c.has(1) or c.has(2)):
        raise UnsupportedOp(f"its factors go along the axes {axes} of {count}")
    return _scaled(c, normalized(c, c[0], row(c, axes), number(c, "epsilon", 1e-5)), None)


@mil("l2_norm")
def _l2_norm(c: Call) -> Value:
    """x / sqrt(sum(x^2) + epsilon), over the last three axes."""
    axes = row(c, range(max(rank(c) - 3, 0), rank(c)))
    total = c.emit("Sum", c.emit("Square", c[0]), axes, keep_dims=True, Tidx=INT64)
    return c.emit(
        "Mul", c[0], c.emit("Rsqrt", c.emit("AddV2", total, like(c, number(c, "epsilon", 1e-6), c[0])))
    )


@mil("local_response_norm")
def _lrn(c: Call) -> Value:
    return onnx(
        c, "LRN", c[0], size=int(number(c, "size", 1)), alpha=number(c, "alpha", 1e-4),
        beta=number(c, "beta", 0.75), bias=number(c, "k", 1.0),
    )  # fmt: skip
