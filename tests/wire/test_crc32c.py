"""CRC-32C against its published check values and a bit-by-bit definition."""

from __future__ import annotations

import random
import sys

import pytest

from thinflow.wire.crc32c import _words, crc32c, masked


def by_definition(data: bytes, crc: int = 0) -> int:
    register = crc ^ 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_published_values(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


# Around the sizes at which the way of computing changes.
@pytest.mark.parametrize("size", [1, 1023, 1024, 1025, 1028, 16383, 16384, 16385, 32768, 50001])
def test_long_data_in_one_piece_and_in_two(size: int) -> None:
    data = random.Random(size).randbytes(size)
    expected = by_definition(data)
    assert crc32c(data) == expected
    cut = size // 3
    assert crc32c(memoryview(data)[cut:], crc32c(data[:cut])) == expected


def test_more_than_one_block_of_lanes() -> None:
    data = random.Random(0).randbytes((4 << 20) + (1 << 16) + 3)
    halves = crc32c(data[1 << 20 :], crc32c(data[: 1 << 20]))
    assert crc32c(data) == halves
    assert crc32c(data) != crc32c(data[:-1] + b"\0")


def test_masked_form_of_a_stored_table() -> None:
    # The trailer of an empty block in any table: compression 0, checksum c0 f2 a1 b0.
    empty = bytes(4) + b"\x01\0\0\0"
    assert masked(crc32c(empty + b"\0")).to_bytes(4, "little") == b"\xc0\xf2\xa1\xb0"


def test_words_on_machines_that_count_from_the_other_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = memoryview(bytes(range(8)))
    own = list(_words(data))
    # There `array` reads the bytes of a word the other way round, and `byteswap` turns them back.
    monkeypatch.setattr("sys.byteorder", "big" if sys.byteorder == "little" else "little")
    assert [word.to_bytes(4, "little") for word in own] == [data[:4].tobytes(), data[4:].tobytes()]
    assert [int.from_bytes(word.to_bytes(4, "little"), "big") for word in own] == list(_words(data))
