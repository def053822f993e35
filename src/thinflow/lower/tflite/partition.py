"""Rows taken apart by group, and put together again."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, INT32, INT64
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require, shape_of
from thinflow.lower.tflite.program import Tensor
from thinflow.typing import Array

_MOST_PARTS = 1 << 10


@lower("DynamicPartition", to="tflite")
def dynamic_partition(
    b: Builder, node: Node, x: Tensor, partitions: Tensor, *, num_partitions: int
) -> tuple[Tensor, ...]:
    """The rows of x of each group, in their order."""
    lead = len(shape_of(partitions, "the group numbers"))
    require(0 < num_partitions <= _MOST_PARTS, f"{num_partitions} groups")
    rows, numbers = _rows(b, x, lead), _flat(b, b.index(partitions))
    return tuple(_group(b, rows, numbers, n) for n in range(num_partitions))


def _group(b: Builder, rows: Tensor, numbers: Tensor, group: int) -> Tensor:
    chosen = b.step("EQUAL", numbers, b.scalar(group, numbers), shape=numbers.shape, element=BOOL)
    places = b.step("WHERE", chosen, shape=(None, 1), element=INT64)
    places = b.index(b.reshaped(places, (None,)))
    return b.emit("GATHER", rows, places, port=group, like=rows, axis=0)


@lower("DynamicStitch", "ParallelDynamicStitch", to="tflite")
def dynamic_stitch(b: Builder, node: Node, *operands: Tensor) -> Tensor:
    """Each row of the result is the last of all rows that are meant for it; zeros where none is."""
    half = len(operands) // 2
    require(half > 0 and len(operands) == 2 * half, "it needs as many lists of places as of rows")
    places = _joined(b, [_flat(b, b.index(t)) for t in operands[:half]])
    leads = [len(shape_of(t, "the places")) for t in operands[:half]]
    rows = _joined(b, [_rows(b, x, n) for x, n in zip(operands[half:], leads, strict=True)])
    if places.is_constant:
        last = _last_rows(np.asarray(places.array()))
        if (last >= 0).all():
            return b.emit("GATHER", rows, b.const(last, "source"), axis=0)
    source = b.const(last, "source") if places.is_constant else _sources(b, places)
    count, *rest = (source.shape or (None,))[0], *shape_of(rows)[1:]
    zero = b.const(np.int32(0), "zero")
    first = b.step("MAXIMUM", source, zero, shape=(count,))
    found = b.step("GATHER", rows, first, shape=(count, *rest), axis=0)
    is_there = b.step("GREATER_EQUAL", source, zero, shape=(count,), element=BOOL)
    beside = b.reshaped(is_there, (count, *(1 for _ in rest)))
    return b.emit("SELECT_V2", beside, found, b.scalar(0, rows, "nothing"))


def _last_rows(places: Array) -> Array:
    """For each row of the result the number of the last row that is meant for it; -1 if there is none."""
    last = np.full(places.max(initial=-1) + 1, -1, np.int32)
    last[places] = np.arange(len(places))
    return last


def _sources(b: Builder, places: Tensor) -> Tensor:
    """The same when the model runs; some number below 0 if there is none."""
    every = b.step("CONCATENATION", places, b.ints([-1]), shape=(None,), axis=0)
    highest = b.step("REDUCE_MAX", every, b.ints([0], "axis"), shape=(), keep_dims=False)
    size = b.step("ADD", highest, b.const(np.int32(1), "one"), shape=())
    now = b.step("SHAPE", places, shape=(1,), element=INT32, out_type=INT32)
    start, step = b.const(np.int32(0), "start"), b.const(np.int32(1), "step")
    numbers = b.step("RANGE", start, b.reshaped(now, ()), step, shape=(None,))
    return b.step("UNSORTED_SEGMENT_MAX", numbers, places, size, shape=(None,), suffix="source")


def _flat(b: Builder, x: Tensor) -> Tensor:
    return x if len(shape_of(x)) == 1 else b.reshaped(x, (None,))


def _rows(b: Builder, x: Tensor, lead: int) -> Tensor:
    """x with its first `lead` axes as one."""
    if lead == 1:
        return x
    rest = shape_of(x, "the rows")[lead:]
    if None not in rest:
        return b.reshaped(x, (None, *rest))
    now = b.step("SHAPE", x, shape=(len(rest) + lead,), element=INT32, out_type=INT32)
    inner = b.step("SLICE", now, b.ints([lead], "begin"), b.ints([len(rest)], "size"), shape=(len(rest),))
    sizes = b.step("CONCATENATION", b.ints([-1]), inner, shape=(len(rest) + 1,), axis=0)
    return b.step("RESHAPE", x, sizes, shape=(None, *rest))


def _joined(b: Builder, parts: list[Tensor]) -> Tensor:
    """Tensors one behind the other."""
    if len(parts) == 1:
        return parts[0]
    if all(p.is_constant for p in parts):
        return b.const(np.concatenate([np.asarray(p.array()) for p in parts]), "joined", parts[0].dtype)
    rest = shape_of(parts[0])[1:]
    return b.step("CONCATENATION", *parts, shape=(None, *rest), axis=0)
