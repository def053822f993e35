"""Snappy's raw block format, reading only: what some releases compressed the blocks of a table with.

A block is the length of its content as a varint, then elements. The lowest two bits of an element's first
byte say what it is: a literal, or a copy of something already written, whose distance takes one byte and
three bits, two bytes or four.
"""

from __future__ import annotations

from thinflow.errors import FormatError
from thinflow.wire.fields import read_varint

MAX_CONTENT_BYTES = 1 << 30
"""A block that claims more is refused: the tables that use this hold blocks of 256 KiB."""
_MAX_RATIO = 22  # the densest element, a copy, stands for 64 bytes in 3


def decompress(block: bytes | memoryview) -> bytes:
    """The content of a block.

    Raises:
        FormatError: it is damaged, or claims an absurd size.
    """
    view = memoryview(block).cast("B")
    try:
        size, at = read_varint(view, 0)
    except (FormatError, IndexError) as e:
        raise _damaged("it has no length") from e
    if size > MAX_CONTENT_BYTES or size > _MAX_RATIO * len(view):
        raise _damaged(f"it claims {size} bytes in {len(view)}")
    out = bytearray()
    while at < len(view):
        at = _element(view, at, out)
        if len(out) > size:
            raise _damaged("it holds more than it claims")
    if len(out) != size:
        raise _damaged(f"it ends after {len(out)} of {size} bytes")
    return bytes(out)


def _element(view: memoryview, at: int, out: bytearray) -> int:
    """Append what one element stands for; where the next one starts."""
    tag = view[at]
    kind = tag & 3
    if kind == 0:
        length = (tag >> 2) + 1
        # Tags of 61 to 64 mean that the length stands in the next one to four bytes.
        extra = max(0, length - 60)
        start = at + 1 + extra
        if extra:
            length = int.from_bytes(view[at + 1 : start], "little") + 1
        if start + length > len(view):
            raise _damaged("a literal runs past the end")
        out += view[start : start + length]
        return start + length
    width = (1, 2, 4)[kind - 1]
    if at + 1 + width > len(view):
        raise _damaged("a copy runs past the end")
    distance = int.from_bytes(view[at + 1 : at + 1 + width], "little")
    length = (tag >> 2) + 1
    if kind == 1:
        # Three bits of length, since a copy below four bytes would save nothing; three
        # bits of distance above the byte's.
        length = ((tag >> 2) & 7) + 4
        distance |= (tag >> 5) << 8
    _copy(out, distance, length)
    return at + 1 + width


def _copy(out: bytearray, distance: int, length: int) -> None:
    """Repeat what stands `distance` bytes back; the source may reach into what is being written."""
    if not 0 < distance <= len(out):
        raise _damaged(f"a copy reaches {distance} bytes back of {len(out)}")
    # A distance shorter than the length repeats a pattern, such as a run of one byte.
    piece = bytes(out[-distance:])[:length]
    out += (piece * (length // len(piece) + 1))[:length]


def _damaged(problem: str) -> FormatError:
    return FormatError(f"a Snappy block is damaged: {problem}", hint="copy the file again from its source")
