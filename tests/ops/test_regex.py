"""Regular expressions as RE2 reads them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, run, text
from thinflow.errors import UnsupportedOp

WORDS = text(b"abcabc", b"", "h\u00e9y".encode(), b"axc", b"x-1 \xff\n")


def word(value: bytes) -> np.ndarray:
    return np.array(value, object)


CASES: dict[str, list[Case]] = {
    "RegexReplace": [
        ([WORDS, word(b"(b)(c)"), word(rb"\2\1\0")], {}),
        ([WORDS, word(b"b"), word(rb"\\x")], {"replace_global": False}),
        ([WORDS, word(b"x*"), word(b"-")], {}),
        ([WORDS[:4], word(b"."), word(b"-")], {}),
        ([WORDS, word(b"b"), word(rb"\3")], {}),
        ([WORDS, word(rb"[[:alpha:]]+$"), word(b"<\\0>")], {}),
        ([WORDS, word(rb"\d|[a-c&&x]"), word(b"")], {}),
    ],
    "StaticRegexReplace": [([WORDS[:4]], {"pattern": "[^a-b]", "rewrite": r"(\0)"})],
    "RegexFullMatch": [([WORDS, word(b"a.*")], {}), ([WORDS, word(b"")], {})],
    "StaticRegexFullMatch": [([WORDS], {"pattern": r"\w+"})],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


@pytest.mark.parametrize(
    ("value", "pattern", "rewrite", "expected"),
    [
        (b"axc", b"x*", b"-", b"-a-c-"),
        ("h\u00e9y".encode(), b".", b"-", b"---"),
        (b"ab\n", b"b$", b"-", b"ab\n"),
        (b"a.b", rb"\Q.\E", b"-", b"a-b"),
        (b"abc", b"b", rb"\1", b"abc"),
    ],
)
def test_where_re2_and_python_differ(value: bytes, pattern: bytes, rewrite: bytes, expected: bytes) -> None:
    assert run("RegexReplace", word(value), word(pattern), word(rewrite)).item() == expected


def test_the_dot_stops_at_a_new_line() -> None:
    assert not run("RegexFullMatch", word(b"ab\n"), word(b"ab."))


def test_a_pattern_that_is_none() -> None:
    with pytest.raises(UnsupportedOp, match="is not understood"):
        run("StaticRegexFullMatch", word(b"a"), pattern="(")
