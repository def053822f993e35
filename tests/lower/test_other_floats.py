"""Floats that a runtime does not compute in: they become float on the way, which is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.optimize.float_graph import float_graph, type_notes

TEXT = """
x = Placeholder() {{dtype=float, shape=shape[1,4]}}
h = Cast(x) {{SrcT=float, DstT={t}}}
w = Const() {{dtype={t}, value={t}[4,2]{{1,2,3,4,5,6,7,8}}}}
y = MatMul(h, w) {{T={t}}}
r = Relu(y) {{T={t}}}
o = Cast(r) {{SrcT={t}, DstT=float}}
inputs: x
outputs: o
"""


@pytest.mark.parametrize(
    ("element", "suffix"),
    [("bfloat16", "onnx"), ("bfloat16", "tflite"), ("half", "tflite"), ("double", "tflite")],
)
def test_they_become_float(
    element: str, suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime" if suffix == "onnx" else "ai_edge_litert")
    model, target = (str(tmp_path / n) for n in ("m.pb", f"m.{suffix}"))
    thinflow.save(parse_graph(TEXT.format(t=element)), model)
    assert main(["convert", model, target]) == 0
    told = capsys.readouterr().out
    assert f"computes in float what was {element}, largest relative difference" in told
    assert "agrees with the graph" in told
    assert "not in it" not in told
    assert thinflow.verify(model, target, tolerance=0.02).ok


@pytest.mark.parametrize("element", ["half", "double"])
def test_inputs_and_outputs_keep_their_types(element: str, tmp_path: Path) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    text = TEXT.replace("h = Cast(x) {{SrcT=float, DstT={t}}}\n", "").replace("MatMul(h,", "MatMul(x,")
    text = text.replace("dtype=float, shape", "dtype={t}, shape").replace(
        "o = Cast(r) {{SrcT={t}, DstT=float}}\n", ""
    )
    graph = parse_graph(text.replace("outputs: o", "outputs: r").format(t=element))
    path = tmp_path / "m.tflite"
    thinflow.save(graph, tmp_path / "m.pb")
    assert main(["convert", str(tmp_path / "m.pb"), str(path)]) == 0
    interpreter = litert.Interpreter(str(path))
    ends = (*interpreter.get_input_details(), *interpreter.get_output_details())
    wanted = np.dtype({"half": np.float16, "double": np.float64}[element])
    assert [end["dtype"] for end in ends] == [wanted] * 2


def test_digits_that_floats_lack_are_kept(tmp_path: Path) -> None:
    """What hangs on a double's digits is refused, not rounded away."""
    text = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
h = Cast(x) {SrcT=float, DstT=double}
c = Const() {dtype=double, value=double[4]{1e12,1e12,1e12,1e12}}
s = AddV2(h, c) {T=double}
m = Const() {dtype=double, value=double[]{7}}
y = FloorMod(s, m) {T=double}
o = Cast(y) {SrcT=double, DstT=float}
inputs: x
outputs: o
"""
    made = float_graph(parse_graph(text), runtime="litert")
    assert made.graph.node("s").get("T").name == "double"
    (step,) = (s for s in made.steps if s.transform == "widen_floats(from=double)")
    assert "was" in step.error
    assert type_notes(made) == []


def test_another_type_is_refused() -> None:
    with pytest.raises(
        thinflow.ThinflowError, match="'int32' cannot be widened to float\\nhint: write half, "
    ):
        thinflow.transform(parse_graph(TEXT.format(t="half")), "widen_floats(from=int32)")
