"""The generic flatbuffer writer and reader, without any TFLite."""

from __future__ import annotations

import struct

import pytest

from thinflow.errors import FormatError, WriteError
from thinflow.wire.flatbuffer import Blob, Scalar, Vector, encode, root, scalar

ID = b"TEST"


def join(description, identifier=ID):
    length, chunks = encode(description, identifier)
    raw = b"".join(bytes(c) for c in chunks)
    assert len(raw) == length
    return raw


def blob(data):
    return Blob(len(data), lambda: data)


def test_every_kind_of_field_comes_back():
    raw = join(
        {
            0: Scalar("i8", -3),
            1: Scalar("bool", True),
            2: Scalar("u64", 2**63),
            3: Scalar("f32", 0.5),
            4: "näme",
            5: Vector("i64", (-1, 2**40)),
            6: [{0: Scalar("i32", 7)}, {}],
            7: ["a", ""],
            9: blob(b"12345"),
            10: Vector("u8", b"xyz"),
        }
    )
    table = root(raw, ID)
    assert table.scalar(0, "i8") == -3
    assert table.scalar(1, "bool") is True
    assert table.scalar(2, "u64") == 2**63
    assert table.scalar(3, "f32") == 0.5
    assert table.string(4) == "näme"
    assert table.numbers(5, "i64") == (-1, 2**40)
    assert [t.scalar(0, "i32", 1) for t in table.tables(6)] == [7, 1]
    assert not table.has(8)
    assert bytes(table.blob(9)) == b"12345"
    assert bytes(table.blob(10)) == b"xyz"
    assert table.string(20) is None
    assert table.tables(20) == []
    assert table.table(20) is None
    assert table.numbers(20, "i32") is None


def test_defaults_are_left_out_and_layouts_shared():
    assert scalar("i32", 1, 1) is None
    one = join({0: [{0: Scalar("i32", 5)}]})
    many = join({0: [{0: Scalar("i32", 5)} for _ in range(100)]})
    assert len(many) - len(one) == 99 * (4 + 8)  # an offset and a table each, no further vtable


def test_wide_fields_and_blobs_are_aligned():
    raw = join(
        {0: Scalar("u8", 1), 1: Scalar("i64", 0x0102030405060708), 2: blob(b"q" * 17), 3: blob(b"r" * 3)}
    )
    assert raw.index(struct.pack("<q", 0x0102030405060708)) % 8 == 0
    assert raw.index(b"q" * 17) % 16 == 0
    assert raw.index(b"rrr") % 16 == 0


def test_bytes_that_are_no_text_survive():
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert root(join({0: name}), ID).string(0) == name


def test_blobs_behind_the_flatbuffer():
    data = blob(b"w" * 40)
    raw = join({0: Scalar("u64", data), 1: Scalar("u64", 40)})
    table = root(raw, ID)
    offset = table.scalar(0, "u64")
    assert offset % 16 == 0
    assert bytes(table.beyond(offset, 40)) == b"w" * 40 == raw[-40:]
    with pytest.raises(FormatError, match="past the end"):
        table.beyond(offset, 41)


def test_blobs_are_read_only_while_their_chunk_is_written():
    asked = []

    def read():
        asked.append(1)
        return b"abcd"

    length, chunks = encode({0: Blob(4, read)}, ID)
    assert length
    assert not asked
    list(chunks)
    assert asked == [1]


def test_a_blob_that_lies_about_its_size():
    _, chunks = encode({0: Blob(4, lambda: b"abc")}, ID)
    with pytest.raises(WriteError, match="4 bytes turned out to have 3"):
        list(chunks)


def test_limits_of_the_writer():
    with pytest.raises(WriteError, match="2 GiB"):
        encode({0: Blob(2**31, lambda: b"")}, ID)
    with pytest.raises(WriteError, match="does not fit"):
        encode({0: Scalar("u8", 300)}, ID)


def test_a_wrong_identifier():
    with pytest.raises(FormatError, match="TEST is missing at byte 4"):
        root(join({}, b"ELSE"), ID)
    with pytest.raises(FormatError):
        root(b"", ID)


def test_one_long_vector_pointed_to_by_many_is_refused():
    raw = bytearray(join({0: [{0: Vector("i32", range(1000))}] * 1000}))
    first = root(raw, ID).tables(0)[0]
    at = first.position + 4
    target = at + struct.unpack_from("<I", raw, at)[0]
    tables = root(raw, ID).tables(0)
    for table in tables:
        if table.position + 4 <= target:
            struct.pack_into("<I", raw, table.position + 4, target - table.position - 4)
    few = join({0: [{0: Vector("i32", range(1000))}]})
    assert root(few, ID).tables(0)[0].numbers(0, "i32") == tuple(range(1000))

    def read_all():
        for table in tables * 50:
            table.numbers(0, "i32")

    with pytest.raises(FormatError, match="too often"):
        read_all()


def test_damage_is_a_format_error():
    raw = join({0: Scalar("i32", 7), 1: "text", 2: [{0: Vector("i32", (1, 2))}], 3: blob(b"data")})

    def walk(data):
        table = root(data, ID)
        table.scalar(0, "i32"), table.string(1), table.blob(3)
        return [t.numbers(0, "i32") for t in table.tables(2)]

    assert walk(raw) == [(1, 2)]
    damaged = 0
    for position in range(len(raw)):
        for flip in (0x01, 0x80, 0xFF):
            broken = bytearray(raw)
            broken[position] ^= flip
            for candidate in (broken, broken[:position]):
                try:
                    walk(candidate)
                except FormatError:
                    damaged += 1
    assert damaged > len(raw)
