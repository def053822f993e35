"""Weights of a mapped file leave memory once they were used, and can be read again."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from thinflow.ir.mapped import release

PAGE = mmap.PAGESIZE

pytestmark = pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="the system decides alone")


class Watched(mmap.mmap):
    """A map that keeps what was given back of it."""

    given: list[tuple[int, int]]

    def madvise(self, option: int, start: int = 0, length: int = 0) -> None:
        self.given.append((start, length))
        super().madvise(option, start, length)


def opened(path: Path, access: int) -> Watched:
    content = np.arange(4 * PAGE, dtype=np.uint8)
    path.write_bytes(content.tobytes())
    with path.open("r+b") as file:
        owner = Watched(file.fileno(), 0, access=access)
    owner.given = []
    return owner


def array_in(owner: Watched, start: int, size: int) -> np.ndarray[Any, Any]:
    return np.frombuffer(memoryview(owner)[start : start + size], np.uint8)


def test_whole_pages_are_given_back_and_read_again(tmp_path: Path) -> None:
    owner = opened(tmp_path / "weights", mmap.ACCESS_READ)
    array = array_in(owner, 100, 3 * PAGE).reshape(3, -1)
    before = array.copy()
    release(array)
    assert owner.given == [(PAGE, 2 * PAGE)]
    np.testing.assert_array_equal(array, before)


def test_less_than_a_page_stays(tmp_path: Path) -> None:
    owner = opened(tmp_path / "weights", mmap.ACCESS_READ)
    release(array_in(owner, 100, PAGE))
    assert owner.given == []


@pytest.mark.parametrize("access", [mmap.ACCESS_COPY, mmap.ACCESS_WRITE])
def test_what_may_have_been_changed_stays(tmp_path: Path, access: int) -> None:
    owner = opened(tmp_path / "weights", access)
    array = array_in(owner, 0, 3 * PAGE)
    owner[:PAGE] = bytes(PAGE)
    release(array)
    assert owner.given == []
    assert not array[:PAGE].any()


def test_arrays_in_memory_are_left_alone() -> None:
    array = np.arange(4 * PAGE)
    release(array[::2])
    assert array.sum() == np.arange(4 * PAGE).sum()
