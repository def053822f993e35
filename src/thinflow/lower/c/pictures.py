"""The front end of networks of pictures: bytes become numbers, of another size and normalised, in one layer.

    CAST, RESIZE_BILINEAR, SUB, MUL, QUANTIZE  ->  PICTURE, an operator that only C has
    CAST, SUB, MUL, QUANTIZE, RESIZE_BILINEAR  ->  the same

Step by step each picture between is one of reals, four bytes for each that comes in, and often more than all
that follows. In one layer no picture is between, and answers are the same to the last bit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from thinflow.lower.c.options import Options
from thinflow.lower.c.reach import Reach, Reaches, by_rows, sizes
from thinflow.tflite.model import Operator, Subgraph, Tensor

PICTURE = "PICTURE"
READING = ("CAST", "DEQUANTIZE")
NORMALISING = ("ADD", "SUB", "MUL", "DIV")
RESIZING, STORING = "RESIZE_BILINEAR", "QUANTIZE"
MOST_STEPS = 6
"""Constants that a picture is normalised by; as many as the kernels' struct has."""

MOST_TABLES = 4
"""Of 256 bytes, one for each channel, where bytes are made of bytes."""


def fuse_pictures(block: Subgraph, options: Options) -> None:
    """Make one operator of what bytes that come in go through, pixel by pixel, until they are numbers.

    Args:
        block: sizes known; changed.
        options: nothing is done where all values are to be kept.
    """
    if options.keep_all:
        return
    readers: dict[Tensor, list[Operator]] = defaultdict(list)
    for operator in block.operators:
        for tensor in operator.reads():
            readers[tensor].append(operator)
    for first in list(block.operators):
        x = first.inputs[0] if first.inputs else None
        if first.code in READING and x in block.inputs and _is_byte(x) and _is_real(first.outputs[0]):
            parts = [first, *_steps(first, readers, block, options)]
            if len(parts) > 1:
                fused = Operator(PICTURE, [x], parts[-1].outputs, {"parts": parts})
                block.operators[block.operators.index(parts[-1])] = fused
                gone = {id(part) for part in parts}
                block.operators = [o for o in block.operators if id(o) not in gone]


def _steps(
    first: Operator, readers: dict[Tensor, list[Operator]], block: Subgraph, options: Options
) -> Iterator[Operator]:
    """What follows the first step, as far as it goes pixel by pixel and nobody looks at what is between."""
    at, is_resized, count = first, False, 0
    while True:
        y = at.outputs[0]
        if y in block.outputs or len(readers[y]) != 1:
            return
        is_stored, at = at.code == STORING, readers[y][0]
        if is_stored:
            # Tables say what its pixels are before they are brought to another size.
            if not is_resized and _is_resized_bytes(at, y, options):
                yield at
            return
        count += at.code in NORMALISING
        if at.code == RESIZING:
            if is_resized:
                return
            is_resized = True
        elif at.code == STORING:
            # XNNPACK adds up the four pixels in another order, and a last bit of them is a step here.
            if (is_resized and options.rounding != "litert") or at.outputs[0].dtype.itemsize > 2:
                return
        elif at.code not in NORMALISING or count > MOST_STEPS or not _is_by_channel(at, y):
            return
        yield at


def _is_resized_bytes(operator: Operator, x: Tensor, options: Options) -> bool:
    """Whether bytes are resized in integers, as LiteRT's reference kernel does it."""
    before, after = x.quantization, operator.outputs[0].quantization
    if operator.code != RESIZING or before is None or after is None or before.grid != after.grid:
        return False
    return x.dtype.name == "int8" and sizes(x)[-1] <= MOST_TABLES and options.rounding == "litert"


def _is_by_channel(operator: Operator, x: Tensor) -> bool:
    """Whether a constant of one number, or one for each channel, is all that is read beside x."""
    if operator.options.get("fused_activation_function", "NONE") != "NONE":
        return False
    other = next((t for t in operator.reads() if t is not x), None)
    if other is None or not other.is_constant or sizes(operator.outputs[0]) != sizes(x):
        return False
    return other.array().size in (1, sizes(other)[-1] if sizes(other) else 1)


def _is_byte(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype.name in ("int8", "uint8")


def _is_real(tensor: Tensor) -> bool:
    return tensor.dtype.name == "float"


def parts_of(operator: Operator) -> list[Operator]:
    """The operators that LiteRT knows of a picture's, from its input to its output."""
    parts: list[Operator] = operator.options["parts"]
    made: list[Operator] = []
    x, old = operator.inputs[0], parts[0].inputs[0]
    for part in parts:
        y = operator.outputs[0]
        if part is not parts[-1]:
            y = replace(part.outputs[0], name=f"{y.name}/{part.outputs[0].name}")
        made.append(replace(part, inputs=[x if t is old else t for t in part.inputs], outputs=[y]))
        x, old = y, part.outputs[0]
    return made


@by_rows(PICTURE)
def _reach(operator: Operator) -> Reaches:
    is_resized = any(part.code == RESIZING for part in operator.options["parts"])
    return None if is_resized else {0: Reach()}
