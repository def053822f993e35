"""Tables within tables; what else is read is tested with the recipes that need it."""

from __future__ import annotations

import pytest

from thinflow.errors import FormatError
from thinflow.settings.toml_text import Value, read_toml

NESTED: dict[str, dict[str, Value]] = {
    "[a]\nx = 1\n[a.b]\ny = 2\n": {"a": {"x": 1, "b": {"y": 2}}},
    "[a.b]\ny = 2\n[a]\nx = 1\n": {"a": {"b": {"y": 2}, "x": 1}},
    '[a."m/*.tflite"]\nx = 1\n["m.x".b . c]\nq = 2\n': {
        "a": {"m/*.tflite": {"x": 1}},
        "m.x": {"b": {"c": {"q": 2}}},
    },
    "[ '.' ]\n": {".": {}},
    "[a.b.c]\n[a.b]\nx = 1\n[a.d]\n": {"a": {"b": {"c": {}, "x": 1}, "d": {}}},
}


@pytest.mark.parametrize("text", NESTED)
def test_tables_in_tables(text: str) -> None:
    assert read_toml(text) == NESTED[text]


@pytest.mark.parametrize("text", NESTED)
def test_python_reads_the_same(text: str) -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python has it from 3.11 on")
    assert tomllib.loads(text) == NESTED[text]


BAD = {
    "[a]\n[a]\n": "line 2 has 'a' for the second time",
    "[a.b]\n[a.b]\n": "line 2 has 'b' for the second time",
    "[a]\nb = 1\n[a.b]\n": "line 3 has 'b' for the second time",
    "[a]\nb = {}\n[a.b]\n": "line 3 has 'b' for the second time",
    "a = {}\n[a.b]\n": "line 2 has 'a' for the second time",
    "[a.b]\n[a]\nb = 2\n": "line 3 has 'b' for the second time",
    "[a..b]\n": "line 1 has ']' where a name should be",
    "[.a]\n": "line 1 has ']' where a name should be",
    "[a.]\n": "line 1 has ']' where a name should be",
    "[]\n": "line 1 has ']' where a name should be",
    "[a b]\n": "line 1 has ']' where a name should be",
    '["a""b"]\n': "line 1 has ']' where a name should be",
    "[a.b+c]\n": r"line 1 has 'a.b\+c' where a name should be",
    "[[a]]\n": r"line 1 has '\[' where a name should be",
    "[a.b\n": "line 1 has nothing where ']' should be",
    "[a.": "line 1 has nothing where a name should be",
    "[a.b.c.d.e.f.g.h.i]\n": "line 1 has tables in too many others",
}


@pytest.mark.parametrize("text", BAD)
def test_headings_that_cannot_be(text: str) -> None:
    with pytest.raises(FormatError, match=BAD[text]):
        read_toml(text)


@pytest.mark.parametrize("text", BAD)
def test_python_refuses_them_too(text: str) -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python has it from 3.11 on")
    if "[[" in text or "too many" in BAD[text]:
        assert tomllib.loads(text), "only here"
        return
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads(text)
