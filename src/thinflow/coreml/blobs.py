"""The file of weights in a package: blobs, each behind a record that says what it is.

A header of 64 bytes has the number of blobs and the version of the format. A record, at a multiple of 64,
begins with a mark, then says the type, the size in bytes and the place of the data. All numbers are
little-endian.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from thinflow.errors import FormatError

_ALIGNMENT = 64
_HEADER = struct.Struct("<II")
_RECORD = struct.Struct("<IIQQ")
# The sentinel and the version of MILBlob's StorageFormat.hpp in coremltools.
_MARK, _VERSION = 0xDEADBEEF, 2
BLOB_TYPES = {
    1: "half", 2: "float", 3: "uint8", 4: "int8", 5: "bfloat16", 6: "int16", 7: "uint16", 8: "int4",
    11: "uint4", 14: "int32", 15: "uint32",
}  # fmt: skip
"""Type in a record -> TensorFlow's type name."""
_HINT = "the package is damaged or was cut short; fetch it again"


@dataclass(frozen=True)
class Blob:
    """One blob: its type, "" for a type that is not known here, and its bytes in the mapped file."""

    element: str
    data: memoryview


def check_header(file: memoryview) -> None:
    """Refuse a file that holds no blobs.

    Raises:
        FormatError: it is of another kind or version, or cut short.
    """
    if len(file) < _ALIGNMENT:
        raise FormatError(f"its file of weights has {len(file)} bytes, fewer than its header", hint=_HINT)
    _, version = _HEADER.unpack_from(file)
    if version != _VERSION:
        raise FormatError(
            f"its file of weights is of version {version}; version {_VERSION} is known",
            hint="write the package with coremltools 5 or newer",
        )


def blob_at(file: memoryview, offset: int) -> Blob:
    """The blob whose record is at an offset; its bytes stay in the file.

    Raises:
        FormatError: there is none, or it reaches beyond the file.
    """
    if offset % _ALIGNMENT or offset < _ALIGNMENT or offset + _ALIGNMENT > len(file):
        raise FormatError("no weights begin here", f"byte {offset} of its weights", _HINT)
    mark, element, size, start = _RECORD.unpack_from(file, offset)
    if mark != _MARK:
        raise FormatError("no weights begin here", f"byte {offset} of its weights", _HINT)
    if start < offset + _ALIGNMENT or start > len(file) or size > len(file) - start:
        raise FormatError(
            f"weights of {size} bytes from byte {start} on would reach beyond its {len(file)} bytes",
            f"byte {offset} of its weights",
            _HINT,
        )
    return Blob(BLOB_TYPES.get(element, ""), file[start : start + size])
