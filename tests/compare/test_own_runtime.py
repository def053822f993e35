"""A file that the interpreter computes, op by op, is compared with its own runtime: a wrong reading shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.engines import _child
from thinflow.errors import EngineUnavailable, VerificationError
from thinflow.lift.rules import Entry, rules

WHOLE = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
w = Const() {dtype=float, value=float[4,3]{1,2,3,4,5,6,7,8,9,10,11,12}}
m = MatMul(x, w) {T=float}
n = Neg(m) {T=float}
features = Exp(n) {T=float}
k = Const() {dtype=float, value=float[3,2]{1,-2,3,-4,5,6}}
y = MatMul(features, k) {T=float}
inputs: x
outputs: y
"""
PART = WHOLE[: WHOLE.index("k = ")] + "inputs: x\noutputs: features\n"
WRONG = PART.replace("Exp(n)", "Square(n)")
ENGINES = {"tflite": ("litert", "tfl.EXP"), "onnx": ("onnxruntime", "onnx.Exp")}


@pytest.fixture(params=list(ENGINES))
def kind(request: pytest.FixtureRequest) -> str:
    pytest.importorskip("ai_edge_litert" if request.param == "tflite" else "onnxruntime")
    return str(request.param)


def stored(text: str, path: Path) -> str:
    thinflow.save(parse_graph(text), path)
    return str(path)


def test_a_wrong_rule_does_not_prove_itself(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, part = stored(WHOLE, tmp_path / f"whole.{kind}"), stored(WRONG, tmp_path / "part.pb")
    monkeypatch.setitem(rules(), ENGINES[kind][1], Entry(lambda c: c.emit("Square", c[0])))
    for pair in ((whole, part), (part, whole)):
        with pytest.raises(VerificationError, match="does not compute 'y' as") as caught:
            thinflow.verify(*pair)
        assert f"whole.{kind}: the interpreter does not compute 'y' as {ENGINES[kind][0]} does" in str(
            caught.value
        )
        assert "nothing can be compared with what lies inside" in str(caught.value)
    assert main(["verify", whole, part]) == 1
    assert "the interpreter does not compute 'y'" in capsys.readouterr().err


def test_what_agrees_is_told(kind: str, tmp_path: Path) -> None:
    whole, part = stored(WHOLE, tmp_path / f"whole.{kind}"), stored(PART, tmp_path / "part.pb")
    found = thinflow.verify(whole, part)
    assert found.ok
    engine = ENGINES[kind][0]
    said = f"whole.{kind} was computed by the interpreter, whose answers are as in {engine}, to "
    assert any(note.startswith(said) for note in found.notes)
    fed = thinflow.verify(whole, part, {"x": np.zeros((1, 4), np.float32)})
    assert fed.ok


def test_a_runtime_that_refuses_the_file_is_told(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, part = stored(WHOLE, tmp_path / f"whole.{kind}"), stored(PART, tmp_path / "part.pb")

    def refuse(*_: object, **__: object) -> None:
        raise EngineUnavailable("it refuses the model: no reason")

    monkeypatch.setattr(_child, "in_child", refuse)
    found = thinflow.verify(whole, part)
    assert found.ok
    assert any("its own runtime: it refuses the model: no reason" in note for note in found.notes)


def test_files_that_are_run_whole_need_no_such_word(kind: str, tmp_path: Path) -> None:
    whole, graph = stored(WHOLE, tmp_path / f"whole.{kind}"), stored(WHOLE, tmp_path / "whole.pb")
    found = thinflow.verify(whole, graph)
    assert found.ok
    assert not any("by the interpreter" in note for note in found.notes)
