"""Index arithmetic on vectors whose length depends on data: what sparse and ragged tensors are made of.

Indices are of one integer type, the target's own: LiteRT's kernels count in int32, ONNX's in int64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from thinflow.decompose.terms import Body, Term, stack
from thinflow.ir.types import INT32

# Attributes that no op of TensorFlow has: what a decomposition knows of its operands, for targets whose own
# operator needs no checks then.
IN_RANGE = {"_is_in_range": True}
UNIQUE = {"_is_unique": True}
SAFE_DIVISOR = {"_is_safe": True}


def index_constant(body: Body, value: int) -> Term:
    """One constant index []."""
    return body.constant(value, body.index)


def index_vector(body: Body, numbers: Iterable[int]) -> Term:
    """Constant indices [n]."""
    return body.constant(list(numbers), body.index)


def as_index(x: Term) -> Term:
    """An integer tensor as indices."""
    return x.cast(x.body.index)


def size_of(x: Term, axis: int = 0) -> Term:
    """The size of an axis, in the index type []."""
    known = x.shape[axis]
    if known is not None:
        return index_constant(x.body, known)
    sizes = x.body.add("Shape", [x.value], T=x.dtype, out_type=x.body.index)[0]
    return sizes.at(0, axis % len(x.shape))


def arange(count: Term) -> Term:
    """0, 1, ... count - 1."""
    ends = index_constant(count.body, 0), count, index_constant(count.body, 1)
    return count.body.add("Range", [t.value for t in ends], Tidx=count.dtype)[0]


def fill(count: Term, value: Term) -> Term:
    """`value` [] in a row of `count`."""
    dims = count.reshape([1])
    operands = [dims.value, value.reshape([]).value if value.shape else value.value]
    return count.body.add("Fill", operands, T=value.dtype, index_type=count.dtype)[0]


def segment_sum(rows: Term, at: Term, count: Term) -> Term:
    """Rows [m,...] added up at indices [m] -> [count,...], 0 where there is none."""
    operands = [rows.value, at.value, count.value]
    return rows.body.add(
        "UnsortedSegmentSum", operands, T=rows.dtype, Tindices=at.dtype, Tnumsegments=count.dtype, **IN_RANGE
    )[0]


def bincount(at: Term, count: Term) -> Term:
    """The number of times each index occurs -> integers [count]."""
    return segment_sum(fill(size_of(at), index_constant(at.body, 1)), at, count)


def scatter(rows: Term, at: Term, count: Term) -> Term:
    """Rows [m,...] at indices [m], none of which is named twice -> [count,...], 0 elsewhere."""
    sizes = stack([count, *(size_of(rows, a) for a in range(1, len(rows.shape)))], 0)
    operands = [at.expand_dims(1).value, rows.value, sizes.value]
    return rows.body.add("ScatterNd", operands, T=rows.dtype, Tindices=at.dtype, **UNIQUE)[0]


def cumsum(x: Term, *, exclusive: bool = False) -> Term:
    """Cumulative sums of a vector."""
    axis = x.body.constant(0, x.body.index)
    return x.body.add("Cumsum", [x.value, axis.value], T=x.dtype, Tidx=axis.dtype, exclusive=exclusive)[0]


def reduce_max(x: Term) -> Term:
    """The largest of some indices, of which there is one at least, []."""
    axes = x.body.constant([0], INT32)
    return x.body.add("Max", [x.value, axes.value], T=x.dtype, Tidx=INT32, **IN_RANGE)[0]


def argsort(x: Term) -> Term:
    """Indices in rising order of x: of the smallest, the next, ...; equal ones in the order they come in."""
    # TopKV2 sorts falling, and equal ones by their index, so this sort is stable.
    operands = [x.descending().value, size_of(x).cast(INT32).value]
    ranked = x.body.add("TopKV2", operands, ports=2, T=x.dtype, sorted=True, index_type=x.body.index)
    return ranked[1]


def nonzero(mask: Term) -> Term:
    """The indices at which a mask [n] holds."""
    return as_index(mask.body.add("Where", [mask.value], T=mask.dtype)[0].reshape([-1]))


def last_of(x: Term) -> Term:
    """The last element of a vector, []."""
    return x.cut(0, -1, None).reshape([])


def first_of(rows: Term, count: Term) -> Term:
    """The first `count` [] of a vector."""
    ends = index_vector(rows.body, [0]), count.reshape([1]), index_vector(rows.body, [1])
    return rows.body.add("StridedSlice", [t.value for t in (rows, *ends)], T=rows.dtype, Index=count.dtype)[0]


def reshape_to(x: Term, sizes: Sequence[Term]) -> Term:
    """x with sizes of the index type [], of which one may be -1."""
    return x.reshape(stack(sizes, 0))


def result(x: Term, port: int = 0) -> Term:
    """x in the type of an output of the node."""
    node = x.body.node
    wanted = node.output(port).dtype if node is not None else None
    # Indices are of the target's type within; outside they have the type that the graph says.
    return x if wanted is None else x.cast(wanted)


def columns_of(matrix: Term) -> list[Term]:
    """[m,r] as r vectors [m]."""
    return [matrix.at(1, n) for n in range(matrix.static_size(1, "the rank of the sparse tensor"))]
