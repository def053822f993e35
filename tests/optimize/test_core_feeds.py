"""What a conversion is proven with, where made-up inputs do not go through the whole graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.optimize.graphs import BYTES
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.optimize.numeric_check import is_angle, unwrap_angles

NUMBERS = """
x = Placeholder() {dtype=string, shape=shape[4]}
u = StringUpper(x)
n = StringToNumber(u) {out_type=float}
d = Const() {dtype=int32, value=int32[2]{1,4}}
r = Reshape(n, d) {T=float, Tshape=int32}
w = Const() {dtype=float, value=float[4,2]{1,2,3,4,5,6,7,8}}
y = MatMul(r, w) {T=float}
inputs: x
outputs: y
"""


@pytest.fixture(params=["tflite", "onnx"])
def suffix(request: pytest.FixtureRequest) -> str:
    pytest.importorskip("ai_edge_litert" if request.param == "tflite" else "onnxruntime")
    return str(request.param)


def converted(text: str, suffix: str, folder: Path) -> tuple[int, Path]:
    thinflow.save(parse_graph(text), folder / "m.pb")
    return main(["convert", str(folder / "m.pb"), str(folder / f"m.{suffix}")]), folder / f"m.{suffix}"


def test_a_graph_that_made_up_text_does_not_fit_is_written_and_said_to_be_unproven(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, path = converted(BYTES, suffix, tmp_path)
    out = capsys.readouterr().out
    assert code == 0
    assert "; NOT verified: made-up inputs do not go through the graph; the app decodes the bytes and" in out
    assert "  why    node " in out
    assert "  then   compare on your inputs: thinflow verify MODEL FILE --feed NAME=..." in out
    found = thinflow.run(path, {"n": np.ones((1, 7), np.float32)})
    assert next(iter(found.values())).shape == (1, 2)


def test_numbers_are_made_up_for_the_core_alone(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = converted(NUMBERS, suffix, tmp_path)
    assert code == 0
    assert "agrees with the graph, largest relative difference" in capsys.readouterr().out


def test_sizes_that_were_made_up_are_named(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = BYTES[BYTES.index("w = ") :].replace("MatMul(r, w)", "BatchMatMulV2(x, w)")
    assert converted("x = Placeholder() {dtype=float, shape=shape[?,?]}\n" + text, suffix, tmp_path)[0] == 0
    out = capsys.readouterr().out
    sizes = "'x' has the shape [?,?], and made-up sizes, [1,8], do not fit"
    assert f"  why    {sizes}: node 'y' (BatchMatMulV2)" in out
    assert "  or     say what sizes it has, for example --shape x=1,16" in out


def test_what_the_runtime_alone_fails_on_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ai_edge_litert")
    from thinflow.errors import EngineUnavailable
    from thinflow.optimize import numeric_check

    def fail(*_: object, **__: object) -> None:
        raise EngineUnavailable("LiteRT failed: no reason")

    monkeypatch.setattr(numeric_check, "run_file", fail)
    code, path = converted(NUMBERS, "tflite", tmp_path)
    assert code == 1
    assert "LiteRT failed" in capsys.readouterr().err
    assert not path.exists()


def test_half_a_turn_to_the_left_is_half_a_turn_to_the_right() -> None:
    graph = parse_graph(
        "x = Placeholder() {dtype=float}\ny = Atan2(x, x) {T=float}\nz = Identity(y) {T=float}\n"
        "w = Relu(y) {T=float}\ninputs: x\noutputs: z"
    )
    left, right = np.float32([-np.pi, 0.5, np.nan]), np.float32([np.pi, 0.5, 1])
    assert is_angle(graph.value("z"))
    assert not is_angle(graph.value("w"))
    np.testing.assert_allclose(unwrap_angles(graph.value("z"), left, right), [-np.pi, 0.5, 1], rtol=1e-6)
    assert unwrap_angles(graph.value("w"), left, right) is right


def test_what_cannot_be_proven_is_opened_at_least(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from thinflow.errors import EngineUnavailable
    from thinflow.optimize import conversion

    def refuse(*_: object, **__: object) -> None:
        raise EngineUnavailable("it refuses the model: no reason")

    monkeypatch.setattr(conversion, "require_opening", refuse)
    code, path = converted(BYTES, suffix, tmp_path)
    assert code == 1
    assert "it refuses the model: no reason" in capsys.readouterr().err
    assert not path.exists()


PICTURE = """
x = Placeholder() {dtype=string, shape=shape[1]}
u = StringUpper(x)
zero = Const() {dtype=int32, value=int32[1]{0}}
one = Const() {dtype=int32, value=int32[1]{1}}
s = StridedSlice(u, zero, one, one) {T=string, Index=int32, shrink_axis_mask=1}
p = DecodePng(s) {channels=1, dtype=uint8}
f = Cast(p) {SrcT=uint8, DstT=float}
first = Const() {dtype=int32, value=int32[]{0}}
e = ExpandDims(f, first) {T=float, Tdim=int32}
size = Const() {dtype=int32, value=int32[2]{2,2}}
b = ResizeBilinear(e, size) {T=float, half_pixel_centers=true}
d = Const() {dtype=int32, value=int32[2]{-1,4}}
r = Reshape(b, d) {T=float, Tshape=int32}
w = Const() {dtype=float, value=float[4,2]{1,2,3,4,5,6,7,8}}
y = MatMul(r, w) {T=float}
inputs: x
outputs: y
"""


def test_made_up_bytes_that_are_no_picture_leave_the_rest_to_numbers(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = converted(PICTURE, suffix, tmp_path)
    assert code == 0, capsys.readouterr().err
    assert "agrees with" in capsys.readouterr().out
