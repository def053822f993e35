"""Typical calls, as somebody writes them who has `mypy --strict`: read by a type checker, and never run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from typing_extensions import assert_type

import thinflow
from thinflow.rewriting import Context, Editor, IntParam, Trace
from thinflow.typing import Array, Feed, Progress, Samples, Shapes

images = np.zeros((8, 28, 28, 1), np.float32)
feed: Feed = {"image": images, "keep": 1.0}
shapes: Shapes = {"image": (1, None, None, 3)}


def told(done: int, total: int, label: str) -> None:
    print(done, total, label)


def samples() -> Iterator[dict[str, Array]]:
    for image in images:
        yield {"image": image}


def look() -> None:
    graph = thinflow.load("model.pb", inputs=["image"], outputs=["scores"], shapes=shapes)
    assert_type(graph, thinflow.Graph)
    assert_type(graph.inputs, list[thinflow.Value])
    assert_type(graph.inputs[0].dtype, thinflow.DType | None)
    thinflow.load(Path("saved"), tags="serve", signature="serving_default", checkpoint="model.ckpt")
    summary = thinflow.summarize(graph, shapes={"image": (1, 28, 28, 1)})
    assert_type(summary, thinflow.Summary)
    assert_type(summary.parameters.count, int)
    assert_type(thinflow.inspect("model.pb"), thinflow.Summary)
    report = thinflow.lint("model.pb", select=["TF3"], ignore=("TF301",), fix=Path("mended.pb"))
    assert_type(report, thinflow.LintReport)
    assert_type(report.findings[0], thinflow.LintFinding)
    assert_type(report.findings[0].nodes, tuple[str, ...])
    found = thinflow.survey(["models", Path("more.zip")], lint=False, jobs=2, progress=told)
    assert_type(found, thinflow.SurveyReport)
    assert_type(found.to_csv(), str)
    assert_type(thinflow.load_checkpoint("model.ckpt"), thinflow.Checkpoint)
    assert_type(thinflow.load_checkpoint("model.ckpt")["w"].numpy(), np.ndarray[Any, Any])


def change(graph: thinflow.Graph) -> None:
    smaller = thinflow.transform(graph, "fold_constants", ["image"], ["scores"], feeds=[feed])
    assert_type(smaller, thinflow.Graph)
    thinflow.transform(graph, ["fold_constants", ("round_weights", {"num_steps": 64})], progress=told)
    assert_type(thinflow.transform_saved_model("in", Path("out"), "sort_by_execution_order"), thinflow.Graph)
    assert_type(thinflow.TransformGraph(b"", ["a"], ["b"], ["fold_constants"]), bytes)
    assert_type(thinflow.freeze("saved", "scores", only=["dense/*"]), thinflow.Graph)
    assert_type(thinflow.save(smaller, "small.pb"), int)
    assert_type(thinflow.convert(smaller, Path("small.tflite"), outputs=["scores"]), int)
    written = thinflow.convert_verified("model.pb", "small.onnx", opset=17, strict=True)
    assert_type(written, thinflow.Conversion)
    assert_type(written.size_bytes, int)
    small = thinflow.reduce(graph, engine="litert", feeds=feed)
    assert_type(small, thinflow.Reduction)


def compare(a: thinflow.Graph, b: Path) -> None:
    found = thinflow.verify(a, b, {"image": images}, seed=[1, 2])
    assert_type(found, thinflow.Verification)
    assert_type(found.ok, bool)
    thinflow.verify(a, b, [{"image": images}, feed], inputs=["image=input"])
    assert_type(thinflow.diff(a, "other.pb"), thinflow.Diff | thinflow.ConversionDiff)
    assert_type(thinflow.compare(a, b, rtol=1e-6), list[str])


def run(graph: thinflow.Graph) -> None:
    session = thinflow.Session(graph, engine="auto", threads=2)
    assert_type(session.run(["scores:0"], {"image:0": images}), list[np.ndarray[Any, Any]])
    session.run(graph.outputs, {graph.inputs[0]: [[1.0, 2.0]]})
    assert_type(session.placement, dict[str, str])
    assert_type(thinflow.run("model.tflite", feed, ["scores"], threads=2), dict[str, np.ndarray[Any, Any]])
    phone = thinflow.InferenceInterface("model.pb")
    phone.feed("image", [1.0, 2.0], 1, 2)
    assert_type(phone.fetch("scores"), np.ndarray[Any, Any])
    assert_type(phone.fetch("scores", bytearray(40)), bytearray)


def measure(calibration: Samples) -> None:
    timing = thinflow.benchmark(["a.tflite", Path("b.pb")], threads=[1, 4], engines="litert", seconds=3)
    assert_type(timing, thinflow.BenchmarkReport)
    assert_type(timing.rows[0].median_ms, float)
    thinflow.benchmark({"before": "a.pb", "after": thinflow.Graph()}, calibration=calibration)
    quality = thinflow.evaluate("model.pb", {"image": images, "labels": np.arange(8)}, labels=["cat", "dog"])
    assert_type(quality, thinflow.Evaluation)
    assert_type(quality.accuracy, float | None)


def ship(progress: Progress) -> None:
    report = thinflow.optimize("model.pb", Path("out"), calibration=samples, threads=(1,), progress=progress)
    assert_type(report, thinflow.OptimizeReport | thinflow.GraphReport)
    assert_type(report.verdict, str)
    assert_type(report.files["fp32_pb"], Path)
    if isinstance(report, thinflow.OptimizeReport):
        assert_type(report.int8_quality, thinflow.Quality)
    scaling = thinflow.Scaling([127.5] * 3, 127.5)
    recipe = thinflow.Recipe(scheme="int8", observer="percentile", observer_options={"percent": 99.9})
    thinflow.optimize("model.pb", "out", calibration="photos", scaling=scaling, recipe=recipe, onnx=True)
    smaller = thinflow.quantize("model.pb", images, scheme="int16x8")
    assert_type(smaller, thinflow.QuantizedModel)
    assert_type(smaller.content, bytes)
    assert_type(thinflow.save(smaller, "small.tflite"), int)
    thinflow.quantize("model.pb", [images, feed], format="tflite")
    other = thinflow.quantize("model.pb", list(samples()), format="onnx", opset=19, activations="int8")
    assert_type(other, thinflow.OnnxQuantizedModel)
    assert_type(other.save("small.onnx", external_data=True), int)


def extend() -> None:
    @thinflow.register("rename_all", [IntParam("count", 1)])
    def rename_all(graph: Editor, ctx: Context) -> None:
        assert_type(ctx.inputs, list[thinflow.Value])

    again: Callable[[Editor, Context], None] = rename_all
    again(Editor(thinflow.Graph(), Trace(), "again"), Context([], [], SimpleNamespace(), Trace()))
    assert_type(thinflow.load_plugin("mine.py"), list[str])


def mistakes(graph: thinflow.Graph) -> None:
    """What a checker has to find; an `ignore` that is not needed is an error, too."""
    thinflow.optimize("model.pb", "out", calibraton="photos")  # type: ignore[call-arg]
    thinflow.optimize("model.pb", "out", threads=2)  # type: ignore[arg-type]
    thinflow.quantize(graph, images, opset=17)  # type: ignore[call-overload]
    thinflow.load("model.pb", signatures="serving_default")  # type: ignore[call-arg]
    print(thinflow.verify(graph, graph).okay)  # type: ignore[attr-defined]
    print(thinflow.benchmark(graph).rows[0].median)  # type: ignore[attr-defined]
    print(thinflow.evaluate(graph, "test.npz").accuracy + 1)  # type: ignore[operator]
