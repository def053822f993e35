"""The file of weights in a Core ML package: what is in it, and what cannot be."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from tests.coreml.packages import Package
from thinflow.coreml.blobs import blob_at, check_header
from thinflow.errors import FormatError


def file_of(*arrays: np.ndarray) -> memoryview:
    package = Package()
    for array in arrays:
        package.weights(array)
    return memoryview(bytes(package.blobs))


def test_blobs_are_found_by_their_records() -> None:
    first, second = np.arange(5, dtype=np.float32), np.arange(7, dtype=np.int8)
    file = file_of(first, second)
    check_header(file)
    one = blob_at(file, 64)
    assert one.element == "float"
    assert np.frombuffer(one.data, np.float32).tolist() == first.tolist()
    two = blob_at(file, 192)
    assert two.element == "int8"
    assert bytes(two.data) == second.tobytes()


@pytest.mark.parametrize("offset", [0, 1, 65, 128, 1 << 40])
def test_what_is_no_record_is_refused(offset: int) -> None:
    with pytest.raises(FormatError, match="no weights begin here"):
        blob_at(file_of(np.arange(5, dtype=np.float32)), offset)


@pytest.mark.parametrize(("size", "start"), [(1 << 60, 128), (20, 1 << 60), (20, 64), (1, 192)])
def test_what_reaches_beyond_the_file_is_refused(size: int, start: int) -> None:
    raw = bytearray(file_of(np.arange(5, dtype=np.float32)))
    struct.pack_into("<QQ", raw, 72, size, start)
    with pytest.raises(FormatError, match="would reach beyond"):
        blob_at(memoryview(bytes(raw)), 64)


def test_headers() -> None:
    with pytest.raises(FormatError, match="fewer than its header"):
        check_header(memoryview(bytes(10)))
    with pytest.raises(FormatError, match="version 1; version 2 is known"):
        check_header(memoryview(struct.pack("<II", 0, 1).ljust(64, b"\0")))
