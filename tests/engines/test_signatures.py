"""Several signatures in one .tflite file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.cli import main
from thinflow.errors import FeedError, GraphError, ParameterError
from thinflow.formats.tflite import signature_names
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT
from thinflow.tflite.model import Operator, Program, Signature, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes

pytest.importorskip("ai_edge_litert")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """encode: code = -x; decode: out = |code|, in another subgraph."""
    x, y = Tensor("enc_in", (1, 4), FLOAT), Tensor("enc_out", (1, 4), FLOAT)
    p, q = Tensor("dec_in", (1, 3), FLOAT), Tensor("dec_out", (1, 3), FLOAT)
    parts = [
        Subgraph([x], [y], [Operator("NEG", [x], [y])], name="encode"),
        Subgraph([p], [q], [Operator("ABS", [p], [q])], name="decode"),
    ]
    signatures = {"encode": Signature({"x": x}, {"code": y}), "decode": Signature({"code": p}, {"out": q})}
    (tmp_path / "two.tflite").write_bytes(to_bytes(Program(parts, signatures=signatures)))
    return tmp_path / "two.tflite"


X, C = np.float32([[1, -2, 3, -4]]), np.float32([[1, -2, 3]])


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_a_signature_runs_by_its_names(path: Path, engine: str) -> None:
    found = thinflow.run(path, {"code": C}, ["out"], signature="decode", engine=engine)
    assert found["out"].tolist() == [[1, 2, 3]]
    found = thinflow.run(path, {"x": X}, ["code"], signature="encode", engine=engine)
    assert found["code"].tolist() == [[-1, 2, -3, 4]]


def test_names_of_tensors_go_too(path: Path) -> None:
    session = thinflow.Session(path, signature="decode")
    assert list(session.inputs) == ["code"]
    assert list(session.outputs) == ["out"]
    assert session.run(["dec_out"], {"dec_in:0": C})[0].tolist() == [[1, 2, 3]]
    assert session.placement == {"out": "litert"}


def test_results_belong_to_the_caller(path: Path) -> None:
    session = thinflow.Session(path, signature="decode")
    (first,) = session.run(["out"], {"code": C})
    session.run(["out"], {"code": C * 5})
    assert first.tolist() == [[1, 2, 3]]


def test_other_sizes(path: Path) -> None:
    (found,) = thinflow.Session(path, signature="decode").run(["out"], {"code": C})
    assert found.shape == (1, 3)
    with pytest.raises(FeedError):
        thinflow.Session(path, signature="decode").run(["out"], {"code": "a"})
    with pytest.raises(FeedError, match="nothing was fed for the input 'code'"):
        thinflow.Session(path, signature="decode").run(["out"], {})


def test_a_loaded_signature_stays_chosen(path: Path) -> None:
    graph = thinflow.load(path, signature="decode", lift=False)
    assert graph.inputs[0].shape == (1, 3)
    assert thinflow.run(graph, {"code": C})["out"].tolist() == [[1, 2, 3]]
    assert thinflow.load(path, lift=False).inputs[0].shape == (1, 4)
    lifted = thinflow.load(path, signature="decode")
    assert lifted.source is not None
    assert lifted.source.signature == "decode"
    # Whatever its tensors are called, the signature's names lead to them.
    assert thinflow.run(lifted, {"code": C}, ["out"])["out"].tolist() == [[1, 2, 3]]


def test_a_signature_that_is_not_there(path: Path, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"no signature 'decod'\nhint: did you mean 'decode'"):
        thinflow.Session(path, signature="decod")
    with pytest.raises(GraphError, match="no signature 'decod'"):
        thinflow.Session(path, "reference", signature="decod")
    with pytest.raises(GraphError, match="neither model has a signature 'decod'"):
        thinflow.verify(path, path, signature="decod")
    assert signature_names(path.read_bytes()) == ["encode", "decode"]


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_none_is_taken_by_chance(path: Path, tmp_path: Path, engine: str) -> None:
    """Of several graphs the default one runs, wherever in the file it is; without one none does."""
    with pytest.raises(GraphError, match="2 signatures, and none is called serving_default") as error:
        thinflow.Session(path, engine)
    assert error.value.hint == "choose one with --signature: encode, decode"
    with pytest.raises(GraphError, match="none is called serving_default"):
        thinflow.Session(thinflow.load(path, lift=False), engine)
    with pytest.raises(GraphError, match="none is called serving_default"):
        thinflow.load(path)
    program = read_program(path.read_bytes(), losses=[])
    program.signatures = {
        {"decode": "serving_default"}.get(key, key): given for key, given in program.signatures.items()
    }
    (tmp_path / "default.tflite").write_bytes(to_bytes(program))
    (found,) = thinflow.Session(tmp_path / "default.tflite", engine).run(["out"], {"code": C})
    assert found.tolist() == [[1, 2, 3]]
    assert thinflow.load(tmp_path / "default.tflite").inputs[0].shape == (1, 3)


def test_c_is_of_the_default_wherever_it_is(path: Path, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="2 signatures, and none is called serving_default"):
        thinflow.convert(path, tmp_path / "net.c", verify=False)
    program = read_program(path.read_bytes(), losses=[])
    program.signatures["serving_default"] = program.signatures.pop("decode")
    (tmp_path / "default.tflite").write_bytes(to_bytes(program))
    thinflow.convert(tmp_path / "default.tflite", tmp_path / "net.c", verify=False)
    assert "#define NET_INPUT_SIZE 3" in (tmp_path / "net.h").read_text()


def test_onnx_files_have_none(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 2))}).output()
    graph.inputs, graph.outputs = [x], [graph.add("Neg", [x], "y", attrs={"T": FLOAT}).output()]
    thinflow.save(graph, tmp_path / "m.onnx")
    with pytest.raises(ParameterError, match=r"no signatures, .*'k'\nhint: leave --signature out"):
        thinflow.Session(tmp_path / "m.onnx", signature="k")


def test_commands_take_one(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert "signature decode: code float[1,3] -> out float[1,3]" in out
    assert "signature encode: x float[1,4] -> code float[1,4]" in out
    assert "--signature " in out.splitlines()[-1]
    assert main(["inspect", str(path), "--signature", "decode", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["facts"]["signature"] == "decode"
    assert main(["run", str(path), "--signature", "decode"]) == 0
    out = capsys.readouterr().out
    assert "out  float32[1, 3]" in out
    assert out.splitlines()[-1] == f"next: thinflow benchmark {path} --signature decode"
    assert main(["verify", str(path), str(path), "--signature", "decode"]) == 0
    assert "  out: 0 absolute" in capsys.readouterr().out
    assert main(["diff", str(path), str(path), "--signature", "decode"]) == 0
    assert capsys.readouterr().out.startswith("the same graph")


def test_benchmark_takes_one(path: Path) -> None:
    report = thinflow.benchmark(path, signature="decode", engines=["litert"], threads=[1], runs=2)
    assert report.rows[0].note.endswith("; decode")
    with pytest.raises(GraphError, match="no signature 'other'"):
        thinflow.benchmark(path, signature="other", engines=["litert"], threads=[1], runs=2)
