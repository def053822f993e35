"""Result of every scheme: the new program, and what was decided for each tensor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from thinflow.errors import GraphError
from thinflow.ir.brief import brief_repr
from thinflow.lower.tflite.program import Program
from thinflow.typing import Array

P = TypeVar("P")


@brief_repr
@dataclass(frozen=True)
class Decision:
    """Quantization parameters of one tensor of the result, and their reason.

    Attributes:
        tensor: its name in the result.
        scale: float32 [1], or one per channel; empty for float16.
        zero_point: of all channels.
        range: real numbers that were to be representable.
        observer: who proposed the range; "weights", "constant" or "fixed" if no observer did.
        reason: in a few words.
    """

    tensor: str
    scale: Array
    zero_point: int
    range: tuple[float, float]
    observer: str
    reason: str


@brief_repr
@dataclass
class Quantized(Generic[P]):
    """A smaller program, of LiteRT or ONNX, and how it came to be.

    Attributes:
        decisions: one per quantized tensor, in the order of the program.
        float_operators: operators of `program` that the scheme leaves in float, and why.
        warnings: what is likely to cost accuracy.
    """

    program: P
    decisions: list[Decision] = field(default_factory=list)
    float_operators: list[tuple[Any, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def require_float(program: Program, subgraphs: int | None = None) -> None:
    """Refuse a program whose first `subgraphs` (default: all) are quantized already.

    Raises:
        GraphError: naming the tensor.
    """
    for subgraph in program.subgraphs[:subgraphs]:
        for tensor in subgraph.tensors():
            if tensor.quantization is not None and len(tensor.quantization.scale):
                raise GraphError(f"tensor '{tensor.name}' is quantized already", hint="give the float model")
