"""Numbers as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, run, text
from thinflow.errors import ShapeError

FLOATS = np.array([1.5, 1e10, 1e-7, np.nan, np.inf, -0.0, 123456789], np.float32)
OPEN = {"placeholder": "{}"}

CASES: dict[str, list[Case]] = {
    "AsString": [
        ([FLOATS], {}),
        ([FLOATS.astype(np.float64)], {"precision": 3}),
        ([FLOATS], {"scientific": True}),
        ([FLOATS], {"shortest": True}),
        *[([FLOATS], {"width": 12, "fill": fill}) for fill in ("", "0", "-", "+", " ")],
        *[([np.array([5, -5], np.int8)], {"width": 6, "fill": fill}) for fill in ("", "0", "-", "+", " ")],
        *[([np.array([5], np.uint8)], {"width": 6, "fill": fill}) for fill in ("0", "+", " ")],
        ([np.array([2**63 - 1])], {}),
        ([np.array([True, False])], {"width": 8}),
        ([np.array([1.5 - 2j], np.complex64)], {"precision": 2, "width": 5}),
        ([np.array([1.1], np.float16)], {}),
        ([text(b"abc")], {"width": 5}),
    ],
    "StringFormat": [
        ([np.array([[1, 2], [3, 4]], np.int32), np.float32(1.5)], {**OPEN, "template": "a {} b {}"}),
        ([np.arange(10, dtype=np.float32)], {**OPEN, "template": "a {}", "summarize": 2}),
        ([text(b"ab", b'"c'), np.array(True)], {**OPEN, "template": "{} {}"}),
        ([np.arange(60).reshape(10, 6), np.array([1e-9, 1e10, 0.1])], {**OPEN, "template": "{}|{}"}),
        ([np.float32(1 / 3), np.arange(8).reshape(2, 2, 2), np.float32("nan")], {"template": "%s %s %s"}),
        (
            [np.zeros((0, 2)), np.zeros((2, 0)), np.zeros((2, 1, 0))],
            {"template": "%s %s %s", "summarize": -1},
        ),
        ([np.arange(4).reshape(2, 2), np.arange(3)], {"template": "%s %s", "summarize": 0}),
        (
            [np.arange(4).reshape(2, 2), np.arange(3), text(b"a", b"b", b"c")],
            {"template": "%s %s %s", "summarize": 1},
        ),
        ([np.arange(9), np.float64(0.1)], {**OPEN, "template": "{}{}", "summarize": -1}),
    ],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


@pytest.mark.parametrize(
    ("value", "attrs", "expected"),
    [
        (np.float32(1.5), {}, b"1.500000"),
        (np.float32(123456789), {"shortest": True}, b"1.23457e+08"),
        (np.float64(-0.0), {"width": 12, "fill": "0"}, b"-0000.000000"),
        (np.float32("nan"), {"width": 12, "fill": "0"}, b"         nan"),
        (np.int32(5), {"width": 6, "fill": "+"}, b"    +5"),
        (np.uint8(5), {"width": 6, "fill": "+"}, b"     5"),
        (np.bool_(True), {"width": 9}, b"true"),
        (np.complex64(1.5 - 2j), {"precision": 2, "width": 5}, b"( 1.50,-2.00)"),
    ],
)
def test_as_printf(value: Any, attrs: dict[str, Any], expected: bytes) -> None:
    assert run("AsString", value, **attrs).item() == expected


def test_digits_of_whole_numbers_are_refused() -> None:
    with pytest.raises(ShapeError, match="after the point"):
        run("AsString", np.int32(1), precision=3)


def test_long_axes_show_their_ends() -> None:
    y = run("StringFormat", np.arange(16, dtype=np.int32).reshape(8, 2), template="x = %s")
    assert y.item() == b"x = [[0 1]\n [2 3]\n [4 5]\n ...\n [10 11]\n [12 13]\n [14 15]]"
    assert run("StringFormat", np.float32(1 / 3), template="%s").item() == b"0.333333343"
    with pytest.raises(ShapeError, match="placeholders"):
        run("StringFormat", np.int32(1), template="nothing")
