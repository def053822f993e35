"""ATen's gathers and other choices by computed places."""

from __future__ import annotations

from thinflow.decompose.terms import Term, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL
from thinflow.lift.aten.arguments import Arguments, aten


def _counted(places: Term, count: int | None) -> Term:
    """Places counted from the front: PyTorch takes those from the end as negative numbers."""
    if places.known is not None and (places.known >= 0).all():
        return places
    if count is None:
        raise UnsupportedOp("its places may be negative, and the size of its axis is not known")
    if places.known is not None:
        return places.body.constant(places.known % max(count, 1), places.dtype)
    return where(places < 0, places + count, places)


@aten("index_select")
def _index_select(a: Arguments) -> Value:
    return a.term().gather(a.term("index"), a.axis()).value


@aten("gather", ignores=("sparse_grad",))
def _gather(a: Arguments) -> Value:
    return a.onnx("GatherElements", a.x, a.tensor("index"), axis=a.axis())


@aten("index.Tensor", "_unsafe_index.Tensor")
def _index(a: Arguments) -> Value:
    """Several tensors of places, broadcast; their axes stand where the first of neighbours stood."""
    x, places = a.term(), a.optional_tensors("indices")
    axes = [n for n, p in enumerate(places) if p is not None]
    terms = [a.body.term(p) for p in places if p is not None]
    if any(t.dtype is BOOL or t.dtype.numpy().itemsize == 1 for t in terms):
        raise UnsupportedOp("it chooses by a mask: how many elements there are depends on what it is given")
    if not axes or axes != list(range(axes[0], axes[0] + len(axes))):
        raise UnsupportedOp("its axes of places are not neighbours")
    terms = [_counted(t, x.shape[n]) for n, t in zip(axes, terms, strict=True)]
    if len(terms) == 1:
        return x.gather(terms[0], axes[0]).value
    return _together(a, x, axes[0], terms)


def _together(a: Arguments, x: Term, first: int, terms: list[Term]) -> Value:
    """By several axes at once: one number for each place in what they span together."""
    count = len(terms)
    spans = [x.static_size(first + n, "the size of an axis that it chooses from") for n in range(count)]
    flat = terms[0]
    for span, term in zip(spans[1:], terms[1:], strict=True):
        flat = flat * span + term.cast(flat.dtype)
    before = [x.static_size(n, "a size in front of its places") for n in range(first)]
    behind = [x.static_size(n, "a size behind its places") for n in range(first + count, len(x.shape))]
    total = 1
    for span in spans:
        total *= span
    return x.reshape([*before, total, *behind]).gather(flat, first).value


@aten("scatter.src", "scatter.value", "scatter_add")
def _scatter(a: Arguments) -> Value:
    """Elements put, or added, at places along an axis."""
    if a.call.node.op == "aten.scatter.value":
        raise UnsupportedOp("it puts one number into many places")
    adds, index, source = a.call.node.op == "aten.scatter_add", a.term("index"), a.term("src")
    # Of the source only what the places cover is taken.
    for axis, (taken, given) in enumerate(zip(index.shape, source.shape, strict=True)):
        if taken is None or given is None:
            raise UnsupportedOp("the sizes of its places are not known")
        source = source.cut(axis, 0, taken) if taken < given else source
    options = {"reduction": b"add"} if adds else {}
    return a.onnx("ScatterElements", a.x, index.value, source.value, axis=a.axis(), **options)


@aten("copy", ignores=("non_blocking",))
def _copy(a: Arguments) -> Value:
    source, said = a.cast(a.tensor("src"), a.dtype), a.spec.shape
    if said is None or source.spec.shape != said or None in said:
        raise UnsupportedOp("it copies into a tensor of another shape, or of an open one")
    a.ignore("self")
    return a.emit("Identity", source)
