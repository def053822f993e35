"""`thinflow inspect` and `thinflow summarize_graph`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.cli.inspect import next_command


def test_verdict_first_next_command_last(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", model]) == 0
    captured = capsys.readouterr()
    first, *middle, last = captured.out.splitlines()
    assert first.startswith("my digits.pb is a frozen GraphDef: 89 nodes, 43.9 k constants, ")
    assert "  image: a placeholder of float[?,8,8,1]" in middle
    assert any(line.startswith("latency floor: 32 µs on a 2016 phone, 96.1 µs on ") for line in middle)
    assert any(line.startswith("batch norms: ") and "candidates for folding" in line for line in middle)
    assert last == "next: thinflow optimize 'my digits.pb' 'my digits_out'"
    assert captured.err == ""


def test_next_command_keeps_shapes(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", model, "--shape", "image=2,8,8,1"]) == 0
    assert capsys.readouterr().out.endswith("'my digits_out' --shape image=2,8,8,1\n")
    assert main(["inspect", model, "--shape", "image=?,8,8,1"]) == 0
    assert capsys.readouterr().out.endswith("--shape 'image=?,8,8,1'\n")


def test_json(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", model, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["nodes"] == 89
    assert data["file_bytes"] == Path(model).stat().st_size
    assert [c["name"] for c in data["inputs"]] == ["image"]
    assert data["inputs"][0]["shape"] == [None, 8, 8, 1]
    assert sum(data["ops"].values()) == 89
    assert data["flops"] == sum(data["flops_by_node"].values())
    assert data["problems"] == []


def test_all_lists_more(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    graph = parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[4]}\n"
        + "".join(f"y{i} = Relu(x) {{T=float}}\n" for i in range(9))
    )
    thinflow.save(graph, "many.pb")
    assert main(["inspect", "many.pb"]) == 0
    assert "  ... and 4 more (--all)" in capsys.readouterr().out
    assert main(["inspect", "many.pb", "--all"]) == 0
    out = capsys.readouterr().out
    assert "(--all)" not in out
    assert "  y8: " in out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "v = VariableV2() {dtype=float, shape=shape[2]}\ny = Neg(v) {T=float}",
            "GraphDef with variables (not frozen)",
        ),
        (
            "x = Placeholder() {dtype=float}\ny = Mystery(x)",
            "unknown ops, carried through untouched: 1 Mystery",
        ),
        (
            "x = Placeholder() {dtype=float, shape=shape[?,?]}\ny = Relu(x) @/gpu:0",
            "devices: 1 nodes on /gpu:0",
        ),
        (
            "x = Placeholder() {dtype=float, shape=shape[1,4]}\n"
            "w = Const() {dtype=float, value=float[5,2]{range}}\n"
            "y = MatMul(x, w) {T=float}",
            "sizes or attributes do not fit at 1 node, first 'y'",
        ),
    ],
)
def test_findings(text: str, words: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.save(parse_graph(text), "case.pb")
    assert main(["inspect", "case.pb"]) == 0
    assert words in capsys.readouterr().out


def test_a_port_out_of_range_is_a_broken_graph(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("port.pbtxt").write_text(
        'node { name: "x" op: "Placeholder" } node { name: "y" op: "Relu" input: "x:7" }'
    )
    assert main(["inspect", "port.pbtxt"]) == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first.endswith("node 'y': input 0 reads port 7 of node 'x' (Placeholder), which has 1")


def test_next_command_runs(
    model: str, capsys: pytest.CaptureFixture[str], paste: Callable[[str], int]
) -> None:
    from argparse import Namespace

    assert next_command(thinflow.summarize(model), [], Namespace(model=model, shape=[])).startswith(
        "thinflow optimize"
    )
    assert main(["inspect", model]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert paste(last + " --no-benchmark --samples 2") == 0


def test_summarize_graph(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summarize_graph", f"--in_graph={model}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Found 1 possible inputs: (name=image, type=float(1), shape=[?,8,8,1]) "
    assert lines[-1].startswith(f"bazel run tensorflow/tools/benchmark:benchmark_model -- --graph={model} ")
    assert main(["summarize_graph", "--in_graph", model, "-print_structure"]) == 0
    structure = capsys.readouterr().out.splitlines()[len(lines) :]
    assert len(structure) == 89
    assert "image (Placeholder): []" in structure


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        ([], 2, "in_graph graph can't be empty."),
        (["m.pb"], 2, "Unknown argument m.pb."),
        (
            ["--print_structure=maybe", "--in_graph=m.pb"],
            2,
            "Couldn't interpret value maybe for flag print_structure.",
        ),
        (["--in_graph"], 2, "the flag --in_graph needs a value"),
        (["--help"], 0, "usage: thinflow summarize_graph"),
    ],
)
def test_old_flags(argv: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summarize_graph", *argv]) == code
    assert words in capsys.readouterr()[code == 2]  # help goes to stdout


def test_names_cannot_steer_the_terminal(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd.pbtxt").write_text('node { name: "a\\033[2J\\nb" op: "Placeholder" }')
    assert main(["inspect", "odd.pbtxt", "--all"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "a\\x1b[2J\\nb" in out
