"""Whether a file holds all of a model, all behind a front that decodes, or only a part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.errors import PartialModel
from thinflow.ir.graph import Graph
from thinflow.optimize.coverage import Coverage, marked, says_part
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import float_model
from thinflow.optimize.onnx import onnx_model

pytest.importorskip("ai_edge_litert")
WEIGHTS = "w = Const() {dtype=float, value=float[4,4]{1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}}\n"
BEHIND = f"""
x = Placeholder() {{dtype=float, shape=shape[1,4]}}
{WEIGHTS}y = MatMul(x, w) {{T=float}}
i = Const() {{dtype=int32, value=int32[1,1]{{0}}}}
z = ScatterNdNonAliasingAdd(y, i, y) {{T=float, Tindices=int32}}
v = MatMul(z, w) {{T=float}}
inputs: x
outputs: v
"""
TWO = BEHIND.replace("outputs: v", "outputs: y, v")
NUMERIC_FRONT = f"""
x = Placeholder() {{dtype=float, shape=shape[1,4]}}
z = BesselI0(x) {{T=float}}
{WEIGHTS}y = MatMul(z, w) {{T=float}}
inputs: x
outputs: y
"""
INTEGER_FRONT = f"""
x = Placeholder() {{dtype=uint64, shape=shape[1,4]}}
c = Cast(x) {{SrcT=uint64, DstT=float}}
{WEIGHTS}y = MatMul(c, w) {{T=float}}
inputs: x
outputs: y
"""
SOUND = """
bytes = Placeholder() {dtype=string, shape=shape[]}
wav = DecodeWav(bytes) {desired_channels=1, desired_samples=8}
flat_shape = Const() {dtype=int32, value=int32[2]{1,8}}
flat = Reshape(wav, flat_shape) {T=float, Tshape=int32}
w = Const() {dtype=float, value=float[8,1]{1,2,3,4,5,6,7,8}}
y = MatMul(flat, w) {T=float}
inputs: bytes
outputs: y
"""
RECORDS = f"""
text = Placeholder() {{dtype=string, shape=shape[4]}}
numbers = StringToNumber(text) {{out_type=float}}
row = Const() {{dtype=int32, value=int32[2]{{1,4}}}}
flat = Reshape(numbers, row) {{T=float, Tshape=int32}}
{WEIGHTS}y = MatMul(flat, w) {{T=float}}
inputs: text
outputs: y
"""
COMPUTED_BEHIND_TEXT = RECORDS.replace("MatMul(flat, w)", "MatMul(odd, w)").replace(
    "inputs: text", "odd = BesselI0(flat) {T=float}\ninputs: text"
)
FIXED_OUTPUT = f"""
x = Placeholder() {{dtype=float, shape=shape[1,4]}}
{WEIGHTS}y = MatMul(x, w) {{T=float}}
same = Identity(x) {{T=float}}
inputs: x
outputs: y, w, same
"""


def optimised(text: str) -> Graph:
    return float_graph(thinflow.load(parse_graph(text)), verify=False).graph


def covered(text: str) -> Coverage:
    return float_model(optimised(text)).coverage


def test_a_missing_output_makes_a_part() -> None:
    found = covered(TWO)
    assert (found.kind, found.is_part) == ("part", True)
    assert list(found.missing) == ["v"]
    assert (found.missing["v"].node, found.missing["v"].why) == (
        "node 'z' (ScatterNdNonAliasingAdd)",
        "TFLite has no form of ScatterNdNonAliasingAdd",
    )
    assert found.sentence == (
        "1 of the model's 2 outputs is not in it ('v'), because of node 'z' (ScatterNdNonAliasingAdd): "
        "TFLite has no form of ScatterNdNonAliasingAdd"
    )
    assert found.data()["missing_outputs"] == [
        {
            "output": "v",
            "node": "node 'z' (ScatterNdNonAliasingAdd)",
            "why": "TFLite has no form of ScatterNdNonAliasingAdd",
        }
    ]


@pytest.mark.parametrize("text", [NUMERIC_FRONT, COMPUTED_BEHIND_TEXT])
def test_numbers_computed_in_front_make_a_part(text: str) -> None:
    found = covered(text)
    assert found.kind == "part"
    assert found.missing == {}
    assert found.front is not None
    assert found.sentence.startswith(
        f"it begins at '{found.starts_at[0]}', not where the model does, because of"
    )
    assert "(BesselI0): TFLite has no form of BesselI0" in found.sentence


def test_numbers_that_go_in_as_others_make_a_part() -> None:
    found = covered(INTEGER_FRONT)
    assert (found.kind, found.starts_at) == ("part", ("c",))
    assert "node 'c' (Cast)" in found.sentence


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (SOUND, "the app decodes the WAV and feeds wav"),
        (RECORDS, "the app prepares the text and feeds numbers"),
    ],
)
def test_a_front_that_decodes_is_the_apps(text: str, note: str) -> None:
    found = covered(text)
    assert (found.kind, found.is_part, found.note) == ("decoded front", False, note)
    found.require_whole()
    assert found.path("a/b.tflite") == "a/b.tflite"


def test_outputs_that_are_constants_or_inputs_are_given(tmp_path: Path) -> None:
    assert covered(FIXED_OUTPUT).kind == "whole"
    thinflow.save(parse_graph(FIXED_OUTPUT), tmp_path / "fixed.pb")
    from thinflow.api import convert_verified

    made = convert_verified(tmp_path / "fixed.pb", tmp_path / "fixed.tflite", outputs=["y", "w", "same"])
    assert not made.is_part
    x = np.ones((1, 4), np.float32)
    found = thinflow.run(made.path, {"x": x})
    assert found["w"].shape == (4, 4)
    assert found["same"].tolist() == x.tolist()


def test_onnx_is_judged_by_itself() -> None:
    assert onnx_model(optimised(BEHIND)).coverage.kind == "whole"
    found = onnx_model(optimised(BEHIND.replace("ScatterNdNonAliasingAdd(y, i, y)", "AcmeWarp(y)"))).coverage
    assert found.is_part
    assert "ONNX" in found.sentence


@pytest.mark.parametrize(
    ("stem", "part"),
    [("net", "net_part"), ("net_part", "net_part"), ("part", "part"), ("apart", "apart_part")],
)
def test_names_of_parts(stem: str, part: str) -> None:
    assert marked(stem) == part
    assert says_part(part)


def part() -> Graph:
    return parse_graph(BEHIND)


@pytest.mark.parametrize("format", ["tflite", "onnx"])
def test_a_smaller_part_is_not_saved_as_the_model(format: str, tmp_path: Path) -> None:
    graph = part()
    if format == "onnx":
        pytest.importorskip("onnxruntime")
        graph = parse_graph(BEHIND.replace("ScatterNdNonAliasingAdd(y, i, y)", "AcmeWarp(y)"))
    made = thinflow.quantize(graph, scheme="float16", format=format)
    with pytest.raises(PartialModel, match=rf"name it small_part\.{format}, so that nobody"):
        made.save(tmp_path / f"small.{format}")
    assert list(tmp_path.iterdir()) == []
    assert made.save(tmp_path / f"small_part.{format}") > 0
    with pytest.raises(PartialModel, match="can hold only a part of the model: the model's output 'v'"):
        thinflow.quantize(graph, scheme="float16", format=format, strict=True)
