"""Packed arrays that are walked again and again."""

from __future__ import annotations

import errno
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from thinflow.errors import FeedError
from thinflow.quantize import plain_rows
from thinflow.quantize import stored as reading
from thinflow.quantize.stored import Stored

ROWS = np.random.default_rng(0).integers(0, 9, (40, 7, 3)).astype(np.float32)


def archive(path: Path, *, is_packed: bool, before: bytes = b"") -> Path:
    """An .npz file, maybe behind bytes of something else, as a self-extracting one is."""
    (np.savez_compressed if is_packed else np.savez)(path, other=ROWS[:3], x=ROWS)
    if before:
        path.write_bytes(before + path.read_bytes())
    return path


def opened_members(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The members that are unpacked from now on."""
    found: list[str] = []
    own = zipfile.ZipFile.open

    def watched(self: zipfile.ZipFile, name: object, *args: object, **options: object) -> object:
        found.append(getattr(name, "filename", str(name)))
        return own(self, name, *args, **options)

    monkeypatch.setattr(zipfile.ZipFile, "open", watched)
    return found


@pytest.mark.parametrize("is_packed", [False, True], ids=["stored", "packed"])
@pytest.mark.parametrize("before", [b"", b"#!" * 50], ids=["alone", "behind other bytes"])
@pytest.mark.parametrize("has_pread", [True, False])
def test_rows_are_the_same_in_every_walk(
    is_packed: bool, before: bytes, has_pread: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_pread:
        monkeypatch.delattr(plain_rows.os, "pread", raising=False)
    stored = Stored(archive(tmp_path / "x.npz", is_packed=is_packed, before=before), "x.npy")
    opened = opened_members(monkeypatch)
    for _ in range(4):
        np.testing.assert_array_equal(list(stored), ROWS)
        np.testing.assert_array_equal(list(stored.rows(11, 20)), ROWS[11:20])
        # Two walks in step, as of two inputs that are the same array.
        for a, b, row in zip(stored.rows(5, 40), stored, ROWS[5:], strict=False):
            assert (a == row).all()
            assert b.shape == row.shape
    # The first walk, and what the others read.
    assert len(opened) == (2 if is_packed else 1)


def test_a_walk_of_one_sample_unpacks_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Stored(archive(tmp_path / "x.npz", is_packed=True), "x.npy")
    monkeypatch.setattr(reading, "plain_member", lambda *_: pytest.fail("nobody asked"))
    np.testing.assert_array_equal(next(iter(stored)), ROWS[0])


def full_disk(*_: object, **__: object) -> object:
    class Full:
        def write(self, chunk: bytes) -> int:
            raise OSError(errno.ENOSPC, "no space left")

        def close(self) -> None: ...

    return Full()


@pytest.mark.parametrize("why", ["full", "too large", "unwritable"])
def test_without_room_each_walk_unpacks(why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Stored(archive(tmp_path / "x.npz", is_packed=True), "x.npy")
    if why == "too large":
        monkeypatch.setattr(plain_rows, "MOST_BYTES", 1000)
    elif why == "full":
        monkeypatch.setattr(plain_rows.tempfile, "TemporaryFile", full_disk)
    else:
        monkeypatch.setattr(plain_rows.tempfile, "tempdir", str(tmp_path / "gone"))
        monkeypatch.setattr(plain_rows, "_room", lambda: 1 << 40)
    for _ in range(3):
        np.testing.assert_array_equal(list(stored), ROWS)
    np.testing.assert_array_equal(list(stored.rows(30, 40)), ROWS[30:])


def test_another_process_opens_its_own(tmp_path: Path) -> None:
    stored = Stored(archive(tmp_path / "x.npz", is_packed=True), "x.npy")
    assert len(list(stored)) == len(list(stored)) == len(ROWS)
    sent = pickle.dumps(stored)
    # The rows stay in the file.
    assert len(sent) < 1000
    for _ in range(2):
        np.testing.assert_array_equal(list(pickle.loads(sent).rows(3, 5)), ROWS[3:5])


def test_a_file_that_is_damaged_meanwhile_is_told(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.npz", is_packed=True)
    stored = Stored(path, "x.npy")
    assert len(list(stored)) == len(ROWS)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(FeedError, match="the file cannot be read") as error:
        list(stored)
    assert str(path) in error.value.message
