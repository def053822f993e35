"""Machines die, stop and lose the one who asked: the figures are those of one process, bit for bit."""

from __future__ import annotations

import json
import platform
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.cluster.machines import Machines, machines, process, wait_for
from tests.optimize.evaluation.digit_files import digits, tfrecord_bytes, write_tar
from thinflow import zoo
from thinflow.errors import EngineUnavailable, WriteError
from thinflow.quantize.recipe import Recipe
from thinflow.typing import Array

pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
COUNT, SHARD = 1500, 50
FEW = 600
"""Where nothing has to last for a while."""


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with machines(tmp_path_factory.mktemp("machines"), 3) as found:
        yield found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    zoo.write("digits", folder / "digits.pb")
    thinflow.convert(folder / "digits.pb", folder / "digits.tflite")
    return folder / "digits.tflite"


def results_in(store: Path) -> list[Path]:
    return [file for file in store.glob("*.json") if not file.name.startswith(".")]


def write_parquet(path: Path, images: Array, labels: Array) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = {"image": images.reshape(len(images), -1).tolist(), "label": labels}
    parquet.write_table(pyarrow.table(rows), path, row_group_size=SHARD)


def test_a_worker_is_killed_in_the_middle(others: Machines, model: Path, tmp_path: Path) -> None:
    data, store = tmp_path / "test.tfrecord", tmp_path / "store"
    data.write_bytes(tfrecord_bytes(*digits(COUNT)))
    alone = thinflow.evaluate([model], data, shard_samples=SHARD)

    def kill() -> None:
        wait_for(lambda: bool(results_in(store)))
        others.workers[0].send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = thinflow.evaluate([model], data, shard_samples=SHARD, store=store, cluster=others.address)
    killer.join()
    assert found.rows() == alone.rows()
    assert list(found.answers()) == list(alone.answers())
    assert len(results_in(store)) == COUNT // SHARD


def test_the_scheduler_stands_still_for_a_while(others: Machines, model: Path, tmp_path: Path) -> None:
    data = tmp_path / "test.parquet"
    write_parquet(data, *digits(COUNT))
    alone = thinflow.evaluate([model], data, shard_samples=SHARD)
    store = tmp_path / "store"

    def pause() -> None:
        wait_for(lambda: bool(results_in(store)))
        others.pause_scheduler(2.0)

    pauser = threading.Thread(target=pause)
    pauser.start()
    found = thinflow.evaluate([model], data, shard_samples=SHARD, store=store, cluster=others.address)
    pauser.join()
    assert found.rows() == alone.rows()


def test_the_one_who_asked_is_killed_and_asks_again(others: Machines, model: Path, tmp_path: Path) -> None:
    images, labels = digits(COUNT)
    for number in range(COUNT // SHARD):
        part = slice(number * SHARD, (number + 1) * SHARD)
        write_tar(tmp_path / f"test-{number:03}.tar", images[part], labels[part])
    data, store = str(tmp_path / "test-*.tar"), tmp_path / "store"
    words = ["thinflow", "evaluate", str(model), "--data", data, "--json"]
    words += ["--store", str(store), "--cluster", others.address]
    asker = process(*words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(results_in(store)) > 2)
    asker.kill()
    asker.communicate()
    before = {file: file.stat().st_mtime_ns for file in results_in(store)}
    again = process(*words, stdout=subprocess.PIPE)
    out, _ = again.communicate(timeout=120)
    found = json.loads(out)
    alone = thinflow.evaluate([model], data)[0].data()
    for name in ("accuracy", "correct", "samples", "figures", "confusion", "per_class"):
        assert found[name] == json.loads(json.dumps(alone))[name]
    # What was done is not done again, and nothing is counted twice.
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert len(results_in(store)) == COUNT // SHARD


def test_the_scheduler_is_lost_for_good(model: Path, tmp_path: Path) -> None:
    data, store = tmp_path / "test.tfrecord", tmp_path / "store"
    data.write_bytes(tfrecord_bytes(*digits(COUNT)))
    with machines(tmp_path, 1) as mine:

        def kill() -> None:
            wait_for(lambda: len(results_in(store)) > 2)
            mine.scheduler.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(EngineUnavailable, match="the scheduler is lost") as error:
            thinflow.evaluate([model], data, shard_samples=SHARD, store=store, cluster=mine.address)
        killer.join()
    assert "run it again with the same --store" in error.value.hint
    before = {file: file.stat().st_mtime_ns for file in results_in(store)}
    assert before
    # What was done counts, also for one machine alone.
    found = thinflow.evaluate([model], data, shard_samples=SHARD, store=store)
    assert found.rows() == thinflow.evaluate([model], data, shard_samples=SHARD).rows()
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert len(results_in(store)) == COUNT // SHARD


def test_workers_on_other_processors_are_named(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "test.tfrecord"
    data.write_bytes(tfrecord_bytes(*digits(FEW)))
    other = "import platform\nplatform.machine = lambda: 'aarch64'\n"
    with machines(tmp_path, 2, {1: other}) as mine:
        found = thinflow.evaluate(model, data, shard_samples=SHARD, cluster=mine.address)
    assert found.engine == f"litert on {' and '.join(sorted(['aarch64', platform.machine()]))}"
    assert found.samples == FEW


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for some results."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root can make a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="there is no mount")
@pytest.mark.parametrize("by_workers", [False, True])
def test_a_disk_that_is_really_full(
    by_workers: bool, others: Machines, model: Path, small_disk: Path, tmp_path: Path
) -> None:
    data = tmp_path / "test.tfrecord"
    data.write_bytes(tfrecord_bytes(*digits(FEW)))
    cluster = others.address if by_workers else None
    with pytest.raises(WriteError, match="a result cannot be kept: No space left on device"):
        thinflow.evaluate([model], data, shard_samples=SHARD, store=small_disk, cluster=cluster)
    # Nothing half-written; what was whole before counts once there is room.
    wait_for(lambda: not list(small_disk.glob(".*.json")), 30)
    kept = results_in(small_disk)
    assert 0 < len(kept) < FEW // SHARD
    room = tmp_path / "room"
    shutil.copytree(small_disk, room)
    before = {file.name: file.read_bytes() for file in kept}
    found = thinflow.evaluate([model], data, shard_samples=SHARD, store=room)
    assert found.rows() == thinflow.evaluate([model], data, shard_samples=SHARD).rows()
    assert {name: (room / name).read_bytes() for name in before} == before


def test_ranges_of_other_processes_are_those_of_this_one(
    others: Machines, model: Path, tmp_path: Path
) -> None:
    for number, image in enumerate(digits(60)[0]):
        np.save(tmp_path / f"{number:03}.npy", image)
    recipe, source = Recipe(observer="mse"), model.with_suffix(".pb")
    alone = thinflow.quantize(source, tmp_path, recipe=recipe)
    found = thinflow.quantize(source, tmp_path, recipe=recipe, cluster=others.address)
    assert found.content == alone.content
