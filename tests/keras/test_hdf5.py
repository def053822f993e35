"""HDF5 files of the old form are read as h5py reads them, and those of newer forms by it."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from thinflow.errors import EngineUnavailable, FormatError
from thinflow.keras import hdf5
from thinflow.keras.hdf5 import OwnGroup, open_hdf5
from thinflow.keras.hdf5_objects import read_header


def written(path: Path, *, newer: bool = False, **datasets: Any) -> hdf5.Group:
    import h5py

    with h5py.File(path, "w", libver="latest" if newer else None) as file:
        for name, content in datasets.items():
            array, options = content if isinstance(content, tuple) else (content, {})
            file.create_dataset(f"group/{name}", data=array, **options)
        file.attrs["text"] = "ü text"
        file.attrs["bytes"] = np.bytes_(b"some bytes")
        file.attrs["list"] = [b"a", b"bcd"]
        file.attrs["long0"], file.attrs["long1"] = [b"a"], [b"b"]
        file.attrs["number"] = 3
    return open_hdf5(path, str(path))


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i1", "i4", "i8", "u1", "u8", ">f4", "?"])
def test_types(tmp_path: Path, kind: str) -> None:
    array = np.arange(12).reshape(3, 4).astype(kind)
    group = written(tmp_path / "a.h5", x=array)
    assert isinstance(group, OwnGroup)
    found = group.array("group/x")
    assert found is not None
    assert found.dtype == np.dtype(kind).newbyteorder("=")
    np.testing.assert_array_equal(found, array)


def test_bfloat16(tmp_path: Path) -> None:
    array = np.array([1.5, -2], ml_dtypes.bfloat16)
    found = written(tmp_path / "a.h5", x=array.view("V2")).array("group/x")
    assert found is not None
    assert found.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("number", range(20))
def test_chunks(tmp_path: Path, number: int) -> None:
    rng = random.Random(number)
    shape = tuple(rng.randint(1, 9) for _ in range(rng.randint(1, 4)))
    chunks = tuple(rng.randint(1, size) for size in shape)
    options = {
        "chunks": chunks,
        "compression": rng.choice([None, "gzip"]),
        "shuffle": rng.random() < 0.5,
        "fletcher32": rng.random() < 0.5,
    }
    array = np.random.default_rng(number).standard_normal(shape).astype(np.float32)
    found = written(tmp_path / "a.h5", x=(array, options)).array("group/x")
    assert found is not None
    np.testing.assert_array_equal(found, array)


def test_many_names(tmp_path: Path) -> None:
    arrays = {f"name{n}": np.float32(n) for n in range(500)}
    group = written(tmp_path / "a.h5", **arrays).group("group")
    assert group is not None
    assert sorted(group.names()) == sorted(arrays)
    assert all(group.array(name) == value for name, value in arrays.items())


@pytest.mark.parametrize("newer", [False, True])
def test_attributes_and_absences(tmp_path: Path, newer: bool) -> None:
    group = written(tmp_path / "a.h5", newer=newer, x=np.ones(3), e=np.zeros((0, 2)))
    assert isinstance(group, OwnGroup) is not newer
    assert group.text("text") == "ü text"
    assert group.text("bytes") == "some bytes"
    assert group.text("number") is None
    assert group.text("other") is None
    assert group.texts("list") == ["a", "bcd"]
    assert group.texts("long") == ["a", "b"]
    assert group.texts("other") is None
    assert group.group("group/x") is None
    assert group.array("group") is None
    assert group.array("nothing/there") is None
    empty = group.array("group/e")
    assert empty is not None
    assert empty.shape == (0, 2)
    assert "group" in group
    assert "x" not in group


def test_newer_forms_need_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    written(tmp_path / "a.h5", newer=True, x=np.ones(3)).close()
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(EngineUnavailable, match="needs the package h5py") as caught:
        open_hdf5(tmp_path / "a.h5", "a.h5")
    assert caught.value.hint == "pip install 'thinflow[keras]'"


# --- refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newer", [False, True])
@pytest.mark.parametrize("kind", ["soft", "external"])
def test_links(tmp_path: Path, newer: bool, kind: str) -> None:
    import h5py

    link = h5py.SoftLink("/x") if kind == "soft" else h5py.ExternalLink("/etc/passwd", "/x")
    with h5py.File(tmp_path / "a.h5", "w", libver="latest" if newer else None) as file:
        file["x"] = np.ones(2)
        file["group/link"] = link
    # An external link makes a group one of the newer form.
    root = open_hdf5(tmp_path / "a.h5", "a.h5", by_package=newer or kind == "external")
    with pytest.raises(FormatError, match=r"'link' is a link to elsewhere") as caught:
        root.array("group/link")
    assert caught.value.hint == "do not trust this file"


@pytest.mark.parametrize("by_package", [False, True])
def test_elements_in_other_files(tmp_path: Path, by_package: bool) -> None:
    import h5py

    (tmp_path / "secret").write_bytes(bytes(16))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (4,), "f4", external=[(str(tmp_path / "secret"), 0, 16)])
    with pytest.raises(FormatError, match="its elements are in another file"):
        open_hdf5(tmp_path / "a.h5", "a.h5", by_package=by_package).array("x")


@pytest.mark.parametrize("by_package", [False, True])
@pytest.mark.parametrize("options", [{}, {"chunks": (1000,)}, {"chunks": (1000,), "compression": "gzip"}])
def test_sizes_that_are_only_claimed(tmp_path: Path, by_package: bool, options: dict[str, Any]) -> None:
    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (1 << 40,), "f4", **options)
    with pytest.raises(FormatError, match="it claims 4398046511104 bytes of elements, and 0 are stored"):
        open_hdf5(tmp_path / "a.h5", "a.h5", by_package=by_package).array("x")


@pytest.mark.parametrize("by_package", [False, True])
def test_texts_are_no_weights(tmp_path: Path, by_package: bool) -> None:
    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.array([b"ab", b"c"])
    with pytest.raises(FormatError, match=r"no.* numbers"):
        open_hdf5(tmp_path / "a.h5", "a.h5", by_package=by_package).array("x")


def test_every_cut(tmp_path: Path) -> None:
    """A file that was cut short anywhere is one whose arrays are all there, or damaged."""
    path = tmp_path / "a.h5"
    written(path, x=np.arange(4.0), y=(np.arange(9.0), {"chunks": (3,), "compression": "gzip"})).close()
    good = path.read_bytes()
    for size in range(1, len(good), 7):
        with contextlib.suppress(FormatError):
            root = open_hdf5(good[:size], "cut")
            assert isinstance(root, OwnGroup)
            root.array("group/x")
            root.array("group/y")
            root.text("text")


def test_groups_on_the_way_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = written(tmp_path / "a.h5", **{f"inner/w{n}": np.arange(n + 1) for n in range(9)})
    read: list[int] = []
    monkeypatch.setattr(
        hdf5, "read_header", lambda file, place: read.append(place) or read_header(file, place)
    )
    for n in range(9):
        found = group.array(f"group/inner/w{n}")
        assert found is not None
        assert found.size == n + 1
    assert group.array("group/inner/w9") is None
    assert group.array("group/none/w1") is None
    assert group.array("group/inner/w1/beyond") is None
    assert len(read) == len(set(read)) + 1  # w1 alone is asked for twice


def test_long_names(tmp_path: Path) -> None:
    name = "n" * 300
    found = written(tmp_path / "a.h5", **{name: np.arange(3)}).array(f"group/{name}")
    assert found is not None
    assert found.tolist() == [0, 1, 2]


def test_a_heap_of_texts_is_walked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of weights lie in a few heaps; a walk for each name would be quadratic."""
    import h5py

    from thinflow.keras import hdf5_objects

    names = [f"layer_{n}/kernel" for n in range(200)]
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["names"] = np.array(names, h5py.string_dtype())
    walked: list[int] = []
    walk = hdf5_objects._heap_objects
    monkeypatch.setattr(
        hdf5_objects, "_heap_objects", lambda file, heap: walked.append(heap) or walk(file, heap)
    )
    assert open_hdf5(tmp_path / "a.h5", "a.h5").texts("names") == names
    assert len(walked) == len(set(walked)) < 10
