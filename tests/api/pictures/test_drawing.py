"""Pictures: what is in them, where it is, and that any name is safe."""

from __future__ import annotations

import stat
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from tests.library import function, graph_of, node
from tests.transforms.golden import parse_graph
from thinflow.api.pictures.dot import dot, plain_dot, quoted
from thinflow.api.pictures.draw import draw, write_dot
from thinflow.api.pictures.layout import layout
from thinflow.api.pictures.picture import MOST_BOXES, picture
from thinflow.api.pictures.svg import svg
from thinflow.errors import FormatError, ParameterError
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT
from thinflow.zoo import digits

SVG = "{http://www.w3.org/2000/svg}"
BRANCHES = """
x = Placeholder() {dtype=float, shape=shape[2]}
a/left = Relu(x) {T=float}
a/right = Neg(x) {T=float}
b/sum = AddV2(a/left, a/right) {T=float}
b/wait = NoOp()
outputs: b/sum
"""


def test_plain_dot_has_the_old_layout() -> None:
    graph = parse_graph("x = Placeholder() {dtype=float}\ny = Mul(x, x) {T=float}")
    assert plain_dot(graph) == (
        'digraph graphname {\n  "x" [label="Placeholder"];\n  "y" [label="Mul"];\n  "x" -> "y";\n}\n'
    )


def test_control_edges_are_dashed() -> None:
    graph = parse_graph("x = Placeholder() {dtype=float}\ny = NoOp()")
    graph.node("y").add_control_input(graph.node("x"))
    assert '  "x" -> "y" [style=dashed];' in plain_dot(graph)


@pytest.mark.parametrize(
    ("text", "escaped"),
    [('a"b', r'"a\"b"'), ("a\\b", r'"a\\b"'), ("a\nb", '"a b"'), ("ü", '"ü"')],
)
def test_any_name_is_quoted(text: str, escaped: str) -> None:
    assert quoted(text) == escaped


def test_dot_frames_scopes() -> None:
    text = dot(picture(parse_graph(BRANCHES), "p"))
    assert 'subgraph "cluster_a" {' in text
    assert '"a/left" -> "b/sum"' in text
    assert text.count("{") == text.count("}")


def test_constants_stand_in_their_readers() -> None:
    graph = digits.build(0)
    with_them, without = picture(graph, constants=True), picture(graph)
    assert len(with_them.boxes) == len(graph)
    assert len(without.boxes) < len(graph) / 2
    assert "constants stand in the boxes of their readers" in without.notes[0]
    norm = next(b for b in without.boxes if b.key == "conv1/BatchNorm/FusedBatchNormV3")
    assert "+ 4 x float[16]" in norm.lines


def test_scopes_become_boxes() -> None:
    drawn = picture(parse_graph(BRANCHES), depth=0)
    assert [b.key for b in drawn.boxes] == ["x", "a/", "b/sum", "b/"]
    assert drawn.boxes[1].lines == ("a/", "2 nodes", "1 Neg, 1 Relu")
    assert [(a.source, a.target) for a in drawn.arrows] == [("x", "a/"), ("a/", "b/sum")]


def test_big_graphs_are_made_readable() -> None:
    graph = Graph()
    value = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT}).output()
    for i in range(3000):
        value = graph.add(
            "Relu", [value], f"block_{i // 20}/unit_{i // 5}/relu_{i}", attrs={"T": FLOAT}
        ).output()
    drawn = picture(graph)
    assert 100 < len(drawn.boxes) <= MOST_BOXES
    assert "3001 nodes in" in drawn.notes[0]


def test_boxes_do_not_overlap_and_arrows_lead_down() -> None:
    placed = layout(picture(digits.build(0)))
    for i, a in enumerate(placed.boxes):
        assert a.width / 2 <= a.x <= placed.width
        for b in placed.boxes[i + 1 :]:
            apart = abs(a.x - b.x) >= (a.width + b.width) / 2 or abs(a.y - b.y) >= (a.height + b.height) / 2
            assert apart, (a.box.key, b.box.key)
    assert all(points[0][1] < points[-1][1] for _, points in placed.arrows)


def test_loops_are_drawn() -> None:
    graph = parse_graph(
        "x = Placeholder() {dtype=float}\ne = Enter(x) {T=float}\nm = Merge(e, x) {T=float, N=2}\n"
        "n = NextIteration(m) {T=float}"
    )
    graph.node("m").set_input(1, graph.node("n"))
    drawn = picture(graph)
    assert ("n", "m") in [(a.source, a.target) for a in drawn.arrows]
    back = next(
        points for arrow, points in layout(drawn).arrows if (arrow.source, arrow.target) == ("n", "m")
    )
    assert back[0][1] > back[-1][1], "the arrow leads back up"
    assert len(ET.fromstring(svg(drawn)).findall(f".//{SVG}path")) >= len(drawn.arrows)


def test_functions_have_pictures_of_their_own() -> None:
    body = function("f<&>", {"a": FLOAT}, [node("r", "Relu", "a", T=FLOAT)], {"y": "r:activations:0"})
    graph = graph_of([node("x", "Placeholder", dtype=FLOAT), node("y", "f<&>", "x")], [body])
    drawn = picture(graph, "main")
    assert [f.title for f in drawn.functions] == ["f<&>"]
    assert "function f&lt;&amp;&gt;" in svg(drawn)
    assert 'label="function f<&>"' in dot(drawn)


def test_svg_and_page_are_well_formed() -> None:
    graph = Graph()
    graph.constant(np.float32(1), "a")
    graph.restore(type(graph.node("a"))('<script>"&\x01', "Evil</svg>"))
    drawn = picture(graph, "</title>", constants=True)
    ET.fromstring(svg(drawn))


def test_an_empty_picture() -> None:
    assert picture(Graph()).boxes == []
    root = ET.fromstring(svg(picture(Graph())))
    assert root.tag == f"{SVG}svg"
    assert float(root.attrib["width"]) > 0
    assert not root.findall(f".//{SVG}rect[@rx]")


@pytest.mark.parametrize("suffix", ["svg", "dot"])
def test_draw(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    drawn = draw(digits.build(0), path, engine="thinflow")
    assert drawn.size_bytes == path.stat().st_size
    assert (drawn.boxes, drawn.by) == (36, "thinflow")
    assert "Conv2D" in path.read_text("utf-8")


@pytest.fixture
def graphviz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for `dot` that hands its options and its input back."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "dot"
    program.write_text('#!/bin/sh\necho "$1"\ncat\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return program


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_graphviz_draws_where_it_is_installed(tmp_path: Path, graphviz: Path, kind: str) -> None:
    drawn = draw(parse_graph(BRANCHES), tmp_path / f"x.{kind}")
    assert drawn.by == "graphviz"
    assert (tmp_path / f"x.{kind}").read_text("utf-8").startswith(f"-T{kind}\ndigraph")


def test_a_failing_graphviz_is_replaced(tmp_path: Path, graphviz: Path) -> None:
    graphviz.write_text("#!/bin/sh\nexit 1\n")
    assert draw(parse_graph(BRANCHES), tmp_path / "x.svg").by == "thinflow"
    with pytest.raises(ParameterError, match="Graphviz cannot draw this, which a PNG needs"):
        draw(parse_graph(BRANCHES), tmp_path / "x.png")


@pytest.mark.parametrize(("kind", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_the_package_draws_where_the_program_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, start: bytes
) -> None:
    pytest.importorskip("pygraphviz")
    monkeypatch.setenv("PATH", str(tmp_path))
    for graph in (digits.build(0), parse_graph(BRANCHES)):
        assert draw(graph, tmp_path / f"x.{kind}").by == "graphviz"
        assert (tmp_path / f"x.{kind}").read_bytes().startswith(start)


def test_without_graphviz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("thinflow.api.pictures.draw._PACKAGE", "absent")
    assert draw(parse_graph(BRANCHES), tmp_path / "x.svg").by == "thinflow"
    with pytest.raises(ParameterError, match="Graphviz is not installed, which a PNG needs") as caught:
        draw(parse_graph(BRANCHES), tmp_path / "x.png")
    assert "write .svg" in caught.value.hint
    with pytest.raises(ParameterError, match="engine=graphviz needs"):
        draw(parse_graph(BRANCHES), tmp_path / "x.svg", engine="graphviz")


def test_unknown_suffix(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="names no kind of picture") as caught:
        draw(parse_graph(BRANCHES), tmp_path / "x.svgz")
    assert "did you mean 'svg'" in caught.value.hint


def test_missing_model(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such file"):
        write_dot(tmp_path / "none.pb", tmp_path / "x.dot")
