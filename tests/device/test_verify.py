"""Is what a device computes what is computed here? This machine is the device, sound or not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.device.models import dense, dense_file
from tests.device.odd_devices import OddDevice
from tests.lower.variables import summing
from thinflow.cli import main
from thinflow.device.engine import engine_on
from thinflow.device.finding import find_device
from thinflow.engines.session import Session
from thinflow.errors import EngineUnavailable, GraphError, ParameterError
from thinflow.ir.types import FLOAT

pytest.importorskip("ai_edge_litert")


def test_the_same_model_here_and_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(dense_file(tmp_path))
    assert main(["verify", path, "--device", "local"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("the graphs agree: largest relative difference 0 over 2 runs")
    assert any(line.startswith("device: local: ") and "LiteRT" in line for line in shown)
    assert shown[-1] == f"next: thinflow benchmark {path} --device local"
    assert main(["verify", path]) == 1
    assert "name a second one, or a device" in capsys.readouterr().err


def test_graphs_and_foreign_files_become_litert_files(tmp_path: Path) -> None:
    found = thinflow.verify(dense(), device="local")
    assert found.ok
    # Whether two programs round otherwise depends on the processor; that LiteRT ran one of them does not.
    assert any(note.startswith("device: local: ") and "LiteRT" in note for note in found.notes)
    thinflow.save(dense(), tmp_path / "m.onnx")
    assert thinflow.verify(dense(), tmp_path / "m.onnx", device="local").ok
    other = thinflow.verify(dense(), dense(seed=1), device="local")
    assert not other.ok
    assert other.first_divergence


def test_who_is_to_blame(tmp_path: Path) -> None:
    path = dense_file(tmp_path)
    feeds = ({"x": np.full((1, 16), n, np.float32)} for n in range(3))
    found = thinflow.verify(path, path, feeds, device=OddDevice(lambda y: y * np.float32(1.01)))
    assert not found.ok
    assert found.runs == 3
    assert any("LiteRT on this machine agrees" in note and "the device" in note for note in found.notes)
    found = thinflow.verify(dense(seed=1), path, device="local")
    assert not found.ok
    assert any("differs as well" in note and "the model, and not the device" in note for note in found.notes)


def test_a_model_that_does_not_go_whole() -> None:
    graph = dense()
    graph.outputs = [graph.add("NobodysOp", [graph.outputs[0]], "odd").output()]
    with pytest.raises(EngineUnavailable, match="not all of the graph runs in LiteRT") as caught:
        thinflow.verify(dense(), graph, outputs=["y=odd"], device="local")
    assert "thinflow convert" in caught.value.hint


def test_files_run_as_they_are(tmp_path: Path) -> None:
    graph, path = dense(), tmp_path / "longer.tflite"
    graph.outputs = [graph.add("Tanh", [graph.outputs[0]], "z", attrs={"T": FLOAT}).output()]
    thinflow.save(graph, path)
    with pytest.raises(GraphError, match="not from within"):
        thinflow.verify(dense(), path, outputs=["y=y"], device="local")
    with pytest.raises(ParameterError, match="one device is used, and there are local and board"):
        thinflow.verify(path, device=["local", OddDevice()])


def test_several_devices_stand_in_one_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(dense_file(tmp_path))
    (tmp_path / "thinflow.toml").write_text('[device.bench]\naddress = "local"\n')
    monkeypatch.chdir(tmp_path)
    assert main(["verify", path, "--device", "local,bench"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "2 of 2 devices agree: largest relative difference 0 (tolerance 0.001)"
    assert [line.split() for line in shown[2:4]] == [
        ["local", "agrees", "y", "0", "0"],
        ["bench", "agrees", "y", "0", "0"],
    ]
    assert shown[-1] == f"next: thinflow benchmark {path} --device local,bench"
    # One that cannot be reached is told, and the others are asked.
    monkeypatch.setenv("THINFLOW_SSH", "false")
    words = ["verify", path, "--device", "ssh:nobody@127.0.0.1:1", "--device", "bench"]
    assert main(words) == 1
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("1 of 2 devices agree: ")
    assert any(line.startswith("ssh:nobody@127.0.0.1:1: not asked: ") for line in shown)
    assert main([*words, "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], list(told["devices"]), list(told["lost"])) == (
        False,
        ["bench"],
        ["ssh:nobody@127.0.0.1:1"],
    )


def test_states_go_on_from_call_to_call(tmp_path: Path) -> None:
    path = tmp_path / "sum.tflite"
    thinflow.save(summing(), path)
    found = thinflow.verify(path, device="local")
    assert found.ok
    assert any("both keep state" in note for note in found.notes)
    # A device that starts anew for each run has first calls to compare, and no others.
    found = thinflow.verify(path, device=OddDevice(keeps_state=False))
    assert any("only the first model keeps state" in note for note in found.notes)


def test_an_engine_lasts_as_long_as_its_device(tmp_path: Path) -> None:
    path = dense_file(tmp_path)
    feed = {"x": np.ones((1, 16), np.float32)}
    with engine_on(find_device("local")) as there:
        session = Session(path, there.name)
        assert session.placement == {"y": "litert on local"}
        here = Session(path).run(None, feed)
        np.testing.assert_array_equal(session.run(None, feed), here)
        both = list(session.run_each(["y"], (feed for _ in range(130))))
        assert len(both) == 130
        np.testing.assert_array_equal(both[129], here)
        assert list(session.run_each(None, [])) == []
    with pytest.raises(EngineUnavailable, match="there is no engine 'litert on local'"):
        Session(path, there.name)


def test_what_is_told_to_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(dense_file(tmp_path))
    assert main(["verify", path, "--device", "local", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ok"]
    assert any("device: local: " in note for note in data["notes"])
