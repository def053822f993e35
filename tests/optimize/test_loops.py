"""The main job on models with loops and branches: raised for LiteRT and ONNX, written as they came."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.programs import Apply, Block, Choice, Number, Sum, Turns, new_form, old_form
from tests.transforms.golden import parse_graph
from thinflow.api.converting import convert_verified
from thinflow.errors import UnsupportedOp
from thinflow.formats import graphdef
from thinflow.ir.graph import Graph
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import float_model
from thinflow.optimize.report import GraphReport, OptimizeReport
from thinflow.optimize.samples import samples_for

# A branch in a loop, and a constant on one side only, which no step must let out.
PROGRAM = Block(
    (
        Turns(
            3,
            (0,),
            Block(
                (
                    Choice(
                        1,
                        Block((Number(2.0), Sum(1, 2)), (3,)),
                        Block((Number(2.0), Apply("Tanh", 2)), (3,)),
                    ),
                ),
                (2,),
            ),
        ),
    ),
    (1,),
)
FRAMES = {"Enter", "Exit", "Merge", "Switch", "LoopCond", "NextIteration"}


def written(graph: Graph, folder: Path) -> Path:
    graphdef.save(graph, folder / "loop.pb")
    return folder / "loop.pb"


def test_frames_become_a_litert_model_and_come_back(tmp_path: Path) -> None:
    source = written(old_form(PROGRAM), tmp_path)
    report = thinflow.optimize(source, tmp_path / "out", seconds=0.2, measure=False)
    assert isinstance(report, OptimizeReport)
    assert report.outside == {}
    assert [s.transform for s in report.ledger.steps if "control_flow" in s.transform and s.changes] == [
        "raise_control_flow(functions=true)",
        "lower_control_flow(raised=true)",
    ]
    after = thinflow.load(report.files["fp32_pb"])
    assert {n.op for n in after} >= FRAMES
    assert not after.functions
    feed = {"x": np.float32([0.5, -1, 2])}
    expected = thinflow.run(source, feed)
    for path in (report.files["fp32_pb"], report.files["fp32"]):
        found = next(iter(thinflow.run(path, feed).values()))
        np.testing.assert_allclose(found, next(iter(expected.values())), rtol=1e-5, atol=1e-6)


def test_calls_stay_calls(tmp_path: Path) -> None:
    source = written(new_form(PROGRAM), tmp_path)
    report = thinflow.optimize(source, tmp_path / "out", measure=False)
    assert isinstance(report, OptimizeReport)
    ops = {n.op for n in thinflow.load(report.files["fp32_pb"])}
    assert "StatelessWhile" in ops
    assert ops.isdisjoint(FRAMES)


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_frames_are_converted(tmp_path: Path, suffix: str) -> None:
    if suffix == "onnx":
        pytest.importorskip("onnxruntime")
    source = written(old_form(PROGRAM), tmp_path)
    result = convert_verified(source, tmp_path / f"loop.{suffix}")
    assert "agrees with the graph" in result.proof
    assert not any("run in the app" in note for note in result.notes)


ACCUMULATOR = """
x = Placeholder() {dtype=float, shape=shape[2]}
start = Const() {value=int32[]{0}}
sizes = Const() {value=int32[0]{}}
most = Const() {value=int32[]{-1}}
list = EmptyTensorList(sizes, most) {element_dtype=float, shape_type=int32}
loop = StatelessWhile(start, x, list) {T=[int32,float,variant], body=@turn, cond=@more}
y = Identity(loop:1) {T=float}
inputs: x
outputs: y
def more(i: int32, a: float, kept: variant)
limit = Const() {value=int32[]{3}}
less = Less(i, limit) {T=int32}
return less
def turn(i: int32, a: float, kept: variant)
one = Const() {value=int32[]{1}}
next = AddV2(i, one) {T=int32}
t = Tanh(a) {T=float}
more = TensorListPushBack(kept, a) {element_dtype=float}
return next, t, more
"""


def test_what_training_left_in_a_loop_is_gone(tmp_path: Path) -> None:
    graph = parse_graph(ACCUMULATOR.strip())
    with pytest.raises(UnsupportedOp):
        float_model(graph)
    after = float_graph(graph, samples=samples_for(graph, None, limit=1)).graph
    assert not any("TensorList" in n.op for n in after)
    assert float_model(after).core.outside == {}


HEAVY_LOOP = """
x = Placeholder() {dtype=float, shape=shape[2,2]}
start = Const() {value=int32[]{0}}
loop = StatelessWhile(start, x) {T=[int32,float], body=@turn, cond=@more}
y = Neg(loop:1) {T=float}
inputs: x
outputs: y
def more(i: int32, a: float)
limit = Const() {value=int32[]{3}}
less = Less(i, limit) {T=int32}
return less
def turn(i: int32, a: float)
one = Const() {value=int32[]{1}}
next = AddV2(i, one) {T=int32}
m = MatMul(a, a) {T=float}
n = MatrixDeterminant(m) {T=float}
s = Mul(m, n) {T=float}
return next, s
"""


def test_a_model_without_the_loop_that_does_the_work_is_no_model(tmp_path: Path) -> None:
    graph = parse_graph(HEAVY_LOOP.strip())
    with pytest.raises(UnsupportedOp) as caught:
        float_model(float_graph(graph, verify=False).graph)
    assert (
        "the work of this model is done inside a loop that LiteRT models cannot hold" in caught.value.problem
    )
    assert "'loop'" in caught.value.where
    assert "lower_control_flow" in caught.value.hint


GROWING = """
x = Placeholder() {dtype=float, shape=shape[1]}
start = Const() {value=int32[]{0}}
none = Const() {value=float[0]{}}
loop = StatelessWhile(start, none, x) {T=[int32,float,float], body=@turn, cond=@more}
y = Identity(loop:1) {T=float}
inputs: x
outputs: y
def more(i: int32, a: float, x: float)
limit = Const() {value=int32[]{3}}
less = Less(i, limit) {T=int32}
return less
def turn(i: int32, a: float, x: float)
one = Const() {value=int32[]{1}}
next = AddV2(i, one) {T=int32}
axis = Const() {value=int32[]{0}}
all = ConcatV2(a, x, axis) {N=2, T=float, Tidx=int32}
return next, all, x
"""


def test_a_loop_that_litert_gives_up_on_leaves_the_smaller_graph(tmp_path: Path) -> None:
    source = written(parse_graph(GROWING.strip()), tmp_path)
    report = thinflow.optimize(source, tmp_path / "out", outputs=["y"], measure=False)
    assert isinstance(report, GraphReport)
    assert "LiteRT does not run the loop" in report.verdict
    assert "thinflow run" in report.obstacle.hint
    found = thinflow.run(report.files["fp32_pb"], {"x": np.float32([7])})
    assert next(iter(found.values())).tolist() == [7, 7, 7]


SPELLED = """
s = Placeholder() {dtype=string, shape=shape[2]}
n = StringToNumber(s) {out_type=float}
t = AsString(n) {T=float}
inputs: s
outputs: t
"""


def test_made_up_text_that_does_not_fit_is_no_fault_of_the_graph(tmp_path: Path) -> None:
    source = written(parse_graph(SPELLED.strip()), tmp_path)
    report = thinflow.optimize(source, tmp_path / "out", measure=False)
    assert isinstance(report, GraphReport)
    assert report.files["fp32_pb"].exists()
