"""ONNX's ops that move, cut and join arrays, in TensorFlow's words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BFLOAT16, FLOAT, HALF, INT32, INT64, dtype
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula, ranked
from thinflow.lift.onnx.sizes import Size, counted, product, settled, size, sizes_of, vector
from thinflow.lift.onnx.values import (
    NUMBERS,
    along,
    bounded,
    integers,
    like,
    numbers,
    rank,
    transposed,
    typed,
)
from thinflow.lift.rules import lifts

INT16 = dtype("int16")


@lifts("onnx.Reshape")
def _reshape(c: Call) -> Value:
    """A size of 0 keeps the input's, unless `allowzero` says otherwise."""
    is_zero = c.flag("allowzero")
    if not c.has(1):  # as before version 5
        return c.emit("Reshape", c[0], vector(c, _copied(c, c.get("shape", ()), is_zero)))
    content = c.content(c[1])
    if content is not None:
        return c.emit("Reshape", c[0], vector(c, _copied(c, content.reshape(-1).tolist(), is_zero)))
    sizes = _but_one(c[1])
    if sizes is not None:
        return c.emit("Reshape", c[0], integers(c, sizes))
    return c.emit("Reshape", c[0], typed(c, c[1], INT64) if is_zero else _with_zeros_filled(c))


def _copied(c: Call, sizes: Sequence[int], is_zero: bool) -> list[Size]:
    """Sizes, in which a 0 is what the input has."""
    if is_zero or 0 not in sizes:
        return list(sizes)
    own = c[0].spec.shape
    known = [n or (own[i] if own is not None and i < len(own) else None) for i, n in enumerate(sizes)]
    is_open = [n is None for n in known]
    others = math.prod(n for n in known if n is not None and n >= 0)
    left = _left_over(c, [i for i, unknown in enumerate(is_open) if unknown], others) if -1 in sizes else None
    # One that only the run tells is what the others leave.
    if sum(is_open) == 1 and others and (-1 not in sizes or left is not None):
        return [-1 if n is None else left if n == -1 and left is not None else n for n in known]
    return [size(c, c[0], i) if n is None else n for i, n in enumerate(known)]


def _left_over(c: Call, kept: Sequence[int], others: int) -> int | None:
    """What -1 stands for where the only sizes of the input that are open are kept as they are."""
    own = c[0].spec.shape
    rest = [None] if own is None else [n for i, n in enumerate(own) if i not in kept]
    known = math.prod(n or 0 for n in rest)
    return None if None in rest or not others or known % others else known // others


def _but_one(shape: Value) -> tuple[int, ...] | None:
    """Computed sizes of which all but one are known, with -1 for that; None if there are more, or a 0."""
    elements = shape.spec.elements
    if elements is None or elements.count(None) != 1 or any(n is not None and n <= 0 for n in elements):
        return None
    return tuple(-1 if n is None else n for n in elements)


def _with_zeros_filled(c: Call) -> Value:
    """Computed sizes, with the input's in place of zeros; there may be more or fewer of them."""
    wanted = typed(c, c[1], INT64)
    zeros = c.emit("ZerosLike", wanted)
    own = c.emit("ConcatV2", c.emit("Shape", c[0], out_type=INT64), zeros, c.constant(0))
    own = c.emit("Slice", own, integers(c, (0,)), c.emit("Shape", wanted, out_type=INT64))
    return c.emit("SelectV2", c.emit("Equal", wanted, zeros), own, wanted)


@lifts("onnx.Flatten")
def _flatten(c: Call) -> Value:
    """[a, b, c, d] as [a * b, c * d] at axis 2."""
    count = rank(c)
    axis = int(c.get("axis", 1))
    if not -count <= axis <= count:
        raise UnsupportedOp(f"its axis is {axis} where there are {count}")
    sizes = c[0].spec.shape or ()
    axis = axis + count if axis < 0 else axis
    width = None if None in sizes[axis:] else math.prod(n or 0 for n in sizes[axis:])
    height = None if None in sizes[:axis] else math.prod(n or 0 for n in sizes[:axis])
    # Of nothing, what is left over is not told by the number of elements.
    if width and height is None:
        height = -1
    if height and width is None:
        width = -1
    parts: list[Size] = [
        product(c, sizes_of(c, c[0], count)[:axis]) if height is None else height,
        product(c, sizes_of(c, c[0], count)[axis:]) if width is None else width,
    ]
    return c.emit("Reshape", c[0], vector(c, parts))


@lifts("onnx.Transpose")
def _transpose(c: Call) -> Value:
    order = tuple(c.get("perm") or reversed(range(rank(c))))
    if sorted(order) != list(range(rank(c))):
        raise UnsupportedOp(f"its order {list(order)} is not one of {rank(c)} dimensions")
    y = transposed(c, c[0], order)
    return c.emit("Identity", y) if y is c[0] else y


@lifts("onnx.Concat")
def _concat(c: Call) -> Value:
    xs = [c[i] for i in range(len(c.xs))]
    if len(xs) == 1:
        c.get("axis", 1)  # along whichever
        return c.emit("Identity", xs[0])
    if (parts := _stacked(c, xs)) is not None:
        return c.emit("Pack", *parts, axis=c.get("axis", 1), N=len(parts))
    shapes = [x.spec.shape for x in xs] + [c.spec.shape]
    if (sizes := next((s for s in shapes if s is not None), None)) is not None:
        # All have the rank of one, and of the result.
        xs = [ranked(Formula(c).term(x), (None,) * len(sizes)).value for x in xs]
    return c.emit("ConcatV2", *xs, c.constant(c.get("axis", 1)), N=len(xs), Tidx=INT32)


def _stacked(c: Call, xs: Sequence[Value]) -> list[Value] | None:
    """What is joined along an axis that each has got for that, which TensorFlow writes as one op."""
    axis = c.get("axis", 1)
    for x in xs:
        known = x.node.inputs[1].node.tensor if x.node.op == "ExpandDims" else None
        if known is None or x.spec.shape is None or known.numpy() != axis % len(x.spec.shape):
            return None
    return [x.node.inputs[0] for x in xs]


@lifts("onnx.Squeeze")
def _squeeze(c: Call) -> Value:
    return c.emit("Squeeze", c[0], squeeze_dims=numbers(c, "axes", 1) or ())


@lifts("onnx.Unsqueeze")
def _unsqueeze(c: Call) -> Value:
    axes = numbers(c, "axes", 1) or ()
    if c[0].spec.shape is None and len(axes) == 1:
        return c.emit("ExpandDims", c[0], c.constant(axes[0]))
    # Several axes are counted among each other, too; from the front they need no rank.
    is_open = c[0].spec.shape is None and bool(axes) and min(axes) >= 0
    count = max(axes) + 1 if is_open else rank(c) + len(axes)
    if not all(-count <= a < count for a in axes) or len({a % count for a in axes}) < len(axes):
        raise UnsupportedOp(f"its axes {list(axes)} are not those of {count} dimensions")
    y = c[0]
    for axis in sorted(a % count for a in axes):
        y = c.emit("ExpandDims", y, c.constant(axis))
    return c.emit("Identity", y) if y is c[0] else y


@lifts("onnx.Expand")
def _expand(c: Call) -> Value:
    """Both ways: sizes of 1 of the wanted shape stay what the input has."""
    wanted, own = c.content(c[1]), c[0].spec.shape
    if wanted is None or own is None or None in own:
        shape = c.emit("Shape", c[0], out_type=INT64)
        return c.emit("BroadcastTo", c[0], c.emit("BroadcastArgs", shape, settled(c, 1)))
    sizes = np.broadcast_shapes(tuple(n or 0 for n in own), tuple(map(int, wanted.reshape(-1))))
    return c.emit("Identity", c[0]) if sizes == own else c.emit("BroadcastTo", c[0], integers(c, sizes))


@lifts("onnx.Tile")
def _tile(c: Call) -> Value:
    """In version 1, so many times along one axis."""
    if not c.has(2):
        return c.emit("Tile", c[0], settled(c, 1))
    times, axes = c.known(1).reshape(-1), c.known(2).reshape(-1)
    counts = [1] * rank(c)
    for number, axis in zip(times, axes, strict=True):
        counts[int(axis)] = int(number)
    return c.emit("Tile", c[0], integers(c, counts))


@lifts("onnx.Shape")
def _shape(c: Call) -> Value:
    start, end = c.get("start", 0), c.get("end")
    y = c.emit("Shape", c[0], out_type=INT64)
    if not start and end is None:
        return y
    first, last, _ = slice(start, end).indices(rank(c))
    return c.emit("Slice", y, integers(c, (first,)), integers(c, (max(last - first, 0),)))


@lifts("onnx.ConstantOfShape")
def _constant_of_shape(c: Call) -> Value:
    fill = c.get("value")
    content = np.zeros(1, np.float32) if fill is None else fill.numpy()
    return c.emit("Fill", settled(c, 0), c.constant(content.reshape(())))


@lifts("onnx.Range")
def _range(c: Call) -> Value:
    """The types that TensorFlow counts in are fewer."""
    kind = c[0].dtype
    if kind is None or kind not in (HALF, BFLOAT16, INT16):
        return c.emit("Range", *(_scalar(c, i, c[i]) for i in range(3)))
    wide = INT32 if kind is INT16 else FLOAT
    return typed(c, c.emit("Range", *(_scalar(c, i, typed(c, c[i], wide)) for i in range(3))), kind)


def _scalar(c: Call, place: int, value: Value) -> Value:
    """An operand of one element, some of which exporters write as a vector."""
    return c.emit("Reshape", value, integers(c, ())) if c[place].spec.rank else value


@lifts("onnx.NonZero")
def _non_zero(c: Call) -> Value:
    """[rank, n]: the places, a row per axis."""
    return c.emit("Transpose", c.emit("Where", c[0]), integers(c, (1, 0)))


@lifts("onnx.Trilu")
def _trilu(c: Call) -> Value:
    """The part of matrices on one side of a diagonal."""
    known = c.content(c[1]) if c.has(1) else np.zeros(1)
    count, upper = rank(c), c.flag("upper", default=True)
    height, width = (size(c, c[0], count + a) for a in (-2, -1))
    if known is not None and isinstance(height, int) and isinstance(width, int):
        bounded(height * width)
        side = np.triu if upper else np.tril
        mask = c.constant(side(np.ones((height, width), bool), int(known.reshape(-1)[0])))
    else:
        k = c.emit("Reshape", settled(c, 1), integers(c, ())) if c.has(1) else integers(c, 0)
        above = c.emit("Sub", _columns(c, width), _rows(c, height))
        mask = c.emit("GreaterEqual" if upper else "LessEqual", above, k)
    return c.emit("SelectV2", mask, c[0], like(c, 0, c[0]))


def _columns(c: Call, number: Size) -> Value:
    return along(c, counted(c, number), 1, 2)


def _rows(c: Call, number: Size) -> Value:
    return along(c, counted(c, number), 0, 2)


@lifts("onnx.EyeLike")
def _eye_like(c: Call) -> Value:
    """Ones on a diagonal, of the sizes of a matrix."""
    number = c.get("dtype")
    kind = c[0].dtype if number is None else NUMBERS.get(number)
    if kind is None:
        raise UnsupportedOp("it makes a type that TensorFlow does not have")
    height, width = size(c, c[0], 0), size(c, c[0], 1)
    k = int(c.get("k", 0))
    if isinstance(height, int) and isinstance(width, int):
        bounded(height * width)
        return c.emit("Identity", c.constant(np.eye(height, width, k, dtype=np.int8).astype(kind.numpy())))
    below = c.emit("AddV2", _rows(c, height), integers(c, k))
    return typed(c, c.emit("Equal", below, _columns(c, width)), kind)


lifts("onnx.Size")(lambda c: c.emit("Size", c[0], out_type=INT64))
