"""LiteRT's integer SVDF: a layer of low rank over the features of the last steps."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import TensorSpec, dtype
from thinflow.ops._fixed_point import saturated, scaled, wrapped
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.typing import Array

_INT8, _INT16 = dtype("int8"), dtype("int16")


@op("LiteRTIntegerSVDF")
class LiteRTIntegerSVDF(OpDef):
    """LiteRT's SVDF of eight-bit codes, bit by bit.

    x [batch,inputs] int8, features [filters,inputs] int8, times [filters,memory] int16, bias [units] int32,
    state [batch,filters*memory] int16 -> y [batch,units] int8, state after the step.

    Attributes:
        rank: filters that make up a unit.
        factors: the pair from a feature's sum to the state's scale, and that from sums over time to y's.
        zeros: the zero points of x and y.
        scales: of x, features, times, state and y, as a LiteRT file has them; only for writing such a file.
    """

    num_outputs = 2

    @staticmethod
    def infer(
        x: TensorSpec, features: TensorSpec, times: TensorSpec, bias: TensorSpec, state: TensorSpec
    ) -> tuple[TensorSpec, ...]:
        shape = (x.shape[0], bias.shape[0]) if x.shape and bias.shape else None
        return TensorSpec(_INT8, shape), TensorSpec(_INT16, state.shape)

    @staticmethod
    def kernel(
        x: Array,
        features: Array,
        times: Array,
        bias: Array,
        state: Array,
        *,
        rank: int = 1,
        factors: tuple[int, ...] = (),
        zeros: tuple[int, ...] = (),
        scales: tuple[float, ...] = (),
    ) -> tuple[Array, Array]:
        del scales  # of the file: factors say all that is computed
        filters, memory = times.shape
        batch = len(x)
        require(
            state.size == batch * times.size and bias.size * rank == filters and len(factors) == 4,
            f"a state of {state.size} and a bias of {bias.size} do not fit {filters} filters of rank {rank}",
        )
        # int64 throughout: products of 32 and 31 bits must not wrap before they are scaled.
        sums = (x.astype(np.int64) - zeros[0]) @ features.astype(np.int64).T
        newest = saturated(scaled(wrapped(sums, 32), *factors[:2]), 16)
        # The oldest falls out in front.
        older = state.astype(np.int64).reshape(batch, filters, memory)[:, :, 1:]
        kept = np.concatenate([older, newest[:, :, None]], 2)
        parts = (kept * times.astype(np.int64)).sum(2).reshape(batch, -1, rank).sum(2)
        total = wrapped(parts + bias, 32)
        # The kernel has no activation of its own: a zero point of -128 makes the bound a rectifier.
        y = saturated(scaled(total, *factors[2:]) + zeros[1], 8)
        return y.astype(np.int8), kept.reshape(state.shape).astype(np.int16)

    @staticmethod
    def cost(
        y: TensorSpec, x: TensorSpec, features: TensorSpec, times: TensorSpec, *rest: TensorSpec
    ) -> Cost:
        rows = (x.shape or (0,))[0] or 0
        macs = rows * ((features.size or 0) + (times.size or 0))
        return Cost(2 * macs, macs)
