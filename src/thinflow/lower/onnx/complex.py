"""Complex numbers, which ONNX Runtime does not compute with: their real and imaginary parts side by side.

Inside of a program a complex value is two tensors. Where it goes in or out it is one with a last axis of two,
as ONNX's own DFT has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import DOUBLE, FLOAT, DType, dtype
from thinflow.lower import rules
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.onnx.program import Tensor
from thinflow.ops._failures import in_words


@dataclass(frozen=True, eq=False)
class Complex:
    """A complex tensor.

    Attributes:
        real, imag: of one shape and type.
    """

    real: Tensor
    imag: Tensor

    # What the walk over the graph asks of tensors.
    is_constant = False

    @property
    def dtype(self) -> DType:
        return dtype("complex128" if self.real.dtype is DOUBLE else "complex64")

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        return self.real.shape


Part: TypeAlias = "Tensor | Complex"


def part_type(element: DType) -> DType:
    """The type of the parts of a complex type."""
    return DOUBLE if element.name == "complex128" else FLOAT


def taken_apart(b: Builder, value: Value, slot: Any) -> Any:
    """A complex value that came in as [...,2], as two tensors; anything else as it is."""
    if not isinstance(slot, Tensor) or slot.is_constant or slot not in b.pairs:
        return slot
    b.begin(value.node)
    rank = len(shape_of(slot)) - 1
    pair = Term(b, slot)
    # Gather by a number takes the axis away.
    return Complex(*(pair.gathered(b.int64(n), rank).tensor for n in (0, 1)))


def put_together(b: Builder, value: Value, slot: Any) -> Any:
    """A complex value as a tensor [...,2] with its name; anything else as it is."""
    if isinstance(slot, Tensor) and slot.is_constant and slot.dtype.kind == "c":
        slot = parts_of(b, slot)
    if not isinstance(slot, Complex):
        return slot
    rank = len(shape_of(slot.real, "a complex output"))
    columns = [b.unsqueezed(t, [rank]) for t in (slot.real, slot.imag)]
    shape = (*shape_of(slot.real), 2)
    pair = b.step("Concat", *columns, shape=shape, axis=rank)
    pair.name = b.unique(value.name)
    return pair


def parts_of(b: Builder, slot: Part) -> Complex:
    """A complex value, also a constant or a real one, as its parts."""
    if isinstance(slot, Complex):
        return slot
    if slot.dtype.kind == "c":
        require(slot.is_constant, "its operand has no ONNX form")
        array, element = slot.array(), part_type(slot.dtype)
        return Complex(
            b.const(array.real.copy(), "real", element), b.const(array.imag.copy(), "imag", element)
        )
    return Complex(slot, b.filled(b.sizes_of(slot), 0, slot.dtype, shape=slot.shape))


_LINEAR = frozenset(
    """Add AddN AddV2 AccumulateNV2 BroadcastTo Concat ConcatV2 DynamicPartition ExpandDims Gather GatherNd
    GatherV2 Identity Mean MirrorPad Neg Pack Pad PadV2 ParallelConcat Reshape Reverse ReverseV2 Roll Select
    SelectV2 Slice Snapshot Split SplitV Squeeze StopGradient StridedSlice Sub Sum Tile Transpose Unpack
    ZerosLike""".split()  # noqa: SIM905
)
"""Ops that treat the parts of complex numbers alike, each by itself."""


def is_complex(node: Node, tensors: Mapping[Value, Any]) -> bool:
    """Whether a node has to do with complex numbers."""
    inputs = [tensors.get(v) for v in node.inputs]
    if any(isinstance(t, Complex) or (isinstance(t, Tensor) and t.dtype.kind == "c") for t in inputs):
        return True
    return node.op in ("Complex", "RFFT", "RFFT2D", "RFFT3D", "Cast") and any(
        v.dtype is not None and v.dtype.kind == "c" for v in node.outputs
    )


def lower_complex(b: Builder, node: Node, inputs: Sequence[Part]) -> tuple[Any, ...]:
    """The tensors, or pairs of them, that stand for the outputs of such a node.

    Raises:
        UnsupportedOp: there is no form for it.
    """
    plain = rules.find(node.op, "onnx")  # which also loads the rules of other modules
    rule = _RULES.get(node.op)
    if rule is not None:
        try:
            result = rule(b, node, *inputs)
        except TypeError as error:
            raise UnsupportedOp(f"the node is not well formed ({in_words(error)})", node.where) from error
        return result if isinstance(result, tuple) else (result,)
    if node.op not in _LINEAR:
        raise UnsupportedOp(f"ONNX has no form of {node.op} of complex numbers", node.where)
    if plain is None:  # it hands its input on
        return (inputs[0],)
    # Rules of real numbers are run twice; each of the outputs is then one part, not a pair.
    with b.parts():
        both = [rules.apply(plain, b, node, [_one(b, x, name) for x in inputs]) for name in ("real", "imag")]
    return tuple(Complex(re, im) for re, im in zip(*both, strict=True))


def _one(b: Builder, slot: Part, name: str) -> Tensor:
    """A part of an operand; one that is not complex goes into both as it is."""
    if isinstance(slot, Tensor) and slot.dtype.kind != "c":
        return slot
    found: Tensor = getattr(parts_of(b, slot), name)
    return found


def _terms(b: Builder, slot: Part) -> tuple[Term, Term]:
    found = parts_of(b, slot)
    return Term(b, found.real), Term(b, found.imag)


def _made(b: Builder, node: Node, real: Part, imag: Part) -> Complex:
    require(isinstance(real, Tensor) and isinstance(imag, Tensor), "its parts are complex themselves")
    assert isinstance(real, Tensor)
    assert isinstance(imag, Tensor)
    if real.shape == imag.shape and real.shape is not None and None not in real.shape:
        return Complex(real, imag)
    # Expand broadcasts both ways: to the other's sizes and its own.
    sizes = [b.sizes_of(t) for t in (imag, real)]  # each is spread over the other
    shape = b.result_spec().shape
    return Complex(*(b.step("Expand", t, s, shape=shape) for t, s in zip((real, imag), sizes, strict=True)))


def _part(b: Builder, node: Node, x: Part) -> Tensor:
    """The real or the imaginary part."""
    found = parts_of(b, x)
    return b.result(found.real if node.op == "Real" else found.imag)


def _size(b: Builder, node: Node, x: Part) -> Tensor:
    """The distance from 0, scaled so that no square overflows."""
    re, im = (t.magnitude() for t in _terms(b, x))
    # |z| = m sqrt((re/m)² + (im/m)²) with m the larger part: no square is above 1. For 0 the divisor is 1.
    most = re.most(im)
    by = most.equals(0).cast(most.dtype) + most
    re, im = re / by, im / by
    size = most * (re * re + im * im).apply("Sqrt")
    # The scaled parts of an infinity are NaN.
    return b.result(choose(most.equals(math.inf), most, size).tensor)


def _angle(b: Builder, node: Node, x: Part) -> Tensor:
    from thinflow.lower.onnx.elementwise import angle

    re, im = _terms(b, x)
    return b.result(angle(b, im.tensor, re.tensor))


def _conjugate(b: Builder, node: Node, x: Part) -> Complex:
    re, im = _terms(b, x)
    return Complex(re.tensor, (-im).tensor)


def _product(b: Builder, node: Node, x: Part, y: Part) -> Complex:
    (a, c), (d, e) = _terms(b, x), _terms(b, y)
    # (a + ci)(d + ei), i² being -1.
    return Complex((a * d - c * e).tensor, (a * e + c * d).tensor)


def _square(b: Builder, node: Node, x: Part) -> Complex:
    return _product(b, node, x, x)


def _quotient(b: Builder, node: Node, x: Part, y: Part) -> Complex:
    (a, c), (d, e) = _terms(b, x), _terms(b, y)
    # (a + ci) / (d + ei) = (a + ci)(d - ei) / (d² + e²), by Smith's method as numpy: divided by the larger
    # part of the divisor above and below, so that no square overflows or vanishes.
    is_real = d.magnitude() >= e.magnitude()
    larger, smaller = choose(is_real, d, e), choose(is_real, e, d)
    share = choose(larger.equals(0), larger, smaller / larger)
    size = larger + smaller * share
    p, q = choose(is_real, a, c), choose(is_real, c, a)
    cross = q - p * share
    return Complex(((p + q * share) / size).tensor, (choose(is_real, cross, -cross) / size).tensor)


def _exponential(b: Builder, node: Node, x: Part) -> Complex:
    re, im = _terms(b, x)
    # exp(x + iy) = exp(x) (cos y + i sin y).
    size = re.apply("Exp")
    return Complex((size * im.apply("Cos")).tensor, (size * im.apply("Sin")).tensor)


def _matrix_product(b: Builder, node: Node, x: Part, y: Part) -> Complex:
    require(not any(node.get(k, False) for k in ("transpose_a", "transpose_b", "adj_x", "adj_y")),
            "a transposed complex product has no form")  # fmt: skip
    (a, c), (d, e) = _terms(b, x), _terms(b, y)
    shape = b.result_spec().shape

    def times(p: Term, q: Term) -> Term:
        return Term(b, b.step("MatMul", p.tensor, q.tensor, shape=shape))

    return Complex((times(a, d) - times(c, e)).tensor, (times(a, e) + times(c, d)).tensor)


def _conjugate_transpose(b: Builder, node: Node, x: Part, order: Tensor) -> Complex:
    axes = b.axes(order, len(shape_of(parts_of(b, x).real)), "the order of axes")
    re, im = _terms(b, x)
    return Complex(b.transposed(re.tensor, axes), b.transposed((-im).tensor, axes))


def _cast(b: Builder, node: Node, x: Part) -> Part:
    """From complex the imaginary part is dropped; to complex it is 0."""
    wanted = b.result_spec().dtype
    require(wanted is not None, "its type is not known")
    assert wanted is not None
    found = parts_of(b, x if isinstance(x, Complex) or x.dtype.kind == "c" else b.cast(x, part_type(wanted)))
    if wanted.kind != "c":
        return b.cast(found.real, wanted)
    element = part_type(wanted)
    return Complex(b.cast(found.real, element), b.cast(found.imag, element))


_Rule = Callable[..., Any]
_RULES: dict[str, _Rule] = {
    "Complex": _made,
    "Real": _part,
    "Imag": _part,
    "ComplexAbs": _size,
    "Angle": _angle,
    "Conj": _conjugate,
    "ConjugateTranspose": _conjugate_transpose,
    "Mul": _product,
    "Square": _square,
    "RealDiv": _quotient,
    "Div": _quotient,
    "Exp": _exponential,
    "MatMul": _matrix_product,
    "BatchMatMul": _matrix_product,
    "BatchMatMulV2": _matrix_product,
    "Cast": _cast,
}


def complex_rule(*names: str) -> Callable[[_Rule], _Rule]:
    """Function decorator: the form of ops of complex numbers."""

    def register(rule: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return register
