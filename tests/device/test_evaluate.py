"""Models judged on labelled samples while a device runs them; this machine is the device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.device.odd_devices import OddDevice
from tests.lower.variables import summing
from thinflow import zoo
from thinflow.cli import main
from thinflow.device.base import DeviceLost
from thinflow.errors import EngineUnavailable, ParameterError

pytest.importorskip("ai_edge_litert")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """A graph, a file of eight bits, and samples for both."""
    folder = tmp_path_factory.mktemp("judged")
    zoo.write("digits", folder / "digits.pb")
    samples = zoo.test_set("digits")
    thinflow.quantize(folder / "digits.pb", {"image": samples["image"][:50]}, effort="none").save(
        folder / "small.tflite"
    )
    np.savez(folder / "test.npz", image=samples["image"][:150], labels=samples["labels"][:150])
    return str(folder / "digits.pb"), str(folder / "small.tflite"), str(folder / "test.npz")


def test_as_many_are_right_as_here(models: tuple[str, str, str], capsys: pytest.CaptureFixture[str]) -> None:
    graph, small, data = models
    here = thinflow.evaluate([graph, small], data)
    there = thinflow.evaluate([graph, small], data, device="local")
    assert [one.correct for one in there] == [one.correct for one in here]
    assert [one.confusion for one in there] == [one.confusion for one in here]
    assert {one.engine for one in there} == {"litert on local"}
    assert there[1].sqnr_db == pytest.approx(here[1].sqnr_db, abs=0.5)
    assert len(list(there[0].wrong())) == 150 - (there[0].correct or 0)
    assert main(["evaluate", small, data, "--device", "local"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == there[1].verdict
    assert any(line.startswith("device: local: ") and "LiteRT" in line for line in shown)
    assert shown[-1] == f"next: thinflow benchmark {small} --calibration {data} --device local"
    assert main(["evaluate", graph, small, data, "--device", "local", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["models"]
    assert all(one["device"].startswith("local: ") for one in told)


def test_what_was_judged_is_kept_when_the_device_is_lost(
    models: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, small, data = models
    store = tmp_path / "store"
    with pytest.raises(DeviceLost, match="the connection to it ended") as caught:
        thinflow.evaluate(small, data, device=OddDevice(lost_after=100), shard_samples=40, store=store)
    assert caught.value.hint == "look after the device; what was judged is kept"
    asked: list[int] = []

    def counted(array: Any) -> Any:
        asked.append(1)
        return array

    found = thinflow.evaluate(small, data, device=OddDevice(counted), shard_samples=40, store=store)
    assert found.samples == 150
    assert len(asked) == 150 - 2 * 40
    assert found.correct == thinflow.evaluate(small, data).correct
    # Without a store nothing stays, and the hint says what would.
    with pytest.raises(DeviceLost) as caught:
        thinflow.evaluate(small, data, device=OddDevice(lost_after=100))
    assert "--store FOLDER" in caught.value.hint
    # Results of this machine are others.
    asked.clear()
    thinflow.evaluate(small, data, shard_samples=40, store=store)
    thinflow.evaluate(small, data, device=OddDevice(counted), shard_samples=40, store=store)
    assert asked == []


def test_few_samples_are_held_at_once(models: tuple[str, str, str]) -> None:
    """However many there are: the next are read when those before are judged."""
    _, small, _ = models
    samples = zoo.test_set("digits")
    read = judged = most = 0

    class Watched:
        def __len__(self) -> int:
            return 300

        def __getitem__(self, number: int) -> dict[str, Any]:
            nonlocal read
            read = max(read, number + 1)
            return {"image": samples["image"][number], "label": samples["labels"][number]}

    def watched(array: Any) -> Any:
        nonlocal most, judged
        most, judged = max(most, read - judged), judged + 1
        return array

    found = thinflow.evaluate(small, Watched(), device=OddDevice(watched))
    assert found.samples == 300
    assert 1 < most <= 65


def test_several_devices_stand_in_one_table(
    models: tuple[str, str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, small, data = models
    odd = OddDevice(lambda scores: scores[..., ::-1])
    found = thinflow.evaluate([small], data, device=["local", odd])
    assert found.names == ["small.tflite on local", "small.tflite on board"]
    assert [one.engine for one in found] == ["litert on local", "litert on board"]
    assert [one.device.partition(":")[0] for one in found] == ["local", "board"]
    alone = thinflow.evaluate(small, data)
    assert found[0].correct == alone.correct
    # The second turns its scores round: the last class is taken for the first.
    assert found[1].same_answer == 0
    with pytest.raises(ParameterError, match="several devices make several results"):
        thinflow.evaluate(small, data, device=["local", odd])
    # A device that cannot be reached is told, and the others are asked.
    (tmp_path / "thinflow.toml").write_text('[device.bench]\naddress = "local"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("THINFLOW_SSH", "false")
    words = ["evaluate", small, "--data", data, "--device", "local,bench,ssh:nobody@127.0.0.1:1"]
    assert main(words) == 1
    shown = capsys.readouterr().out
    assert "small.tflite on local " in shown
    assert "small.tflite on bench " in shown
    assert "\nssh:nobody@127.0.0.1:1: not asked: " in shown


def test_what_does_not_go_with_a_device(models: tuple[str, str, str], tmp_path: Path) -> None:
    _, small, data = models
    with pytest.raises(ParameterError, match="devices run LiteRT, and no 'onnxruntime'"):
        thinflow.evaluate(small, data, device="local", engine="onnxruntime")
    with pytest.raises(ParameterError, match="--cluster or --device"):
        thinflow.evaluate(small, data, device="local", cluster="local")
    thinflow.save(summing(), tmp_path / "sum.tflite")
    with pytest.raises(EngineUnavailable, match="this device starts anew for each") as caught:
        thinflow.evaluate(tmp_path / "sum.tflite", [{"x": np.ones(2)}], device=OddDevice(keeps_state=False))
    assert "ssh" in caught.value.hint
