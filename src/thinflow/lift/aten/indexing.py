"""ATen's gathers and other choices by computed places."""

from __future__ import annotations

from thinflow.decompose.terms import Term, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, INT32, UINT8
from thinflow.lift.aten.arguments import Arguments, aten
from thinflow.lift.onnx.formulas import product, reshaped, sizes_of, vector


def counted(places: Term, count: int | None) -> Term:
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
    if not axes:
        return a.emit("Identity", x.value)
    if any(map(is_mask, terms)):
        return chosen(a, x, one_mask(terms), axes[0]).value
    terms = [counted(t, x.shape[n]) for n, t in zip(axes, terms, strict=True)]
    # As in numpy: where other axes stand between them, those of the places go to the front.
    if axes != list(range(axes[0], axes[0] + len(axes))):
        rest = [n for n in range(len(x.shape)) if n not in axes]
        x, axes = x.transpose([*axes, *rest]), list(range(len(axes)))
    if len(terms) == 1:
        return x.gather(terms[0], axes[0]).value
    return _together(a, x, axes[0], terms)


def is_mask(places: Term) -> bool:
    """True for places that are told by true and false."""
    # uint8, too: PyTorch had masks of bytes before it had bool, and still takes them.
    return places.dtype in (BOOL, UINT8)


def one_mask(terms: list[Term]) -> Term:
    """The mask that stands alone.

    Raises:
        UnsupportedOp: it does not.
    """
    if len(terms) > 1:
        raise UnsupportedOp("it chooses by a mask and by places at once")
    return terms[0].cast(BOOL)


def chosen(a: Arguments, x: Term, mask: Term, first: int) -> Term:
    """The parts of a tensor at which a mask over some of its axes is true; their number is open."""
    count = len(mask.shape)
    if not count:
        raise UnsupportedOp("its mask has no axes")
    sizes = sizes_of(x)
    # As TensorFlow's boolean_mask: one axis in the place of those of the mask.
    flat = reshaped(x, [*sizes[:first], product(sizes[first : first + count]), *sizes[first + count :]])
    places = a.body.term(a.emit("Where", mask.reshape([-1]).value, T=BOOL))
    return flat.gather(a.body.term(a.emit("Squeeze", places.value, squeeze_dims=(1,))), first)


@aten("masked_select")
def _masked_select(a: Arguments) -> Value:
    x, mask = a.term(), a.term("mask")
    if x.shape != mask.shape or None in x.shape:
        shape = a.emit("BroadcastArgs", x.sizes().value, mask.sizes().value)
        x, mask = (a.body.term(a.emit("BroadcastTo", t.value, shape, Tidx=INT32)) for t in (x, mask))
    return chosen(a, x, mask, 0).value


@aten("nonzero", "argwhere")
def _nonzero(a: Arguments) -> Value:
    """[n, rank]: the places of what is not 0."""
    return a.emit("Where", a.x)


@aten("nonzero_numpy")
def _nonzero_by_axis(a: Arguments) -> list[Value]:
    """The places of what is not 0, a vector per axis."""
    return [a.body.term(a.emit("Where", a.x)).at(1, n).value for n in range(a.rank)]


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


@aten("copy", ignores=("non_blocking",))
def _copy(a: Arguments) -> Value:
    """What is copied into a tensor, in its type and shape."""
    source, x = a.cast(a.tensor("src"), a.dtype), a.term()
    if source.spec.shape == x.shape and None not in x.shape:
        return a.emit("Identity", source)
    sizes = vector(a.body, sizes_of(x))
    return a.emit("BroadcastTo", source, sizes.value, Tidx=INT32)
