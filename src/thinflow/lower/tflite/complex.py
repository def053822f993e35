"""Complex numbers as their real and imaginary parts, where LiteRT's own operators do not go on.

LiteRT makes complex numbers with RFFT2D, takes them apart, and does nothing else with them. So whatever else
is computed with them is computed with two tensors of real numbers, which never leave the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from thinflow.errors import ShapeError, UnsupportedOp
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import FLOAT, DType, dtype
from thinflow.lower import rules
from thinflow.lower.tflite.builder import Builder, Dims, require
from thinflow.lower.tflite.program import Tensor
from thinflow.ops._failures import in_words
from thinflow.ops._shapes import broadcast


@dataclass(frozen=True, eq=False)
class Complex:
    """A complex tensor: both parts are float tensors of one shape."""

    real: Tensor
    imag: Tensor

    # What the walk over the graph asks of tensors.
    is_constant = False
    quantization = None

    @property
    def dtype(self) -> DType:
        return dtype("complex64")

    @property
    def shape(self) -> Dims:
        return self.real.shape

    def stored(self, b: Builder, value: Value) -> Tensor:
        raise UnsupportedOp("LiteRT cannot hand out complex numbers that it has computed with")


Part: TypeAlias = "Tensor | Complex"

_LINEAR = frozenset(
    """Add AddV2 Concat ConcatV2 ExpandDims Gather GatherNd GatherV2 Mean MirrorPad Neg Pack Pad Reshape
    Reverse ReverseV2 Slice Split SplitV Squeeze StridedSlice Sub Sum Tile Transpose Unpack ZerosLike
    Identity StopGradient Snapshot EnsureShape""".split()  # noqa: SIM905
)
"""Ops that treat the parts of complex numbers alike, each by itself."""


def is_complex(node: Node, tensors: Mapping[Value, Any]) -> bool:
    """True if a node has to do with complex numbers."""
    inputs = [tensors.get(v) for v in node.inputs]
    if any(isinstance(t, (Complex, Tensor)) and t.dtype.kind == "c" for t in inputs):
        return True
    return any(v.dtype is not None and v.dtype.kind == "c" for v in node.outputs)


def has_form(node: Node) -> bool:
    """True if there may be a form of this op for complex numbers."""
    rules.find(node.op, "tflite")  # which loads the rules of other modules
    return node.op in _LINEAR or node.op in _RULES


def lower_complex(b: Builder, node: Node, inputs: Sequence[Part]) -> tuple[Any, ...]:
    """The outputs of such a node, as parts or as LiteRT's own tensors.

    Raises:
        UnsupportedOp: there is no form for it.
    """
    plain = rules.find(node.op, "tflite")
    rule = _RULES.get(node.op)
    if rule is not None:
        try:
            result = rule(b, node, *inputs)
        except TypeError as error:
            raise UnsupportedOp(f"the node is not well formed ({in_words(error)})", node.where) from error
        return result if isinstance(result, tuple) else (result,)
    require(node.op in _LINEAR, f"LiteRT has no form of {node.op} of complex numbers")
    if plain is None:  # it hands its input on
        return (inputs[0],)
    with b.parts():
        # The same rule twice: indices, axes and paddings are real and go into both.
        both = [rules.apply(plain, b, node, [_one(b, x, name) for x in inputs]) for name in ("real", "imag")]
    return tuple(Complex(re, im) for re, im in zip(*both, strict=True))


def parts_of(b: Builder, slot: Part) -> Complex:
    """A complex value, also a constant, one of LiteRT's own or a real one, as its parts."""
    if isinstance(slot, Complex):
        return slot
    if slot.dtype.kind != "c":
        require(slot.dtype is FLOAT, f"it is computed with {slot.dtype}")
        # A scalar needs no operator; zeros for other shapes may depend on sizes that
        # are known when the model runs.
        return Complex(slot, b.const(np.float32(0), "imag", FLOAT) if slot.shape == () else _zeros(b, slot))
    require(slot.dtype.name == "complex64", f"LiteRT computes in float, not in the parts of {slot.dtype}")
    if slot.is_constant:
        array = np.asarray(slot.array())
        return Complex(b.const(array.real.copy(), "real", FLOAT), b.const(array.imag.copy(), "imag", FLOAT))
    both = (b.step(code, slot, shape=slot.shape, element=FLOAT) for code in ("REAL", "IMAG"))
    return Complex(*both)


def _zeros(b: Builder, x: Tensor) -> Tensor:
    return b.step("ZEROS_LIKE", x, shape=x.shape)


def _one(b: Builder, slot: Part, name: str) -> Tensor:
    """A part of an operand; one that is not complex goes into both as it is."""
    if isinstance(slot, Tensor) and slot.dtype.kind != "c":
        return slot
    found: Tensor = getattr(parts_of(b, slot), name)
    return found


def combined(b: Builder, code: str, x: Tensor, y: Tensor) -> Tensor:
    """Two tensors of real numbers element by element, spread over each other."""
    try:
        shape = None if None in (x.shape, y.shape) else broadcast(x.shape, y.shape)
    except ShapeError as error:
        raise UnsupportedOp(error.problem) from error
    return b.step(code, x, y, shape=shape)


def _alone(b: Builder, code: str, x: Tensor) -> Tensor:
    return b.step(code, x, shape=x.shape)


def _made(b: Builder, node: Node, real: Part, imag: Part) -> Complex:
    require(isinstance(real, Tensor) and isinstance(imag, Tensor), "its parts are complex themselves")
    assert isinstance(real, Tensor)
    assert isinstance(imag, Tensor)
    # Complex(...) broadcasts in TensorFlow; a pair of parts has one shape here.
    require(real.shape == imag.shape and real.shape is not None, "its parts differ in shape")
    return Complex(real, imag)


def _part(b: Builder, node: Node, x: Part) -> Tensor:
    """The real or the imaginary part."""
    found = parts_of(b, x)
    return found.real if node.op == "Real" else found.imag


def _size(b: Builder, node: Node, x: Part) -> Tensor:
    """The distance from 0, scaled so that no square overflows."""
    z = parts_of(b, x)
    re, im = _alone(b, "ABS", z.real), _alone(b, "ABS", z.imag)
    most = combined(b, "MAXIMUM", re, im)
    # The greater part is 1 after the division, so squares lie in 0 ... 1. 1e-37, near float32's least
    # normal number, keeps 0 / 0 out.
    by = combined(b, "MAXIMUM", most, b.const(np.float32(1e-37), "least", FLOAT))
    re, im = (combined(b, "DIV", t, by) for t in (re, im))
    total = combined(b, "ADD", combined(b, "MUL", re, re), combined(b, "MUL", im, im))
    return b.emit("MUL", by, _alone(b, "SQRT", total), like=most)


def _angle(b: Builder, node: Node, x: Part) -> Tensor:
    z = parts_of(b, x)
    return b.emit("ATAN2", z.imag, z.real, like=z.real)


def _conjugate(b: Builder, node: Node, x: Part) -> Complex:
    z = parts_of(b, x)
    return Complex(z.real, _alone(b, "NEG", z.imag))


def _product(b: Builder, node: Node, x: Part, y: Part) -> Complex:
    if not (_is_real(x) or _is_real(y)):
        return times(b, parts_of(b, x), parts_of(b, y))
    real, other = (x, y) if _is_real(x) else (y, x)
    factor = _one(b, real, "real")
    z = parts_of(b, other)
    return Complex(*(combined(b, "MUL", t, factor) for t in (z.real, z.imag)))


def _is_real(x: Part) -> bool:
    """True for a constant without an imaginary part: half of the products are left out then."""
    return (
        isinstance(x, Tensor)
        and x.is_constant
        and (x.dtype.kind != "c" or not np.asarray(x.array()).imag.any())
    )


def times(b: Builder, x: Complex, y: Complex) -> Complex:
    """The product of two complex numbers."""
    squares = [combined(b, "MUL", p, q) for p, q in ((x.real, y.real), (x.imag, y.imag))]
    mixed = [combined(b, "MUL", p, q) for p, q in ((x.real, y.imag), (x.imag, y.real))]
    return Complex(combined(b, "SUB", *squares), combined(b, "ADD", *mixed))


def _square(b: Builder, node: Node, x: Part) -> Complex:
    z = parts_of(b, x)
    return times(b, z, z)


def _quotient(b: Builder, node: Node, x: Part, y: Part) -> Complex:
    z = parts_of(b, x)
    if _is_real(y):
        divisor = _one(b, y, "real")
        return Complex(*(combined(b, "DIV", t, divisor) for t in (z.real, z.imag)))
    by = parts_of(b, y)
    # Both by the greater part of w, so that no square of it overflows or vanishes.
    most = combined(b, "MAXIMUM", *(_alone(b, "ABS", t) for t in (by.real, by.imag)))
    z, by = (Complex(*(combined(b, "DIV", t, most) for t in (c.real, c.imag))) for c in (z, by))
    # z / w = z conj(w) / |w|^2.
    turned = times(b, z, Complex(by.real, _alone(b, "NEG", by.imag)))
    squares = [combined(b, "MUL", t, t) for t in (by.real, by.imag)]
    size = combined(b, "ADD", *squares)
    return Complex(*(combined(b, "DIV", t, size) for t in (turned.real, turned.imag)))


def _exponential(b: Builder, node: Node, x: Part) -> Complex:
    z = parts_of(b, x)
    size = _alone(b, "EXP", z.real)
    return Complex(*(combined(b, "MUL", size, _alone(b, code, z.imag)) for code in ("COS", "SIN")))


def _cast(b: Builder, node: Node, x: Part) -> Part:
    """From complex the imaginary part is dropped; to complex it is 0."""
    wanted = b.result_spec().dtype
    require(wanted is not None, "its type is not known")
    if wanted is not None and wanted.kind != "c":
        return b.cast(parts_of(b, x).real, wanted)
    is_new = isinstance(x, Tensor) and x.dtype.kind != "c"
    return parts_of(b, b.cast(x, FLOAT) if is_new and isinstance(x, Tensor) else x)


_Rule = Callable[..., Any]
_RULES: dict[str, _Rule] = {
    "Complex": _made,
    "Real": _part,
    "Imag": _part,
    "ComplexAbs": _size,
    "Angle": _angle,
    "Conj": _conjugate,
    "Mul": _product,
    "Square": _square,
    "RealDiv": _quotient,
    "Div": _quotient,
    "Exp": _exponential,
    "Cast": _cast,
}


def complex_rule(*names: str) -> Callable[[_Rule], _Rule]:
    """Function decorator: the form of ops of complex numbers."""

    def register(rule: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return register
