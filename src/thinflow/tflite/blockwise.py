"""Weights with a scale for each block of elements in a row, read as real numbers: scales here are by channel.

real[.., i] = scales[.., i // block] * codes[.., i]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.errors import FormatError
from thinflow.ir.types import FLOAT
from thinflow.tflite.model import Tensor
from thinflow.typing import Array
from thinflow.wire.flatbuffer import Table

DETAILS = 2
"""The type of such parameters in the schema's union of details."""
LOSS = "the scales of blocks, whose weights are read as float32"
"""What is said of a file with such weights."""


@dataclass(frozen=True)
class Blocks:
    """Where the scales of a tensor are.

    Attributes:
        scales: the index of the tensor that has them.
        zero_points: likewise; 0 or less: there are none.
        size: elements with one scale.
    """

    scales: int
    zero_points: int
    size: int


def read_blocks(table: Table) -> Blocks:
    """The parameters, of a table with the slots scales, zero points, size of a block."""
    return Blocks(table.scalar(0, "i32"), table.scalar(1, "i32"), table.scalar(2, "i32"))


def spread(tensor: Tensor, blocks: Blocks, tensors: list[Tensor]) -> None:
    """Put the real numbers of a constant's codes [.., n] in their place, float32.

    Raises:
        FormatError: the scales are missing, or not one for each block.
    """
    where = f"tensor '{tensor.name}'"
    codes = _constant(tensor)
    if codes is None:
        raise FormatError(f"{where} has scales for blocks, and is no constant")
    if blocks.zero_points > 0:
        raise FormatError(f"{where} has zero points for its blocks, which are not supported")
    scales = _constant(tensors[blocks.scales]) if 0 <= blocks.scales < len(tensors) else None
    fits = blocks.size > 0 and codes.ndim > 0 and codes.shape[-1] % blocks.size == 0
    if scales is None or not fits or scales.size != codes.size // blocks.size or scales.dtype.kind != "f":
        raise FormatError(f"{where} has no scale for each block of {blocks.size} elements")
    rows = codes.reshape(-1, blocks.size).astype(np.float32) * scales.reshape(-1, 1).astype(np.float32)
    tensor.data = rows.reshape(codes.shape)
    tensor.dtype, tensor.quantization = FLOAT, None


def _constant(tensor: Tensor) -> Array | None:
    """The array of a constant with numbers; None of any other tensor."""
    array = None if tensor.data is None else tensor.array()
    return None if array is None or array.dtype.kind in "OSU" else array
