"""Bytes that hold tables, tensors or compressed bytes."""

from __future__ import annotations

import gzip
import zlib

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, run, text
from thinflow.errors import FormatError, ShapeError
from thinflow.ir.types import BOOL, FLOAT, HALF, INT32, INT64, STRING, dtype
from thinflow.ops import records
from thinflow.wire.values import put

COMPLEX64, UINT64 = dtype("complex64"), dtype("uint64")
LINES = text(b"1,2.5,abc,9", b',"3","a,""b""",8', b"5 ,nan,x y,7").reshape(3, 1)
DEFAULTS = [np.array([7], np.int32), np.array([], np.float32), text(b"d"), np.array([1], np.int64)]


def word(value: bytes) -> np.ndarray:
    return np.array(value, object)


def tensor(kind: int, field: int, payload: bytes) -> np.ndarray:
    """A TensorProto [3] with its values in one of the typed fields."""
    return word(put(1, kind) + put(2, put(2, put(1, 3))) + put(field, payload))


CASES: dict[str, list[Case]] = {
    "SerializeTensor": [
        ([np.float32([[1, 2], [3, 4]])], {}),
        ([np.zeros((0, 3), np.int8)], {}),
        ([text(b"a", b"")], {}),
        ([np.int64(5)], {}),
        ([np.float16([1.5])], {}),
    ],
    "ParseTensor": [
        ([tensor(1, 5, np.float32([1.5, 2]).tobytes())], {"out_type": FLOAT}),
        ([tensor(3, 7, b"\x05")], {"out_type": INT32}),
        ([tensor(19, 13, b"\x80\x78")], {"out_type": HALF}),
        ([tensor(8, 9, np.float32([1, 2]).tobytes())], {"out_type": COMPLEX64}),
        ([tensor(23, 17, b"\x80" * 9 + b"\x01")], {"out_type": UINT64}),
        ([tensor(7, 8, b"abc")], {"out_type": STRING}),
        ([tensor(10, 11, b"\x01\x00")], {"out_type": BOOL}),
    ],
    "DecodeCompressed": [
        ([text(zlib.compress(b"abc" * 99))], {"compression_type": "ZLIB"}),
        ([text(gzip.compress(b"abc"), gzip.compress(b""))], {"compression_type": "GZIP"}),
        ([text(b"abc")], {}),
    ],
    "DecodeCSV": [
        ([LINES, *DEFAULTS], {}),
        (
            [text(b"a;b;c;d", b"a;;NA;d"), word(b"z"), word(b"q")],
            {"field_delim": ";", "select_cols": (1, 2), "na_value": "NA"},
        ),
        ([text(b'a"b,c'), word(b"z"), word(b"q")], {"use_quote_delim": False}),
    ],
}
_OPEN = ("ParseTensor",)


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case, exact=name not in _OPEN)


def test_tensors_there_and_back() -> None:
    for array in (np.float32([[1, 2]]), np.array(True), text(b"a", b""), np.complex64([1 + 2j])):
        kind = {"f": FLOAT, "b": BOOL, "O": STRING, "c": COMPLEX64}[array.dtype.kind]
        found = run("ParseTensor", run("SerializeTensor", array), out_type=kind)
        np.testing.assert_array_equal(found, array)
    assert (
        run("SerializeTensor", np.float32([1])).item()
        == b"\x08\x01\x12\x04\x12\x02\x08\x01\x22\x04\x00\x00\x80?"
    )
    with pytest.raises(ShapeError, match="the message holds float, not int64"):
        run("ParseTensor", run("SerializeTensor", np.float32([1])), out_type=INT64)


@pytest.mark.parametrize(
    "data", [b"\xff", b"\x08", b"\x12\x7f", b"\x08\x01\x12\x0c\x12\x0a\x08" + b"\xff" * 9 + b"\x01"]
)
def test_bytes_that_are_no_tensor(data: bytes) -> None:
    with pytest.raises(FormatError):
        run("ParseTensor", word(data), out_type=FLOAT)


def test_compressed_bytes_are_checked() -> None:
    with pytest.raises(FormatError, match="cannot be uncompressed"):
        run("DecodeCompressed", text(b"plain"), compression_type="GZIP")
    with pytest.raises(FormatError, match="cut short"):
        run("DecodeCompressed", text(zlib.compress(b"abc")[:-3]), compression_type="ZLIB")
    with pytest.raises(ShapeError, match="is not ZLIB or GZIP"):
        run("DecodeCompressed", text(b""), compression_type="BZ2")


def test_later_streams_inflate_within_the_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of 0 left for the second stream would be none for zlib."""
    monkeypatch.setattr(records, "MAX_INFLATED", 3)
    assert run("DecodeCompressed", text(gzip.compress(b"abc")), compression_type="GZIP").tolist() == [b"abc"]
    for first in (b"abc", b"ab", b"abcd"):
        data = text(gzip.compress(first) + gzip.compress(b"d" * 9999))
        with pytest.raises(ShapeError, match="uncompress to more than 3"):
            run("DecodeCompressed", data, compression_type="GZIP")


@pytest.mark.parametrize("number", [2, 4, 5, 6, 8, 9, 12])
def test_a_field_of_another_wire_type(number: int) -> None:
    with pytest.raises(FormatError, match=f"field {number} of the message has the wire type 0"):
        run("ParseTensor", word(put(1, 1) + put(number, 7)), out_type=FLOAT)
    with pytest.raises(FormatError, match="has the wire type 5"):
        run("ParseTensor", word(put(1, 1) + put(7, 1.5)), out_type=FLOAT)


def test_csv() -> None:
    numbers, _, words, _ = run("DecodeCSV", LINES, *DEFAULTS)
    assert numbers.tolist() == [[1], [7], [5]]
    assert words.tolist() == [[b"abc"], [b'a,"b"'], [b"x y"]]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"1,,c,4", "field 1 is required but missing"),
        (b"1,2", "record 0 has 2 fields, 4 are expected"),
        (b'1,2,"c,4', "a quote is not closed"),
        (b'1,2,c"d,4', "not in quotes"),
        (b"x,2,c,4", "is not a whole number"),
    ],
)
def test_lines_that_do_not_fit(line: bytes, problem: str) -> None:
    with pytest.raises(ShapeError, match=problem):
        run("DecodeCSV", text(line), *DEFAULTS)
