"""Elements that are moved, chosen and put together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.convert import C_TYPES
from thinflow.lower.c.copies import copy, copy_settings, row_major
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import Argument, Verbatim
from thinflow.tflite.model import Operator, Tensor

ANY = " ".join(C_TYPES)
MOVED = f"{ANY} complex64"
"""What is moved without being looked at."""
_TOLD = 6
"""Numbers that a computed slice may begin at; as many as its kernel's struct has."""


@form("RESHAPE", "SQUEEZE", "EXPAND_DIMS", types=MOVED)
def reshape(b: LayerBuilder, op: Operator) -> None:
    """The same elements in other sizes."""
    b.same()


@form("CONCATENATION", "PACK", types=MOVED)
def concatenation(b: LayerBuilder, op: Operator) -> None:
    """Inputs one behind the other along an axis, an old one or a new one."""
    y = b.output()
    is_joined = op.code == "CONCATENATION"
    is_scaled = y.dtype.name == "uint8" and is_joined
    if is_joined and y.dtype.name == "int16":
        _require_no_zero_point(b, [*op.reads(), y])
    elif not is_scaled:
        require_one_scale(b, [t for t in op.reads()], y)
    shape = b.shape(y)
    is_new = op.code == "PACK"
    axis = b.option("axis") % len(shape)
    # Where the next input begins along the axis.
    at = 0
    for number in range(len(op.inputs)):
        x = b.input(number)
        sizes = b.shape(x)
        if is_new:
            sizes = (*sizes[:axis], 1, *sizes[axis:])
        read = _rescaled(b, x, y) if is_scaled else x
        start = at * math.prod(shape[axis + 1 :])
        copy(b, read, y, sizes, row_major(sizes), row_major(shape), y_start=start, size=x.dtype.itemsize)
        at += sizes[axis]
    activation = op.options.get("fused_activation_function", "NONE")
    if activation != "NONE":
        raise UnsupportedOp(f"the activation {activation} behind it has no form in C")


def _require_no_zero_point(b: LayerBuilder, tensors: list[Tensor]) -> None:
    """Refuse what LiteRT refuses of 16 bits; numbers of any scale are put beside each other as they are."""
    for t in tensors:
        if t.quantization is not None and len(t.quantization.scale) and b.scale(t)[1]:
            raise UnsupportedOp(f"'{t.name}' is of 16 bits with a zero point, which LiteRT refuses")


def _rescaled(b: LayerBuilder, x: Tensor, y: Tensor) -> Argument:
    """Bytes without a sign at the scale of an output, as LiteRT's kernel brings them there, in float."""
    if any(t.quantization is None or not len(t.quantization.scale) for t in (x, y)) or b.scale(x) == b.scale(
        y
    ):
        return x
    (x_scale, x_zero), (y_scale, y_zero) = b.scale(x), b.scale(y)
    scale = x_scale * (np.float32(1) / y_scale)
    reals = np.arange(256, dtype=np.float32) * scale + np.float32(-x_zero) * scale
    # Halves away from zero.
    rounded = np.sign(reals) * np.floor(np.abs(reals) + np.float32(0.5)) + y_zero
    table, room = b.constant("table", rounded.clip(0, 255).astype(np.uint8)), b.scratch(b.size(x))
    b.call("lookup", x, room, table, b.size(x))
    return room


@form("SPLIT", types="int32")
def split(b: LayerBuilder, op: Operator) -> None:
    """Input 1 in equal parts along the axis at input 0."""
    _split(b, op, b.input(1), int(b.array(0).reshape(-1)[0]))


@form("SPLIT_V", types=MOVED)
def split_v(b: LayerBuilder, op: Operator) -> None:
    """Input 0 in parts along the axis at input 2."""
    _split(b, op, b.input(0), int(b.array(2).reshape(-1)[0]))


@form("UNPACK", types=MOVED)
def unpack(b: LayerBuilder, op: Operator) -> None:
    """Slices along an axis, which the outputs do not have."""
    _split(b, op, b.input(0), b.option("axis"))


def _split(b: LayerBuilder, op: Operator, x: Tensor, axis: int) -> None:
    shape = b.shape(x)
    axis %= len(shape)
    at = 0
    for y in op.outputs:
        require_one_scale(b, [x], y)
        sizes = b.shape(y)
        if op.code == "UNPACK":
            sizes = (*sizes[:axis], 1, *sizes[axis:])
        copy(b, x, y, sizes, row_major(shape), row_major(sizes), x_start=at * math.prod(shape[axis + 1 :]))
        at += sizes[axis]


@form("TRANSPOSE", types=MOVED)
def transpose(b: LayerBuilder, op: Operator) -> None:
    """Dimensions in another order."""
    x, y = b.input(0), b.output()
    # Steps of the input in the order of the output: the copy does the rest.
    order = [int(n) % len(b.shape(x)) for n in b.array(1)]
    steps = row_major(b.shape(x))
    copy(b, x, y, b.shape(y), [steps[n] for n in order], row_major(b.shape(y)))


@form("SLICE", types=MOVED)
def slice_(b: LayerBuilder, op: Operator) -> None:
    """A part that begins at constants, or where it is told while it runs."""
    x, y = b.input(0), b.output()
    steps = row_major(b.shape(x))
    if len(op.outputs) > 1:
        _first_rows(b, op, "count")
        return
    if not b.input(1).is_constant:
        _computed_slice(b, list(range(len(steps))), [1] * len(steps), b.shape(y))
        return
    start = sum(int(n) * step for n, step in zip(b.array(1), steps, strict=True))
    copy(b, x, y, b.shape(y), steps, row_major(b.shape(y)), x_start=start)


@form("STRIDED_SLICE", types=MOVED)
def strided_slice(b: LayerBuilder, op: Operator) -> None:
    """x[begin:end:step, ...], constants or told while it runs; the masks are TensorFlow's."""
    x, y = b.input(0), b.output()
    shape, steps = b.shape(x), row_major(b.shape(x))
    if len(op.outputs) > 1:
        _first_rows(b, op, "*wanted + count")
        return
    strides = b.array(3).tolist()
    axes = _axes_chosen(b, len(shape), len(strides))
    if not (b.input(1).is_constant and b.input(2).is_constant):
        _computed_strides(b, axes, strides)
        return
    begins, ends = (b.array(n).tolist() for n in (1, 2))
    # Python's own slices know all about negative steps and ends beyond the last.
    counts, walks, start = [], [], 0
    for axis, i in enumerate(axes):
        size, step = shape[axis], steps[axis]
        chosen = range(size)
        if i is not None and b.option("shrink_axis_mask") >> i & 1:
            chosen = range(begins[i] % size, begins[i] % size + 1)
        elif i is not None:
            first = None if b.option("begin_mask") >> i & 1 else begins[i]
            last = None if b.option("end_mask") >> i & 1 else ends[i]
            chosen = range(*slice(first, last, strides[i]).indices(size))
        counts.append(len(chosen))
        walks.append(step * (chosen.step if len(chosen) > 1 else 1))
        start += (chosen.start if len(chosen) else 0) * step
    copy(b, x, y, counts, walks, row_major(counts), x_start=start)


def _first_rows(b: LayerBuilder, op: Operator, negative: str) -> None:
    """The first rows, as many as input 2 tells; `negative` is how many are meant by a number below zero."""
    x, wanted, rows = b.input(0), b.input(2), b.shape(b.input(0))[0]
    words = {"type": wanted.dtype.name, "op": op.code.lower(), "negative": negative}
    row_bytes = b.size(x) // max(rows, 1) * x.dtype.itemsize
    b.call("first_rows", x, wanted, *op.outputs, rows, row_bytes, **words)


def _computed_strides(b: LayerBuilder, axes: list[int | None], strides: list[int]) -> None:
    """A slice whose beginning is told while it runs; its sizes are those of the output."""
    # Dimensions of the output in turn; a new one, or one that is left out, is 1 in the copy.
    sizes, shape = [n for n in b.shape(b.output())], b.shape(b.input(0))
    new = b.option("new_axis_mask") & ~b.option("ellipsis_mask")
    if new or any(n < 0 for n in strides):
        raise UnsupportedOp("it begins at what is computed, with new dimensions or backwards")
    counts: list[int] = []
    for i in axes:
        is_one = i is not None and b.option("shrink_axis_mask") >> i & 1
        counts.append(1 if is_one else sizes.pop(0))
    told = [None if i is None or b.option("begin_mask") >> i & 1 else i for i in axes]
    walks = [1 if i is None else strides[i] for i in axes]
    if any(count * walk > size + walk - 1 for count, walk, size in zip(counts, walks, shape, strict=True)):
        raise UnsupportedOp("its sizes follow from what is computed")
    _computed_slice(b, told, walks, counts)


def _computed_slice(
    b: LayerBuilder, told: Sequence[int | None], walks: Sequence[int], counts: Sequence[int]
) -> None:
    """Call a kernel that copies what begins at input 1.

    Args:
        b: of the layer.
        told: for each dimension which number of input 1 tells its first element; None for the first of all.
        walks: elements from one to the next along each, by the size of that dimension.
        counts: of elements along each.
    """
    x, begins, shape = b.input(0), b.input(1), b.shape(b.input(0))
    steps, size = row_major(shape), x.dtype.itemsize
    chosen = [n for n, i in enumerate(told) if i is not None]
    if len(chosen) > _TOLD:
        raise UnsupportedOp(f"it begins at {len(chosen)} numbers that are computed, more than {_TOLD}")
    fill = (0,) * (_TOLD - len(chosen))
    # Wherever it is to begin, all of it lies in the input.
    most = [shape[n] - (counts[n] - 1) * walks[n] - 1 for n in chosen]
    paces = [step * walk for step, walk in zip(steps, walks, strict=True)]
    parts = copy_settings(size, counts, paces, row_major(counts))
    settings = b.struct(
        "",
        rank=len(chosen),
        told=(*[told[n] or 0 for n in chosen], *fill),
        size=(*[shape[n] for n in chosen], *fill),
        most=(*most, *fill),
        step=(*[steps[n] * size for n in chosen], *fill),
        copy=b.struct("strided_copy_t", x_start=0, y_start=0, **parts),
    )
    b.call("computed_slice", x, begins, b.output(), settings, type=begins.dtype.name)


def _axes_chosen(b: LayerBuilder, rank: int, given: int) -> list[int | None]:
    """For each dimension of the input the number of what is said about it; None for those that are whole."""
    said: list[int | None] = []
    rest = rank - sum(
        not (b.option("ellipsis_mask") | b.option("new_axis_mask")) >> n & 1 for n in range(given)
    )
    for n in range(given):
        if b.option("ellipsis_mask") >> n & 1:
            said += [None] * rest
        elif not b.option("new_axis_mask") >> n & 1:
            # A new dimension of one moves nothing.
            said.append(n)
    return said + [None] * (rank - len(said))


@form("PAD", "PADV2", types=ANY)
def pad(b: LayerBuilder, op: Operator) -> None:
    """The input with a value around it: zero, or a constant."""
    x, y = b.input(0), b.output()
    # What stands for zero, not the number 0.
    value: int | float = 0
    if b.optional(2) is not None:
        value = b.array(2).reshape(-1)[0].item()
    elif y.quantization is not None and len(y.quantization.scale):
        value = b.scale(y)[1]
    require_one_scale(b, [x], y)
    kind = y.dtype.name
    value = float(value) if kind == "float" else int(value)
    # All of it, then the input over it: simpler than the eight edges, and edges are small.
    b.call("fill", y, b.size(y), value, type=kind)
    steps = row_major(b.shape(y))
    start = sum(int(n) * step for n, step in zip(b.array(1)[:, 0], steps, strict=True))
    copy(b, x, y, b.shape(x), row_major(b.shape(x)), steps, y_start=start)


@form("BROADCAST_TO", types=MOVED)
def broadcast_to(b: LayerBuilder, op: Operator) -> None:
    """The same elements again and again along dimensions of one."""
    x, y = b.input(0), b.output()
    # Where the input stands still its step is 0.
    sizes = (1,) * (len(b.shape(y)) - len(b.shape(x))) + b.shape(x)
    steps = [0 if n == 1 else step for n, step in zip(sizes, row_major(sizes), strict=True)]
    copy(b, x, y, b.shape(y), steps, row_major(b.shape(y)))


@form("TILE", types=MOVED)
def tile(b: LayerBuilder, op: Operator) -> None:
    """The input again and again."""
    x, y = b.input(0), b.output()
    sizes, times = b.shape(x), [int(n) for n in b.array(1)]
    # Two dimensions for each: the times, in which the input stands still, and its own.
    count = [n for pair in zip(times, sizes, strict=True) for n in pair]
    x_step = [n for step in row_major(sizes) for n in (0, step)]
    y_step = [n for size, step in zip(sizes, row_major(b.shape(y)), strict=True) for n in (size * step, step)]
    copy(b, x, y, count, x_step, y_step)


@form("DEPTH_TO_SPACE", "SPACE_TO_DEPTH", types=ANY)
def depth_to_space(b: LayerBuilder, op: Operator) -> None:
    """Blocks of channels as blocks of pixels, or back."""
    block, is_deep = b.option("block_size"), op.code == "DEPTH_TO_SPACE"
    x, y = b.input(0), b.output()
    n, height, width, depth = b.shape(x if is_deep else y)
    # Both are the same six dimensions in another order.
    inner = depth // block // block
    deep = row_major((n, height, width, block, block, inner))
    wide = row_major((n, height, block, width, block, inner))
    # In the order of the deep one's dimensions.
    wide = [wide[i] for i in (0, 1, 3, 2, 4, 5)]
    count = (n, height, width, block, block, inner)
    copy(b, x, y, count, deep if is_deep else wide, wide if is_deep else deep)


@form("GATHER", types=MOVED)
def gather(b: LayerBuilder, op: Operator) -> None:
    """Slices of input 0 by the numbers at input 1."""
    x, indices, y = b.input(0), b.input(1), b.output()
    shape = b.shape(x)
    axis, shared = b.option("axis") % len(shape), b.option("batch_dims") % max(len(b.shape(indices)), 1)
    require_one_scale(b, [x], y)
    # A slice is what lies behind the axis, in one piece.
    settings = b.struct(
        "",
        batches=math.prod(shape[:shared]),
        outer=math.prod(shape[shared:axis]),
        slices=shape[axis],
        count=math.prod(b.shape(indices)[shared:]),
        run_bytes=math.prod(shape[axis + 1 :]) * x.dtype.itemsize,
    )
    b.call("gather", x, indices, y, settings, type=indices.dtype.name)


@form("CAST", types=ANY)
def cast(b: LayerBuilder, op: Operator) -> None:
    """Numbers of another type, as C converts them."""
    x, y = b.input(0), b.output()
    for t in (x, y):
        if t.dtype.name not in C_TYPES:
            raise UnsupportedOp(f"'{t.name}' holds {t.dtype}, for which there is no C")
    # Towards zero from floats, as LiteRT: both leave it to C.
    kinds = {"x_type": C_TYPES[x.dtype.name], "y_type": C_TYPES[y.dtype.name]}
    b.call("cast", x, y, b.size(y), op=f"{x.dtype.name}_{y.dtype.name}", **kinds)


@form("SHAPE", types=ANY)
def shape(b: LayerBuilder, op: Operator) -> None:
    """The sizes of the input, which are known."""
    y = b.output()
    sizes = np.array(b.shape(b.input(0)), y.dtype.numpy())
    b.call("copy", y, b.constant("shape", sizes), Verbatim(str(sizes.nbytes)))


def require_one_scale(b: LayerBuilder, inputs: list[Tensor], y: Tensor) -> None:
    """Refuse to move integers to another scale, which would mean something else there."""
    if y.quantization is None or not len(y.quantization.scale):
        return
    wanted = b.scale(y)
    for x in inputs:
        if x.quantization is not None and len(x.quantization.scale) and b.scale(x) != wanted:
            raise UnsupportedOp(f"'{x.name}' has another scale than '{y.name}'")
