"""The messages of an .onnx file, parsed without the big elements in them; its tensors, types and ops."""

from __future__ import annotations

import heapq
import math
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.errors import FormatError
from thinflow.formats.files import map_file
from thinflow.formats.foreign import beside
from thinflow.ir.tensor import RawStorage, Tensor
from thinflow.ir.types import BOOL, STRING, DType, Shape, TensorSpec, dtype
from thinflow.onnx import protos
from thinflow.wire.fields import LENGTH_DELIMITED, encode_varint, field_header, iter_fields
from thinflow.wire.protos import parse

if TYPE_CHECKING:
    import numpy as np

_LARGE = 1024
"""Elements of more bytes than this are left where they are."""
# Limit of protobuf; weights do not count here, since the large ones are cut out before.
_MAX_NAME = 200
_MAX_MESSAGE = 2**31 - 1


@dataclass
class Model:
    """A parsed file.

    Attributes:
        message: the ModelProto without large elements.
        path: where the file is; None if it came as bytes.
        large: number of an initializer of the main graph -> its raw elements, a view of the file.
    """

    message: Any
    path: Path | None
    large: dict[int, memoryview]
    _files: dict[str, memoryview] = field(default_factory=dict)

    def external(self, places: dict[str, str]) -> memoryview:
        """Elements in another file.

        Raises:
            FormatError: the file is missing, too short, or would lie outside of the model's folder.
        """
        name = places.get("location", "")
        if self.path is None:
            raise FormatError(f"its elements are in the file '{name}'", hint="load the model from its file")
        if name not in self._files:
            self._files[name] = map_file(beside(self.path, name), unpack=False)
        data = self._files[name]
        offset = _number(places.get("offset", "0"))
        # Without a length everything from the offset on belongs to the tensor.
        length = _number(places.get("length", str(max(len(data) - offset, 0))))
        if offset + length > len(data):
            raise FormatError(f"its {length} bytes at byte {offset} run past the end of '{name}'")
        return data[offset : offset + length]


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise FormatError(f"'{text[:40]}' is no position in a file of weights")
    return int(text)


def parse_model(buffer: memoryview, path: Path | None) -> Model:
    """The model in a file.

    Raises:
        FormatError: not a ModelProto.
    """
    slim: list[bytes | memoryview] = []
    large: dict[int, memoryview] = {}
    count = 0
    for number, kind, start, end in iter_fields(buffer, 0, len(buffer)):
        if number == protos.GRAPH_FIELD and kind == LENGTH_DELIMITED:
            graph, count = _slim_graph(buffer, start, end, large, count)
            slim += [field_header(number, kind), encode_varint(len(graph)), graph]
        else:
            slim.append(_field(buffer, number, kind, start, end))
    if sum(map(len, slim)) > _MAX_MESSAGE:
        raise FormatError("there are more than 2 GiB of nodes in it")
    message = parse(protos.message("ModelProto"), b"".join(slim))
    return Model(message, path, large)


def _field(buffer: memoryview, number: int, kind: int, start: int, end: int) -> bytes:
    """A field with its tag."""
    size = encode_varint(end - start) if kind == LENGTH_DELIMITED else b""
    return field_header(number, kind) + size + bytes(buffer[start:end])


def _slim_graph(
    buffer: memoryview, start: int, end: int, large: dict[int, memoryview], count: int
) -> tuple[bytes, int]:
    """A GraphProto without large elements, and the number of initializers met so far."""
    parts: list[bytes] = []
    for number, kind, first, after in iter_fields(buffer, start, end):
        is_initializer = number == protos.INITIALIZER_FIELD and kind == LENGTH_DELIMITED
        if is_initializer and after - first > _LARGE:
            tensor = b"".join(_slim_tensor(buffer, first, after, large, count))
            parts += [field_header(number, kind), encode_varint(len(tensor)), tensor]
        else:
            parts.append(_field(buffer, number, kind, first, after))
        # Small initializers count, too: the number is the place in the parsed message's list.
        count += is_initializer
    return b"".join(parts), count


def _slim_tensor(
    buffer: memoryview, start: int, end: int, large: dict[int, memoryview], count: int
) -> Iterator[bytes]:
    for number, kind, first, after in iter_fields(buffer, start, end):
        is_raw = number == protos.RAW_DATA_FIELD and kind == LENGTH_DELIMITED
        if is_raw and after - first > _LARGE:
            large[count] = buffer[first:after]
        else:
            yield _field(buffer, number, kind, first, after)


# --- tensors and types as ours ------------------------------------------------------------------------------


# 32 dimensions are numpy's limit before 2.0; 2^55 elements of 16 bytes stay
# below the 2^63 bytes it can count.
_MAX_RANK, _MAX_ELEMENTS = 32, 2**55
# Newer types get numbers apart, so that nothing takes one for a type that it knows.
_UNKNOWN_TYPES = 2000
_NARROW = {"half": "uint16", "bfloat16": "uint16"}


def element_type(number: int) -> DType | None:
    """Our type for a TensorProto.DataType; None for "undefined"."""
    if not number:
        return None
    name = protos.READABLE_TYPES.get(number)
    return dtype(name) if name is not None else dtype(_UNKNOWN_TYPES + abs(number))


def spec_of(info: Any) -> TensorSpec:
    """Type and shape that a ValueInfoProto states."""
    if info.type.WhichOneof("value") != "tensor_type":
        return TensorSpec()
    kind = info.type.tensor_type
    if not kind.HasField("shape"):
        return TensorSpec(element_type(kind.elem_type))
    shape: Shape = tuple(
        d.dim_value if d.WhichOneof("value") == "dim_value" and d.dim_value >= 0 else None
        for d in kind.shape.dim
    )
    return TensorSpec(element_type(kind.elem_type), shape)


def size_names(info: Any) -> tuple[str, ...]:
    """The names that a ValueInfoProto gives to open sizes, "" for one without; nothing if none has a name."""
    dims = info.type.tensor_type.shape.dim if info.type.WhichOneof("value") == "tensor_type" else ()
    names = tuple(d.dim_param[:_MAX_NAME] if d.WhichOneof("value") == "dim_param" else "" for d in dims)
    return names if any(names) else ()


def tensor_of(message: Any, model: Model, large: memoryview | None = None) -> Tensor:
    """A constant; its elements are a view of the file where they are stored as raw bytes.

    Args:
        message: a TensorProto.
        model: the file, for elements in another one.
        large: the raw elements that were left out of the message.

    Raises:
        FormatError: the elements do not fit the shape.
    """
    try:
        return _tensor(message, model, large)
    except FormatError as error:
        raise error.at(f"tensor '{message.name}'") from error


def _tensor(message: Any, model: Model, large: memoryview | None) -> Tensor:
    shape = checked_shape(message.dims)
    element = element_type(message.data_type)
    if element is None:
        raise FormatError("its element type is undefined")
    if message.data_location == protos.EXTERNAL:
        raw: memoryview | None = model.external({e.key: e.value for e in message.external_data})
    elif large is not None:
        raw = large
    else:
        raw = memoryview(message.raw_data) if message.HasField("raw_data") else None
    if element is STRING:
        return _strings(message, shape)
    if raw is None:
        return _typed(message, element, shape)
    bits = protos.PACKED_BITS.get(element.name)
    if bits:
        return _packed(raw, element, shape, bits)
    if not element.itemsize:
        return Tensor(element, shape, RawStorage(raw))  # of a newer type: carried through
    if len(raw) != math.prod(shape) * element.itemsize:
        raise FormatError(f"shape {list(shape)} needs {math.prod(shape) * element.itemsize} bytes, "
                          f"the file holds {len(raw)}")  # fmt: skip
    return Tensor(element, shape, RawStorage(raw))


def checked_shape(dims: Any) -> tuple[int, ...]:
    """Sizes that every numpy can hold.

    Raises:
        FormatError: they are negative, too many or too large.
    """
    shape = tuple(dims)
    if len(shape) > _MAX_RANK or any(d < 0 for d in shape):
        raise FormatError(f"shape {list(shape)[:_MAX_RANK]} makes no sense")
    # A size of 0 must not hide sizes beside it whose strides would overflow.
    if math.prod(max(d, 1) for d in shape) > _MAX_ELEMENTS:
        raise FormatError(f"shape {list(shape)} makes no sense")
    return shape


def _strings(message: Any, shape: tuple[int, ...]) -> Tensor:
    import numpy as np

    if len(message.string_data) != math.prod(shape):
        raise FormatError(f"shape {list(shape)} needs {math.prod(shape)} strings, "
                          f"the file holds {len(message.string_data)}")  # fmt: skip
    items = np.empty(math.prod(shape), object)
    items[:] = list(message.string_data)
    return Tensor.from_array(items.reshape(shape), STRING)


def _typed(message: Any, element: DType, shape: tuple[int, ...]) -> Tensor:
    """Elements in the repeated field of their type; narrow ones are stored in wider fields."""
    import numpy as np

    name = element.name
    field = {"float": "float_data", "double": "double_data", "int64": "int64_data"}.get(name, "int32_data")
    field = {"uint32": "uint64_data", "uint64": "uint64_data"}.get(name, field)
    field = {"complex64": "float_data", "complex128": "double_data"}.get(name, field)
    # `TensorProto` in onnx.proto: what is narrower than 32 bits is in int32_data, uint32 in uint64_data.
    values = getattr(message, field)
    bits = protos.PACKED_BITS.get(name)
    if bits:
        return _packed(memoryview(bytes(v & 255 for v in values)), element, shape, bits)
    count = math.prod(shape) * (2 if element.kind == "c" else 1)
    if len(values) != count:
        raise FormatError(f"shape {list(shape)} needs {count} elements, the file holds {len(values)}")
    if not element.itemsize:
        return Tensor(element, shape, RawStorage(b""))
    if element.kind == "c":
        # Real and imaginary part take turns.
        pairs = np.array(values, "float32" if name == "complex64" else "float64")
        return Tensor.from_array(pairs.view(element.numpy()).reshape(shape), element)
    # These hold bit patterns, not numbers.
    if name in _NARROW or name.startswith("float8"):
        stored = np.array(values, np.int64).astype(np.uint16 if element.itemsize == 2 else np.uint8)
        return Tensor.from_array(stored.view(element.numpy()).reshape(shape), element)
    # Of uint64 numpy finds the type itself: int64 does not hold the upper half.
    array = np.array(values, np.float64 if element.is_floating else np.int64 if name != "uint64" else None)
    narrowed = array.astype(bool if element is BOOL else element.numpy())
    return Tensor.from_array(narrowed.reshape(shape), element)


def _packed(raw: memoryview, element: DType, shape: tuple[int, ...], bits: int) -> Tensor:
    """Elements of less than a byte, unpacked."""
    count = math.prod(shape)
    if len(raw) != -(-count * bits // 8):
        raise FormatError(f"shape {list(shape)} needs {-(-count * bits // 8)} bytes, it has {len(raw)}")
    return Tensor(element, shape, PackedStorage(raw, bits))


class PackedStorage:
    """Elements of a few bits, the first of each byte in its low bits; unpacked when somebody asks."""

    __slots__ = ("_bits", "_raw")

    def __init__(self, raw: memoryview, bits: int) -> None:
        self._raw = raw
        self._bits = bits

    @property
    def stored_bytes(self) -> int:
        return len(self._raw)

    @property
    def is_splat(self) -> bool:
        return False

    def read(self, element: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        import numpy as np

        bits = self._bits
        shifts = np.arange(8 // bits, dtype=np.uint8) * bits
        # The last byte may have more places than there are elements left.
        wide = (np.frombuffer(self._raw, np.uint8)[:, None] >> shifts).reshape(-1)[: math.prod(shape)]
        wide = wide & (2**bits - 1)
        if element.kind == "i":
            # Up to the top of the byte and back: the arithmetic shift of a
            # signed number copies the sign down.
            wide = (wide << (8 - bits)).view(np.int8) >> (8 - bits)
        is_float = element.is_floating
        elements = wide.astype(np.uint8).view(element.numpy()) if is_float else wide.astype(element.numpy())
        array: np.ndarray[Any, Any] = elements.reshape(shape)
        array.flags.writeable = False
        return array


# --- bodies of control flow


MOST_NESTED = 16
"""Bodies inside bodies."""


def free_names(graph: Any, depth: int = 0) -> list[str]:
    """Values that a body reads from the graphs around it, in the order of reading."""
    if depth > MOST_NESTED:
        raise FormatError("its graphs are nested too deeply")
    known = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    known |= {s.values.name for s in graph.sparse_initializer}
    free: dict[str, None] = {}
    for node in graph.node:
        # Nodes are in topological order in ONNX: what is known so far is what a node may read.
        inner = [n for a in node.attribute for b in graphs_in(a) for n in free_names(b, depth + 1)]
        free.update(dict.fromkeys(n for n in (*node.input, *inner) if n and n not in known))
        known.update(node.output)
    free.update(dict.fromkeys(o.name for o in graph.output if o.name not in known))
    return list(free)


def running_order(nodes: Sequence[Any]) -> list[int]:
    """The places of nodes, each behind those that it reads, and otherwise as they stand.

    ONNX demands that they stand so, and ONNX Runtime does not: there are files in any order. What is in a
    circle comes last.
    """
    maker = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    waits = [{maker[name] for name in _read_by(node) if name in maker} for node in nodes]
    if all(place > max(needed, default=-1) for place, needed in enumerate(waits)):
        return list(range(len(nodes)))
    readers: list[list[int]] = [[] for _ in nodes]
    for place, needed in enumerate(waits):
        for other in needed:
            readers[other].append(place)
    ready = [place for place, needed in enumerate(waits) if not needed]
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        for place in readers[order[-1]]:
            waits[place].remove(order[-1])
            if not waits[place]:
                heapq.heappush(ready, place)
    return order + [place for place, needed in enumerate(waits) if needed]


def _read_by(node: Any) -> list[str]:
    """What a node reads, with what its bodies read from around them."""
    bodies = [body for attribute in node.attribute for body in graphs_in(attribute)]
    return [*node.input, *(name for body in bodies for name in free_names(body))]


def graphs_in(attribute: Any) -> list[Any]:
    """The bodies of control flow that an attribute holds."""
    return ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs)


def guessed_kind(message: Any) -> int:
    """The type of an attribute of an old file that does not state it."""
    for name in ("f", "i", "s", "t"):
        if message.HasField(name):
            return protos.ATTRIBUTE_TYPES[name]
    for name in ("floats", "ints", "strings", "tensors"):
        if len(getattr(message, name)):
            return protos.ATTRIBUTE_TYPES[name]
    return 0


# --- the ops a file is made of ------------------------------------------------------------------------------


_OWN = "ai.onnx"


def needed_ops(data: memoryview) -> dict[tuple[str, int], set[str]]:
    """Domain ("" is ONNX's own) and version of its op set -> names of ops, those of inner graphs included.

    Raises:
        FormatError: the bytes are no model.
    """
    message = parse_model(data, None).message
    versions = {_domain(o.domain): int(o.version) for o in message.opset_import}
    ops: dict[tuple[str, int], set[str]] = defaultdict(set)
    pending = [message.graph]
    while pending:
        for node in pending.pop().node:
            domain = _domain(node.domain)
            ops[domain, versions.get(domain, 1)].add(node.op_type)
            pending.extend(_bodies(node))
    return dict(ops)


def _domain(name: str) -> str:
    return "" if name == _OWN else name


def _bodies(node: Any) -> list[Any]:
    """The graphs in the attributes of a node."""
    single = [a.g for a in node.attribute if a.HasField("g")]
    return [*single, *(g for a in node.attribute for g in a.graphs)]


def external_bytes(path: str | os.PathLike[str]) -> int:
    """Bytes of the files of weights that an .onnx file names.

    Raises:
        FormatError: one is missing, or lies outside of the model's folder; or it is no such file.
    """
    file = Path(path)
    # Elements are left where they are: only what is beside them is parsed.
    message = parse_model(map_file(file), file).message
    named = [e.value for i in message.graph.initializer for e in i.external_data if e.key == "location"]
    return sum(os.path.getsize(beside(file, name)) for name in dict.fromkeys(named))
