"""The largest elements in the order of XLA's approximate search, and isotonic regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, INT32, DType, TensorSpec
from thinflow.ops._shapes import normalize_axis
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array


@op("ApproxTopK")
class ApproxTopK(OpDef):
    """(values, indices) of the k largest (or smallest) along an axis; found exactly here, as on any CPU."""

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, *, k: int, reduction_dimension: int = -1) -> tuple[TensorSpec, TensorSpec]:
        if x.shape is None:
            return x.with_shape(None), TensorSpec(INT32)
        axis = normalize_axis(reduction_dimension, len(x.shape))
        shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
        return x.with_shape(shape), TensorSpec(INT32, shape)

    @staticmethod
    def kernel(
        x: Array, *, k: int, reduction_dimension: int = -1, is_max_k: bool = True
    ) -> tuple[Array, Array]:
        axis = normalize_axis(reduction_dimension, x.ndim)
        require(0 <= k <= x.shape[axis], f"k is {k}, the axis has {x.shape[axis]} elements")
        moved = np.moveaxis(x, axis, -1)
        if is_max_k:
            # Of equals the first: sorting the reversed axis keeps them in reverse order.
            order = x.shape[axis] - 1 - np.argsort(moved[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        else:
            order = np.argsort(moved, axis=-1, kind="stable")
        chosen = order[..., :k]
        values = np.take_along_axis(moved, chosen, axis=-1)
        return np.moveaxis(values, -1, axis), np.moveaxis(chosen, -1, axis).astype(np.int32)


@op("IsotonicRegression")
class IsotonicRegression(OpDef):
    """(y, segments): the falling y nearest to x in squares, and the number of the block of each element.

    x [batch, n]. Adjacent violators are pooled: T. Robertson et al., "Order restricted statistical
    inference", 1988.
    """

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, *, output_dtype: DType = FLOAT) -> tuple[TensorSpec, TensorSpec]:
        return TensorSpec(output_dtype, x.shape), TensorSpec(INT32, x.shape)

    @staticmethod
    def kernel(x: Array, *, output_dtype: DType = FLOAT) -> tuple[Array, Array]:
        require(x.ndim == 2, f"the input has rank {x.ndim}, 2 is needed")
        y, segments = np.zeros(x.shape, np.float64), np.zeros(x.shape, np.int32)
        for row, values in enumerate(x.astype(np.float64)):
            blocks = _pooled(values.tolist())
            counts = [count for _, count in blocks]
            y[row] = np.repeat([total / count for total, count in blocks], counts)
            segments[row] = np.repeat(np.arange(len(blocks)), counts)
        return y.astype(output_dtype.numpy()), segments


def _pooled(values: list[Any]) -> list[tuple[Any, int]]:
    """(sum, count) of blocks whose means fall."""
    blocks: list[tuple[Any, int]] = []
    for value in values:
        blocks.append((value, 1))
        # Means compared crosswise (both counts are positive), without dividing.
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] < blocks[-1][0] * blocks[-2][1]:
            total, count = blocks.pop()
            blocks[-1] = (blocks[-1][0] + total, blocks[-1][1] + count)
    return blocks
