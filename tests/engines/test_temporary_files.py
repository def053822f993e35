"""Converted models in temporary files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.engines import _temporary_files
from thinflow.engines.session import Session
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def write() -> tuple[int, Iterator[bytes]]:
    return 6, iter([b"abc", b"def"])


def test_small_models_stay_in_memory(folder: Path) -> None:
    with _temporary_files.mapped(write, ".tflite") as content:
        assert content == b"abcdef"
        assert not list(folder.iterdir())


def test_large_models_go_to_a_file_that_vanishes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_temporary_files, "SMALL_BYTES", 5)
    with _temporary_files.mapped(write, ".tflite") as content:
        assert isinstance(content, str)
        assert Path(content).read_bytes() == b"abcdef"
        assert Path(content).parent == folder
    assert not list(folder.iterdir())


def test_without_room_they_stay_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_temporary_files, "SMALL_BYTES", 5)
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "absent"))
    with _temporary_files.mapped(write, ".tflite") as content:
        assert content == b"abcdef"


def test_the_file_vanishes_after_an_error_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_temporary_files, "SMALL_BYTES", 5)
    with pytest.raises(ValueError, match="refused"), _temporary_files.mapped(write, ".tflite"):
        raise ValueError("refused")
    assert not list(folder.iterdir())


def test_a_session_on_a_mapped_graph(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights can be read again after their pages were given back, and LiteRT after its file is gone."""
    pytest.importorskip("ai_edge_litert")
    monkeypatch.setattr(_temporary_files, "SMALL_BYTES", 0)
    weights = np.random.default_rng(0).standard_normal((64, 512)).astype(np.float32)
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 64))}).output()
    y = graph.add("MatMul", [x, graph.constant(weights, "w")], "y", attrs={"T": FLOAT})
    graph.inputs, graph.outputs = [x], [y.output()]
    path = folder / "m.pb"
    thinflow.save(graph, path)
    session = Session(path, "litert")
    image = np.ones((1, 64), np.float32)
    found, again = session.run(["y", "w"], {"x": image})
    np.testing.assert_allclose(found, image @ weights, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(again, weights)
    np.testing.assert_array_equal(session.run(["y"], {"x": image})[0], found)
    assert session.placement["y"] == "litert"
    assert [p.name for p in folder.iterdir()] == ["m.pb"]
