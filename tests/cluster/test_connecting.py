"""Which workers there are, and what is refused before any work."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import thinflow
from tests.optimize.evaluation.digit_files import digits, tfrecord_bytes
from thinflow import zoo
from thinflow.cluster import connecting
from thinflow.cluster.connecting import differ, require_same_versions, versions_here
from thinflow.errors import EngineUnavailable, ParameterError


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("cluster")
    zoo.write("digits", folder / "digits.pb")
    (folder / "test.tfrecord").write_bytes(tfrecord_bytes(*digits(30)))
    return folder / "digits.pb", str(folder / "test.tfrecord")


def test_versions_are_compared() -> None:
    here = versions_here()
    differ("worker", "tcp://a:1", here, here)
    with pytest.raises(EngineUnavailable, match=r"tcp://a:1: the worker has other versions: thinflow 0\.0"):
        differ("worker", "tcp://a:1", here, here | {"thinflow": "0.0"})


def test_an_extra_that_is_missing_there_is_told() -> None:
    here = versions_here() | {"pyarrow": "installed"}
    with pytest.raises(EngineUnavailable, match="pyarrow missing, and here installed"):
        differ("worker", "tcp://a:1", here, here | {"pyarrow": "missing"})
    # What is missing here was not asked for, and may be there.
    differ("worker", "tcp://a:1", here | {"pyarrow": "missing"}, here)


class Client:
    """A scheduler of some versions, or without the package, and two workers of which one has no package."""

    def __init__(self, scheduler: dict[str, str] | None) -> None:
        self.scheduler, self._there = SimpleNamespace(address="tcp://s:1"), scheduler

    def run_on_scheduler(self, function: object) -> dict[str, str]:
        if self._there is None:
            raise ModuleNotFoundError("No module named 'thinflow'")
        return self._there

    def run(self, function: object, on_error: str) -> dict[str, object]:
        return {"tcp://a:1": versions_here(), "tcp://b:1": ModuleNotFoundError("No module named 'x'")}


def test_a_machine_without_the_package_is_told() -> None:
    # A scheduler runs no models: it may lack what they need.
    there = versions_here() | {"ai-edge-litert": "missing", "pyarrow": "missing"}
    for client, told in (
        (Client(there), "tcp://b:1: the worker cannot run thinflow"),
        (Client(None), "tcp://s:1: the scheduler cannot run thinflow"),
    ):
        with pytest.raises(EngineUnavailable, match=told) as error:
            require_same_versions(client)
        assert error.value.hint.startswith("pip install 'thinflow[cluster]==")
    with pytest.raises(EngineUnavailable, match=r"tcp://s:1: the scheduler has other versions: numpy 1\.0"):
        require_same_versions(Client(there | {"numpy": "1.0"}))


def test_a_scheduler_of_another_dask_is_told(
    files: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")

    def connect(self: object, address: str, **options: object) -> None:
        raise TypeError("Scheduler.identity() got an unexpected keyword argument 'n_workers'")

    monkeypatch.setattr(distributed.Client, "__init__", connect)
    with pytest.raises(EngineUnavailable, match=r"does not answer as Dask .* does") as error:
        thinflow.evaluate(*files, cluster="tcp://a:1")
    assert "pip install 'distributed==" in error.value.hint


def test_dask_is_missing(files: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    for asked in (thinflow.evaluate, thinflow.quantize):
        with pytest.raises(EngineUnavailable, match=r"pip install 'thinflow\[cluster\]'"):
            asked(*files, cluster="local:2")


def test_what_is_no_cluster(files: tuple[Path, str], tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    for text in ("local:0", "local:x", "machines"):
        with pytest.raises(ParameterError, match="is no cluster"):
            thinflow.evaluate(*files, cluster=text)
    stream = iter([{"image": image, "label": label} for image, label in zip(*digits(3), strict=True)])
    with pytest.raises(ParameterError, match="cannot be parted among workers"):
        thinflow.evaluate(files[0], stream, cluster="local:1")
    with pytest.raises(ParameterError, match="a store keeps what workers found, and there are none"):
        thinflow.quantize(files[0], store=tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_nobody_answers(files: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(connecting, "_CONNECT_SECONDS", 0.5)
    with pytest.raises(EngineUnavailable, match=r"tcp://127\.0\.0\.1:9: no scheduler answers there"):
        thinflow.evaluate(*files, cluster="tcp://127.0.0.1:9")
    assert "IO loop" not in {thread.name for thread in threading.enumerate()}
