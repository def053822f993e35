"""Measuring files as they are, and what happens to the others when one crashes its engine."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.bench import latency
from thinflow.bench.latency import benchmark
from thinflow.bench.open_targets import open_subjects
from thinflow.bench.targets import GraphSubject, TFLiteSubject
from thinflow.engines._child import can_fork
from thinflow.errors import EngineCrashed, EngineUnavailable, FeedError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT


def simple_graph() -> Graph:
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((None, 4))}).output()
    graph.inputs, graph.outputs = [x], [graph.add("Relu", [x], "y", attrs={"T": FLOAT}).output()]
    return graph


def test_an_onnx_file_runs_on_its_own_engine(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ai_edge_litert")
    paths = [tmp_path / "m.onnx", tmp_path / "m.tflite"]
    for path in paths:
        thinflow.save(simple_graph(), path)
    report = benchmark(paths, runs=2, memory=False, shapes={"x": (3, 4)})
    assert [(r.subject, r.engine) for r in report.rows] == [("m.onnx", "onnxruntime"), ("m.tflite", "litert")]
    feeds = {"x": np.ones((2, 4), np.float32)}
    assert benchmark(paths[0], runs=1, memory=False, feeds=feeds).rows[0].note.startswith("includes copying")
    with pytest.raises(EngineUnavailable, match=r"an .onnx file runs on the engine 'onnxruntime' only"):
        benchmark(paths[0], engines=["litert"], runs=1)
    with pytest.raises(FeedError, match="no model has an input 'z'"):
        benchmark(paths, shapes={"z": (1,)}, runs=1)


def test_a_tflite_file_runs_in_the_interpreter(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    thinflow.save(simple_graph(), tmp_path / "m.tflite")
    report = benchmark(
        tmp_path / "m.tflite", engines=["reference", "auto"], runs=2, memory=False, peaks=False
    )
    assert [r.engine for r in report.rows] == ["reference", "litert"]
    with pytest.raises(FeedError, match="no model has an input 'y'") as caught:
        benchmark(tmp_path / "m.tflite", shapes={"y": (1,)}, runs=1)
    assert caught.value.hint == "the inputs are x"


def test_a_folder_is_as_large_as_its_files(tmp_path: Path) -> None:
    thinflow.save(simple_graph(), tmp_path / "saved", format="savedmodel")
    report = benchmark(tmp_path / "saved", runs=1, memory=False, peaks=False, shapes={"x": (2, 4)})
    files = [f for f in (tmp_path / "saved").rglob("*") if f.is_file()]
    assert report.sizes == {"saved": sum(f.stat().st_size for f in files)}


def test_a_graph_keeps_the_sizes_it_is_measured_with(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    (subject,) = open_subjects({"m": simple_graph()}, shapes={"x": (3, 4)})
    assert isinstance(subject, GraphSubject)
    for threads in (1, 2):
        subject.prepare("litert", threads)
        assert subject.graph.value("y").spec.shape == (3, 4)


def test_a_misspelt_engine_is_no_engine_that_is_left_out(tmp_path: Path) -> None:
    thinflow.save(simple_graph(), tmp_path / "m.tflite")
    with pytest.raises(EngineUnavailable, match="there is no engine 'litter'") as caught:
        benchmark(tmp_path / "m.tflite", engines=["litert", "litter"], runs=1)
    assert caught.value.hint == "did you mean 'litert'?"


@pytest.mark.skipif(not can_fork(), reason="no fork here")
def test_a_model_that_crashes_its_engine_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ai_edge_litert")
    for name in ("good", "bad"):
        thinflow.save(simple_graph(), tmp_path / f"{name}.tflite")
    own = TFLiteSubject.prepare

    def prepare(self: TFLiteSubject, engine: str, threads: int) -> Any:
        if self.name == "bad" and engine == "litert":
            os.kill(os.getpid(), signal.SIGSEGV)
        return own(self, engine, threads)

    monkeypatch.setattr(TFLiteSubject, "prepare", prepare)
    report = benchmark([tmp_path / "good.tflite", tmp_path / "bad.tflite"], runs=2, memory=False)
    assert [(r.subject, r.engine) for r in report.rows] == [("good", "litert"), ("bad", "reference")]
    assert [(s.subject, s.why) for s in report.skipped] == [
        ("bad", "the engine 'litert' crashed (signal 11, SIGSEGV) while running bad")
    ]
    with pytest.raises(EngineCrashed, match="SIGSEGV"):
        benchmark(tmp_path / "bad.tflite", engines=["litert"], runs=2, memory=False)


def test_where_nothing_forks_a_new_process_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ai_edge_litert")
    thinflow.save(simple_graph(), tmp_path / "m.tflite")
    monkeypatch.setattr(latency, "can_fork", lambda: False)
    with pytest.raises(EngineCrashed, match=r"while running m: it took longer than 0.001 s"):
        benchmark(tmp_path / "m.tflite", engines=["litert"], runs=1, timeout=0.001)
