"""ATen's diagonals, windows and other parts of tensors, and what puts them together."""

from __future__ import annotations

import itertools
import math

import numpy as np

from thinflow.decompose.index_ops import (
    arange,
    as_index,
    bincount,
    index_constant,
    index_vector,
    segment_sum,
    size_of,
)
from thinflow.decompose.terms import Term, concat, stack, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, INT32
from thinflow.lift.aten.arguments import Arguments, aten
from thinflow.lift.aten.indexing import counted
from thinflow.lift.aten.shapes import cut_into
from thinflow.lift.onnx.formulas import product, reshaped, size, sizes_of, vector
from thinflow.lift.onnx.values import bounded

# --- elements by their places in memory ---------------------------------------------------------------------


@aten("as_strided", "as_strided_copy")
def _as_strided(a: Arguments) -> Value:
    """Elements so many steps apart: of a tensor that lies in its own order those places are known."""
    x, sizes, steps = a.term(), a.ints("size"), a.ints("stride")
    start = a.integer("storage_offset", 0)
    if not a.has("_order"):
        raise UnsupportedOp(
            "it goes by places in memory, of which its operand is a part, or which depend on an open size",
            hint="slice, reshape or permute in its place",
        )
    places = np.full([1] * len(sizes), start)
    for axis, (count, step) in enumerate(zip(sizes, steps, strict=True)):
        line = np.arange(bounded(count)) * step
        places = places + line.reshape([-1 if n == axis else 1 for n in range(len(sizes))])
        bounded(places.size)
    total = math.prod(x.static_size(n, "a size of what it reads") for n in range(len(x.shape)))
    if places.size and not (places.min() >= 0 and places.max() < total):
        raise UnsupportedOp(f"it reads beyond the {total} elements of its operand")
    order = a.ints("_order", ())
    x = x if order == sorted(order) else x.transpose(order)
    return x.reshape([-1]).gather(a.body.constant(places, INT32)).value


# --- diagonals ----------------------------------------------------------------------------------------------


@aten("diagonal", "diagonal_copy", "linalg_diagonal")
def _diagonal(a: Arguments) -> Value:
    """Along a new last axis, in the place of two."""
    is_last = a.call.node.op == "aten.linalg_diagonal"
    first, second = (
        a.axis(n, d) for n, d in (("dim1", -2 if is_last else 0), ("dim2", -1 if is_last else 1))
    )
    x = a.body.term(a.x)
    rest = [n for n in range(a.rank) if n not in (first, second)]
    return _diagonal_of(a, x.transpose([*rest, first, second]), a.integer("offset", 0)).value


def _diagonal_of(a: Arguments, x: Term, offset: int) -> Term:
    rank = len(x.shape)
    rows, columns = (x.static_size(n, "the size of its matrix") for n in (rank - 2, rank - 1))
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    places = (np.arange(count) - min(offset, 0)) * columns + np.arange(count) + max(offset, 0)
    sizes = sizes_of(x)
    flat = reshaped(x, [*sizes[:-2], rows * columns])
    return flat.gather(a.body.constant(places, INT32), rank - 2)


@aten("diag_embed")
def _diag_embed(a: Arguments) -> Value:
    """A vector on a diagonal of a matrix of zeros, over two new axes."""
    first, second = (a.axis(n, d, a.rank + 1) for n, d in (("dim1", -2), ("dim2", -1)))
    return _on_diagonal(a, a.term(), a.integer("offset", 0), first, second)


def _on_diagonal(a: Arguments, x: Term, offset: int, first: int, second: int) -> Value:
    rank = len(x.shape) + 1
    count = x.static_size(rank - 2, "the size of its diagonal")
    side = bounded(count + abs(offset))
    pads = [(0, 0)] * (rank - 2)
    line = x.pad([*pads, (max(-offset, 0), max(offset, 0))])
    is_on = a.body.constant(np.eye(side, k=offset, dtype=bool), BOOL)
    # Row by row: the element of the row, where the diagonal crosses it.
    wide = line.expand_dims(rank - 1)
    # Chosen and not multiplied: 0 times an infinity would be no number.
    wide = where(is_on, wide, wide.of(0))
    rest = [n for n in range(rank) if n not in (first, second)]
    order = [0] * rank
    for place, axis in enumerate([*rest, first, second]):
        order[axis] = place
    return wide.transpose(order).value


@aten("diag")
def _diag(a: Arguments) -> Value:
    """The diagonal of a matrix, or the matrix of zeros with a vector on its diagonal."""
    if a.rank == 1:
        return _on_diagonal(a, a.term(), a.integer("diagonal", 0), 0, 1)
    return _diagonal_of(a, a.term(), a.integer("diagonal", 0)).value


@aten("diagonal_scatter")
def _diagonal_scatter(a: Arguments) -> Value:
    """A tensor with one of its diagonals replaced."""
    x, source, offset = a.term(), a.term("src"), a.integer("offset", 0)
    first, second = a.axis("dim1", 0), a.axis("dim2", 1)
    rest = [n for n in range(a.rank) if n not in (first, second)]
    order = [*rest, first, second]
    turned = x.transpose(order)
    rows, columns = (turned.static_size(n, "the size of its matrix") for n in (-2, -1))
    bounded(rows * columns)
    # Where the diagonal is, the place of what stands there: by columns above, else by rows.
    is_on = np.eye(rows, columns, offset, dtype=bool)
    count = int(is_on.sum())
    if not count:
        return a.emit("Identity", x.value)
    number = np.where(is_on, np.cumsum(is_on.any(1))[:, None] - 1, 0).clip(0)
    wide = source.gather(a.body.constant(number, INT32), len(source.shape) - 1)
    y = where(a.body.constant(is_on, BOOL), wide, turned)
    return y.transpose([order.index(n) for n in range(len(order))]).value


@aten("trace")
def _trace(a: Arguments) -> Value:
    y = _diagonal_of(a, a.body.term(a.cast(a.x, a.dtype)), 0)
    return y.sum(0).value


@aten("eye", "eye.m")
def _eye(a: Arguments) -> Value:
    a.ignore("dtype", "layout")
    rows = a.integer("n")
    columns = a.integer("m") if a.has("m") else rows
    bounded(rows * columns)
    return a.body.constant(np.eye(rows, columns), a.dtype).value


@aten("tril_indices", "triu_indices")
def _triangle_places(a: Arguments) -> Value:
    a.ignore("dtype", "layout")
    rows, columns, offset = a.integer("row"), a.integer("col"), a.integer("offset", 0)
    bounded(rows * columns)
    pick = np.tril_indices if "tril" in a.call.node.op else np.triu_indices
    return a.body.constant(np.stack(pick(rows, offset, columns)), a.dtype).value


# --- windows ------------------------------------------------------------------------------------------------


@aten("unfold", "unfold_copy")
def _unfold(a: Arguments) -> Value:
    """Windows of one axis, each along a new last axis."""
    x, axis, size, step = a.term(), a.axis("dimension"), a.integer("size"), a.integer("step")
    count = (x.static_size(axis, "the size of what it cuts") - size) // step + 1
    if count < 1 or step < 1:
        raise UnsupportedOp(f"it makes {count} windows of {size}, {step} apart")
    places = np.arange(bounded(count))[:, None] * step + np.arange(bounded(size))
    y = x.gather(a.body.constant(places, INT32), axis)
    rank = a.rank + 1
    return y.transpose([*(n for n in range(rank) if n != axis + 1), axis + 1]).value


@aten("im2col")
def _im2col(a: Arguments) -> Value:
    """Windows as columns, by channel.   [n, c, h, w] -> [n, c * window, windows], n perhaps absent"""
    x, is_one = a.term(), a.rank == 3
    size, rate, around, step = (a.ints(n) for n in ("kernel_size", "dilation", "padding", "stride"))
    if a.rank not in (3, 4):
        raise UnsupportedOp(f"its operand has {a.rank} axes")
    x = x.expand_dims(0) if is_one else x
    x = x.pad([(0, 0), (0, 0), *((n, n) for n in around)])
    channels, *sides = (x.static_size(n, "a size of its picture") for n in (1, 2, 3))
    lines = []
    for side, k, d, s in zip(sides, size, rate, step, strict=True):
        count = (side - (k - 1) * d - 1) // s + 1
        lines.append(np.arange(k)[:, None] * d + np.arange(count) * s)
    rows, columns = lines
    places = rows[:, None, :, None] * sides[1] + columns[None, :, None, :]
    bounded(places.size * channels)
    flat = reshaped(x, [sizes_of(x)[0], channels, sides[0] * sides[1]])
    y = flat.gather(a.body.constant(places, INT32), 2)
    shape = [sizes_of(x)[0], channels * math.prod(size), rows.shape[1] * columns.shape[1]]
    return reshaped(y, shape[is_one:]).value


@aten("col2im")
def _col2im(a: Arguments) -> Value:
    sizes, size = a.ints("output_size"), a.ints("kernel_size")
    around, x = a.ints("padding"), a.term()
    is_one = a.rank == 2
    y = a.onnx(
        "Col2Im", (x.expand_dims(0) if is_one else x).value, a.integers(sizes), a.integers(size),
        dilations=tuple(a.ints("dilation")), pads=(*around, *around), strides=tuple(a.ints("stride")),
    )  # fmt: skip
    return a.emit("Squeeze", y, squeeze_dims=(0,)) if is_one else y


# --- turned, joined and cut ---------------------------------------------------------------------------------


@aten("fliplr", "flipud")
def _flipped(a: Arguments) -> Value:
    return a.term().reverse(1 if a.call.node.op.endswith("lr") else 0).value


@aten("rot90")
def _rot90(a: Arguments) -> Value:
    """A number of quarter turns from the first axis towards the second."""
    x, turns = a.term(), a.integer("k", 1) % 4
    first, second = (a.counted(n, a.rank) for n in a.ints("dims", (0, 1)))
    order = list(range(a.rank))
    order[first], order[second] = second, first
    if turns == 2:
        x = x.reverse(first).reverse(second)
    elif turns:
        x = (x.reverse(second) if turns == 1 else x.reverse(first)).transpose(order)
    return a.emit("Identity", x.value)


@aten("hstack", "vstack", "dstack", "column_stack")
def _stacked(a: Arguments) -> Value:
    """Joined along the second axis, the first or the third; vectors get the axes that they lack."""
    kind = a.call.node.op.removeprefix("aten.")
    terms = [a.body.term(a.cast(v, a.dtype)) for v in a.tensors("tensors")]
    if kind == "column_stack":
        terms = [t.reshape([-1, 1]) if len(t.shape) < 2 else t for t in terms]
        return concat(terms, 1).value
    terms = [t.reshape([1]) if not t.shape else t for t in terms]
    if kind == "hstack":
        return concat(terms, min(1, len(terms[0].shape) - 1)).value
    terms = [t.expand_dims(0) if len(t.shape) == 1 else t for t in terms]
    if kind == "dstack":
        terms = [t.expand_dims(2) if len(t.shape) == 2 else t for t in terms]
    return concat(terms, 2 if kind == "dstack" else 0).value


@aten(
    "tensor_split.sections",
    "tensor_split.indices",
    *(f"{n}split.{form}" for n in "hvd" for form in ("int", "array")),
)
def _tensor_split(a: Arguments) -> list[Value]:
    """Parts of nearly the same size, or those between places."""
    op, x = a.call.node.op, a.term()
    axis = {"h": min(1, a.rank - 1), "v": 0, "d": 2}.get(op.removeprefix("aten.").partition("split")[0])
    axis = a.axis(default=0) if axis is None else axis
    total = x.static_size(axis, "the size of what it splits")
    if op.endswith(("indices", "array")):
        ends = [*(slice(0, n).indices(total)[1] for n in a.ints("indices")), total]
        parts = list(zip([0, *ends[:-1]], ends, strict=True))
        if ends != sorted(ends):
            # Parts may overlap: each goes from the place before its own, wherever that is.
            return [x.cut(axis, start, max(start, end)).value for start, end in parts]
        return cut_into(a, x, axis, [end - start for start, end in parts])
    count = bounded(a.integer("sections"))
    return cut_into(a, x, axis, [total // count + (n < total % count) for n in range(count)])


@aten("diagflat")
def _diagflat(a: Arguments) -> Value:
    """All elements on a diagonal of a matrix of zeros."""
    x, offset = a.term().reshape([-1]), a.integer("offset", 0)
    return _on_diagonal(a, x, offset, 0, 1)


@aten("max_unpool2d", "max_unpool3d", ignores=("stride", "padding"))
def _max_unpool(a: Arguments) -> Value:
    """Elements put back to the places in their planes that they were taken from, zeros elsewhere."""
    x, wanted = a.term(), a.ints("output_size")
    count, places = len(wanted), a.term("indices")
    rank = len(x.shape)
    outer = sizes_of(x)[: rank - count]
    inner = [x.static_size(n, "the size of its picture") for n in range(rank - count, rank)]
    rows = [t.reshape([-1, math.prod(inner)]) for t in (places, x)]
    sizes = vector(a.body, [size(rows[1], 0), math.prod(wanted)])
    flat = a.emit("Fill", sizes.value, x.of(0).value, index_type=INT32)
    y = a.onnx("ScatterElements", flat, *(t.value for t in rows), axis=1)
    return reshaped(a.body.term(y), [*outer, *wanted]).value


@aten("take", "take_along_dim")
def _take(a: Arguments) -> Value:
    """Elements of all axes as one, or along one of them."""
    if a.call.node.op == "aten.take_along_dim" and a.has("dim"):
        x, places, axis = a.term(), a.term("indices"), a.axis()
        return a.onnx("GatherElements", _fitting(x, places, axis), _fitting(places, x, axis), axis=axis)
    name = "index" if a.call.node.op == "aten.take" else "indices"
    x, places = a.term(), a.term(name)
    places = places.reshape([-1]) if name == "indices" else places
    total = product(sizes_of(x))
    return x.reshape([-1]).gather(counted(places, total if isinstance(total, int) else None)).value


def _fitting(x: Term, other: Term, axis: int) -> Value:
    """A tensor broadcast to the sizes of another, but for one axis."""
    if len(x.shape) != len(other.shape):
        raise UnsupportedOp("its places have another number of axes")
    pairs = enumerate(zip(sizes_of(x), sizes_of(other), strict=True))
    wanted = [theirs if n != axis and ours == 1 else ours for n, (ours, theirs) in pairs]
    if all(size == 1 or x.shape[n] != 1 for n, size in enumerate(wanted)):
        return x.value
    sizes = vector(x.body, wanted)
    return x.body.add("BroadcastTo", [x.value, sizes.value], T=x.dtype, Tidx=INT32)[0].value


# --- distances ----------------------------------------------------------------------------------------------


def _norm(gap: Term, order: float, axis: int) -> Term:
    """The norm of differences along an axis."""
    gap = gap.abs()
    if order == 0:
        return (~gap.equal(0.0)).cast(gap.dtype).sum(axis)
    if order == 1 or gap.shape[axis] == 0:
        return gap.sum(axis)
    if order == 2:
        return gap.square().sum(axis).sqrt()
    if order == math.inf:
        return gap.reduced("Max", axis)
    return gap.apply("Pow", order).sum(axis).apply("Pow", 1 / order)


@aten("_cdist_forward", "cdist", ignores=("compute_mode",))
def _cdist(a: Arguments) -> Value:
    """Between all rows of two matrices.   [..., n, d], [..., m, d] -> [..., n, m]"""
    x, y = (a.body.term(a.cast(a.tensor(n), a.dtype)) for n in ("x1", "x2"))
    rank = max(len(x.shape), len(y.shape))
    gap = x.expand_dims(len(x.shape) - 1) - y.expand_dims(len(y.shape) - 2)
    return _norm(gap, a.number("p", 2.0), rank).value


@aten("_pdist_forward", "pdist")
def _pdist(a: Arguments) -> Value:
    """Between each row and those behind it.   [n, d] -> [n * (n - 1) / 2]"""
    x = a.term()
    rows, columns = np.triu_indices(x.static_size(0, "the number of its rows"), 1)
    bounded(rows.size)
    one, two = (x.gather(a.body.constant(n, INT32)) for n in (rows, columns))
    return _norm(one - two, a.number("p", 2.0), 1).value


@aten("pairwise_distance")
def _pairwise(a: Arguments) -> Value:
    x, y = (a.body.term(a.cast(a.tensor(n), a.dtype)) for n in ("x1", "x2"))
    rank = max(len(x.shape), len(y.shape))
    # To each difference, not to the norm, as PyTorch has it: equal rows are apart by more than eps.
    found = _norm(x - y + a.number("eps", 1e-6), a.number("p", 2.0), rank - 1)
    return (found.expand_dims(rank - 1) if a.flag("keepdim") else found).value


# --- rows of a table, put together --------------------------------------------------------------------------

_BAGS = ("Sum", "Mean", "Max")


@aten(
    *("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag.padding_idx", "embedding_bag"),
    ignores=("scale_grad_by_freq", "sparse"),
)
def _embedding_bag(a: Arguments) -> list[Value]:
    """Rows of a table by places, which offsets part into bags: the sum, mean or largest of each bag.

    weight [n, d], indices [k], offsets [b] -> [b, d]; what training needs besides is not there.
    """
    table, places, starts = a.term("weight"), a.term("indices"), a.term("offsets")
    mode, skipped = a.integer("mode", 0), a.integer("padding_idx") if a.has("padding_idx") else None
    if len(places.shape) != 1 or not 0 <= mode < len(_BAGS):
        raise UnsupportedOp("its places are no vector, or it has another mode")
    if a.flag("include_last_offset"):
        starts = starts.cut(0, 0, -1)
    count = starts.static_size(0, "the number of its bags")
    # Each place belongs to the last bag that has begun.
    numbers = arange(size_of(places))
    begun = as_index(as_index(starts) <= numbers.expand_dims(1)).sum(1)
    bags, every = (begun - 1).maximum(0), index_constant(a.body, count)
    own = a.term("per_sample_weights") if a.has("per_sample_weights") else None
    # Nobody but the op that users call counts rows from the end: for the others -1 stands for none.
    if skipped is not None and (skipped >= 0 or a.call.node.op == "aten.embedding_bag.padding_idx"):
        # What counts for nothing is left out before anything is looked up.
        kept = ~places.equal(skipped % table.static_size(0, "the number of its rows"))
        at = a.body.term(a.emit("Where", kept.value, T=BOOL)).reshape([-1])
        places, bags = places.gather(at), bags.gather(at)
        own = own if own is None else own.gather(at)
    rows = table.gather(places)
    rows = rows if own is None else rows * own.expand_dims(1)
    if mode == 0:
        return [segment_sum(rows, bags, every).value]
    members = bincount(bags, every).expand_dims(1)
    if mode == 1:
        return [(segment_sum(rows, bags, every) / members.maximum(1).cast(rows.dtype)).value]
    belongs = bags.expand_dims(1).equal(index_vector(a.body, range(count)))
    known = a.call.content(a.tensor("weight"))
    first = None
    if (known is None or np.isnan(known).any()) and rows.dtype.is_floating:
        # PyTorch compares from the first on: nothing is larger than one that is no number, nor is such a one.
        ahead = as_index(members).reshape([-1])
        before = a.body.term(a.emit("Cumsum", ahead.value, a.call.constant(0), exclusive=True))
        first = rows.pad([(0, 1), (0, 0)]).gather(before)
        rows = where(rows.apply("IsNan"), rows.of(-np.inf), rows)
    wide = rows.expand_dims(1)
    # Not by UnsortedSegmentMax, whose largest of nothing but minus infinities is the lowest finite number.
    largest = where(belongs.expand_dims(2), wide, wide.of(-np.inf)).reduced("Max", 0)
    largest = largest if first is None else where(first.apply("IsNan"), first, largest)
    return [where(members.equal(0), largest.of(0), largest).value]


# --- with matrices ------------------------------------------------------------------------------------------


def _with_info(a: Arguments, y: Value) -> list[Value]:
    """A result, and the number of an error, of which there is none."""
    names = len(a.specs)
    return [y, *(a.body.constant(0, INT32).value for _ in range(names - 1))]


@aten("linalg_inv", "inverse", "linalg_inv_ex", ignores=("check_errors",))
def _inverse(a: Arguments) -> list[Value]:
    _two_dimensional(a)
    return _with_info(a, a.emit("MatrixInverse", a.x, adjoint=False))


@aten("linalg_cholesky", "cholesky", "linalg_cholesky_ex", ignores=("check_errors",))
def _cholesky(a: Arguments) -> list[Value]:
    _two_dimensional(a)
    y = a.body.term(a.emit("Cholesky", a.x))
    return _with_info(a, (y.matrix_transpose() if a.flag("upper") else y).value)


def _two_dimensional(a: Arguments) -> None:
    """Several numbers of errors would have the shape of the batch."""
    if len(a.specs) > 1 and a.rank != 2:
        raise UnsupportedOp("it works on several matrices at once")


@aten("linalg_det", "det", "_linalg_det")
def _det(a: Arguments) -> list[Value]:
    """What training needs besides is not there."""
    return [a.emit("MatrixDeterminant", a.x)]


@aten("linalg_solve")
def _solve(a: Arguments) -> Value:
    left, right = a.term("A"), a.term("B")
    if not a.flag("left", True) or len(right.shape) != len(left.shape):
        raise UnsupportedOp("its matrix stands on the right, or what it solves is a vector")
    return a.emit("MatrixSolve", left.value, right.value, adjoint=False)


@aten("linalg_solve_triangular")
def _solve_triangular(a: Arguments) -> Value:
    if not a.flag("left", True) or a.flag("unitriangular"):
        raise UnsupportedOp("its matrix stands on the right, or has ones that are not written")
    return a.emit("MatrixTriangularSolve", a.x, a.tensor("B"), lower=not a.flag("upper"), adjoint=False)


@aten("cross", "linalg_cross")
def _cross(a: Arguments) -> Value:
    """The vector product of what stands along an axis of three."""
    x, y = (a.body.term(a.cast(a.tensor(n), a.dtype)) for n in ("self", "other"))
    rank = max(len(x.shape), len(y.shape))
    if a.call.node.op == "aten.cross" and not a.has("dim"):
        axis = next((n for n, size in enumerate(x.shape) if size == 3), rank)
    else:
        axis = a.axis(default=-1, rank=rank)
    sides = [t.shape[axis - rank] for t in (x, y)] if axis < rank else [None]
    if sides != [3, 3]:
        raise UnsupportedOp("its vectors do not have three elements")

    def turned(t: Term, first: int) -> Term:
        order = a.body.constant([(first + n) % 3 for n in range(3)], INT32)
        return t.gather(order, len(t.shape) + axis - rank)

    return (turned(x, 1) * turned(y, 2) - turned(x, 2) * turned(y, 1)).value


@aten("kron")
def _kron(a: Arguments) -> Value:
    """All products of two elements, block by block."""
    x, y = (a.body.term(a.cast(a.tensor(n), a.dtype)) for n in ("self", "other"))
    rank = max(len(x.shape), len(y.shape))
    x, y = (reshaped(t, [*(1,) * (rank - len(t.shape)), *sizes_of(t)]) for t in (x, y))
    sizes = [[t.static_size(n, "a size of its operands") for n in range(rank)] for t in (x, y)]
    # Ones behind the sizes of one, and in front of the other's: broadcasting makes all products.
    x = x.reshape([n for size in sizes[0] for n in (size, 1)])
    y = y.reshape([n for size in sizes[1] for n in (1, size)])
    return (x * y).reshape([n * m for n, m in zip(*sizes, strict=True)]).value


@aten("combinations")
def _combinations(a: Arguments) -> Value:
    """All choices of so many elements of a vector, in its order, perhaps each more than once."""
    x, size = a.term(), a.integer("r", 2)
    choose = itertools.combinations_with_replacement if a.flag("with_replacement") else itertools.combinations
    count = x.static_size(0, "the size of its vector")
    bounded(size * math.comb(count + size - 1 if a.flag("with_replacement") else count, size))
    places = np.array(list(choose(range(count), size)), np.int32).reshape(-1, size)
    return x.gather(a.body.constant(places, INT32)).value


@aten("block_diag", "cartesian_prod")
def _of_all(a: Arguments) -> Value:
    """Matrices along the diagonal of one, or all combinations of elements of vectors."""
    terms = [a.body.term(a.cast(v, a.dtype)) for v in a.tensors("tensors")]
    if a.call.node.op == "aten.block_diag":
        terms = [t.reshape([1, -1]) if len(t.shape) < 2 else t for t in terms]
        widths = [t.static_size(1, "a size of its matrices") for t in terms]
        before = [sum(widths[:n]) for n in range(len(widths))]
        whole = sum(widths)
        ends = [whole - start - width for start, width in zip(before, widths, strict=True)]
        rows = [t.pad([(0, 0), (start, end)]) for t, start, end in zip(terms, before, ends, strict=True)]
        return concat(rows, 0).value
    counts = [t.static_size(0, "a size of its vectors") for t in terms]
    bounded(math.prod(counts) * len(counts))
    places = np.indices(counts).reshape(len(counts), -1)
    if len(terms) == 1:
        return a.emit("Identity", terms[0].value)
    columns = [t.gather(a.body.constant(p, INT32)) for t, p in zip(terms, places, strict=True)]
    return stack(columns, 1).value
