"""ATen's statistics of sorted elements, extremes so far, and places in sorted lists."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from thinflow.decompose.terms import Term, concat, stack, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT64
from thinflow.lift.aten.arguments import Arguments, aten
from thinflow.lift.aten.scatters import neutral
from thinflow.lift.onnx.formulas import counted

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


@aten("kthvalue")
def _kth(a: Arguments) -> list[Value]:
    return _ranked(a, a.axis(default=-1), a.integer("k") - 1)


@aten("median.dim")
def _median_along(a: Arguments) -> list[Value]:
    """Of an even number of elements the lower of the two in the middle."""
    axis = a.axis()
    return _ranked(a, axis, (a.term().static_size(axis, "the size of what it sorts") - 1) // 2)


@aten("median")
def _median(a: Arguments) -> Value:
    flat = a.term().reshape([-1])
    place = (flat.static_size(0, "the size of what it sorts") - 1) // 2
    return _ascending(a, flat, 0, place + 1)[0].at(0, place).value


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
    y = a.term("y")
    axis = a.axis(default=-1, rank=len(y.shape))
    after, before = _neighbours(y, axis)
    if not a.is_tensor("x"):
        return ((after + before).sum(axis) * (float(a.number("dx", 1)) / 2)).value
    x = a.term("x")
    if len(x.shape) == 1:
        x = x.reshape([-1 if n == axis else 1 for n in range(len(y.shape))])
    wide, low = _neighbours(x, axis)
    return ((after + before) * (wide - low) * 0.5).sum(axis).value
