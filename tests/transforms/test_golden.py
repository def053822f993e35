"""Every case of every `<transform>.txt`: the text afterwards, the refusals, the numbers, and a second run."""

from __future__ import annotations

import contextlib

import pytest

from tests.transforms.golden import Case, all_cases, parse_attr, parse_graph, read_cases, trimmed
from tests.transforms.support import apply, assert_same_numbers
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.ir.attrs import attr_text
from thinflow.ir.graph import Graph
from thinflow.ir.text import graph_text, library_text
from thinflow.rewrite.runner import Result
from thinflow.transforms import names, resolve

CASES = all_cases()


@pytest.mark.parametrize("case", [c for c in CASES if not c.error], ids=str)
def test_golden(case: Case) -> None:
    graph = case.graph()
    result = apply(graph, case.pipeline)
    after = trimmed(text_of(graph)) if case.after == "unchanged\n" else case.after
    assert trimmed(text_of(result.graph)) == after
    assert (result.changes == 0) == (case.after == "unchanged\n"), "the ledger and the graph disagree"
    if case.left is not None:
        assert [f"{e.node}: {e.text}" for s in result.steps for e in s.trace.left] == case.left
    if case.warnings is not None:
        assert [w for s in result.steps for w in s.trace.warnings] == case.warnings
    check_numbers(case, result)


def text_of(graph: Graph) -> str:
    """The graph and its library."""
    return graph_text(graph) + library_text(graph)


def check_numbers(case: Case, result: Result) -> None:
    steps = [step.transform for step in resolve(case.pipeline)]
    if all(t.repeatable for t in steps):
        again = apply(result.graph, case.pipeline)
        assert text_of(again.graph) == text_of(result.graph), "a second run changed something"
        assert again.changes == 0, [str(e) for s in again.steps for e in s.trace.changes]
    if all(t.exact for t in steps) and not any(t.renames for t in steps):
        with contextlib.suppress(UnsupportedOp):  # an invented op; the text was compared
            assert_same_numbers(case.graph(), result.graph, sum(t.tolerance for t in steps))


@pytest.mark.parametrize("case", [c for c in CASES if c.error], ids=str)
def test_error(case: Case) -> None:
    with pytest.raises(ThinflowError) as caught:
        apply(case.graph(), case.pipeline)
    assert case.error in caught.value.message
    assert caught.value.hint, "an error ends with the next step"


def test_every_file_belongs_to_a_transform() -> None:
    assert {c.file.removesuffix(".txt") for c in CASES} <= set(names())


def test_case_names_are_unique() -> None:
    seen = [str(c) for c in CASES]
    assert len(seen) == len(set(seen))


TEXT = r"""a = Placeholder() {dtype=float, shape=shape[1,?]}
b = Const() {value=float[2]{1.5,2}}
c = Const() {value=string[2]{x,y}}
d = Const() {value=float[100]{1e-05 x 100}}
e = Const() {value=bool[2]{True,False}}
f = Custom(a, b:1, ^c) {fn=@body, list=[1,2], name="a\"b\\c\nd\xff", none=[], of=$T, t=[float,int32]} @/g:0
inputs: a
outputs: f, f:2
"""


def test_text_is_read_back() -> None:
    assert graph_text(parse_graph(TEXT)) == TEXT


LIBRARY = """x = Placeholder() {dtype=float}
y = StatelessIf(x, x) {else_branch=@none}
inputs: x
outputs: y
def one(x: float, n: int32)
z = Neg(x) {T=float}
p = Print(z) {T=float}
return z, n effects p
def none()
return
"""


def test_a_library_is_read_back() -> None:
    graph = parse_graph(LIBRARY)
    assert text_of(graph) == LIBRARY
    assert [n.name for n in graph.functions["one"].control_outputs] == ["p"]


@pytest.mark.parametrize(
    "text", ["shape?", "shape[]", "shape[?,3]", '["a","b"]', "[shape[1],shape?]", "int32", "-3", "2.5"]
)
def test_attribute_text_is_read_back(text: str) -> None:
    assert attr_text(parse_attr(text)) == text


def test_reading_of_a_case() -> None:
    text = (
        "# c\n## one\n> a(x=1)\n> b\nx = P()\nx2 = P()\n=>\nx = P()\nleft:\n  x: why\n## two\n> a\nerror: no"
    )
    one, two = read_cases(text, "a.txt")
    assert (one.pipeline, one.before, one.after) == ("a(x=1) b", "x = P()\nx2 = P()\n", "x = P()\n")
    assert one.left == ["x: why"]
    assert one.warnings is None
    assert (two.error, str(two)) == ("no", "a-two")


@pytest.mark.parametrize(
    "line", ["x = P(", "x P()", "x = P() {a}", "x = P() {a=!}", "x = Const() {value=float[2]{1}}"]
)
def test_bad_text_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_graph(line)
