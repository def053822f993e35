"""Elements by numbers that are computed, and the numbers of elements."""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.copies import copy, row_major
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import Argument, Verbatim
from thinflow.lower.c.operators.array import ANY, require_one_scale
from thinflow.lower.c.settle import C_TYPES
from thinflow.tflite.model import Operator, Tensor

_PLACES = 6
"""Numbers that a place may have; as many as the kernels' structs."""


def around(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """What comes before, along and behind a dimension."""
    axis %= len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


@form("ARG_MAX", "ARG_MIN", types="float int8 uint8 int16 int32 int64 bool")
def arg(b: LayerBuilder, op: Operator) -> None:
    """The number of the largest or the least along a dimension."""
    x, y = b.input(0), b.output()
    sizes = around(b.shape(x), int(b.array(1).reshape(-1)[0]))
    is_max = op.code == "ARG_MAX"
    words = {"what": "largest" if is_max else "least", "sign": ">" if is_max else "<"}
    kinds = {"op": op.code[4:].lower() + f"_{y.dtype.name}", "y_type": C_TYPES[y.dtype.name]}
    b.call("arg", x, y, *sizes, type=x.dtype.name, **kinds, **words)


@form("CUMSUM", types="float int32 int64")
def cumsum(b: LayerBuilder, op: Operator) -> None:
    """Sums of all that stands before."""
    x, y = b.input(0), b.output()
    outer, count, inner = around(b.shape(x), int(b.array(1).reshape(-1)[0]))
    flags = {name: int(bool(op.options.get(name))) for name in ("exclusive", "reverse")}
    settings = b.struct("", outer=outer, count=count, inner=inner, **flags)
    b.in_place()
    b.call("scan", x, y, settings, type=x.dtype.name)


@form("TOPK_V2", types="float int8 uint8 int16 int32 int64")
def top(b: LayerBuilder, op: Operator) -> None:
    """The k largest of the last dimension."""
    x, values, places = b.input(0), b.output(), b.output(1)
    depth, count = b.shape(x)[-1], b.shape(values)[-1]
    if not count:
        return
    kinds = {"op": places.dtype.name, "y_type": C_TYPES[places.dtype.name]}
    b.call("top", x, values, places, b.size(x) // depth, depth, count, type=x.dtype.name, **kinds)


@form("DYNAMIC_UPDATE_SLICE", types=ANY)
def update_slice(b: LayerBuilder, op: Operator) -> None:
    """Input 0 with input 1 written over it where input 2 says."""
    x, part, starts, y = b.input(0), b.input(1), b.input(2), b.output()
    sizes, parts = b.shape(x), b.shape(part)
    if len(sizes) > 5:
        raise UnsupportedOp(f"it has {len(sizes)} dimensions, more than 5")
    ones = (1,) * (5 - len(sizes))
    each = x.dtype.itemsize
    steps = tuple(n * each for n in row_major((*ones, *sizes)))
    settings = b.struct(
        "", size=(*ones, *sizes), part=(*ones, *parts), step=steps, run_bytes=(parts or (1,))[-1] * each
    )
    # On the input itself if nobody reads that any more; then nothing is copied.
    b.in_place()
    b.call("move", y, x, Verbatim(str(y.size_bytes)))
    b.call(
        "update_slice",
        part,
        starts,
        y,
        settings,
        type=starts.dtype.name,
        op=str(len(sizes)),
        rank=str(len(sizes)),
    )


@form("GATHER_ND", types=ANY)
def gather_nd(b: LayerBuilder, op: Operator) -> None:
    """Slices of input 0 by the last dimension of input 1."""
    x, places, y = b.input(0), b.input(1), b.output()
    require_one_scale(b, [x], y)
    shape, rank = b.shape(x), b.shape(places)[-1]
    if rank > _PLACES:
        raise UnsupportedOp(f"places have {rank} numbers, more than {_PLACES}")
    fill = (1,) * (_PLACES - rank)
    steps = tuple(n * x.dtype.itemsize for n in row_major(shape)[:rank])
    settings = b.struct(
        "",
        count=b.size(places) // max(rank, 1),
        rank=rank,
        size=(*shape[:rank], *fill),
        step=(*steps, *fill),
        run_bytes=math.prod(shape[rank:]) * x.dtype.itemsize,
    )
    b.call("gather_nd", x, places, y, settings, type=places.dtype.name)


@form("SCATTER_ND", types="int32 int64")
def scatter_nd(b: LayerBuilder, op: Operator) -> None:
    """Slices of input 1 added to zeros where input 0 says."""
    y, rank = b.output(), b.shape(b.input(0))[-1]
    kind = y.dtype.name
    b.call("fill", y, b.size(y), 0.0 if kind == "float" else 0, type=kind)
    total = "y[start + k] || x[k]" if kind == "bool" else "y[start + k] + x[k]"
    depth = math.prod(b.shape(y)[rank:])
    _scatter(b, b.input(1), rank, depth, depth, op=b.input(0).dtype.name, sum=total)


@form("SPARSE_TO_DENSE", types="int32 int64")
def sparse_to_dense(b: LayerBuilder, op: Operator) -> None:
    """Input 2, or its numbers one by one, where input 0 says; input 3 everywhere else."""
    places, x = b.input(0), b.input(2)
    rank = b.shape(places)[1] if len(b.shape(places)) == 2 else 1
    _spread(b, b.input(3))
    step = int(bool(b.shape(x)))
    _scatter(b, x, rank, 1, step, op=f"set_{places.dtype.name}", sum="x[k]")


def _scatter(b: LayerBuilder, x: Tensor, rank: int, depth: int, step: int, **words: str) -> None:
    """Call the kernel that brings slices of x to where the numbers of input 0, so many for each, say."""
    places, y = b.input(0), b.output()
    if rank > _PLACES:
        raise UnsupportedOp(f"places have {rank} numbers, more than {_PLACES}")
    fill, shape = (1,) * (_PLACES - rank), b.shape(y)
    settings = b.struct(
        "",
        count=b.size(places) // max(rank, 1),
        rank=rank,
        depth=depth,
        x_step=step,
        size=(*shape[:rank], *fill),
        step=(*row_major(shape)[:rank], *fill),
    )
    words |= {"index_type": C_TYPES[places.dtype.name]}
    b.call("scatter_nd", places, x, y, settings, type=y.dtype.name, **words)


def _spread(b: LayerBuilder, value: Tensor) -> None:
    """Write one number everywhere into the output."""
    y, shape = b.output(), b.shape(b.output())
    if not value.is_constant:
        copy(b, value, y, shape, [0] * len(shape), row_major(shape))
        return
    kind, number = y.dtype.name, value.array().reshape(-1)[0]
    b.call("fill", y, b.size(y), float(number) if kind == "float" else int(number), type=kind)


@form("FILL", types=ANY)
def fill(b: LayerBuilder, op: Operator) -> None:
    """A number everywhere."""
    _spread(b, b.input(1))


@form("DILATE", types=ANY)
def dilate(b: LayerBuilder, op: Operator) -> None:
    """So many steps between elements, and input 2 there."""
    x, y, wide = b.input(0), b.output(), [int(n) for n in b.array(1).reshape(-1)]
    _spread(b, b.input(2))
    steps = row_major(b.shape(y))
    spread = [n * step for n, step in zip(wide, steps, strict=True)]
    copy(b, x, y, b.shape(x), row_major(b.shape(x)), spread)


@form("BUCKETIZE", types="float int32 int64")
def bucketize(b: LayerBuilder, op: Operator) -> None:
    """How many of the boundaries, which ascend, are not above."""
    ends = b.constant("boundaries", np.float32(op.options["boundaries"]))
    b.call(
        "bucketize",
        b.input(0),
        b.output(),
        ends,
        len(ends.data),
        b.size(b.output()),
        type=b.input(0).dtype.name,
    )


@form("ONE_HOT", types="int32 int64 uint8")
def one_hot(b: LayerBuilder, op: Operator) -> None:
    """A value where the number says, along a new dimension."""
    x, on, off, y = b.input(0), b.input(2), b.input(3), b.output()
    axis = b.option("axis", -1)
    outer, depth, inner = around(b.shape(y), axis)
    kinds = {"op": x.dtype.name, "index_type": C_TYPES[x.dtype.name]}
    settings = b.struct("", outer=outer, depth=depth, inner=inner)
    b.call("one_hot", x, on, off, y, settings, type=y.dtype.name, **kinds)


@form("EMBEDDING_LOOKUP", types="int32")
def embedding_lookup(b: LayerBuilder, op: Operator) -> None:
    """Rows of input 1 by the numbers at input 0."""
    places, x, y = b.input(0), b.input(1), b.output()
    is_byte = x.dtype.name == "int8" and y.dtype.name == "float"
    if x.dtype != y.dtype and not is_byte:
        raise UnsupportedOp(f"it makes {y.dtype} of {x.dtype}")
    rows = b.shape(x)[0]
    bytes_each = b.size(x) // rows * x.dtype.itemsize
    settings = b.struct("", batches=1, outer=1, slices=rows, count=b.size(places), run_bytes=bytes_each)
    found: Argument = b.scratch(b.size(y)) if is_byte else y
    b.call("gather", x, places, found, settings, type=places.dtype.name)
    if is_byte:
        b.call("dequantize", found, y, b.size(y), float(b.scale(x)[0]), 0, type="int8")


@form("REVERSE_V2", types=ANY)
def reverse(b: LayerBuilder, op: Operator) -> None:
    """Dimensions from the last to the first."""
    x, y = b.input(0), b.output()
    shape = b.shape(x)
    turned = {int(n) % len(shape) for n in b.array(1).reshape(-1)}
    steps = row_major(shape)
    start = sum((shape[n] - 1) * steps[n] for n in turned)
    walks = [-step if n in turned else step for n, step in enumerate(steps)]
    copy(b, x, y, shape, walks, steps, x_start=start)
