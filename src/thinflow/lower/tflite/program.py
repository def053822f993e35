"""A LiteRT program in memory, its file, and back.

Tensors are objects, not numbers: an operator lists the tensors it reads and writes, and indices are given
when the file is written. Weights are written straight from the arrays (a transposed view is copied one array
at a time, while its chunk is written) and read as views of the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from thinflow.errors import FormatError, GraphError, closest
from thinflow.ir.types import STRING, DType
from thinflow.lower.tflite import schema
from thinflow.wire import flatbuffer
from thinflow.wire.flatbuffer import Blob, Scalar, Table, Vector, scalar

IDENTIFIER = b"TFL3"
SCHEMA_VERSION = 3
INLINE_LIMIT = 2**31 - 2**26  # bytes of weights inside the flatbuffer; the rest of 2 GiB is for the tables
_SHARE_BY_CONTENT = (
    4096  # bytes; equal arrays up to this size share a buffer, larger ones only if they are one array
)
_MAX_RANK, _MAX_ELEMENTS = 32, 2**55  # what every numpy can hold, zeros aside
_LOCATION_KEY, _LOCATION = "buffer_location", b"outside flatbuffers"


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
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: DType
    data: np.ndarray | memoryview | None = None
    quantization: Quantization | None = None
    is_variable: bool = False

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    def array(self) -> np.ndarray | None:
        """The constant as an array; a view unless elements are packed into shared bytes."""
        if self.data is None or isinstance(self.data, np.ndarray):
            return self.data
        return _array(self.data, self)

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
            _signature_subgraph(key, Signature(*signature), [set(s.tensors()) for s in self.subgraphs])


def _check_order(subgraph: Subgraph) -> None:
    ready = {t for t in subgraph.tensors() if t.is_constant or t.is_variable} | set(subgraph.inputs)
    for operator in subgraph.operators:
        for tensor in operator.inputs:
            if tensor is not None and tensor not in ready:
                raise GraphError(f"{operator!r} reads '{tensor.name}' before anything writes it")
        for tensor in operator.outputs:
            if tensor in ready:
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
    _encode_options(operator)
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
        _blob_of(tensor)
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


def _signature_subgraph(key: str, signature: Signature, members: list[set[Tensor]]) -> int:
    """Number of the first subgraph that holds every tensor of a signature."""
    wanted = {*signature.inputs.values(), *signature.outputs.values()}
    for number, tensors in enumerate(members):
        if wanted <= tensors:
            return number
    raise GraphError(f"signature '{key}' names tensors that no single subgraph has")


# ------------------------------------------------------------------------------------------------ op versions


def op_version(operator: Operator) -> int:
    """The lowest version of a builtin op that covers the operator's types, ranks and options."""
    inputs, options, code = operator.inputs, operator.options, operator.code
    versions = [2 if code == "BROADCAST_TO" else 1]
    for rule in schema.type_rules().get(code, ()):
        operand = _operand(operator, rule.operand)
        if operand is not None:
            name = schema.storage_name(operand.dtype)
            quantized = rule.by_type.get(f"{name}q") if operand.quantization is not None else None
            versions.append(quantized or rule.by_type.get(name, 1))
    for name, version in schema.OPTION_VERSIONS.get(code, {}).items():
        fields = {f.name: f for f in schema.option_fields(schema.options_of(code))}
        if name in options and _stored(fields[name], options[name], operator) != fields[name].default:
            versions.append(version)
    shapes = [() if t is None or t.shape is None else t.shape for t in inputs]
    ranks = [len(shape) for shape in shapes]
    versions += [v for rank, v in schema.RANK_VERSIONS.get(code, ()) if ranks and ranks[0] >= rank]
    if code in schema.BROADCAST_VERSIONS and len(set(shapes[:2])) > 1 and max(ranks) > 4:
        versions.append(schema.BROADCAST_VERSIONS[code])
    if code in schema.HYBRID_VERSIONS:
        versions.append(_hybrid_version(operator, schema.HYBRID_VERSIONS[code]))
    special = _SPECIAL_VERSIONS.get(code)
    if special is not None:
        versions.append(special(operator, shapes))
    return max(versions)


def _operand(operator: Operator, number: int) -> Tensor | None:
    side: list[Tensor | None] | list[Tensor] = operator.outputs if number < 0 else operator.inputs
    number = 0 if number < 0 else number
    return side[number] if number < len(side) else None


def _hybrid_version(operator: Operator, hybrid: schema.Hybrid) -> int:
    x, w = _operand(operator, 0), _operand(operator, hybrid.weights)
    if x is None or w is None or x.dtype.name != "float" or schema.storage_name(w.dtype) != "int8":
        return 1
    if w.quantization is not None and w.quantization.is_per_channel:
        return max(hybrid.plain, hybrid.per_channel)
    return hybrid.asymmetric if operator.options.get("asymmetric_quantize_inputs") else hybrid.plain


def _int16_sum(operator: Operator, power_of_two: int, otherwise: int) -> int:
    x = _operand(operator, 0)
    if x is None or schema.storage_name(x.dtype) != "int16":
        return 1
    return power_of_two if operator.options.get("pot_scale_int16", True) else otherwise


def _mul_rescale(operator: Operator, shapes: list[Any]) -> int:
    parts = [_operand(operator, 0), _operand(operator, 1), _operand(operator, -1)]
    scales = [
        float(t.quantization.scale[0]) for t in parts if t and t.quantization and len(t.quantization.scale)
    ]
    if len(scales) < 3 or 0 in scales or parts[0] is None or parts[0].dtype.itemsize != 1:
        return 1
    return 3 if scales[0] * scales[1] / scales[2] >= 1 else 1


def _per_channel(number: int, version: int, types: tuple[str, ...]) -> Callable[[Operator, list[Any]], int]:
    def of(operator: Operator, shapes: list[Any]) -> int:
        x = _operand(operator, number)
        wide = x is not None and x.quantization is not None and x.quantization.is_per_channel
        return (
            version if x is not None and wide and (not types or schema.storage_name(x.dtype) in types) else 1
        )

    return of


def _grouped(operator: Operator, shapes: list[Any]) -> int:
    known = len(shapes) > 1 and len(shapes[0]) == 4 and len(shapes[1]) == 4
    return 6 if known and None not in (shapes[0][3], shapes[1][3]) and shapes[0][3] != shapes[1][3] else 1


def _not_4d(operator: Operator, shapes: list[Any]) -> int:
    x = _operand(operator, 0)
    return 3 if x is not None and x.shape is not None and len(x.shape) != 4 else 1


# What the tables cannot say.
_SPECIAL_VERSIONS: dict[str, Callable[[Operator, list[Any]], int]] = {
    "ADD": lambda o, s: _int16_sum(o, 1, 3),
    "SUB": lambda o, s: _int16_sum(o, 1, 5),
    "MUL": _mul_rescale,
    "CONV_2D": _grouped,
    "FULLY_CONNECTED": lambda o, s: 6 if len(o.inputs) == 2 else 1,
    "TRANSPOSE_CONV": lambda o, s: 3 if len(o.inputs) == 4 and o.inputs[3] is not None else 1,
    "DEQUANTIZE": _per_channel(0, 5, ("int8",)),
    "QUANTIZE": _per_channel(-1, 3, ()),
    "EMBEDDING_LOOKUP": _per_channel(1, 4, ()),
    "SPACE_TO_BATCH_ND": _not_4d,
    "BATCH_TO_SPACE_ND": _not_4d,
    "SELECT": lambda o, s: 3 if any(len(shape) == 5 for shape in s) else 1,
    "WHERE": lambda o, s: (
        1 if o.inputs and o.inputs[0] is not None and o.inputs[0].dtype.name == "bool" else 2
    ),
}


# ------------------------------------------------------------------------------------------------ constants


def _blob_of(tensor: Tensor) -> Blob:
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
        expected = _byte_count(tensor)
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
    if data.dtype.newbyteorder("=") != tensor.dtype.numpy():
        raise GraphError(f"constant '{tensor.name}' has data of type {data.dtype}, not {tensor.dtype}")
    bits = schema.PACKED_BITS.get(tensor.dtype.name)
    if bits:
        return Blob(-(-data.size * bits // 8), lambda: _pack(data, bits))
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


def _byte_count(tensor: Tensor) -> int | None:
    """Bytes of a constant of this type and shape; None for strings."""
    if tensor.dtype is STRING or tensor.shape is None:
        return None
    count = math.prod(n or 0 for n in tensor.shape)
    return -(-count * schema.PACKED_BITS.get(tensor.dtype.name, 8 * tensor.dtype.itemsize) // 8)


def _pack(data: np.ndarray, bits: int) -> np.ndarray:
    """Elements of `bits` bits, the first of each byte in its low bits."""
    per_byte = 8 // bits
    flat = data.reshape(-1).astype(np.int8).view(np.uint8) & (2**bits - 1)
    flat = np.concatenate([flat, np.zeros(-len(flat) % per_byte, np.uint8)]).reshape(-1, per_byte)
    packed: np.ndarray = np.bitwise_or.reduce(flat << (np.arange(per_byte, dtype=np.uint8) * bits), axis=1)
    return packed.astype(np.uint8)


def _unpack(raw: memoryview, bits: int, tensor: Tensor) -> np.ndarray:
    shape = [n or 0 for n in tensor.shape or ()]
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    wide = (np.frombuffer(raw, np.uint8)[:, None] >> shifts).reshape(-1)[: math.prod(shape)] & (2**bits - 1)
    if tensor.dtype.kind == "i":
        high = 8 - bits
        wide = (wide << high).view(np.int8) >> high
    unpacked: np.ndarray = wide.astype(tensor.dtype.numpy()).reshape(shape)
    return unpacked


def _encode_strings(data: np.ndarray) -> bytes:
    items = [s.encode() if isinstance(s, str) else bytes(s) for s in data.reshape(-1).tolist()]
    starts = np.cumsum([4 * (len(items) + 2), *map(len, items)])
    if starts[-1] >= 2**31:
        raise GraphError("a string constant is larger than 2 GiB")
    return b"".join([np.int32(len(items)).tobytes(), starts.astype("<i4").tobytes(), *items])


def _decode_strings(raw: memoryview, shape: tuple[int, ...]) -> np.ndarray:
    count = math.prod(shape)
    if len(raw) < 4 * (count + 2) or int(np.frombuffer(raw, "<i4", 1)[0]) != count:
        raise FormatError(f"a string constant of shape {list(shape)} does not hold {count} strings")
    starts = np.frombuffer(raw, "<i4", count + 1, 4).tolist()
    if starts != sorted(starts) or starts[0] < 4 * (count + 2) or starts[-1] > len(raw):
        raise FormatError("the offsets of a string constant are out of bounds")
    items = np.empty(count, object)
    items[:] = [bytes(raw[a:b]) for a, b in pairwise(starts)]
    return items.reshape(shape)


def _array(raw: memoryview, tensor: Tensor) -> np.ndarray:
    shape = tuple(n or 0 for n in tensor.shape or ())
    if tensor.dtype is STRING:
        return _decode_strings(raw, shape)
    bits = schema.PACKED_BITS.get(tensor.dtype.name)
    if bits:
        return _unpack(raw, bits, tensor)
    element = tensor.dtype.numpy()
    return np.frombuffer(raw, element).reshape(shape)


# ------------------------------------------------------------------------------------------------ writing


def write_program(program: Program, *, inline_limit: int = INLINE_LIMIT) -> tuple[int, Iterator[Any]]:
    """Length in bytes of the file and its chunks (bytes-like, to be walked once); weights are not copied.

    Args:
        program: checked with `validate` first.
        inline_limit: with more bytes of weights than this they go behind the flatbuffer instead of into it.

    Raises:
        GraphError: the program is not well formed.
        WriteError: the tables alone do not fit 2 GiB.
    """
    program.validate()
    buffers = _Buffers()
    metadata = program.metadata
    groups = [[buffers.number(t) for t in s.tensors()] for s in program.subgraphs]
    outside = buffers.total > inline_limit
    if outside:
        metadata = {**metadata, _LOCATION_KEY: _LOCATION}
    codes: dict[tuple[int, str, int], int] = {}
    subgraphs = [
        _subgraph_table(s, numbers, codes) for s, numbers in zip(program.subgraphs, groups, strict=True)
    ]
    tables = buffers.tables(outside)
    for value in metadata.values():
        tables.append({0: _bytes_blob(value)})
    first = len(tables) - len(metadata)
    model: dict[int, Any] = {
        0: Scalar("u32", SCHEMA_VERSION),
        1: [_code_table(*code) for code in codes],
        2: subgraphs,
        3: program.description or None,
        4: tables,
        6: [{0: key, 1: scalar("u32", first + i)} for i, key in enumerate(metadata)] or None,
        7: _signature_tables(program) or None,
    }
    return flatbuffer.encode(model, IDENTIFIER)


def to_bytes(program: Program, *, inline_limit: int = INLINE_LIMIT) -> bytes:
    """The whole file in memory; see `write_program`."""
    return b"".join(write_program(program, inline_limit=inline_limit)[1])


def _bytes_blob(raw: bytes) -> Blob:
    return Blob(len(raw), lambda: raw)


class _Buffers:
    """Buffer numbers: 0 is the empty one, then one per distinct constant."""

    def __init__(self) -> None:
        self.blobs: list[Blob] = []
        self.total = 0
        self._numbers: dict[Any, int] = {}

    def number(self, tensor: Tensor) -> int:
        if tensor.data is None:
            return 0
        blob = _blob_of(tensor)
        if blob.size == 0:
            return 0
        key = bytes(blob.read()) if blob.size <= _SHARE_BY_CONTENT else _storage_key(tensor.data)
        if key not in self._numbers:
            self.blobs.append(blob)
            self.total += blob.size
            self._numbers[key] = len(self.blobs)
        return self._numbers[key]

    def tables(self, outside: bool) -> list[dict[int, Any]]:
        if outside:
            return [{}, *({1: Scalar("u64", b), 2: Scalar("u64", b.size)} for b in self.blobs)]
        return [{}, *({0: b} for b in self.blobs)]


def _storage_key(data: np.ndarray | memoryview) -> Any:
    """Equal for two views of the same bytes in the same order."""
    array = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    if array.dtype.hasobject:
        return id(data)
    place = array.__array_interface__["data"][0]
    if array.flags.c_contiguous and array.dtype.byteorder != ">":
        return place, array.nbytes
    return place, array.shape, array.strides, array.dtype.str


def _subgraph_table(
    subgraph: Subgraph, numbers: list[int], codes: dict[tuple[int, str, int], int]
) -> dict[int, Any]:
    tensors = subgraph.tensors()
    index: dict[Tensor | None, int] = {tensor: i for i, tensor in enumerate(tensors)}
    index[None] = -1

    def indices(some: Iterable[Tensor | None]) -> Vector:
        return Vector("i32", [index[t] for t in some])

    operators = []
    for operator in subgraph.operators:
        code = schema.op_code(operator.code)
        assert code is not None, "validate() has seen this operator"
        key = (code, operator.custom_code, max(operator.version, op_version(operator)))
        number, options, second = _encode_options(operator)
        custom = operator.custom_options
        table: dict[int, Any] = {
            0: scalar("u32", codes.setdefault(key, len(codes))),
            1: indices(operator.inputs),
            2: indices(operator.outputs),
            5: Vector("u8", custom) if custom else None,
            7: Vector("bool", operator.mutating_inputs) if any(operator.mutating_inputs) else None,
            8: indices(operator.intermediates) if operator.intermediates else None,
        }
        if options is not None:
            table |= (
                {11: Scalar("u8", number), 12: options} if second else {3: Scalar("u8", number), 4: options}
            )
        operators.append(table)
    return {
        0: [_tensor_table(t, number) for t, number in zip(tensors, numbers, strict=True)],
        1: indices(subgraph.inputs),
        2: indices(subgraph.outputs),
        3: operators,
        4: subgraph.name or None,
    }


def _tensor_table(tensor: Tensor, buffer: int) -> dict[int, Any]:
    shape = tensor.shape
    q = tensor.quantization
    number = schema.tensor_type(tensor.dtype)
    assert number is not None, "validate() has seen this tensor"
    return {
        0: None if shape is None else Vector("i32", [1 if n is None else n for n in shape]),
        1: scalar("i8", number),
        2: scalar("u32", buffer),
        3: tensor.name,
        4: None if q is None else _quantization_table(q),
        5: scalar("bool", tensor.is_variable),
        7: Vector("i32", [-1 if n is None else n for n in shape]) if shape and None in shape else None,
        8: scalar("bool", shape is not None),
    }


def _quantization_table(q: Quantization) -> dict[int, Any]:
    kinds = ("f32", q.min), ("f32", q.max), ("f32", q.scale), ("i64", q.zero_point)
    table: dict[int, Any] = {
        slot: Vector(kind, np.asarray(values).reshape(-1).tolist())
        for slot, (kind, values) in enumerate(kinds)
        if values is not None and len(values)
    }
    table[6] = scalar("i32", q.axis)
    return table


def _code_table(code: int, custom: str, version: int) -> dict[int, Any]:
    """Readers of before 2020 know only the first field, an i8."""
    return {
        0: scalar("i8", min(code, 127)),
        1: custom or None,
        2: scalar("i32", version, 1),
        3: scalar("i32", code),
    }


def _signature_tables(program: Program) -> list[dict[int, Any]]:
    members = [s.tensors() for s in program.subgraphs]
    sets = [set(m) for m in members]
    tables = []
    for key, pair in program.signatures.items():
        signature = Signature(*pair)
        number = _signature_subgraph(key, signature, sets)
        index = {tensor: i for i, tensor in enumerate(members[number])}
        inputs, outputs = (
            [{0: name, 1: scalar("u32", index[t])} for name, t in side.items()] for side in signature
        )
        tables.append({0: inputs, 1: outputs, 2: key, 4: scalar("u32", number)})
    return tables


def _encode_options(operator: Operator) -> tuple[int, dict[int, Any] | None, bool]:
    """(union type, option table or None, whether it goes into the second union)."""
    name = schema.options_of(operator.code)
    fields = {f.name: f for f in schema.option_fields(name)}
    for given in operator.options:
        if given not in fields:
            raise GraphError(f"{operator!r} has no option '{given}'", hint=closest(given, fields))
    if not name:
        return 0, None, False
    table: dict[int, Any] = {}
    for option in fields.values():
        value = operator.options.get(option.name)
        if value is None:
            continue
        if option.kind == "str":
            table[option.slot] = str(value)
        elif option.kind.startswith("["):
            table[option.slot] = Vector(option.kind[1:-1], tuple(value))
        else:
            table[option.slot] = scalar(option.stored_as, _stored(option, value, operator), option.default)
    second = name in schema.OPTION_2_NUMBERS
    return (schema.OPTION_2_NUMBERS if second else schema.OPTION_NUMBERS)[name], table, second


def _stored(option: schema.OptionField, value: Any, operator: Operator) -> float:
    """An option's number in the file."""
    number: float | None
    if option.kind == "dtype":
        number = schema.tensor_type(value) if isinstance(value, DType) else int(value)
    elif option.kind in schema.ENUMS:
        number = schema.enum_number(option.kind, value)
    elif option.kind == "f32":
        number = float(value)
    else:
        number = bool(value) if option.kind == "bool" else int(value)
    if number is None:
        raise GraphError(f"{operator!r}: option {option.name} cannot be {value}")
    return number


# ------------------------------------------------------------------------------------------------ reading


def read_program(buffer: Any) -> Program:
    """The program in a .tflite file, given as bytes, a memoryview or a map; weights are views of it.

    Raises:
        FormatError: the file is damaged, or uses sparse weights, weights in other files or another part of
            the format that could not be written back.
    """
    model = flatbuffer.root(buffer, IDENTIFIER)
    if model.scalar(0, "u32") != SCHEMA_VERSION:
        raise FormatError(f"schema version is {model.scalar(0, 'u32')}, not {SCHEMA_VERSION}")
    buffers = [_buffer_view(b, model) for b in model.tables(4)]
    codes = [_read_code(c) for c in model.tables(1)]
    constants: dict[Any, np.ndarray | memoryview] = {}
    subgraphs, members = [], []
    for number, table in enumerate(model.tables(2)):
        try:
            tensors = [_read_tensor(t, buffers, constants) for t in table.tables(0)]
            subgraphs.append(_read_subgraph(table, tensors, codes, model))
        except FormatError as e:
            raise e.at(f"subgraph {number}") from e
        members.append(tensors)
    metadata = {}
    for entry in model.tables(6):
        key = entry.string(0) or ""
        raw = _pick(buffers, entry.scalar(1, "u32"), "buffer")
        entry.charge(raw)
        if (key, raw) != (_LOCATION_KEY, _LOCATION):
            metadata[key] = bytes(raw)
    return Program(subgraphs, model.string(3) or "", _read_signatures(model, members), metadata)


def _pick(items: list[Any], index: int, what: str) -> Any:
    if not 0 <= index < len(items):
        raise FormatError(f"{what} {index} is named, but the file has {len(items)}")
    return items[index]


def _buffer_view(table: Table, model: Table) -> memoryview:
    offset, size = table.scalar(1, "u64"), table.scalar(2, "u64")
    if offset > 1:
        return model.beyond(offset, size)
    return table.blob(0) or memoryview(b"")


def _read_code(table: Table) -> tuple[str, str, int]:
    code = max(table.scalar(0, "i8"), table.scalar(3, "i32"))
    if code < 0:
        raise FormatError(f"an operator has the code {code}")
    return schema.op_name(code), table.string(1) or "", table.scalar(2, "i32", 1)


def _read_tensor(
    table: Table, buffers: list[memoryview], constants: dict[Any, np.ndarray | memoryview]
) -> Tensor:
    name = table.string(3) or ""
    try:
        number = table.scalar(1, "i8")
        element = schema.dtype_of(number)
        if element is None:
            raise FormatError(f"element type {number} is unknown")
        for slot, feature in ((6, "sparse weights"), (9, "the types of a variant")):
            if table.has(slot):
                raise FormatError(f"{feature} are not supported")
        if table.scalar(10, "u32"):
            raise FormatError("weights in a second file are not supported")
        index = table.scalar(2, "u32")
        raw = _pick(buffers, index, "buffer")
        tensor = Tensor(
            name,
            _read_shape(table, has_data=bool(raw)),
            element,
            quantization=_read_quantization(table.table(4)),
            is_variable=table.scalar(5, "bool"),
        )
        if raw:
            key = (index, element.name, tensor.shape)
            if key not in constants:
                if element is STRING:
                    table.charge(raw)
                constants[key] = _read_constant(raw, tensor)
            tensor.data = constants[key]
    except FormatError as e:
        raise e.at(f"tensor '{name}'") from e
    return tensor


def _read_constant(raw: memoryview, tensor: Tensor) -> np.ndarray | memoryview:
    if tensor.is_variable or tensor.shape is None or None in tensor.shape:
        raise FormatError("a constant has no fixed shape")
    expected = _byte_count(tensor)
    if expected is not None and len(raw) != expected:
        raise FormatError(f"shape {list(tensor.shape)} needs {expected} bytes, its buffer has {len(raw)}")
    if tensor.dtype.name in schema.PACKED_BITS:
        return raw
    if not tensor.dtype.itemsize and tensor.dtype is not STRING:
        raise FormatError(f"a constant cannot be of type {tensor.dtype}")
    return _array(raw, tensor)


def _read_shape(table: Table, *, has_data: bool) -> tuple[int | None, ...] | None:
    """A missing or empty shape is a scalar or, without the flag of newer writers, may be an unknown rank."""
    shape = table.numbers(0, "i32") or ()
    signature = table.numbers(7, "i32") or ()
    if not shape and not has_data and not table.scalar(8, "bool"):
        return None
    absurd = len(shape) > _MAX_RANK or math.prod(max(n, 1) for n in shape) > _MAX_ELEMENTS
    if absurd or any(n < 0 for n in shape) or (signature and len(signature) != len(shape)):
        raise FormatError(f"shape {list(shape)} with signature {list(signature)} makes no sense")
    return tuple(None if n == -1 else s for s, n in zip(shape, signature or shape, strict=True))


def _read_quantization(table: Table | None) -> Quantization | None:
    if table is None:
        return None
    if table.scalar(4, "u8"):
        raise FormatError("custom or blockwise quantization is not supported")
    low, high, scale = (table.numbers(slot, "f32") for slot in (0, 1, 2))
    if not scale and not low and not high:
        return None
    return Quantization(
        np.array(scale or (), np.float32),
        np.array(table.numbers(3, "i64") or (), np.int64),
        table.scalar(6, "i32"),
        np.array(low, np.float32) if low else None,
        np.array(high, np.float32) if high else None,
    )


def _read_subgraph(
    table: Table, tensors: list[Tensor], codes: list[tuple[str, str, int]], model: Table
) -> Subgraph:
    def pick(owner: Table, slot: int) -> list[Tensor]:
        return [_pick(tensors, i, "tensor") for i in owner.numbers(slot, "i32") or ()]

    subgraph = Subgraph(table.string(4) or "", pick(table, 1), pick(table, 2))
    for number, entry in enumerate(table.tables(3)):
        try:
            code, custom_code, version = _pick(codes, entry.scalar(0, "u32"), "operator code")
            inputs = [None if i == -1 else _pick(tensors, i, "tensor") for i in entry.numbers(1, "i32") or ()]
            subgraph.operators.append(
                Operator(
                    code,
                    inputs,
                    pick(entry, 2),
                    _decode_options(code, entry),
                    custom_code,
                    _custom_options(entry, model),
                    version,
                    intermediates=pick(entry, 8),
                    mutating_inputs=entry.numbers(7, "bool") or (),
                )
            )
        except FormatError as e:
            raise e.at(f"operator {number}") from e
    _restore_empty_constants(subgraph, tensors)
    return subgraph


def _restore_empty_constants(subgraph: Subgraph, tensors: list[Tensor]) -> None:
    """A constant without elements has no buffer to tell it by; what tells it is that nothing writes it."""
    written = {*subgraph.inputs, *(t for o in subgraph.operators for t in o.outputs)}
    for tensor in tensors:
        if tensor.shape and 0 in tensor.shape and None not in tensor.shape and tensor not in written:
            element = tensor.dtype
            if not tensor.is_variable and (element.itemsize or element is STRING):
                tensor.data = np.empty([n or 0 for n in tensor.shape], element.numpy())


def _custom_options(entry: Table, model: Table) -> bytes:
    offset, size = entry.scalar(9, "u64"), entry.scalar(10, "u64")
    view = model.beyond(offset, size) if offset > 1 else entry.blob(5)
    if view is None:
        return b""
    entry.charge(view)
    return bytes(view)


def _decode_options(code: str, entry: Table) -> dict[str, Any]:
    """Every field of the op's option table, defaults included; none if the file has no table."""
    second = entry.scalar(11, "u8") != 0
    number = entry.scalar(11 if second else 3, "u8")
    table = entry.table(12 if second else 4)
    if number == 0 or table is None:
        return {}
    name = schema.option_name(number, second=second)
    if name is None or name != schema.options_of(code):
        raise FormatError(f"{code} has options of type {name or number}, which cannot be kept")
    options: dict[str, Any] = {}
    for option in schema.option_fields(name):
        if option.kind == "str":
            value: Any = table.string(option.slot)
        elif option.kind.startswith("["):
            value = table.numbers(option.slot, option.kind[1:-1])
        else:
            value = table.scalar(option.slot, option.stored_as, option.default)
            if option.stored_as == "bool":
                value = bool(value)
            elif option.kind == "dtype":
                value = schema.dtype_of(value) or value
            elif option.kind in schema.ENUMS:
                value = schema.enum_value(option.kind, value)
        if value is not None:
            options[option.name] = value
    return options


def _read_signatures(model: Table, members: list[list[Tensor]]) -> dict[str, Signature]:
    signatures = {}
    for entry in model.tables(7):
        tensors = _pick(members, entry.scalar(4, "u32"), "subgraph")
        sides: list[Mapping[str, Tensor]] = [
            {m.string(0) or "": _pick(tensors, m.scalar(1, "u32"), "tensor") for m in entry.tables(slot)}
            for slot in (0, 1)
        ]
        signatures[entry.string(2) or ""] = Signature(dict(sides[0]), dict(sides[1]))
    return signatures
