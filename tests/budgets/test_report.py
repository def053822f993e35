"""Reports on budgets: as text, as annotations, as JUnit's XML."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from thinflow.api import check_lines
from thinflow.budgets.item import BudgetItem, Status, at_most, not_meant
from thinflow.budgets.report import CheckReport, ModelCheck
from thinflow.errors import ParameterError

NAMES = tuple(f"layer_{n}/conv" for n in range(5))
ITEMS = (
    BudgetItem(Status.WITHIN, "1 of 2", 1, 2, budget="nodes", seconds=0.25),
    BudgetItem(
        Status.OVER,
        "3 of <2> & more",
        3,
        2,
        "bytes",
        NAMES,
        "thinflow inspect 'a.tflite'",
        "size",
        seconds=0.5,
    ),
    BudgetItem(Status.UNSURE, "1.2 ± 0.2 of 1.1", 1.2, 1.1, "times", budget="latency"),
    BudgetItem(Status.NOT_COMPARED, "not compared: no baseline", budget="accuracy"),
    BudgetItem(Status.NOT_MEANT, "it is no .onnx file", budget="opset"),
    BudgetItem(Status.FAILED, "broken\x00 \x1b[31m\nthere", budget="c"),
)
WHOLE = CheckReport((ModelCheck("a.tflite", ITEMS), ModelCheck("b,c.onnx", ITEMS[:1])), ("t.json",))


def test_text() -> None:
    lines = WHOLE.lines()
    assert lines[0] == "1 of 2 models not within their budgets; 2 budgets not known"
    assert "a.tflite: 5 budgets, 1 over: size; 1 failed: c; 1 unsure: latency; 1 not" in lines
    rows = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert rows == ["compared:", "size", "c", "latency", "accuracy", "nodes", "nodes"]
    assert sum("at layer_" in line for line in lines) == 3
    assert any(line.strip() == "and at 2 more" for line in lines)
    assert any(line.strip() == "try: thinflow inspect 'a.tflite'" for line in lines)
    assert "b,c.onnx: within its budget" in lines
    assert lines[-1] == "stored: t.json"
    assert all(len(line) <= 80 and "\x1b" not in line for line in lines)
    everything = WHOLE.lines(everything=True)
    assert sum("at layer_" in line for line in everything) == 5
    assert any("opset" in line and "not meant" in line for line in everything)
    assert str(CheckReport((ModelCheck("m.pb", (ITEMS[0],)),))).startswith("m.pb: within its budget")
    assert CheckReport((ModelCheck("", ()),)).verdict == "graph: no budget is for it"


def test_shows_itself() -> None:
    html = WHOLE._repr_html_()
    assert "3 of &lt;2&gt; &amp; more" in html
    assert repr(WHOLE).startswith("CheckReport(models=")
    assert len(repr(WHOLE)) < 400


def test_what_fails() -> None:
    assert [i.budget for i in WHOLE.failures()] == ["size", "c"]
    assert [i.budget for i in WHOLE.failures(strict=True)] == ["size", "latency", "accuracy", "c"]
    assert not WHOLE.is_within
    assert CheckReport((ModelCheck("m.pb", ITEMS[2:5]),)).is_within


def test_annotations() -> None:
    lines = check_lines(WHOLE, form="github")
    assert lines == [
        "::error file=a.tflite,title=budget size::over: 3 of <2> & more (at layer_0/conv, layer_1/conv, "
        "layer_2/conv)",
        "::warning file=a.tflite,title=budget latency::unsure: 1.2 ± 0.2 of 1.1",
        "::warning file=a.tflite,title=budget accuracy::not compared: not compared: no baseline",
        lines[3],
        "1 of 2 models not within their budgets; 2 budgets not known",
    ]
    assert lines[3].startswith("::error file=a.tflite,title=budget c::failed: broken")
    assert "\n" not in lines[3]
    strict = check_lines(WHOLE, form="github", strict=True)
    assert sum(line.startswith("::error ") for line in strict) == 4


@pytest.mark.parametrize("strict", [False, True])
def test_junit(strict: bool) -> None:
    """As readers of it know it: suites of cases, each with one result at most, and counts that are theirs."""
    root = ElementTree.fromstring("\n".join(check_lines(WHOLE, form="junit", strict=strict)))
    assert root.tag == "testsuites"
    suites = list(root)
    assert [(s.tag, s.get("name")) for s in suites] == [("testsuite", "a.tflite"), ("testsuite", "b,c.onnx")]
    for owner in (root, *suites):
        cases = [*owner.iter("testcase")]
        assert owner.get("tests") == str(len(cases))
        for name, tag in {"failures": "failure", "errors": "error", "skipped": "skipped"}.items():
            assert owner.get(name) == str(sum(case.find(tag) is not None for case in cases))
        assert float(owner.get("time") or "") == pytest.approx(sum(float(c.get("time") or "") for c in cases))
    results = {c.get("name"): [r.tag for r in c] for c in suites[0]}
    unknown = "failure" if strict else "skipped"
    assert results == {
        "nodes": ["system-out"],
        "size": ["failure"],
        "latency": [unknown],
        "accuracy": [unknown],
        "opset": ["skipped"],
        "c": ["error"],
    }
    failure = suites[0].find("testcase[@name='size']/failure")
    assert failure is not None
    assert (failure.get("message"), failure.get("type")) == ("3 of <2> & more", "over")
    assert (failure.text or "").splitlines()[1] == "try: thinflow inspect 'a.tflite'"
    assert {c.get("classname") for c in suites[1]} == {"b,c.onnx"}


def test_no_other_form() -> None:
    with pytest.raises(ParameterError, match="there is no report as 'html'"):
        check_lines(WHOLE, form="html")


def test_items() -> None:
    assert at_most(2, 2, "2 of 2", nodes=("a",), mend="x") == BudgetItem(Status.WITHIN, "2 of 2", 2, 2)
    over = at_most(3, 2, "3 of 2", nodes=("a",), mend="x")
    assert (over.status, over.nodes, over.mend) == (Status.OVER, ("a",), "x")
    assert not not_meant("no").fails(strict=True)
    assert over.data()["status"] == "over"
