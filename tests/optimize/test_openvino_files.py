"""OpenVINO's files as conversions: an .xml with its .bin, proven, whole or not at all, and opened again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lower.builders import floats
from tests.lower.control_flow import counted_loop
from tests.lower.onnx.harness import Net
from thinflow.api import convert_verified, pack
from thinflow.engines import _child
from thinflow.errors import (
    EngineUnavailable,
    FormatError,
    ParameterError,
    PartialModel,
    ThinflowError,
    UnsupportedOp,
    VerificationError,
    WriteError,
)
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import DOUBLE, FLOAT
from thinflow.lower.openvino import writing
from thinflow.lower.openvino.runtime import missing
from thinflow.zoo import digits

# Not imported here: that would report to its makers, by a thread that keeps later tests from forks.
if why := missing():
    pytest.skip(why, allow_module_level=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With digits.pb, and digits.xml and digits.bin made of it."""
    found = tmp_path_factory.mktemp("made")
    thinflow.save(digits.build(0), found / "digits.pb")
    made = convert_verified(found / "digits.pb", found / "digits.xml")
    assert made.proof.startswith("OpenVINO agrees with the graph, largest relative difference")
    assert made.size_bytes == sum((found / f"digits{s}").stat().st_size for s in (".xml", ".bin"))
    assert sorted(p.name for p in found.iterdir()) == ["digits.bin", "digits.pb", "digits.xml"]
    return found


def placeholder(graph: Graph, name: str, shape: tuple[int | None, ...], kind: Any = FLOAT) -> Value:
    return graph.add("Placeholder", [], name, attrs={"dtype": kind, "shape": ShapeAttr(shape)}).output()


def test_it_runs_from_its_file(folder: Path) -> None:
    session = thinflow.Session(folder / "digits.xml")
    assert (session.engine, session.path) == ("openvino", str(folder / "digits.xml"))
    x = np.random.default_rng(0).random((3, 8, 8, 1), np.float32)
    (found,) = session.run(["probabilities"], {"image": x})
    (wanted,) = thinflow.Session(digits.build(0), engine="reference").run(["probabilities"], {"image": x})
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert thinflow.verify(folder / "digits.pb", folder / "digits.xml").ok


def test_it_is_measured_with_its_weights(folder: Path) -> None:
    report = thinflow.benchmark(folder / "digits.xml", runs=3, memory=False, peaks=False)
    assert [row.engine for row in report.rows] == ["openvino"]
    size = sum((folder / f"digits{s}").stat().st_size for s in (".xml", ".bin"))
    assert report.sizes == {"digits": size}


def test_it_is_no_graph_and_says_so(folder: Path) -> None:
    with pytest.raises(FormatError, match="an OpenVINO model, not a graph by itself") as caught:
        thinflow.load(folder / "digits.xml")
    assert "`thinflow run`, `benchmark` and `verify` take it" in caught.value.hint
    with pytest.raises(FormatError, match="not a graph"):
        thinflow.Session(folder / "digits.xml", engine="reference")
    with pytest.raises(FormatError, match="not a graph"):
        pack(folder / "digits.xml", folder / "digits.tfpack")


def test_the_same_model_makes_the_same_files(folder: Path, tmp_path: Path) -> None:
    thinflow.save(thinflow.load(folder / "digits.pb"), tmp_path / "a.xml")
    thinflow.save(thinflow.load(folder / "digits.pb"), tmp_path / "b.xml")
    for suffix in (".xml", ".bin"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_weights_that_are_missing_or_cut_are_said_so(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.xml"
    model.write_bytes((folder / "digits.xml").read_bytes())
    with pytest.raises(EngineUnavailable, match=r"its weights are in the file 'm\.bin', which is missing"):
        thinflow.Session(model)
    (tmp_path / "m.bin").write_bytes((folder / "digits.bin").read_bytes()[:1000])
    with pytest.raises(EngineUnavailable, match="OpenVINO refuses the model") as caught:
        thinflow.Session(model)
    assert caught.value.where == str(model)
    model.write_text("<net>")
    with pytest.raises(EngineUnavailable, match="it cannot be read"):
        thinflow.Session(model)


def test_other_xml_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "m.xml").write_text("<?xml version='1.0'?><network/>")
    with pytest.raises(FormatError, match="not a model that can be read"):
        thinflow.load(tmp_path / "m.xml")


def test_a_loop_is_written(tmp_path: Path) -> None:
    net = Net()
    x = net.feed(floats(2, 3))
    y = counted_loop(net, "loop", x, lambda v, i: net.op("Tanh", v))
    net.graph.inputs, net.graph.outputs = [x], [y]
    made = convert_verified(net.graph, tmp_path / "net.xml")
    assert made.proof.startswith("OpenVINO agrees with the graph")
    assert not made.is_part


def test_inputs_keep_their_place_though_nobody_reads_them(tmp_path: Path) -> None:
    graph = Graph()
    idle, x = placeholder(graph, "idle", (2,)), placeholder(graph, "x", (None, 3))
    graph.inputs, graph.outputs = [idle, x], [graph.add("Relu", [x], "y", attrs={"T": FLOAT}).output()]
    thinflow.save(graph, tmp_path / "net.xml")
    session = thinflow.Session(tmp_path / "net.xml")
    assert list(session.inputs) == ["idle", "x"]
    feeds = {"idle": np.zeros(2, np.float32), "x": np.array([[-1, 0, 2]], np.float32)}
    assert session.run(["y"], feeds)[0].tolist() == [[0, 0, 2]]


# --- whole or not at all ------------------------------------------------------------------------------------


def test_a_pair_that_is_not_proven_replaces_nothing(folder: Path, tmp_path: Path) -> None:
    for suffix in (".xml", ".bin"):
        (tmp_path / f"m{suffix}").write_bytes((folder / f"digits{suffix}").read_bytes())
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    graph = Graph()
    x = placeholder(graph, "x", (1, 3))
    graph.inputs, graph.outputs = [x], [graph.add("Relu", [x], "y", attrs={"T": FLOAT}).output()]
    model = writing.model_of(_program(graph))

    def refuse(part: str) -> None:
        raise VerificationError(f"{part} is wrong")

    with pytest.raises(VerificationError):
        writing.write_ir(model, tmp_path / "m.xml", check=refuse)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    writing.write_ir(model, tmp_path / "m.xml")
    assert (tmp_path / "m.xml").read_bytes() != before["m.xml"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.bin", "m.xml"]


def test_a_rename_that_fails_brings_the_old_pair_back(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for suffix in (".xml", ".bin"):
        (tmp_path / f"m{suffix}").write_bytes((folder / f"digits{suffix}").read_bytes())
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    real = writing.os.rename

    def rename(old: Path, new: Path) -> None:
        # The new weights are there already when the model itself is to take its name.
        if Path(new).name == "m.xml" and Path(old).name == "model.xml":
            raise OSError(28, "No space left on device")
        real(old, new)

    monkeypatch.setattr(writing.os, "rename", rename)
    with pytest.raises(WriteError, match="the disk is full"):
        thinflow.convert(digits.build(1), tmp_path / "m.xml", verify=False)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_file_of_somebody_else_stays(tmp_path: Path) -> None:
    (tmp_path / "m.bin").write_text("mine")
    with pytest.raises(WriteError, match=r"the weights would go to m\.bin") as caught:
        thinflow.convert(digits.build(0), tmp_path / "m.xml", verify=False)
    assert caught.value.hint == "move it, or choose another name"
    assert (tmp_path / "m.bin").read_text() == "mine"
    (tmp_path / "n.xml").mkdir()
    with pytest.raises(WriteError, match="this is a folder"):
        thinflow.convert(digits.build(0), tmp_path / "n.xml", verify=False)
    with pytest.raises(WriteError, match="its folder does not exist"):
        thinflow.convert(digits.build(0), tmp_path / "no" / "n.xml", verify=False)


def test_a_part_has_another_name(tmp_path: Path) -> None:
    graph = Graph()
    x = placeholder(graph, "x", (4, 8))
    w = graph.constant(np.eye(8, dtype=np.float32), "w")
    y = graph.add("MatMul", [x, w], "y", attrs={"T": FLOAT}).output()
    text = graph.add("AsString", [y], "text", attrs={"T": FLOAT}).output()
    graph.inputs, graph.outputs = [x], [y, text]
    made = convert_verified(graph, tmp_path / "net.xml")
    assert Path(made.path).name == "net_part.xml"
    assert made.verdict.startswith("PARTIAL: net_part.xml holds only a part of the model")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net_part.bin", "net_part.xml"]
    with pytest.raises(UnsupportedOp, match="OpenVINO can hold only a part"):
        thinflow.convert(graph, tmp_path / "whole.xml")
    with pytest.raises(PartialModel):
        convert_verified(graph, tmp_path / "whole.xml", strict=True)


def test_what_it_would_compute_otherwise_is_refused(tmp_path: Path) -> None:
    graph = Graph()
    x = placeholder(graph, "x", (2,), DOUBLE)
    graph.inputs, graph.outputs = [x], [graph.add("Exp", [x], "y", attrs={"T": DOUBLE}).output()]
    for write in (thinflow.convert, thinflow.save):
        with pytest.raises(UnsupportedOp, match="OpenVINO computes double in another type"):
            write(graph, tmp_path / "net.xml")
    assert not list(tmp_path.iterdir())


def test_options_of_other_files(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"an opset goes with \.onnx files only"):
        convert_verified(digits.build(0), tmp_path / "m.xml", opset=19)
    with pytest.raises(ParameterError, match=r"for \.mlpackage|\.mlpackage"):
        convert_verified(digits.build(0), tmp_path / "m.xml", weights="int8")


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from thinflow.lower.openvino import runtime

    monkeypatch.setitem(sys.modules, "openvino", None)
    runtime.library.cache_clear()
    try:
        with pytest.raises(EngineUnavailable, match="the package openvino is missing") as caught:
            thinflow.convert(tmp_path / "not-even-looked-at.pb", tmp_path / "m.xml")
        assert caught.value.hint == "pip install 'thinflow[openvino]'"
        with pytest.raises(ThinflowError, match="the package openvino is missing"):
            thinflow.save(digits.build(0), tmp_path / "m.xml")
    finally:
        runtime.library.cache_clear()


def test_it_is_not_run_in_a_fork_that_lacks_its_threads() -> None:
    from thinflow.lower.openvino import runtime

    runtime.core()
    assert not _child.survives_fork("openvino")
    assert _child.survives_fork("litert")


# --- in eight bits ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_eight_bits(folder: Path, tmp_path: Path) -> None:
    samples = {"image": np.random.default_rng(0).random((40, 8, 8, 1), np.float32)}
    quantized = thinflow.quantize(folder / "digits.pb", calibration=samples, effort="none")
    quantized.save(tmp_path / "small.tflite")
    quantized.save(tmp_path / "own.xml")
    x = samples["image"][:1]
    found = [
        thinflow.Session(p).run(None, {"image": x})[0] for p in (folder / "digits.pb", tmp_path / "own.xml")
    ]
    np.testing.assert_allclose(found[0], found[1], atol=0.1)
    made = convert_verified(tmp_path / "small.tflite", tmp_path / "small.xml")
    assert made.proof.startswith("OpenVINO answers as the graph does, up to")
    # Weights of eight bits: about a fourth.
    sizes = [(p / f"{n}.bin").stat().st_size for p, n in ((tmp_path, "small"), (folder, "digits"))]
    assert sizes[0] < 0.3 * sizes[1]


def _program(graph: Graph) -> Any:
    from thinflow.lower.onnx.convert import lower_graph

    return lower_graph(graph, graph.inputs, graph.outputs).program
