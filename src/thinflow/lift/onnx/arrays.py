"""ONNX's ops that move, cut and join arrays, in TensorFlow's words."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32, INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import (
    bounded,
    integers,
    like,
    numbers,
    rank,
    transposed,
    typed,
)
from thinflow.lift.rules import lifts

_INT64_MOST = (1 << 63) - 1


@lifts("onnx.Reshape")
def _reshape(c: Call) -> Value:
    """A size of 0 keeps the input's, unless `allowzero` says otherwise."""
    if not c.has(1):  # as before version 5
        sizes: tuple[int, ...] | None = tuple(c.get("shape", ()))
    else:
        tensor = c[1].node.tensor
        sizes = None if tensor is None else tuple(int(n) for n in tensor.numpy().reshape(-1))
    if sizes is None:
        shape = c[1] if c.get("allowzero", 0) else _with_zeros_filled(c)
        return c.emit("Reshape", c[0], shape, Tshape=shape.dtype)
    copied = [i for i, n in enumerate(sizes) if n == 0 and not c.get("allowzero", 0)]
    shape = integers(c, sizes)
    if copied:
        own = c[0].spec.shape
        if own is not None and all(i < len(own) and own[i] is not None for i in copied):
            shape = integers(c, tuple(int(own[i] or 0) if i in copied else n for i, n in enumerate(sizes)))
        else:
            shape = _with_sizes_of(c, sizes, copied)
    return c.emit("Reshape", c[0], shape, Tshape=INT64)


def _with_sizes_of(c: Call, sizes: tuple[int, ...], copied: list[int]) -> Value:
    """Sizes, of which some are those that the input turns out to have."""
    whole = c.emit("Shape", c[0], out_type=INT64)
    parts = [
        c.emit("Slice", whole, integers(c, (i,)), integers(c, (1,)), Index=INT64)
        if i in copied
        else integers(c, (n,))
        for i, n in enumerate(sizes)
    ]
    return _one_vector(c, parts)


def _one_vector(c: Call, parts: list[Value]) -> Value:
    return c.emit("ConcatV2", *parts, c.constant(0), N=len(parts), Tidx=INT32) if len(parts) > 1 else parts[0]


def _with_zeros_filled(c: Call) -> Value:
    """Computed sizes, with the input's in place of zeros; there may be more or fewer of them."""
    wanted = typed(c, c[1], INT64)
    zeros = c.emit("ZerosLike", wanted)
    own = c.emit("ConcatV2", c.emit("Shape", c[0], out_type=INT64), zeros, c.constant(0), N=2, Tidx=INT32)
    count = c.emit("Shape", wanted, out_type=INT64)
    own = c.emit("Slice", own, integers(c, (0,)), count, Index=INT64)
    return c.emit("SelectV2", c.emit("Equal", wanted, zeros), own, wanted, T=INT64)


@lifts("onnx.Flatten")
def _flatten(c: Call) -> Value:
    """[a, b, c, d] as [a * b, c * d] at axis 2."""
    axis, count = c.get("axis", 1), rank(c)
    axis = axis + count if axis < 0 else axis
    sizes = c[0].spec.shape or ()
    if axis == 0:
        return c.emit("Reshape", c[0], integers(c, (1, -1)), Tshape=INT64)
    if None not in sizes[axis:]:
        width = int(np.prod([n or 0 for n in sizes[axis:]], dtype=np.int64))
        return c.emit("Reshape", c[0], integers(c, (-1, width)), Tshape=INT64)
    if None not in sizes[:axis]:
        height = int(np.prod([n or 0 for n in sizes[:axis]], dtype=np.int64))
        return c.emit("Reshape", c[0], integers(c, (height, -1)), Tshape=INT64)
    raise UnsupportedOp("too many of its input's sizes are open")


@lifts("onnx.Transpose")
def _transpose(c: Call) -> Value:
    order = c.get("perm") or tuple(reversed(range(rank(c))))
    y = transposed(c, c[0], order)
    return c.emit("Identity", y) if y is c[0] else y


@lifts("onnx.Concat")
def _concat(c: Call) -> Value:
    xs = [c[i] for i in range(len(c.xs))]
    if len(xs) == 1:
        return c.emit("Identity", xs[0])
    return c.emit("ConcatV2", *xs, c.constant(c.get("axis", 1)), N=len(xs), Tidx=INT32)


@lifts("onnx.Split")
def _split(c: Call) -> list[Value]:
    parts = numbers(c, "split", 1)
    count = len(c.node.outputs)
    if c.get("num_outputs", count) != count:
        raise UnsupportedOp("not all of its parts have names")
    axis = c.get("axis", 0)
    if parts is None:
        size = c.sizes(0)[axis]
        each = -(-size // count)
        parts = tuple(min(each, size - i * each) for i in range(count))
    if len(parts) == 1:
        return [c.emit("Identity", c[0])]
    node = c.many("SplitV", c[0], integers(c, parts), c.constant(axis), num_split=len(parts), Tlen=INT64)
    return [node.output(i) for i in range(len(parts))]


@lifts("onnx.Slice")
def _slice(c: Call) -> Value:
    """Begins and ends may be computed; axes and steps must be constants."""
    count = rank(c)
    if not c.has(1):  # options, as before version 10
        starts, ends = (integers(c, c.get(option, ())) for option in ("starts", "ends"))
        axes = c.get("axes") or tuple(range(len(c.get("starts", ()))))
        steps: tuple[int, ...] = (1,) * len(axes)
    else:
        starts, ends = c[1], c[2]
        given = numbers(c, "", 3)
        length = (starts.spec.shape or (None,))[0]
        axes = given if given is not None else tuple(range(count if length is None else length))
        steps = numbers(c, "", 4) or (1,) * len(axes)
    places = {axis % count: i for i, axis in enumerate(axes)}
    pieces = [[_piece(c, ends_of, places.get(axis), fill) for axis in range(count)]
              for ends_of, fill in ((starts, 0), (ends, _INT64_MOST))]  # fmt: skip
    masks = _end_mask(ends, places, steps)
    strides = integers(c, tuple(steps[places[a]] if a in places else 1 for a in range(count)))
    begin, end = (_joined(c, p) for p in pieces)
    return c.emit(
        "StridedSlice", c[0], begin, end, strides, Index=INT64, end_mask=masks,
        begin_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0,
    )  # fmt: skip


def _end_mask(ends: Value, places: Mapping[int, int], steps: tuple[int, ...]) -> int:
    """Axes that are walked backwards to their very beginning, which an end of -1 would not say."""
    tensor = ends.node.tensor
    if tensor is None:
        return 0
    known = [int(n) for n in tensor.numpy().reshape(-1)]
    return sum(1 << axis for axis, i in places.items() if steps[i] < 0 and known[i] <= -_FAR)


# Exporters write about the least number of 32 or 64 bits for "to the beginning"; no axis is that long.
_FAR = 1 << 30


def _piece(c: Call, values: Value, place: int | None, fill: int) -> Value | int:
    """One number of a vector: known, or cut out of what is computed."""
    if place is None:
        return fill
    if values.node.tensor is not None:
        return int(values.node.tensor.numpy().reshape(-1)[place])
    part = c.emit("Slice", values, integers(c, (place,)), integers(c, (1,)), Index=INT64)
    return typed(c, part, INT64)


def _joined(c: Call, pieces: list[Value | int]) -> Value:
    if all(isinstance(p, int) for p in pieces):
        return integers(c, tuple(p for p in pieces if isinstance(p, int)))
    parts = [integers(c, (p,)) if isinstance(p, int) else p for p in pieces]
    return _one_vector(c, parts)


@lifts("onnx.Squeeze")
def _squeeze(c: Call) -> Value:
    return c.emit("Squeeze", c[0], squeeze_dims=numbers(c, "axes", 1) or ())


@lifts("onnx.Unsqueeze")
def _unsqueeze(c: Call) -> Value:
    axes = numbers(c, "axes", 1) or ()
    count = rank(c) + len(axes)
    y = c[0]
    for axis in sorted(a % count for a in axes):
        y = c.emit("ExpandDims", y, c.constant(axis))
    return c.emit("Identity", y) if y is c[0] else y


@lifts("onnx.Expand")
def _expand(c: Call) -> Value:
    """Both ways: sizes of 1 of the wanted shape stay what the input has."""
    shape = c.emit("Shape", c[0], out_type=INT64)
    return c.emit("BroadcastTo", c[0], c.emit("BroadcastArgs", shape, c[1], T=INT64), Tidx=INT64)


@lifts("onnx.Shape")
def _shape(c: Call) -> Value:
    start, end = c.get("start", 0), c.get("end")
    y = c.emit("Shape", c[0], out_type=INT64)
    if not start and end is None:
        return y
    count = rank(c)
    first, last, _ = slice(start, end).indices(count)
    return c.emit("Slice", y, integers(c, (first,)), integers(c, (max(last - first, 0),)), Index=INT64)


@lifts("onnx.ConstantOfShape")
def _constant_of_shape(c: Call) -> Value:
    fill = c.get("value")
    content = np.zeros(1, np.float32) if fill is None else fill.numpy()
    value = c.constant(content.reshape(()))
    return c.emit("Fill", c[0], value, T=value.dtype, index_type=INT64)


@lifts("onnx.Range")
def _range(c: Call) -> Value:
    return c.emit("Range", c[0], c[1], c[2], Tidx=c[0].dtype)


@lifts("onnx.NonZero")
def _non_zero(c: Call) -> Value:
    """[rank, n]: the places, a row per axis."""
    return c.emit("Transpose", c.emit("Where", c[0]), integers(c, (1, 0)), T=INT64, Tperm=INT64)


@lifts("onnx.Trilu")
def _trilu(c: Call) -> Value:
    """The part of matrices on one side of a diagonal."""
    k = int(c.known(1).reshape(-1)[0]) if c.has(1) else 0
    height, width = c.sizes(0)[-2:]
    bounded(height * width)
    side = np.triu if c.get("upper", 1) else np.tril
    mask = c.constant(side(np.ones((height, width), bool), k))
    return c.emit("SelectV2", mask, c[0], like(c, 0, c[0]), T=c[0].dtype)


lifts("onnx.Tile")(lambda c: c.emit("Tile", c[0], c[1], Tmultiples=INT64))
lifts("onnx.Size")(lambda c: c.emit("Size", c[0], out_type=INT64))
