"""Which layer loses most, in the recipe that was chosen and by names that can be kept float."""

from __future__ import annotations

from pathlib import Path

from thinflow import zoo
from thinflow.api.optimizing import quantize_to_file
from thinflow.quantize.recipe import Recipe


def test_every_name_can_be_kept_float(tmp_path: Path) -> None:
    graph = zoo.build("digits")
    given = {key: array for key, array in zoo.calibration("digits", 40).items() if key != "labels"}
    report = quantize_to_file(graph, tmp_path / "model.tflite", given, sensitivity=True, effort="none")
    losses = report["sensitivity"]
    assert any(loss["code"] == "input" for loss in losses)
    names = tuple(dict.fromkeys(loss["keep"] for loss in losses))
    kept = quantize_to_file(
        graph, tmp_path / "kept.tflite", given, recipe=Recipe(skip_nodes=names), effort="none"
    )
    assert {node for _, node, _ in kept["float_operators"]} >= set(names)
