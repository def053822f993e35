"""A LiteRT program in memory: what its tensors and operators have beside those of other targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from thinflow.errors import FormatError, GraphError, closest
from thinflow.ir.brief import brief_repr
from thinflow.ir.types import STRING
from thinflow.program import model
from thinflow.program.model import Quantization
from thinflow.tflite import schema
from thinflow.tflite.options import encode_options
from thinflow.typing import Array
from thinflow.wire.flatbuffer import Blob
from thinflow.wire.packed_integers import pack_integers

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
        files: name -> content of the files in an archive behind the model, such as lists of labels.
        wrong_axes: bytes of the file that it was read from at which vectors name an axis of their scales that
            they lack: LiteRT refuses such a file. Here it is the one that they have.
    """

    subgraphs: list[Subgraph]
    description: str = ""
    signatures: dict[str, Signature] = field(default_factory=dict)
    metadata: dict[str, bytes] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    wrong_axes: tuple[int, ...] = ()

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
    tensors = {*signature.inputs.values(), *signature.outputs.values()}
    named = next((n for n, s in enumerate(subgraphs) if s.name == key), None)
    if not tensors and named is not None:
        return named
    for number, subgraph in enumerate(subgraphs):
        if tensors <= set(subgraph.tensors()):
            return number
    raise GraphError(f"signature '{key}' names tensors that no single subgraph has")


# --- the bytes of constants, and back: weights are written straight from their arrays and read as views ----


def blob_of(tensor: model.Tensor) -> Blob:
    """The bytes of a constant, fetched when they are written.

    Raises:
        GraphError: the data does not fit the tensor's shape or type.
    """
    data = tensor.data
    if tensor.shape is None or None in tensor.shape:
        raise GraphError(f"constant '{tensor.name}' has no complete shape")
    shape = tuple(n for n in tensor.shape if n is not None)
    if data is None or not isinstance(data, np.ndarray):
        view = memoryview(data or b"").cast("B")
        expected = byte_count(tensor)
        if expected is not None and view.nbytes != expected:
            raise GraphError(
                f"constant '{tensor.name}' has {view.nbytes} bytes where its shape needs {expected}"
            )
        return Blob(view.nbytes, lambda: view)
    if data.shape != shape:
        raise GraphError(f"constant '{tensor.name}' has data of shape {list(data.shape)}, not {list(shape)}")
    if tensor.dtype is STRING:
        encoded = _encode_strings(data)
        return Blob(len(encoded), lambda: encoded)
    # In any byte order: the bytes are turned round when they are written.
    if data.dtype.newbyteorder("=") != tensor.dtype.numpy():
        raise GraphError(f"constant '{tensor.name}' has data of type {data.dtype}, not {tensor.dtype}")
    bits = schema.PACKED_BITS.get(tensor.dtype.name)
    if bits:
        # Whole bytes, the last one filled with zeros.
        return Blob(-(-data.size * bits // 8), lambda: pack_integers(data, bits))
    # ml_dtypes arrays offer no buffer interface, hence the detour over uint8.
    return Blob(data.nbytes, lambda: _contiguous(_little_endian(data)).view(np.uint8))


def _contiguous(array: np.ndarray) -> np.ndarray:
    """The elements in row-major order [n]; a copy unless they lie so. A single one may have any stride."""
    flat = array.reshape(-1)
    return flat if flat.strides == (flat.itemsize,) or not flat.size else flat.copy()


def _little_endian(array: np.ndarray) -> np.ndarray:
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return array


def byte_count(tensor: model.Tensor) -> int | None:
    """Bytes of a constant of this type and shape; None for strings."""
    if tensor.dtype is STRING or tensor.shape is None:
        return None
    count = math.prod(n or 0 for n in tensor.shape)
    return -(-count * schema.PACKED_BITS.get(tensor.dtype.name, 8 * tensor.dtype.itemsize) // 8)


def _unpack(raw: memoryview, bits: int, tensor: model.Tensor) -> np.ndarray:
    shape = [n or 0 for n in tensor.shape or ()]
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    wide = (np.frombuffer(raw, np.uint8)[:, None] >> shifts).reshape(-1)[: math.prod(shape)] & (2**bits - 1)
    if tensor.dtype.kind == "i":
        high = 8 - bits
        # To the top and back: the shift of signed numbers repeats the sign.
        wide = (wide << high).view(np.int8) >> high
    unpacked: np.ndarray = wide.astype(tensor.dtype.numpy()).reshape(shape)
    return unpacked


def _encode_strings(data: np.ndarray) -> bytes:
    items = [s.encode() if isinstance(s, str) else bytes(s) for s in data.reshape(-1).tolist()]
    # The layout of LiteRT's string tensors: their number, where each begins, where the last one ends (all
    # int32, from the start of the buffer), then the bytes.
    starts = np.cumsum([4 * (len(items) + 2), *map(len, items)])
    if starts[-1] >= 2**31:
        raise GraphError("a string constant is larger than 2 GiB")
    return b"".join([np.int32(len(items)).tobytes(), starts.astype("<i4").tobytes(), *items])


def _decode_strings(raw: memoryview, shape: tuple[int, ...]) -> np.ndarray:
    count = math.prod(shape)
    if len(raw) < 4 * (count + 2) or int(np.frombuffer(raw, "<i4", 1)[0]) != count:
        raise FormatError(f"a string constant of shape {list(shape)} does not hold {count} strings")
    starts = np.frombuffer(raw, "<i4", count + 1, 4).tolist()
    # A hostile file may have offsets that run backwards or out of the buffer.
    if starts != sorted(starts) or starts[0] < 4 * (count + 2) or starts[-1] > len(raw):
        raise FormatError("the offsets of a string constant are out of bounds")
    items = np.empty(count, object)
    items[:] = [bytes(raw[a:b]) for a, b in pairwise(starts)]
    return items.reshape(shape)


def array_of(raw: memoryview, tensor: model.Tensor) -> np.ndarray:
    shape = tuple(n or 0 for n in tensor.shape or ())
    if tensor.dtype is STRING:
        return _decode_strings(raw, shape)
    bits = schema.PACKED_BITS.get(tensor.dtype.name)
    if bits:
        return _unpack(raw, bits, tensor)
    element = tensor.dtype.numpy()
    return np.frombuffer(raw, element).reshape(shape)
