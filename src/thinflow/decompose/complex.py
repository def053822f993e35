"""Complex numbers by their real and imaginary parts, for targets that do not compute with them.

    @by_parts("Conj")
    def conjugate(x: Complex) -> Complex:
        return Complex(x.real, -x.imag)

A rule is one as in `rules`, but gets both terms for an input that is complex, and may return both. Ops with
the trait LINEAR need none: they are run for each of the parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from thinflow.decompose.rules import R, Rule, check_count, refusals_at
from thinflow.decompose.terms import Body, Term, where
from thinflow.ir.discovery import Registered
from thinflow.ir.function import Function
from thinflow.ir.graph import Node
from thinflow.ir.types import DOUBLE, FLOAT, INT32, DType, TensorSpec
from thinflow.ops.registry import select_attrs
from thinflow.ops.traits import Trait, has
from thinflow.typing import Array


@dataclass(frozen=True, eq=False)
class Complex:
    """A complex tensor: its parts, of one shape and type."""

    real: Term
    imag: Term

    @property
    def body(self) -> Body:
        return self.real.body

    def each(self, function: Callable[[Term], Term]) -> Complex:
        """The same function of both parts."""
        return Complex(function(self.real), function(self.imag))

    def __mul__(self, other: Complex) -> Complex:
        # Half of the products are left out by a constant without an imaginary part.
        if self.imag.is_all(0):
            self, other = other, self
        if other.imag.is_all(0):
            return self.each(lambda t: t * other.real)
        return Complex(
            self.real * other.real - self.imag * other.imag, self.real * other.imag + self.imag * other.real
        )

    def conjugate(self) -> Complex:
        return Complex(self.real, -self.imag)


Part: TypeAlias = "Term | Complex"
_forms: Registered[Rule] = Registered("thinflow.decompose", "by_parts")


def by_parts(*names: str) -> Callable[[R], R]:
    """Function decorator: the form of these ops for complex numbers."""

    def register(rule: R) -> R:
        for name in names:
            other = _forms.add(name, rule, rule.__module__)
            if other is not rule:
                raise RuntimeError(f"{name} has forms in both {other.__module__} and {rule.__module__}")
        return rule

    return register


def has_form(op: str) -> bool:
    """True if there may be a form of this op for complex numbers."""
    return _forms.find(op) is not None or has(op, Trait.LINEAR | Trait.PASSES_THROUGH)


def part_type(element: DType) -> DType:
    """The type of the parts of a complex type."""
    return DOUBLE if element.name == "complex128" else FLOAT


def decomposition_of(
    node: Node,
    pairs: Sequence[bool],
    specs: Sequence[TensorSpec],
    constants: Mapping[int, Array],
    index: DType = INT32,
) -> tuple[Function, list[bool]]:
    """A node as a function of real numbers, and which of its outputs are complex.

    A complex input is two arguments of the function, the real part first, and a complex output two results.

    Args:
        pairs: which of the node's inputs are complex.
        specs: types and shapes of the function's arguments.
        constants: number of an argument -> its elements, for those that are constant.
        index: the integer type of the target's indices.

    Raises:
        UnsupportedOp: there is no form for it; placed at the node.
    """
    body = Body(node.name, node, index)
    with refusals_at(node):
        arguments = [body.argument(n, spec, constants.get(n)) for n, spec in enumerate(specs)]
        terms = iter(arguments)
        operands: list[Part] = [Complex(next(terms), next(terms)) if pair else next(terms) for pair in pairs]
        rule = _forms.find(node.op)
        if rule is None:
            results: tuple[Part, ...] = _run_twice(body, node, operands)
        else:
            check_count(rule, len(operands))
            result = rule(*operands, **select_attrs(rule, node.attrs))
            results = result if isinstance(result, tuple) else (result,)
    flat = [t for r in results for t in ((r.real, r.imag) if isinstance(r, Complex) else (r,))]
    name = f"{node.name}/parts"
    function = Function(name, body.graph, [a.value for a in arguments], [t.value for t in flat])
    return function, [isinstance(r, Complex) for r in results]


def _run_twice(body: Body, node: Node, operands: Sequence[Part]) -> tuple[Complex, ...]:
    """A linear op of each of the parts; indices, axes and paddings are real and go into both."""
    attrs = {k: part_type(v) if isinstance(v, DType) and v.kind == "c" else v for k, v in node.attrs.items()}
    ports = max((v.port for v in node.outputs), default=0) + 1
    sides = [[x.real if isinstance(x, Complex) else x for x in operands],
             [x.imag if isinstance(x, Complex) else x for x in operands]]  # fmt: skip
    both = [body.add(node.op, [t.value for t in side], ports=ports, **attrs) for side in sides]
    return tuple(Complex(re, im) for re, im in zip(*both, strict=True))


# --- formulas -----------------------------------------------------------------------------------------------


@by_parts("Complex")
def complex_of(real: Term, imag: Term) -> Complex:
    if real.value.shape == imag.value.shape and real.value.shape is not None and None not in real.shape:
        return Complex(real, imag)
    if imag.is_all(0) and imag.shape == () and None not in real.shape:
        # Known to be nothing, so that products with it are left out.
        return Complex(real, real.of(np.zeros([n or 0 for n in real.shape])))
    # Shapes that differ, or are open, may broadcast: both parts get the common one.
    body = real.body
    sizes = body.add("BroadcastArgs", [real.sizes().value, imag.sizes().value], T=INT32)[0].value
    return Complex(real, imag).each(
        lambda t: body.add("BroadcastTo", [t.value, sizes], T=t.dtype, Tidx=INT32)[0]
    )


@by_parts("Real")
def real_part(x: Complex) -> Term:
    return x.real


@by_parts("Imag")
def imaginary_part(x: Complex) -> Term:
    return x.imag


@by_parts("ComplexAbs")
def magnitude(x: Complex) -> Term:
    """The distance from 0, scaled so that no square overflows."""
    re, im = x.real.abs(), x.imag.abs()
    most = re.maximum(im)
    # |z| = m sqrt((re/m)² + (im/m)²) with m the larger part: no square is above 1. Eight times the least
    # normal number, as smaller ones may be taken for 0, keeps 0 / 0 out.
    by = most.maximum(8 * float(np.finfo(most.dtype.numpy()).tiny))
    size = by * ((re / by).square() + (im / by).square()).sqrt()
    # The scaled parts of an infinity are NaN.
    return where(most.equal(math.inf), most, size)


@by_parts("Angle")
def angle(x: Complex) -> Term:
    return x.imag.apply("Atan2", x.real, _of_one_shape=True)


@by_parts("Conj")
def conjugate(x: Complex) -> Complex:
    return x.conjugate()


@by_parts("ConjugateTranspose")
def conjugate_transpose(x: Complex, order: Term) -> Complex:
    return x.conjugate().each(
        lambda t: t.body.add("Transpose", [t.value, order.value], T=t.dtype, Tperm=order.dtype)[0]
    )


@by_parts("Mul")
def product(x: Complex, y: Complex) -> Complex:
    return x * y


@by_parts("Square")
def square(x: Complex) -> Complex:
    return x * x


@by_parts("RealDiv", "Div")
def quotient(x: Complex, y: Complex) -> Complex:
    """z / w = z conj(w) / |w|², by Smith's method as NumPy.

    Divided by the larger part of the divisor above and below, so that no square overflows or vanishes.
    """
    if y.imag.is_all(0):
        return x.each(lambda t: t / y.real)
    is_real = y.real.abs() >= y.imag.abs()
    larger, smaller = where(is_real, y.real, y.imag), where(is_real, y.imag, y.real)
    # With r = smaller / larger the quotient is (p + q r) / size and (q - p r) / size. Where the imaginary
    # part is larger, p and q change places, and the second part changes its sign.
    share = where(larger.equal(0.0), larger, smaller / larger)
    size = larger + smaller * share
    p, q = where(is_real, x.real, x.imag), where(is_real, x.imag, x.real)
    cross = q - p * share
    return Complex((p + q * share) / size, where(is_real, cross, -cross) / size)


@by_parts("Exp")
def exponential(x: Complex) -> Complex:
    """exp(x + iy) = exp(x) (cos y + i sin y)."""
    size = x.real.apply("Exp")
    return Complex(size * x.imag.apply("Cos"), size * x.imag.apply("Sin"))


@by_parts("MatMul")
def matmul(x: Complex, y: Complex, *, transpose_a: bool = False, transpose_b: bool = False) -> Complex:
    return _matrix_product(x, y, transpose_a=transpose_a, transpose_b=transpose_b)


@by_parts("BatchMatMul", "BatchMatMulV2")
def batch_matmul(x: Complex, y: Complex, *, adj_x: bool = False, adj_y: bool = False) -> Complex:
    x, y = x.conjugate() if adj_x else x, y.conjugate() if adj_y else y
    return _matrix_product(x, y, adj_x=adj_x, adj_y=adj_y)


@by_parts("Einsum")
def einsum(*operands: Complex, equation: str = "") -> Complex:
    """Operand by operand, as each sum of products is linear in each of them."""

    def summed(terms: Sequence[Term]) -> Term:
        return terms[0].apply("Einsum", *terms[1:], N=len(terms), equation=equation.encode())

    sums: dict[bool, Term] = {}
    for turns in range(1 << len(operands)):
        chosen = [bool(turns >> n & 1) for n in range(len(operands))]
        if any(c and x.imag.is_all(0) for c, x in zip(chosen, operands, strict=True)):
            continue
        # i ** 2 is -1: every second imaginary part turns the sign.
        y = summed([x.imag if c else x.real for c, x in zip(chosen, operands, strict=True)])
        count = sum(chosen)
        y = -y if count % 4 in (2, 3) else y
        is_imag = bool(count % 2)
        sums[is_imag] = sums[is_imag] + y if is_imag in sums else y
    real = sums[False]
    return Complex(real, sums[True] if True in sums else real * 0.0)


def _matrix_product(x: Complex, y: Complex, **flags: bool) -> Complex:
    def times(a: Term, b: Term) -> Term:
        return a.apply(a.body.op, b, **flags)

    return Complex(
        times(x.real, y.real) - times(x.imag, y.imag), times(x.real, y.imag) + times(x.imag, y.real)
    )


@by_parts("Cast")
def cast(x: Part) -> Part:
    """From complex the imaginary part is dropped; to complex it is 0."""
    node = x.body.node
    assert node is not None
    to = node.attrs["DstT"]
    assert isinstance(to, DType)
    if isinstance(x, Complex):
        return x.each(lambda t: t.cast(part_type(to))) if to.kind == "c" else x.real.cast(to)
    real = x.cast(part_type(to))
    return Complex(real, real.of(0) if real.shape == () else real.apply("ZerosLike"))
