"""Riegeli files: the bytes that its own writer makes, blocks, numbers of records, damage."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.formats.chunked import BLOCK, records_file
from thinflow.errors import FormatError
from thinflow.wire.riegeli import _KEY, Records, highway_hash

# Chunks of three records each, as ArrayRecord's writer, which uses Riegeli's, puts them behind the signature.
RECORDS = [b"abc", b"", b"hello " * 20]
PLAIN = bytes.fromhex(
    "1cfc97a415bf2f3d80000000000000009be76c3fdbe7d93a72030000000000007b000000000000000003030078616263"
) + (b"hello " * 20)
BROTLI = bytes.fromhex(
    "d51f65b86efae25c1d000000000000000198b64951aca87f72030000000000007b000000000000006208030b0180030078"
    "037b1b7a0000a441c2c4c6d42689d5e1b15b6700"
)
SIGNATURE = bytes.fromhex(
    "83af70d10d884a3f0000000000000000400000000000000091bac23c9287e1a90000000000000000e19f13c0e9b1c372"
    "73000000000000000000000000000000"
)


def all_of(data: bytes, positions: list[int]) -> list[bytes]:
    records = Records(memoryview(data))
    return [bytes(records.at(position)) for position in positions]


def test_bytes_of_its_own_writer() -> None:
    assert all_of(SIGNATURE + PLAIN, [64, 65, 66]) == RECORDS
    assert records_file([RECORDS]) == (SIGNATURE + PLAIN, [64, 65, 66])


def test_bytes_packed_with_brotli() -> None:
    pytest.importorskip("brotli")
    assert all_of(SIGNATURE + BROTLI, [64, 65, 66]) == RECORDS
    records = [b"x" * 300_000, b"", b"abc"]
    data, positions = records_file([records, records], b"b")
    assert all_of(data, positions) == records * 2


@pytest.mark.parametrize("size", [0, 1, 3, 4, 15, 16, 17, 19, 31, 32, 33, 64, 100])
def test_hashes_differ_by_every_byte(size: int) -> None:
    data = bytes(range(size))
    found = {highway_hash(data, _KEY)} | {
        highway_hash(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :], _KEY) for i in range(size)
    }
    assert len(found) == size + 1


def test_known_hashes() -> None:
    """As they stand in every file: of nothing, of a block's header, of the signature's."""
    assert highway_hash(b"", _KEY) == int.from_bytes(SIGNATURE[40:48], "little")
    assert highway_hash(SIGNATURE[8:24], _KEY) == int.from_bytes(SIGNATURE[:8], "little")
    assert highway_hash(SIGNATURE[32:64], _KEY) == int.from_bytes(SIGNATURE[24:32], "little")


@settings(max_examples=25)
@given(st.lists(st.lists(st.integers(0, 2 * BLOCK), min_size=1, max_size=4), min_size=1, max_size=4))
def test_records_come_back_across_blocks(sizes: list[list[int]]) -> None:
    groups = [[bytes([i & 255]) * size for i, size in enumerate(group)] for group in sizes]
    data, positions = records_file(groups)
    assert all_of(data, positions) == [record for group in groups for record in group]
    assert bytes(Records(memoryview(data)).last()) == groups[-1][-1]


@pytest.mark.parametrize("size", [BLOCK - 64 - 40 - 4 + d for d in range(-30, 31, 2)])
def test_chunks_that_end_about_a_block(size: int) -> None:
    groups = [[b"a" * size], [b"next"], [b""] * 40]
    data, positions = records_file(groups)
    assert all_of(data, positions) == [record for group in groups for record in group]


def test_many_empty_records_take_room_for_their_numbers() -> None:
    data, positions = records_file([[b""] * 5000, [b"end"]])
    assert len(set(positions)) == 5001
    assert all_of(data, positions[-2:]) == [b"", b"end"]


def edited(at: int, content: bytes) -> bytes:
    data = bytearray(SIGNATURE + PLAIN)
    data[at : at + len(content)] = content
    return bytes(data)


def chunk(kind: bytes, data: bytes, count: int = 1, decoded: int = 0) -> bytes:
    """A chunk with sound checksums."""
    head = struct.pack("<QQ", len(data), highway_hash(data, _KEY)) + kind + count.to_bytes(7, "little")
    head += struct.pack("<Q", decoded)
    return SIGNATURE + struct.pack("<Q", highway_hash(head, _KEY)) + head + data


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x83\xaf\x70\xd1", "this is no Riegeli file"),
        (SIGNATURE, "there are no records in it"),
        (SIGNATURE + PLAIN[:60], "the file ends inside a chunk"),
        (SIGNATURE + PLAIN[:20], "the file ends inside a chunk"),
        (edited(80, b"\xff"), "byte 64: the checksum of a chunk's header is wrong"),
        (edited(150, b"\xff"), "byte 64: the checksum of a chunk is wrong"),
        (chunk(b"t", b"\0"), "its records are transposed, which is not read"),
        (chunk(b"?", b"\0"), "a chunk is of an unknown kind"),
        (chunk(b"r", b""), "a chunk of records is empty"),
        (chunk(b"r", b"\0\1\5abc", 1, 3), "sizes of a chunk's records do not fit together"),
        (chunk(b"r", b"\0\1\3abc", 1, 4), "sizes of a chunk's records do not fit together"),
        (chunk(b"r", b"\0\2\3\0abc", 1, 3), "sizes of a chunk's records do not fit together"),
        (chunk(b"r", b"z\1\0\0", 1, 0), "packed with Zstandard, which is not read"),
        (chunk(b"r", b"q\1\0\0", 1, 0), "packed in an unknown way"),
        (chunk(b"r", b"b\3\xff\xff\1\0", 1, 0), "32767 bytes are packed where 10 fit"),
        (chunk(b"r", b"\0\1\3abc", 1, 1 << 40), "a chunk says it holds 1099511627776 bytes"),
    ],
)
def test_damage(data: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        Records(memoryview(data)).last()


def test_numbers_that_name_none() -> None:
    records = Records(memoryview(SIGNATURE + PLAIN))
    for position in (0, 63, 67, 1 << 60):
        with pytest.raises(FormatError, match=f"there is no record at {position}"):
            records.at(position)


def test_a_bomb_stops_at_the_size_it_tells() -> None:
    brotli = pytest.importorskip("brotli")
    packed = brotli.compress(bytes(100 << 20))
    sizes = brotli.compress(b"\x08")
    data = b"b" + bytes([len(sizes) + 1, 1]) + sizes + b"\x08" + packed
    with pytest.raises(FormatError, match="what Brotli packed should give 8 bytes"):
        Records(memoryview(chunk(b"r", data, 1, 8))).last()


def test_without_brotli(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "brotli", None)
    with pytest.raises(FormatError, match="the package brotli is missing") as error:
        Records(memoryview(SIGNATURE + BROTLI)).last()
    assert error.value.hint == "pip install 'thinflow[cpb]'"
