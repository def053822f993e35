"""What is made of a .tflite or .onnx file is compared with the file itself, in its own runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.formats import test_tfjs as tfjs
from thinflow.api import convert_verified, quantize_to_file
from thinflow.cli import main
from thinflow.engines import _files
from thinflow.errors import EngineUnavailable, VerificationError
from thinflow.formats.format import formats
from thinflow.ir.graph import Value
from thinflow.ir.source_file import SourceFile
from thinflow.lift import rules
from thinflow.lift.lifter import Call
from thinflow.optimize.source_proof import prove_beside_source
from thinflow.transforms.quantized.grids import kept_grids

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
RNG = np.random.default_rng(7)


def saved(path: Path, nodes: list, ends: list, weights: dict[str, np.ndarray], kind: int = 1) -> Path:
    """A model of x [1,3,8,8] with float outputs of unknown shape."""
    info = helper.make_tensor_value_info
    constants = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    outputs = [info(n, kind, None) for n in ends]
    graph = helper.make_graph(nodes, "net", [info("x", 1, [1, 3, 8, 8])], outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    path.write_bytes(made.SerializeToString())
    return path


@pytest.fixture
def net(tmp_path: Path) -> Path:
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["conv"], pads=[1, 1, 1, 1]),
        node("Softplus", ["conv"], ["inner"]),
        node("GlobalAveragePool", ["inner"], ["y"]),
        node("Neg", ["inner"], ["z"]),
    ]
    return saved(tmp_path / "m.onnx", nodes, ["y", "z"], {"w": RNG.standard_normal((4, 3, 3, 3), np.float32)})


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Softplus is lifted as something that looks much like it."""

    def rule(c: Call) -> Value:
        return c.emit("Relu", c[0])

    monkeypatch.setitem(rules.rules(), "onnx.Softplus", rules.Entry(rule))


@pytest.mark.parametrize("suffix", [".tflite", ".onnx", ".pb"])
def test_conversions_say_how_they_compare(net: Path, suffix: str) -> None:
    made = convert_verified(net, net.with_name("out" + suffix), state="freeze")
    told = "\n".join([made.proof, *made.notes])
    assert "agrees with m.onnx itself in ONNX Runtime, largest relative difference " in told
    assert "m.onnx is ONNX opset 17, 4 operators lifted to " in told


@pytest.mark.parametrize("suffix", [".tflite", ".onnx", ".pb"])
@pytest.mark.usefixtures("wrong")
def test_what_was_lifted_wrongly_is_not_written(net: Path, suffix: str) -> None:
    target = net.with_name("out" + suffix)
    for convert in (convert_verified, thinflow.convert):
        with pytest.raises(VerificationError, match="gives other answers than m") as e:
            convert(net, target, state="freeze")
        assert "nothing was written" in e.value.hint
        assert sorted(p.name for p in net.parent.iterdir()) == ["m.onnx"]
    assert "the first tensor that differs is 'inner' (onnx.Softplus)" in e.value.problem


@pytest.mark.usefixtures("wrong")
@pytest.mark.parametrize(
    "job",
    [
        lambda m: thinflow.optimize(m, m.parent / "out", measure=False),
        lambda m: thinflow.quantize(m),
        lambda m: quantize_to_file(m, m.parent / "q.tflite"),
        lambda m: thinflow.transform(m, "fold_constants"),
    ],
    ids=["optimize", "quantize", "quantize_to_file", "transform"],
)
def test_no_job_goes_on_with_what_was_lifted_wrongly(net: Path, job: Callable[[Path], object]) -> None:
    with pytest.raises(VerificationError, match=r"m\.onnx itself in ONNX Runtime.*first tensor .* 'inner'"):
        job(net)
    assert sorted(p.name for p in net.parent.iterdir()) == ["m.onnx"]


@pytest.mark.usefixtures("wrong")
def test_without_verification_nothing_is_compared(net: Path) -> None:
    made = convert_verified(net, net.with_name("out.tflite"), verify=False)
    assert made.proof == "not verified (--no-verify)"


def test_an_input_that_nothing_reads_is_fed_to_the_source_alone(net: Path) -> None:
    model = onnx.load(net)
    model.graph.input.append(helper.make_tensor_value_info("queue", 1, [1, 1]))
    onnx.save(model, net)
    made = convert_verified(net, net.with_name("out.tflite"))
    assert "agrees with m.onnx itself in ONNX Runtime" in "\n".join([made.proof, *made.notes])


def test_an_input_whose_sizes_alone_are_read_is_fed_to_the_source_alone(tmp_path: Path) -> None:
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Add", ["s", "n"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, ["y"], {}, kind=7)
    made = onnx.load(path)
    made.graph.input.add().CopyFrom(helper.make_tensor_value_info("n", 7, [4]))
    onnx.save(made, path)
    out = convert_verified(path, tmp_path / "o.tflite")
    assert list(thinflow.Session(tmp_path / "o.tflite").inputs) == ["n"]
    assert "agrees with m.onnx itself in ONNX Runtime" in out.proof


def test_a_part_is_compared_with_inner_tensors(net: Path) -> None:
    made = convert_verified(net, net.with_name("a.tflite"), inputs=["conv"], outputs=["inner"])
    assert "it agrees with m.onnx itself" in made.proof
    tflite = net.with_name("whole.tflite")
    thinflow.convert(net, tflite)
    made = convert_verified(tflite, net.with_name("b.onnx"), outputs=["inner"])
    assert "it agrees with whole.tflite itself in LiteRT" in made.proof


@pytest.mark.usefixtures("wrong")
def test_a_part_that_was_lifted_wrongly(net: Path) -> None:
    with pytest.raises(VerificationError, match=r"at 'inner'\["):
        thinflow.convert(net, net.with_name("a.tflite"), inputs=["conv"], outputs=["inner"])
    thinflow.convert(net, net.with_name("b.tflite"), outputs=["conv"])


def test_a_graph_that_somebody_changed_is_told_of_and_written(net: Path) -> None:
    graph = thinflow.load(net)
    graph.node("conv")  # by the name in the file
    weights = next(n for n in graph if n.tensor is not None and n.tensor.size == 108)
    changed = thinflow.transform(graph, "fold_constants")
    assert weights.name in graph
    values = [n for n in changed if n.tensor is not None and n.tensor.size == 108]
    for node in values:
        other = changed.constant(node.tensor.numpy() * 2, "other")  # type: ignore[union-attr]
        node.output().replace_uses(other)
    made = convert_verified(changed, net.with_name("a.tflite"))
    assert "it gives other answers than m.onnx itself" in made.proof
    assert net.with_name("a.tflite").exists()


def test_a_missing_runtime_is_said(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: object, engine: str) -> object:
        raise EngineUnavailable(f"{engine} is not installed")

    real = _files._module_for
    monkeypatch.setattr(
        _files, "_module_for", lambda p, e: missing(p, e) if e == "onnxruntime" else real(p, e)
    )
    made = convert_verified(net, net.with_name("out.tflite"))
    assert made.proof.endswith("it was not compared with m.onnx itself: onnxruntime is not installed")


def test_a_framework_that_never_runs_here(net: Path) -> None:
    graph = thinflow.load(net)
    graph.source = SourceFile("folder/net.h5", "Keras 2.4 (HDF5)", "Keras")
    assert graph.source.line == "net.h5 is Keras 2.4 (HDF5)"
    found = prove_beside_source(graph)
    assert found.sentence == "was not compared with net.h5 itself: there is no Keras here"
    assert found.relative is None
    graph.source = None
    assert prove_beside_source(graph).sentence == ""


def test_readers_of_other_frameworks_keep_a_record(tmp_path: Path) -> None:
    """Whatever a format yields, jobs tell that nobody compared it."""
    frameworks = {f.name: f.framework for f in formats() if f.framework}
    assert {"keras": "Keras", "tfjs": "TensorFlow.js"}.items() <= frameworks.items()
    x = tfjs.placeholder("x", 1, 2)
    model = tfjs.write(tmp_path, [x, tfjs.node("y", "Relu", "x", T=tfjs.FLOAT)], {})
    made = convert_verified(model, tmp_path / "m.tflite")
    assert made.proof.endswith("was not compared with model.json itself: there is no TensorFlow.js here")
    assert any(note.startswith("model.json is a TensorFlow.js model") for note in made.notes)


def test_random_answers_are_not_compared(tmp_path: Path) -> None:
    graph = thinflow.Graph()
    shape = graph.constant(np.int32([2, 3]), "shape")
    graph.outputs = [graph.add("RandomUniform", [shape], "y", attrs={"dtype": thinflow_float()}).output()]
    graph.source = SourceFile("m.onnx", "ONNX", "ONNX Runtime", "onnxruntime")
    assert "differ from run to run" in prove_beside_source(graph).sentence


def thinflow_float() -> object:
    from thinflow.ir.types import FLOAT

    return FLOAT


def test_the_command_says_it(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(net), str(net.with_name("o.tflite"))]) == 0
    told = capsys.readouterr().out
    assert "it agrees with m.onnx itself in ONNX Runtime" in told
    assert "  m.onnx is ONNX opset 17, 4 operators lifted to " in told
    assert main(["convert", str(net), str(net.with_name("o.onnx"))]) == 0
    assert "a copy of the file, byte for byte" in capsys.readouterr().out
    assert net.with_name("o.onnx").read_bytes() == net.read_bytes()
    assert main(["transform", str(net), str(net.with_name("o.pb")), "-t", "fold_constants"]) == 0
    told = capsys.readouterr().out
    assert "note: the graph agrees with m.onnx itself in ONNX Runtime" in told
    assert "outputs verified" in told
    assert main(["optimize", str(net), str(net.parent / "out"), "--no-benchmark"]) == 0
    told = capsys.readouterr().out
    assert "origin     m.onnx is ONNX opset 17" in told
    assert "origin     the graph agrees with m.onnx itself" in told
    assert "itself in ONNX Runtime" in (net.parent / "out" / "report.md").read_text()


@pytest.mark.parametrize("place", [3, 5, 7, 9])
def test_a_wrong_scale_inside_of_a_quantized_model_is_no_rounding(place: int, shared: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    graph = thinflow.load(shared / "zoo" / "tflite" / "mlperf_ad01_int8.tflite")
    assert prove_beside_source(graph).relative == 0
    marked = list(kept_grids(graph))[place]
    for end in ("min", "max"):
        marked.attrs[end] = marked.get(end, 0.0) / 2
    with pytest.raises(VerificationError, match="gives other answers than mlperf_ad01_int8"):
        prove_beside_source(graph)
