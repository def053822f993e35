"""AttrValue and TensorProto messages <-> the values of `ir.attrs`.

Tensor encodings: a non-empty `tensor_content` wins; else the typed list of the element type, whose last value
repeats to the end; values in another type's list are ignored. Source: TensorFlow's `Tensor::FromProto`,
checked against 2.21.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from thinflow.errors import FormatError
from thinflow.ir.attrs import Attr, FunctionAttr, OpaqueAttr, PlaceholderAttr, Scalar, ShapeAttr
from thinflow.ir.tensor import RawStorage, Tensor
from thinflow.ir.types import STRING, DType, dtype
from thinflow.wire import protos

if TYPE_CHECKING:
    import numpy as np

STREAMED_BYTES = 4096
"""Contents above this size are kept out of messages and written straight from where they are."""

# (field, numpy type of one stored value); complex values are stored as pairs.
_TYPED_FIELD: dict[str, tuple[str, str]] = {
    "float": ("float_val", "float32"),
    "double": ("double_val", "float64"),
    "complex64": ("scomplex_val", "float32"),
    "complex128": ("dcomplex_val", "float64"),
    "int64": ("int64_val", "int64"),
    "bool": ("bool_val", "bool"),
    "uint32": ("uint32_val", "uint32"),
    "uint64": ("uint64_val", "uint64"),
    "half": ("half_val", "uint16"),
    "bfloat16": ("half_val", "uint16"),
} | dict.fromkeys(("int32", "uint8", "int16", "int8", "uint16"), ("int_val", "int32"))
_TYPED_FIELD |= dict.fromkeys(("qint8", "quint8", "qint32", "qint16", "quint16"), ("int_val", "int32"))
_TYPED_FIELD |= dict.fromkeys(("int4", "uint4", "int2", "uint2"), ("int_val", "int32"))


class TypedStorage:
    """Elements in a typed list of a TensorProto; a list shorter than the tensor repeats its last value."""

    __slots__ = ("message",)

    def __init__(self, message: Any) -> None:
        self.message = message

    def _values(self, element: DType) -> Any:
        if element is STRING:
            return self.message.string_val
        if element.name.startswith("float8"):
            return self.message.float8_val
        field = _TYPED_FIELD.get(element.name)
        if field is None:
            raise FormatError(
                f"constants of type {element} cannot be read", hint="the node is carried through untouched"
            )
        return getattr(self.message, field[0])

    @property
    def is_splat(self) -> bool:
        element = dtype(self.message.dtype)
        if element is STRING:
            return False
        # None at all counts as one: an empty list stands for zeros.
        # A complex number takes two entries.
        return len(self._values(element)) <= (2 if element.kind == "c" else 1)

    @property
    def stored_bytes(self) -> int:
        element = dtype(self.message.dtype)
        values = self._values(element)
        if element is STRING:
            return sum(len(v) for v in values)
        count = len(values) // 2 if element.kind == "c" else len(values)
        return max(count, 1) * element.itemsize

    def read(self, element: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        import numpy as np

        values = self._values(element)
        count = math.prod(shape)
        array: np.ndarray[Any, Any]
        if element is STRING:
            array = np.empty(len(values), object)
            array[:] = list(values)
            default: Any = b""
        else:
            default = 0
            array = self._numbers(values, element)
        # More values than elements are ignored, as in TensorFlow.
        if len(array) > count:
            array = array[:count]
        if len(array) == count:
            result = array.reshape(shape)
        elif len(array) <= 1:
            one = (
                array[0]
                if len(array)
                else np.zeros((), element.numpy())[()]
                if element is not STRING
                else default
            )
            single = np.empty((), object if element is STRING else element.numpy())
            single[()] = one
            # One element in memory, whatever the shape: a splat of gigabytes costs
            # nothing until somebody copies it.
            result = np.broadcast_to(single, shape)
        else:
            result = np.empty(count, array.dtype)
            result[: len(array)] = array
            result[len(array) :] = array[-1]
            result = result.reshape(shape)
        result.flags.writeable = False
        return result

    @staticmethod
    def _numbers(values: Any, element: DType) -> np.ndarray[Any, Any]:
        import numpy as np

        if element.name.startswith("float8"):
            return np.frombuffer(bytes(values), np.uint8).view(element.numpy())
        stored = np.dtype(_TYPED_FIELD[element.name][1])
        if element.name in {"half", "bfloat16"}:
            # The field holds bit patterns, in integers of 32 bits: the lower 16 are the number.
            return np.array(values, np.int64).astype(np.uint16).view(element.numpy())
        numbers = np.array(values, stored)
        if element.kind == "c":
            # Real and imaginary part take turns; an odd one at the end has no partner.
            return numbers[: len(numbers) // 2 * 2].view(element.numpy())
        # Narrow integers wrap: uint8 300 is 44.
        return numbers.astype(element.numpy()) if numbers.dtype != element.numpy() else numbers


def decode_tensor(message: Any, content: memoryview | None = None) -> Tensor | None:
    """The constant in a TensorProto; None if its type can only be carried through.

    Args:
        message: the TensorProto, perhaps without its content.
        content: the `tensor_content` that was left in the file.
    """
    element = dtype(message.dtype)
    if not element.numpy_name:
        return None
    dims = tuple(d.size for d in message.tensor_shape.dim)
    if any(d < 0 for d in dims):
        raise FormatError(
            f"a constant has the shape {list(dims)}", hint="sizes of constants cannot be negative"
        )
    if content is not None and element.itemsize:
        return Tensor(element, dims, RawStorage(content))
    # A tensor without elements has no bytes to look at, whatever its content claims.
    if message.tensor_content and element.itemsize and math.prod(dims):
        return Tensor(element, dims, RawStorage(message.tensor_content))
    if message.tensor_content and element is STRING:
        return Tensor.from_array(_packed_strings(message.tensor_content, dims), STRING)
    return Tensor(element, dims, TypedStorage(message))


def _packed_strings(content: bytes, dims: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Strings in `tensor_content`: all lengths as varints, then all bytes."""
    import numpy as np

    from thinflow.wire.fields import read_varint

    count = math.prod(dims)
    if count > len(content):
        raise FormatError(f"{count} strings cannot fit into {len(content)} bytes")
    at, lengths = 0, []
    for _ in range(count):
        length, at = read_varint(content, at)
        lengths.append(length)
    if at + sum(lengths) != len(content):
        raise FormatError("the string lengths do not add up to the stored bytes")
    strings = np.empty(count, object)
    for i, length in enumerate(lengths):
        strings[i] = content[at : at + length]
        at += length
    return strings.reshape(dims)


def encode_tensor(tensor: Tensor, message: Any) -> memoryview | None:
    """Fill a TensorProto; contents above `STREAMED_BYTES` are returned instead of stored.

    The shorter of raw bytes and a repeated value is written, so splats stay small.
    """
    import numpy as np

    message.dtype = tensor.dtype.number
    # A scalar's shape has no dimensions and is written all the same, as TensorFlow writes it.
    message.tensor_shape.SetInParent()
    for size in tensor.shape:
        message.tensor_shape.dim.add().size = size
    if tensor.dtype is STRING:
        message.string_val.extend(tensor.numpy().ravel().tolist())
        return None
    if tensor.size == 0:
        return None
    array = tensor.numpy()
    field = _TYPED_FIELD.get(tensor.dtype.name)
    if field is not None and (tensor.size == 1 or tensor.is_splat):
        one = array.ravel()[:1]
        if tensor.dtype.kind == "c":
            getattr(message, field[0]).extend([one[0].real.item(), one[0].imag.item()])
        elif field[0] == "half_val":
            getattr(message, field[0]).append(int(one.view(np.uint16)[0]))
        else:
            getattr(message, field[0]).append(one.astype(field[1])[0].item())
        return None
    if isinstance(tensor.storage, RawStorage):
        raw = tensor.storage.buffer
    else:
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data.cast("B")
    if len(raw) > STREAMED_BYTES:
        return raw
    message.tensor_content = bytes(raw)
    return None


def decode_attr(value: Any, content: memoryview | None = None) -> Attr:
    """A Python value for an AttrValue; what is not understood comes back as OpaqueAttr."""
    kind = value.WhichOneof("value")
    if kind == "list":
        return _decode_list(value)
    decoded = _decode_scalar(value, kind, content)
    return OpaqueAttr(protos.serialize(value)) if decoded is None else decoded


def _decode_scalar(
    value: Any, kind: str | None, content: memoryview | None
) -> Scalar | PlaceholderAttr | None:
    match kind:
        case "s":
            return bytes(value.s)
        case "i":
            return int(value.i)
        case "f":
            return float(value.f)
        case "b":
            return bool(value.b)
        case "type":
            return dtype(int(value.type))
        case "shape":
            return decode_shape(value.shape)
        case "tensor":
            return decode_tensor(value.tensor, content)
        case "func":
            return decode_function(value.func)
        case "placeholder":
            return PlaceholderAttr(value.placeholder)
        case _:
            return None


def _decode_list(value: Any) -> Attr:
    items = value.list
    filled = [
        name for name in ("s", "i", "f", "b", "type", "shape", "tensor", "func") if len(getattr(items, name))
    ]
    if not filled:
        return ()
    # One list holds one kind of value; what mixes them is no list we know, and goes through as it is.
    if len(filled) > 1:
        return OpaqueAttr(protos.serialize(value))
    name = filled[0]
    entries = getattr(items, name)
    match name:
        case "type":
            return tuple(dtype(int(e)) for e in entries)
        case "shape":
            return tuple(decode_shape(e) for e in entries)
        case "func":
            return tuple(decode_function(e) for e in entries)
        case "tensor":
            tensors = [decode_tensor(e) for e in entries]
            known = tuple(t for t in tensors if t is not None)
            return known if len(known) == len(tensors) else OpaqueAttr(protos.serialize(value))
        case _:
            return tuple(entries)


def decode_shape(message: Any) -> ShapeAttr:
    """A TensorShapeProto; sizes below 0 mean unknown."""
    if message.unknown_rank:
        return ShapeAttr(None)
    return ShapeAttr(tuple(None if d.size < 0 else d.size for d in message.dim))


def decode_function(message: Any) -> FunctionAttr:
    """A NameAttrList."""
    return FunctionAttr(message.name, {k: decode_attr(v) for k, v in message.attr.items()})


def encode_attr(attr: Attr, message: Any) -> memoryview | None:
    """Fill an AttrValue; returns tensor content that is to be streamed."""
    if isinstance(attr, OpaqueAttr):
        message.MergeFromString(attr.raw)
    elif isinstance(attr, (tuple, list)):
        message.list.SetInParent()
        for item in attr:
            _encode_item(item, message.list)
    elif isinstance(attr, Tensor):
        message.tensor.SetInParent()
        return encode_tensor(attr, message.tensor)
    elif isinstance(attr, ShapeAttr):
        message.shape.SetInParent()
        encode_shape(attr, message.shape)
    elif isinstance(attr, FunctionAttr):
        message.func.name = attr.name
        encode_attrs(attr.attrs, message.func.attr)
    elif isinstance(attr, PlaceholderAttr):
        message.placeholder = attr.name
    else:
        name, value = _plain(attr)
        setattr(message, name, value)
    return None


def encode_attrs(attrs: Mapping[str, Attr], messages: Any) -> dict[str, memoryview]:
    """Fill a map of AttrValues; returns the contents to stream, by key."""
    streamed: dict[str, memoryview] = {}
    for key, attr in attrs.items():
        content = encode_attr(attr, messages[key])
        if content is not None:
            streamed[key] = content
    return streamed


def _plain(attr: bytes | int | float | bool | DType) -> tuple[str, Any]:
    if isinstance(attr, DType):
        return "type", attr.number
    if isinstance(attr, bool):  # before int: a bool is one
        return "b", attr
    if isinstance(attr, int):
        return "i", attr
    if isinstance(attr, float):
        return "f", attr
    if isinstance(attr, bytes):
        return "s", attr
    if isinstance(attr, str):
        return "s", attr.encode()
    raise TypeError(f"{type(attr).__name__} is not an attribute value")


def _encode_item(item: Scalar, items: Any) -> None:
    if isinstance(item, ShapeAttr):
        encode_shape(item, items.shape.add())
    elif isinstance(item, Tensor):
        message = items.tensor.add()
        content = encode_tensor(item, message)
        if content is not None:
            message.tensor_content = bytes(content)
    elif isinstance(item, FunctionAttr):
        message = items.func.add()
        message.name = item.name
        encode_attrs(item.attrs, message.attr)
    else:
        name, value = _plain(item)
        getattr(items, name).append(value)


def encode_shape(shape: ShapeAttr, message: Any) -> None:
    """Fill a TensorShapeProto."""
    if shape.dims is None:
        message.unknown_rank = True
        return
    for size in shape.dims:
        message.dim.add().size = -1 if size is None else size
