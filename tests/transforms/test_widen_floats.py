"""Loops, lists and calls that compute in other floats become float as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.library import constant, function, graph_of, node
from tests.loops import while_loop
from tests.lower.tflite.harness import Net
from thinflow.cli import main
from thinflow.interpreter import Plan
from thinflow.ir.text import graph_text
from thinflow.ir.types import BFLOAT16, DOUBLE, FLOAT, HALF, INT32, VARIANT
from thinflow.optimize.core import find_core
from thinflow.optimize.numeric_check import float_tolerance
from thinflow.rewrite.rule import Trace
from thinflow.transforms.widen_floats import WidenFloats, mentions_type

OTHERS = (HALF, BFLOAT16, DOUBLE)
SAMPLES = np.linspace(-1, 2, 12, dtype=np.float32).reshape(4, 3)


def sums(element, more=(), extra=()):
    """Running sums of an input's rows, kept in a list, and the last: all of one type.   x [n,3] float."""
    variables = {"i": INT32, "x": element, "total": element, "out": VARIANT}
    less = function("less", variables, [
        constant("four", np.int32(4)), node("c", "Less", "i", "four:output:0", T=INT32),
    ], {"r": "c:z:0"})  # fmt: skip
    turn = function("turn", variables, [
        constant("one", np.int32(1)), constant("axis", np.int32(0)), *more,
        node("j", "AddV2", "i", "one:output:0", T=INT32),
        node("row", "GatherV2", "x", "i", "axis:output:0", Tparams=element, Tindices=INT32, Taxis=INT32),
        node("sum", "AddV2", "total", "row:output:0", T=element),
        node("set", "TensorListSetItem", "out", "i", "sum:z:0", element_dtype=element),
    ], {"a": "j:z:0", "b": "x", "c": "sum:z:0", "d": "set:output_handle:0"})  # fmt: skip
    types = (INT32, element, element, VARIANT)
    return graph_of([
        node("x", "Placeholder", dtype=FLOAT, shape="shape { dim { size: 4 } dim { size: 3 } }"),
        constant("zero", np.int32(0)), constant("shape", np.int32([3])), constant("n", np.int32(4)),
        constant("none", np.float32([0, 0, 0])),
        node("h", "Cast", "x", SrcT=FLOAT, DstT=element), node("t", "Cast", "none", SrcT=FLOAT, DstT=element),
        node("made", "TensorListReserve", "shape", "n", element_dtype=element, shape_type=INT32),
        node("w", "StatelessWhile", "zero", "h", "t", "made", cond="@less", body="@turn", T=types),
        node("s", "TensorListStack", "w:3", "shape", element_dtype=element),
        node("y", "Cast", "s", SrcT=element, DstT=FLOAT), node("z", "Cast", "w:2", SrcT=element, DstT=FLOAT),
    ], [less, turn, *extra])  # fmt: skip


def ends(graph):
    graph.inputs, graph.outputs = [graph.value("x")], [graph.value("y"), graph.value("z")]
    return graph


def answers(graph):
    return Plan(graph, graph.outputs, graph.inputs).run({graph.inputs[0]: SAMPLES})


def narrow_left(graph):
    graphs = [graph, *(f.graph for f in graph.functions.values())]
    return [n.name for g in graphs for n in g if mentions_type(n, OTHERS)]


@pytest.mark.parametrize("element", OTHERS)
def test_a_loop_and_its_list(element) -> None:
    graph = ends(sums(element))
    made = thinflow.transform(graph, f"widen_floats(from={element})")
    assert narrow_left(made) == []
    assert [t.name for t in made.functions["turn"].input_types] == ["int32", "float", "float", "variant"]
    for found, wanted in zip(answers(made), answers(graph), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=0.05 if element is BFLOAT16 else 5e-3)
    again = thinflow.transform(made, f"widen_floats(from={element})")
    assert graph_text(again) == graph_text(made)


@pytest.mark.parametrize("element", OTHERS)
@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_whole_files(element, suffix, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime" if suffix == "onnx" else "ai_edge_litert")
    model, target = (str(tmp_path / n) for n in ("m.pb", f"m.{suffix}"))
    thinflow.save(ends(sums(element)), model)
    assert main(["convert", model, target, "--inputs", "x", "--outputs", "y,z"]) == 0
    told = capsys.readouterr().out
    assert "PARTIAL" not in told
    if suffix == "tflite" or element is BFLOAT16:
        assert f"computes in float what was {element}" in told
    assert thinflow.verify(model, target, outputs=["y", "z"], tolerance=0.02).ok


def test_graphs_without_the_types_are_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ends(sums(FLOAT))
    monkeypatch.setattr("thinflow.transforms.widen_floats.infer_shapes", lambda *_: pytest.fail("inferred"))
    WidenFloats(("double",)).apply(graph, Trace())


def test_it_is_written_and_read_again(tmp_path: Path) -> None:
    made = thinflow.transform(ends(sums(HALF)), "widen_floats")
    thinflow.save(made, tmp_path / "m.pb")
    again = thinflow.load(tmp_path / "m.pb", inputs=["x"], outputs=["y", "z"])
    for found, wanted in zip(answers(again), answers(made), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_what_hangs_on_the_type_is_cast_inside_the_loop() -> None:
    bits = [node("b", "Bitcast", "total", T=HALF, type=BFLOAT16)]
    graph = ends(sums(HALF, bits))
    made = thinflow.transform(graph, "widen_floats(from=half)")
    assert narrow_left(made) == ["total/half", "b"]
    for found, wanted in zip(answers(made), answers(graph), strict=True):
        np.testing.assert_allclose(found, wanted, atol=5e-3)


def test_a_call_by_the_functions_name_keeps_all_functions() -> None:
    same = function("same", {"v": HALF}, [node("i", "Relu", "v", T=HALF)], {"r": "i:activations:0"})
    graph = ends(sums(HALF, [node("k", "same", "total")], [same]))
    result = thinflow.transform(graph, "widen_floats")
    assert "w" in {n.name for n in result if mentions_type(n, OTHERS)}
    assert [t.name for t in result.functions["turn"].input_types] == ["int32", "half", "half", "variant"]


def test_frames_of_tf1() -> None:
    net = Net()
    x = net.feed(SAMPLES)
    start = net.op("Cast", x, SrcT=FLOAT, DstT=HALF)
    one = net.op("Cast", np.float32(1), SrcT=FLOAT, DstT=HALF)
    limit = net.op("Cast", np.float32(6), SrcT=FLOAT, DstT=HALF)
    (last,) = while_loop(
        net.graph,
        "loop",
        [start],
        lambda m: net.op("Less", net.op("Max", m[0], np.int32([0, 1]), T=HALF), limit, T=HALF),
        lambda v: [net.op("AddV2", v[0], one, T=HALF)],
    )
    y = net.op("Cast", last, name="y", SrcT=HALF, DstT=FLOAT)
    net.graph.inputs, net.graph.outputs = [x], [y]
    made = thinflow.transform(net.graph, "fold_constants widen_floats")
    (wanted,) = net.reference(y)
    (found,) = Plan(made, made.outputs, made.inputs).run({made.inputs[0]: SAMPLES})
    np.testing.assert_allclose(found, wanted, atol=5e-3)


def test_ends_become_float_where_a_runtime_lacks_the_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ai_edge_litert")
    text = [
        node("x", "Placeholder", dtype=BFLOAT16, shape="shape { dim { size: 4 } dim { size: 3 } }"),
        node("y", "Relu", "x", T=BFLOAT16),
    ]
    model, target = str(tmp_path / "m.pb"), str(tmp_path / "m.tflite")
    thinflow.save(graph_of(text), model)
    assert main(["convert", model, target]) == 0
    told = capsys.readouterr().out
    assert "takes float for x and gives float for y, bfloat16 in the model" in told
    assert "input  x  float[4,3]" in told
    assert main(["verify", model, target]) == 0
    assert "a model computes in bfloat16" in capsys.readouterr().out
    assert main(["optimize", model, str(tmp_path / "out")]) == 0


@pytest.mark.parametrize(("element", "limit"), [(HALF, 2**-7), (BFLOAT16, 2**-4), (FLOAT, 1e-4)])
def test_the_usual_tolerance_is_that_of_the_type(element, limit) -> None:
    graph = (
        ends(sums(element)) if element is not FLOAT else thinflow.transform(ends(sums(HALF)), "widen_floats")
    )
    found = thinflow.verify(graph, graph)
    assert found.tolerance == limit
    assert any("computes in" in note for note in found.notes) == (element is not FLOAT)
    assert thinflow.verify(graph, graph, tolerance=1e-6).tolerance == 1e-6


@pytest.mark.parametrize(("element", "limit"), [(HALF, 2**-7), (BFLOAT16, 2**-4), (DOUBLE, 1e-3)])
def test_files_are_judged_by_the_digits_of_the_type(element, limit) -> None:
    """ONNX Runtime keeps more digits than the interpreter inside of half, which is no mistake of the file."""
    graph = ends(sums(element))
    assert float_tolerance(find_core(graph, one_sample=False, unsupported=lambda *_, **__: {})) == limit
