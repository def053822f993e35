"""The public API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.formats import graphdef
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT
from thinflow.zoo import digits


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("api") / "digits.pb"
    thinflow.save(digits.build(0), path)
    return str(path)


@pytest.fixture
def image(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0, 1, (1, 8, 8, 1)).astype(np.float32)


def test_every_public_name_resolves() -> None:
    assert all(getattr(thinflow, name) is not None for name in thinflow.__all__)
    assert set(thinflow.__all__) <= set(dir(thinflow))
    assert callable(thinflow.verify)
    assert callable(thinflow.quantize)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = thinflow.nonsense


def test_load_guesses_and_takes_names(model: str) -> None:
    graph = thinflow.load(model)
    assert [(v.name, str(v.dtype), v.shape) for v in graph.inputs] == [("image", "float", (None, 8, 8, 1))]
    assert [v.name for v in graph.outputs] == ["probabilities"]
    named = thinflow.load(
        model, inputs=["image:0"], outputs=["logits"] if "logits" in graph else ["probabilities:0"]
    )
    assert [v.name for v in named.inputs] == ["image"]
    shaped = thinflow.load(Path(model), shapes={"image": (2, 8, 8, 1)})
    assert shaped.outputs[0].shape == (2, 10)
    assert thinflow.load(graph) is not graph


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"inputs": ["imag"]}, "there is no input 'imag' in the graph\nhint: did you mean 'image'"),
        (
            {"outputs": ["probabilitie"]},
            "there is no output 'probabilitie'.*\nhint: did you mean 'probabilities'",
        ),
        (
            {"outputs": ["probabilities"] * 2},
            "the output 'probabilities' is given twice\nhint: give each once",
        ),
    ],
)
def test_load_with_wrong_names(model: str, names: dict[str, list[str]], words: str) -> None:
    with pytest.raises(thinflow.GraphError, match=words):
        thinflow.load(model, **names)


def test_summarize_takes_paths_and_graphs(model: str) -> None:
    assert str(thinflow.summarize(model)).startswith("Found 1 possible inputs: (name=image")
    assert thinflow.inspect is thinflow.summarize
    assert thinflow.summarize(thinflow.load(model)).ops == thinflow.summarize(model).ops


def test_transform_leaves_the_source_alone(model: str, image: np.ndarray) -> None:
    graph = thinflow.load(model)
    before = len(graph)
    smaller = thinflow.transform(
        graph,
        'strip_unused_nodes(type=float, shape="1,8,8,1") fold_constants',
        inputs=["image"],
        outputs=["probabilities"],
    )
    assert len(graph) == before > len(smaller)
    a, b = (thinflow.run(g, {"image": image})["probabilities"] for g in (graph, smaller))
    np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("fold_constant", thinflow.ParameterError, "not recognized"),
        ("fold_constants(", thinflow.ParseError, "never closed"),
        ("fold_constants(x=1)", thinflow.ParameterError, "no parameter 'x'"),
    ],
)
def test_transform_strings_with_mistakes(model: str, text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        thinflow.transform(model, text)
    assert isinstance(caught.value, (thinflow.ThinflowError, ValueError))


@pytest.mark.parametrize("name", ["o.pb", "o.pbtxt", "o.pb.gz", "o.pbtxt.gz", "no_suffix"])
def test_save_goes_by_the_suffix_and_load_by_the_content(model: str, name: str, tmp_path: Path) -> None:
    graph = thinflow.load(model)
    size = thinflow.save(graph, tmp_path / name)
    assert size == (tmp_path / name).stat().st_size
    assert (tmp_path / name).read_bytes().startswith(b"node {") == name.endswith(".pbtxt")
    assert thinflow.compare(graph, tmp_path / name) == []


def test_save_formats(model: str, tmp_path: Path) -> None:
    graph = thinflow.load(model)
    thinflow.save(graph, tmp_path / "a.bin", format="pbtxt")
    assert (tmp_path / "a.bin").read_bytes().startswith(b"node {")
    thinflow.save(graph, tmp_path / "b.pbtxt", format="graphdef")
    assert not (tmp_path / "b.pbtxt").read_bytes().startswith(b"node {")
    thinflow.save(graph, tmp_path / "c", format="tflite")
    assert (tmp_path / "c").read_bytes()[4:8] == b"TFL3"
    with pytest.raises(thinflow.ParameterError, match="'zip' is not a graph format\nhint: choose one of"):
        thinflow.save(graph, tmp_path / "d.pb", format="zip")
    with pytest.raises(thinflow.ParameterError, match=r"writing \.keras files is not supported"):
        thinflow.save(graph, tmp_path / "d.keras")
    with pytest.raises(
        thinflow.ParameterError, match=r"writing \.foo files is not.*\nhint: end the name in .*\.onnx"
    ):
        thinflow.save(graph, tmp_path / "d.foo")
    graph.outputs = []
    with pytest.raises(thinflow.GraphError, match="the graph has no outputs to write\nhint: name them"):
        thinflow.save(graph, tmp_path / "d.tflite")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.bin", "b.pbtxt", "c"]


@pytest.mark.parametrize("colon", ["", ":0"])
def test_run_and_session(model: str, image: np.ndarray, colon: str) -> None:
    session = thinflow.Session(thinflow.load(model))
    (y,) = session.run([f"probabilities{colon}"], {f"image{colon}": image})
    assert y.shape == (1, 10)
    assert y.sum() == pytest.approx(1, abs=1e-5)
    assert set(session.placement.values()) <= {"litert", "reference"}
    results = thinflow.run(model, {f"image{colon}": image}, [f"probabilities{colon}"], engine="reference")
    np.testing.assert_allclose(results[f"probabilities{colon}"], y, atol=1e-5)


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_convert_writes_nothing_that_gives_other_answers(
    suffix: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from thinflow.optimize import conversion

    def differs(*_: Any, **__: Any) -> float:
        raise thinflow.VerificationError("it gives other answers")

    monkeypatch.setattr(conversion, "check_alone_and_together", differs)
    target = tmp_path / f"m{suffix}"
    with pytest.raises(thinflow.VerificationError, match="other answers"):
        thinflow.convert(model, target)
    assert not list(tmp_path.glob(f"*{suffix}"))
    assert thinflow.convert(model, target, verify=False) == target.stat().st_size


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_convert_writes_no_part(suffix: str, tmp_path: Path) -> None:
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((4,))}).output()
    inner = graph.add("Tanh", [x], "inner", attrs={"T": FLOAT}).output()
    graph.inputs, graph.outputs = [x], [graph.add("NobodyKnowsIt", [inner], "y").output()]
    with pytest.raises(thinflow.UnsupportedOp):
        thinflow.convert(graph, tmp_path / f"m{suffix}")
    assert not list(tmp_path.glob(f"*{suffix}"))


def test_convert_verify_compare(model: str, tmp_path: Path) -> None:
    target = tmp_path / "m.tflite"
    assert thinflow.convert(model, target) == target.stat().st_size
    assert thinflow.verify(model, model).ok
    smaller = thinflow.transform(model, "fold_constants")
    assert thinflow.verify(model, smaller).ok
    assert thinflow.compare(model, smaller) != []


def test_transform_graph_takes_bytes_and_messages(model: str) -> None:
    data = Path(model).read_bytes()
    small = thinflow.TransformGraph(
        data, ["image"], ["probabilities"], ["strip_unused_nodes", "fold_constants"]
    )
    assert isinstance(small, bytes)
    assert len(graphdef.from_bytes(small)) < len(graphdef.from_bytes(data))

    class Message:
        def __init__(self) -> None:
            self.data = data

        def SerializeToString(self) -> bytes:
            return self.data

        def ParseFromString(self, data: bytes) -> None:
            self.data = data

    result = thinflow.TransformGraph(
        Message(), ["image"], ["probabilities"], "strip_unused_nodes fold_constants"
    )
    assert isinstance(result, Message)
    assert result.data == small
    assert thinflow.TransformGraph(data, [], [], []) == data
    with pytest.raises(ValueError, match="not recognized"):
        thinflow.TransformGraph(data, ["image"], ["probabilities"], ["bogus"])
    with pytest.raises(ValueError, match="Couldn't interpret input as a GraphDef"):
        thinflow.TransformGraph(b"\xff\xff\xff", [], [], ["fold_constants"])


@pytest.mark.parametrize(
    ("transforms", "kind", "words"),
    [
        (["fold_constants("], ValueError, "never closed"),
        (["round_weights(num_steps=many)"], ValueError, "as a number:many"),
        (["rename_node(old_name=nothing, new_name=image)"], (ValueError, RuntimeError), "rename_node"),
        (["target_runtime(version=0.9)"], ValueError, "nothing is known about TensorFlow 0.9"),
        (
            ["target_runtime(version=1.0, mobile=true)", "fake_quantize_training"],
            (ValueError, RuntimeError),
            ".",
        ),
    ],
)
def test_errors_of_transform_graph_are_those_of_tensorflow(
    model: str, transforms: list[str], kind: type[Exception], words: str
) -> None:
    data = Path(model).read_bytes()
    with pytest.raises(kind, match=words) as caught:
        thinflow.TransformGraph(data, ["image"], ["probabilities"], transforms)
    assert isinstance(caught.value, thinflow.ThinflowError)


def test_transform_graph_takes_tensorflows_lists(model: str) -> None:
    data = Path(model).read_bytes()
    several = ["strip_unused_nodes", "remove_nodes(op=Identity)"]
    result = thinflow.TransformGraph(data, ["image"], ["probabilities"], several)
    assert result == thinflow.TransformGraph(data, "image", "probabilities", " ".join(several))
    graph = thinflow.Graph()
    graph.add("Erfinv", name="x")
    data = graphdef.to_bytes(graph)
    with pytest.raises(RuntimeError, match="cannot run"):
        thinflow.TransformGraph(data, [], ["x"], ["target_runtime(version=1.4)"])


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for call in (
        thinflow.load,
        thinflow.summarize,
        lambda p: thinflow.run(p, {}),
        lambda p: thinflow.verify(p, p),
    ):
        with pytest.raises(thinflow.FormatError, match="there is no such file"):
            call(tmp_path / "none.pb")
