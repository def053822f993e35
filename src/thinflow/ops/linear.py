"""Matrix products and biases."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._shapes import broadcast, rank_of
from thinflow.ops.registry import Cost, OpDef, op, require

Array = np.ndarray[Any, Any]


def _matmul_dims(
    a: tuple[int | None, ...], b: tuple[int | None, ...], transpose_a: bool, transpose_b: bool
) -> tuple[int | None, int | None]:
    m, k = a[::-1] if transpose_a else a
    k_of_b, n = b[::-1] if transpose_b else b
    require(k == k_of_b or None in (k, k_of_b), f"inner sizes differ: {k} and {k_of_b}")
    return m, n


def _product(a: Array, b: Array) -> Array:
    """a @ b in the type of a; narrow floats accumulate in float32, as TensorFlow's CPU kernels do."""
    if a.dtype.itemsize == 2 and a.dtype.kind not in "iu":
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    return np.matmul(a, b)


@op("MatMul")
class MatMul(OpDef):
    """y = a @ b.   a [m,k] ([k,m] if transpose_a), b [k,n] ([n,k] if transpose_b) -> y [m,n]."""

    @staticmethod
    def infer(a: TensorSpec, b: TensorSpec, *, transpose_a: bool = False, transpose_b: bool = False) -> TensorSpec:
        return a.with_shape(_matmul_dims(rank_of(a, 2, "a"), rank_of(b, 2, "b"), transpose_a, transpose_b))

    @staticmethod
    def kernel(a: Array, b: Array, *, transpose_a: bool = False, transpose_b: bool = False) -> Array:
        return _product(a.T if transpose_a else a, b.T if transpose_b else b)

    @staticmethod
    def cost(y: TensorSpec, a: TensorSpec, b: TensorSpec, *, transpose_a: bool = False) -> Cost:
        assert a.shape is not None and y.size is not None
        macs = y.size * (a.shape[0 if transpose_a else 1] or 0)
        return Cost(flops=2 * macs, macs=macs)


@op("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
class BatchMatMul(OpDef):
    """y = a @ b per matrix.   a [..., m,k], b [..., k,n] -> y [..., m,n]; leading axes broadcast; adj_* conjugate-transposes."""

    @staticmethod
    def infer(a: TensorSpec, b: TensorSpec, *, adj_x: bool = False, adj_y: bool = False) -> TensorSpec:
        if a.shape is None or b.shape is None:
            return a.with_shape(None)
        require(len(a.shape) >= 2 and len(b.shape) >= 2, f"both sides need rank 2 or more, got {a} and {b}")
        lead = broadcast(a.shape[:-2], b.shape[:-2])
        assert lead is not None
        return a.with_shape(lead + _matmul_dims(a.shape[-2:], b.shape[-2:], adj_x, adj_y))

    @staticmethod
    def kernel(a: Array, b: Array, *, adj_x: bool = False, adj_y: bool = False) -> Array:
        return _product(_adjoint(a) if adj_x else a, _adjoint(b) if adj_y else b)

    @staticmethod
    def cost(y: TensorSpec, a: TensorSpec, b: TensorSpec, *, adj_x: bool = False) -> Cost:
        assert a.shape is not None and y.size is not None
        macs = y.size * (a.shape[-2 if adj_x else -1] or 0)
        return Cost(flops=2 * macs, macs=macs)


def _adjoint(x: Array) -> Array:
    swapped = np.swapaxes(x, -1, -2)
    return swapped.conj() if x.dtype.kind == "c" else swapped


@op("BiasAdd", "BiasAddV1")
class BiasAdd(OpDef):
    """y = x + bias, along the channel axis.   x [n,...,c] (NHWC) or [n,c,...] (NCHW), bias [c] -> y like x."""

    @staticmethod
    def infer(x: TensorSpec, bias: TensorSpec, *, data_format: str = "NHWC") -> TensorSpec:
        (channels,) = rank_of(bias, 1, "bias")
        if x.shape is not None:
            size = x.shape[_channel_axis(len(x.shape), data_format)]
            require(None in (size, channels) or size == channels, f"bias has {channels} values for {size} channels")
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, bias: Array, *, data_format: str = "NHWC") -> Array:
        axis = _channel_axis(x.ndim, data_format)
        return x + bias.reshape((-1,) + (1,) * (x.ndim - 1 - axis))


def _channel_axis(rank: int, data_format: str) -> int:
    require(rank >= 2, f"x has rank {rank}, at least 2 is needed")
    return 1 if data_format.startswith("NC") else rank - 1
