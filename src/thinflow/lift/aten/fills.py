"""ATen's tensors of one number, counts and triangles."""

from __future__ import annotations

import numpy as np

from thinflow.decompose.terms import Term, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, INT32
from thinflow.lift.aten.arguments import Arguments, aten
from thinflow.lift.aten.arithmetic import operand
from thinflow.lift.onnx.formulas import Size, scalar, size, sizes_of, vector
from thinflow.lift.onnx.values import bounded


def _filled(a: Arguments, sizes: list[Size], number: Term) -> Value:
    a.ignore("dtype", "layout")
    known = [n for n in sizes if isinstance(n, int)]
    if len(known) == len(sizes) and number.known is not None:
        bounded(int(np.prod(known, dtype=object)))
        return a.body.constant(np.full(known, number.known.reshape(())), number.dtype).value
    return a.emit("Fill", vector(a.body, sizes).value, number.value, index_type=INT32)


def _of_sizes(name: str, number: float) -> None:
    aten(name, f"new_{name}", ignores=("self",))(
        lambda a: _filled(a, a.sizes("size"), a.body.constant(number, a.dtype))
    )


def _like(name: str, number: float) -> None:
    @aten(f"{name}_like")
    def rule(a: Arguments) -> Value:
        x = a.term()
        return _filled(a, sizes_of(x), a.body.constant(number, a.dtype))


_of_sizes("zeros", 0)
_of_sizes("ones", 1)
_of_sizes("empty", 0)
_like("zeros", 0)
_like("ones", 1)
# What is never written before it is read has any value; zeros are one.
_like("empty", 0)


@aten("zero")
def _zero(a: Arguments) -> Value:
    return _filled(a, sizes_of(a.term()), a.body.constant(0, a.dtype))


@aten("empty.memory_format", "empty_permuted", "empty_strided", "new_empty_strided")
def _empty(a: Arguments) -> Value:
    a.ignore("self", "physical_layout", "stride")
    return _filled(a, a.sizes("size"), a.body.constant(0, a.dtype))


@aten("full", "new_full", ignores=("self",))
def _full(a: Arguments) -> Value:
    return _filled(a, a.sizes("size"), operand(a, "fill_value", a.dtype))


@aten("full_like", "fill.Scalar", "fill.Tensor")
def _full_like(a: Arguments) -> Value:
    x = a.term()
    name = "value" if a.has("value") else "fill_value"
    return _filled(a, sizes_of(x), operand(a, name, a.dtype))


@aten("arange", "arange.start", "arange.start_step")
def _arange(a: Arguments) -> Value:
    a.ignore("dtype", "layout")
    if a.dtype.is_floating or isinstance(a.call.get("step"), float):
        ends = [a.number(n, d) for n, d in (("start", 0), ("end", None), ("step", 1))]
        bounded(int(abs((ends[1] - ends[0]) / (ends[2] or 1))))
        return a.body.constant(np.arange(*ends), a.dtype).value
    ends_ = [a.size(n, d) for n, d in (("start", 0), ("end", None), ("step", 1))]
    known = [n for n in ends_ if isinstance(n, int)]
    if len(known) == 3:
        bounded(abs((known[1] - known[0]) // (known[2] or 1)))
        return a.body.constant(np.arange(*known), a.dtype).value
    counted = a.body.add("Range", [scalar(a.body, n).value for n in ends_])[0]
    return counted.cast(a.dtype).value


def _spaced(name: str) -> None:
    forms = [f"{first}_{second}" for first in ("Tensor", "Scalar") for second in ("Tensor", "Scalar")]

    @aten(name, *(f"{name}.{form}" for form in forms if form != "Scalar_Scalar"))
    def rule(a: Arguments) -> Value:
        """Numbers at equal distances from one end to the other, or powers by such numbers."""
        a.ignore("dtype", "layout")
        ends, steps = (a.number("start"), a.number("end")), bounded(a.integer("steps"))
        line = np.linspace(*ends, steps)
        line = line if name == "linspace" else np.power(float(a.number("base", 10.0)), line)
        return a.body.constant(line, a.dtype).value


_spaced("linspace")
_spaced("logspace")


@aten("tril")
def _tril(a: Arguments) -> Value:
    return _triangle(a, upper=False)


@aten("triu")
def _triu(a: Arguments) -> Value:
    return _triangle(a, upper=True)


def _triangle(a: Arguments, *, upper: bool) -> Value:
    x, k = a.term(), a.integer("diagonal", 0)
    rows, columns = (x.static_size(n, "the size of its matrix") for n in (-2, -1))
    bounded(rows * columns)
    whole = np.ones((rows, columns), bool)
    mask = a.body.constant(np.triu(whole, k) if upper else np.tril(whole, k), BOOL)
    return where(mask, x, x.of(0)).value


@aten("meshgrid", "meshgrid.indexing")
def _meshgrid(a: Arguments) -> list[Value]:
    """Each vector along an axis of its own, as often as the others have elements."""
    terms = [a.body.term(v).reshape([-1]) for v in a.tensors("tensors")]
    order = a.text("indexing", "ij")
    if order not in {"ij", "xy"}:
        raise UnsupportedOp(f"its indexing is '{order}'")
    axes = list(range(len(terms)))
    if order == "xy" and len(terms) > 1:
        axes[:2] = [1, 0]
    sizes: list[Size] = [0] * len(terms)
    for axis, term in zip(axes, terms, strict=True):
        sizes[axis] = size(term, 0)
    shape = vector(a.body, sizes).value
    lines = [
        t.reshape([-1 if n == axis else 1 for n in range(len(terms))])
        for axis, t in zip(axes, terms, strict=True)
    ]
    return [a.emit("BroadcastTo", line.value, shape, Tidx=INT32) for line in lines]


# --- what no definition makes exact -------------------------------------------------------------------------


@aten(
    "bernoulli", "bernoulli.p", "exponential", "multinomial", "normal_functional", "normal.Tensor_Tensor",
    "rand", "rand_like", "randint", "randint.low", "randint_like", "randn", "randn_like", "randperm",
    "uniform",
)  # fmt: skip
def _random(a: Arguments) -> Value:
    raise UnsupportedOp(
        "it draws random numbers, of which each runtime has its own",
        hint="let the model be given them as an input, or cut the op off by --inputs and --outputs",
    )
