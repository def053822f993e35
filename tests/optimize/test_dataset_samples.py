"""Calibration from every kind of source that models are evaluated on: the same ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.optimize.evaluation.digit_files import digits, tfrecord_bytes, write_tar
from thinflow import zoo
from thinflow.datasets import places
from thinflow.errors import FeedError

COUNT = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sources")
    images, labels = digits(COUNT)
    zoo.write("digits", path / "digits.pb")
    (path / "all.tfrecord").write_bytes(tfrecord_bytes(images, labels))
    for number in range(2):
        half = slice(number * COUNT // 2, (number + 1) * COUNT // 2)
        write_tar(path / f"part-{number}.tar", images[half], labels[half])
    np.savez(path / "all.npz", image=images, labels=labels)
    return path


def ranges(folder: Path, source: Any, **options: Any) -> list[Any]:
    found = thinflow.quantize(folder / "digits.pb", source, effort="none", **options)
    assert found.calibration.samples == min(COUNT, options.get("samples", COUNT))
    return list(found.calibration.ranges.values())


def test_every_source_gives_the_same_ranges(folder: Path) -> None:
    whole = ranges(folder, folder / "all.npz")
    for name in ("all.tfrecord", "part-*.tar", "part-{0..1}.tar"):
        assert ranges(folder, str(folder / name)) == whole
    few = ranges(folder, folder / "all.npz", samples=10)
    assert few != whole
    # Spread over the classes in the same way.
    assert ranges(folder, folder / "all.tfrecord", samples=10) == few


def test_urls_and_what_credentials_lack(folder: Path) -> None:
    fsspec = pytest.importorskip("fsspec")

    class Locked(fsspec.AbstractFileSystem):
        protocol = "locked"

        def info(self, path: str, **options: Any) -> Any:
            raise PermissionError("no key")

    fsspec.register_implementation("locked", Locked, clobber=True)
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/ranges/all.tfrecord", (folder / "all.tfrecord").read_bytes())
    assert ranges(folder, "memory://ranges/all.tfrecord") == ranges(folder, folder / "all.npz")
    with pytest.raises(FeedError, match=r"locked://bucket/a\.tfrecord: .*PermissionError: no key") as error:
        thinflow.quantize(folder / "digits.pb", "locked://bucket/a.tfrecord")
    assert error.value.hint == "log in to locked://, or set its credentials as fsspec reads them"
    places._filesystem.cache_clear()


def test_a_damaged_sample_is_left_out_and_told(folder: Path, tmp_path: Path) -> None:
    content = bytearray(tfrecord_bytes(*digits(COUNT)))
    content[40] ^= 1
    (tmp_path / "odd.tfrecord").write_bytes(content)
    found = thinflow.quantize(folder / "digits.pb", tmp_path / "odd.tfrecord", effort="none")
    assert found.calibration.samples == COUNT - 1
    told = next(w for w in found.warnings if "cannot be read" in w)
    assert "record 0: its checksum is wrong" in told


def test_what_is_not_there_is_told(folder: Path) -> None:
    for path in ("none", "none.tfrecord"):
        with pytest.raises(FeedError, match="there is no such file or folder"):
            thinflow.quantize(folder / "digits.pb", folder / path)
    with pytest.raises(FeedError, match="no file matches"):
        thinflow.quantize(folder / "digits.pb", str(folder / "none-*.tar"))
