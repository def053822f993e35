"""What fails after something whole was made is told in the report, and what was made is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.optimize.graphs import BYTES
from tests.page_scripts import PAGE
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.errors import (
    EngineUnavailable,
    FeedError,
    GraphError,
    ThinflowError,
    UnsupportedOp,
    VerificationError,
)
from thinflow.optimize import job, litert, onnx
from thinflow.optimize.report import GraphReport, OptimizeReport

pytest.importorskip("ai_edge_litert")
NET = """
x = Placeholder() {dtype=float, shape=shape[?,4]}
w = Const() {dtype=float, value=float[4,2]{1,2,3,4,5,6,7,8}}
i = Identity(x) {T=float}
y = MatMul(i, w) {T=float}
inputs: x
outputs: y
"""
FAILURES = [
    EngineUnavailable("LiteRT refuses the model: a delegate failed"),
    VerificationError("the LiteRT model gives 1 for 'y'[0], the graph 2", hint="please report this"),
    UnsupportedOp("it has no form", "node 'y' (MatMul)"),
    GraphError("the tensor has no range"),
]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    thinflow.save(parse_graph(NET), "net.pb")
    return "net.pb"


def failing(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, error: ThinflowError) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(module, name, fail)


def written() -> set[str]:
    return {p.name for p in Path("out").iterdir()}


@pytest.mark.parametrize("error", FAILURES, ids=lambda e: type(e).__name__)
def test_without_a_sound_float_model_the_graph_is_left(
    error: ThinflowError, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, job, "check_model", error)
    assert main(["optimize", model, "out", "--no-benchmark"]) == 0
    told = capsys.readouterr().out
    none = "can be made" if isinstance(error, UnsupportedOp) else "was written"
    assert told.startswith(f"no LiteRT model {none}, because {error.problem}")
    assert not error.hint or f"\nhelp       {error.hint}\n" in told
    assert written() == {"net_fp32.pb", "report.json", "report.md", *PAGE}


@pytest.mark.parametrize("error", FAILURES, ids=lambda e: type(e).__name__)
def test_without_a_smaller_model_float_is_shipped(
    error: ThinflowError, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, litert, "quantized_model", error)
    report = thinflow.optimize(model, "out", measure=False)
    assert isinstance(report, GraphReport)
    assert report.verdict.startswith(f"no int8 model can be made, because {error.problem}")
    assert report.verdict.endswith(": ship net_fp32.tflite")
    assert written() == {"net_fp32.pb", "net_fp32.tflite", "report.json", "report.md", *PAGE}


@pytest.mark.parametrize(
    ("module", "function"),
    [
        (job, "running_model"),
        (job, "check_model"),
        (litert, "quantized_model"),
        (onnx, "smaller_program"),
    ],
)
def test_strictly_each_of_them_is_an_error(
    module: Any,
    function: str,
    model: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing(monkeypatch, module, function, VerificationError("it cannot be made"))
    assert main(["optimize", model, "out", "--no-benchmark", "--onnx", "--strict"]) == 1
    assert "error: it cannot be made" in capsys.readouterr().err
    assert not Path("out").exists() or not written()


@pytest.mark.parametrize("error", FAILURES, ids=lambda e: type(e).__name__)
def test_without_onnx_models_the_others_are_there(
    error: ThinflowError, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    failing(monkeypatch, onnx, "smaller_program", error)
    report = thinflow.optimize(model, "out", measure=False, onnx=True)
    assert isinstance(report, OptimizeReport)
    assert any(w.startswith("no ONNX models were written: ") for w in report.warnings)
    assert "net_int8.tflite" in written()


def test_an_onnx_model_that_computes_something_else_is_not_written(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    real = onnx.onnx_model

    def spoilt(*given: Any, **options: Any) -> Any:
        made = real(*given, **options)
        constant = next(t for t in made.program.tensors() if t.is_constant)
        constant.data = np.asarray(constant.array()) + 1
        return made

    monkeypatch.setattr(onnx, "onnx_model", spoilt)
    report = thinflow.optimize(model, "out", measure=False, onnx=True)
    assert any("no ONNX models were written: the ONNX model gives" in w for w in report.warnings)
    assert not any(name.endswith(".onnx") for name in written())


def test_samples_of_the_users_own_are_still_refused(model: str) -> None:
    with pytest.raises(FeedError, match="wants shape"):
        thinflow.optimize(model, "out", calibration=[{"x": np.zeros((1, 5), np.float32)}], measure=False)
    assert not Path("out").exists()


SMALL = BYTES.replace("DecodeRaw(x) {out_type=float}", "DecodeRaw(x) {out_type=int8}").replace(
    "r = Reshape(n,", "f = Cast(n) {SrcT=int8, DstT=float}\nr = Reshape(f,"
)


def test_made_up_inputs_that_do_not_go_through_are_no_end(tmp_path: Path) -> None:
    thinflow.save(parse_graph(SMALL), tmp_path / "net.pb")
    report = thinflow.optimize(tmp_path / "net.pb", tmp_path / "out", measure=False)
    assert isinstance(report, GraphReport)
    assert (tmp_path / "out" / "net_fp32.pb").exists()
    assert report.verdict.startswith("no LiteRT model was written, because ")


@pytest.mark.parametrize("op", ["VariableV2", "VarHandleOp", "AutoReloadVariable"])
def test_a_graph_with_variables_is_not_frozen(op: str, tmp_path: Path) -> None:
    graph = thinflow.Graph()
    v = graph.add(op, name="v").output()
    graph.inputs, graph.outputs = [], [graph.add("Identity", [v], "y").output()]
    with pytest.raises(thinflow.ThinflowError, match="the graph is not frozen: 'v' is a variable"):
        thinflow.optimize(graph, tmp_path / "out")
