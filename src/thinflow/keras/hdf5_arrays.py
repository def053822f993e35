"""Elements of a dataset in an HDF5 file of the old form: in one piece, or in chunks that may be packed."""

from __future__ import annotations

import math
import zlib
from itertools import product
from typing import Any

from thinflow.errors import FormatError
from thinflow.keras.hdf5_objects import DAMAGED, NOWHERE, Bytes, Datatype, Header, NewerForm, tree_leaves
from thinflow.typing import Array

_DEFLATE, _SHUFFLE, _CHECKSUM = 1, 2, 3
_COMPACT, _CONTIGUOUS, _CHUNKED = 0, 1, 2
_MAX_BYTES = 16 << 30
_MAX_CHUNK_BYTES = 1 << 32


def elements(file: Bytes, header: Header, where: str) -> Array:
    """The elements; in one piece as a view of the file.

    Raises:
        FormatError: they are not all there, or no numbers.
        NewerForm: they are stored in another way.
    """
    kind, shape, layout = header.type, header.shape, header.layout
    if header.is_external:
        raise FormatError("its elements are in another file", where, "do not trust this file")
    if kind is None or shape is None or layout is None:
        raise FormatError("it holds no elements", where, DAMAGED)
    element = _element(kind, where)
    size = math.prod(shape) * kind.size
    if layout.byte(0) != 3:
        raise NewerForm
    way = layout.byte(1)
    if way == _CHUNKED:
        return _chunked(file, header, layout, element, shape, where)
    if way == _COMPACT:
        data = layout.cut(4, layout.number(2, 2))
    elif way == _CONTIGUOUS and layout.number(2, 8) == NOWHERE:
        data = memoryview(b"")  # nothing was ever written
    else:
        data = file.cut(layout.number(2, 8), layout.number(10, 8))
    if len(data) < size or way > _CHUNKED:
        raise FormatError(f"it claims {size} bytes of elements, and {len(data)} are stored", where, DAMAGED)
    return _array(data[:size], element, shape)


def _element(kind: Datatype, where: str) -> Any:
    import numpy as np

    # Sizes of what Keras stores; bfloat16 stands as itself, or as two bytes of anything.
    sizes = {"f": (2, 4, 8), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "b": (1,), "V": (2,)}
    if kind.size not in sizes.get(kind.kind, ()):
        raise FormatError(f"its elements are no numbers (type {kind.kind or '?'}{kind.size})", where)
    if kind.kind == "V" or (kind.kind == "f" and kind.size == 2 and kind.exponent == 8):
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(f"{'>' if kind.is_big else '<'}{kind.kind}{kind.size}")


def _array(data: memoryview | bytes, element: Any, shape: tuple[int, ...]) -> Array:
    import numpy as np

    # Types that numpy does not know itself cannot be asked of frombuffer.
    plain = np.frombuffer(data, f"u{element.itemsize}" if element.kind == "V" else element)
    array: Array = plain.view(element).reshape(shape)
    return array.astype(element.newbyteorder("=")) if element.byteorder == ">" else array


# --- chunks -------------------------------------------------------------------------------------------------


def _chunked(
    file: Bytes, header: Header, layout: Bytes, element: Any, shape: tuple[int, ...], where: str
) -> Array:
    import numpy as np

    rank = len(shape)
    # The size of an element counts as one more axis.
    if layout.byte(2) != rank + 1:
        raise FormatError("its chunks have other axes than it has", where, DAMAGED)
    sizes = tuple(layout.number(11 + 4 * n, 4) for n in range(rank))
    chunk_bytes, size = math.prod(sizes) * element.itemsize, math.prod(shape) * element.itemsize
    if not chunk_bytes or chunk_bytes > _MAX_CHUNK_BYTES:
        raise FormatError(f"its chunks claim {chunk_bytes} bytes each", where, DAMAGED)
    key_size = 8 + 8 * (rank + 1)
    keys = tree_leaves(file, layout.number(3, 8), 1, key_size)
    wanted = math.prod(-(-n // c) for n, c in zip(shape, sizes, strict=True))
    filters = _filters(header.filters, where)
    places = {tuple(file.number(key + 8 + 8 * n, 8) for n in range(rank)): key for key in keys}
    stored = sum(file.number(key, 4) for key in places.values())
    # Deflate packs at most 1032 to 1: what claims more is not there.
    if len(places) < wanted or size > _MAX_BYTES or size > stored * (1100 if _DEFLATE in filters else 1):
        raise FormatError(f"it claims {size} bytes of elements, and {stored} are stored", where, DAMAGED)
    result: Array = np.empty(shape, element)
    starts = [range(0, n, c) for n, c in zip(shape, sizes, strict=True)]
    for place in product(*starts):
        if place not in places:
            raise FormatError(f"the chunk at {list(place)} is missing", where, DAMAGED)
        key = places[place]
        raw = file.cut(file.number(key + key_size, 8), file.number(key, 4))
        data = _unpacked(raw, filters, file.number(key + 4, 4), chunk_bytes, element.itemsize, where)
        chunk = _array(data, element, sizes)
        spans = tuple(slice(at, min(at + c, n)) for at, c, n in zip(place, sizes, shape, strict=True))
        result[spans] = chunk[tuple(slice(0, s.stop - s.start) for s in spans)]
    return result


def _filters(message: Bytes | None, where: str) -> list[int]:
    """Numbers of the ways in which chunks are packed, in the order of packing."""
    if message is None:
        return []
    version, count = message.byte(0), message.byte(1)
    at = 8 if version == 1 else 2
    found = []
    for _ in range(count):
        number = message.number(at, 2)
        # Version 2 names only filters that are not HDF5's own, and pads nothing; version 1 pads names to 8
        # bytes, and an odd number of values with one more.
        named = version == 1 or number >= 256
        length = message.number(at + 2, 2) if named else 0
        at += 2 if named else 0
        values = message.number(at + 4, 2)
        at += 6 + (length + 7) // 8 * 8 if version == 1 else 6 + length
        at += 4 * (values + values % 2 if version == 1 else values)
        found.append(number)
    if set(found) - {_DEFLATE, _SHUFFLE, _CHECKSUM}:
        raise FormatError(f"its elements are packed in a way that is not known (filter {max(found)})", where)
    return found


def _unpacked(
    raw: memoryview, filters: list[int], mask: int, chunk_bytes: int, item_bytes: int, where: str
) -> bytes | memoryview:
    """The bytes of a chunk; a bit of the mask says that a way of packing was left out."""
    import numpy as np

    data: bytes | memoryview = raw
    for place, number in reversed(list(enumerate(filters))):
        if mask >> place & 1:
            continue
        if number == _CHECKSUM:
            data = data[:-4]
        elif number == _DEFLATE:
            unpacker = zlib.decompressobj()
            try:
                # Never more than a chunk, whatever the packed bytes say; a checksum may be within.
                data = unpacker.decompress(data, chunk_bytes + 5)
            except zlib.error as error:
                raise FormatError(f"a chunk cannot be unpacked: {error}", where, DAMAGED) from error
        elif item_bytes > 1 and len(data) % item_bytes == 0:
            data = np.frombuffer(data, np.uint8).reshape(item_bytes, -1).T.tobytes()
    if len(data) != chunk_bytes:
        raise FormatError(f"a chunk holds {len(data)} bytes, not {chunk_bytes}", where, DAMAGED)
    return data
