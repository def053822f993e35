"""Which layer loses most, in the recipe that was chosen and by names that can be kept float."""

from __future__ import annotations

from pathlib import Path

from thinflow import zoo
from thinflow.api.optimizing import quantize_to_file
from thinflow.ir.types import FLOAT
from thinflow.quantize.recipe import Recipe
from thinflow.tflite.reader import read_program


def test_every_name_can_be_kept_float(tmp_path: Path) -> None:
    graph = zoo.build("digits")
    given = {key: array for key, array in zoo.calibration("digits", 40).items() if key != "labels"}
    report = quantize_to_file(graph, tmp_path / "model.tflite", given, sensitivity=True, effort="none")
    losses = report["sensitivity"]
    assert any(loss["code"] == "input" for loss in losses)
    names = tuple(dict.fromkeys(name for loss in losses for name in loss["keep"]))
    kept = quantize_to_file(
        graph, tmp_path / "kept.tflite", given, recipe=Recipe(skip_nodes=names), effort="none"
    )
    assert {node for _, node, _ in kept["float_operators"]} >= set(names)


def test_what_is_kept_spares_the_loss(tmp_path: Path) -> None:
    """Where an output loses most, what reads it has to be float, too: else integers are made for it."""
    graph = zoo.build("digits")
    given = {key: array for key, array in zoo.calibration("digits", 40).items() if key != "labels"}
    report = quantize_to_file(graph, tmp_path / "model.tflite", given, sensitivity=True, effort="none")
    worst = next(x for x in report["sensitivity"] if len(x["keep"]) > 1)
    assert worst["name"] == "fc1/MatMul"
    recipe = Recipe(skip_nodes=tuple(worst["keep"]))
    path = tmp_path / "kept.tflite"
    quantize_to_file(graph, path, given, recipe=recipe, effort="none")
    main = read_program(path.read_bytes()).subgraphs[0]
    (maker,) = (o for o in main.operators if o.outputs[0].name == "fc1/Relu")
    assert maker.outputs[0].dtype is FLOAT
    assert not any(maker.outputs[0] in o.inputs for o in main.operators if o.code == "QUANTIZE")
