"""Rows of tables by keys and numbers."""

from __future__ import annotations

import math

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.tflite.model import Operator

_MOST_DIMENSIONS = 8
_COMBINED = {
    "SUM": ("their sum", "1.0f"),
    "MEAN": ("their mean", "total"),
    "SQRTN": ("their sum over the root of the squares of their weights", "sqrtf(squares)"),
}


@form("HASHTABLE_LOOKUP", types="int32")
def hash_lookup(b: LayerBuilder, op: Operator) -> None:
    """Keys [n], those of a table [rows] and what it holds [rows, ...] -> [n, ...], and which it has."""
    wanted, keys, table = (b.input(n) for n in range(3))
    (rows,) = b.shape(keys)
    if not rows:
        raise UnsupportedOp("its table is empty, which LiteRT refuses")
    row_bytes = b.size(table) // rows * table.dtype.itemsize
    settings = b.struct("", count=b.size(wanted), rows=rows, row_bytes=row_bytes)
    b.call("hash_lookup", wanted, keys, table, *op.outputs, settings)


@form("EMBEDDING_LOOKUP_SPARSE", types="int32")
def embedding_sparse(b: LayerBuilder, op: Operator) -> None:
    """Numbers [n] of rows at places [n, rank], weights [n], and a table -> rows together for each place."""
    ids, places, weights, table = (b.input(n) for n in (0, 1, 3, 4))
    shape = tuple(int(n) for n in b.array(2).reshape(-1))
    if not 0 < len(shape) <= _MOST_DIMENSIONS:
        raise UnsupportedOp(f"its places have {len(shape)} numbers")
    rows, *row = b.shape(table)
    combiner = str(op.options.get("combiner", "SUM"))
    what, divisor = _COMBINED[combiner]
    settings = b.struct(
        "",
        count=b.size(ids),
        rank=len(shape),
        rows=rows,
        size=math.prod(row),
        buckets=math.prod(shape[:-1]),
        shape=shape,
    )
    words = {"op": combiner.lower(), "what": what, "expression": divisor}
    b.call("embedding_sparse", ids, places, weights, table, b.output(), settings, **words)
