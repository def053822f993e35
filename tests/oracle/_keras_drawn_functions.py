"""Keras 3's operations with random options, axes, types and shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.oracle._keras_cases import Draw


@dataclass
class Function:
    """A function to call.

    Attributes:
        call: takes the package's functions and the tensors.
        shapes: of the tensors, the batch with it.
        kinds: their types, float32 where none is named.
        low, high: numbers are between these.
        holes: how many of a hundred are no number.
        is_eager: Keras calls it wrongly in a model; it is called for itself.
    """

    call: Callable[..., Any]
    shapes: Sequence[tuple[int | None, ...]]
    kinds: Sequence[str] = ()
    low: float = -2.0
    high: float = 2.0
    holes: int = 0
    is_eager: bool = False

    def inputs(self, rng: np.random.Generator, batch: int = 2) -> list[np.ndarray]:
        """Numbers for the tensors."""
        found = []
        for shape, kind in zip(self.shapes, self.all_kinds, strict=True):
            values = rng.uniform(self.low, self.high, [batch if n is None else n for n in shape])
            if kind == "bool":
                found.append(values > (self.low + self.high) / 2)
                continue
            if self.holes:
                values = np.where(rng.integers(0, 100, values.shape) < self.holes, np.nan, values)
            found.append(values.astype(kind))
        return found

    @property
    def all_kinds(self) -> list[str]:
        return [*self.kinds, *["float32"] * (len(self.shapes) - len(self.kinds))]


Make = Callable[[Draw], Function]
DRAWN: dict[str, Make] = {}


def function(name: str) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        assert name not in DRAWN, name
        DRAWN[name] = make
        return make

    return register


def axes_of(d: Draw, rank: int) -> Any:
    """All axes, one, or several."""
    some = d.random.sample(range(rank), d.size(1, rank))
    return d.of(None, d.random.randrange(-rank, rank), some)


# --- attention and normalization ----------------------------------------------------------------------------


@function("DotProductAttention")
def attention(d: Draw) -> Function:
    steps, others, size, shared = d.size(2), d.size(2), d.size(2), d.size(1, 3)
    heads = shared * (d.of(1, 2) if shared > 1 else 1)  # TensorFlow cannot share one
    shapes: list[tuple[int | None, ...]] = [(None, steps, heads, size), *[(None, others, shared, size)] * 2]
    kinds = ["float32"] * 3
    extra = d.of("", "bias", "mask")
    if extra:
        shapes.append((None, d.of(1, heads), steps, others))
        kinds.append("bool" if extra == "mask" else "float32")
    options = {"is_causal": d.flag(), "scale": d.of(None, 0.3)}
    return Function(
        lambda o, q, k, v, *more: o.dot_product_attention(
            q, k, v, **({extra: more[0]} if extra else {}), **options
        ),
        shapes,
        kinds,
    )


@function("LayerNorm")
def layer_norm(d: Draw) -> Function:
    sizes = d.sizes(3, 2, 5)
    axis = d.of(-1, 2, [1, 2], [2, 3], [-1, -2, -3])
    shape = tuple(sizes[(n % 4) - 1] for n in sorted(axis if isinstance(axis, list) else [axis]))
    options = {"axis": axis, "epsilon": d.of(None, 1e-3)}
    scales, moves = d.flag(), d.flag()
    return Function(
        lambda o, x, g, b: o.layer_normalization(x, g if scales else None, b if moves else None, **options)
        + 0 * o.sum(g) + 0 * o.sum(b),
        [(None, *sizes), shape, shape],
    )  # fmt: skip


@function("RMSNorm")
def rms_norm(d: Draw) -> Function:
    sizes = d.sizes(2, 2, 5)
    options = {"axis": d.of(-1, 1, [1, 2]), "epsilon": d.of(None, 1e-3)}
    scales, kind = d.flag(), d.of("float32", "float16")
    return Function(
        lambda o, x, g: o.rms_normalization(x, g if scales else None, **options) + 0 * o.sum(g),
        [(None, *sizes), sizes[1:]],
        [kind, kind],
    )


@function("ConvTranspose")
def conv_transpose(d: Draw) -> Function:
    dims = d.size(1, 3)
    stride, channels, filters = d.size(1, 3), d.size(1, 3), d.size(1, 3)
    dilation = 1 if stride > 1 or dims == 3 else d.size(1, 2)
    options: dict[str, Any] = {"strides": stride, "padding": d.of("valid", "same")}
    options |= {"dilation_rate": dilation} if dims < 3 else {}
    if stride > 1 and d.flag():
        options["output_padding"] = d.size(0, stride - 1)
    return Function(
        lambda o, x, k: o.conv_transpose(x, k, **options),
        [(None, *d.sizes(dims, 4, 6), channels), (*d.sizes(dims, 2, 4), filters, channels)],
        is_eager=True,
    )


# --- parts, places, other orders ----------------------------------------------------------------------------


@function("Slice")
def part(d: Draw) -> Function:
    sizes = d.sizes(3, 3, 6)
    shape = [d.size(1, n) for n in sizes]
    start = [d.size(0, n - m) for n, m in zip(sizes, shape, strict=True)]
    if d.flag():
        return Function(lambda o, x: o.slice(x, start, shape), [sizes])
    return Function(lambda o, x, i: o.slice(x, i, shape), [sizes, (3,)], ["float32", "int32"], 0, 1)


@function("SliceUpdate")
def written(d: Draw) -> Function:
    sizes = d.sizes(3, 3, 6)
    shape = tuple(d.size(1, n) for n in sizes)
    start = [d.size(0, n - m) for n, m in zip(sizes, shape, strict=True)]
    if d.flag():
        return Function(lambda o, x, y: o.slice_update(x, start, y), [sizes, shape])
    # A place that is computed, maybe too far out.
    kinds = ["float32", "float32", "int32"]
    return Function(lambda o, x, y, i: o.slice_update(x, [0, i, 0], y), [sizes, shape, ()], kinds, -2, 9)


@function("Scatter")
def scatter(d: Draw) -> Function:
    count, depth = d.size(2), d.size(1, 2)
    shape = (4, 5, 2)
    return Function(
        lambda o, i, v: o.scatter(o.mod(i, 4), v, shape),
        [(count, depth), (count, *shape[depth:])],
        ["int32", d.of("float32", "int32")],
        -9,
        9,
    )


@function("ScatterUpdate")
def scatter_update(d: Draw) -> Function:
    depth, reduction = d.size(1, 2), d.of(None, "add", "max", "min")
    shape = (4, 5, 2)
    places = [[n, (n * 3) % 5][:depth] for n in d.random.sample(range(4), 3)]
    options = {} if reduction is None else {"reduction": reduction}
    return Function(
        lambda o, x, v: o.scatter_update(x, np.array(places, np.int32), v, **options),
        [shape, (3, *shape[depth:])],
    )


@function("UnravelIndex")
def unravel_index(d: Draw) -> Function:
    shape = d.sizes(3, 2, 5)
    return Function(lambda o, i: o.unravel_index(i, shape), [(7,)], ["int32"], 0, float(np.prod(shape)))


@function("Digitize")
def digitize(d: Draw) -> Function:
    kind = d.of("float32", "int32", "float16", "uint8")
    bins = np.sort(np.array([d.random.uniform(-5, 5) for _ in range(4)]))
    low = 0 if kind == "uint8" else -6
    return Function(lambda o, x: o.digitize(x, bins), [(None, 5)], [kind], low, 6)


@function("SearchSorted")
def search_sorted(d: Draw) -> Function:
    row, side = np.array([-2, -1, -1, 0, 1, 1, 3], np.float32), d.of("left", "right")
    kind = d.of("float32", "int32")
    if kind == "int32":
        return Function(lambda o, v: o.searchsorted(row.astype(kind), v, side=side), [(5,)], [kind], -4, 4)
    return Function(lambda o, r, v: o.searchsorted(o.sort(r), v, side=side), [(6,), (4,)])


@function("IsIn")
def is_in(d: Draw) -> Function:
    invert = d.flag()
    return Function(lambda o, x, y: o.isin(x, y, invert=invert), [(4, 5), (3,)], ["int32"] * 2, -5, 5)


@function("Select")
def select(d: Draw) -> Function:
    default = d.of(0, 1.5)
    return Function(lambda o, x, y: o.select([x > 1, y > 0], [x * 2, y], default), [(None, 4), (None, 4)])


@function("Split")
def split(d: Draw) -> Function:
    name, kind = d.of(("hsplit", 1), ("vsplit", 0), ("dsplit", 2)), d.of("float32", "int32")
    given = d.of(2, 3, [1, 4], [2])
    return Function(lambda o, x: getattr(o, name[0])(x, given), [(6, 6, 6)], [kind], -9, 9)


@function("ArraySplit")
def array_split(d: Draw) -> Function:
    axis, count = d.of(0, 1, -1), d.size(1, 4)
    return Function(lambda o, x: o.array_split(x, count, axis=axis), [d.sizes(3, 4, 7)])


@function("Stack")
def stack(d: Draw) -> Function:
    name, rank = d.of("dstack", "hstack", "vstack"), d.size(2, 3)
    shape = d.sizes(rank, 2, 4)
    return Function(lambda o, x, y: getattr(o, name)([x, y]), [shape, shape])


@function("Rot90")
def turned(d: Draw) -> Function:
    rank = d.size(2, 4)
    axes, k = d.random.sample(range(-rank, 0), 2), d.size(-2, 5)
    # By half TensorFlow's backend turns squares only.
    shape = (3,) * rank if k % 4 == 2 else d.sizes(rank, 2, 4)
    return Function(lambda o, x: o.rot90(x, k=k, axes=tuple(axes)), [shape])


@function("Rearrange")
def rearrange(d: Draw) -> Function:
    pattern, options = d.of(
        ("b h w c -> b c h w", {}),
        ("b h w c -> b (c h w)", {}),
        ("b (h k) w c -> b h w (c k)", {"k": 2}),
        ("b (h k) (w l) c -> (b h w) k l c", {"h": 2, "l": 3}),
        ("b h w c -> (b h) w c", {}),
    )
    return Function(lambda o, x: o.rearrange(x, pattern, **options), [(2, 4, 6, 3)])


@function("Roll")
def roll(d: Draw) -> Function:
    shift, axis = d.of((2, None), (-1, 1), ((1, -2), (0, 2)))
    return Function(lambda o, x: o.roll(x, shift, axis=axis), [d.sizes(3, 2, 4)])
