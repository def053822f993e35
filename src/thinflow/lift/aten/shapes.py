"""ATen's views, joins, slices and fills. Shapes of results are those that the file states."""

from __future__ import annotations

import numpy as np

from thinflow.decompose.terms import Term, concat, stack
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, INT32
from thinflow.lift.aten.arguments import Arguments, aten
from thinflow.lift.onnx.formulas import Size, reshaped, size, sizes_of, vector
from thinflow.lift.onnx.values import bounded

_LIMIT = (1 << 63) - 1
"""What PyTorch writes for the end of an axis."""


# --- the same elements --------------------------------------------------------------------------------------


def _same(a: Arguments) -> Value:
    return a.emit("Identity", a.x)


aten(
    "clone",
    "contiguous",
    "detach",
    "alias",
    "lift_fresh_copy",
    "lift_fresh",
    "positive",
    "alias_copy",
    "detach_copy",
)(_same)


@aten("dropout", "feature_dropout", "alpha_dropout", "native_dropout", ignores=("p",))
def _dropout(a: Arguments) -> list[Value]:
    if a.flag("train"):
        raise UnsupportedOp("it drops at random", hint="export model.eval()")
    return [_same(a)]


@aten(
    *("_to_copy", "to.dtype", "to.dtype_layout", "type_as", "to.device", "to.other"),
    ignores=("dtype", "copy", "other"),
)
def _to(a: Arguments) -> Value:
    x = a.x
    if x.dtype is not None and x.dtype.is_floating and a.dtype.is_integer:
        # Cut off, as TensorFlow's Cast does.
        return a.cast(x, a.dtype)
    if a.dtype is BOOL and x.dtype is not BOOL:
        return a.emit("NotEqual", x, a.like(0, x))
    return a.cast(x, a.dtype) if x.dtype is not a.dtype else a.emit("Identity", x)


def _resized(a: Arguments, sizes: list[Size]) -> Value:
    """The operand in the shape that the file states; where several sizes are open, in those asked for."""
    shape, x = a.spec.shape, a.body.term(a.x)
    if shape is not None and 0 in shape and None in shape:
        raise UnsupportedOp("it has no elements, in a shape that is open")
    if shape is not None and shape.count(None) <= 1:
        return x.reshape([-1 if n is None else n for n in shape]).value
    known = [n for n in sizes if isinstance(n, int)]
    return (x.reshape(vector(x.body, sizes)) if -1 in known else reshaped(x, sizes)).value


@aten("view", "_unsafe_view", "view_copy")
def _view(a: Arguments) -> Value:
    return _resized(a, a.sizes("size"))


@aten("reshape")
def _reshape(a: Arguments) -> Value:
    return _resized(a, a.sizes("shape"))


@aten("view_as", "reshape_as")
def _view_as(a: Arguments) -> Value:
    other = a.term("other")
    return _resized(a, sizes_of(other))


@aten("flatten.using_ints")
def _flatten(a: Arguments) -> Value:
    x = a.term()
    if not x.shape:
        return x.reshape([1]).value
    first, last = a.axis("start_dim", 0), a.axis("end_dim", -1)
    sizes = sizes_of(x)
    return _resized(a, [*sizes[:first], -1, *sizes[last + 1 :]])


@aten("unflatten.int")
def _unflatten(a: Arguments) -> Value:
    x, axis = a.term(), a.axis()
    sizes = sizes_of(x)
    return _resized(a, [*sizes[:axis], *a.sizes("sizes"), *sizes[axis + 1 :]])


@aten("ravel")
def _ravel(a: Arguments) -> Value:
    return a.term().reshape([-1]).value


@aten("unsqueeze", "unsqueeze_copy")
def _unsqueeze(a: Arguments) -> Value:
    return a.emit("ExpandDims", a.x, a.call.constant(a.axis(rank=a.rank + 1)))


def _squeezed(a: Arguments, axes: list[int]) -> Value:
    """Without those axes that have the size 1."""
    shape = a.term().shape
    said = a.spec.shape
    gone = tuple(n for n in axes if shape[n] == 1)
    if any(shape[n] is None for n in axes) and said is not None and len(shape) - len(said) != len(gone):
        raise UnsupportedOp("whether its axis has the size 1 is not known")
    return a.emit("Squeeze", a.x, squeeze_dims=gone) if gone else a.emit("Identity", a.x)


@aten("squeeze", "squeeze_copy")
def _squeeze(a: Arguments) -> Value:
    return _squeezed(a, list(range(a.rank)))


@aten("squeeze.dim", "squeeze.dims", "squeeze_copy.dim", "squeeze_copy.dims")
def _squeeze_some(a: Arguments) -> Value:
    return _squeezed(a, [a.counted(n, a.rank) for n in a.ints("dim")])


def _at_least(count: int) -> None:
    @aten(f"atleast_{count}d", f"atleast_{count}d.Sequence")
    def rule(a: Arguments) -> list[Value]:
        """With so many axes: one in front, and of a picture one behind."""
        is_list = a.call.node.op.endswith("Sequence")
        found = []
        for value in a.tensors("tensors") if is_list else [a.x]:
            x = a.body.term(value)
            if count > 1 and len(x.shape) < 2:
                x = reshaped(x, [1, *(sizes_of(x) or [1])])
            x = x if x.shape else x.reshape([1])
            x = x.expand_dims(2) if count > len(x.shape) else x
            found.append(a.emit("Identity", x.value))
        return found


for _count in (1, 2, 3):
    _at_least(_count)


@aten("permute", "permute_copy")
def _permute(a: Arguments) -> Value:
    return _ordered(a, [a.counted(n, a.rank) for n in a.ints("dims")])


def _ordered(a: Arguments, order: list[int]) -> Value:
    if sorted(order) != list(range(a.rank)):
        raise UnsupportedOp(f"its axes {order} are not all of {a.rank}")
    return a.term().transpose(order).value


def _swapped(a: Arguments, first: int, second: int) -> Value:
    order = list(range(a.rank))
    order[first], order[second] = order[second], order[first]
    return _ordered(a, order)


@aten("transpose.int", "transpose_copy.int")
def _transpose(a: Arguments) -> Value:
    return _swapped(a, a.axis("dim0"), a.axis("dim1"))


@aten("swapaxes", "swapdims")
def _swapaxes(a: Arguments) -> Value:
    suffix = "axis" if a.call.node.op.endswith("axes") else "dim"
    return _swapped(a, a.axis(f"{suffix}0"), a.axis(f"{suffix}1"))


@aten("t", "t_copy", "numpy_T", "mT")
def _t(a: Arguments) -> Value:
    if a.call.node.op == "aten.mT":
        return _swapped(a, a.rank - 2, a.rank - 1)
    return _ordered(a, list(range(a.rank))[::-1])


@aten("movedim.int", "moveaxis.int", "movedim.intlist")
def _movedim(a: Arguments) -> Value:
    source = [a.counted(n, a.rank) for n in a.ints("source")]
    target = [a.counted(n, a.rank) for n in a.ints("destination")]
    order = [n for n in range(a.rank) if n not in source]
    for at, axis in sorted(zip(target, source, strict=True)):
        order.insert(at, axis)
    return _ordered(a, order)


# --- more of the same ---------------------------------------------------------------------------------------


@aten("expand", "broadcast_to", "expand_copy")
def _expand(a: Arguments) -> Value:
    a.ignore("implicit")
    return _expanded(a, a.sizes("size"))


@aten("expand_as")
def _expand_as(a: Arguments) -> Value:
    other = a.term("other")
    return _expanded(a, sizes_of(other))


def _expanded(a: Arguments, sizes: list[Size]) -> Value:
    x = a.term()
    added = len(sizes) - len(x.shape)
    if added < 0:
        raise UnsupportedOp("it is given fewer sizes than its operand has axes")
    said = a.spec.shape or (None,) * len(sizes)
    own = [*(1,) * added, *x.shape]
    wanted: list[Size] = []
    for n, (old, asked, new) in enumerate(zip(own, sizes, said, strict=True)):
        stays = asked == -1 or old not in (1, None) or (old is None and new is None)
        wanted.append(size(x, n - added) if stays and n >= added else asked if new is None else new)
    if all(isinstance(w, int) and w == o for w, o in zip(wanted, own, strict=True)) and not added:
        return a.emit("Identity", x.value)
    if all(o is None or w == o for w, o in zip(wanted, own, strict=True)) and not added:
        return a.emit("Identity", x.value)
    return a.emit("BroadcastTo", x.value, vector(a.body, wanted).value, Tidx=INT32)


@aten("broadcast_tensors")
def _broadcast_together(a: Arguments) -> list[Value]:
    """Each in the shape that all of them have together."""
    values = a.tensors("tensors")
    sizes = [a.body.term(v).sizes().value for v in values]
    shape = sizes[0]
    for other in sizes[1:]:
        shape = a.emit("BroadcastArgs", shape, other)
    return [a.emit("BroadcastTo", v, shape, Tidx=INT32) for v in values]


@aten("sum_to_size")
def _sum_to_size(a: Arguments) -> Value:
    """Added up over the axes that broadcasting would have made, back to these sizes."""
    x, wanted = a.body.term(a.cast(a.x, a.dtype)), a.ints("size")
    added = len(x.shape) - len(wanted)
    x = x.sum(*range(added)) if added > 0 else x
    axes = [n for n, size in enumerate(wanted) if size == 1 and x.shape[n] != 1]
    return x.sum(*axes, keep=True).value if axes else a.emit("Identity", x.value)


@aten("repeat")
def _repeat(a: Arguments) -> Value:
    return _tiled(a, a.sizes("repeats"))


@aten("tile")
def _tile(a: Arguments) -> Value:
    return _tiled(a, a.sizes("dims"))


def _tiled(a: Arguments, counts: list[Size]) -> Value:
    x = a.term()
    added = len(counts) - len(x.shape)
    counts = [*(1,) * -added, *counts]
    if added > 0:
        x = reshaped(x, [*(1,) * added, *sizes_of(x)])
    return a.emit("Tile", x.value, vector(a.body, counts).value, Tmultiples=INT32)


@aten("repeat_interleave.self_int")
def _repeat_interleave(a: Arguments) -> Value:
    a.ignore("output_size")
    x, axis = (a.term(), a.axis()) if a.has("dim") else (a.term().reshape([-1]), 0)
    count, sizes = a.integer("repeats"), sizes_of(x)
    apart = x.expand_dims(axis + 1)
    repeats = [count if n == axis + 1 else 1 for n in range(len(sizes) + 1)]
    tiled = a.emit("Tile", apart.value, a.integers(repeats))
    return reshaped(a.body.term(tiled), [*sizes[:axis], sizes[axis] * count, *sizes[axis + 1 :]]).value


@aten("repeat_interleave.self_Tensor")
def _repeat_each(a: Arguments) -> Value:
    """Each element along an axis as often as a number of its own says."""
    a.ignore("output_size")
    counts = a.call.content(a.tensor("repeats"))
    if counts is None:
        raise UnsupportedOp("how often it repeats is computed")
    x, axis = (a.term(), a.axis()) if a.has("dim") else (a.term().reshape([-1]), 0)
    length = x.static_size(axis, "the size of what it repeats")
    places = np.repeat(np.arange(length), np.broadcast_to(counts.reshape(-1), length))
    return x.gather(a.body.constant(places, INT32), axis).value


# --- joined and cut -----------------------------------------------------------------------------------------


@aten("cat", "concat")
def _cat(a: Arguments) -> Value:
    values = [a.body.term(a.cast(v, a.dtype)) for v in a.tensors("tensors")]
    # Older PyTorch lets empty vectors stand among tensors of any rank.
    values = [v for v in values if v.shape != (0,)] or values[:1]
    return concat(values, a.axis(default=0, rank=len(values[0].shape))).value


@aten("stack")
def _stack(a: Arguments) -> Value:
    values = [a.body.term(a.cast(v, a.dtype)) for v in a.tensors("tensors")]
    return stack(values, a.axis(default=0, rank=len(values[0].shape) + 1)).value


@aten("slice.Tensor", "slice_copy.Tensor")
def _slice(a: Arguments) -> Value:
    x, axis, step = a.term(), a.axis(default=0), a.integer("step", 1)
    start = a.size("start", 0) if a.has("start") else 0
    stop = a.size("end", _LIMIT) if a.has("end") else _LIMIT
    if step < 1:
        raise UnsupportedOp(f"its step is {step}")
    return _cut(a, x, axis, start, stop, step)


def _cut(a: Arguments, x: Term, axis: int, start: Size, stop: Size, step: int) -> Value:
    if isinstance(start, int) and isinstance(stop, int):
        known = x.shape[axis]
        if known is not None:
            # Counted from the front, and within the axis: as Python's slices.
            first, last, _ = slice(start, stop).indices(known)
            if (first, last, step) == (0, known, 1):
                return a.emit("Identity", x.value)
            return x.slice({axis: (first, max(last, first), step)}).value
        if (start, step) == (0, 1) and stop == _LIMIT:
            return a.emit("Identity", x.value)
        # Ends are written as int32, and PyTorch's for "to the end" are beyond that.
        return x.slice({axis: (start, None if stop > _LARGE else stop, step)}).value
    own = size(x, axis)
    ends = [own if n == _LIMIT else n for n in (start, stop)]
    rank = len(x.shape)
    begin: list[Size] = [ends[0] if n == axis else 0 for n in range(rank)]
    end: list[Size] = [ends[1] if n == axis else 0 for n in range(rank)]
    # Other axes are whole by the masks: their sizes need not be known.
    mask = ((1 << rank) - 1) & ~(1 << axis)
    steps = [step if n == axis else 1 for n in range(rank)]
    operands = [vector(a.body, n).value for n in (begin, end, steps)]
    return a.emit("StridedSlice", x.value, *operands, Index=INT32, begin_mask=mask, end_mask=mask)


_LARGE = (1 << 31) - 1


@aten("narrow", "narrow_copy")
def _narrow(a: Arguments) -> Value:
    start, length = a.integer("start"), a.integer("length")
    return _cut(a, a.term(), a.axis(), start, start + length, 1)


@aten("select.int", "select_copy.int")
def _select(a: Arguments) -> Value:
    x, axis, place = a.term(), a.axis(), a.size("index")
    if not isinstance(place, int):
        return x.gather(place, axis).value
    count = x.shape[axis]
    if count is None and place < 0:
        # Of the last element, -1, the end is no number: 0 would be the front.
        cut = x.slice({axis: (place, place + 1 or None, 1)})
        return a.emit("Squeeze", cut.value, squeeze_dims=(axis,))
    if count is not None and not -count <= place < count:
        raise UnsupportedOp(f"there is no element {place} among {count}")
    at = place % count if count is not None else place
    cut = x.slice({axis: (at, at + 1, 1)})
    return a.emit("Squeeze", cut.value, squeeze_dims=(axis,))


def cut_into(a: Arguments, x: Term, axis: int, widths: list[int]) -> list[Value]:
    """Parts of an axis of these widths, one behind the other."""
    if len(widths) == 1:
        return [a.emit("Identity", x.value)]
    if len(set(widths)) == 1:
        return [t.value for t in x.split(bounded(len(widths)), axis)]
    sizes = a.body.constant(widths, INT32)
    parts = a.body.add(
        "SplitV", [x.value, sizes.value, a.call.constant(axis)], ports=len(widths), T=x.dtype, Tlen=INT32,
        num_split=len(widths),
    )  # fmt: skip
    return [t.value for t in parts]


@aten("split.Tensor", "split.default", "unsafe_split.Tensor", "split_copy.Tensor")
def _split(a: Arguments) -> list[Value]:
    x, axis, width = a.term(), a.axis(default=0), a.integer("split_size")
    total = x.static_size(axis, "the size of what it splits")
    if width < 1:
        raise UnsupportedOp(f"its parts have the size {width}")
    return cut_into(a, x, axis, [min(width, total - n) for n in range(0, bounded(total), width)])


@aten("split_with_sizes", "split.sizes", "split_with_sizes_copy")
def _split_with_sizes(a: Arguments) -> list[Value]:
    name = "split_size" if a.call.node.op == "aten.split.sizes" else "split_sizes"
    return cut_into(a, a.term(), a.axis(default=0), a.ints(name))


@aten("chunk", "unsafe_chunk")
def _chunk(a: Arguments) -> list[Value]:
    x, axis, count = a.term(), a.axis(default=0), a.integer("chunks")
    total = x.static_size(axis, "the size of what it splits")
    if count < 1 or not total:
        raise UnsupportedOp(f"it makes {count} parts of {total}")
    width = -(-total // count)
    return cut_into(a, x, axis, [min(width, total - n) for n in range(0, bounded(total), width)])


@aten("unbind.int", "unbind_copy.int")
def _unbind(a: Arguments) -> list[Value]:
    x, axis = a.term(), a.axis(default=0)
    count = bounded(x.static_size(axis, "the size of what it takes apart"))
    parts = a.body.add("Unpack", [x.value], ports=count, T=x.dtype, num=count, axis=axis)
    return [t.value for t in parts]


@aten("flip")
def _flip(a: Arguments) -> Value:
    axes = [a.counted(n, a.rank) for n in a.ints("dims")]
    return a.emit("ReverseV2", a.x, a.body.constant(axes, INT32).value, Tidx=INT32) if axes else _same(a)


@aten("roll")
def _roll(a: Arguments) -> Value:
    x = whole = a.term()
    axes = a.ints("dims", ()) if a.has("dims") else []
    if not axes:
        # All axes as if they were one.
        x, axes = x.reshape([-1]), [0]
    for axis, shift in zip(axes, a.ints("shifts"), strict=True):
        count = x.static_size(axis, "the size of what it rolls")
        by = shift % max(count, 1)
        if by:
            x = concat([x.cut(axis, count - by, None), x.cut(axis, 0, count - by)], axis)
    return a.emit("Identity", reshaped(x, sizes_of(whole)).value)


@aten("_shape_as_tensor")
def _shape(a: Arguments) -> Value:
    return a.term().sizes().value
