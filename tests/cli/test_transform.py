"""`thinflow transform` and `thinflow transform_graph`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import thinflow
from tests.library import graph_of
from tests.load.builders import product
from thinflow.cli import main


def test_ledger(model: str, capsys: pytest.CaptureFixture[str], paste: Callable[[str], int]) -> None:
    assert main(["transform", model, "small one.pb", "-t", "fold_constants fold_old_batch_norms"]) == 0
    captured = capsys.readouterr()
    first, *middle, last = captured.out.splitlines()
    assert "changes: 89 -> " in first
    assert "verified" in first
    assert any(line.split()[:1] == ["fold_constants"] for line in middle)
    assert last == "next: thinflow inspect 'small one.pb'"
    assert paste(last) == 0
    assert thinflow.verify(model, "small one.pb").ok


def test_dry_run_writes_nothing(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transform", model, "--dry-run", "-t", "fold_constants"]) == 0
    assert capsys.readouterr().out.endswith("nothing was written (--dry-run)\n")
    assert [p.name for p in Path().iterdir()] == [model]


def test_json(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transform", model, "o.pb", "-t", "fold_constants", "-t", "remove_device", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [s["transform"].split("(")[0] for s in data["steps"]] == ["fold_constants", "remove_device"]
    assert data["steps"][0]["nodes"][0] == 89
    assert data["changes"] > 0


def test_nothing_to_do_says_so(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transform", model, "o.pb", "-t", "remove_device"]) == 0
    assert capsys.readouterr().out.startswith("nothing changed: 89 nodes")
    assert main(["transform", model, "o.pb", "-t", "fold_constants", "--no-verify"]) == 0
    assert "not verified (--no-verify)" in capsys.readouterr().out


def test_transforms_are_required(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transform", model, "o.pb"]) == 2
    assert capsys.readouterr().err.endswith("hint: 'thinflow transform --help' lists the options\n")


def test_a_named_order(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transform", model, "o.pb", "--pipeline", "float"]) == 0
    out = capsys.readouterr().out
    assert "outputs verified" in out
    assert out.count("fold_constants") == 1, "one line for all rounds"
    assert main(["transform", "o.pb", "p.pb", "--pipeline", "float"]) == 0
    assert capsys.readouterr().out.startswith("nothing changed")
    assert main(["transform", model, "o.pb", "--pipeline", "flote"]) == 1
    assert "did you mean 'float'" in capsys.readouterr().err


def test_ranges_are_measured_on_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sample", "digits", "digits.pb", "--calibration", "samples.npz", "--count", "2"]) == 0
    eight = "fold_batch_norms quantize_weights quantize_nodes strip_unused_nodes"
    freeze = f"{eight} freeze_requantization_ranges(min_percentile=0)"
    assert main(["transform", "digits.pb", "o.pb", "-t", freeze, "--calibration", "samples.npz"]) == 0
    assert "note: ranges measured on samples.npz" in capsys.readouterr().out
    ops = [node.op for node in thinflow.load("o.pb")]
    assert "Requantize" in ops
    assert not {"RequantizationRange", "Min", "Max"} & set(ops)
    assert Path("o.pb.ranges.txt").read_text().count("__print__;__requant_min_max:[") >= 2
    assert main(["transform", "o.pb", "p.pb", "-t", "freeze_requantization_ranges"]) == 1
    assert "needs the parameter 'min_max_log_file'" in capsys.readouterr().err


def test_transform_graph(model: str, capsys: pytest.CaptureFixture[str], paste: Callable[[str], int]) -> None:
    argv = [
        "transform_graph",
        f"--in_graph={model}",
        "--out_graph=my out.pb",
        "--inputs=image",
        "--outputs=probabilities",
        "--transforms=strip_unused_nodes fold_constants",
        "--report=r.json",
    ]
    assert main(argv) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "next: thinflow inspect 'my out.pb'"
    assert paste(last) == 0
    assert len(json.loads(Path("r.json").read_text("utf-8"))["steps"]) == 2
    assert main([*argv[:2], "--out_graph=t.pb", *argv[3:6], "--output_as_text"]) == 0
    assert Path("t.pb").read_bytes().startswith(b"node {")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--out_graph=o.pb", "--transforms=fold_constants"], "in_graph can't be empty."),
        (["--in_graph=m.pb", "--transforms=fold_constants"], "out_graph can't be empty."),
        (["--in_graph=m.pb", "--out_graph=o.pb"], "transforms can't be empty."),
        (["--bogus=1"], "Unknown argument --bogus=1."),
    ],
)
def test_old_usage(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transform_graph", *argv]) == 2
    assert capsys.readouterr().err.startswith(words)


def test_names_as_the_mobile_guide_calls_them(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    ends = ["--input_names=image", "--output_names=probabilities", "--transforms=fold_constants"]
    assert main(["transform_graph", f"--in_graph={model}", "--out_graph=o.pb", *ends]) == 0
    ends[0] = "--inputs=Placeholder"
    assert main(["transform_graph", f"--in_graph={model}", "--out_graph=o.pb", *ends]) == 1
    assert (
        "no input 'Placeholder' in the graph\nhint: its inputs seem to be image\n" in capsys.readouterr().err
    )


def test_a_graph_that_was_never_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its weights are in a checkpoint: nothing folds and nothing shrinks, and one line says why."""
    monkeypatch.chdir(tmp_path)
    thinflow.save(graph_of(product()), tmp_path / "g.pb")
    told = "note: 1 variable left, first 'w': transforms see no weights that are in a checkpoint; freeze"
    ends = ["--inputs=x", "--outputs=y", "--transforms=quantize_weights"]
    assert main(["transform_graph", "--in_graph=g.pb", "--out_graph=o.pb", *ends]) == 0
    assert told in capsys.readouterr().out
    quantize = ["quantize_graph", "--input=g.pb", "--output=q.pb", "--output_node_names=y"]
    assert main([*quantize, "--mode=weights"]) == 0
    assert told in capsys.readouterr().err


def test_help_lists_transforms(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transform_graph", "--help"]) == 0
    assert "fold_constants" in capsys.readouterr().out.splitlines()


def test_help_of_the_old_tool_lists_every_transform(capsys: pytest.CaptureFixture[str]) -> None:
    from thinflow.api import transform_names

    assert main(["transform_graph", "--help"]) == 0
    listed = capsys.readouterr().out.partition("Transforms are:\n")[2]
    assert listed.split() == transform_names()
