"""Whole numbers, which count and name things: they have no scale."""

from __future__ import annotations

import re

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.broadcasting import broadcast
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.settle import C_TYPES
from thinflow.tflite.model import Operator

# By way of unsigned numbers, whose sums wrap: those with a sign must not leave their range in C. What LiteRT
# refuses while it runs, a division by 0, is 0.
_BOTH = {
    "ADD": "({t})(({u})a + ({u})b)",
    "SUB": "({t})(({u})a - ({u})b)",
    "MUL": "({t})(({u})a * ({u})b)",
    "SQUARED_DIFFERENCE": "({t})((({u})a - ({u})b) * (({u})a - ({u})b))",
    "DIV": "b == 0 ? 0 : a / b",
    "FLOOR_DIV": "b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0))",
    "FLOOR_MOD": "b == 0 ? 0 : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0)",
    "MAXIMUM": "a > b ? a : b",
    "MINIMUM": "a < b ? a : b",
    "BITWISE_XOR": "a ^ b",
    "RIGHT_SHIFT": "a >> ({negative}b > {last} ? {last} : b)",
}
_ONE = {
    "ABS": "x < 0 ? ({t})(0 - ({u})x) : x",
    "NEG": "({t})(0 - ({u})x)",
    "SQUARE": "({t})(({u})x * ({u})x)",
    "SIGN": "(x > 0) - (x < 0)",
    "RELU": "x < 0 ? 0 : x",
}
_UNSIGNED = {"int32": "uint32_t", "int64": "uint64_t"}


def _words(op: Operator, kind: str, expression: str) -> dict[str, str]:
    t = C_TYPES[kind]
    # Numbers are shifted by no more than they have bits, and by no less than nothing.
    last, negative = {"8": 7, "16": 15, "32": 31, "64": 63}[re.sub(r"\D", "", kind)], "b < 0 ? 0 : "
    if kind.startswith("u"):
        negative = ""
    text = expression.format(t=t, u=_UNSIGNED.get(kind, t), last=last, negative=negative)
    return {"type": kind, "op": op.code.lower(), "y_type": t, "what": op.code.lower(), "expression": text}


@form(*_BOTH, types="int32 int64")
def combined_integers(b: LayerBuilder, op: Operator) -> None:
    """Two inputs that are broadcast to the output."""
    activation = op.options.get("fused_activation_function", "NONE")
    if activation != "NONE":
        raise UnsupportedOp(f"the activation {activation} of whole numbers has no form in C")
    if b.shape(b.input(0)) == b.shape(b.output()):
        b.in_place()
    words = _words(op, b.input(0).dtype.name, _BOTH[op.code])
    b.call("binary", b.input(0), b.input(1), b.output(), broadcast(b), **words)


@form("BITWISE_XOR", "RIGHT_SHIFT", types="int8 uint8 int16 uint16 uint32")
@form("MUL", types="uint32")
def bits(b: LayerBuilder, op: Operator) -> None:
    """Bits of two inputs, and products without a sign."""
    combined_integers(b, op)


@form("FLOOR_DIV", "FLOOR_MOD", types="int8 int16")
def quotients(b: LayerBuilder, op: Operator) -> None:
    """Quotients and remainders of numbers without a scale."""
    if any(t.quantization is not None and len(t.quantization.scale) for t in op.reads()):
        raise UnsupportedOp("LiteRT's kernel for it ignores the scale")
    combined_integers(b, op)


@form("POW", types="int32")
def powers(b: LayerBuilder, op: Operator) -> None:
    """Whole numbers to the power of others, by way of real ones."""
    b.call("power_int32", b.input(0), b.input(1), b.output(), broadcast(b))


@form(*_ONE, types="int32 int64")
def mapped_integers(b: LayerBuilder, op: Operator) -> None:
    """A function of each."""
    b.in_place()
    words = _words(op, b.input(0).dtype.name, _ONE[op.code])
    b.call("map", b.input(0), b.output(), b.size(b.output()), **words)
