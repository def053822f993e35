"""ATen's ops that put elements into a tensor at places."""

from __future__ import annotations

import numpy as np

from thinflow.decompose.terms import Term, concat, one_hot, stack, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, INT32, INT64, DType
from thinflow.lift.aten.arguments import Arguments, aten
from thinflow.lift.aten.arithmetic import operand
from thinflow.lift.aten.indexing import counted, is_mask, one_mask
from thinflow.lift.onnx.formulas import Size, reshaped, size, sizes_of, vector


def _spread(a: Arguments, x: Term, sizes: list[Size]) -> Term:
    """A tensor broadcast to sizes."""
    return a.body.term(a.emit("BroadcastTo", x.value, vector(a.body, sizes).value, Tidx=INT32))


@aten("index_put", "_unsafe_index_put")
def _index_put(a: Arguments) -> Value:
    x, places, values = a.term(), a.optional_tensors("indices"), a.term("values")
    adds = a.flag("accumulate")
    axes = [n for n, p in enumerate(places) if p is not None]
    terms = [a.body.term(p) for p in places if p is not None]
    if not axes:
        raise UnsupportedOp("it is given no places")
    if any(map(is_mask, terms)):
        return _put_where(a, x, one_mask(terms), axes[0], values, adds=adds)
    rest = [n for n in range(len(x.shape)) if n not in axes]
    is_apart = axes != list(range(axes[0], axes[0] + len(axes)))
    terms = [counted(t, x.shape[n]).cast(INT64) for n, t in zip(axes, terms, strict=True)]
    rank = max(len(t.shape) for t in terms)
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    sizes = [size(total, n) for n in range(rank)]
    spread = [t if t.shape == total.shape and None not in t.shape else _spread(a, t, sizes) for t in terms]
    # What is put has the axes of the places where the first of them is, or in front if they are apart.
    before = 0 if is_apart else axes[0]
    own = [size(x, n) for n in rest]
    values = _spread(a, values, [*own[:before], *sizes, *own[before:]])
    if before:
        ends = range(before, before + rank), range(before), range(before + rank, len(values.shape))
        values = values.transpose([n for part in ends for n in part])
    order = [*axes, *rest]
    turned = x if order == list(range(len(order))) else x.transpose(order)
    how = {"reduction": b"add"} if adds else {}
    y = a.body.term(a.onnx("ScatterND", turned.value, stack(spread, rank).value, values.value, **how))
    back = sorted(range(len(order)), key=lambda n: order[n])
    return (y if turned is x else y.transpose(back)).value


def _put_where(a: Arguments, x: Term, mask: Term, first: int, values: Term, *, adds: bool) -> Value:
    """What a mask over some axes is true of, changed; one value for all of it, or each its own."""
    behind = len(x.shape) - first - len(mask.shape)
    rows = values.shape[:-behind] if behind else values.shape
    if len(values.shape) <= behind or all(n == 1 for n in rows):
        one = reshaped(values, [size(values, n) for n in range(len(rows), len(values.shape))])
        wide = mask
        for _ in range(behind):
            wide = wide.expand_dims(len(wide.shape))
        return where(wide, x + one if adds else one, x).value
    if first:
        raise UnsupportedOp("its mask is not over the first axes, and it puts in more than one value")
    places = a.emit("Where", mask.value, T=BOOL)
    how = {"reduction": b"add"} if adds else {}
    return a.onnx("ScatterND", x.value, places, values.value, **how)


@aten("masked_scatter")
def _masked_scatter(a: Arguments) -> Value:
    """The first elements of a tensor, one after the other, where a mask is true."""
    x, mask, source = a.term(), a.term("mask"), a.term("source").reshape([-1])
    sizes = sizes_of(x)
    wide = (mask if mask.shape == x.shape and None not in x.shape else _spread(a, mask, sizes)).reshape([-1])
    numbers = a.emit("Cumsum", wide.cast(INT32).value, a.call.constant(0), exclusive=True)
    # Behind the last true element the count is that of all, which may be one beyond the source.
    last = size(source, 0)
    within = a.body.term(numbers).minimum(last - 1)
    return reshaped(where(wide, source.gather(within), x.reshape([-1])), sizes).value


_REDUCTIONS = {"sum": b"add", "mean": b"add", "prod": b"mul", "amax": b"max", "amin": b"min", "": b"none"}


@aten("scatter.src", "scatter.value", "scatter.reduce", "scatter_add", "scatter_reduce.two")
def _scatter(a: Arguments) -> Value:
    """Elements put, added or otherwise combined, at places along an axis."""
    kind, index = a.call.node.op.removeprefix("aten."), a.term("index")
    # scatter.reduce says add and multiply for what scatter_reduce calls sum and prod.
    name = {"add": "sum", "multiply": "prod"}.get(word := a.text("reduce"), word)
    how = b"add" if kind == "scatter_add" else _REDUCTIONS.get(name)
    if how is None:
        raise UnsupportedOp(f"it combines by '{name}' what it is given")
    if kind == "scatter.value":
        source = _spread(a, operand(a, "value", a.dtype), sizes_of(index))
    else:
        source = _covered(a.term("src"), index)
    if how == b"none":
        return a.onnx("ScatterElements", a.x, index.value, source.value, axis=a.axis())
    x, includes_self = a.term(), a.flag("include_self", True)

    def combined(first: Term, given: Term, how: bytes) -> Term:
        y = a.onnx("ScatterElements", first.value, index.value, given.value, axis=a.axis(), reduction=how)
        return a.body.term(y)

    if includes_self and name != "mean":
        return combined(x, source, how).value
    given = combined(x.ones() if includes_self else x.of(0) * x.ones(), source.ones(), b"add")
    # Without include_self what was there does not count where something is put, and stays elsewhere.
    first = x if includes_self else where(given > 0, x.of(neutral(name, x.dtype)), x)
    y = combined(first, source, how)
    if name != "mean":
        return y.value
    count = given.maximum(1)
    return (y / count if x.dtype.is_floating else y.apply("FloorDiv", count)).value


def neutral(name: str, kind: DType) -> float:
    """What changes nothing that it is combined with."""
    if name in {"amax", "amin"}:
        sign = -1 if name == "amax" else 1
        if kind.is_floating:
            return sign * float("inf")
        ends = np.iinfo(kind.numpy())
        return int(ends.min if sign < 0 else ends.max)
    return 1 if name == "prod" else 0


def _covered(source: Term, index: Term) -> Term:
    """What of a source the places cover."""
    # PyTorch reads as much of a source as there are places; ONNX has both of one shape.
    for axis, (taken, given) in enumerate(zip(index.shape, source.shape, strict=True)):
        if taken is None or given is None:
            raise UnsupportedOp("the sizes of its places are not known")
        source = source.cut(axis, 0, taken) if taken < given else source
    return source


# --- slices of a tensor put into it -------------------------------------------------------------------------


@aten("select_scatter")
def _select_scatter(a: Arguments) -> Value:
    x, axis = a.term(), a.axis()
    return _replaced(a, x, a.term("src").expand_dims(axis), axis, a.integer("index"), 1, 1)


@aten("slice_scatter")
def _slice_scatter(a: Arguments) -> Value:
    x, axis, step = a.term(), a.axis(default=0), a.integer("step", 1)
    count = x.static_size(axis, "the size of the axis that it puts into")
    start = a.integer("start") if a.has("start") else 0
    stop = a.integer("end") if a.has("end") else count
    first, last, _ = slice(start, stop).indices(count)
    if step < 1:
        raise UnsupportedOp(f"its step is {step}")
    return _replaced(a, x, a.term("src"), axis, first, max(0, -(-(last - first) // step)), step)


def _replaced(a: Arguments, x: Term, source: Term, axis: int, first: int, count: int, step: int) -> Value:
    """A tensor with slices of an axis replaced."""
    total = x.static_size(axis, "the size of the axis that it puts into")
    first = first + total if first < 0 else first
    last = first + (count - 1) * step
    if not count:
        return a.emit("Identity", x.value)
    if not 0 <= first <= last < total:
        raise UnsupportedOp(f"it puts into slices up to {last} of {total}")
    if step == 1:
        parts = (
            [x.cut(axis, 0, first)] * (first > 0)
            + [source]
            + [x.cut(axis, last + 1, None)] * (last + 1 < total)
        )
        return concat(parts, axis).value if len(parts) > 1 else a.emit("Identity", source.value)
    # Every place takes a slice of the old tensor or of the new one.
    order = list(range(total))
    for n in range(count):
        order[first + n * step] = total + n
    return concat([x, source], axis).gather(a.body.constant(order, INT32), axis).value


@aten("index_add", "index_copy")
def _index_add(a: Arguments) -> Value:
    """Slices of an axis added, or put, at places."""
    axis, count = a.axis(), a.rank
    adds = a.call.node.op == "aten.index_add"
    alpha = a.number("alpha", 1) if adds else 1
    order = [axis, *(n for n in range(count) if n != axis)]
    back = sorted(range(count), key=lambda n: order[n])
    x, source = (t if not axis else t.transpose(order) for t in (a.term(), a.term("source")))
    source = source if alpha == 1 else source * alpha
    places = counted(a.term("index"), x.shape[0]).reshape([-1, 1])
    how = {"reduction": b"add"} if adds else {}
    y = a.body.term(a.onnx("ScatterND", x.value, places.value, source.value, **how))
    return (y if not axis else y.transpose(back)).value


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def _index_fill(a: Arguments) -> Value:
    """Slices of an axis that all get one number."""
    x, axis = a.term(), a.axis()
    count = x.static_size(axis, "the size of the axis that it fills")
    places = counted(a.term("index"), count).reshape([-1])
    is_filled = one_hot(places, count, INT32).reduced("Max", 0) > 0
    mask = is_filled.reshape([count if n == axis else 1 for n in range(len(x.shape))])
    return where(mask, operand(a, "value", x.dtype), x).value
