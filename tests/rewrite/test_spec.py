"""The transform string: everything the Graph Transform Tool accepts, what we accept besides, and every
mistake.
"""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinflow.errors import ParseError
from thinflow.rewrite.spec import Call, parse_transforms


def read(text: str) -> list[tuple[str, dict[str, list[str]]]]:
    return [(call.name, call.params) for call in parse_transforms(text)]


ACCEPTED = [
    ("", []),
    (" \t\r\n", []),
    ("\\\n", []),
    ("foo", [("foo", {})]),
    ("foo bar", [("foo", {}), ("bar", {})]),
    ("foo\nbar", [("foo", {}), ("bar", {})]),
    ("foo() bar()", [("foo", {}), ("bar", {})]),
    ("a()b(x=1)", [("a", {}), ("b", {"x": ["1"]})]),
    ("a(x=1)b", [("a", {"x": ["1"]}), ("b", {})]),
    ("foo(bob_something=sue)", [("foo", {"bob_something": ["sue"]})]),
    ("bar(a=1, b=2, a=3)", [("bar", {"a": ["1", "3"], "b": ["2"]})]),
    ('bar(a="1", b="1,2,3", a=3)', [("bar", {"a": ["1", "3"], "b": ["1,2,3"]})]),
    ("a(x=1, y=2)", [("a", {"x": ["1"], "y": ["2"]})]),
    ("a(x=1 y=2)", [("a", {"x": ["1"], "y": ["2"]})]),
    ("a(x=1,y=2)", [("a", {"x": ["1"], "y": ["2"]})]),
    ("a( x=1)", [("a", {"x": ["1"]})]),
    ('a(x="1"y=2)', [("a", {"x": ["1"], "y": ["2"]})]),
    ("a(\n  x=1,\n  y=2)", [("a", {"x": ["1"], "y": ["2"]})]),
    ('a(x="")', [("a", {"x": [""]})]),
    ('a(x="p,q r")', [("a", {"x": ["p,q r"]})]),
    ('a(x=1")', [("a", {"x": ["1"]})]),
    ("a(x=1')", [("a", {"x": ["1"]})]),
    ("a(x=-1.5/b_c)", [("a", {"x": ["-1.5/b_c"]})]),
    ("REMOVE_DEVICE", [("REMOVE_DEVICE", {})]),
]

ACCEPTED_BESIDES = [
    ("a (x=1)", [("a", {"x": ["1"]})]),
    ("a(x=1 , y=2)", [("a", {"x": ["1"], "y": ["2"]})]),
    ("a(x=1 )", [("a", {"x": ["1"]})]),
    ("a(x=1,)", [("a", {"x": ["1"]})]),
    ("a( )", [("a", {})]),
    ("a(x=1\n)", [("a", {"x": ["1"]})]),
    ("a(x= 1)", [("a", {"x": ["1"]})]),
    ("a(x =1)", [("a", {"x": ["1"]})]),
    (r'a(x="p\"q")', [("a", {"x": ['p"q']})]),
    (r'a(x="p\\q\n\t")', [("a", {"x": ["p\\q\n\t"]})]),
    ("a(x='1,2')", [("a", {"x": ["1,2"]})]),
    ("a(x=b:0)", [("a", {"x": ["b:0"]})]),
    ("a(x=^b)", [("a", {"x": ["^b"]})]),
    ("a(x=1e+5)", [("a", {"x": ["1e+5"]})]),
    ("a(x=*)", [("a", {"x": ["*"]})]),
    ("a \\\n b", [("a", {}), ("b", {})]),
    ("a \\\r\n b", [("a", {}), ("b", {})]),
    ("a # first, then\nb", [("a", {}), ("b", {})]),
    ("a(x=1, # why\n y=2) # end", [("a", {"x": ["1"], "y": ["2"]})]),
    ("a(x=\N{LEFT DOUBLE QUOTATION MARK}1,2\N{RIGHT DOUBLE QUOTATION MARK})", [("a", {"x": ["1,2"]})]),
    ("a(x=\N{RIGHT SINGLE QUOTATION MARK}1,2\N{RIGHT SINGLE QUOTATION MARK})", [("a", {"x": ["1,2"]})]),
]


@pytest.mark.parametrize(("text", "expected"), ACCEPTED, ids=[repr(t) for t, _ in ACCEPTED])
def test_what_the_original_accepts(text: str, expected: list[tuple[str, dict[str, list[str]]]]) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(("text", "expected"), ACCEPTED_BESIDES, ids=[repr(t) for t, _ in ACCEPTED_BESIDES])
def test_what_is_accepted_besides(text: str, expected: list[tuple[str, dict[str, list[str]]]]) -> None:
    assert read(text) == expected


REFUSED = [
    ("a,b", 1, "looking for a transform name"),
    ("a;b", 1, "looking for a transform name"),
    ("a(,)", 2, "looking for a parameter name"),
    ("a(x)", 3, "'=' is missing"),
    ("a(x=)", 4, "has no value"),
    ("a(x=,y=1)", 4, "has no value"),
    ('a(x="1', 4, "the quote is never closed"),
    ("a(x='1", 4, "the quote is never closed"),
    ("a(x=1", 1, "never closed"),
    ("a(", 1, "never closed"),
    ("a( ", 1, "never closed"),
    ("b a(x=1", 3, "never closed"),
    ("a)", 1, "looking for a transform name"),
    ("(x=1)", 0, "looking for a transform name"),
    ("a(=1)", 2, "looking for a parameter name"),
    ("a(x=1;y=2)", 5, "looking for a parameter name"),
]


@pytest.mark.parametrize(("text", "place", "problem"), REFUSED, ids=[repr(t) for t, _, _ in REFUSED])
def test_mistakes_are_errors_with_their_place(text: str, place: int, problem: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_transforms(text)
    error = caught.value
    assert problem in error.problem
    assert f"character {place}" in error.where
    assert error.hint
    assert isinstance(error, ValueError)
    *_, line, caret = error.problem.splitlines()
    assert line == "  " + text.splitlines()[0]
    assert caret.index("^") == place + 2


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a(type=float, shape=1,299,299,3)", 'a value with commas needs double quotes: shape="1,299"; in'),
        ("a(x)", "write x=VALUE"),
        ("a(7)", "write 7=VALUE"),
        ("a, b", "with blanks between them"),
    ],
)  # fmt: skip
def test_hints(text: str, hint: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_transforms(text)
    assert hint in caught.value.hint


def test_the_caret_stands_under_the_right_line() -> None:
    with pytest.raises(ParseError) as caught:
        parse_transforms("first\nsecond(x)\nthird")
    *_, line, caret = caught.value.problem.splitlines()
    assert line == "  second(x)"
    assert caret.index("^") == line.index(")")


def test_the_offset_of_each_call() -> None:
    assert [call.offset for call in parse_transforms("a  b(x=1)c")] == [0, 3, 9]


names = st.text("abcdefXYZ_019", min_size=1, max_size=8)
values = st.text(max_size=12)


@given(
    st.lists(
        st.tuples(names, st.dictionaries(names, st.lists(values, min_size=1, max_size=3), max_size=3)),
        max_size=4,
    )
)
def test_written_and_read_back(calls: list[tuple[str, dict[str, list[str]]]]) -> None:
    text = " ".join(str(Call(name, params)) for name, params in calls)
    assert read(text) == calls


@given(st.text("ab(=), \"'\\#\n1", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ParseError):
        parse_transforms(text)
