"""Every command that takes workers gives with them what it gives without, and says what is wrong."""

from __future__ import annotations

import errno
import os
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.optimize.evaluation.digit_files import digits, tfrecord_bytes
from tests.survey.collections import a_collection
from thinflow import zoo
from thinflow.cli import main
from thinflow.cluster import store as stores
from thinflow.cluster import tasks
from thinflow.cluster.connecting import connected, versions_here
from thinflow.cluster.workers import held
from thinflow.datasets import places
from thinflow.errors import EngineUnavailable, FeedError, FormatError, WriteError
from thinflow.quantize.recipe import Recipe
from thinflow.survey.report import SurveyReport
from thinflow.typing import Array

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two workers in threads of this process: they start at once."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("model") / "digits.pb"
    zoo.write("digits", file)
    return file


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    for number, image in enumerate(digits(60)[0]):
        np.save(folder / f"{number:03}.npy", image)
    return folder


def results_in(store: Path) -> dict[str, int]:
    return {f.name: f.stat().st_mtime_ns for f in store.glob("*.json") if not f.name.startswith(".")}


# ----------------------------------------------------------------------------------------------- calibration


def test_ranges_of_workers_are_those_of_one_machine(
    client: Any, model: Path, clips: Path, tmp_path: Path
) -> None:
    # It walks twice, and the answers are observed by min-max.
    options: dict[str, Any] = {"recipe": Recipe(observer="mse"), "effort": "none"}
    alone = thinflow.quantize(model, clips, **options)
    options |= {"cluster": client, "store": tmp_path}
    found = thinflow.quantize(model, clips, **options)
    assert list(found.calibration.ranges.values()) == list(alone.calibration.ranges.values())
    assert found.content == alone.content
    kept = results_in(tmp_path)
    assert len(kept) == 8
    # Asked again, nothing is looked at again; other samples are other results, beside those.
    assert thinflow.quantize(model, clips, **options).content == alone.content
    assert results_in(tmp_path) == kept
    thinflow.quantize(model, clips, samples=20, **options)
    assert kept.items() < results_in(tmp_path).items()


@pytest.mark.parametrize("format", ["tflite", "onnx"])
def test_samples_that_only_a_walk_gives_are_sent(format: str, client: Any, model: Path) -> None:
    if format == "onnx":
        pytest.importorskip("onnxruntime")
    images, _ = digits(70)

    def walk() -> Iterator[dict[str, Array]]:
        return ({"image": image} for image in images)

    alone = thinflow.quantize(model, walk, format=format, effort="none")
    found = thinflow.quantize(model, walk, format=format, effort="none", cluster=client)
    assert found.content == alone.content  # type: ignore[union-attr]


def test_samples_of_which_too_many_are_odd_are_refused(client: Any, model: Path, tmp_path: Path) -> None:
    for number, image in enumerate(digits(8)[0]):
        np.save(tmp_path / f"{number}.npy", image * (np.nan if number < 4 else 1))
    with pytest.raises(FeedError, match="4 of 8 samples hold NaN"):
        thinflow.quantize(model, tmp_path, cluster=client)


# -------------------------------------------------------------------------------------------------- optimize


def test_candidates_of_workers_are_those_of_one_machine(
    client: Any, model: Path, clips: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"calibration": clips, "scheme": "auto", "effort": "none", "measure": False}
    alone = thinflow.optimize(model, tmp_path / "alone", **options)
    found = thinflow.optimize(model, tmp_path / "found", **options, cluster=client, store=tmp_path / "store")
    assert alone.ladder is not None
    assert found.ladder is not None
    plain = [{k: v for k, v in m.data().items() if k != "seconds"} for m in alone.ladder.measured]
    assert [{k: v for k, v in m.data().items() if k != "seconds"} for m in found.ladder.measured] == plain
    assert found.files["int8"].read_bytes() == alone.files["int8"].read_bytes()
    assert len(results_in(tmp_path / "store")) >= 5


# ---------------------------------------------------------------------------------------------------- survey


def plain(report: SurveyReport) -> list[dict[str, Any]]:
    return [{k: v for k, v in e.data().items() if k != "seconds"} for e in report.entries]


def test_a_survey_by_workers_is_that_of_one_machine(client: Any, tmp_path: Path) -> None:
    folder = a_collection(tmp_path / "models")
    alone = thinflow.survey(folder, lint=False)
    found = thinflow.survey(folder, lint=False, cluster=client, store=tmp_path / "store")
    assert plain(found) == plain(alone)
    assert found.sources == alone.sources
    kept = results_in(tmp_path / "store")
    assert plain(thinflow.survey(folder, lint=False, cluster=client, store=tmp_path / "store")) == plain(
        alone
    )
    assert results_in(tmp_path / "store") == kept


def test_workers_ship_models_also_from_archives(client: Any, tmp_path: Path) -> None:
    folder = a_collection(tmp_path / "models")
    for name in ("digits.pb", "copy.bin", "digits.tflite"):
        (folder / name).unlink()
    options: dict[str, Any] = {"lint": False, "run": False, "convert": False, "effort": "none"}
    found = thinflow.survey(folder, **options, optimize=tmp_path / "out", cluster=client)
    assert found.shipped is not None
    (one,) = found.shipped
    assert one.name == "more.zip!inner.tar.gz!deep/digits.pb"
    assert (tmp_path / "out" / one.file).stat().st_size == one.after_bytes


# ------------------------------------------------------------------------------------------------- bad input


def test_a_corrupt_shard_is_named_and_the_rest_goes_on(client: Any, model: Path, tmp_path: Path) -> None:
    whole = tfrecord_bytes(*digits(40))
    (tmp_path / "a.tfrecord").write_bytes(whole)
    (tmp_path / "b.tfrecord").write_bytes(whole[:-3])
    data = str(tmp_path / "*.tfrecord")
    found = thinflow.evaluate(model, data, shard_samples=20, cluster=client)
    alone = thinflow.evaluate(model, data, shard_samples=20)
    assert found.samples == alone.samples == 60
    assert dict(found.left_out.shards) == dict(alone.left_out.shards)
    ((place, why),) = found.left_out.shards.items()
    assert place.endswith("b.tfrecord, from sample 20")
    assert "the file ends inside it, 3 bytes too early" in why
    with pytest.raises(FormatError, match=r"b\.tfrecord.*too early"):
        thinflow.evaluate(model, data, shard_samples=20, cluster=client, strict=True)


@pytest.mark.parametrize("by_workers", [True, False])
def test_what_could_not_be_reached_is_read_when_it_is_asked_for_again(
    by_workers: bool, client: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is down, or a worker without credentials, says nothing of the samples."""
    for name in "ab":
        (tmp_path / f"{name}.tfrecord").write_bytes(tfrecord_bytes(*digits(20)))

    def run() -> Any:
        cluster = client if by_workers else None
        return thinflow.evaluate(
            model, str(tmp_path / "*.tfrecord"), store=tmp_path / "store", cluster=cluster
        )

    def unreachable(path: str, version: str) -> None:
        if path.endswith("b.tfrecord"):
            raise FeedError("it cannot be read: NoCredentialsError", path)

    with monkeypatch.context() as patched:
        patched.setattr(places, "require_unchanged", unreachable)
        found = run()
    assert found.samples == 20
    assert "NoCredentialsError" in found.left_out.lines()[1]
    kept = results_in(tmp_path / "store")
    found = run()
    assert (found.samples, found.left_out.lines()) == (40, [])
    # What was read was not read again.
    again = results_in(tmp_path / "store")
    assert len(kept) == len(again) == len(kept.items() | again.items()) - 1 == 2


def test_a_model_that_found_no_room_is_shipped_when_there_is_some(
    client: Any, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "digits.pb").write_bytes(model.read_bytes())
    options: dict[str, Any] = {"lint": False, "run": False, "convert": False, "effort": "none"}
    options |= {"optimize": tmp_path / "out", "store": tmp_path / "store", "cluster": client}

    def shipped() -> Any:
        found = thinflow.survey(tmp_path / "models", **options)
        assert found.shipped is not None
        return found.shipped[0]

    # As on a full disk: a file stands where its folder is to be made.
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "digits.pb").write_text("in the way")
    assert shipped().reason == "there is a file of this name"
    (tmp_path / "out" / "digits.pb").unlink()
    done = shipped()
    assert (done.reason, done.after_bytes is not None) == ("", True)
    kept = results_in(tmp_path / "store")
    assert shipped() == done
    assert results_in(tmp_path / "store") == kept


def test_labels_that_do_not_fit_are_told_by_workers(client: Any, model: Path, tmp_path: Path) -> None:
    images, labels = digits(30)
    (tmp_path / "far.tfrecord").write_bytes(tfrecord_bytes(images, labels + 40))
    with pytest.raises(FeedError, match=r"is labelled 4.*the model has 10 classes"):
        thinflow.evaluate(model, tmp_path / "far.tfrecord", cluster=client)


@pytest.mark.parametrize("by_workers", [True, False])
def test_a_full_disk_at_the_store(
    by_workers: bool, client: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.tfrecord").write_bytes(tfrecord_bytes(*digits(30)))

    def full(path: str, content: bytes, *, is_lasting: bool) -> None:
        Path(path).write_bytes(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(stores, "_write", full)
    store = tmp_path / "store"
    with pytest.raises(WriteError, match="a result cannot be kept: No space left on device") as error:
        thinflow.evaluate(model, tmp_path / "a.tfrecord", store=store, cluster=client if by_workers else None)
    assert "make room or name another folder" in error.value.hint
    # Nothing half-written is left, by which another run would be fooled.
    assert list(store.iterdir()) == []


def test_a_store_that_is_none(client: Any, model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("I am no folder")
    with pytest.raises(WriteError, match="results cannot be kept there"):
        thinflow.quantize(model, cluster=client, store=tmp_path / "file")


def test_two_runs_share_a_store(client: Any, model: Path, tmp_path: Path) -> None:
    images, labels = digits(200)
    (tmp_path / "a.tfrecord").write_bytes(tfrecord_bytes(images, labels))
    alone = thinflow.evaluate(model, tmp_path / "a.tfrecord", shard_samples=20)

    def run(cluster: Any) -> Any:
        return thinflow.evaluate(
            model, tmp_path / "a.tfrecord", shard_samples=20, store=tmp_path / "store", cluster=cluster
        )

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(run, [client, None, client]))
    assert [one.confusion for one in found] == [alone.confusion] * 3
    assert len(results_in(tmp_path / "store")) == 10


def test_samples_from_memory_are_not_mixed_up_in_a_store(client: Any, model: Path, tmp_path: Path) -> None:
    images, labels = digits(60)
    for cluster in (None, client):
        for part in (slice(0, 30), slice(30, 60)):
            data = {"image": images[part], "labels": labels[part]}
            found = thinflow.evaluate(model, data, store=tmp_path, cluster=cluster)
            assert found.confusion == thinflow.evaluate(model, data).confusion


def test_a_client_that_is_closed(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(tfrecord_bytes(*digits(30)))
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        client = distributed.Client(cluster, set_as_default=False)
        client.close()
    with pytest.raises(EngineUnavailable, match="the client of Dask is closed"):
        thinflow.evaluate(model, tmp_path / "a.tfrecord", cluster=client)


def test_a_worker_of_another_version_that_comes_later(
    client: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.tfrecord").write_bytes(tfrecord_bytes(*digits(30)))
    monkeypatch.setattr(tasks, "versions_here", lambda: versions_here() | {"numpy": "9.9"})
    with pytest.raises(EngineUnavailable, match=r"the worker has other versions: numpy .*, and here 9\.9"):
        thinflow.evaluate(model, tmp_path / "a.tfrecord", cluster=client)


def test_nobody_waits_for_workers_for_ever(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.tfrecord").write_bytes(tfrecord_bytes(*digits(30)))
    monkeypatch.setattr(tasks, "_ALONE_SECONDS", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        pytest.raises(EngineUnavailable, match="all workers are lost") as error,
    ):
        thinflow.evaluate(model, tmp_path / "a.tfrecord", cluster=client)
    assert "start others, and run it again" in error.value.hint


def test_an_error_on_a_local_worker_is_told_once(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.tfrecord").write_bytes(tfrecord_bytes(*digits(30))[:-3])
    words = ["evaluate", str(model), "--data", str(tmp_path / "a.tfrecord")]
    assert main([*words, "--strict", "--cluster", "local:1"]) == 1
    told = capfd.readouterr().err.strip().splitlines()
    assert len(told) == 2
    assert "too early" in told[0]


def test_the_dashboard_of_a_local_cluster_works(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("bokeh", reason="bokeh is not installed")
    with caplog.at_level("INFO", "thinflow"), connected("local:1"):
        (told,) = (record.getMessage() for record in caplog.records if record.name.startswith("thinflow"))
        address = told.removeprefix("dashboard: ")
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert b"Dask" in answer.read()


def test_models_of_the_last_job_are_let_go() -> None:
    closed = []

    class Open:
        def __init__(self, name: str) -> None:
            self.name = name

        def close(self) -> None:
            closed.append(self.name)

    first = held("a", lambda: Open("a"))
    assert held("a", lambda: Open("again")) is first
    assert held("b", lambda: Open("b")).name == "b"
    assert closed == ["a"]
    held("c", int)
