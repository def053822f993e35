"""The bytes of constants, and back: weights are written straight from their arrays and read as views."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from thinflow.errors import FormatError, GraphError
from thinflow.ir.types import STRING
from thinflow.program.model import Tensor
from thinflow.tflite import schema
from thinflow.wire.flatbuffer import Blob


def blob_of(tensor: Tensor) -> Blob:
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


def byte_count(tensor: Tensor) -> int | None:
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


def array_of(raw: memoryview, tensor: Tensor) -> np.ndarray:
    shape = tuple(n or 0 for n in tensor.shape or ())
    if tensor.dtype is STRING:
        return _decode_strings(raw, shape)
    bits = schema.PACKED_BITS.get(tensor.dtype.name)
    if bits:
        return _unpack(raw, bits, tensor)
    element = tensor.dtype.numpy()
    return np.frombuffer(raw, element).reshape(shape)
