"""Every result shows itself in a notebook: as HTML, with the figures of its text, and escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.checkpoints import write_checkpoint
from thinflow import zoo
from thinflow.errors.plain_text import markdown, markdown_code
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.notebook import markdown_html, table_html, text_html
from thinflow.ir.types import FLOAT

EVIL = "<b>x</b>&`|*"
"""A name that TensorFlow would refuse, and a hostile file can have."""

RESULTS = (
    "BenchmarkReport CheckReport Checkpoint Conversion ConversionDiff Deployment Diff Evaluation Evaluations "
    "Fit GraphReport LintReport "
    "OnnxQuantizedModel OptimizeReport Quality QuantizedModel Reduction Session Summary SurveyReport "
    "Verification"
)

TAGS = "div p b pre table tr th td ul li code h3 h4"


def evil_graph() -> thinflow.Graph:
    """A layer whose weights and path are HTML; as for inputs and outputs, engines know what is no name."""
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 4))}).output()
    w = graph.constant(np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4), "w")
    y = graph.add("MatMul", [x, w], "y", attrs={"T": FLOAT}).output()
    graph.inputs, graph.outputs = [x], [graph.add("Relu", [y], "z", attrs={"T": FLOAT}).output()]
    graph.path = f"{EVIL}.pb"
    return graph


def results(folder: Path) -> Iterator[Any]:
    """What calls of the public functions return, of a graph with such names."""
    graph, file = evil_graph(), folder / "small.tflite"
    yield thinflow.summarize(graph)
    yield thinflow.convert_verified(graph, file)
    changed = evil_graph()
    ones = changed.constant(np.ones((4, 4), np.float32), "ones")
    changed.node("w").output().replace_uses(ones)
    yield thinflow.verify(graph, changed)
    yield thinflow.diff(graph, changed)
    yield thinflow.diff(graph, file)
    yield thinflow.Session(graph)
    yield thinflow.lint(graph)
    samples = np.random.default_rng(0).normal(size=(20, 1, 4)).astype(np.float32)
    yield thinflow.quantize(graph, samples)
    yield thinflow.quantize(graph, samples, format="onnx")
    yield thinflow.benchmark({EVIL: graph}, runs=2, warmup=0, memory=False, peaks=False)
    yield thinflow.optimize(graph, folder / "out", calibration=samples, measure=False)
    exotic = thinflow.Graph()
    x = exotic.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 4))}).output()
    exotic.inputs, exotic.outputs = [x], [exotic.add("OpOfNobody", [x], "y").output()]
    yield thinflow.optimize(exotic, folder / "graph", measure=False)
    yield thinflow.check(graph, budget={"nodes": 1, "forbidden_ops": ["MatMul"]})
    yield thinflow.deploy(graph, folder / "app", target="python")
    yield thinflow.fit(graph, compile=False, remedies=False)
    yield thinflow.reduce(graph, command="test ! -e {}")
    thinflow.save(graph, folder / "evil.pb")
    yield thinflow.survey(folder / "evil.pb", lint=False, run=False, convert=False)
    yield from of_the_zoo(folder)


def of_the_zoo(folder: Path) -> Iterator[Any]:
    data = zoo.test_set("digits")
    labelled = {"image": data["image"][:20], "labels": data["labels"][:20]}
    yield thinflow.evaluate(zoo.build("digits"), labelled)
    yield thinflow.evaluate([zoo.build("digits"), zoo.build("digits")], labelled)
    yield thinflow.optimize(
        zoo.build("digits"), folder / "digits", test=labelled, measure=False
    ).float_quality


class Text(HTMLParser):
    """The text of a page, whose elements are closed in the order in which they were opened."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not attrs
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def figures(text: str) -> set[str]:
    """Numbers that mean something: of more than one digit."""
    return set(re.findall(r"\d+\.\d+|\d\d+", text))


def text_of(result: Any) -> str:
    """The text that a result has besides."""
    if isinstance(result, thinflow.BenchmarkReport):
        return result.markdown(exact=False)
    return result.markdown() if hasattr(result, "markdown") else str(result)


@pytest.mark.slow
def test_every_result_is_shown_in_a_notebook(tmp_path: Path) -> None:
    kinds = set()
    for result in results(tmp_path):
        kinds.add(type(result).__name__)
        page = result._repr_html_()
        shown = Text(page)
        assert shown.tags <= {*TAGS.split()}
        assert EVIL not in page, type(result)
        assert len(repr(result)) < 500
        assert " object at 0x" not in repr(result)
        if type(result).__str__ is not object.__str__ or hasattr(result, "markdown"):
            missing = figures(text_of(result)) - figures(shown.text)
            assert not missing, type(result)
    assert kinds >= {*RESULTS.split()} - {"Checkpoint"}


def test_an_evaluation_shows_what_its_command_prints(tmp_path: Path) -> None:
    graph = evil_graph()
    samples = {"x": np.eye(4, dtype=np.float32)[:, None], "labels": np.array([3, 3, 3, 0])}
    np.savez(tmp_path / "test.npz", **samples)
    found = thinflow.evaluate(graph, tmp_path / "test.npz")
    assert found.verdict.startswith("accuracy 25.00%: 1 of 4 samples right")
    assert any(line.startswith("  mean recall ") for line in found.lines)
    shown = Text(found._repr_html_()).text
    assert all(line.strip() in shown for line in found.lines)
    assert "against" not in shown


def test_a_smaller_model_shows_what_it_computes_and_what_was_kept() -> None:
    samples = {"x": np.random.default_rng(0).normal(size=(100, 1, 4)).astype(np.float32)}
    model = thinflow.quantize(evil_graph(), samples)
    shown = Text(model._repr_html_()).text
    assert f"{len(model.content):,}, float {model.float_bytes:,}" in shown
    assert model.shares.sentence in shown
    assert [trial.what for trial in model.way.trials if trial.kept and trial.what not in shown] == []
    assert "as asked for: " in shown


def test_results_are_all_that_functions_return() -> None:
    """A new result type has to be shown, too."""
    # A view is a page in a frame: tests/explorer/test_view.py.
    known = {*RESULTS.split(), "View"}
    returned = {
        name
        for name in thinflow.__all__
        if isinstance(getattr(thinflow, name), type) and hasattr(getattr(thinflow, name), "_repr_html_")
    }
    assert returned == known


def test_a_checkpoint(tmp_path: Path) -> None:
    arrays = {EVIL: np.zeros((2, 3), np.float32), "b": np.zeros(7, np.int32)}
    write_checkpoint(tmp_path / "m", {n: thinflow.Tensor.from_array(a) for n, a in arrays.items()})
    found = thinflow.load_checkpoint(tmp_path / "m")
    assert repr(found) == f"Checkpoint({tmp_path / 'm'}, 2 variables)"
    shown = Text(found._repr_html_())
    assert EVIL in shown.text
    assert "float[2,3]" in shown.text


def test_markdown() -> None:
    table = "| h | i |\n|---|---|\n| 1 \\| 2 | `p\\|q` |"
    page = markdown_html(f"# a <b>\n\n**bold & `c`**, and `x|y`\n\n{table}\n\n- one\n- two \\`t\\`\n")
    assert page == (
        "<div><h3>a &lt;b&gt;</h3><p><b>bold &amp; <code>c</code></b>, and <code>x|y</code></p>"
        "<table><tr><th>h</th><th>i</th></tr><tr><td>1 | 2</td><td><code>p|q</code></td></tr></table>"
        "<ul><li>one</li><li>two `t`</li></ul></div>"
    )


@pytest.mark.parametrize("text", [EVIL, "a](b)", "``", "\\", "**", "<!--", "x`", "&amp;", "][a"])
def test_what_is_escaped_for_markdown_reads_as_it_was(text: str) -> None:
    shown = markdown_html(f"- {markdown(text)}")
    assert unescape(re.sub(r"</?(div|ul|li)>", "", shown)) == text
    code = markdown_html(f"| {markdown_code(text)} |\n|---|")
    assert unescape(re.sub(r"</?(div|table|tr|th|code)>", "", code)) == text


def test_text_and_tables() -> None:
    assert (
        text_html("a < b\n  more & more") == "<div><p><b>a &lt; b</b></p><pre>  more &amp; more</pre></div>"
    )
    assert text_html("one") == "<div><p><b>one</b></p></div>"
    assert (
        table_html("t", [("a", 1)])
        == "<div><p><b>t</b></p><table><tr><th>a</th><td>1</td></tr></table></div>"
    )
    long = table_html("t", [(i, i) for i in range(100)], ("x", "y"))
    assert long.count("<tr>") == 61
    assert long.endswith("<p>and 40 more</p></div>")
