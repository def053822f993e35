"""Matrix products and biases."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT, DType, TensorSpec
from thinflow.ops import _special
from thinflow.ops._numeric import like, pick, quiet, widen
from thinflow.ops._shapes import broadcast, merge, rank_of
from thinflow.ops.registry import Cost, OpDef, Weights, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


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
        return like(np.matmul(a.astype(np.float32), b.astype(np.float32)), a)
    return np.asarray(np.matmul(a, b))


@op("MatMul")
class MatMul(OpDef):
    """y = a @ b.   a [m,k] ([k,m] if transpose_a), b [k,n] ([n,k] if transpose_b) -> y [m,n]."""

    traits = Trait.MATMUL | Trait.T_OF_FIRST_INPUT
    weights = Weights(1, 0, (1,), 0, 2, 2)

    @staticmethod
    def infer(
        a: TensorSpec, b: TensorSpec, *, transpose_a: bool = False, transpose_b: bool = False
    ) -> TensorSpec:
        return a.with_shape(_matmul_dims(rank_of(a, 2, "a"), rank_of(b, 2, "b"), transpose_a, transpose_b))

    @staticmethod
    def kernel(a: Array, b: Array, *, transpose_a: bool = False, transpose_b: bool = False) -> Array:
        return _product(a.T if transpose_a else a, b.T if transpose_b else b)

    @staticmethod
    def cost(y: TensorSpec, a: TensorSpec, b: TensorSpec, *, transpose_a: bool = False) -> Cost:
        assert a.shape is not None
        assert y.size is not None
        macs = y.size * (a.shape[0 if transpose_a else 1] or 0)
        return Cost(flops=2 * macs, macs=macs)


@op("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
class BatchMatMul(OpDef):
    """y = a @ b per matrix.

    a [..., m,k], b [..., k,n] -> y [..., m,n]; leading axes broadcast; adj_* conjugate-transposes.

    V3 takes two types and sums in a third, Tout: int8 by int8 gives int32.
    """

    traits = Trait.MATMUL | Trait.T_OF_FIRST_INPUT
    weights = Weights(1, 0, (1,), 0, 2, None)

    @staticmethod
    def infer(
        a: TensorSpec, b: TensorSpec, *, adj_x: bool = False, adj_y: bool = False, Tout: DType | None = None
    ) -> TensorSpec:
        element = a.dtype if Tout is None else Tout
        if a.shape is None or b.shape is None:
            return TensorSpec(element)
        require(len(a.shape) >= 2 and len(b.shape) >= 2, f"both sides need rank 2 or more, got {a} and {b}")
        lead = broadcast(a.shape[:-2], b.shape[:-2])
        assert lead is not None
        return TensorSpec(element, lead + _matmul_dims(a.shape[-2:], b.shape[-2:], adj_x, adj_y))

    @staticmethod
    def kernel(
        a: Array, b: Array, *, adj_x: bool = False, adj_y: bool = False, Tout: DType | None = None
    ) -> Array:
        # Widened before the product: sums of int8 products need the room of Tout.
        if Tout is not None:
            a, b = a.astype(Tout.numpy(), copy=False), b.astype(Tout.numpy(), copy=False)
        return _product(_adjoint(a) if adj_x else a, _adjoint(b) if adj_y else b)

    @staticmethod
    def cost(y: TensorSpec, a: TensorSpec, b: TensorSpec, *, adj_x: bool = False) -> Cost:
        assert a.shape is not None
        assert y.size is not None
        macs = y.size * (a.shape[-2 if adj_x else -1] or 0)
        return Cost(flops=2 * macs, macs=macs)


def _adjoint(x: Array) -> Array:
    swapped = np.swapaxes(x, -1, -2)
    return swapped.conj() if x.dtype.kind == "c" else swapped


@op("BiasAdd", "BiasAddV1")
class BiasAdd(OpDef):
    """y = x + bias, along the channel axis.

    x [n,...,c] (NHWC) or [n,c,...] (NCHW), bias [c] -> y like x.
    """

    traits = Trait.BIAS_ADD | Trait.T_OF_FIRST_INPUT

    @staticmethod
    def infer(x: TensorSpec, bias: TensorSpec, *, data_format: str = "NHWC") -> TensorSpec:
        (channels,) = rank_of(bias, 1, "bias")
        if x.shape is not None:
            size = x.shape[_channel_axis(len(x.shape), data_format)]
            require(
                None in (size, channels) or size == channels,
                f"bias has {channels} values for {size} channels",
            )
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, bias: Array, *, data_format: str = "NHWC") -> Array:
        axis = _channel_axis(x.ndim, data_format)
        return x + bias.reshape((-1,) + (1,) * (x.ndim - 1 - axis))


def _channel_axis(rank: int, data_format: str) -> int:
    require(rank >= 2, f"x has rank {rank}, at least 2 is needed")
    # NCHW and NCDHW alike.
    return 1 if data_format.startswith("NC") else rank - 1


@op("SparseMatMul")
class SparseMatMul(OpDef):
    """y = a @ b in float, for matrices with many zeros; a and b may be bfloat16.   Shapes as for MatMul."""

    @staticmethod
    def infer(
        a: TensorSpec, b: TensorSpec, *, transpose_a: bool = False, transpose_b: bool = False
    ) -> TensorSpec:
        return TensorSpec(FLOAT, MatMul.infer(a, b, transpose_a=transpose_a, transpose_b=transpose_b).shape)

    @staticmethod
    def kernel(a: Array, b: Array, *, transpose_a: bool = False, transpose_b: bool = False) -> Array:
        return MatMul.kernel(widen(a), widen(b), transpose_a=transpose_a, transpose_b=transpose_b)

    @staticmethod
    def cost(y: TensorSpec, a: TensorSpec, b: TensorSpec, *, transpose_a: bool = False) -> Cost:
        return MatMul.cost(y, a, b, transpose_a=transpose_a)


@op("_FusedMatMul")
class FusedMatMul(OpDef):
    """y = activation(a @ b + bias).   bias [n]; fused_ops is BiasAdd alone or followed by one activation."""

    @staticmethod
    def infer(
        a: TensorSpec, b: TensorSpec, *extra: TensorSpec, transpose_a: bool = False, transpose_b: bool = False
    ) -> TensorSpec:
        y = MatMul.infer(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
        assert y.shape is not None
        if extra:
            # For its check only: the product's columns have their sizes from b already.
            merge(y.shape[1:], rank_of(extra[0], 1, "the bias"))
        return y

    @staticmethod
    @quiet
    def kernel(
        a: Array, b: Array, *extra: Array, transpose_a: bool = False, transpose_b: bool = False,
        fused_ops: tuple[str, ...] = (), leakyrelu_alpha: float = 0.2,
    ) -> Array:  # fmt: skip
        y = MatMul.kernel(widen(a), widen(b), transpose_a=transpose_a, transpose_b=transpose_b)
        for name in fused_ops:
            y = y + widen(extra[0]) if name == "BiasAdd" else fused_activation(name, y, leakyrelu_alpha)
        return like(y, a)

    @staticmethod
    def cost(
        y: TensorSpec, a: TensorSpec, b: TensorSpec, *extra: TensorSpec, transpose_a: bool = False
    ) -> Cost:
        return MatMul.cost(y, a, b, transpose_a=transpose_a) + Cost(flops=len(extra) * (y.size or 0))


def fused_activation(name: str, x: Array, leakyrelu_alpha: float = 0.2) -> Array:
    """The activation that TensorFlow's optimizer names in the `fused_ops` of a kernel. x: float or double.

    Raises:
        UnsupportedOp: no such activation.
    """
    if name == "Relu":
        return np.maximum(x, 0)
    if name == "Relu6":
        return np.clip(x, 0, 6)
    if name == "Elu":
        return np.where(x < 0, np.expm1(np.minimum(x, 0)), x)
    if name == "LeakyRelu":
        return np.where(x > 0, x, x * x.dtype.type(leakyrelu_alpha))
    if name == "Tanh":
        return np.tanh(x)
    if name == "Sigmoid":
        return np.asarray(1 / (1 + np.exp(-x)))
    if name == "GeluExact":
        return like(0.5 * x * (1 + _special.erf(x / np.sqrt(2.0))), x)
    if name == "GeluApproximate":
        return like(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), x)
    raise UnsupportedOp(
        f"'{name}' in fused_ops is not known", hint="load the graph as it was before TensorFlow fused it"
    )


@op("Cross")
class Cross(OpDef):
    """z = vector product of each pair of 3-vectors.   x, y [..., 3] of one shape."""

    @staticmethod
    def infer(x: TensorSpec, y: TensorSpec) -> TensorSpec:
        shape = merge(x.shape, y.shape)
        require(shape is None or (len(shape) > 0 and shape[-1] in (3, None)), "the last dimension must be 3")
        return TensorSpec(pick(x, y), shape if shape is None else (*shape[:-1], 3))

    @staticmethod
    @quiet
    def kernel(x: Array, y: Array) -> Array:
        require(x.shape == y.shape and x.shape[-1:] == (3,), "x and y must have one shape that ends in 3")
        (x0, x1, x2), (y0, y1, y2) = np.moveaxis(widen(x), -1, 0), np.moveaxis(widen(y), -1, 0)
        return like(np.stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], axis=-1), x)

    @staticmethod
    def cost(z: TensorSpec, x: TensorSpec, y: TensorSpec) -> Cost:
        return Cost(flops=3 * (z.size or 0))
