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


# --- elements -----------------------------------------------------------------------------------------------

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
NUMBERS = ("float32", "float16", "int32", "int8", "uint8", "int64")


def simple(name: str, kinds: Sequence[str], low: float = -2.0, high: float = 2.0, count: int = 1) -> None:
    """A function of elements, of any of the types."""

    @function(name)
    def make(d: Draw) -> Function:
        chosen = [d.of(*kinds) for _ in range(count)]
        start = max(0.0, low) if any(kind[0] == "u" for kind in chosen) else low
        shapes: list[tuple[int | None, ...]] = [(None, 3, 5), d.of((None, 3, 5), (5,), (3, 1))][:count]
        return Function(lambda o, *xs: getattr(o, name)(*xs), shapes, chosen, start, high)


for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    simple(_name, INTEGERS, -100, 100, 2)
for _name in ("bitwise_left_shift", "right_shift"):
    simple(_name, ("int32", "uint8", "int16"), 0, 6, 2)
simple("bitwise_invert", INTEGERS, -100, 100)
simple("bitwise_not", INTEGERS, -100, 100)
simple("signbit", (*NUMBERS, "bool"), -9, 9)
simple("cbrt", NUMBERS, -9, 9)
simple("i0", NUMBERS, -3, 3)
simple("erfinv", ("float32",), -0.95, 0.95)
simple("isreal", ("float32", "int32"))
simple("real", ("float32", "float16"))
simple("imag", ("float32",))
simple("conj", ("float32",))
simple("angle", ("float32", "int32"), -3, 3)
simple("empty_like", ("float32", "int32"))
simple("nextafter", ("float32", "int32"), -4, 4, 2)
simple("logaddexp", NUMBERS, -4, 4, 2)
simple("logaddexp2", NUMBERS, -4, 4, 2)
simple("fmod", NUMBERS, 1, 9, 2)
for _name in (
    "add",
    "subtract",
    "multiply",
    "maximum",
    "minimum",
    "less",
    "equal",
    "not_equal",
    "power",
    "divide",
):
    simple(_name, (*NUMBERS, "bool") if _name not in ("subtract", "power") else NUMBERS, 0, 4, 2)
for _name in ("floor_divide", "mod"):
    simple(_name, ("float32", "int32", "uint8", "int64"), 1, 9, 2)


@function("ldexp")
def ldexp(d: Draw) -> Function:
    return Function(
        lambda o, x, n: o.ldexp(x, n), [(None, 4), (4,)], [d.of("float32", "int32"), "int32"], -4, 4
    )


@function("fmax")
def fmax(d: Draw) -> Function:
    name, kind = d.of("fmax", "fmin"), d.of("float32", "int32", "float16")
    holes = 30 if kind != "int32" else 0
    return Function(lambda o, x, y: getattr(o, name)(x, y), [(None, 9)] * 2, [kind] * 2, holes=holes)


@function("AllClose")
def all_close(d: Draw) -> Function:
    name, kind = d.of("allclose", "isclose"), d.of("float32", "int32")
    options = {"rtol": 0.1, "atol": d.of(0.2, 3.0), "equal_nan": d.flag()}
    holes = 20 if kind != "int32" else 0
    return Function(
        lambda o, x, y: getattr(o, name)(x, y * o.cast(1, kind), **options),
        [(2, 5)] * 2,
        [kind] * 2,
        holes=holes,
    )


@function("view")
def view(d: Draw) -> Function:
    kinds = d.of(("float32", "int32"), ("int32", "uint8"), ("uint8", "int16"), ("int16", "float16"))
    return Function(lambda o, x: o.view(x, dtype=kinds[1]), [(3, 4)], [kinds[0]], 0, 200)


@function("psnr")
def psnr(d: Draw) -> Function:
    most = d.of(1.0, 255.0)
    return Function(lambda o, x, y: o.psnr(x, y, most), [(2, 3, 4)] * 2)


@function("crossentropy")
def crossentropy(d: Draw) -> Function:
    name, logits = d.of("binary_crossentropy", "categorical_crossentropy"), d.flag()
    low = -3 if logits else 0.01
    return Function(
        lambda o, t, y: getattr(o, name)(o.sigmoid(t), y, from_logits=logits), [(None, 5)] * 2, (), low, 0.99
    )


# --- filled -------------------------------------------------------------------------------------------------


@function("full")
def full(d: Draw) -> Function:
    shape, kind = d.sizes(2, 2, 4), d.of(None, "int32", "float16")
    return Function(lambda o, x: o.full(shape, x, dtype=kind), [d.of((), (1,), (1, 1))])


@function("linspace")
def linspace(d: Draw) -> Function:
    name = d.of("linspace", "logspace", "geomspace")
    axis = d.of(0, -1, 1) if name != "geomspace" else 0
    options = {"num": d.size(1, 6), "endpoint": d.flag(), "axis": axis}
    shape = d.sizes(2, 2, 3)
    return Function(lambda o, x, y: getattr(o, name)(x, y, **options), [shape, shape], (), 0.1, 2)


@function("meshgrid")
def meshgrid(d: Draw) -> Function:
    count, indexing = d.size(2, 3), d.of("xy", "ij")
    return Function(
        lambda o, *xs: o.meshgrid(*xs, indexing=indexing), [(d.size(2, 4),) for _ in range(count)]
    )


# --- matrices -----------------------------------------------------------------------------------------------


@function("diagonal")
def diagonal(d: Draw) -> Function:
    name, kind = d.of("diagonal", "trace"), d.of(*NUMBERS)
    one, two = d.random.sample(range(-3, 0), 2)
    options = {"offset": d.size(-1, 1), "axis1": one, "axis2": two}
    # Of traces TensorFlow's backend takes the sizes of other axes: those of cubes are alike.
    shape = d.sizes(3, 2, 5) if name == "diagonal" else (3, 3, 3)
    low = 0 if kind[0] == "u" else -9
    return Function(lambda o, x: getattr(o, name)(x, **options), [shape], [kind], low, 9)


@function("diag")
def diag(d: Draw) -> Function:
    name, k = d.of("diag", "diagflat"), d.size(-1, 1)
    shape = d.of((4,), (3, 4)) if name == "diag" else d.of((4,), (2, 2))
    return Function(lambda o, x: getattr(o, name)(x, k=k), [shape], [d.of("float32", "int32")], -9, 9)


@function("tensordot")
def tensordot(d: Draw) -> Function:
    case = d.of(
        (2, (2, 3, 4), (3, 4, 5)),
        (1, (None, 3, 4), (4, 2)),
        (0, (2, 3), (2,)),
        ([[1], [0]], (None, 4, 3), (4, 2)),
        ([[0, 2], [1, 0]], (3, 2, 4), (4, 3, 2)),
    )
    return Function(
        lambda o, x, y: o.tensordot(x, y, axes=case[0]), case[1:], [d.of("float32", "int32")] * 2, -9, 9
    )


@function("inner")
def inner(d: Draw) -> Function:
    name, shapes = d.of(
        ("inner", ((None, 4), (3, 4))),
        ("inner", ((), (3, 4))),
        ("vdot", ((3, 4), (2, 6))),
        ("dot", ((None, 3, 4), (4,))),
        ("dot", ((3, 4), (2, 4, 5))),
        ("dot", ((4,), (4, 2))),
        ("dot", ((None, 3, 4), (4, 2))),
        ("matmul", ((4,), (None, 4, 2))),
        ("matmul", ((None, 3, 4), (4,))),
        ("matmul", ((4,), (4,))),
        ("matmul", ((None, 2, 4), (None, 4, 3))),
        ("kron", ((3, 4), (2, 3))),
        ("kron", ((3,), (2, 3))),
        ("outer", ((3, 2), (4,))),
    )
    kinds = [d.of("float32", "int32", "int8") for _ in range(2)]
    return Function(lambda o, x, y: getattr(o, name)(x, y), shapes, kinds, -5, 5)


@function("cross")
def cross(d: Draw) -> Function:
    shapes, options = d.of(
        (((None, 3), (None, 3)), {}),
        (((None, 5, 3), (3,)), {}),
        (((3, 4), (3, 4)), {"axis": 0}),
        (((4, 2), (4, 2)), {}),
        (((4, 2), (4, 3)), {}),
        (((3, 4), (4, 3)), {"axisa": 0, "axisc": 0}),
    )
    return Function(lambda o, x, y: o.cross(x, y, **options), shapes)


@function("correlate")
def correlate(d: Draw) -> Function:
    mode, kind = d.of("valid", "same", "full"), d.of("float32", "int32")
    return Function(lambda o, x, y: o.correlate(x, y, mode=mode), [(9,), (d.size(2, 5),)], [kind] * 2, -9, 9)


@function("corrcoef")
def corrcoef(d: Draw) -> Function:
    return Function(lambda o, x: o.corrcoef(x), [(d.size(2, 5), 6)], [d.of("float32", "int32")], -9, 9)


def positive(o: Any, x: Any) -> Any:
    """Matrices that are symmetric and positive definite."""
    return o.matmul(x, o.swapaxes(x, -1, -2)) + 2 * o.eye(x.shape[-1])


@function("solved")
def solved(d: Draw) -> Function:
    name = d.of(
        "det", "inv", "cholesky", "logdet", "slogdet", "eigh", "svd", "pinv", "qr", "lu_factor", "matrix_rank"
    )
    lead = () if name == "lu_factor" else d.of((), (2,))

    def call(o: Any, x: Any) -> Any:
        x = x if name in ("svd", "pinv", "qr", "matrix_rank") else positive(o, x)
        if name == "eigh":
            return o.linalg.eigh(x)[0]
        if name == "svd":
            return o.linalg.svd(x, full_matrices=False)[1]
        if name == "qr":
            return o.abs(o.linalg.qr(x)[1])
        if name in ("logdet", "slogdet"):
            return getattr(o, name)(x)
        return getattr(o.linalg, name)(x)

    return Function(call, [(*lead, 3, 3)])


@function("solve")
def solve(d: Draw) -> Function:
    name, is_vector = d.of("solve", "solve_triangular", "lower", "cholesky_inverse"), d.flag()

    def call(o: Any, x: Any, b: Any) -> Any:
        x = positive(o, x)
        if name == "cholesky_inverse":
            upper = is_vector
            return o.linalg.cholesky_inverse(o.linalg.cholesky(x, upper=upper), upper=upper) + 0 * o.sum(b)
        if name == "solve":
            return o.linalg.solve(x, b)
        return o.linalg.solve_triangular(x, b, lower=name == "lower")

    return Function(call, [(2, 3, 3), (2, 3) if is_vector else (2, 3, 2)])


@function("cdist")
def cdist(d: Draw) -> Function:
    return Function(lambda o, x, y: o.cdist(x, y), [(None, 3, 4), (5, 4)])


# --- over axes ----------------------------------------------------------------------------------------------


def over_axes(d: Draw, name: str, kinds: Sequence[str], holes: int = 0, **more: Any) -> Function:
    shape, kind = d.sizes(3, 2, 5), d.of(*kinds)
    options: dict[str, Any] = {"axis": axes_of(d, 3), "keepdims": d.flag(), **more}
    low = 0 if kind[0] == "u" else -9
    holes = holes if kind[0] == "f" else 0
    return Function(lambda o, x: getattr(o, name)(x, **options), [shape], [kind], low, 9, holes)


def reduction(name: str, kinds: Sequence[str], holes: int = 0) -> None:
    function(name)(lambda d: over_axes(d, name, kinds, holes))


for _name in ("sum", "mean", "max", "min", "prod", "std", "var", "all", "any", "logsumexp", "median"):
    reduction(_name, (*NUMBERS, "bool") if _name not in ("logsumexp", "median") else NUMBERS[:2])
for _name in ("nanmax", "nanmin", "nansum", "nanmean", "nanprod", "nanvar", "nanstd"):
    reduction(_name, ("float32", "int32", "uint8"), 40)


@function("nanargmax")
def nanargmax(d: Draw) -> Function:
    name, holes = d.of("nanargmax", "nanargmin", "argmax", "argmin"), d.of(20, 70)
    options = {"axis": d.of(None, 0, -1), "keepdims": d.flag()}
    kind = d.of("float32", "int32")
    holes = 0 if kind == "int32" or name[0] == "a" else holes
    return Function(lambda o, x: getattr(o, name)(x, **options), [(3, 4)], [kind], -9, 9, holes)


@function("quantile")
def quantile(d: Draw) -> Function:
    name, q = d.of("quantile", "percentile"), d.of(0.3, [0.25, 0.75, 0.1], 1.0)
    method = "linear" if name == "quantile" else d.of("linear", "lower", "higher", "nearest", "midpoint")
    options = {"axis": axes_of(d, 3), "method": method, "keepdims": d.flag()}
    q = q if name == "quantile" else (np.multiply(q, 100).tolist())
    kind, holes = d.of("float32", "int32"), d.of(0, 5)
    holes = 0 if kind == "int32" else holes
    return Function(lambda o, x: getattr(o, name)(x, q, **options), [d.sizes(3, 2, 5)], [kind], -9, 9, holes)


@function("norm")
def norm(d: Draw) -> Function:
    order, axis = d.of(
        (None, -1), (2, 1), (1, -1), (3, 0), (0, -1), (float("inf"), 1), (float("-inf"), 0),
        ("fro", (0, 2)), (1, (1, 2)), (-1, (2, 1)), (float("inf"), (0, 1)),
    )  # fmt: skip
    keeps = d.flag()
    return Function(lambda o, x: o.norm(x, ord=order, axis=axis, keepdims=keeps), [d.sizes(3, 2, 4)])


@function("trapezoid")
def trapezoid(d: Draw) -> Function:
    axis, options = d.of(-1, 1), d.of({}, {"dx": 0.3}, {"x": [0.0, 0.5, 2.0, 3.0]})
    return Function(
        lambda o, y: o.trapezoid(y, axis=axis, **options), [(None, 4, 4)], [d.of("float32", "int32")]
    )


@function("vander")
def vander(d: Draw) -> Function:
    options = {"N": d.of(None, 3, 5), "increasing": d.flag()}
    return Function(lambda o, x: o.vander(x, **options), [(4,)], [d.of("float32", "int32")], -3, 3)


@function("cumulated")
def cumulated(d: Draw) -> Function:
    name, axis = d.of("cumsum", "cumprod", "nancumsum", "nancumprod"), d.of(None, 0, -1)
    kind = d.of("float32", "int32", "int8", "bool")
    holes = 20 if kind == "float32" and name[0] == "n" else 0
    return Function(lambda o, x: getattr(o, name)(x, axis=axis), [(3, 4)], [kind], -3, 3, holes)


# --- Fourier transforms -------------------------------------------------------------------------------------


@function("fft")
def fft(d: Draw) -> Function:
    name = d.of("fft", "fft2", "ifft2", "irfft")
    shape = d.of((None, 4, 8), (2, 3, 5)) if name != "irfft" else (None, 5)
    return Function(lambda o, x, y: getattr(o, name)((x, y)), [shape, shape])


@function("rfft")
def rfft(d: Draw) -> Function:
    length = d.of(None, 6, 10)
    return Function(lambda o, x: o.rfft(x, fft_length=length), [(None, 8)])


@function("extract_sequences")
def extract_sequences(d: Draw) -> Function:
    length, step = d.size(2, 4), d.size(1, 3)
    return Function(lambda o, x: o.extract_sequences(x, length, step), [(None, 11)])


@function("polar")
def polar(d: Draw) -> Function:
    return Function(lambda o, x, y: o.view_as_real(o.polar(x, y)), [(3, 4)] * 2)


@function("stft")
def stft(d: Draw) -> Function:
    length, size = d.size(5, 8), d.of(8, 10, 16)
    options = {"window": d.of("hann", "hamming", None), "center": d.flag()}
    shape = d.of((None, 40), (2, 3, 33), (30,))
    step = d.size(1, 4)
    return Function(lambda o, x: o.stft(x, length, step, size, **options), [shape])


# --- pictures -----------------------------------------------------------------------------------------------


@function("extract_patches")
def extract_patches(d: Draw) -> Function:
    dims, first = d.size(2, 3), d.flag()
    sizes, channels = d.sizes(dims, 5, 8), d.size(1, 3)
    options: dict[str, Any] = {"padding": d.of("valid", "same")}
    options["data_format"] = "channels_last"
    if d.flag():
        options["strides"] = 1
        options["dilation_rate"] = d.of(1, 2) if dims == 2 else 1
    lead: tuple[int | None, ...] = (None,) if first else ()
    size = d.size(2, 3) if dims == 2 and d.flag() else d.sizes(dims, 1, 3)
    return Function(lambda o, x: o.image.extract_patches(x, size, **options), [(*lead, *sizes, channels)])


@function("pad_images")
def pad_images(d: Draw) -> Function:
    sides = ({"top_padding": 1, "target_height": 9}, {"top_padding": 0, "bottom_padding": 2})
    others = ({"right_padding": 2, "target_width": 8}, {"left_padding": 3, "right_padding": 1})
    options = {**d.of(*sides), **d.of(*others)}
    lead: tuple[int | None, ...] = d.of((None,), ())
    return Function(lambda o, x: o.image.pad_images(x, **options), [(*lead, 5, 4, 2)])


@function("crop_images")
def crop_images(d: Draw) -> Function:
    sides = ({"top_cropping": 1, "target_height": 3}, {"top_cropping": 0, "bottom_cropping": 2})
    others = ({"right_cropping": 2, "target_width": 2}, {"left_cropping": 1, "right_cropping": 1})
    options = {**d.of(*sides), **d.of(*others)}
    return Function(lambda o, x: o.image.crop_images(x, **options), [(2, 5, 6, 2)])


@function("gaussian_blur")
def gaussian_blur(d: Draw) -> Function:
    size, sigma = (d.of(3, 5), d.of(3, 5)), (d.of(0.5, 1.0), 1.5)
    lead: tuple[int | None, ...] = d.of((None,), ())
    return Function(
        lambda o, x: o.image.gaussian_blur(x, size, sigma, data_format="channels_last"), [(*lead, 7, 6, 3)]
    )


@function("sobel_edges")
def sobel_edges(d: Draw) -> Function:
    form = d.of("channels_last", "channels_first")
    return Function(lambda o, x: o.image.sobel_edges(x, data_format=form), [(None, 5, 6, 4)])


@function("affine_transform")
def affine_transform(d: Draw) -> Function:
    options = {
        "interpolation": d.of("bilinear", "nearest"),
        "fill_mode": d.of("constant", "nearest", "wrap", "reflect"),
        "fill_value": d.of(0.0, 1.5),
    }
    turn = np.array([0.9, 0.2, 0.5, -0.2, 1.1, 0.3, 0, 0], np.float32)
    lead = d.of((2,), ())
    return Function(
        lambda o, x: o.image.affine_transform(x, turn if not lead else turn[None].repeat(2, 0), **options),
        [(*lead, 5, 6, 2)],
    )


@function("unfold")
def unfold(d: Draw) -> Function:
    options = {"dilation": d.of(1, 2), "padding": d.of(0, (1, 2)), "stride": d.of(1, (2, 1))}
    return Function(lambda o, x: o.unfold(x, (2, 3), **options), [(2, 3, 6, 7)])


@function("resize")
def resize(d: Draw) -> Function:
    options = {"interpolation": d.of("bilinear", "nearest", "bicubic")}
    options |= d.of({}, {"antialias": True}, {"crop_to_aspect_ratio": True}, {"pad_to_aspect_ratio": True})
    size, form = d.sizes(2, 3, 12), d.of("channels_last", "channels_first")
    shape = (7, 6, 3) if form == "channels_last" else (3, 7, 6)
    lead: tuple[int | None, ...] = d.of((None,), ())
    kind = "float32" if "pad_to_aspect_ratio" in options else d.of("float32", "uint8")
    return Function(
        lambda o, x: o.image.resize(x, size, data_format=form, **options), [(*lead, *shape)], [kind], 0, 200
    )


@function("einsum")
def einsum(d: Draw) -> Function:
    equation, *shapes = d.of(
        ("bij,bjk->bik", (None, 2, 3), (None, 3, 4)),
        ("bij,bkj", (2, 2, 3), (2, 4, 3)),
        ("...ij,...jk->...ik", (None, 5, 2, 3), (None, 5, 3, 4)),
        ("...ij,jk->...ik", (None, 5, 2, 3), (3, 4)),
        ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
        ("bi,bj,ij->b", (None, 3), (None, 4), (3, 4)),
        ("ij", (2, 3)),
        ("...i->...", (None, 4, 3)),
    )
    return Function(
        lambda o, *xs: o.einsum(equation, *xs), shapes, [d.of("float32", "int32")] * len(shapes), -5, 5
    )


@function("normalize")
def normalize(d: Draw) -> Function:
    options = {"axis": d.of(-1, 1, [1, 2]), "order": d.of(1, 2, 2), "epsilon": d.of(None, 0.5)}
    options |= {"order": 2} if isinstance(options["axis"], list) else {}
    return Function(lambda o, x: o.normalize(x * 0.2, **options), [(None, 3, 4)])


@function("average")
def average(d: Draw) -> Function:
    axis = d.of(0, 1, 2)
    shape = (3, 4, 5)
    weights = d.of(shape, (shape[axis],))
    return Function(lambda o, x, w: o.average(x, axis=axis, weights=o.abs(w)), [shape, weights])


@function("sparse_crossentropy")
def sparse_crossentropy(d: Draw) -> Function:
    logits, shape = d.flag(), d.of((None, 3), (None, 3, 1))
    return Function(
        lambda o, t, y: o.sparse_categorical_crossentropy(o.cast(t * 4.9, "int32"), y, from_logits=logits),
        [shape, (None, 3, 5)], (), 0.01, 0.99,
    )  # fmt: skip


# --- orders and places --------------------------------------------------------------------------------------


@function("ordered")
def ordered(d: Draw) -> Function:
    name, axis = d.of("sort", "argsort"), d.of(None, 0, -1, 1)
    name, axis = (name, axis) if axis is not None else ("argsort", None)
    return Function(
        lambda o, x: getattr(o, name)(x, axis=axis), [(3, 4)], [d.of("float32", "int32")], -99, 99
    )


@function("top_k")
def top_k(d: Draw) -> Function:
    k, port = d.size(1, 4), d.size(0, 1)
    return Function(lambda o, x: o.top_k(x, k)[port], [(None, 3, 5)], [d.of("float32", "int32")], -99, 99)


@function("take")
def take(d: Draw) -> Function:
    axis, places = d.of(None, 0, 1, -1), d.of([0, 2, 1], [[1, 0], [2, 2]], 1)
    kind = d.of("float32", "int32", "bool")
    if d.flag():
        return Function(lambda o, x: o.take(x, places, axis=axis), [(3, 4, 3)], [kind], -9, 9)
    return Function(lambda o, x, i: o.take(x, i, axis=axis), [(3, 4, 3), (2, 5)], [kind, "int32"], 0, 2.9)


@function("one_hot")
def one_hot(d: Draw) -> Function:
    options = {"axis": d.of(-1, 0, 1), "dtype": d.of(None, "int32", "bool", "float16")}
    return Function(lambda o, x: o.one_hot(x, 4, **options), [(3, 5)], ["int32"], -1, 5)


@function("pad")
def pad(d: Draw) -> Function:
    widths = d.of([[0, 0], [0, 0], [1, 1]], [[1, 2], [0, 1], [2, 0]])
    mode = d.of("constant", "reflect", "symmetric")
    options = {"constant_values": d.of(0, 3)} if mode == "constant" else {}
    kind = d.of("float32", "int32", "uint8")
    return Function(lambda o, x: o.pad(x, widths, mode=mode, **options), [(3, 4, 5)], [kind], 0, 99)


@function("clip")
def clip(d: Draw) -> Function:
    ends, kind = d.of(((1, 2), d.of(*NUMBERS)), ((-0.25, 1.5), "float32"))
    return Function(lambda o, x: o.clip(x, *ends), [(None, 9)], [kind], 0, 5)


@function("where")
def where(d: Draw) -> Function:
    kinds = ["bool", d.of(*NUMBERS), d.of(*NUMBERS)]
    other = d.of(None, 2, 1.5)
    if other is None:
        return Function(lambda o, c, x, y: o.where(c, x, y), [(None, 4), (None, 4), (4,)], kinds, 0, 9)
    return Function(lambda o, c, x: o.where(c, x, other), [(None, 4)] * 2, kinds[:2], 0, 9)


CALLS: list[Callable[..., Any]] = [
    lambda o, x: o.moveaxis(x, (0, -1), (1, 0)),
    lambda o, x: o.swapaxes(x, -1, 0),
    lambda o, x: o.transpose(x),
    lambda o, x: o.expand_dims(x, (0, -1)),
    lambda o, x: o.expand_dims(x, -2),
    lambda o, x: o.squeeze(o.reshape(x, (2, 1, 12, 1)), axis=(1, -1)),
    lambda o, x: o.tile(x, (2, 1)),
    lambda o, x: o.tile(x, (2, 1, 1, 2)),
    lambda o, x: o.repeat(x, 3, axis=-1),
    lambda o, x: o.repeat(x, 2),
    lambda o, x: o.repeat(x, [1, 2, 0], axis=1),
    lambda o, x: o.flip(x),
    lambda o, x: o.flip(x, axis=(0, -1)),
    lambda o, x: o.diff(x, axis=1),
    lambda o, x: o.broadcast_to(x, (3, 2, 3, 4)),
    lambda o, x: o.unstack(x, axis=-1)[1],
    lambda o, x: o.stack([x, x], axis=-1),
    lambda o, x: o.append(x, x),
    lambda o, x: o.ravel(x),
    lambda o, x: o.full_like(x, 3),
    lambda o, x: o.trunc(x),
    lambda o, x: o.nan_to_num(x),
    lambda o, x: o.count_nonzero(x, axis=1),
    lambda o, x: o.ptp(x, axis=-1),
    lambda o, x: o.tril(x, k=-1),
    lambda o, x: o.round(x),
    lambda o, x: o.floor(x),
    lambda o, x: o.ceil(x),
    lambda o, x: o.sign(x),
    lambda o, x: o.square(x),
    lambda o, x: o.absolute(x),
    lambda o, x: o.log2(o.absolute(x) + 1),
    lambda o, x: o.exp2(x),
    lambda o, x: o.reciprocal(o.cast(x, "float32") + 1.0),
    lambda o, x: o.saturate_cast(x, "float16"),
    lambda o, x: o.cast(x, "int8"),
]


def called(number: int, call: Callable[..., Any]) -> None:
    @function(f"call {number}")
    def make(d: Draw) -> Function:
        return Function(call, [(2, 3, 4)], [d.of("float32", "int32", "uint8", "float16")], 0, 9)


for _number, _call in enumerate(CALLS):
    called(_number, _call)
