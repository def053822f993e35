"""The keys under which a checkpoint keeps the parts of partitioned variables, and what the parts mean.

A key is written so that keys sort as their parts do (TensorFlow's "ordered code"): the number 0, the
variable's name, its rank, then start and length per dimension, where start 0 and length -1 stand for the
whole dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from thinflow.errors import FormatError

WHOLE = -1
"""The length of an extent that takes in its whole dimension."""

_ESCAPES = {0x00: b"\x00\xff", 0xFF: b"\xff\x00"}  # apart from the end mark, and sorting as the text does


@dataclass(frozen=True)
class Slice:
    """A part of a tensor: start and length per dimension; length -1 is everything from there."""

    extents: tuple[tuple[int, int], ...]

    def resolved(self, shape: Sequence[int]) -> tuple[slice, ...]:
        """The part as numpy indices into a tensor of that shape.

        Raises:
            FormatError: it does not lie inside.
        """
        # No extents at all is the whole tensor, of whatever rank.
        if self.extents and len(self.extents) != len(shape):
            raise FormatError(f"a part of {len(self.extents)} dimensions belongs to a tensor of {len(shape)}")
        parts = []
        for size, (start, length) in zip(shape, self.extents or [(0, WHOLE)] * len(shape), strict=True):
            stop = size if length == WHOLE else start + length
            if not 0 <= start <= stop <= size:
                raise FormatError(f"a part from {start} to {stop} lies outside a dimension of {size}")
            parts.append(slice(start, stop))
        return tuple(parts)

    def shape(self, full: Sequence[int]) -> tuple[int, ...]:
        """Its sizes, given those of the whole tensor."""
        return tuple(part.stop - part.start for part in self.resolved(full))

    @classmethod
    def of(cls, message: object) -> Slice:
        """From a TensorSliceProto; an extent without a length is a whole dimension."""
        extents = getattr(message, "extent")  # noqa: B009 - the class exists only at run time
        lengths = [e.length if e.WhichOneof("has_length_hack") else WHOLE for e in extents]
        return cls(tuple((e.start, length) for e, length in zip(extents, lengths, strict=True)))


@dataclass(frozen=True)
class Place:
    """The place of a value, or of a part of one.

    Attributes:
        file: the shard.
        offset: its first byte in there; None where values stand in blocks that may be compressed.
        size: bytes it takes.
        part: which part of a partitioned variable; None for a whole variable.
    """

    file: Path
    offset: int | None
    size: int
    part: Slice | None = None


def encode_key(name: bytes, part: Slice) -> bytes:
    """The key of one part of a variable."""
    key = _number(0) + _string(name) + _number(len(part.extents))
    return key + b"".join(_signed(start) + _signed(length) for start, length in part.extents)


def decode_key(key: bytes) -> tuple[bytes, Slice]:
    """The variable's name and the part a key stands for.

    Raises:
        FormatError: this is not such a key.
    """
    try:
        zero, at = _read_number(key, 0)
        name, at = _read_string(key, at)
        rank, at = _read_number(key, at)
        # 254 is the most dimensions that a TensorShape of TensorFlow has.
        if zero != 0 or rank > 254:
            raise FormatError("a part's key begins wrongly")
        extents = []
        for _ in range(rank):
            start, at = _read_signed(key, at)
            length, at = _read_signed(key, at)
            extents.append((start, length))
    except IndexError:
        raise FormatError("a part's key ends too early") from None
    if at != len(key):
        raise FormatError("a part's key is longer than it should be")
    return name, Slice(tuple(extents))


def _number(value: int) -> bytes:
    # No digits for 0; the count in front makes longer, and thus larger, numbers sort later.
    digits = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([len(digits)]) + digits


def _read_number(key: bytes, at: int) -> tuple[int, int]:
    end = at + 1 + key[at]
    if end > len(key):
        raise IndexError
    return int.from_bytes(key[at + 1 : end], "big"), end


def _string(text: bytes) -> bytes:
    return b"".join(_ESCAPES.get(byte, bytes([byte])) for byte in text) + b"\x00\x01"


def _read_string(key: bytes, at: int) -> tuple[bytes, int]:
    out = bytearray()
    while True:
        byte = key[at]
        if byte == 0x00:
            if key[at + 1] == 0x01:
                return bytes(out), at + 2
            if key[at + 1] != 0xFF:
                raise FormatError("a part's key holds an unknown escape")
            out.append(0x00)
            at += 2
        elif byte == 0xFF:
            if key[at + 1] != 0x00:
                raise FormatError("a part's key holds an unknown escape")
            out.append(0xFF)
            at += 2
        else:
            out.append(byte)
            at += 1


def _signed(value: int) -> bytes:
    size = 1
    # Of each byte's eight bits one goes into the length in front, as in a varint; 7 are left for the number.
    while not -(1 << (7 * size - 1)) <= value < 1 << (7 * size - 1):
        size += 1
    # The length is told by leading ones of non-negative values, zeros of negative ones, in the first bytes.
    plain = (value & ((1 << 8 * size) - 1)) ^ _header(size)
    return plain.to_bytes(size, "big")


def _header(size: int) -> int:
    """`size` one bits at the top of a value of so many bytes."""
    return ((1 << size) - 1) << (7 * size)


def _read_signed(key: bytes, at: int) -> tuple[int, int]:
    # At most ten leading bits tell the size, so that two bytes hold them; 64 bits need 10 bytes of 7.
    first = int.from_bytes(key[at : at + 2].ljust(2, b"\0"), "big")
    if at >= len(key):
        raise IndexError
    negative = not first & 0x8000
    lead = first ^ 0xFFFF if negative else first
    size = 16 - (lead ^ 0xFFFF).bit_length()
    if size > 10 or at + size > len(key):
        raise IndexError
    value = int.from_bytes(key[at : at + size], "big") ^ _header(size)
    if negative:
        value -= 1 << 8 * size
    return value, at + size
