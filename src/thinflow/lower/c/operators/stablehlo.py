"""The few operators of StableHLO that LiteRT has kernels for, and what came with them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.broadcasting import broadcast
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.copies import copy, row_major
from thinflow.lower.c.forms import form
from thinflow.lower.c.settle import C_TYPES
from thinflow.tflite.model import Operator

_MOST_DIMENSIONS = 6
_TOGETHER = {
    "ADD": "({t})(({u})a + ({u})b)",
    "MUL": "({t})(({u})a * ({u})b)",
    "MINIMUM": "a <= b ? a : b",
    "MAXIMUM": "a >= b ? a : b",
    "ALL": "a && b",
    "ANY": "a || b",
    "AND": "a & b",
    "SHIFT_LEFT": "({t})(({u})a << ({u})b)",
}
_CODES = {
    "STABLEHLO_ADD": "ADD",
    "STABLEHLO_MULTIPLY": "MUL",
    "STABLEHLO_MAXIMUM": "MAXIMUM",
    "STABLEHLO_MINIMUM": "MINIMUM",
    "STABLEHLO_AND": "AND",
    "STABLEHLO_SHIFT_LEFT": "SHIFT_LEFT",
}


def _expression(function: str, kind: str) -> str:
    """Two numbers as they are stored, together; whole numbers wrap, for which they lose their sign."""
    # What is shorter than an int becomes one, which holds all sums and products of two.
    unsigned = {"int32": "uint32_t", "int64": "uint64_t", "int8": "uint32_t", "int16": "uint32_t"}
    return _TOGETHER[function].format(t=C_TYPES[kind], u=unsigned.get(kind, C_TYPES[kind]))


@form(*(c for c in _CODES if c not in ("STABLEHLO_AND", "STABLEHLO_SHIFT_LEFT")), types="float")
@form(*_CODES, types="int8 int16 int32")
@form(*(c for c in _CODES if c != "STABLEHLO_SHIFT_LEFT"), types="int64")
def together(b: LayerBuilder, op: Operator) -> None:
    """Two inputs of one size, element by element, whatever their scales."""
    kind, function = b.input(0).dtype.name, _CODES[op.code]
    words = {"op": f"stablehlo_{function.lower()}", "y_type": C_TYPES[kind], "what": function.lower()}
    b.in_place()
    expression = _expression(function, kind)
    b.call(
        "binary", b.input(0), b.input(1), b.output(), broadcast(b), type=kind, expression=expression, **words
    )


@form("STABLEHLO_AND", types="bool")
def both(b: LayerBuilder, op: Operator) -> None:
    """Whether both are true."""
    words = {"op": "logical_and", "y_type": "bool", "what": "a && b", "expression": "a && b"}
    b.call("binary", b.input(0), b.input(1), b.output(), broadcast(b), type="bool", **words)


@form("STABLEHLO_PAD", types="float int8 uint8 int16 int32 int64 bool")
def padded(b: LayerBuilder, op: Operator) -> None:
    """x with a value around it and between its elements; less of it where pads are negative."""
    x, y = b.input(0), b.output()
    value = b.array(1).reshape(-1)[0].item()
    kind = x.dtype.name
    b.call("fill", y, b.size(y), float(value) if kind == "float" else int(value), type=kind)
    shape, steps = b.shape(x), row_major(b.shape(x))
    counts, starts, strides = [], [], []
    sizes = (_numbers(op, f"{what}_padding{end}", len(shape)) for what, end in _PADS)
    out = row_major(b.shape(y))
    at = 0
    for n, step, wide, low, high, between in zip(shape, steps, out, *sizes, strict=True):
        gap = between + 1
        # Of those that negative pads cut off none is left; the first that is left may lie further in.
        first, last = max(-(low // gap), 0), n - 1 - max(-(high // gap), 0)
        counts.append(max(last - first + 1, 0))
        starts.append(first * step)
        strides.append(gap * wide)
        at += (low + first * gap) * wide
    if all(counts):
        copy(b, x, y, counts, steps, strides, x_start=sum(starts), y_start=at)


_PADS = (("edge", "_low"), ("edge", "_high"), ("interior", ""))


def _numbers(op: Operator, name: str, rank: int) -> Sequence[int]:
    found = op.options.get(name)
    numbers = [] if found is None else [int(n) for n in found]
    if len(numbers) != rank:
        raise UnsupportedOp(f"it has {len(numbers)} pads for {rank} dimensions")
    return numbers


@form("REDUCE_WINDOW", types="float int8 uint8 int16 int32 int64 bool")
def reduce_window(b: LayerBuilder, op: Operator) -> None:
    """x, a first value, and sizes, strides and dilations of a window -> y, whatever the scales."""
    x, y, shape = b.input(0), b.output(), b.shape(b.input(0))
    if len(shape) > _MOST_DIMENSIONS:
        raise UnsupportedOp(f"it goes along {len(shape)} dimensions, more than {_MOST_DIMENSIONS}")
    function, kind = str(op.options.get("reduce_function", "UNSUPPORTED")), x.dtype.name
    is_logic = function in ("ALL", "ANY")
    if function not in _TOGETHER or (is_logic != (kind == "bool") and kind == "bool"):
        raise UnsupportedOp(f"its function is {function}, of {kind}")
    window, strides, dilations = ([int(n) for n in b.array(n).reshape(-1)] for n in (2, 3, 4))
    steps = row_major(shape)
    settings = b.struct(
        "",
        rank=len(shape),
        count=b.size(y),
        taps=math.prod(window),
        out=b.shape(y),
        stride=tuple(s * n for s, n in zip(steps, strides, strict=True)),
        window=tuple(window),
        dilation=tuple(s * n for s, n in zip(steps, dilations, strict=True)),
    )
    words = {"op": function.lower(), "what": function.lower(), "expression": _expression(function, kind)}
    b.call("reduce_window", x, b.input(1), y, settings, type=kind, **words)
