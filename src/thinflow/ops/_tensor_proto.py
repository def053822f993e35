"""TensorProto as bytes, both ways. Source: TensorFlow's `tensor.proto`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thinflow.errors import FormatError
from thinflow.ir.types import STRING, DType, dtype
from thinflow.typing import Array
from thinflow.wire.fields import FIXED32, FIXED64, LENGTH_DELIMITED, VARINT, encode_varint, read_varint
from thinflow.wire.values import iter_values, packed_varints, put, signed

# Field numbers: dtype, tensor_shape, tensor_content, string_val.
_TYPE, _SHAPE, _CONTENT, _STRINGS = 1, 2, 4, 8
# Numbers of the repeated `*_val` fields: float, double, scomplex, dcomplex; and int, int64, bool, half (its
# bits), uint32, uint64.
_FIXED = {5: "<f4", 6: "<f8", 9: "<f4", 12: "<f8"}
_VARINTS = {7, 10, 11, 13, 16, 17}
# Repeated numbers stand one by one or packed.
_KINDS = {
    _TYPE: (VARINT,),
    **dict.fromkeys((_SHAPE, _CONTENT, _STRINGS), (LENGTH_DELIMITED,)),
    **dict.fromkeys((5, 9), (FIXED32, LENGTH_DELIMITED)),
    **dict.fromkeys((6, 12), (FIXED64, LENGTH_DELIMITED)),
    **dict.fromkeys(_VARINTS, (VARINT, LENGTH_DELIMITED)),
}
MAX_ELEMENTS = 1 << 31


def tensor_bytes(x: Array, element: DType | None = None) -> bytes:
    """A TensorProto as TensorFlow's SerializeTensor writes it."""
    kind = element or dtype(x.dtype)
    head = _head(x.shape, kind)
    if x.dtype.hasobject:
        return head + b"".join(put(_STRINGS, word) for word in x.ravel().tolist())
    content = np.ascontiguousarray(x).tobytes()
    return head + (put(_CONTENT, content) if content else b"")


def tensor_content(x: Array) -> bytes:
    """A TensorProto with all elements in `tensor_content`; strings as their lengths, then their bytes."""
    if not x.dtype.hasobject:
        return tensor_bytes(x)
    words = x.ravel().tolist()
    content = b"".join(encode_varint(len(w)) for w in words) + b"".join(words)
    return _head(x.shape, STRING) + (put(_CONTENT, content) if content else b"")


def _head(shape: tuple[int, ...], kind: DType) -> bytes:
    # proto3 leaves zeros out: a size of 0 is an empty message, not an absent one.
    dims = b"".join(put(2, put(1, d) if d else b"") for d in shape)
    return put(_TYPE, kind.number) + put(_SHAPE, dims)


def parsed_tensor(data: bytes) -> tuple[DType, Array]:
    """The tensor in a TensorProto, and its element type.

    Raises:
        FormatError: it is none.
    """
    element, content = dtype(0), b""
    shape: tuple[int, ...] = ()
    strings: list[bytes] = []
    values: list[Any] = []
    for number, kind, value in iter_values(data):
        if kind not in _KINDS.get(number, (kind,)):
            raise FormatError(
                f"field {number} of the message has the wire type {kind}", hint="the message is damaged"
            )
        if number == _TYPE:
            element = dtype(int(value))
        elif number == _SHAPE:
            shape = _shape(value)
        elif number == _CONTENT:
            content = value
        elif number == _STRINGS:
            strings.append(value)
        elif number in _FIXED:
            values += packed_numbers(value, _FIXED[number]).tolist()
        elif number in _VARINTS:
            values += packed_varints(value) if kind == LENGTH_DELIMITED else [signed(value)]
    return element, _filled(element, shape, content, strings or values)


def packed_numbers(data: bytes, element: str) -> Array:
    """Packed numbers of a fixed size.

    Args:
        element: numpy's name of their type, little endian.
    """
    kind = np.dtype(element)
    if len(data) % kind.itemsize:
        raise FormatError(
            f"{len(data)} bytes do not make numbers of {kind.itemsize}", hint="check what is fed to this node"
        )
    return np.frombuffer(data, kind)


def _shape(data: bytes) -> tuple[int, ...]:
    dims: list[int] = []
    for number, kind, value in iter_values(data):
        if number == 2 and kind == LENGTH_DELIMITED:
            dims.append(next((signed(v) for n, k, v in iter_values(value) if n == 1 and k == VARINT), 0))
        # `unknown_rank`; refused below with unknown sizes, as a value has a shape.
        elif number == 3 and kind == VARINT and value:
            dims.append(-1)
    if any(d < 0 for d in dims) or math.prod(dims) > MAX_ELEMENTS:
        raise FormatError(f"the message has a tensor of shape {dims}", hint="check what is fed to this node")
    return tuple(dims)


def _filled(element: DType, shape: tuple[int, ...], content: bytes, values: list[Any]) -> Array:
    """The elements; the last one repeats, as in every TensorProto, and none are zeros."""
    if not element.numpy_name:
        raise FormatError(f"a tensor of {element} cannot be read", hint="check what is fed to this node")
    size, kind = math.prod(shape), element.numpy()
    if content and kind.hasobject:
        return _strings_of(content, size).reshape(shape)
    if content:
        if len(content) != size * kind.itemsize:
            raise FormatError(
                f"{len(content)} bytes do not make {size} of {element}", hint="the message is damaged"
            )
        # A view of the message, not a copy.
        return np.frombuffer(content, kind).reshape(shape)
    # int_val and int64_val are signed on the wire, so that large unsigned numbers come out negative.
    if element.kind == "u":
        values = [v % (1 << 8 * element.itemsize) for v in values]
    if element.kind == "c":
        values = [complex(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
    if len(values) > size:
        raise FormatError(f"{len(values)} values for {size} elements", hint="the message is damaged")
    if not values:
        empty: Any = b"" if kind.hasobject else 0
        return np.full(shape, empty, kind)
    stored: Array = np.empty(len(values), kind)
    stored[:] = (
        np.array(values).astype(np.uint16).view(kind) if element.name in ("half", "bfloat16") else values
    )
    # TensorProto leaves out trailing repetitions: the last value stands for all that are missing.
    flat = np.concatenate([stored, np.repeat(stored[-1:], size - len(stored))])
    return flat.reshape(shape)


def _strings_of(content: bytes, count: int) -> Array:
    """`count` strings from their lengths and their bytes."""
    at, lengths = 0, list[int]()
    while len(lengths) < count:
        length, at = read_varint(content, at)
        lengths.append(length)
    if at + sum(lengths) != len(content):
        raise FormatError(f"{len(content)} bytes do not make {count} strings", hint="the message is damaged")
    words: Array = np.empty(count, object)
    for index, length in enumerate(lengths):
        words[index] = content[at : at + length]
        at += length
    return words
