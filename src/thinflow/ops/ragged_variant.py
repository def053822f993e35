"""Ragged tensors packed into single elements, which loops and lists carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.ir.types import INT64, VARIANT, DType, TensorSpec
from thinflow.ops.ragged import checked_all
from thinflow.ops.registry import Handle, OpDef, op, require
from thinflow.ops.traits import Role
from thinflow.typing import Array


@dataclass(frozen=True, eq=False)
class RaggedValue(Handle):
    """A ragged tensor: nested splits from the outside, and values."""

    nested: tuple[Array, ...]
    values: Array


@op("RaggedTensorToVariant")
class RaggedTensorToVariant(OpDef):
    """A ragged tensor as one element [], or as one for each of its rows [n].   RAGGED_RANK splits, values."""

    roles = (Role.SPLITS,)

    @staticmethod
    def infer(*inputs: TensorSpec, batched_input: bool) -> TensorSpec:
        if not batched_input:
            return TensorSpec(VARIANT, ())
        first = inputs[0].shape
        count = first[0] if first else None
        return TensorSpec(VARIANT, (None if count is None else count - (len(inputs) > 1),))

    @staticmethod
    def kernel(*inputs: Array, batched_input: bool) -> Any:
        *nested, values = inputs
        checked_all(nested, len(values)) if nested else None
        if not batched_input:
            return RaggedValue(tuple(nested), values)
        rows = len(nested[0]) - 1 if nested else len(values)
        y: Array = np.empty(rows, object)
        for row in range(rows):
            y[row] = _row(nested, values, row) if nested else RaggedValue((), values[row, ...])
        return y


def _row(nested: Sequence[Array], values: Array, row: int) -> RaggedValue:
    # Each level cuts the one below: the row's splits, moved to start from 0.
    first, last = int(nested[0][row]), int(nested[0][row + 1])
    kept: list[Array] = []
    for splits in nested[1:]:
        part = splits[first : last + 1]
        kept.append(part - part[0])
        first, last = int(part[0]), int(part[-1])
    return RaggedValue(tuple(kept), values[first:last])


@op("RaggedTensorFromVariant")
class RaggedTensorFromVariant(OpDef):
    """The ragged tensor that elements [...] make up, each of input_ragged_rank (-1: what is left)."""

    num_outputs = ""

    @staticmethod
    def infer(
        encoded: TensorSpec, *, output_ragged_rank: int, Tvalues: DType, Tsplits: DType = INT64
    ) -> tuple[TensorSpec, ...]:
        return (*(TensorSpec(Tsplits, (None,)) for _ in range(output_ragged_rank)), TensorSpec(Tvalues))

    @staticmethod
    def kernel(
        encoded: Any,
        *,
        input_ragged_rank: int,
        output_ragged_rank: int,
        Tvalues: DType,
        Tsplits: DType = INT64,
    ) -> tuple[Array, ...]:
        kind = Tsplits.numpy()
        if isinstance(encoded, RaggedValue):
            require(
                len(encoded.nested) == output_ragged_rank,
                f"the element has {len(encoded.nested)} levels of rows",
            )
            return (*(s.astype(kind) for s in encoded.nested), encoded.values)
        inner = input_ragged_rank if input_ragged_rank >= 0 else output_ragged_rank - encoded.ndim
        require(
            encoded.ndim + inner == output_ragged_rank, f"{encoded.ndim} axes of elements with {inner} levels"
        )
        items: list[RaggedValue] = encoded.ravel().tolist()
        require(all(len(i.nested) == inner for i in items), f"an element has not {inner} levels of rows")
        # Axes of the elements' own tensor are even: their splits are multiples of a size.
        outer = [
            np.arange(int(np.prod(encoded.shape[:axis])) + 1) * encoded.shape[axis]
            for axis in range(1, encoded.ndim)
        ]
        levels = [_joined([i.nested[level] for i in items]) for level in range(inner)]
        first = [len(i.nested[0]) - 1 if inner else len(i.values) for i in items]
        nested = (*outer, np.cumsum([0, *first]), *levels)
        values = np.concatenate([i.values for i in items]) if items else np.zeros(0, Tvalues.numpy())
        return (*(s.astype(kind) for s in nested), values)


def _joined(parts: Sequence[Array]) -> Array:
    """Splits one after the other, each going on where the last one ended."""
    ends = np.cumsum([0, *(int(p[-1]) for p in parts)])
    return np.concatenate(
        [np.zeros(1, np.int64), *(p[1:] + end for p, end in zip(parts, ends, strict=False))]
    )
