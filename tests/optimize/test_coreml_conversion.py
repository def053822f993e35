"""Core ML packages as conversions: what is proven, what is refused, and what stands in the package."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.api import convert_verified
from thinflow.coreml.protos import message
from thinflow.errors import (
    EngineUnavailable,
    ParameterError,
    ThinflowError,
    UnsupportedOp,
    VerificationError,
    WriteError,
)
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, INT32, STRING
from thinflow.optimize import coreml_conversion
from thinflow.zoo import digits

needs_coremltools = pytest.mark.skipif(
    find_spec("coremltools") is None, reason="coremltools is not installed"
)


def placeholder(graph: Graph, name: str, shape: tuple[int | None, ...], kind: Any = FLOAT) -> Value:
    return graph.add("Placeholder", [], name, attrs={"dtype": kind, "shape": ShapeAttr(shape)}).output()


def picture_net(batch: int | None = 1) -> Graph:
    """softmax(mean(relu(conv(x)))) of pictures [batch, 8, 6, 3]."""
    rng, graph = np.random.default_rng(0), Graph()
    x = placeholder(graph, "scope/x", (batch, 8, 6, 3))
    w = graph.constant(rng.normal(size=(3, 3, 3, 96)).astype(np.float32), "w")
    c = graph.add(
        "Conv2D", [x, w], "c", attrs={"T": FLOAT, "strides": (1, 2, 2, 1), "padding": "SAME"}
    ).output()
    r = graph.add("Relu", [c], "r", attrs={"T": FLOAT}).output()
    axes = graph.constant(np.array([1, 2], np.int32), "axes")
    m = graph.add("Mean", [r, axes], "m", attrs={"T": FLOAT, "Tidx": INT32, "keep_dims": False}).output()
    v = graph.constant(rng.normal(size=(96, 4)).astype(np.float32) / 6, "v")
    d = graph.add("MatMul", [m, v], "d", attrs={"T": FLOAT}).output()
    graph.inputs, graph.outputs = [x], [graph.add("Softmax", [d], "scope/y", attrs={"T": FLOAT}).output()]
    return graph


def specification(package: Path) -> Any:
    raw = (package / "Data" / "com.apple.CoreML" / "model.mlmodel").read_bytes()
    return message("Model").FromString(raw)


@needs_coremltools
def test_digits(tmp_path: Path) -> None:
    """What was written is proven by being read back, and the proof says what ran it and what did not."""
    graph = digits.build(0)
    made = convert_verified(graph, tmp_path / "digits.mlpackage")
    assert "read back and computed by our kernels it agrees with the graph" in made.proof
    assert "Core ML itself runs only on a Mac, so it was not run here" in made.proof
    assert made.size_bytes == sum(
        f.stat().st_size for f in (tmp_path / "digits.mlpackage").rglob("*") if f.is_file()
    )
    assert thinflow.verify(graph, tmp_path / "digits.mlpackage").ok
    assert [p.name for p in tmp_path.iterdir()] == ["digits.mlpackage"]


@needs_coremltools
def test_coremltools_opens_it(tmp_path: Path) -> None:
    from thinflow.coreml.runtime import coremltools, quiet

    convert_verified(digits.build(0), tmp_path / "digits.mlpackage")
    ct = coremltools()
    with quiet():
        model = ct.models.MLModel(str(tmp_path / "digits.mlpackage"), skip_model_load=True)
    assert [i.name for i in model.get_spec().description.input] == [
        i.name for i in specification(tmp_path / "digits.mlpackage").description.input
    ]


@needs_coremltools
def test_the_same_model_makes_the_same_package(tmp_path: Path) -> None:
    for name in ("a", "b"):
        thinflow.convert(picture_net(), tmp_path / f"{name}.mlpackage", verify=False)
    first, second = (
        {f.relative_to(p): f.read_bytes() for f in p.rglob("*") if f.is_file()}
        for p in (tmp_path / "a.mlpackage", tmp_path / "b.mlpackage")
    )
    assert first == second


@needs_coremltools
def test_names_become_identifiers_and_are_found_by_their_own(tmp_path: Path) -> None:
    made = convert_verified(picture_net(), tmp_path / "net.mlpackage")
    assert "input  scope_x  float[1,8,6,3]  (here scope/x)" in made.notes
    description = specification(tmp_path / "net.mlpackage").description
    assert [f.name for f in (*description.input, *description.output)] == ["scope_x", "scope_y"]
    names = json.loads(description.metadata.userDefined["thinflow.names"])
    assert names == {"scope_x": "scope/x", "scope_y": "scope/y"}
    x = np.random.default_rng(1).normal(size=(1, 8, 6, 3)).astype(np.float32)
    (y,) = thinflow.Session(tmp_path / "net.mlpackage").run(["scope/y"], {"scope/x": x})
    (wanted,) = thinflow.Session(picture_net()).run(["scope/y"], {"scope/x": x})
    assert np.allclose(y, wanted, atol=1e-5)


@needs_coremltools
@pytest.mark.parametrize("options", [{"compute_precision": "float16"}, {"weights": "int8"}])
def test_in_fewer_bits(options: dict[str, str], tmp_path: Path) -> None:
    plain = convert_verified(picture_net(), tmp_path / "plain.mlpackage")
    made = convert_verified(picture_net(), tmp_path / "small.mlpackage", **options)
    assert made.size_bytes < plain.size_bytes
    what = "in float16" if "compute_precision" in options else "with weights in int8"
    assert what in made.proof
    ops = {n.op for n in thinflow.load(tmp_path / "small.mlpackage", lift=False)}
    wanted = "coreml.cast" if "compute_precision" in options else "coreml.constexpr_affine_dequantize"
    assert wanted in ops
    apart = float(made.proof.partition("difference ")[2].partition(";")[0])
    assert 0 < apart < 0.05


@needs_coremltools
@pytest.mark.parametrize(("target", "version"), [("iOS15", 6), ("iOS16", 7), ("iOS17", 8), ("iOS18", 9)])
def test_deployment_targets(target: str, version: int, tmp_path: Path) -> None:
    made = convert_verified(picture_net(), tmp_path / "net.mlpackage", deployment_target=target)
    assert specification(tmp_path / "net.mlpackage").specificationVersion == version
    assert "agrees with the graph" in made.proof


@needs_coremltools
@pytest.mark.parametrize("std", [127.5, (127.5, 100.0, 50.0)])
def test_pictures(std: Any, tmp_path: Path) -> None:
    """The package scales pixels itself, with one scale or one for each channel."""
    made = convert_verified(
        picture_net(), tmp_path / "net.mlpackage", image_input=True, mean=(120, 127.5, 130), std=std
    )
    assert "agrees with the graph" in made.proof
    assert any("a picture in RGB: (pixel - [120, 127.5, 130]) / " in note for note in made.notes)
    image = specification(tmp_path / "net.mlpackage").description.input[0].type.imageType
    assert (image.width, image.height, image.colorSpace) == (6, 8, 20)
    pixels = np.random.default_rng(1).integers(0, 256, (1, 3, 8, 6)).astype(np.float32)
    (y,) = thinflow.Session(tmp_path / "net.mlpackage").run(["scope_y"], {"scope_x": pixels})
    x = (pixels.transpose(0, 2, 3, 1) - np.array([120, 127.5, 130])) / np.array(std)
    (wanted,) = thinflow.Session(picture_net()).run(["scope/y"], {"scope/x": x.astype(np.float32)})
    assert np.allclose(y, wanted, atol=1e-4)


@needs_coremltools
def test_an_open_batch(tmp_path: Path) -> None:
    made = convert_verified(picture_net(None), tmp_path / "net.mlpackage")
    assert "input  scope_x  float[?,8,6,3]  (here scope/x), open sizes from 1 to 64" in made.notes
    x = np.random.default_rng(1).normal(size=(5, 8, 6, 3)).astype(np.float32)
    (y,) = thinflow.Session(tmp_path / "net.mlpackage").run(["scope_y"], {"scope_x": x})
    (wanted,) = thinflow.Session(picture_net()).run(["scope/y"], {"scope/x": x[3:4]})
    assert np.allclose(y[3:4], wanted, atol=1e-5)


@needs_coremltools
def test_sizes_that_are_given(tmp_path: Path) -> None:
    """What the file leaves open is in the package as it was given."""
    graph = Graph()
    x = placeholder(graph, "x", (None, None, None, 2))
    size = graph.constant(np.array([6, 9], np.int32), "size")
    y = graph.add("ResizeNearestNeighbor", [x, size], "y", attrs={"T": FLOAT}).output()
    graph.inputs, graph.outputs = [x], [y]
    thinflow.save(graph, tmp_path / "net.pb")
    made = convert_verified(tmp_path / "net.pb", tmp_path / "net.mlpackage", shapes={"x": (1, 3, 4, 2)})
    assert "agrees with the graph" in made.proof
    shape = specification(tmp_path / "net.mlpackage").description.input[0].type.multiArrayType.shape
    assert list(shape) == [1, 3, 4, 2]


@needs_coremltools
def test_a_classifier(tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("cat\ndog\nbird\nfish\n")
    made = convert_verified(picture_net(), tmp_path / "net.mlpackage", labels=labels)
    assert "agrees with the graph" in made.proof
    description = specification(tmp_path / "net.mlpackage").description
    assert description.predictedFeatureName == "classLabel"
    graph = thinflow.load(tmp_path / "net.mlpackage")
    x = np.random.default_rng(1).normal(size=(1, 8, 6, 3)).astype(np.float32)
    label, scores = thinflow.Session(graph).run([v.name for v in graph.outputs], {"scope_x": x})
    assert label.item().decode() == ["cat", "dog", "bird", "fish"][int(np.argmax(scores))]
    labels.write_text("cat\ndog\n")
    with pytest.raises(ParameterError, match="no classifier can be made of it"):
        convert_verified(picture_net(), tmp_path / "net.mlpackage", labels=labels)


@needs_coremltools
def test_numbers_alone_and_truths(tmp_path: Path) -> None:
    """Core ML has neither: a number alone is [1], a truth 0 or 1, and the notes say so."""
    graph = Graph()
    x, y = placeholder(graph, "x", ()), placeholder(graph, "y", (3,))
    graph.inputs, graph.outputs = [x, y], [graph.add("Less", [x, y], "z", attrs={"T": FLOAT}).output()]
    made = convert_verified(graph, tmp_path / "net.mlpackage")
    assert "output z  bool[3], as int32" in made.notes
    feeds = {"x": np.array([2], np.float32), "y": np.array([1, 2, 3], np.float32)}
    (z,) = thinflow.Session(tmp_path / "net.mlpackage").run(["z"], feeds)
    assert z.tolist() == [0, 0, 1]


# --- what cannot be -----------------------------------------------------------------------------------------


@needs_coremltools
def test_all_that_has_no_form_is_named_at_once(tmp_path: Path) -> None:
    graph = Graph()
    x, sound = placeholder(graph, "x", (6,)), placeholder(graph, "sound", (64, 1))
    settings = {"window_size": 32, "stride": 16, "magnitude_squared": True}
    heard = graph.add("AudioSpectrogram", [sound], "heard", attrs=settings).output()
    unique = graph.add("Unique", [x], "unique", attrs={"T": FLOAT, "out_idx": INT32}).output()
    graph.inputs, graph.outputs = [x, sound], [heard, unique]
    with pytest.raises(UnsupportedOp, match="3 operators have no form in Core ML") as caught:
        thinflow.convert(graph, tmp_path / "net.mlpackage")
    assert "heard" in caught.value.problem
    assert "unique" in caught.value.problem
    assert caught.value.hint
    assert not list(tmp_path.iterdir())


@needs_coremltools
def test_nodes_that_onnx_has_no_form_of_are_named_at_once(tmp_path: Path) -> None:
    graph = Graph()
    x = placeholder(graph, "x", (), STRING)
    one, other = (graph.add("DecodeWav", [x], name).output() for name in ("one", "other"))
    graph.inputs, graph.outputs = [x], [one, other]
    with pytest.raises(UnsupportedOp, match=r"node 'one'.*node 'other'") as caught:
        thinflow.convert(graph, tmp_path / "net.mlpackage", verify=False)
    assert "--inputs" in caught.value.hint
    assert not list(tmp_path.iterdir())


@needs_coremltools
def test_a_package_that_answers_otherwise_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another network is read back in place of what was written."""
    thinflow.convert(picture_net(), tmp_path / "net.mlpackage")
    before = specification(tmp_path / "net.mlpackage")

    def other(part: str) -> Graph:
        graph = thinflow.load(part)
        w = next(n for n in graph if n.tensor is not None and n.tensor.size == 96 * 4)
        assert w.tensor is not None
        w.attrs["value"] = Tensor.from_array(w.tensor.numpy() * 2)
        return graph

    monkeypatch.setattr(coreml_conversion, "_read_back", other)
    with pytest.raises(VerificationError, match="gives other answers than the graph: 'scope/y"):
        thinflow.convert(picture_net(), tmp_path / "net.mlpackage")
    assert [p.name for p in tmp_path.iterdir()] == ["net.mlpackage"]
    assert specification(tmp_path / "net.mlpackage") == before


@needs_coremltools
def test_what_stands_in_the_way_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "net.mlpackage").mkdir()
    (tmp_path / "net.mlpackage" / "mine").write_text("keep")
    with pytest.raises(WriteError, match="something else than a Core ML package"):
        thinflow.convert(picture_net(), tmp_path / "net.mlpackage")
    assert (tmp_path / "net.mlpackage" / "mine").read_text() == "keep"
    with pytest.raises(WriteError, match="its folder does not exist"):
        thinflow.convert(picture_net(), tmp_path / "no" / "net.mlpackage")


def test_without_coremltools_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from thinflow.coreml import runtime

    runtime.coremltools.cache_clear()
    monkeypatch.setattr(runtime, "find_spec", lambda name: None)
    with pytest.raises(EngineUnavailable, match="coremltools is not installed") as caught:
        thinflow.convert(picture_net(), tmp_path / "net.mlpackage")
    assert "thinflow[coreml]" in caught.value.hint
    assert not list(tmp_path.iterdir())
    runtime.coremltools.cache_clear()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compute_precision": "float8"}, "there is no compute precision 'float8'"),
        ({"weights": "int4"}, "there is no kind of weights 'int4'"),
        ({"deployment_target": "iOS1"}, "there is no deployment target 'iOS1'"),
        ({"deployment_target": "iOS15", "weights": "int8"}, "iOS15 has no weights in int8"),
        ({"labels": "nowhere.txt"}, "the labels cannot be read"),
        ({"mean": 1.0}, "goes with an image input"),
        ({"image_input": True, "std": 0.0}, "std is 0"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=message):
        thinflow.convert(picture_net(), tmp_path / "net.mlpackage", **options)
    with pytest.raises(ParameterError, match=r"goes with \.mlpackage only"):
        thinflow.convert(picture_net(), tmp_path / "net.onnx", **options)


@needs_coremltools
def test_image_inputs_need_a_picture(tmp_path: Path) -> None:
    graph = Graph()
    x = placeholder(graph, "x", (3,))
    graph.inputs, graph.outputs = [x], [graph.add("Relu", [x], "y", attrs={"T": FLOAT}).output()]
    with pytest.raises(ThinflowError, match="no input takes a picture"):
        thinflow.convert(graph, tmp_path / "net.mlpackage", image_input=True)
