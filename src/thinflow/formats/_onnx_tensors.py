"""ONNX tensors and types as ours."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from thinflow.errors import FormatError
from thinflow.ir.tensor import RawStorage, Tensor
from thinflow.ir.types import BOOL, STRING, DType, Shape, TensorSpec, dtype
from thinflow.onnx import protos

if TYPE_CHECKING:
    import numpy as np

    from thinflow.formats._onnx_model import Model

# 32 dimensions are numpy's limit before 2.0; 2^55 elements of 16 bytes stay
# below the 2^63 bytes it can count.
_MAX_RANK, _MAX_ELEMENTS = 32, 2**55
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
    wanted = math.prod(shape) * (2 if element.kind == "c" else 1)
    if len(values) != wanted:
        raise FormatError(f"shape {list(shape)} needs {wanted} elements, the file holds {len(values)}")
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
        found = wide.astype(np.uint8).view(element.numpy()) if is_float else wide.astype(element.numpy())
        array: np.ndarray[Any, Any] = found.reshape(shape)
        array.flags.writeable = False
        return array
