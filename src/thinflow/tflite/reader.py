"""Reads .tflite files; whatever is in them, the result is a program or a FormatError."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from thinflow.errors import FormatError
from thinflow.ir.types import STRING, dtype
from thinflow.tflite import blockwise, schema
from thinflow.tflite.model import (
    Operator,
    Program,
    Quantization,
    Signature,
    Subgraph,
    Tensor,
    array_of,
    byte_count,
)
from thinflow.tflite.options import UnknownOptions, decode_options
from thinflow.tflite.sparsity import MOST_ELEMENTS, densified, read_sparsity
from thinflow.tflite.writer import IDENTIFIER, LOCATION, LOCATION_KEY, SCHEMA_VERSION
from thinflow.wire import flatbuffer
from thinflow.wire.flatbuffer import Table

_MAX_RANK, _MAX_ELEMENTS = 32, 2**55  # what every numpy can hold, zeros aside
_UNKNOWN_TYPES = 1000  # where the numbers begin of element types that are newer than the schema here


class _Keeper:
    """Notes parts of the format that a Program has no place for, or refuses them.

    Args:
        losses: where to note it; None to refuse the file.
        beside: gives the bytes of another file by the name that the model uses; None if there is none.
    """

    def __init__(self, losses: list[str] | None, beside: Callable[[str], memoryview] | None) -> None:
        self.losses = losses
        self.beside = beside
        self._noted: set[str] = set()
        self.elsewhere: dict[int, Table] = {}
        self.groups: list[str] = []
        self._room = MOST_ELEMENTS
        self._blocks: list[tuple[Tensor, blockwise.Blocks]] = []
        self.wrong_axes: list[int] = []

    def lose(self, what: str) -> None:
        """Note that something is left out.

        Raises:
            FormatError: nothing may be left out.
        """
        if self.losses is None:
            raise FormatError(what)
        if what not in self._noted:
            self._noted.add(what)
            self.losses.append(what)

    def densified(self, raw: memoryview, tensor: Tensor, parameters: Table) -> np.ndarray:
        """A sparse constant as an array of its shape."""
        shape, element = tuple(n or 0 for n in tensor.shape or ()), tensor.dtype
        self._room -= math.prod(shape)
        if self._room < 0:
            raise FormatError("sparse weights are too large to be read")
        if not element.itemsize or element.name in schema.PACKED_BITS or len(raw) % element.itemsize:
            raise FormatError(f"sparse weights of type {element} cannot be read")
        return densified(np.frombuffer(raw, element.numpy()), shape, read_sparsity(parameters))

    def note_blocks(self, tensor: Tensor, quantization: Table | None) -> None:
        """Note that a tensor has scales for blocks, which may be in a tensor behind it."""
        if quantization is None or quantization.scalar(4, "u8") != blockwise.DETAILS:
            return
        self._room -= math.prod(n or 0 for n in tensor.shape or ())
        details = quantization.table(5)
        if self._room < 0 or details is None:
            raise FormatError("weights with scales for blocks are too large to be read, or have none")
        self._blocks.append((tensor, blockwise.read_blocks(details)))

    def spread_blocks(self, tensors: list[Tensor]) -> None:
        """Put real numbers in the place of codes with scales for blocks."""
        for tensor, blocks in self._blocks:
            blockwise.spread(tensor, blocks, tensors)
        self._blocks.clear()

    def external(self, number: int) -> memoryview | None:
        """The bytes of a buffer in another file; None if they are packed, or no other file may be opened."""
        entry = self.elsewhere.get(number)
        if entry is None:
            raise FormatError(f"external buffer {number} is named, but the file has none of that number")
        name = _pick(self.groups, entry.scalar(1, "u32"), "external buffer group")
        if self.beside is None or entry.string(4):
            self.lose("weights in a second file are not supported")
            return None
        data = self.beside(name)
        offset, size = entry.scalar(2, "u64"), entry.scalar(3, "u64")
        if offset + size > len(data):
            raise FormatError(f"{size} bytes at byte {offset} run past the end of '{name}'")
        return data[offset : offset + size]


def read_program(
    buffer: Any, *, losses: list[str] | None = None, beside: Callable[[str], memoryview] | None = None
) -> Program:
    """The program in a .tflite file, given as bytes, a memoryview or a map; weights are views of it.

    Args:
        buffer: the file.
        losses: for who only looks: gets sentences about what the program lacks, such as elements of sparse
            weights, and could not be written back. None refuses such a file.
        beside: gives the bytes of a file of weights by the name that the model uses.

    Raises:
        FormatError: the file is damaged, or uses a part of the format that could not be written back.
    """
    keeper = _Keeper(losses, beside)
    model = flatbuffer.root(buffer, IDENTIFIER)
    # Slots of Model: version, operator codes, subgraphs, description, buffers, one no longer used, metadata,
    # signatures, groups of external buffers, external buffers.
    if model.scalar(0, "u32") != SCHEMA_VERSION:
        raise FormatError(f"schema version is {model.scalar(0, 'u32')}, not {SCHEMA_VERSION}")
    buffers = [_buffer_view(b, model) for b in model.tables(4)]
    keeper.groups = [g.string(0) or "" for g in model.tables(8)]
    keeper.elsewhere = {e.scalar(0, "u32"): e for e in model.tables(9)}
    codes = [_read_code(c) for c in model.tables(1)]
    constants: dict[Any, np.ndarray | memoryview] = {}
    subgraphs, members = [], []
    for number, table in enumerate(model.tables(2)):
        try:
            tensors = [_read_tensor(t, buffers, constants, keeper) for t in table.tables(0)]
            keeper.spread_blocks(tensors)
            subgraphs.append(_read_subgraph(table, tensors, codes, model, keeper))
        except FormatError as e:
            raise e.at(f"subgraph {number}") from e
        members.append(tensors)
    metadata = {}
    for entry in model.tables(6):
        key = entry.string(0) or ""
        raw = _pick(buffers, entry.scalar(1, "u32"), "buffer")
        entry.charge(raw)
        # Where the weights lie is the writer's affair, which adds this entry again if it holds.
        if (key, raw) != (LOCATION_KEY, LOCATION):
            metadata[key] = bytes(raw)
    description = model.string(3) or ""
    signatures = _read_signatures(model, members)
    return Program(subgraphs, description, signatures, metadata, wrong_axes=tuple(keeper.wrong_axes))


def _pick(items: list[Any], index: int, what: str) -> Any:
    if not 0 <= index < len(items):
        raise FormatError(f"{what} {index} is named, but the file has {len(items)}")
    return items[index]


def _buffer_view(table: Table, model: Table) -> memoryview:
    offset, size = table.scalar(1, "u64"), table.scalar(2, "u64")
    # The schema's mark of weights behind the flatbuffer, counted from the beginning of the file; 0 and 1 are
    # none.
    if offset > 1:
        return model.beyond(offset, size)
    return table.blob(0) or memoryview(b"")


def _read_code(table: Table) -> tuple[str, str, int]:
    # The first field is older and ends at 127; whichever has the real code is the larger one.
    code = max(table.scalar(0, "i8"), table.scalar(3, "i32"))
    if code < 0:
        raise FormatError(f"an operator has the code {code}")
    return schema.op_name(code), table.string(1) or "", table.scalar(2, "i32", 1)


def _read_tensor(
    table: Table,
    buffers: list[memoryview],
    constants: dict[Any, np.ndarray | memoryview],
    keeper: _Keeper,
) -> Tensor:
    name = table.string(3) or ""
    try:
        # Slots of Tensor: shape, type, buffer, name, quantization, is_variable, sparsity, shape_signature,
        # has_rank, variant types, external buffer.
        number = table.scalar(1, "i8")
        element = schema.dtype_of(number)
        if element is None:
            keeper.lose(f"element type {number} is unknown")
            # A type that equals no other, so that nothing takes it for one it knows.
            element = dtype(_UNKNOWN_TYPES + number % 256)
        # Slots of fields that change what the buffer's bytes mean.
        if table.has(9):
            keeper.lose("the types of a variant are not supported")
        # They are not written back sparse, so whoever writes may not have them.
        if table.has(6) and keeper.losses is None:
            raise FormatError("sparse weights are not supported")
        index, external = table.scalar(2, "u32"), table.scalar(10, "u32")
        raw = keeper.external(external) if external else _pick(buffers, index, "buffer")
        shape = _read_shape(table, has_data=bool(raw))
        tensor = Tensor(
            name,
            shape,
            element,
            quantization=_read_quantization(table.table(4), keeper, shape),
            is_variable=table.scalar(5, "bool"),
        )
        sparsity = table.table(6)
        if raw is None or (raw and element.number > _UNKNOWN_TYPES):
            tensor.stored_bytes = len(raw or b"")
        elif sparsity is not None:
            tensor.data = keeper.densified(raw, tensor, sparsity)
        elif raw:
            # Negative, so that the numbers of external buffers and of others cannot be confused as keys.
            index = -external if external else index
            # Tensors that share a buffer share the array, by which others see that their weights are the
            # same.
            key = (index, element.name, tensor.shape)
            if key not in constants:
                # Strings are copied out of the file, so many tensors on one buffer could ask for any amount
                # of memory.
                if element is STRING:
                    table.charge(raw)
                constants[key] = _read_constant(raw, tensor)
            tensor.data = constants[key]
        keeper.note_blocks(tensor, table.table(4))
    except FormatError as e:
        raise e.at(f"tensor '{name}'") from e
    return tensor


def _read_constant(raw: memoryview, tensor: Tensor) -> np.ndarray | memoryview:
    if tensor.is_variable or tensor.shape is None or None in tensor.shape:
        raise FormatError("a constant has no fixed shape")
    expected = byte_count(tensor)
    if expected is not None and len(raw) != expected:
        raise FormatError(f"shape {list(tensor.shape)} needs {expected} bytes, its buffer has {len(raw)}")
    if tensor.dtype.name in schema.PACKED_BITS:
        return raw
    if not tensor.dtype.itemsize and tensor.dtype is not STRING:
        raise FormatError(f"a constant cannot be of type {tensor.dtype}")
    return array_of(raw, tensor)


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


def _read_quantization(
    table: Table | None, keeper: _Keeper, shape: tuple[int | None, ...] | None
) -> Quantization | None:
    if table is None:
        return None
    # The type of the union `details`.
    details = table.scalar(4, "u8")
    if details == blockwise.DETAILS:
        keeper.lose(blockwise.LOSS)
    elif details:
        keeper.lose("custom quantization is not supported")
    # Slots of QuantizationParameters: min, max, scale, zero_point, the union `details` in two, axis.
    low, high, scale = (table.numbers(slot, "f32") for slot in (0, 1, 2))
    # Some writers leave an empty table at every tensor.
    if not scale and not low and not high:
        return None
    axis = table.scalar(6, "i32")
    # Converters of 2019 wrote the weights' axis at biases, too; LiteRT refuses them today. A vector
    # has one axis alone, so that nothing else can be meant.
    if axis > 0 and shape is not None and len(shape) == 1 and shape[0] == len(scale or ()):
        axis = 0
        keeper.wrong_axes.append(table.place(6, "i32"))
    return Quantization(
        np.array(scale or (), np.float32),
        np.array(table.numbers(3, "i64") or (), np.int64),
        axis,
        np.array(low, np.float32) if low else None,
        np.array(high, np.float32) if high else None,
    )


def _read_subgraph(
    table: Table, tensors: list[Tensor], codes: list[tuple[str, str, int]], model: Table, keeper: _Keeper
) -> Subgraph:
    def pick(owner: Table, slot: int) -> list[Tensor]:
        return [_pick(tensors, i, "tensor") for i in owner.numbers(slot, "i32") or ()]

    # Slots of SubGraph: tensors, inputs, outputs, operators, name.
    subgraph = Subgraph(pick(table, 1), pick(table, 2), name=table.string(4) or "")
    for number, entry in enumerate(table.tables(3)):
        try:
            # Slots of Operator: code, inputs, outputs, options in two, custom options in two, variables that
            # it writes, intermediates, place and size of custom options behind the flatbuffer, more options
            # in two.
            code, custom_code, version = _pick(codes, entry.scalar(0, "u32"), "operator code")
            # -1 stands for an operand that is absent.
            inputs = [None if i == -1 else _pick(tensors, i, "tensor") for i in entry.numbers(1, "i32") or ()]
            subgraph.operators.append(
                Operator(
                    code,
                    inputs,
                    pick(entry, 2),
                    _options(code, entry, keeper),
                    custom_code=custom_code,
                    custom_options=_custom_options(entry, model),
                    version=version,
                    intermediates=pick(entry, 8),
                    mutating_inputs=entry.numbers(7, "bool") or (),
                )
            )
        except FormatError as e:
            raise e.at(f"operator {number}") from e
    _restore_empty_constants(subgraph, tensors)
    return subgraph


def _options(code: str, entry: Table, keeper: _Keeper) -> dict[str, Any]:
    try:
        return decode_options(code, entry)
    except UnknownOptions as error:
        keeper.lose(error.problem)
        return {}


def _restore_empty_constants(subgraph: Subgraph, tensors: list[Tensor]) -> None:
    """A constant without elements has no buffer to tell it by; what tells it is that nothing writes it."""
    written = {*subgraph.inputs, *(t for o in subgraph.operators for t in o.outputs)}
    for tensor in tensors:
        sizes, element = tensor.shape or (), tensor.dtype
        is_known = not tensor.is_variable and tensor.stored_bytes is None
        is_readable = element.itemsize > 0 or element is STRING
        if 0 in sizes and None not in sizes and is_known and is_readable and tensor not in written:
            tensor.data = np.empty([n or 0 for n in sizes], element.numpy())


def _custom_options(entry: Table, model: Table) -> bytes:
    offset, size = entry.scalar(9, "u64"), entry.scalar(10, "u64")
    view = model.beyond(offset, size) if offset > 1 else entry.blob(5)
    if view is None:
        return b""
    entry.charge(view)
    return bytes(view)


def _read_signatures(model: Table, members: list[list[Tensor]]) -> dict[str, Signature]:
    signatures = {}
    for entry in model.tables(7):
        # Slots of SignatureDef: inputs, outputs, key, one no longer used, number of the subgraph.
        tensors = _pick(members, entry.scalar(4, "u32"), "subgraph")
        sides: list[Mapping[str, Tensor]] = [
            {m.string(0) or "": _pick(tensors, m.scalar(1, "u32"), "tensor") for m in entry.tables(slot)}
            for slot in (0, 1)
        ]
        signatures[entry.string(2) or ""] = Signature(dict(sides[0]), dict(sides[1]))
    return signatures
