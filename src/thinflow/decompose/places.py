"""Steps on vectors of places whose lengths the numbers decide: what sparse and ragged tensors are made of.

Places are of one integer type, the target's own: LiteRT's kernels count in int32, ONNX's in int64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from thinflow.decompose.terms import Body, Term, stacked
from thinflow.ir.types import INT32

# Attributes that no op of TensorFlow has: what a decomposition knows of its operands, for targets whose own
# operator needs no checks then.
IN_RANGE = {"_is_in_range": True}
UNIQUE = {"_is_unique": True}
SAFE_DIVISOR = {"_is_safe": True}


def number(body: Body, value: int) -> Term:
    """One constant place []."""
    return body.constant(value, body.index)


def vector(body: Body, numbers: Iterable[int]) -> Term:
    """Constant places [n]."""
    return body.constant(list(numbers), body.index)


def places(x: Term) -> Term:
    """An integer tensor as places."""
    return x.cast(x.body.index)


def size(x: Term, axis: int = 0) -> Term:
    """The size of an axis, a place []."""
    known = x.shape[axis]
    if known is not None:
        return number(x.body, known)
    sizes = x.body.add("Shape", [x.value], T=x.dtype, out_type=x.body.index)[0]
    return sizes.at(0, axis % len(x.shape))


def counting(count: Term) -> Term:
    """0, 1, ... count - 1."""
    ends = number(count.body, 0), count, number(count.body, 1)
    return count.body.add("Range", [t.value for t in ends], Tidx=count.dtype)[0]


def filled(count: Term, value: Term) -> Term:
    """`value` [] in a row of `count`."""
    dims = count.reshaped([1])
    operands = [dims.value, value.reshaped([]).value if value.shape else value.value]
    return count.body.add("Fill", operands, T=value.dtype, index_type=count.dtype)[0]


def added_up(rows: Term, at: Term, count: Term) -> Term:
    """Rows [m,...] added up at places [m] -> [count,...], 0 where there is none."""
    operands = [rows.value, at.value, count.value]
    return rows.body.add(
        "UnsortedSegmentSum", operands, T=rows.dtype, Tindices=at.dtype, Tnumsegments=count.dtype, **IN_RANGE
    )[0]


def sum_of_ones(at: Term, count: Term) -> Term:
    """Counts of how often each place is named -> places [count]."""
    return added_up(filled(size(at), number(at.body, 1)), at, count)


def put(rows: Term, at: Term, count: Term) -> Term:
    """Rows [m,...] at places [m], none of which is named twice -> [count,...], 0 elsewhere."""
    sizes = stacked([count, *(size(rows, a) for a in range(1, len(rows.shape)))], 0)
    operands = [at.expanded(1).value, rows.value, sizes.value]
    return rows.body.add("ScatterNd", operands, T=rows.dtype, Tindices=at.dtype, **UNIQUE)[0]


def sums(x: Term, *, exclusive: bool = False) -> Term:
    """Cumulative sums of a vector."""
    axis = x.body.constant(0, x.body.index)
    return x.body.add("Cumsum", [x.value, axis.value], T=x.dtype, Tidx=axis.dtype, exclusive=exclusive)[0]


def largest(x: Term) -> Term:
    """The largest of places that are not none, []."""
    axes = x.body.constant([0], INT32)
    return x.body.add("Max", [x.value, axes.value], T=x.dtype, Tidx=INT32, **IN_RANGE)[0]


def order(x: Term) -> Term:
    """Places in rising order of x: of the smallest, the next, ...; equal ones in the order they come in."""
    # TopKV2 sorts falling, and equal ones by their place, so this sort is stable.
    operands = [x.descending().value, size(x).cast(INT32).value]
    ranked = x.body.add("TopKV2", operands, ports=2, T=x.dtype, sorted=True, index_type=x.body.index)
    return ranked[1]


def where_true(mask: Term) -> Term:
    """The places at which a mask [n] holds."""
    return places(mask.body.add("Where", [mask.value], T=mask.dtype)[0].reshaped([-1]))


def last(x: Term) -> Term:
    """The last element of a vector, []."""
    return x.cut(0, -1, None).reshaped([])


def head(rows: Term, count: Term) -> Term:
    """The first `count` [] of a vector."""
    ends = vector(rows.body, [0]), count.reshaped([1]), vector(rows.body, [1])
    return rows.body.add("StridedSlice", [t.value for t in (rows, *ends)], T=rows.dtype, Index=count.dtype)[0]


def shaped(x: Term, sizes: Sequence[Term]) -> Term:
    """x with sizes that are places [], of which one may be -1."""
    return x.reshaped(stacked(sizes, 0))


def result(x: Term, port: int = 0) -> Term:
    """x in the type of an output of the node."""
    node = x.body.node
    wanted = node.output(port).dtype if node is not None else None
    # Places are of the target's type within; outside they have the type that the graph says.
    return x if wanted is None else x.cast(wanted)


def columns_of(matrix: Term) -> list[Term]:
    """[m,r] as r vectors [m]."""
    return [matrix.at(1, n) for n in range(matrix.sized(1, "the rank of the sparse tensor"))]
