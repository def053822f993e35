"""Constants that a .tflite file stores without their zeros, made whole.

Dimensions are gone through in an order of their own, blocks after the dimensions that they divide. A dense
one has all its indices; of a sparse one, segments say which indices belong to each entry of the one before
(CSR).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.errors import FormatError
from thinflow.typing import Array
from thinflow.wire.flatbuffer import Table

MOST_ELEMENTS = 1 << 28
"""Of all sparse constants of a file made whole: a few bytes can stand for any number of zeros."""
_DENSE, _SPARSE = 0, 1
_INDEX_KINDS = ("", "i32", "u16", "u8")
"""By their number in the union of index vectors."""


@dataclass(frozen=True)
class Dimension:
    """How one dimension is stored.

    Attributes:
        size: of a dense one.
        segments, indices: of a sparse one; None for a dense one.
    """

    size: int
    segments: Array | None = None
    indices: Array | None = None


@dataclass(frozen=True)
class Sparsity:
    """How a constant is stored.

    Attributes:
        order: the dimensions as they are gone through; numbers beyond the rank are blocks.
        blocks: the dimension that each block divides.
        dimensions: in that order.
    """

    order: tuple[int, ...]
    blocks: tuple[int, ...]
    dimensions: tuple[Dimension, ...]


def read_sparsity(table: Table) -> Sparsity:
    """The parameters in a file.

    Raises:
        FormatError: a dimension is of no kind that is known.
    """
    # Slots of SparsityParameters: traversal order, block map, metadata of dimensions.
    order, blocks = (tuple(table.numbers(slot, "i32") or ()) for slot in (0, 1))
    return Sparsity(order, blocks, tuple(_dimension(t) for t in table.tables(2)))


def _dimension(table: Table) -> Dimension:
    # Slots of DimensionMetadata: format, dense size, segments and indices, each a union in two.
    kind = table.scalar(0, "i8")
    if kind == _DENSE:
        return Dimension(table.scalar(1, "i32"))
    if kind != _SPARSE:
        raise FormatError(f"a sparse constant has a dimension of kind {kind}")
    return Dimension(0, _indices(table, 2), _indices(table, 4))


def _indices(table: Table, slot: int) -> Array:
    number, inner = table.scalar(slot, "u8"), table.table(slot + 1)
    if inner is None or not 0 < number < len(_INDEX_KINDS):
        raise FormatError(f"a sparse constant has indices of kind {number}")
    return np.array(inner.numbers(0, _INDEX_KINDS[number]) or (), np.int64)


def densified(values: Array, shape: Sequence[int], sparsity: Sparsity) -> Array:
    """A constant with its zeros.   values [n] -> of the shape.

    Raises:
        FormatError: the parameters do not fit each other, the shape or the number of values.
    """
    rank, blocks = len(shape), sparsity.blocks
    levels = len(sparsity.dimensions)
    fits = sorted(sparsity.order) == list(range(rank + len(blocks))) and levels == len(sparsity.order)
    if not fits or any(not 0 <= b < rank for b in blocks):
        raise FormatError("the order of its dimensions makes no sense")
    total = math.prod(shape)
    sizes = dict(zip(sparsity.order, (d.size for d in sparsity.dimensions), strict=True))
    parents = np.zeros(1, np.int64)
    found: dict[int, Array] = {}
    for number, dimension in zip(sparsity.order, sparsity.dimensions, strict=True):
        parents, own = _children(dimension, len(parents), total)
        # Indices of the dimensions before, for each entry of this one.
        found = {n: indices[parents] for n, indices in found.items()}
        found[number] = own
    rows = []
    for axis in range(rank):
        own_blocks = [n for n, b in enumerate(blocks) if b == axis]
        if len(own_blocks) > 1:
            raise FormatError("a dimension of it is divided twice")
        place = found[axis]
        rows.append(
            place * sizes[rank + own_blocks[0]] + found[rank + own_blocks[0]] if own_blocks else place
        )
    places = np.stack(rows) if rows else np.zeros((0, len(parents)), np.int64)
    if places.shape[1] != values.size or (places >= np.array(shape, np.int64)[:, None]).any():
        raise FormatError(f"its {values.size} values do not fit its indices, or lie outside of its shape")
    y = np.zeros(shape, values.dtype)
    y[tuple(places)] = values.reshape(-1) if rank else values.reshape(-1)[0]
    return y


def _children(dimension: Dimension, count: int, most: int) -> tuple[Array, Array]:
    """Of each entry of one dimension: the entry before that it belongs to, and its index."""
    if dimension.segments is None or dimension.indices is None:
        if dimension.size < 0 or dimension.size * count > most:
            raise FormatError(f"a dense dimension has the size {dimension.size}")
        parents = np.repeat(np.arange(count), dimension.size)
        return parents, np.tile(np.arange(dimension.size), count)
    segments, indices = dimension.segments, dimension.indices
    lengths = np.diff(segments)
    is_whole = len(segments) == count + 1 and segments[0] == 0 and segments[-1] == len(indices)
    if not is_whole or (lengths < 0).any() or (indices < 0).any():
        raise FormatError("the segments of a sparse dimension make no sense")
    return np.repeat(np.arange(count), lengths), indices
