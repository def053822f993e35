"""State from call to call: in sessions, in .tflite files, and in what compares them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.load.builders import V
from tests.states import CALLS, stateful, summing, sums
from thinflow.api import convert_verified, opening_notes
from thinflow.cli import main
from thinflow.engines.session import Session
from thinflow.errors import ParameterError, UnsupportedOp
from thinflow.lower.tflite.variables import RESET

pytest.importorskip("ai_edge_litert")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return stateful(tmp_path / "model")


def calls(session: Session) -> list[np.ndarray]:
    return [session.run(["y"], {"x": x})[0] for x in CALLS]


@pytest.mark.parametrize("engine", ["reference", "litert"])
def test_sessions_keep_state(model: Path, engine: str) -> None:
    session = Session(model, engine)
    assert session.keeps_state
    assert list(session.inputs) == ["x"]
    assert list(session.outputs) == ["y"]
    np.testing.assert_allclose(calls(session), sums())
    session.restart()
    np.testing.assert_allclose(calls(session), sums())


def test_a_state_that_is_fed_is_not_kept(model: Path) -> None:
    session = Session(model, "reference")
    (y,) = session.run(["y"], {"x": CALLS[0], "v": np.zeros(3, np.float32)})
    np.testing.assert_allclose(y, -CALLS[0])
    np.testing.assert_allclose(calls(session), sums())


class TestFiles:
    @pytest.fixture
    def file(self, model: Path, tmp_path: Path) -> Path:
        made = convert_verified(model, tmp_path / "m.tflite")
        assert "over 4 calls in a row, which keep the state" in made.proof
        assert "state  v  float[3]  kept from call to call" in made.notes
        return tmp_path / "m.tflite"

    @pytest.mark.parametrize("engine", ["litert", "reference"])
    def test_files_keep_state(self, file: Path, engine: str) -> None:
        session = Session(file, engine)
        assert session.keeps_state
        np.testing.assert_allclose(calls(session), sums())
        session.restart()
        np.testing.assert_allclose(calls(session), sums())
        np.testing.assert_allclose(calls(Session(file, engine)), sums())

    def test_a_signature_begins_anew(self, file: Path) -> None:
        from thinflow.tflite.runtime import interpreter

        made = interpreter(model_path=str(file))
        run, reset = (made.get_signature_runner(key) for key in ("serving_default", RESET))
        for _ in range(2):
            found = [run(x=x)["y"] for x in CALLS]
            np.testing.assert_allclose(found, sums())
            reset()
        assert Session(file, signature="serving_default").keeps_state

    def test_a_session_of_a_signature_restarts(self, file: Path) -> None:
        session = Session(file, signature="serving_default")
        for _ in range(2):
            np.testing.assert_allclose(calls(session), sums())
            session.restart()

    def test_both_keep(self, model: Path, file: Path) -> None:
        found = thinflow.verify(model, file)
        assert found.ok
        assert found.runs == 4
        assert "both keep state from call to call: 4 calls in a row were compared" in found.notes

    def test_another_change_is_found(self, tmp_path: Path, file: Path) -> None:
        other = stateful(tmp_path / "other", [text.replace("AddV2", "Sub") for text in summing()])
        convert_verified(other, tmp_path / "other.tflite")
        found = thinflow.verify(file, tmp_path / "other.tflite")
        assert not found.ok

    def test_only_one_keeps(self, model: Path, tmp_path: Path) -> None:
        convert_verified(model, tmp_path / "frozen.tflite", state="freeze")
        found = thinflow.verify(model, tmp_path / "frozen.tflite")
        assert found.ok
        assert (
            "only the first model keeps state: first calls were compared, from the state that was saved"
            in found.notes
        )

    def test_state_as_inputs(self, model: Path, tmp_path: Path) -> None:
        convert_verified(model, tmp_path / "m.tflite", state="inputs")
        session = Session(tmp_path / "m.tflite")
        assert sorted(session.inputs) == ["v", "x"]
        assert not session.keeps_state
        found = thinflow.verify(model, tmp_path / "m.tflite")
        assert found.ok
        assert {o.name for o in found.outputs} == {"y", "v/next"}

    def test_optimize_keeps_it(self, model: Path, tmp_path: Path) -> None:
        report = thinflow.optimize(model, tmp_path / "out", measure=False, samples=5)
        assert report.inputs == [("x", "float[3]")]
        assert report.outputs == [("y", "float[3]")]
        np.testing.assert_allclose(calls(Session(tmp_path / "out" / "model_fp32.tflite")), sums())
        told = "\n".join(report.lines())
        assert "signature 'reset_state' begins anew" in told
        assert "the smaller model keeps its state with its own rounding: over 4 calls in a row" in told

    def test_commands(self, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        target = str(tmp_path / "c.tflite")
        assert main(["convert", str(model), target]) == 0
        assert "state  v  float[3]  kept from call to call" in capsys.readouterr().out
        assert main(["verify", str(model), target]) == 0
        assert "4 calls in a row were compared" in capsys.readouterr().out
        assert main(["convert", str(model), target, "--state", "freeze"]) == 0
        assert "here every run begins with the values that were saved" in capsys.readouterr().out
        assert main(["run", str(model), "--state", "inputs"]) == 0
        assert "v/next" in capsys.readouterr().out


def test_only_tflite_files_keep_state(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"only \.tflite files and C keep state") as error:
        convert_verified(model, tmp_path / "m.onnx", state="keep")
    assert error.value.hint.startswith("--state inputs makes it inputs and outputs of the model")


def test_state_that_a_file_cannot_keep(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from thinflow.optimize import conversion
    from thinflow.optimize.numeric_check import StateNotKept

    def refuse(core: object) -> None:
        if core.graph.states:  # type: ignore[attr-defined]
            raise StateNotKept("'v' is used outside of what LiteRT can run")

    monkeypatch.setattr(conversion, "require_states", refuse)
    with pytest.raises(UnsupportedOp, match="'v' is used outside"):
        convert_verified(model, tmp_path / "m.tflite", state="keep")
    made = convert_verified(model, tmp_path / "m.tflite")
    assert any("(it cannot be kept: 'v' is used outside of what LiteRT can run)" in n for n in made.notes)
    assert not Session(tmp_path / "m.tflite").keeps_state


def test_a_graph_says_what_it_keeps(model: Path) -> None:
    graph = thinflow.load(model, state="keep")
    assert opening_notes(graph) == ["the model keeps state from one run to the next in a variable, 'v'"]
    np.testing.assert_array_equal(graph.states[0].start.numpy(), V)


def test_the_flag_takes_the_words_of_the_loader() -> None:
    """Help may import nothing but the command, so the words stand in both places."""
    from argparse import ArgumentParser

    from thinflow.cli._options import add_state
    from thinflow.load.frozen import CHOICES

    parser = ArgumentParser()
    add_state(parser)
    (flag,) = (action for action in parser._actions if action.dest == "state")
    assert tuple(flag.choices or ()) == CHOICES
