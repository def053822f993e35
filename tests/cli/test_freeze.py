"""`thinflow freeze`, `freeze_graph` and `inspect_checkpoint`, and every command on a SavedModel."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.cli.conftest import Paste
from tests.library import constant, graph_of, node
from tests.load.builders import (
    SIGNATURE,
    VALUES,
    W,
    meta_text,
    product,
    saver,
    write_model,
    write_values,
)
from thinflow.cli import main
from thinflow.ir.types import FLOAT
from thinflow.wire import protos

X = np.array([[1, -1]], np.float32)


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    signatures = {**SIGNATURE, "other": ({"x": "x:0"}, {"product": "y:0"})}
    write_model(tmp_path / "my export", meta_text(product(), signatures=signatures), values=VALUES)
    return "my export"


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Flags of freeze_graph for a graph with a checkpoint."""
    monkeypatch.chdir(tmp_path)
    thinflow.save(graph_of([*product(), *saver(("w", "w", ""))]), tmp_path / "g.pbtxt")
    write_values(tmp_path / "model-1", VALUES)
    return ["--input_graph=g.pbtxt", "--input_checkpoint", "model-1", "--output_node_names=y"]


def answer(path: str, name: str) -> np.ndarray:
    graph = thinflow.load(path)
    return thinflow.run(graph, {graph.inputs[0].name: X}, [name], engine="reference")[name]


# --- freeze -------------------------------------------------------------------------------------------------


def test_freeze(export: str, paste: Paste, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["freeze", export, "-o", "f.pb"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("wrote f.pb: ")
    assert "1 variable frozen, 4 nodes before, 4 now" in lines[0]
    assert "  input  image  float[?,2]" in lines
    assert "  1 values of the checkpoint were not needed: v" in lines
    assert paste(lines[-1]) == 0
    np.testing.assert_allclose(answer("f.pb", "scores"), X @ W)


def test_freeze_for_machines(export: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["freeze", export, "-o", "f.pb", "--signature", "other", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["outputs"] == ["product"]
    assert data["variables"] == {"w": {"key": "w", "told_by": "its name"}}
    assert data["unused"] == ["v"]


def test_a_rename_without_equals(export: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["freeze", export, "-o", "f.pb", "--rename", "a"]) == 1
    assert "there is no =" in capsys.readouterr().err
    assert not Path("f.pb").exists()


# --- freeze_graph -------------------------------------------------------------------------------------------


def test_freeze_graph(graph: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["freeze_graph", *graph, "--output_graph=f.pb"]) == 0
    assert capsys.readouterr().out == "Froze 1 variables.\n4 ops in the final graph.\n"
    np.testing.assert_allclose(answer("f.pb", "y"), X @ W)


@pytest.mark.parametrize(
    "flags",
    [
        ["--input_binary", "--clear_devices=false", "--checkpoint_version=1"],
        ["--input_binary=true", "--variable_names_whitelist", "w"],
        ["--input_binary", "no", "--variable_names_blacklist=v", "--variable_names_whitelist=w*"],
    ],
)
def test_flags_that_change_nothing_here(graph: list[str], flags: list[str]) -> None:
    assert main(["freeze_graph", *graph, "--output_graph=f.pb", *flags]) == 0
    np.testing.assert_allclose(answer("f.pb", "y"), X @ W)


@pytest.mark.parametrize("flag", ["--input_meta_graph=model-1.meta", "--input_meta_graph_def=model-1"])
def test_a_meta_graph_by_its_name_or_the_prefix(graph: list[str], flag: str) -> None:
    """People give the prefix of the checkpoint, whose meta graph stands beside it."""
    text = meta_text([*product(), *saver(("w", "w", ""))])
    Path("model-1.meta").write_bytes(protos.serialize(protos.from_text("MetaGraphDef", text.encode())))
    assert main(["freeze_graph", *graph[1:], flag, "--output_graph=f.pb"]) == 0
    np.testing.assert_allclose(answer("f.pb", "y"), X @ W)


@pytest.mark.parametrize("flag", ["--variable_names_denylist=w", "--variable_names_blacklist=w"])
def test_variables_that_stay(graph: list[str], flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["freeze_graph", *graph, flag]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("Froze 0 variables.")
    assert "warning: 1 variables stay, first 'w'" in captured.err


def test_ignored_flags_are_named(graph: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--restore_op_name=r", "--filename_tensor_name=f"]
    assert main(["freeze_graph", *graph, *flags]) == 0
    err = capsys.readouterr().err
    assert "warning: --restore_op_name is ignored" in err
    assert "warning: --filename_tensor_name is ignored" in err


@pytest.mark.parametrize(
    ("flags", "code", "problem"),
    [
        ([], 2, "the flag --output_node_names is required"),
        (["--output_node_names=y"], 2, "one of --input_graph, --input_meta_graph"),
        (["--output_node_names=y", "--input_graph=g.pbtxt"], 2, "the flag --input_checkpoint is required"),
        (["--checkpoint_version=3"], 2, "the flag --checkpoint_version is 1 or 2, not 3"),
        (["--output_nodes=y"], 2, "Unknown argument --output_nodes=y"),
        (["--help"], 0, "usage: thinflow freeze_graph"),
    ],
)
def test_wrong_flags(flags: list[str], code: int, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["freeze_graph", *flags]) == code
    assert problem in capsys.readouterr()[code == 2]  # help goes to stdout


@pytest.mark.parametrize(
    ("flag", "problem"),
    [
        ("--input_checkpoint=nope", "there is no checkpoint of this name"),
        ("--input_graph=nope.pb", "there is no such file"),
        ("--input_saver=nope", "--input_saver nope: there is no such file"),
        ("--output_node_names=z", "there is no node named 'z'"),
        ("--input_saved_model_dir=nope", "there is no such file"),
    ],
)
def test_files_and_names_that_are_not_there(
    graph: list[str], flag: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["freeze_graph", *graph, flag]) == 1
    assert problem in capsys.readouterr().err


def test_initialisers_in_place_of_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    start = node("w/Assign", "AssignVariableOp", "w", "start", dtype=FLOAT)
    ones = constant("start", np.ones((2, 3), np.float32))
    thinflow.save(graph_of([*product(), ones, start]), "g.pb")
    assert main(["freeze", "g.pb", "-o", "f.pb", "--outputs=y", "--initializers", "w/Assign"]) == 0
    out = capsys.readouterr().out
    assert "1 found by the initialisers" in out
    assert "1 variable not in a checkpoint, initialised: 'w'" in out
    assert thinflow.load("f.pb").node("w").tensor.numpy().tolist() == [[1, 1, 1]] * 2  # type: ignore[union-attr]


# --- inspect_checkpoint -------------------------------------------------------------------------------------


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    write_values(tmp_path / "m", {"a": a, "s": np.array([b"x", b"y"], object), "half": np.float16([1.5])})
    return "--file_name=m"


def test_the_layout_of_inspect_checkpoint(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect_checkpoint", prefix, "--all_tensors"]) == 0
    assert capsys.readouterr().out == (
        "tensor: a (float32) [2, 3]\n[[0. 1. 2.]\n [3. 4. 5.]]\ntensor: half (float16) [1]\n[1.5]\n"
        "tensor: s (string) [2]\n[b'x' b'y']\n# Total number of params: 7\n"
    )
    assert main(["inspect_checkpoint", prefix]) == 0
    assert capsys.readouterr().out == (
        "a (DT_FLOAT) [2,3]\nhalf (DT_HALF) [1]\ns (DT_STRING) [2]\n\n# Total number of params: 7\n"
    )
    assert main(["inspect_checkpoint", "--file_name", "m.index", "--tensor_name=half"]) == 0
    assert capsys.readouterr().out.startswith("tensor: half (float16) [1]\n[1.5]\n")


def test_counting_without_some(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect_checkpoint", prefix, "--all_tensor_names", "--count_exclude_pattern=^a"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "# Excluding 1 tensors (6 params) that match ^a when counting.",
        "# Total number of params: 1",
    ]


def test_print_options(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--printoptions", "threshold=2", "edgeitems=1", "--tensor_name=a"]
    assert main(["inspect_checkpoint", prefix, *flags]) == 0
    assert "..." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--printoptions", "nope=1"], "no such option of numpy"),
        (["--printoptions=precision=x"], "invalid literal"),
        (["--count_exclude_pattern=("], "--count_exclude_pattern ("),
    ],
)
def test_wrong_options(
    prefix: str, flags: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect_checkpoint", prefix, *flags]) == 1
    assert problem in capsys.readouterr().err


def test_what_inspect_checkpoint_does_not_find(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect_checkpoint", prefix, "--tensor_name=b"]) == 1
    assert "Tensor b not found in checkpoint" in capsys.readouterr().out
    assert main(["inspect_checkpoint"]) == 1
    assert capsys.readouterr().out.startswith("Usage: inspect_checkpoint --file_name=")
    assert main(["inspect_checkpoint", "--file_name=n"]) == 1
    assert "there is no checkpoint of this name" in capsys.readouterr().err


# --- inspect ------------------------------------------------------------------------------------------------


def test_inspect_a_saved_model(export: str, paste: Paste, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", export]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "my export is a TensorFlow 1 SavedModel: 1 graph {serve}, 2 signatures, 2 variables (36 B) in 1 shard"
    )
    assert "signature serving_default: image float[?,2] -> scores float[?,2]" in lines
    assert lines[-1] == "next: thinflow optimize 'my export' 'my export_out' --signature serving_default"
    assert main(["inspect", export, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["model"]["graphs"][0]["signatures"]["other"]["outputs"]["product"]["value"] == "y:0"


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        ("two", "it has several signatures: choose one with --signature"),
        ("tags", "it holds several graphs: choose one with --tags"),
        ("lost", "its variables are in a checkpoint that is not there"),
    ],
)
def test_inspect_what_cannot_be_opened_yet(
    build: str, reason: str, tmp_path: Path, paste: Paste, capsys: pytest.CaptureFixture[str]
) -> None:
    two = {"a": ({"x": "x:0"}, {"y": "y:0"}), "b": ({"x": "x:0"}, {"y": "y:0"})}
    metas = {
        "two": [meta_text(product(), signatures=two)],
        "tags": [meta_text(product(), tags=[t], signatures=SIGNATURE) for t in ("one", "other")],
        "lost": [meta_text(product(), signatures=SIGNATURE)],
    }[build]
    folder = write_model(tmp_path / "m", *metas, values=None if build == "lost" else VALUES)
    assert main(["inspect", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"not opened: {reason}") for line in lines)
    if build != "lost":
        assert paste(lines[-1]) == 0
        assert capsys.readouterr().out.splitlines()[-1].startswith("next: thinflow optimize")
    assert main(["inspect", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["opened"] is False


@pytest.mark.parametrize("name", ["m", "m.index", "m.data-00000-of-00001", "."])
def test_inspect_a_checkpoint(
    prefix: str, name: str, paste: Paste, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "m is a TensorFlow checkpoint of version 2, weights without a graph: 3 variables"
    )
    assert "  a     float[2,3]  24 B" in lines
    assert paste(lines[-1]) == 0
    capsys.readouterr()
    assert main(["inspect", name, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["variables"][0]
    assert first == {
        "name": "a", "dtype": "float", "shape": [2, 3], "bytes": 24, "slices": [], "full_name": None
    }  # fmt: skip


def test_inspect_a_graph_without_its_weights(graph: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "g.pbtxt"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert "GraphDef with variables (not frozen)" in out[0]
    assert out[-1] == "next: thinflow freeze g.pbtxt --checkpoint PREFIX -o frozen.pb"
    assert main(["inspect", "g.pbtxt", "--checkpoint", "model-1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("--checkpoint model-1")


# --- everything else ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["benchmark", "--runs", "2", "--no-memory", "--json"],
        ["convert", "k.tflite"],
        ["convert", "k.pb"],
        ["transform", "t.pb", "-t", "fold_constants"],
        ["quantize", "q.tflite", "--scheme", "float16"],
        ["verify", "my export"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_commands_take_a_saved_model(export: str, command: list[str]) -> None:
    verb, *rest = command
    assert main([verb, export, *rest, "--signature", "other", "--tags", "serve"]) == 0


def test_optimize_a_saved_model(export: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--signature", "serving_default", "--no-benchmark", "--no-verify"]
    assert main(["optimize", export, "out", *flags]) == 0
    assert sorted(p.name for p in Path("out").glob("*.tflite")) == [
        "my export_fp32.tflite",
        "my export_int8.tflite",
    ]
    assert "'my export' --signature serving_default" in capsys.readouterr().out
