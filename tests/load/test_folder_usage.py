"""Labels in the files that stand beside a model's graph, and Keras layers that prepare pictures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import thinflow
from tests.keras.written import layer, sequential, source, write_h5
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.ir.usage import IMAGE, InputUsage, Usage
from thinflow.load.folder_usage import with_files_beside
from thinflow.optimize.stated_usage import usage_of

COLOURS = """
    x = Placeholder() {dtype=float, shape=shape[?,32,32,3]}
    axes = Const() {value=int32[2]{1,2}}
    y = Mean(x, axes) {T=float, Tidx=int32}
    inputs: x
    outputs: y
"""


def page(folder: Path, metadata: object) -> Path:
    """A TensorFlow.js model of one layer, and its metadata.json."""
    layers = [
        layer("InputLayer", "x", batch_input_shape=[None, 32, 32, 3], dtype="float32"),
        layer("GlobalAveragePooling2D", "pool", data_format="channels_last"),
    ]
    topology = {"class_name": "Sequential", "config": {"name": "net", "layers": layers}}
    content = {"format": "layers-model", "modelTopology": topology, "weightsManifest": []}
    (folder / "model.json").write_text(json.dumps(content))
    text = metadata if isinstance(metadata, str) else json.dumps(metadata)
    (folder / "metadata.json").write_text(text)
    return folder / "model.json"


TEACHABLE: dict[str, Any] = {
    "packageName": "@teachablemachine/image",
    "modelName": "tm",
    "labels": ["red", "green", "blue"],
    "imageSize": 224,
}


def test_a_teachable_machine(tmp_path: Path) -> None:
    path = page(tmp_path, TEACHABLE)
    for place in (path, tmp_path):
        graph = thinflow.load(place)
        found = usage_of(graph).input(graph.inputs[0].name)
        assert found is not None
        assert (found.kind, found.colours, found.formula) == (IMAGE, "RGB", "(x - 127) / 127")
        assert found.assumed == "Teachable Machine takes x / 127 - 1"
        labels = graph.usage.labels(graph.outputs[0].name, 3)
        assert labels is not None
        assert (labels.name, labels.words) == ("metadata.json", ("red", "green", "blue"))
        assert graph.usage.notes == {"name": "tm"}


@pytest.mark.parametrize(
    ("metadata", "problems"),
    [
        ("{", ("metadata.json is no valid JSON",)),
        ("[" * 99999, ("metadata.json is no valid JSON",)),
        ([1], ()),
        ({"labels": ["one", "two"]}, ()),
        ({"labels": [1, 2, 3]}, ()),
        ({"labels": "abc", "modelName": 3}, ()),
    ],
)
def test_other_files_of_that_name(metadata: object, problems: tuple[str, ...], tmp_path: Path) -> None:
    assert thinflow.load(page(tmp_path, metadata)).usage == Usage(problems=problems)


def test_labels_among_the_assets(tmp_path: Path) -> None:
    graph = thinflow.load(parse_graph(COLOURS))
    folder = tmp_path / "saved"
    (folder / "assets").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"")
    graph.path = str(folder)
    (folder / "assets" / "a_labels.txt").write_text("one\ntwo\n")
    assert not with_files_beside(graph)
    (folder / "assets" / "b_labels.txt").write_bytes(b"\xff\xfe")
    (folder / "assets" / "labels.txt").write_text("red\ngreen\nblue\n\n")
    labels = with_files_beside(graph).labels("y", 3)
    assert labels is not None
    assert (labels.name, labels.words) == ("assets/labels.txt", ("red", "green", "blue"))
    # A link leads out of the folder.
    (tmp_path / "outside.txt").write_text("a\nb\nc\n")
    (folder / "assets" / "labels.txt").unlink()
    (folder / "assets" / "labels.txt").symlink_to(tmp_path / "outside.txt")
    assert not with_files_beside(graph)
    shutil.rmtree(folder)
    assert not with_files_beside(graph)


# --- Keras --------------------------------------------------------------------------------------------------


def keras(path: Path, *layers: dict[str, Any]) -> Path:
    pytest.importorskip("h5py")
    pool = layer("GlobalAveragePooling2D", "pool", data_format="channels_last")
    return write_h5(path, sequential(source(32, 32, 3), *layers, pool))


NORMALIZATION = layer(
    "Normalization", "n", axis=[-1], mean=[0.485, 0.456, 0.406], variance=[0.0625, 0.25, 1.0]
)


@pytest.mark.parametrize(
    ("layers", "own", "formula"),
    [
        ([layer("Rescaling", "r", scale=1 / 255, offset=0.0)], "x / 255", "x"),
        ([layer("Rescaling", "r", scale=1 / 127.5, offset=-1.0)], "(x - 127.5) / 127.5", "x"),
        (
            # As EfficientNet of keras.applications begins.
            [layer("Rescaling", "r", scale=1 / 255, offset=0.0), NORMALIZATION],
            "(x - [123.675, 116.28, 103.53]) / [63.75, 127.5, 255]",
            "x",
        ),
        (
            [NORMALIZATION],
            "(x - [0.485, 0.456, 0.406]) / [0.25, 0.5, 1]",
            "x / 255",
        ),
        ([], "", ""),
    ],
)
def test_layers_that_prepare_pictures(
    layers: list[dict[str, Any]], own: str, formula: str, tmp_path: Path
) -> None:
    graph = thinflow.load(keras(tmp_path / "m.h5", *layers))
    found = usage_of(graph).input("x") or InputUsage()
    assert (found.own, found.formula) == (own, formula)
    # A transform that folds the layers away does not take the knowledge along.
    folded = thinflow.transform(graph, "fold_constants")
    assert folded.usage == graph.usage


def test_label_image_feeds_what_the_layers_want(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (32, 32), (51, 102, 204)).save(tmp_path / "p.png")
    (tmp_path / "labels.txt").write_text("red\ngreen\nblue\n")
    model = keras(tmp_path / "m.h5", layer("Rescaling", "r", scale=1 / 255, offset=0.0))
    flags = [f"--graph={model}", f"--image={tmp_path / 'p.png'}", f"--labels={tmp_path / 'labels.txt'}"]
    assert main(["label_image", *flags]) == 0
    captured = capsys.readouterr()
    scores = [float(line.rpartition(" ")[2]) for line in captured.out.splitlines()]
    assert scores == pytest.approx([0.8, 0.4, 0.2], rel=1e-4)
    said = "pixels 0..255 as they are, of which the model computes x / 255"
    assert f"from the model's file: {said} (assumed: these give numbers" in captured.err
    # A frozen graph gets the defaults of the original, whatever it computes first.
    thinflow.save(thinflow.load(model), tmp_path / "m.pb")
    assert main(["label_image", *flags, f"--graph={tmp_path / 'm.pb'}"]) == 0
    captured = capsys.readouterr()
    scores = [float(line.rpartition(" ")[2]) for line in captured.out.splitlines()]
    assert scores == pytest.approx([0.8 / 255, 0.4 / 255, 0.2 / 255], rel=1e-4)
    assert "assumed" not in captured.err
