"""What .onnx files say of their use in `metadata_props`, and what is written there."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import thinflow
from thinflow.ir.usage import BGR, GREY, IMAGE, RGB, InputUsage, OutputUsage, Usage, Words
from thinflow.onnx.metadata import End, described, label_list, read_usage
from thinflow.onnx.program import Program

onnx = pytest.importorskip("onnx")
helper = pytest.importorskip("onnx.helper")

PICTURE, SCORES = End("x", (1, 3, 8, 8)), End("y", (1, 3))


def usage_of(props: dict[str, str], picture: End = PICTURE, scores: End = SCORES) -> Usage:
    return read_usage(props, [picture], [scores])


def picture_of(props: dict[str, str]) -> InputUsage:
    return usage_of(props).inputs["x"]


def model(props: dict[str, str], path: Path, denotation: str = "") -> str:
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 8, 8])
    x.type.denotation = denotation
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 3])
    nodes = [helper.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)]
    made = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 13)], ir_version=8
    )
    helper.set_model_props(made, props)
    path.write_bytes(made.SerializeToString())
    return str(path)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("NominalRange_0_255", "x"),
        ("normalized_0_1", "x / 255"),
        ("NORMALIZED_1_1", "(x - 127.5) / 127.5"),
        ("NominalRange_16_235", "(x + 18.6301) / 1.16438"),
    ],
)
def test_the_standards_ranges(name: str, formula: str) -> None:
    assert picture_of({"Image.NominalPixelRange": name}).formula == formula


def test_16_to_235_maps_the_ends() -> None:
    found = picture_of({"image.nominalpixelrange": "NominalRange_16_235"})
    assert [round((pixel - found.mean[0]) / found.std[0], 6) for pixel in (0, 255)] == [16, 235]


def test_the_standards_colours(tmp_path: Path) -> None:
    for name, colours in (("Bgr8", BGR), ("rgb8", RGB), ("GRAY8", GREY)):
        assert picture_of({"IMAGE.BitmapPixelFormat": name}).colours == colours
    assert not usage_of({"Image.BitmapPixelFormat": "Yuv9"}).inputs
    path = model({"Image.BitmapPixelFormat": "Bgr8"}, tmp_path / "m.onnx", "IMAGE")
    for lift in (True, False):
        found = thinflow.load(path, lift=lift).usage.inputs["x"]
        assert (found.kind, found.colours) == (IMAGE, BGR)


def test_means_of_pixels_to_1_are_an_assumption() -> None:
    found = picture_of({"mean": "[0.485, 0.456, 0.406]", "std": "(0.229, 0.224, 0.225)"})
    assert found.mean == (123.675, 116.28, 103.53)
    assert found.std == (58.395, 57.12, 57.375)
    assert "pixels 0..1" in found.assumed
    stated = picture_of({"mean": "123.675, 116.28, 103.53", "std": "1"})
    assert (stated.mean, stated.std, stated.assumed) == ((123.675, 116.28, 103.53), (1,), "")
    whole = picture_of({"mean": "0", "std": "1", "Image.NominalPixelRange": "NominalRange_0_255"})
    assert (whole.mean, whole.std, whole.assumed) == ((0,), (1,), "")


@pytest.mark.parametrize("pair", [("1", "0"), ("x", "1"), ("1,2", "1,2,3"), ("nan", "1"), ("[]", "1")])
def test_a_mean_that_is_none_is_named(pair: tuple[str, str]) -> None:
    usage = usage_of(dict(zip(("mean", "std"), pair, strict=True)))
    assert not usage.inputs
    assert usage.problems == ("'mean' and 'std' of its metadata are no mean and deviation",)


@pytest.mark.parametrize(
    "text",
    [
        '["a", "b", "c"]',
        "{0: 'a', 1: 'b', 2: 'c'}",
        '{"2": "c", "0": "a", "1": "b"}',
        "a\nb\nc",
        "a, b, c",
        "['a', 'b', 'c']",
    ],
)
def test_spellings_of_lists(text: str) -> None:
    assert label_list(text) == ["a", "b", "c"]
    labels = usage_of({"classes": text}).labels("y", 3)
    assert labels is not None
    assert labels.words == ("a", "b", "c")


@pytest.mark.parametrize(
    "text",
    ["", "one", "{0: 'a', 2: 'c'}", "{'a': 1}", "[[1]]", "[" * 9000, "{0: __import__('os')}", "[1,", "{1}"],
)
def test_what_is_no_list_gives_no_labels(text: str) -> None:
    assert label_list(text) == []
    assert usage_of({"names": text}).labels("y") is None


def test_ultralytics(tmp_path: Path) -> None:
    props = {"author": "Ultralytics", "task": "detect", "imgsz": "[640, 480]", "names": "{0: 'a', 1: 'b'}"}
    usage = read_usage(props, [End("images", (1, 3, None, None))], [End("output0", (1, 6, 8400))])
    found = usage.inputs["images"]
    assert (found.size, found.formula, found.colours) == ((640, 480), "x / 255", RGB)
    assert found.assumed == "networks of Ultralytics take x / 255"
    # The second axis has boxes and classes: no place of it is a label's alone.
    assert usage.labels("output0") is None
    assert usage.outputs["output0"].text().startswith("2 labels (a, b) from 'names'")
    assert usage.notes == {"author": "Ultralytics", "task": "detect"}
    graph = thinflow.load(model({**props, "names": "['a', 'b', 'c']"}, tmp_path / "m.onnx"))
    assert graph.usage.labels("y", 3) == Words("'names'", ("a", "b", "c"))


def test_two_pictures_are_not_told_apart() -> None:
    props = {"Image.NominalPixelRange": "Normalized_0_1", "free": "key"}
    both = read_usage(props, [PICTURE, End("z", (1, 3, 8, 8))], [SCORES])
    assert (dict(both.inputs), both.notes) == ({}, {"free": "key"})
    assert list(read_usage(props, [PICTURE, End("z", (1, 3, 8, 8), "IMAGE")], []).inputs) == ["z"]


def test_classes_of_a_classifier(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, 2])
    outputs = [
        helper.make_tensor_value_info("label", onnx.TensorProto.STRING, [None]),
        helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, [None, 3]),
    ]
    node = helper.make_node(
        "LinearClassifier", ["x"], ["label", "raw"], domain="ai.onnx.ml", classlabels_strings=["a", "b", "c"],
        coefficients=[1.0] * 6, intercepts=[0.0] * 3, post_transform="NONE",
    )  # fmt: skip
    norm = helper.make_node("Normalizer", ["raw"], ["scores"], domain="ai.onnx.ml", norm="L1")
    made = helper.make_model(
        helper.make_graph([node, norm], "g", [x], outputs),
        opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 3)],
        ir_version=8,
    )
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    usage = thinflow.load(tmp_path / "m.onnx", lift=False).usage
    assert list(usage.outputs) == ["scores"]
    assert usage.labels("scores", 3) == Words("LinearClassifier", ("a", "b", "c"))


def written(usage: Usage) -> dict[str, str]:
    from thinflow.ir.types import FLOAT
    from thinflow.onnx.program import Tensor

    program = Program([Tensor("x", (1, 3, 8, 8), FLOAT)], [Tensor("y", (1, 3), FLOAT)], [])
    return dict(described(program, usage).metadata)


@pytest.mark.parametrize("mean", [(0.0,), (127.5,), (1.0, 2.0, 3.0), (0.25, 0.5, 0.75)])
@pytest.mark.parametrize("std", [(1.0,), (255.0,), (127.5,), (0.5, 0.5, 1.0)])
def test_what_is_written_is_read_again(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    image = InputUsage(IMAGE, BGR, mean=mean, std=std, said="somewhere")
    labels = OutputUsage(Words("l.txt", ("a", "it's", "ü")))
    props = written(Usage({"x": image}, {"y": labels}, {"free": "key"}))
    usage = usage_of(props)
    found = usage.inputs["x"]
    assert (found.mean, found.std, found.colours, found.assumed) == (mean, std, BGR, "")
    assert usage.labels("y", 3) == Words("'names'", ("a", "it's", "ü"))
    assert usage.notes == {"free": "key"}


def test_what_is_assumed_is_not_written() -> None:
    image = InputUsage(IMAGE, mean=(0.0,), std=(255.0,), assumed="somebody thinks so")
    assert written(Usage({"x": image})) == {}


def test_any_text_is_read_without_an_error() -> None:
    rng = random.Random(5)
    keys = [
        "names",
        "mean",
        "std",
        "imgsz",
        "classes",
        "Image.BitmapPixelFormat",
        "Image.NominalPixelRange",
        "author",
    ]
    alphabet = "[]{}(),:'\"0123456789.e-+ anxyz\n\\\0"
    for _ in range(600):
        props = {k: "".join(rng.choices(alphabet, k=rng.randint(0, 30))) for k in rng.sample(keys, 4)}
        usage: Any = usage_of(props)
        json.dumps(usage.data())
        [u.text() for u in (*usage.inputs.values(), *usage.outputs.values())]
