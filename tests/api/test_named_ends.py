"""Inputs and outputs that a user names: every verb takes each way of writing them, or refuses it clearly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.compare.equivalence import prove
from thinflow.compare.output_comparer import OutputComparer
from thinflow.errors import GraphError
from thinflow.ir.graph import Graph

TEXT = """
x = Placeholder() {dtype=float, shape=shape[1,8]}
axis = Const() {dtype=int32, value=int32[]{1}}
sp = Split(axis, x) {T=float, num_split=2}
a = Mul(sp:0, sp:1) {T=float}
w = Const() {dtype=float, value=float[4,3]{normal 1}}
y = MatMul(a, w) {T=float}
z = Softmax(y) {T=float}
inputs: x
outputs: z
"""


def halves() -> Graph:
    """x [1, 8] in two halves, multiplied, in a matrix product."""
    return parse_graph(TEXT)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    thinflow.save(halves(), "m.pb")
    return "m.pb"


VERBS = {
    "optimize": ["optimize", "m.pb", "out", "--no-benchmark"],
    "convert": ["convert", "m.pb", "c.tflite"],
    "convert to onnx": ["convert", "m.pb", "c.onnx"],
    "quantize": ["quantize", "m.pb", "q.tflite", "--scheme", "float16"],
    "transform": ["transform", "m.pb", "t.pb", "-t", "strip_unused_nodes fold_constants"],
    "transform_graph": [
        "transform_graph",
        "--in_graph=m.pb",
        "--out_graph=t.pb",
        "--outputs=z",
        "--transforms=strip_unused_nodes",
    ],
    "run": ["run", "m.pb"],
    "verify": ["verify", "m.pb", "m.pb"],
}
WHOLE = ["x", "x:0", " x ", "sp,sp:1", " sp:1 , sp ", "sp:0,sp:1", "x,sp", "sp:1,x", "a", "a,x", "y", "z,x"]
"""Inputs with which nothing that the output needs is left open."""


@pytest.mark.parametrize("inputs", WHOLE)
@pytest.mark.parametrize("verb", VERBS)
def test_every_spelling_works_in_every_verb(
    verb: str, inputs: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "onnx" in verb:
        pytest.importorskip("onnxruntime")
    code = main([*VERBS[verb], f"--inputs={inputs}"])
    told = capsys.readouterr()
    if inputs == "z,x" and verb in {"convert", "convert to onnx", "quantize"}:
        assert (code, "there is nothing to compute" in told.err) == (1, True)
    else:
        assert (code, told.err) == (0, "")
    assert "not compared" not in told.out


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("sp,sp:0", "given twice"),
        ("sp:0,sp", "the input 'sp' is given twice"),
        ("x,x:0", "the input 'x:0' is given twice"),
        ("^x", "'^x' is a control input, not a tensor\nhint: leave out the ^"),
        ("x:one", "'x:one' is not a tensor name\nhint: write node or node:port"),
        ("sp:2", "there is no input 'sp:2' in the graph: node 'sp' (Split) has 2 outputs"),
        ("sp:2", "hint: the last is 'sp:1'"),
        ("x:1", "there is no input 'x:1' in the graph: node 'x' (Placeholder) has 1 output\nhint: write 'x'"),
        ("spp", "there is no input 'spp' in the graph\nhint: did you mean 'sp'?"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_refuses_the_same(
    verb: str, inputs: str, message: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*VERBS[verb], f"--inputs={inputs}"]) == 1
    told = capsys.readouterr().err.replace("m.pb: ", "")
    assert message in told
    assert sorted(p.name for p in Path().iterdir()) == ["m.pb"]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ("z,z:0", "the output 'z:0' is given twice"),
        ("^z", "hint: leave out the ^"),
        ("sp:2", "there is no output 'sp:2' in the graph: node 'sp' (Split) has 2 outputs"),
    ],
)
@pytest.mark.parametrize("verb", [v for v in VERBS if v != "transform_graph"])
def test_outputs_likewise(
    verb: str, outputs: str, message: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*VERBS[verb], f"--outputs={outputs}"]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("outputs", ["sp:1,z", " y , sp", "sp,sp:1"])
@pytest.mark.parametrize("verb", [v for v in VERBS if v != "transform_graph"])
def test_several_outputs_of_one_node(
    verb: str, outputs: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "onnx" in verb:
        pytest.importorskip("onnxruntime")
    assert main([*VERBS[verb], f"--outputs={outputs}"]) == 0
    assert "not compared" not in capsys.readouterr().out


@pytest.mark.parametrize("inputs", ["sp", "sp:1"])
@pytest.mark.parametrize("verb", ["optimize", "convert", "convert to onnx", "quantize"])
def test_one_port_of_two_leaves_the_model_open(
    verb: str, inputs: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*VERBS[verb], f"--inputs={inputs}"]) == 1
    other = "sp:1" if inputs == "sp" else "sp"
    assert capsys.readouterr().err == (
        f"error: m.pb: the outputs also need 'x', which is not among the inputs, through '{other}'\n"
        f"hint: name all inputs: --inputs {inputs},{other}\n"
    )
    assert main([*VERBS[verb], f"--inputs={inputs},{other}"]) == 0


def test_an_input_that_nobody_named(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = TEXT.replace(
        "a = Mul(sp:0, sp:1)", "b = Placeholder() {dtype=float, shape=shape[1,4]}\na = Mul(sp:0, b)"
    )
    thinflow.save(parse_graph(text), "two.pb")
    assert main(["convert", "two.pb", "c.tflite", "--inputs", "x"]) == 1
    assert (
        "the outputs also need 'b', which is not among the inputs\nhint: name all inputs: --inputs x,b"
        in (capsys.readouterr().err)
    )
    assert main(["convert", "two.pb", "c.tflite", "--inputs", "x,b"]) == 0


STRIP = "strip_unused_nodes"


@pytest.mark.parametrize(
    ("inputs", "now"),
    [
        (["sp", "sp:1"], ["sp_0", "sp_1"]),
        (["sp:1", "sp"], ["sp_1", "sp_0"]),
        (["x", "sp:1"], ["x", "sp_1"]),
    ],
)
def test_what_is_cut_keeps_its_place_and_its_name(inputs: list[str], now: list[str]) -> None:
    graph = halves()
    cut = thinflow.transform(graph, STRIP, inputs=inputs, outputs=["z"])
    assert [v.name for v in cut.inputs] == now
    rng = np.random.default_rng(0)
    feeds = {n: rng.standard_normal((1, 8 if n == "x" else 4), np.float32) for n in inputs}
    expected = thinflow.Session(graph, "reference").run(["z"], feeds)
    renamed = dict(zip(now, feeds.values(), strict=True))
    found = thinflow.Session(cut, "reference").run(["z"], renamed)
    np.testing.assert_array_equal(found, expected)


def test_a_port_that_became_a_node_is_found_by_its_old_name() -> None:
    cut = thinflow.transform(halves(), STRIP, inputs=["sp", "sp:1"], outputs=["z"])
    assert [cut.value(n).name for n in ("sp", "sp:1")] == ["sp_0", "sp_1"]
    alone = parse_graph(TEXT.replace("a = Mul(sp:0, sp:1)", "a = Neg(sp:1)"))
    cut = thinflow.transform(alone, STRIP, inputs=["sp:1"], outputs=["z"])
    assert cut.value("sp:1") is cut.inputs[0]


def renamed(graph: Graph, old: str, new: str) -> Graph:
    copy = graph.clone()
    copy.rename(copy.node(old), new)
    return copy


def test_proof_pairs_renamed_ends_by_place() -> None:
    graph = halves()
    assert prove(graph, renamed(graph, "x", "image"), 1e-6).equal
    assert prove(graph, renamed(graph, "z", "scores"), 1e-6).equal
    other = renamed(graph, "x", "image")
    other.node("a").set_inputs([other.node("sp").output(0), other.node("sp").output(0)])
    assert not prove(graph, other, 1e-6).equal


@pytest.mark.parametrize(
    "change", [lambda g: renamed(g, "x", "image"), lambda g: renamed(g, "z", "scores"), lambda g: g.clone()]
)
def test_a_comparer_follows_a_renamed_input(change: Callable[[Graph], Graph]) -> None:
    step: Any = type("Step", (), {"exact": False, "tolerance": 0.0, "name": "round"})()
    feeds = [{"x:0": np.linspace(-1, 1, 8, dtype=np.float32)[None]}]
    comparer, first = OutputComparer(feeds), halves()
    second = change(first)
    assert comparer.compare(first, second, step) == 0
    assert comparer.compare(second, change(first), step) == 0
    assert comparer.skipped == ""


def test_python_refuses_alike() -> None:
    with pytest.raises(GraphError, match="has 2 outputs"):
        thinflow.load(halves(), inputs=["sp:5"])
    with pytest.raises(GraphError, match="leave out the"):
        thinflow.load(halves(), outputs=["^z"])
    with pytest.raises(GraphError, match="the outputs also need 'x'"):
        thinflow.quantize(halves(), inputs=["sp"], outputs=["z"])
