"""A LiteRT program in memory: what its tensors and operators have beside those of other targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from thinflow.errors import GraphError, closest
from thinflow.ir.brief import brief_repr
from thinflow.program import model
from thinflow.program.model import Quantization
from thinflow.tflite import schema
from thinflow.tflite.constants import array_of, blob_of
from thinflow.tflite.options import encode_options
from thinflow.typing import Array

__all__ = ["Operator", "Program", "Quantization", "Signature", "Subgraph", "Tensor", "signature_subgraph"]


@dataclass(eq=False, repr=False)
class Tensor(model.Tensor):
    """A value of a subgraph, or a constant; its name need not be unique.

    `data` is an array, or the raw bytes of the file. Types of less than a byte are read as raw bytes;
    `array()` unpacks them.

    Attributes:
        is_variable: whether it keeps its value between runs.
        stored_bytes: of a constant whose elements cannot be read here (sparse, packed, of a newer type), what
            they occupy in the file; None for any other tensor.
    """

    is_variable: bool = False
    stored_bytes: int | None = None

    def array(self) -> Array:
        """The constant as an array; a view unless elements are packed into shared bytes."""
        assert self.data is not None, f"{self!r} is not constant"
        return self.data if isinstance(self.data, np.ndarray) else array_of(self.data, self)


@dataclass(eq=False, repr=False)
class Operator(model.Operator[Tensor]):
    """One step of a subgraph.

    `code` is a builtin name ("CONV_2D"), "CUSTOM", or "BUILTIN_<n>" for a code newer than the schema here.
    `options` are fields of the op's option table; enumerators by name, element types as DType, subgraphs by
    number. Fields left out have the format's default, which for strides is 0. `origin` is not stored.

    Attributes:
        custom_code, custom_options: only for "CUSTOM".
        version: the file gets this or `op_version`, whichever is higher.
        intermediates: extra tensors that integer LSTMs take their scales from.
        mutating_inputs: which inputs are variables it writes; empty if none.
    """

    custom_code: str = ""
    custom_options: bytes = b""
    version: int = 1
    intermediates: list[Tensor] = field(default_factory=list)
    mutating_inputs: tuple[bool, ...] = ()

    def touched(self) -> Iterator[Tensor]:
        yield from super().touched()
        yield from self.intermediates


@brief_repr
@dataclass(eq=False)
class Subgraph(model.Block[Tensor, Operator]):
    """Operators in the order they run."""


class Signature(NamedTuple):
    """Names under which a subgraph's tensors can be fed and fetched."""

    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]


@brief_repr
@dataclass(eq=False)
class Program:
    """The content of a .tflite file. The first subgraph is the one that runs.

    Attributes:
        signatures: key -> the names of one subgraph's inputs and outputs.
        metadata: key -> bytes.
    """

    subgraphs: list[Subgraph]
    description: str = ""
    signatures: dict[str, Signature] = field(default_factory=dict)
    metadata: dict[str, bytes] = field(default_factory=dict)

    def validate(self) -> None:
        """Check the structure: order, writers, sizes, options, references.

        Raises:
            GraphError: naming the subgraph and the operator or tensor at fault.
        """
        if not self.subgraphs:
            raise GraphError("a program needs a subgraph")
        for subgraph in self.subgraphs:
            try:
                subgraph.check_order(t for t in subgraph.tensors() if t.is_variable)
                for operator in subgraph.operators:
                    _check_operator(operator, len(self.subgraphs))
                for tensor in subgraph.tensors():
                    _check_tensor(tensor)
            except GraphError as e:
                raise e.at(f"subgraph '{subgraph.name}'") from e
        for key, signature in self.signatures.items():
            signature_subgraph(key, Signature(*signature), self.subgraphs)


def _check_operator(operator: Operator, subgraph_count: int) -> None:
    if schema.op_code(operator.code) is None:
        raise GraphError(f"'{operator.code}' is no TFLite op", hint=closest(operator.code, schema.OP_CODES))
    if (operator.code == "CUSTOM") != bool(operator.custom_code):
        raise GraphError(f"{operator!r}: custom_code goes with CUSTOM and nothing else")
    encode_options(operator)
    for name in schema.SUBGRAPH_OPTIONS & operator.options.keys():
        if not 0 <= int(operator.options[name]) < subgraph_count:
            raise GraphError(
                f"{operator!r}: {name} is {operator.options[name]} of {subgraph_count} subgraphs"
            )


def _check_tensor(tensor: Tensor) -> None:
    if schema.tensor_type(tensor.dtype) is None:
        raise GraphError(f"tensor '{tensor.name}': TFLite has no type {tensor.dtype}")
    if tensor.data is not None:
        if tensor.is_variable:
            raise GraphError(f"tensor '{tensor.name}' is a variable and has constant data")
        # Made for its checks; the bytes themselves are fetched when they are written.
        blob_of(tensor)
    q = tensor.quantization
    if q is None:
        return
    sizes = tensor.shape or ()
    # A scale per entry of one axis; no zero points at all stand for zeros.
    fits = len(q.scale) <= 1 or (0 <= q.axis < len(sizes) and sizes[q.axis] in (None, len(q.scale)))
    if not fits or len(q.zero_point) not in (len(q.scale), 0):
        raise GraphError(
            f"tensor '{tensor.name}': {len(q.scale)} scales and {len(q.zero_point)} zero points"
            f" along axis {q.axis} of shape {list(sizes)}"
        )


def signature_subgraph(key: str, signature: Signature, subgraphs: Sequence[Subgraph]) -> int:
    """Number of the first subgraph that holds every tensor of a signature; of one without tensors, which only
    has an effect, that of its name.
    """
    wanted = {*signature.inputs.values(), *signature.outputs.values()}
    named = next((n for n, s in enumerate(subgraphs) if s.name == key), None)
    if not wanted and named is not None:
        return named
    for number, subgraph in enumerate(subgraphs):
        if wanted <= set(subgraph.tensors()):
            return number
    raise GraphError(f"signature '{key}' names tensors that no single subgraph has")
