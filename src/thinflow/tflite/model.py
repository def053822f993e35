"""A LiteRT program in memory.

Tensors are objects, not numbers: an operator lists the tensors it reads and writes, and indices are given
when the file is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from thinflow.errors import GraphError, closest
from thinflow.ir.brief import brief_repr
from thinflow.ir.types import DType
from thinflow.tflite import schema
from thinflow.tflite.constants import array_of, blob_of
from thinflow.tflite.options import encode_options


@brief_repr
@dataclass
class Quantization:
    """real = scale * (stored - zero_point), per tensor (one entry) or per slice of dimension `axis`.

    Attributes:
        scale: float32 [n].
        zero_point: int64 [n].
        axis: the dimension the entries belong to; 0 when there is one entry.
        min, max: float32 [n] ranges some writers leave behind; runtimes ignore them.
    """

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int = 0
    min: np.ndarray | None = None
    max: np.ndarray | None = None

    @property
    def is_per_channel(self) -> bool:
        return len(self.scale) > 1


@dataclass(eq=False)
class Tensor:
    """A value of a subgraph, or a constant. Tensors are compared by identity.

    Attributes:
        name: kept in the file; need not be unique.
        shape: sizes, None for an unknown one; None alone for an unknown rank.
        dtype: element type.
        data: a constant's elements: an array of the tensor's shape (of `bytes` objects for strings), or the
            raw bytes of the file. Types of less than a byte are read as raw bytes; `array()` unpacks them.
            None if not constant.
        quantization: how stored integers stand for real numbers.
        is_variable: whether it keeps its value between runs.
        stored_bytes: of a constant whose elements cannot be read here (sparse, packed, of a newer type), what
            they occupy in the file; None for any other tensor.
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: DType
    data: np.ndarray | memoryview | None = None
    quantization: Quantization | None = None
    is_variable: bool = False
    stored_bytes: int | None = None

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    def array(self) -> np.ndarray | None:
        """The constant as an array; a view unless elements are packed into shared bytes."""
        if self.data is None or isinstance(self.data, np.ndarray):
            return self.data
        return array_of(self.data, self)

    def __repr__(self) -> str:
        sizes = "?" if self.shape is None else ",".join("?" if n is None else str(n) for n in self.shape)
        return f"Tensor({self.name!r}, {self.dtype}[{sizes}]{', constant' if self.is_constant else ''})"


@dataclass(eq=False)
class Operator:
    """One step of a subgraph.

    Attributes:
        code: builtin name ("CONV_2D"), "CUSTOM", or "BUILTIN_<n>" for a code newer than the schema here.
        inputs: None for an optional input that is absent.
        outputs: tensors this operator alone writes.
        options: fields of the op's option table; enumerators by name, element types as DType, subgraphs by
            number. Fields left out have the format's default, which for strides is 0.
        custom_code, custom_options: only for "CUSTOM".
        version: the file gets this or `op_version`, whichever is higher.
        origin: name of the source node it was made from; not stored.
        intermediates: extra tensors that integer LSTMs take their scales from.
        mutating_inputs: which inputs are variables it writes; empty if none.
    """

    code: str
    inputs: list[Tensor | None]
    outputs: list[Tensor]
    options: dict[str, Any] = field(default_factory=dict)
    custom_code: str = ""
    custom_options: bytes = b""
    version: int = 1
    origin: str = ""
    intermediates: list[Tensor] = field(default_factory=list)
    mutating_inputs: tuple[bool, ...] = ()

    def __repr__(self) -> str:
        names = ", ".join("-" if t is None else t.name for t in self.inputs)
        return f"Operator({self.code}: {names} -> {', '.join(t.name for t in self.outputs)})"


@brief_repr
@dataclass(eq=False)
class Subgraph:
    """Operators in the order they run."""

    name: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    operators: list[Operator] = field(default_factory=list)

    def tensors(self) -> list[Tensor]:
        """Every tensor once: inputs, then operator by operator what it reads and writes, then outputs."""
        seen: dict[Tensor, None] = dict.fromkeys(self.inputs)
        for operator in self.operators:
            for tensor in (*operator.inputs, *operator.outputs, *operator.intermediates):
                if tensor is not None:
                    seen.setdefault(tensor)
        seen.update(dict.fromkeys(self.outputs))
        return list(seen)

    def producers(self) -> dict[Tensor, Operator]:
        """Who writes each tensor; inputs and constants are missing."""
        return {tensor: operator for operator in self.operators for tensor in operator.outputs}

    def consumers(self) -> dict[Tensor, list[tuple[Operator, int]]]:
        """Who reads each tensor, as (operator, input number); unread tensors are missing."""
        readers: dict[Tensor, list[tuple[Operator, int]]] = {}
        for operator in self.operators:
            for i, tensor in enumerate(operator.inputs):
                if tensor is not None:
                    readers.setdefault(tensor, []).append((operator, i))
        return readers


class Signature(NamedTuple):
    """Names under which a subgraph's tensors can be fed and fetched."""

    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]


@brief_repr
@dataclass(eq=False)
class Program:
    """What a .tflite file holds. The first subgraph is the one that runs.

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
                _check_order(subgraph)
                for operator in subgraph.operators:
                    _check_operator(operator, len(self.subgraphs))
                for tensor in subgraph.tensors():
                    _check_tensor(tensor)
            except GraphError as e:
                raise e.at(f"subgraph '{subgraph.name}'") from e
        for key, signature in self.signatures.items():
            signature_subgraph(key, Signature(*signature), self.subgraphs)


def _check_order(subgraph: Subgraph) -> None:
    ready = {t for t in subgraph.tensors() if t.is_constant or t.is_variable} | set(subgraph.inputs)
    for operator in subgraph.operators:
        for tensor in operator.inputs:
            if tensor is not None and tensor not in ready:
                raise GraphError(f"{operator!r} reads '{tensor.name}' before anything writes it")
        for tensor in operator.outputs:
            if tensor in ready and not tensor.is_variable:
                raise GraphError(f"{operator!r} writes '{tensor.name}', which already has a value")
            ready.add(tensor)
    for tensor in subgraph.outputs:
        if tensor not in ready:
            raise GraphError(f"nothing writes the output '{tensor.name}'")


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
        blob_of(tensor)
    q = tensor.quantization
    if q is None:
        return
    sizes = tensor.shape or ()
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
