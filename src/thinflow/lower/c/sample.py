"""An input and the answer to it, for a test on the device.

What would take megabytes of source is not stored: large inputs come from a formula, the same here and there
to the last bit, and of large answers some numbers are compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from thinflow.tflite.model import Tensor
from thinflow.typing import Array

LITERT, INTERPRETER = "LiteRT", "thinflow's interpreter"
MOST = 1 << 16
"""Numbers of an input or of an answer that are stored."""
# Multipliers that mix the bits of a place well (Knuth's golden ratio, and one of Mueller's hash).
_GOLDEN, _MIXING = 2654435761, 0x45D9F3B
FORMULA = """/* Bits of a place in a large input. */
static uint32_t sample_bits(uint32_t place)
{
    uint32_t bits = place * 2654435761u;
    bits = (bits ^ (bits >> 16)) * 0x45d9f3bu;
    return bits ^ (bits >> 16);
}
"""


@dataclass
class Sample:
    """Arrays for each input, and for each output what the network is to answer.

    Attributes:
        by: who answers so.
    """

    inputs: list[Array]
    outputs: list[Array]
    by: str = LITERT


def is_large(tensor: Tensor) -> bool:
    """Whether a value has more numbers than are stored."""
    return math.prod(n or 1 for n in tensor.shape or ()) > MOST


def generated(tensor: Tensor, number: int) -> Array:
    """Numbers for a large input, by the formula: all codes there are, reals of -1 to 1, else 0 and 1.

    Args:
        tensor: the input.
        number: of it, among the inputs and outputs.
    """
    shape, kind = tuple(n or 1 for n in tensor.shape or ()), tensor.dtype.numpy()
    bits = np.arange(math.prod(shape), dtype=np.uint32) + np.uint32(number)
    bits *= np.uint32(_GOLDEN)
    bits = (bits ^ (bits >> np.uint32(16))) * np.uint32(_MIXING)
    bits ^= bits >> np.uint32(16)
    # The upper bits are mixed best.
    shift, offset, divisor = _scale(kind, is_code=tensor.quantization is not None)
    found = (bits >> np.uint32(shift)).astype(np.int64) - offset
    numbers: Array = (found / divisor if divisor else found).astype(kind).reshape(shape)
    return numbers


def generated_text(kind: np.dtype[np.generic], c_type: str, number: int, is_code: bool) -> str:
    """The formula for the place i in C."""
    shift, offset, divisor = _scale(kind, is_code=is_code)
    found = f"(int32_t)(sample_bits((uint32_t)i + {number}u) >> {shift})"
    found = f"({found} - {offset})" if offset else found
    return f"({c_type}){found}" + (f" / {divisor}.0f" if divisor else "")


def _scale(kind: np.dtype[np.generic], *, is_code: bool) -> tuple[int, int, int]:
    """By how much bits are shifted to the right, what is taken off then, and what divides it; 0 for none."""
    if kind.kind == "f":
        # As many bits as a float has: neither machine rounds.
        return 8, 1 << 23, 1 << 23
    bits = 8 * kind.itemsize
    # Numbers of more bits count or name something: small ones exist.
    if kind.kind == "b" or (bits > 8 and not (is_code and bits == 16)):
        return 31, 0, 0
    return 32 - bits, 1 << (bits - 1) if kind.kind == "i" else 0, 0
