"""Models that leave sizes open: what they are fed, and that the report says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.bench.inputs import made_up
from thinflow.bench.latency import benchmark
from thinflow.bench.open_targets import open_subjects
from thinflow.bench.profile import profile
from thinflow.bench.workload import workload
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.synthetic import DEFAULT_SIZE, concrete_shape

FED = (1, DEFAULT_SIZE, DEFAULT_SIZE, 3)


def open_picture() -> Graph:
    graph = Graph()
    shape = ShapeAttr((None, None, None, 3))
    x = graph.add("Placeholder", name="image", attrs={"dtype": FLOAT, "shape": shape}).output()
    kernel = graph.constant(np.ones((3, 3, 3, 4), np.float32), "kernel")
    attrs = {"T": FLOAT, "strides": [1, 1, 1, 1], "padding": "SAME"}
    graph.inputs, graph.outputs = [x], [graph.add("Conv2D", [x, kernel], "y", attrs=attrs).output()]
    return graph


@pytest.fixture
def file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    pytest.importorskip("ai_edge_litert")
    if request.param == "onnx":
        pytest.importorskip("onnxruntime")
    path = tmp_path / f"model.{request.param}"
    thinflow.save(open_picture(), path)
    return path


@pytest.mark.parametrize("file", ["pb", "tflite", "onnx"], indirect=True)
def test_all_forms_of_a_model_are_fed_the_same_and_that_is_told(file: Path) -> None:
    report = benchmark(file, runs=2, memory=False, peaks=False)
    assert report.assumed == {"model": {"image": FED}}
    sizes = ",".join(map(str, FED))
    wanted = f"model: 'image' leaves sizes open, {sizes} was fed; --shape image=... sets them"
    assert wanted in report.caveats()
    assert report.data()["assumed_shapes"] == {"model": {"image": FED}}


@pytest.mark.parametrize("file", ["pb", "tflite", "onnx"], indirect=True)
def test_nothing_is_assumed_of_sizes_that_were_given(file: Path) -> None:
    report = benchmark(file, runs=2, memory=False, peaks=False, shapes={"image": (1, 5, 6, 3)})
    assert report.assumed == {}
    assert not any("leaves sizes open" in line for line in report.caveats())


@pytest.mark.parametrize("file", ["tflite"], indirect=True)
def test_the_work_of_a_file_with_open_sizes_is_that_of_what_it_is_fed(file: Path) -> None:
    (subject,) = open_subjects(file)
    subject.prepare("litert", 1)
    work = workload(subject)
    assert work is not None
    assert (work.operations, work.uncounted) == (2 * DEFAULT_SIZE**2 * 4 * 3 * 3 * 3, ())


@pytest.mark.parametrize(
    ("shape", "filled"),
    [
        ((None, None, None, 3), FED),
        ((None, 3, None, None), (1, 3, DEFAULT_SIZE, DEFAULT_SIZE)),
        ((None, None, 7), (1, 8, 7)),
        ((None,), (1,)),
        ((), ()),
        (None, ()),
    ],
)
def test_sizes_that_are_made_up(shape: tuple[int | None, ...] | None, filled: tuple[int, ...]) -> None:
    assert concrete_shape(TensorSpec(FLOAT, shape)) == filled


def test_an_input_without_a_signature_of_its_sizes() -> None:
    detail = {"name": "x", "shape": np.array([1, 4]), "shape_signature": np.array([]), "dtype": np.float32}
    assert made_up(detail, {}, np.random.default_rng(0)).shape == (1, 4)


@pytest.mark.parametrize("name", ["image", "image:0", "anything"])
def test_a_feed_says_how_large_the_input_is(name: str) -> None:
    feeds = {name: np.zeros((1, 20, 24, 3), np.float32)}
    report = benchmark(open_picture(), feeds=feeds, runs=2, memory=False, peaks=False)
    assert report.assumed == {}
    (row,) = report.rows
    assert row.work is not None
    assert row.work.operations == 2 * 20 * 24 * 4 * 3 * 3 * 3


@pytest.mark.parametrize("engine", ["litert", "onnxruntime", "reference"])
def test_a_profile_is_of_what_is_fed(engine: str) -> None:
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("onnxruntime")
    feeds = {"image": np.zeros((1, 20, 24, 3), np.float32)}
    found = profile(open_picture(), engine=engine, feeds=feeds, runs=1)
    if engine == "onnxruntime":  # which pads channels, so that its bytes differ
        assert {20, 24} <= set(found.outputs["y"][0].shape or ())
    else:
        assert max(row.memory for row in found.stats.rows.values()) == 20 * 24 * 4 * 4
