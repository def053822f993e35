"""Tables: written as TensorFlow writes them, read lazily, every flipped bit noticed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import table_chunks
from thinflow.errors import FormatError
from thinflow.wire.crc32c import crc32c, masked
from thinflow.wire.fields import encode_varint
from thinflow.wire.sstable import MAGIC, Table, is_table

PAIRS = st.dictionaries(st.binary(max_size=20), st.binary(max_size=50), max_size=60)


def table_of(entries: dict[bytes, bytes]) -> bytes:
    return b"".join(table_chunks(sorted(entries.items())))


def contents(data: bytes) -> dict[bytes, bytes]:
    return {key: bytes(value) for key, value in Table(memoryview(data))}


@given(PAIRS)
def test_what_is_written_is_read(entries: dict[bytes, bytes]) -> None:
    data = table_of(entries)
    assert is_table(data[-100:])
    assert contents(data) == entries
    for key in [*entries, b"\xff\xff", b"no such key"]:
        found = Table(memoryview(data)).get(key)
        assert (None if found is None else bytes(found)) == entries.get(key)


def test_blocks_are_closed_at_256_kib_and_found_by_key() -> None:
    entries = {f"variable/{i:06d}".encode(): bytes(40) for i in range(22_000)}
    data = table_of(entries)
    table = Table(memoryview(data))
    assert table.get(b"variable/021999") is not None
    assert contents(data) == entries


def test_the_smallest_table_byte_by_byte() -> None:
    data = table_of({b"": b"\x08\x01"})
    block = b"\0\0\x02\x08\x01" + bytes(4) + b"\x01\0\0\0"
    assert data.startswith(block + b"\0" + masked(crc32c(block + b"\0")).to_bytes(4, "little"))
    assert data.endswith(MAGIC)


def test_every_flipped_bit_is_noticed() -> None:
    entries = {f"name{i}".encode(): bytes([i]) * i for i in range(40)}
    data = table_of(entries)
    rng = random.Random(0)
    padding = range(len(data) - 48, len(data) - 8)  # the footer's filling belongs to nothing
    for at in rng.sample(range(len(data)), 200):
        broken = bytearray(data)
        broken[at] ^= 1 << rng.randrange(8)
        try:
            found = contents(bytes(broken))
        except FormatError:
            continue
        assert found == entries
        assert at in padding


@given(st.data())
def test_cut_and_mixed_files_give_clear_errors(data: st.DataObject) -> None:
    whole = table_of({f"name{i}".encode(): b"x" * 9 for i in range(30)})
    start = data.draw(st.integers(0, len(whole)))
    stop = data.draw(st.integers(start, len(whole)))
    rest = whole[:start] + whole[stop:]
    if rest == whole:
        assert contents(rest)
        return
    with pytest.raises(FormatError):
        contents(rest)


def with_block(block: bytes, kind: bytes = b"\0") -> bytes:
    """A table whose only data block is this one, its checksum right."""
    sealed = block + kind + masked(crc32c(block + kind)).to_bytes(4, "little")
    index = b"".join(table_chunks([]))  # for the empty block
    empty = index[: 8 + 5]
    key = b"z"
    handle = encode_varint(0) + encode_varint(len(block))
    entry = bytes([0, len(key), len(handle)]) + key + handle + bytes(4) + b"\x01\0\0\0"
    entry_sealed = entry + b"\0" + masked(crc32c(entry + b"\0")).to_bytes(4, "little")
    footer = encode_varint(len(sealed)) + encode_varint(8)
    footer += encode_varint(len(sealed) + len(empty)) + encode_varint(len(entry))
    return sealed + empty + entry_sealed + footer.ljust(40, b"\0") + MAGIC


RESTART = bytes(4) + b"\x01\0\0\0"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"not a table", "not a table"),
        (with_block(b"\0\0"), "shorter than the shortest block"),
        (with_block(bytes(4) + b"\xff\xff\0\0"), "more restarts than fit"),
        (with_block(b"\x05\x01\0a" + RESTART), "longer than the block"),
        (with_block(b"\0\x01\x09a" + RESTART), "longer than the block"),
        (with_block(b"\0\x01\0b\0\x01\0a" + RESTART), "not in order"),
        (with_block(RESTART, kind=b"\x07"), r"unknown way \(7\)"),
        (with_block(b"\xff", kind=b"\x01"), "Snappy block is damaged"),
    ],
)
def test_damage_is_named(data: bytes, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        contents(data)


def test_a_compressed_block() -> None:
    block = b"\0\x01\x03aabc" + RESTART
    packed = encode_varint(len(block)) + bytes([(len(block) - 1) << 2]) + block
    assert contents(with_block(packed, kind=b"\x01")) == {b"a": b"abc"}
