"""Hints in the words of the command that ran, and what a command proposes where nothing matched."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

import thinflow
from tests.cli import proposals
from tests.cli.proposals import Watch, Watched, try_one
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.cli._hints import commands_in, told_after


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("my model.pb").write_bytes(b"x")
    return tmp_path


@pytest.mark.parametrize(
    ("hint", "args", "told"),
    [
        ("use engine='reference'", ["run", "m"], "use --engine reference"),
        ("use engine='reference'", ["benchmark", "m"], "use --engine reference"),
        ("use engine='reference'", ["convert", "m"], "use `thinflow run MODEL --engine reference`"),
        (
            "use engine='reference'",
            ["convert", "my model.pb"],
            "use `thinflow run 'my model.pb' --engine reference`",
        ),
        ("name them: outputs=[...]", ["convert", "m"], "name them: --outputs NAMES"),
        (
            "name the outputs: outputs=[...] when loading",
            ["verify", "a", "b"],
            "name the outputs: --outputs NAMES",
        ),
        ("fix the sizes (shapes=... or --shape)", ["convert", "m"], "fix the sizes (--shape)"),
        (
            "`thinflow inspect MODEL` shows its ops",
            ["run", "my model.pb"],
            "`thinflow inspect 'my model.pb'` shows its ops",
        ),
        (
            "`thinflow inspect MODEL` shows its ops",
            ["run", "--graph=my model.pb"],
            "`thinflow inspect 'my model.pb'` shows its ops",
        ),
        ("unpack it: thinflow unpack MODEL.tfpack MODEL.pb", ["run", "my model.pb"], None),
        ("`thinflow inspect MODEL` lists everything wrong", ["inspect", "my model.pb"], ""),
        ("", ["run"], ""),
    ],
)
def test_hints_are_told_in_flags(hint: str, args: list[str], told: str | None, place: Path) -> None:
    assert told_after(hint, args) == (hint if told is None else told)


def test_commands_are_found_in_hints() -> None:
    assert commands_in("`thinflow inspect 'a b'` or `thinflow run`") == [["inspect", "a b"]]
    assert commands_in("do: thinflow convert a b.onnx") == [["convert", "a", "b.onnx"]]
    assert commands_in("'thinflow inspect m' tells") == [["inspect", "m"]]
    assert commands_in("thinflow view m -o m.svg") == [["view", "m", "-o", "m.svg"]]
    assert commands_in("nothing to type; `thinflow it's`") == []


@pytest.mark.parametrize(
    ("args", "text", "message"),
    [
        (["run", "x"], "next: thinflow run x\n", "it proposes what was just run"),
        (["run", "x"], "next: thinflow inspekt x\n", "there is no such command"),
        (["run", "x"], "next: thinflow run x --ingine MODEL\n", "unrecognized arguments: --ingine"),
        (["run", "x"], "next: inspect x\n", "is no command"),
        (["run", "x"], "hint: `thinflow inspect no-such-file` tells\n", "there is no such file"),
    ],
)
def test_the_watch_sees_what_cannot_be_typed(
    args: list[str], text: str, message: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposals, "_tried", Counter())
    watch = Watch([Watched(args, str(place), text, dict(os.environ))])
    with pytest.raises(AssertionError, match=message):
        watch.try_proposals()


def test_the_watch_hears_what_commands_say(
    proposed_commands_run: Watch, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thinflow.save(parse_graph(GRAPH), "m.pb")
    assert main(["inspect", "m.pb"]) == 0
    (command,) = proposed_commands_run.seen
    assert command.args == ["inspect", "m.pb"]
    assert list(command.proposals()) == [["optimize", "m.pb", "m_out"]]
    try_one(["inspect", "m.pb"], command)


GRAPH = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
w = Const() {dtype=float, value=float[4,2]{range}}
y = MatMul(x, w) {T=float}
z = Relu(y) {T=float}
inputs: x
outputs: z
"""


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        ("fuse_pad_and_conv", "the graph has no Conv2D or DepthwiseConv2dNative"),
        ("remove_device", "nothing is there for it: Forget where nodes were placed in training"),
        ("remove_nodes(op=Identity)", "nothing is there for it: "),
    ],
)
def test_a_transform_that_matched_nothing_says_why(
    transform: str, reason: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thinflow.save(parse_graph(GRAPH), "m.pb")
    assert main(["transform", "m.pb", "--dry-run", "-t", transform]) == 0
    out = capsys.readouterr().out
    assert "nothing changed: 4 nodes" in out
    assert f"      nothing matched: {reason}" in out


def test_shapes_are_asked_for_where_they_help(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_sizes = GRAPH.replace("shape[1,4]", "shape[1,?]").replace("MatMul(x, w)", "Neg(x)")
    thinflow.save(parse_graph(open_sizes), "open.pb")
    assert main(["inspect", "open.pb"]) == 0
    assert "give the shape of each input: --shape x=1,16\n" in capsys.readouterr().out
    assert main(["inspect", "open.pb", "--shape", "x=1,16"]) == 0
    assert "--shape" not in capsys.readouterr().out.partition("next: ")[0]


def test_the_next_command_keeps_what_was_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.save(parse_graph(GRAPH), "m.pb")
    for args in (["run", "m.pb"], ["benchmark", "m.pb", "--seconds", "0.01", "--no-memory", "--no-peak"]):
        assert main([*args, "--inputs", "y", "--outputs", "z"]) == 0
        last = capsys.readouterr().out.strip().split("\n")[-1]
        assert last == "next: thinflow optimize m.pb out --inputs y --outputs z"
    assert main(["optimize", "m.pb", "out", "--no-benchmark", "--inputs", "y", "--outputs", "z"]) == 0
    last = capsys.readouterr().out.strip().split("\n")[-1]
    assert last.startswith("next: thinflow optimize m.pb --inputs y --outputs z out --calibration ")
