"""Snappy blocks: every element kind, and damage that must not cost time or memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinflow.errors import FormatError
from thinflow.wire.fields import encode_varint
from thinflow.wire.sstable import decompress


def literal(text: bytes) -> bytes:
    if len(text) <= 60:
        return bytes([(len(text) - 1) << 2]) + text
    extra = (len(text) - 1).to_bytes(2, "little")
    return bytes([61 << 2]) + extra + text


def block(size: int, *elements: bytes) -> bytes:
    return encode_varint(size) + b"".join(elements)


def test_literals_short_and_long() -> None:
    assert decompress(block(3, literal(b"abc"))) == b"abc"
    long = bytes(range(256)) * 3
    assert decompress(block(768, literal(long))) == long


def test_copies_of_all_widths() -> None:
    # One byte: length 4..11 in bits 2-4, distance in bits 5-7 and the byte.
    assert decompress(block(8, literal(b"abcd"), bytes([0b000_000_01, 4]))) == b"abcdabcd"
    assert decompress(block(10, literal(b"abcd"), bytes([5 << 2 | 2, 4, 0]))) == b"abcdabcdab"
    assert decompress(block(10, literal(b"abcd"), bytes([5 << 2 | 3, 4, 0, 0, 0]))) == b"abcdabcdab"


def test_a_copy_may_reach_into_itself() -> None:
    assert decompress(block(12, literal(b"x"), bytes([10 << 2 | 2, 1, 0]))) == b"x" * 12


def test_nothing() -> None:
    assert decompress(block(0)) == b""


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "has no length"),
        (encode_varint(1 << 40) + b"abc", "claims 1099511627776 bytes"),
        (block(3, literal(b"abcd")), "holds more than it claims"),
        (block(9, literal(b"abcd")), "ends after 4 of 9"),
        (block(9, literal(b"abcd")[:-1]), "literal runs past the end"),
        (block(9, literal(b"abcd"), b"\x01"), "copy runs past the end"),
        (block(9, literal(b"abcd"), bytes([1, 9])), "reaches 9 bytes back of 4"),
        (block(9, literal(b"abcd"), bytes([1, 0])), "reaches 0 bytes back"),
    ],
)
def test_damage(data: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        decompress(data)


@given(st.binary(max_size=200))
def test_any_bytes_give_content_or_a_clear_error(data: bytes) -> None:
    try:
        content = decompress(data)
    except FormatError:
        return
    assert len(content) <= 22 * len(data)
