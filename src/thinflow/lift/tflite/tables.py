"""LiteRT's lookup tables, old and new: filled by a subgraph that runs once, or held as two constants."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import BOOL, INT32, INT64, STRING, DType, dtype
from thinflow.lift.lifter import Call
from thinflow.lift.rules import lifts
from thinflow.ops.traits import Trait, has

_HANDLE, _IMPORT = "tfl.HASHTABLE", "tfl.HASHTABLE_IMPORT"
_UINT8 = dtype("uint8")


@lifts(_HANDLE)
def handle(c: Call) -> Value:
    """HASHTABLE: a table by its number, and beside it the node that fills it once."""
    number, kinds = c.get("table_id", 0), [c.get("key_dtype"), c.get("value_dtype")]
    if not all(isinstance(k, DType) for k in kinds):
        raise UnsupportedOp("the types of its table are not known")
    attrs = {"shared_name": f"table {number}", "key_dtype": kinds[0], "value_dtype": kinds[1]}
    table = c.emit("HashTableV2", **attrs)
    filled = [f for graph in c.started_by() for f in _imports(graph, number)]
    if len(filled) != 1:
        raise UnsupportedOp(f"{len(filled)} operators fill its table, where one is needed")
    constants = [v.node.tensor for v in filled[0].inputs[1:3]]
    if any(t is None for t in constants):
        raise UnsupportedOp("what its table is filled with is computed")
    keys, values = (c.constant(t.numpy()) for t in constants if t is not None)
    c.many("InitializeTableV2", table, keys, values, T=None, Tkey=kinds[0], Tval=kinds[1])
    return table


def _imports(graph: Graph, number: int) -> Iterator[Node]:
    """What fills the table of a number in a subgraph."""
    for node in graph:
        if node.op == _IMPORT and len(node.inputs) == 3:
            source = node.inputs[0].node
            if source.op == _HANDLE and source.get("table_id", 0) == number:
                yield node


@lifts("tfl.HASHTABLE_FIND")
def find(c: Call) -> Value:
    """HASHTABLE_FIND: values of keys, or what stands for a key that is not there."""
    given = c[2].node.tensor
    # LiteRT's has an axis. One that is computed has no form in other runtimes.
    if given is not None and given.size == 1:
        default = c.constant(given.numpy().reshape(()))
    else:
        default = c.emit("Reshape", c[2], c.constant(()), Tshape=INT32)
    types = {"Tin": c[1].dtype, "Tout": c[2].dtype}
    return _filled(c, c.emit("LookupTableFindV2", c[0], c[1], default, T=None, **types))


def _filled(c: Call, found: Value) -> Value:
    """What is read of a table waits until it is filled: no session of TensorFlow sees to that."""
    found.node.set_control_inputs([u.node for u in c[0].uses if has(u.node.op, Trait.TABLE_FILL)])
    return found


@lifts("tfl.HASHTABLE_SIZE")
def size(c: Call) -> Value:
    """HASHTABLE_SIZE: of shape [1] in LiteRT."""
    count = _filled(c, c.emit("LookupTableSizeV2", c[0], T=None))
    return c.emit("Reshape", count, c.constant((1,)), T=INT64, Tshape=INT32)


@lifts("tfl.HASHTABLE_LOOKUP")
def lookup(c: Call) -> list[Value]:
    """HASHTABLE_LOOKUP: keys asked for [n], keys [k], values [k,...] -> values or zeros [n,...], hits [n]."""
    sizes = c.sizes(2)
    asked = c.emit("ExpandDims", c[0], c.constant(1))
    equal = c.emit("Equal", asked, c[1])
    row = c.emit("Cast", equal, SrcT=BOOL, DstT=INT32)
    place = c.emit("ArgMax", row, c.constant(1), output_type=INT32, Tidx=INT32)
    found = c.emit("GatherV2", c[2], place, c.constant(0), Tparams=c[2].dtype, Tindices=INT32, Taxis=INT32)
    hits = c.emit("Any", equal, c.constant((1,)), keep_dims=False, Tidx=INT32, T=None)
    if c[2].dtype is STRING:
        raise UnsupportedOp("its values are text")
    mask = c.emit("Reshape", hits, c.constant((-1, *[1] * (len(sizes) - 1))), Tshape=INT32)
    y = c.emit("SelectV2", mask, found, c.constant(0, c[2]), T=c[2].dtype)
    return [y, c.emit("Cast", hits, SrcT=BOOL, DstT=_UINT8)]


@lifts("tfl.EMBEDDING_LOOKUP_SPARSE")
def embeddings(c: Call) -> Value:
    """EMBEDDING_LOOKUP_SPARSE: weighted rows of a table, summed per element of a sparse matrix.

    ids [n], indices [n,r], dense shape [r], weights [n], table [rows,...].
    """
    combiner = c.get("combiner", "SUM")
    lead = c.known(2).ravel().tolist()[:-1]
    rest, rank = c.sizes(4)[1:], c.sizes(1)[1]
    if len(lead) != rank - 1 or combiner not in ("SUM", "MEAN", "SQRTN"):
        raise UnsupportedOp("its sparse matrix, or how it is joined, is not known")
    count, bucket = 1, None
    for axis in range(rank - 2, -1, -1):
        begin, size = c.constant((0, axis)), c.constant((-1, 1))
        column = c.emit("Reshape", c.emit("Slice", c[1], begin, size, Index=INT32), c.constant((-1,)))
        scaled = c.emit("Mul", column, c.constant(count))
        bucket = scaled if bucket is None else c.emit("AddV2", bucket, scaled)
        count *= lead[axis]
    if bucket is None:
        raise UnsupportedOp("its sparse matrix has one axis only")
    rows = c.emit("GatherV2", c[4], c[0], c.constant(0), Tparams=c[4].dtype, Tindices=INT32, Taxis=INT32)
    ones = (1,) * len(rest)
    weights = c.emit("Reshape", c[3], c.constant((-1, *ones)), Tshape=INT32)

    def summed(x: Value) -> Value:
        return c.emit("UnsortedSegmentSum", x, bucket, c.constant(count), Tindices=INT32, Tnumsegments=INT32)

    y = summed(c.emit("Mul", rows, weights))
    if combiner != "SUM":
        total = summed(weights if combiner == "MEAN" else c.emit("Square", weights))
        total = total if combiner == "MEAN" else c.emit("Sqrt", total)
        # Elements that nothing was added to stay 0.
        some = c.emit("NotEqual", summed(c.emit("OnesLike", weights)), c.constant(0.0, weights))
        y = c.emit("RealDiv", y, c.emit("SelectV2", some, total, c.constant(1.0, total), T=total.dtype))
    return c.emit("Reshape", y, c.constant((*lead, *rest)), Tshape=INT32)
