"""What real files say of their use."""

from __future__ import annotations

from pathlib import Path

import pytest

import thinflow
from thinflow.ir.usage import IMAGE, RGB


def test_a_classifier_with_litert_s_metadata(shared: Path, tmp_path: Path) -> None:
    file = shared / "zoo" / "tflite" / "mobilenet_v1_025_224_quant.tflite"
    graph = thinflow.load(file)
    found = graph.usage.input("input")
    assert found is not None
    assert (found.kind, found.colours, found.formula, found.assumed) == (
        IMAGE,
        RGB,
        "(x - 127.5) / 127.5",
        "",
    )
    labels = graph.usage.labels(graph.outputs[0].name, 1001)
    assert labels is not None
    assert (labels.words[0], labels.words[653], labels.words[1000]) == (
        "background",
        "military uniform",
        "toilet tissue",
    )
    assert graph.usage.notes["author"] == "TensorFlow"
    thinflow.save(graph, tmp_path / "m.onnx")
    again = thinflow.load(tmp_path / "m.onnx").usage
    assert again.input("input").formula == found.formula  # type: ignore[union-attr]
    assert again.labels(graph.outputs[0].name, 1001).words == labels.words  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("mlperf_vww_96_int8", "x / 255"),
        ("mlperf_resnet_quant", "x"),
        ("person_detect", "(x - 127) / 127.5"),
        ("mlperf_kws_ref", ""),
        ("mlperf_str_ww", ""),
        ("micro_speech_quantized", ""),
        ("movie_review", ""),
        ("face_detection_short_range", ""),
    ],
)
def test_what_no_file_says_is_assumed_or_left_open(name: str, formula: str, shared: Path) -> None:
    graph = thinflow.load(shared / "zoo" / "tflite" / f"{name}.tflite")
    found = [u for u in graph.usage.inputs.values() if u.is_scaled]
    assert [(u.formula, u.assumed) for u in found] == (
        [(formula, "its codes are pixels less 128")] if formula else []
    )
    assert not graph.usage.outputs
