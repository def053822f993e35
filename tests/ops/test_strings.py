"""Byte strings."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, text
from thinflow.errors import ShapeError
from thinflow.ir.types import BOOL, DOUBLE, FLOAT, INT8, INT32, INT64, STRING, TensorSpec, dtype


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def word(value: bytes) -> np.ndarray:
    return np.array(value, object)


WORDS = text(b"hello", b"", "h\u00e9\u4e16".encode(), b" A b\t")
GRID = text(b"a", b"b", b"c", b"d", b"e", b"f").reshape(2, 3)

CASES: dict[str, list[Case]] = {
    "StringJoin": [
        ([text(b"a", b"b"), word(b"-"), text(b"c", b"d")], {"N": 3}),
        ([word(b"a"), word(b"b")], {"N": 2, "separator": ", "}),
    ],
    "StringLength": [([WORDS], {}), ([WORDS], {"unit": "UTF8_CHAR"})],
    "StringUpper": [([WORDS], {}), ([WORDS], {"encoding": "utf-8"})],
    "StringLower": [([WORDS], {}), ([WORDS], {"encoding": "utf-8"})],
    "StringStrip": [([WORDS], {})],
    "Substr": [
        ([text(b"hello", b"worlds"), ints(1, -2), ints(100, 1)], {}),
        ([word(b"hello"), np.int64(-3), np.int64(2)], {}),
        ([WORDS[2], np.int32(1), np.int32(1)], {"unit": "UTF8_CHAR"}),
        ([GRID, ints(0, 1, 1), ints(1, 0, 5)], {}),
    ],
    "StringSplit": [
        ([text(b"a b  c", b""), word(b" ")], {}),
        ([text(b"a,b;c", b",x,"), word(b",;")], {"skip_empty": False}),
        ([text(b"abc"), word(b"")], {}),
    ],
    "StringSplitV2": [
        ([text(b"a  b c ", b""), word(b"")], {}),
        ([text(b"a,,b,c", b"", b",", b"a"), word(b",")], {}),
        ([text(b"a,,b,c", b",,"), word(b",,")], {"maxsplit": 1}),
    ],
    "StringToNumber": [
        ([text(b"1.5", b" 7 ", b"0x1p3", b"1e400", b"-inf", b"1e-50")], {}),
        ([text(b"-3", b" +4")], {"out_type": INT32}),
        ([text(b"99999999999")], {"out_type": INT64}),
        ([text(b"0.1")], {"out_type": DOUBLE}),
    ],
    "ReduceJoin": [
        ([GRID, ints(0)], {}),
        ([GRID, ints(-1)], {"keep_dims": True, "separator": "-"}),
        ([GRID, ints(1, 0)], {"separator": "-"}),
        ([GRID, ints(0, 1)], {}),
        ([GRID, np.zeros(0, np.int32)], {}),
        ([GRID[:0], ints(0)], {}),
    ],
    "EncodeBase64": [([WORDS], {}), ([WORDS], {"pad": True})],
    "DecodeBase64": [([text(b"aGVsbG8_Pg", b"aGVsbG8_Pg==", b"")], {})],
    "DecodeRaw": [
        ([text(b"abcd", b"efgh")], {"out_type": dtype("int16")}),
        ([text(b"abcd", b"efgh")], {"out_type": FLOAT, "little_endian": False}),
        ([text(b"", b"")], {"out_type": INT32}),
        ([text(b"\x00\x01")], {"out_type": BOOL}),
        ([word(b"ab")], {"out_type": INT8}),
    ],
    "DecodePaddedRaw": [([text(b"abc", b"ab"), np.int32(4)], {"out_type": dtype("int16")})],
}

_OPEN = ("StringSplit", "StringSplitV2", "DecodeRaw")


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case, exact=name not in _OPEN)


def test_pieces_come_as_a_sparse_matrix() -> None:
    indices, values, shape = run("StringSplit", text(b"a b  c", b""), word(b" "))
    assert indices.tolist() == [[0, 0], [0, 1], [0, 2]]
    assert (values.tolist(), shape.tolist()) == ([b"a", b"b", b"c"], [2, 3])
    assert run("StringSplitV2", text(b"a,"), word(b","))[1].tolist() == [b"a", b""]
    assert run("StringSplit", text(b"", b"a,"), word(b","), skip_empty=False)[1].tolist() == [b"a", b""]


def test_the_first_axis_listed_varies_fastest() -> None:
    assert run("ReduceJoin", GRID, ints(1, 0)).item() == b"abcdef"
    assert run("ReduceJoin", GRID, ints(0, 1)).item() == b"adbecf"
    assert infer("ReduceJoin", TensorSpec(STRING, (None, 3)), TensorSpec(INT32, (1,), (0,))).shape == (3,)


def test_characters_are_not_bytes() -> None:
    x = word("h\u00e9y".encode())
    assert run("StringLength", x) == 4
    assert run("StringLength", x, unit="UTF8_CHAR") == 3
    assert run("Substr", x, np.int32(1), np.int32(1), unit="UTF8_CHAR").item() == "\u00e9".encode()
    assert run("StringUpper", x).item() == "H\u00e9Y".encode()
    assert run("StringUpper", x, encoding="utf-8").item() == "H\u00c9Y".encode()


@pytest.mark.parametrize("pos", [6, -6])
def test_substr_outside_the_string(pos: int) -> None:
    assert run("Substr", word(b"hello"), np.int32(5), np.int32(1)).item() == b""
    with pytest.raises(ShapeError, match="outside"):
        run("Substr", word(b"hello"), np.int32(pos), np.int32(1))


@pytest.mark.parametrize(
    ("value", "kind"),
    [(b"1_0", FLOAT), (b"", FLOAT), (b"1.5f", DOUBLE), (b"1.5", INT32), (b"99999999999", INT32)],
)
def test_what_is_no_number(value: bytes, kind: object) -> None:
    with pytest.raises(ShapeError):
        run("StringToNumber", text(value), out_type=kind)


def test_raw_bytes_must_fit() -> None:
    with pytest.raises(ShapeError, match="differ in length"):
        run("DecodeRaw", text(b"ab", b"a"), out_type=INT8)
    with pytest.raises(ShapeError, match="whole number"):
        run("DecodeRaw", text(b"abc"), out_type=dtype("int16"))
    with pytest.raises(ShapeError, match="base64"):
        run("DecodeBase64", text(b"a/b="))
