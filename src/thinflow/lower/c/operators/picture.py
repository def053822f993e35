"""Pictures as bytes that become the numbers a network takes; see `lower.c.pictures`."""

from __future__ import annotations

import numpy as np

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import NOTHING, Argument
from thinflow.lower.c.operators.arithmetic import rounded
from thinflow.lower.c.operators.resize import between_pixels, in_fixed_point
from thinflow.lower.c.pictures import (
    MOST_STEPS,
    MOST_TABLES,
    NORMALISING,
    PICTURE,
    RESIZING,
    STORING,
    parts_of,
)
from thinflow.lower.c.requantize import LIMITS
from thinflow.lower.c.settle import C_TYPES
from thinflow.tflite.model import Operator
from thinflow.typing import Array

_COMPUTED = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "DIV": np.divide}
_SIGNS = {"ADD": "+", "SUB": "-", "MUL": "*", "DIV": "/"}


@form(PICTURE, types="int8 uint8")
def picture(b: LayerBuilder, op: Operator) -> None:
    """x [..., channels] of bytes -> y, of another size if it is resized."""
    first, *others = parts_of(op)
    x, y, channels = b.input(0), b.output(), b.shape(b.output())[-1]
    if (tables := _tables(b, [first, *others])) is not None:
        # A function of bytes needs no reals while it runs.
        if others[-1].code == RESIZING:
            sizes = {**in_fixed_point(b, others[-1]), "step": 256 * (len(tables) > 1)}
            numbers = b.constant("tables", tables.view(np.int8))
            b.call("resize_bilinear_table", x, y, numbers, b.struct("", **sizes), type=x.dtype.name)
        elif len(tables) == 1:
            b.call("lookup", x, y, b.constant("table", tables), b.size(y))
        else:
            b.call("lookup_channels", x, y, b.constant("tables", tables), b.size(y), channels)
        return
    values: list[Argument] = []
    steps: list[int] = []
    members: dict[str, Argument] = {
        "in_scale": 1.0,
        "in_zero_point": 0,
        "out_scale": 1.0,
        "out_zero_point": 0,
    }
    text, read, resize = "(float)x", "", None
    if first.code == "DEQUANTIZE":
        scale, members["in_zero_point"] = b.scale(x)
        members["in_scale"] = float(scale)
        text = "s->in_scale * (float)(x - s->in_zero_point)"
    for part in others:
        if part.code in NORMALISING:
            constant = next(t for t in part.reads() if t.is_constant)
            operand = f"s->value_{len(values)}[c * s->step[{len(values)}]]"
            sides = (operand, text) if part.inputs[0] is constant else (text, operand)
            text = f"({sides[0]} {_SIGNS[part.code]} {sides[1]})"
            values.append(b.constant(part.code.lower(), constant.array(), "float32"))
            steps.append(int(constant.array().size > 1))
        elif part.code == RESIZING:
            read, text, resize = text, "x", part
    # Without another size all that is computed is part of the reading.
    read, text = (text, "x") if resize is None else (read, text)
    store = f"return {text};"
    if others[-1].code == STORING:
        scale, members["out_zero_point"] = b.scale(y)
        members["out_scale"] = float(scale)
        store = _stored(b, text)
    words = {
        "type": x.dtype.name,
        "op": "_".join(p.code.lower() for p in (first, *others)) + f"_{y.dtype.name}",
        "y_type": C_TYPES[y.dtype.name],
        "read": read,
        "store": store,
    }
    members |= {f"value_{n}": values[n] if n < len(values) else NOTHING for n in range(MOST_STEPS)}
    members["step"] = tuple(steps + [0] * (MOST_STEPS - len(steps)))
    settings = b.struct(f"picture_steps_{words['type']}_{words['op']}_t", **members)
    if resize is None:
        sizes = {"count": b.size(y), "channels": channels}
        b.call("picture_pixels", x, y, b.struct("", **sizes, steps=settings), **words)
        return
    b.call("picture_resized", x, y, b.struct("", **between_pixels(b, resize), steps=settings), **words)


def _tables(b: LayerBuilder, parts: list[Operator]) -> Array | None:
    """uint8 [1 or channels, 256]: the bits that are made of the bits of a byte; None if it takes more."""
    # Bytes that are resized afterwards are bytes before.
    *others, last = parts[1:-1] if parts[-1].code == RESIZING and parts[-2].code == STORING else parts[1:]
    first, x, y = parts[0], b.input(0), last.outputs[0]
    if last.code != STORING or y.dtype.itemsize != 1 or any(p.code == RESIZING for p in others):
        return None
    reals = np.arange(256, dtype=np.uint8).view(x.dtype.numpy()).astype(np.float32)[None]
    if first.code == "DEQUANTIZE":
        scale, zero = b.scale(x)
        reals = scale * (reals - np.float32(zero))
    for part in others:
        array = next(t for t in part.reads() if t.is_constant).array().reshape(-1, 1)
        is_first = part.inputs[0] is not None and part.inputs[0].is_constant
        reals = _COMPUTED[part.code](*((array, reals) if is_first else (reals, array)))
    if len(reals) > MOST_TABLES:
        return None
    scale, zero = b.scale(y)
    if b.rounding == "litert":
        exact = reals / scale
        # Halves away from zero, of a float: a half that was added could be lost in its last bit.
        whole = np.trunc(exact)
        whole += np.sign(exact) * (np.abs(exact - whole) >= np.float32(0.5))
    else:
        whole = np.rint(reals * (np.float32(1) / scale))
    least, most = LIMITS[y.dtype.name]
    made: Array = (np.clip(whole, least - zero, most - zero) + zero).astype(y.dtype.numpy())
    return made.view(np.uint8)


def _stored(b: LayerBuilder, text: str) -> str:
    """Statements that bring a real to the scale of the output, as the layer QUANTIZE has it."""
    least, most = LIMITS[b.output().dtype.name]
    ends = [f"(float)({end} - s->out_zero_point)" for end in (least, most)]
    lines = [
        f"float value = {rounded(b, text, 's->out_scale')};",
        f"value = value < {ends[0]} ? {ends[0]} : value;",
        f"value = value > {ends[1]} ? {ends[1]} : value;",
        f"return ({C_TYPES[b.output().dtype.name]})((int32_t)value + s->out_zero_point);",
    ]
    return "\n    ".join(lines)
