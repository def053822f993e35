"""From a graph that fails to the smallest one that does."""

from __future__ import annotations

import os
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.api import failure, save_reduction
from thinflow.cli import main
from thinflow.engines import _child
from thinflow.errors import FeedError, ParameterError
from thinflow.ir.graph import Graph
from thinflow.rewrite.rule import Trace, Transform, transform

TEXT = """
x = Placeholder() {dtype=float, shape=shape[2,4]}
w = Const() {dtype=float, value=float[4,4]{1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}}
a = MatMul(x, w) {T=float}
b = Tanh(a) {T=float}
c = Neg(b) {T=float} @/cpu:0
d = Abs(c, ^b) {T=float, _note=1}
e = Sqrt(d) {T=float}
f = Sigmoid(e) {T=float}
g = Exp(f) {T=float}
q = Relu(b) {T=float}
inputs: x
outputs: g, q
"""


@transform("_abs_to_neg")
@dataclass(frozen=True)
class AbsToNeg(Transform):
    """Wrong on purpose: |x| becomes -x."""

    def apply(self, graph: Graph, trace: Trace) -> None:
        for node in graph:
            if node.op == "Abs":
                trace.changed(node, "wrong")
                node.op = "Neg"


@transform("_dies")
@dataclass(frozen=True)
class Dies(Transform):
    """Ends the process wherever there is a square root."""

    def apply(self, graph: Graph, trace: Trace) -> None:
        if any(n.op == "Sqrt" for n in graph):
            os._exit(3)


@transform("_hangs")
@dataclass(frozen=True)
class Hangs(Transform):
    """Never comes back from a graph with a square root."""

    def apply(self, graph: Graph, trace: Trace) -> None:
        if any(n.op == "Sqrt" for n in graph):
            time.sleep(60)


@transform("_waits")
@dataclass(frozen=True)
class Waits(Transform):
    """Wrong on purpose where an Abs waits for a Tanh."""

    def apply(self, graph: Graph, trace: Trace) -> None:
        for node in graph:
            if node.op == "Abs" and any(n.op == "Tanh" for n in node.control_inputs):
                trace.changed(node, "wrong")
                node.op = "Neg"


@transform("_raises")
@dataclass(frozen=True)
class Raises(Transform):
    """Refuses a Tanh, in words that change with the graph."""

    def apply(self, graph: Graph, trace: Trace) -> None:
        for node in graph:
            if node.op == "Tanh":
                raise FeedError(f"'{node.name}' is number {len(graph)}")


@transform("_has_a_bug")
@dataclass(frozen=True)
class HasABug(Transform):
    """Raises what no transform should."""

    def apply(self, graph: Graph, trace: Trace) -> None:
        for node in graph:
            len(graph) / (0 if node.op == "Tanh" else 1)


@pytest.fixture(autouse=True)
def _in_a_fork() -> None:
    if not _child.can_fork():
        pytest.skip("transforms of a test exist in a fork only")


def ops(graph: Graph) -> list[str]:
    return sorted(n.op for n in graph)


@pytest.mark.parametrize("feeds", [None, {"x": np.float32([[-1, -2, -3, -4], [0, 1, 0, 1]])}])
def test_a_transform_that_changes_numbers(feeds: dict[str, np.ndarray] | None) -> None:
    found = thinflow.reduce(parse_graph(TEXT), transforms="_abs_to_neg", feeds=feeds)
    assert found.outcome == "the numbers differ"
    assert ops(found.graph) == ["Abs", "Placeholder"]
    (node,) = [n for n in found.graph if n.op == "Abs"]
    assert (node.device, node.control_inputs, "_note" in node.attrs) == ("", (), False)
    (array,) = found.feeds.values()
    assert array.shape == (2, 4)
    assert found.nodes == (10, 2)
    assert found.verdict.startswith("10 nodes reduced to 2 (Abs) in ")


@pytest.mark.parametrize(
    ("name", "outcome", "left"),
    [
        ("_dies", "it crashes", "Sqrt"),
        ("_hangs", "it gives no answer", "Sqrt"),
        ("_raises", "TransformError: _ is number _", "Tanh"),
        ("_has_a_bug", "TransformError: it raised ZeroDivisionError: division by zero", "Tanh"),
    ],
)
def test_a_transform_that_fails(name: str, outcome: str, left: str) -> None:
    timeout = 1.0 if name == "_hangs" else 30.0
    found = thinflow.reduce(parse_graph(TEXT), transforms=name, timeout=timeout)
    assert found.outcome == outcome
    assert ops(found.graph) == ["Placeholder", left]


def test_constants_become_plain() -> None:
    text = "w = Const() {dtype=float, value=float[3]{0.12345,0.5,0.7}}\n"
    text += "x = Placeholder() {dtype=float, shape=shape[3]}"
    text += "\ny = Add(x, w) {T=float}\nz = Abs(y) {T=float}\ninputs: x\noutputs: z"

    @transform("_add_to_sub")
    @dataclass(frozen=True)
    class AddToSub(Transform):
        def apply(self, graph: Graph, trace: Trace) -> None:
            for node in graph:
                if node.op == "Add" and any(v.node.tensor is not None for v in node.inputs):
                    trace.changed(node, "wrong")
                    node.op = "Sub"

    found = thinflow.reduce(parse_graph(text), transforms="_add_to_sub")
    assert ops(found.graph) == ["Add", "Const", "Placeholder"]
    (constant,) = [n for n in found.graph if n.tensor is not None]
    assert constant.tensor is not None
    assert constant.tensor.numpy().tolist() == [1, 1, 1]


def test_an_engine_that_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    from thinflow.engines.session import Session

    real = Session.run

    def wrong(self: Session, fetches: object, feeds: object) -> list[np.ndarray]:
        results = real(self, fetches, feeds)  # type: ignore[arg-type]
        assert self.graph is not None
        return [y + 1 for y in results] if any(n.op == "Sqrt" for n in self.graph) else results

    monkeypatch.setattr(Session, "run", wrong)
    found = thinflow.reduce(parse_graph(TEXT), engine="reference")
    assert found.outcome == "the numbers differ"
    assert ops(found.graph) == ["Placeholder", "Sqrt"]


def script(tmp_path: Path, code: str) -> str:
    path = tmp_path / "check.py"
    path.write_text(code)
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))} {{}} {{feeds}}"


def test_a_command_that_fails(tmp_path: Path) -> None:
    code = "import sys\nsys.exit(b'Sigmoid' in open(sys.argv[1], 'rb').read() and len(sys.argv) == 3)"
    found = thinflow.reduce(parse_graph(TEXT), command=script(tmp_path, code))
    assert found.outcome == "the command fails"
    assert ops(found.graph) == ["Placeholder", "Sigmoid"]


def test_the_printed_command_reproduces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.save(parse_graph(TEXT), tmp_path / "m.pb")
    target = tmp_path / "small one.pb"
    ends = ["--outputs", "g,q", "--inputs", "x"]
    assert main(["reduce", str(tmp_path / "m.pb"), str(target), "-t", "_abs_to_neg", *ends]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("10 nodes reduced to 2 (Abs)")
    words = shlex.split(last)
    assert words[:3] == ["next:", "thinflow", "reduce"]
    assert main(words[2:]) == 1
    assert capsys.readouterr().out == "it fails: the numbers differ\n"
    assert main([w if w != "_abs_to_neg" else "fold_constants" for w in words[2:]]) == 0
    assert capsys.readouterr().out == "it does not fail\n"


def test_strings_to_feed_become_constants(tmp_path: Path) -> None:
    text = "s = Placeholder() {dtype=string, shape=shape[]}\nn = StringLength(s)\ny = Neg(n) {T=int32}"
    code = "import sys\nsys.exit(b'Neg' in open(sys.argv[1], 'rb').read())"
    graph = parse_graph(text + "\ninputs: s\noutputs: y")
    found = thinflow.reduce(graph, command=script(tmp_path, code), feeds={"s": np.array(b"a\0", object)})
    assert ops(found.graph) == ["Neg", "Placeholder"]
    assert [a.tolist() for a in found.feeds.values()] == [2]


def test_what_does_not_fail_is_no_work() -> None:
    with pytest.raises(ParameterError, match="does not fail: there is nothing to reduce"):
        thinflow.reduce(parse_graph(TEXT), transforms="fold_constants")
    assert failure(parse_graph(TEXT), transforms="fold_constants") == ""


def test_feeds_of_other_names_and_kinds() -> None:
    graph = parse_graph(TEXT)
    shapes = {v.name: [d or 1 for d in v.shape or ()] for v in graph.inputs}
    feeds = {f"{name}:0": np.ones(shape).tolist() for name, shape in shapes.items()}
    assert failure(graph, transforms="fold_constants", feeds=feeds) == ""
    with pytest.raises(FeedError, match="nothing was fed for the input"):
        failure(graph, transforms="fold_constants", feeds={})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one way"),
        ({"transforms": "fold_constants", "engine": "litert"}, "exactly one way"),
        ({"transforms": "fold_constantz"}, "not recognized"),
        ({"command": "true"}, "does not say where the model goes"),
        ({"command": "'{}"}, "cannot be read"),
        ({"command": "/no/such/program {}"}, "cannot be run"),
        ({"engine": "litert", "tolerance": -1}, "give 0 or more"),
        ({"engine": "litert", "timeout": 0}, "give more than 0"),
        ({"engine": "litert", "feeds": {}}, "nothing was fed for the input 'x'"),
    ],
)
def test_wrong_use(options: dict[str, object], message: str) -> None:
    with pytest.raises((ParameterError, FeedError), match=message):
        thinflow.reduce(parse_graph(TEXT), **options)  # type: ignore[arg-type]


def test_commands_need_somewhere_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.save(parse_graph(TEXT), tmp_path / "m.pb")
    assert main(["reduce", str(tmp_path / "m.pb"), "-t", "_abs_to_neg"]) == 1
    assert "no output file was given" in capsys.readouterr().err
    found = thinflow.reduce(parse_graph(TEXT), transforms="_abs_to_neg")
    with pytest.raises(ParameterError, match=r"give a \.pb file"):
        save_reduction(found, tmp_path / "m.tflite")
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    assert (
        main(
            [
                "reduce",
                str(tmp_path / "m.pb"),
                "--check",
                "-t",
                "_raises",
                "--feeds",
                str(tmp_path / "bad.npz"),
            ]
        )
        == 1
    )
    assert "not an .npz file" in capsys.readouterr().err


def test_trials_are_bounded() -> None:
    found = thinflow.reduce(parse_graph(TEXT), transforms="_abs_to_neg", trials=1)
    assert found.trials == 1
    assert found.outcome == "the numbers differ"


def test_one_control_edge_that_is_needed_keeps_no_other_alive() -> None:
    text = TEXT.replace("d = Abs(c, ^b)", "s = Square(x) {T=float}\nd = Abs(c, ^b, ^s)")
    feeds = {"x": np.full((2, 4), -1, np.float32)}
    found = thinflow.reduce(parse_graph(text), transforms="_waits", feeds=feeds)
    ops = {node.op for node in found.graph}
    assert "Tanh" in ops
    assert "Square" not in ops
