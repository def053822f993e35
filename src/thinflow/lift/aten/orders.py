"""ATen's statistics of sorted elements, extremes so far, and places in sorted lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from thinflow.decompose.terms import Term, concat, stack, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32, INT64
from thinflow.lift.aten.arguments import Arguments, aten
from thinflow.lift.aten.scatters import neutral
from thinflow.lift.onnx.formulas import counted
from thinflow.lift.onnx.values import bounded

# --- of sorted elements -------------------------------------------------------------------------------------


def _ascending(a: Arguments, x: Term, axis: int, most: int | None = None) -> list[Term]:
    """The smallest elements along an axis and their places, the smallest first; all of them by default."""
    count = x.static_size(axis, "the size of what it sorts") if most is None else most
    found = a.onnx_results("TopK", x.value, a.integers([count]), count=2, axis=axis, largest=0, sorted=1)
    return [a.body.term(v) for v in found]


def _ranked(a: Arguments, axis: int, place: int) -> list[Value]:
    """The element at a place of the sorted ones, and where it stands."""
    keep = a.flag("keepdim")
    found = _ascending(a, a.term(), axis, place + 1)
    return [(t.cut(axis, place, place + 1) if keep else t.at(axis, place)).value for t in found]


@aten("msort")
def _msort(a: Arguments) -> Value:
    return _ascending(a, a.term(), 0)[0].value


@aten("kthvalue")
def _kth(a: Arguments) -> list[Value]:
    return _ranked(a, a.axis(default=-1), a.integer("k") - 1)


@aten("median.dim")
def _median_along(a: Arguments) -> list[Value]:
    """Of an even number of elements the lower of the two in the middle."""
    x, axis = a.term(), a.axis()
    found = _ranked(a, axis, (x.static_size(axis, "the size of what it sorts") - 1) // 2)
    return [_none_of_none(x, a.body.term(found[0]), axis, keep=a.flag("keepdim")).value, *found[1:]]


def _none_of_none(x: Term, y: Term, axis: int, *, keep: bool = False) -> Term:
    """No number where one of what y comes from is none."""
    if not x.dtype.is_floating:
        return y
    return where(x.apply("IsNan").reduced("Any", axis, keep=keep), y.of(np.nan), y)


@aten("median")
def _median(a: Arguments) -> Value:
    flat = a.term().reshape([-1])
    place = (flat.static_size(0, "the size of what it sorts") - 1) // 2
    return _none_of_none(flat, _ascending(a, flat, 0, place + 1)[0].at(0, place), 0).value


def _but_nan(a: Arguments, x: Term, axis: int) -> list[Term]:
    """Of what are numbers the lower of the two in the middle, and where it first stands."""
    count = x.static_size(axis, "the size of what it sorts")
    sides = [count if n == axis else 1 for n in range(len(x.shape))]
    is_none = x.apply("IsNan") if x.dtype.is_floating else None
    ordered = _ascending(a, x if is_none is None else where(is_none, x.of(np.inf), x), axis)[0]
    if is_none is None:
        y = ordered.cut(axis, (count - 1) // 2, (count - 1) // 2 + 1)
    else:
        there = (~is_none).cast(INT32).sum(axis, keep=True)
        middle = (there - 1).maximum(0).apply("FloorDiv", 2)
        is_middle = counted(a.body, count).reshape(sides).cast(INT32).equal(middle)
        y = where(is_middle, ordered, ordered.of(0)).sum(axis, keep=True)
        y = where(there.equal(0), y.of(np.nan), y)
    place = x.equal(y).cast(INT32).argmax(axis).expand_dims(axis)
    return [y, place.cast(INT64)]


@aten("nanmedian", "nanmedian.dim")
def _nanmedian(a: Arguments) -> list[Value]:
    if not a.has("dim"):
        return [_but_nan(a, a.term().reshape([-1]), 0)[0].reshape([]).value]
    axis = a.axis()
    found = _but_nan(a, a.term(), axis)
    return [t.value if a.flag("keepdim") else _without(a, t, axis) for t in found]


def _without(a: Arguments, x: Term, axis: int) -> Value:
    return a.emit("Squeeze", x.value, squeeze_dims=(axis,))


@aten("mode")
def _mode(a: Arguments) -> list[Value]:
    """What stands most often along an axis, the smallest of several, and where it stands last."""
    x, axis = a.term(), a.axis(default=-1)
    kind = x.dtype
    x = x.cast(INT32) if kind.kind == "b" else x
    count = x.static_size(axis, "the size of what it counts")
    bounded(count * count)
    sides = [count if n == axis else 1 for n in range(len(x.shape))]
    is_none = x.apply("IsNan") if x.dtype.is_floating else None
    same = x.expand_dims(axis).equal(x.expand_dims(axis + 1))
    if is_none is not None:
        same = same | (is_none.expand_dims(axis) & is_none.expand_dims(axis + 1))
    often = same.cast(INT32).sum(axis)
    is_most = often.equal(often.reduced("Max", axis, keep=True))
    most = x.of(neutral("amin", x.dtype))
    rated = is_most if is_none is None else is_most & ~is_none
    y = where(rated, x, most).reduced("Min", axis, keep=True)
    is_it = rated & x.equal(y)
    if is_none is not None:
        # Only where nothing else stands as often.
        alone = ~rated.reduced("Any", axis, keep=True)
        y, is_it = where(alone, y.of(np.nan), y), is_it | (alone & is_none)
    at = counted(a.body, count).reshape(sides).cast(INT32)
    place = where(is_it, at, at.of(-1)).reduced("Max", axis, keep=True).cast(INT64)
    return [t.value if a.flag("keepdim") else _without(a, t, axis) for t in (y.cast(kind), place)]


_ROUNDED: Mapping[str, Callable[[float], int]] = {"lower": math.floor, "higher": math.ceil, "nearest": round}


@aten("quantile", "quantile.scalar")
def _quantile(a: Arguments) -> Value:
    """What a share of the elements is not above, between two of them by their distance."""
    keep, way = a.flag("keepdim"), a.text("interpolation", "linear")
    x, given = a.term(), a.maybe("q") if a.is_tensor("q") else None
    shares = np.asarray(a.number("q")) if given is None else a.call.content(given)
    if shares is None:
        raise UnsupportedOp("which quantiles it wants is computed")
    rank = len(x.shape)
    axis = a.axis() if a.has("dim") else 0
    line = x if a.has("dim") else x.reshape([-1])
    last = line.static_size(axis, "the size of what it sorts") - 1
    ordered = _ascending(a, line, axis)[0]

    def one(share: float) -> Term:
        place = share * last
        if way in _ROUNDED:
            y = ordered.cut(axis, at := _ROUNDED[way](place), at + 1)
        else:
            low, high = (ordered.cut(axis, n, n + 1) for n in (math.floor(place), math.ceil(place)))
            y = low + (high - low) * (0.5 if way == "midpoint" and high is not low else place % 1)
        if keep:
            return y if a.has("dim") else y.reshape([1] * rank)
        return y.at(axis, 0)

    if way not in {*_ROUNDED, "linear", "midpoint"}:
        raise UnsupportedOp(f"it interpolates by '{way}'")
    found = [one(float(s)) for s in shares.reshape(-1)]
    return (stack(found, 0) if shares.ndim else found[0]).value


# --- extremes so far ----------------------------------------------------------------------------------------


def _so_far(name: str, kind: str) -> None:
    @aten(name)
    def rule(a: Arguments) -> list[Value]:
        """In steps that double, so that log2 of them are enough; of equal ones the last."""
        x, axis = a.term(), a.axis()
        count = x.static_size(axis, "the size of what it goes along")
        sides = [count if n == axis else 1 for n in range(len(x.shape))]
        at = counted(a.body, count).reshape(sides) + x.ones().cast(counted(a.body, count).dtype) * 0
        step = 1
        while step < count:
            pads = [(step if n == axis else 0, 0) for n in range(len(x.shape))]
            before = x.cut(axis, 0, count - step).pad(pads, neutral("a" + kind, x.dtype))
            place = at.cut(axis, 0, count - step).pad(pads)
            is_less = x < before if kind == "max" else x > before
            x, at = where(is_less, before, x), where(is_less, place, at)
            step *= 2
        return [a.emit("Identity", x.value), at.cast(INT64).value]


_so_far("cummax", "max")
_so_far("cummin", "min")


# --- sorted lists -------------------------------------------------------------------------------------------


@aten("bucketize.Tensor", "searchsorted.Tensor")
def _search(a: Arguments) -> Value:
    """How many edges lie below each number; those that equal it count with `right`."""
    is_search = a.call.node.op.startswith("aten.searchsorted")
    edges = a.term("sorted_sequence" if is_search else "boundaries")
    a.ignore("out_int32")
    if a.has("sorter"):
        raise UnsupportedOp("its list is sorted by another")
    x, right = a.term(), a.flag("right") or a.text("side", "left") == "right"
    if len(edges.shape) > 1:
        # A list for each row of numbers.
        edges = edges.expand_dims(-2)
    each = x.expand_dims(-1)
    each, edges = (t.cast(x.dtype if x.dtype.is_floating else edges.dtype) for t in (each, edges))
    # What is no number comes behind all.
    hits = ~(edges > each) if right else ~(edges >= each)
    return hits.cast(INT64).sum(-1).value


# --- differences --------------------------------------------------------------------------------------------


@aten("diff")
def _diff(a: Arguments) -> Value:
    """What an element has more than the one before it, as often as asked for."""
    axis, times = a.axis(default=-1), a.integer("n", 1)
    ends = [
        None if v is None else a.body.term(a.cast(v, a.dtype)) for v in map(a.maybe, ("prepend", "append"))
    ]
    x = concat([t for t in (ends[0], a.term(), ends[1]) if t is not None], axis)
    for _ in range(times):
        after, before = _neighbours(x, axis)
        x = ~after.equal(before) if x.dtype.kind == "b" else after - before
    return x.value if times else a.emit("Identity", x.value)


def _neighbours(x: Term, axis: int) -> tuple[Term, Term]:
    return x.cut(axis, 1, None), x.cut(axis, 0, -1)


@aten("trapezoid.dx", "trapezoid.x", "trapz.dx", "trapz.x")
def _trapezoid(a: Arguments) -> Value:
    """The area below lines from point to point."""
    return _areas(a).sum(a.axis(default=-1, rank=len(a.term("y").shape))).value


@aten("cumulative_trapezoid.dx", "cumulative_trapezoid.x")
def _areas_so_far(a: Arguments) -> Value:
    y = _areas(a)
    return a.emit("Cumsum", y.value, a.call.constant(a.axis(default=-1, rank=len(y.shape))))


def _areas(a: Arguments) -> Term:
    """The area below the line from each point to the next."""
    y = a.body.term(a.cast(a.tensor("y"), a.dtype))
    axis = a.axis(default=-1, rank=len(y.shape))
    after, before = _neighbours(y, axis)
    if not a.is_tensor("x"):
        return (after + before) * (float(a.number("dx", 1)) / 2)
    x = a.body.term(a.cast(a.tensor("x"), a.dtype))
    if len(x.shape) == 1:
        x = x.reshape([-1 if n == axis else 1 for n in range(len(y.shape))])
    wide, low = _neighbours(x, axis)
    return (after + before) * (wide - low) * 0.5
