"""Times beside a baseline: in turns with it, or with what was stored on this machine and no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.bench.machine import Machine, this_machine
from thinflow.budgets import baseline
from thinflow.budgets.baseline import Baselines, Stored, fingerprint, read_baselines, thinned
from thinflow.budgets.item import BudgetItem, Status
from thinflow.errors import FormatError, WriteError

# No machine here makes one of two runs a thousand times as long as the other.
NEVER, ALWAYS = 1e-3, 1e3


def checked(path: Path, ratio: float, *, update: bool = False, **more: Any) -> BudgetItem:
    latency = {"ratio": ratio, "runs": 8, "seconds": 2, **more}
    stored = path.parent / "stored.json"
    report = thinflow.check(path, budget={"latency": latency}, baseline=stored, update_baseline=update)
    assert report.stored == ((str(stored),) if update else ())
    (item,) = report.items
    return item


def test_stored_times(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = models / "digits.tflite"
    item = checked(model, ALWAYS)
    assert (item.status, item.message) == (Status.NOT_COMPARED, "not compared: no baseline is stored")
    assert item.mend == "add --update-baseline to this command"
    item = checked(model, ALWAYS, update=True)
    assert (item.status, item.message[:8]) == (Status.WITHIN, "stored: ")
    (entry,) = read_baselines(str(models / "stored.json")).entries.items()
    assert entry[0] == "digits.tflite"
    assert (entry[1].engine, entry[1].threads, len(entry[1].times_ns), entry[1].kept) == ("litert", 1, 8, "")
    item = checked(model, ALWAYS)
    assert (item.status, item.limit, item.unit) == (Status.WITHIN, ALWAYS, "times")
    assert " of 1000 times the baseline's time (stored: " in item.message
    assert checked(model, NEVER).status is Status.OVER
    item = checked(model, ALWAYS, threads=2)
    assert item.message == "not compared: the baseline ran on litert with 1 thread"
    monkeypatch.setattr("thinflow.budgets.kinds.latency.fingerprint", lambda: "another")
    item = checked(model, NEVER)
    assert item.status is Status.NOT_COMPARED
    assert item.message == f"not compared: baseline from another machine ({this_machine().cpu})"
    assert (item.value, item.fails(), item.fails(strict=True)) == (None, False, True)


def test_a_kept_model_is_measured_in_turns(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = models / "digits.tflite"
    item = checked(model, ALWAYS, update=True, keep_model=True)
    kept = read_baselines(str(models / "stored.json")).entries["digits.tflite"].kept
    assert kept.startswith("stored/")
    assert item.message.endswith(f", and the model in {kept}")
    assert (models / kept).read_bytes() == model.read_bytes()
    # On any machine: its times are not needed.
    monkeypatch.setattr("thinflow.budgets.kinds.latency.fingerprint", lambda: "another")
    item = checked(model, 1, keep_model=True)
    assert (item.status, item.value) == (Status.WITHIN, 1.0)
    assert "it is the same file" in item.message
    model.write_bytes(model.read_bytes() + bytes(64))
    item = checked(model, ALWAYS)
    assert item.status is Status.WITHIN
    assert f"in turns with {Path(kept).name}: " in item.message
    assert checked(model, NEVER).status is Status.OVER


def test_budgets_take_samples(models: Path) -> None:
    model, samples = models / "digits.tflite", models / "some.npz"
    np.savez(samples, np.random.default_rng(0).random((3, 8, 8, 1), np.float32))
    assert checked(model, ALWAYS, update=True, samples=str(samples)).status is Status.WITHIN
    assert read_baselines(str(models / "stored.json")).entries["digits.tflite"].fed == "some.npz"
    item = checked(model, ALWAYS, samples=str(samples))
    assert item.status is Status.WITHIN
    assert f", on 3 samples of {samples})" in item.message
    # Of another input, times say nothing of the model.
    item = checked(model, NEVER)
    assert item.status is Status.NOT_COMPARED
    assert item.message == "not compared: the baseline ran with some.npz, this budget with made-up inputs"
    assert checked(model, ALWAYS, update=True).status is Status.WITHIN
    item = checked(model, NEVER, samples=str(samples))
    assert item.message == "not compared: the baseline ran with made-up inputs, this budget with some.npz"
    released = models / "released.tflite"
    released.write_bytes(model.read_bytes() + bytes(64))
    item = checked(model, ALWAYS, model=str(released), samples=str(samples))
    assert f", on 3 samples of {samples})" in item.message
    assert checked(model, ALWAYS, samples=str(models / "gone.npz"), update=True).status is Status.FAILED


def test_a_model_of_the_budget_is_the_baseline(models: Path) -> None:
    model, released = models / "digits.tflite", models / "released.tflite"
    released.write_bytes(model.read_bytes())
    item = checked(model, 1, model=str(released))
    assert (item.status, item.value) == (Status.WITHIN, 1.0)
    assert item.message == "1 of 1 times the baseline's: it is the same file"
    released.write_bytes(model.read_bytes() + bytes(64))
    assert checked(model, ALWAYS, model=str(released)).status is Status.WITHIN
    item = checked(model, NEVER, model=str(released))
    assert item.status is Status.OVER
    assert item.mend == f"thinflow benchmark {model} --profile"
    assert checked(model, 1, model=str(models / "gone.tflite")).status is Status.FAILED


def test_a_ratio_within_its_uncertainty_is_unsure() -> None:
    from thinflow.analysis.stats import Interval
    from thinflow.budgets.kinds.latency import LatencyLimit, _item

    limit = LatencyLimit(1.1)
    found = [
        _item(Interval(*ends), limit, "").status for ends in ((1.1, 1, 2), (1.15, 1.1, 1.2), (1.2, 1.11, 2))
    ]
    assert found == [Status.WITHIN, Status.UNSURE, Status.OVER]


def test_machines_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    here = this_machine()
    assert fingerprint() == fingerprint(here)
    other = Machine("another", here.cores, here.flags, here.system, here.python)
    assert fingerprint(other) != fingerprint(here)
    assert here.cpu not in fingerprint(here)
    # Two of one kind, by what each alone has.
    own = fingerprint(here)
    monkeypatch.setattr(baseline, "_identity", lambda: "number 2")
    assert fingerprint(here) != own


STORED = Stored("0f", "litert", 1, "", "m", "cpu", (3, 1, 2), "kept/a.tflite")


def test_the_file_comes_back(tmp_path: Path) -> None:
    written = Baselines(str(tmp_path / "t.json"), {"a/b.tflite": STORED})
    assert written.save() == (tmp_path / "t.json").stat().st_size
    again = read_baselines(written.path)
    assert again.entries == written.entries
    assert again.of(str(tmp_path / "a" / "b.tflite")) == STORED
    assert again.of(str(tmp_path / "b.tflite")) is None
    # The model that it names is gone, and its times are left.
    assert again.kept(str(tmp_path / "a" / "b.tflite")) == ""
    assert read_baselines(str(tmp_path / "none.json")).entries == {}


def test_few_times_are_stored() -> None:
    assert thinned(range(1, 8)) == tuple(range(1, 8))
    assert len(thinned(range(1, 10_000))) == 200
    assert thinned(range(1, 10_000))[-1] > 9_900


BAD: dict[str, Any] = {
    "no JSON": "{",
    "a list": [],
    "a version": {"version": 2, "models": {}},
    "no models": {"version": 1},
    "models": {"version": 1, "models": []},
    "no times": {"version": 1, "models": {"a": {**vars(STORED), "times_ns": []}}},
    "times": {"version": 1, "models": {"a": {**vars(STORED), "times_ns": ["x"]}}},
    "zero": {"version": 1, "models": {"a": {**vars(STORED), "times_ns": [0]}}},
    "outside": {"version": 1, "models": {"a": {**vars(STORED), "kept": "../../etc/passwd"}}},
    "absolute": {"version": 1, "models": {"a": {**vars(STORED), "kept": "/etc/passwd"}}},
    "missing": {"version": 1, "models": {"a": {"times_ns": [1]}}},
}


@pytest.mark.parametrize("name", BAD)
def test_files_that_are_none_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.json"
    said = BAD[name]
    path.write_text(said if isinstance(said, str) else json.dumps(said), "utf-8")
    with pytest.raises(FormatError, match="no file of stored times") as caught:
        read_baselines(str(path))
    assert caught.value.where == str(path)
    assert "--update-baseline" in caught.value.hint


def test_a_folder_in_the_way(models: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        read_baselines(str(models))
    (models / "stored").write_text("in the way")
    budget = {"latency": {"ratio": 2, "runs": 1, "keep_model": True}}
    report = thinflow.check(
        models / "digits.tflite", budget=budget, baseline=models / "stored.json", update_baseline=True
    )
    assert "the model cannot be kept there" in report.items[0].message
    with pytest.raises(WriteError):
        Baselines(str(models / "none" / "t.json"), {"a": STORED}).save()
