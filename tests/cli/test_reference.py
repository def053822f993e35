"""The description of the command line says what the parsers take."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

from thinflow.cli import COMMANDS, DROP_INS
from thinflow.cli._reference import CommandData, FlagData, command, command_line, every, examples

ALL = list(every(command_line()["commands"]))


def flag(name: str, spelling: str) -> FlagData:
    return next(f for f in command(name)["flags"] if spelling in f["spellings"])


def test_every_command_is_described_and_json_has_all_of_it() -> None:
    told = command_line()
    assert [c["name"] for c in told["commands"]] == list(COMMANDS)
    assert json.loads(json.dumps(told)) == told
    assert {c["name"] for c in told["commands"] if c["manners"] == "tensorflow"} == set(DROP_INS)
    assert [c["name"] for c in ALL if " " in c["name"]] == [
        f"saved_model_cli {name}" for name in ("show", "run", "scan")
    ]


@pytest.mark.parametrize("told", ALL, ids=lambda c: c["name"])
def test_everything_is_explained_and_has_examples(told: CommandData) -> None:
    assert told["summary"]
    assert "\n" not in told["summary"] + told["usage"]
    assert all(f["help"] for f in told["flags"]), "a flag without a word of help"
    assert all(a["help"] for a in told["arguments"])
    assert not any("%" in f["help"] and "%%" in f["help"] for f in told["flags"])
    assert told["examples"]
    assert all(
        e["command"].startswith(f"thinflow {told['name']} ") or " " not in e["command"][9:]
        for e in told["examples"]
    )


@pytest.mark.parametrize("told", [c for c in ALL if c["examples"]], ids=lambda c: c["name"])
def test_examples_use_flags_that_are_described(told: CommandData) -> None:
    known = {s for c in every([told]) for f in c["flags"] for s in (*f["spellings"], *f["aliases"])}
    for example in told["examples"]:
        words = shlex.split(example["command"].split(" > ")[0])
        used = {w.partition("=")[0] for w in words if w.startswith("-")}
        assert used <= known, example["command"]


def test_what_is_said_of_a_flag() -> None:
    assert flag("quantize", "--scheme")["takes"] == "value"
    assert flag("inspect", "--placement")["takes"] == "optional value"
    assert flag("run", "--state")["choices"] == ["auto", "keep", "freeze", "inputs"]
    assert flag("transform", "--transforms")["spellings"] == ["--transforms", "-t"]
    assert flag("transform", "--transforms")["repeated"]
    assert flag("transform", "--transforms")["excludes"] == ["--pipeline"]
    assert flag("benchmark", "--seconds")["default"] == 10.0
    assert flag("optimize", "--no-verify")["default"] is False
    assert flag("benchmark", "--runs")["help"].endswith("known to 2 %")
    assert not flag("freeze", "--output")["required"]  # the word behind the model does as well


def test_what_is_said_of_arguments() -> None:
    (models,) = command("benchmark")["arguments"]
    assert models["required"]
    assert models["repeated"]
    model, output = command("transform")["arguments"]
    assert model["required"]
    assert not output["required"]
    assert [a["name"] for a in command("compare_graphs")["arguments"]] == ["A", "B"]


def test_flags_of_old_tools() -> None:
    told = command("summarize_graph")
    assert told["usage"] == "thinflow summarize_graph [--flag=value ...]"
    assert flag("summarize_graph", "--print_structure")["metavar"] == "BOOL"
    assert flag("label_image", "--graph")["aliases"] != []
    assert flag("tflite_convert", "--inference_input_type")["aliases"][0].startswith("--")


def test_examples_are_told_from_their_comments() -> None:
    assert examples("  thinflow run a     # to see\n\n  thinflow run 'b#c'\n") == [
        {"command": "thinflow run a", "comment": "to see"},
        {"command": "thinflow run 'b#c'", "comment": ""},
    ]


def test_describing_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom thinflow.cli._reference import command_line\ncommand_line()\n"
        "print(sorted({'numpy', 'rich', 'google.protobuf', 'json', 'shutil'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
