"""Sparse tensors, by steps on indices: indices [m,r], values [m] and the shape they lie in."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from thinflow.analysis.symbolic_sizes import axes_joined, sizes_of
from thinflow.decompose.index_ops import (
    SAFE_DIVISOR,
    arange,
    argsort,
    as_index,
    bincount,
    columns_of,
    fill,
    first_of,
    index_constant,
    nonzero,
    reshape_to,
    result,
    scatter,
    segment_sum,
    size_of,
)
from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, concat, refuse_unless, stack, where
from thinflow.ir.graph import Value
from thinflow.ir.types import INT64
from thinflow.ops.traits import Trait, has

_MOST_PLACES = 2**31
"""Positions that the smaller of the types of indices can name."""


@decompose("SparseReshape")
def sparse_reshape(indices: Term, shape: Term, new: Term) -> tuple[Term, Term]:
    """Axes that are only joined need no division, and stay exact in 64 bits. Else all goes by way of the flat
    position.
    """
    rank, wanted = indices.static_size(1, "the rank of the sparse tensor"), new.static_size(0, "the new rank")
    node = indices.body.node
    assert node is not None
    old, sizes = sizes_of(node.inputs[1]), sizes_of(node.inputs[2])
    if wanted and rank and old is not None and sizes is not None and len(old) == rank:
        groups = axes_joined(old, sizes)
        if groups is not None:
            return _by_joined_axes(indices, shape, groups)
    refuse_unless(bool(rank and wanted), "a scalar has no places")
    refuse_unless(
        indices.body.index is INT64 or _is_small(node.inputs[1], shape),
        "its sizes are computed while the model runs, and may be more than 32 bits hold",
    )
    return _by_position(as_index(indices), as_index(shape), as_index(new))


def _by_joined_axes(indices: Term, shape: Term, groups: Sequence[Sequence[int]]) -> tuple[Term, Term]:
    """Each new axis from those it is made of."""
    # The same axes: nothing moves.
    if [list(g) for g in groups] == [[a] for a in range(len(groups))]:
        return indices, shape
    old = columns_of(indices)
    columns, sizes = [], []
    for group in groups:
        column = total = None
        for axis in group:
            count = shape.at(0, axis)
            column = old[axis] if column is None else column * count + old[axis]
            total = count if total is None else total * count
        # A new axis of size 1, where every index is 0.
        columns.append(old[0] - old[0] if column is None else column)
        sizes.append(shape.of(1) if total is None else total)
    return stack(columns, 1), stack(sizes, 0)


def _by_position(indices: Term, shape: Term, new: Term) -> tuple[Term, Term]:
    """By the position each value has in the order of rows."""
    flat, *others = columns_of(indices)
    before = [shape.at(0, axis) for axis in range(len(others) + 1)]
    for count, column in zip(before[1:], others, strict=True):
        flat = flat * count + column
    # Digits of the flat position in mixed radix, the last axis first.
    after = _settled(before, new)
    columns = []
    for count in after[:0:-1]:
        # A size of 0 has no values, but constants would be divided ahead.
        divisor = count.maximum(1)
        columns.append(flat.apply("FloorMod", divisor, **SAFE_DIVISOR))
        flat = flat.apply("TruncateDiv", divisor, **SAFE_DIVISOR)
    columns.append(flat)
    return result(stack(columns[::-1], 1)), result(stack(after, 0), 1)


def _settled(before: Sequence[Term], new: Term) -> list[Term]:
    """The new sizes, with what the others leave in place of -1."""
    known = new.elements or (None,) * (new.shape[0] or 0)
    after = [new.at(0, a) if n is None else new.of(n) for a, n in enumerate(known)]
    if None not in known and -1 not in known:
        return after
    total = given = new.of(1)
    for count in before:
        total = total * count
    for count in after:
        # The -1 among them counts as 1.
        given = given * where(count < 0, 1, count)
    left = total.apply("TruncateDiv", given.maximum(1), **SAFE_DIVISOR)
    pairs = zip(after, known, strict=True)
    return [
        left if n == -1 else count if n is not None else where(count < 0, left, count) for count, n in pairs
    ]


def _is_small(value: Value, shape: Term) -> bool:
    """True if a shape is known to have few elements: it is fixed, or that of a tensor in memory."""
    known = shape.elements
    if known is not None and None not in known:
        return prod(n or 0 for n in known) < _MOST_PLACES
    # The shape of a tensor in memory: it has fewer elements than 32 bits can name.
    while value.node.op == "Cast" or has(value.node.op, Trait.PASSES_THROUGH):
        value = value.node.inputs[0]
    return has(value.node.op, Trait.SHAPE_OF)


def rows_filled(
    columns: Sequence[Term], values: Term, count: Term, default: Term
) -> tuple[list[Term], Term, Term, Term]:
    """Results of both ops that fill empty rows: (columns [k], values [k], is empty, where went).

    A default stands in column 0 of each of `count` rows without values; rows come in order, and the values of
    each as they were.

    Args:
        columns: the indices, by axis; the first is the row.
    """
    rows = as_index(columns[0])
    is_empty = bincount(rows, count).equal(0)
    empty = nonzero(is_empty)
    # Defaults come last, and the sort is stable: it puts each into its row and leaves the others in their
    # order.
    every = concat([rows, empty], 0)
    ranked = argsort(every)
    added = size_of(empty)
    found = [every.gather(ranked)]
    # Rows are counted, so they are few; columns may be any number of 64 bits.
    for column in columns[1:]:
        zeros = fill(added, column.of(0))
        found.append(concat([column, zeros], 0).gather(ranked))
    filled_up = concat([values, fill(added, default)], 0).gather(ranked)
    total = size_of(every)
    # `ranked` says who stands at each index; its inverse says where each went, the given values first.
    went = first_of(scatter(arange(total), ranked, total), size_of(rows))
    return found, filled_up, is_empty, went


@decompose("SparseFillEmptyRows")
def sparse_fill_empty_rows(indices: Term, values: Term, shape: Term, default: Term) -> tuple[Term, ...]:
    columns = columns_of(indices)
    refuse_unless(bool(columns), "a scalar has no rows")
    found, every, is_empty, went = rows_filled(columns, values, as_index(shape.at(0, 0)), default)
    return stack([c.cast(INT64) for c in found], 1), every, is_empty, result(went, 3)


@decompose("SparseReorder")
def sparse_reorder(indices: Term, values: Term, shape: Term) -> tuple[Term, Term]:
    """By the last axis, then by the one before it, and so on."""
    # Stable sorts by one axis after the other, the most significant one last.
    for axis in reversed(range(indices.static_size(1, "the rank of the sparse tensor"))):
        ranked = argsort(indices.at(1, axis))
        indices, values = indices.gather(ranked), values.gather(ranked)
    return indices, values


@decompose("SparseReduceSum")
def sparse_reduce_sum(
    indices: Term, values: Term, shape: Term, axes: Term, *, keep_dims: bool = False
) -> Term:
    """Dense sums along some axes."""
    columns = columns_of(indices)
    gone = {a % len(columns) for a in axes.ints("the axes")}
    kept = [a for a in range(len(columns)) if a not in gone]
    sizes = {a: as_index(shape.at(0, a)) for a in kept}
    at = total = None
    for axis in kept:
        own = as_index(columns[axis])
        at = own if at is None else at * sizes[axis] + own
        total = sizes[axis] if total is None else total * sizes[axis]
    one = index_constant(indices.body, 1)
    # All axes are summed over: one index for everything.
    if at is None or total is None:
        at, total = fill(size_of(indices), one - 1), one
    y = segment_sum(values, at, total)
    dims = [sizes.get(a, one) for a in range(len(columns)) if keep_dims or a in kept]
    return reshape_to(y, dims) if dims else y.reshape([])


@decompose("SparseTensorDenseMatMul")
def sparse_tensor_dense_matmul(
    indices: Term,
    values: Term,
    shape: Term,
    dense: Term,
    *,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
) -> Term:
    """Rows of the dense matrix [k,n], times the values, added up."""
    refuse_unless(len(dense.shape) == 2, "a dense matrix is needed")
    dense = dense.matrix_transpose() if adjoint_b else dense
    # The adjoint of a sparse matrix is the same values with rows and columns named the other way round.
    rows, columns = (as_index(c) for c in columns_of(indices)[:: -1 if adjoint_a else 1])
    parts = dense.gather(columns) * values.expand_dims(1)
    return segment_sum(parts, rows, as_index(shape.at(0, 1 if adjoint_a else 0)))
