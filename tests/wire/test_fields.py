"""Varints and fields: what is written is read again, and what is malformed is refused with its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinflow.errors import FormatError, WriteError
from thinflow.wire.fields import encode_varint, field_header, iter_fields, read_field, read_varint


class TestVarints:
    @given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
    def test_round_trip(self, n, tail):
        data = encode_varint(n)
        assert read_varint(data + tail, 0) == (n, len(data))

    def test_negative_is_ten_bytes(self):
        assert encode_varint(-1) == b"\xff" * 9 + b"\x01"

    @pytest.mark.parametrize("n", [2**64, -(2**63) - 1])
    def test_too_big(self, n):
        with pytest.raises(WriteError, match="64 bits"):
            encode_varint(n)

    @pytest.mark.parametrize(
        ("data", "problem"),
        [(b"\x80", "the file ends inside a number"), (b"\x80" * 11, "a number is longer than 10 bytes")],
    )
    def test_malformed(self, data, problem):
        with pytest.raises(FormatError, match=problem) as caught:
            read_varint(data, 0)
        assert caught.value.where == "byte 0"


class TestFields:
    def test_each_wire_type(self):
        data = b"\x08\x96\x01" + b"\x11" + b"8" * 8 + b"\x1a\x02ab" + b"\x25" + b"4" * 4
        assert list(iter_fields(data, 0, len(data))) == [
            (1, 0, 1, 3),
            (2, 1, 4, 12),
            (3, 2, 14, 16),
            (4, 5, 17, 21),
        ]

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (b"\x00\x00", "0 cannot be a field number"),
            (field_header(3, 3), "groups are not part of this format"),
            (field_header(3, 7), "7 is not a wire type"),
            (field_header(3, 2) + b"\x05abc", "field 3 is longer than the rest of its message"),
        ],
    )
    def test_malformed(self, data, problem):
        with pytest.raises(FormatError, match=problem):
            read_field(b"\x00" + data, 1, len(data) + 1)

    def test_a_message_beyond_the_file(self):
        with pytest.raises(FormatError, match="should end at byte 9, the file ends at 3"):
            next(iter_fields(b"\x08\x96\x01", 0, 9))
