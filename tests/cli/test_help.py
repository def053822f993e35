"""`thinflow help`, and what is said of a flag or a value that does not exist."""

from __future__ import annotations

import json

import pytest

from thinflow.cli import COMMANDS, main
from thinflow.cli._reference import command_line

Captured = pytest.CaptureFixture[str]


def told(capsys: Captured, *args: str) -> tuple[int, str, str]:
    code = main(list(args))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_alone_is_the_overview(capsys: Captured) -> None:
    assert told(capsys, "help") == told(capsys, "--help")


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_of_a_command_is_what_its_flag_prints(verb: str, capsys: Captured) -> None:
    code, out, err = told(capsys, "help", verb)
    assert (code, out, err) == told(capsys, verb, "--help")
    assert code == 0
    assert "usage" in out.lower()


def test_help_of_a_command_of_a_command(capsys: Captured) -> None:
    code, out, _ = told(capsys, "help", "saved_model_cli", "run")
    assert code == 0
    assert out.startswith("usage: thinflow saved_model_cli run ")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("optimise", "did you mean 'optimize'"),
        ("retrain", "nothing is trained here"),
        ("zzzz", "'thinflow --help' lists the commands"),
    ],
)
def test_help_of_no_command(word: str, hint: str, capsys: Captured) -> None:
    code, out, err = told(capsys, "help", word)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: there is no command '{word}'\nhint: {hint}")


def test_help_for_programs(capsys: Captured) -> None:
    assert json.loads(told(capsys, "help", "--json")[1]) == command_line()
    assert json.loads(told(capsys, "help", "freeze", "--json")[1])["name"] == "freeze"


@pytest.mark.parametrize(
    ("args", "error", "hint"),
    [
        (["optimize", "m", "o", "--calibraton", "x"], "--calibraton x", "did you mean --calibration?"),
        (["freeze", "dir", "--ouput", "x"], "--ouput x", "did you mean --output or --outputs?"),
        (
            ["inspect", "m", "--key-file=k"],
            "--key-file=k",
            "--key-file is a flag of thinflow pack and thinflow unpack\n",
        ),
        (
            ["inspect", "m", "--calibration", "x"],
            "--calibration x",
            "--calibration is a flag of thinflow optimize, thinflow quantize, thinflow transform and others",
        ),
        (
            ["run", "m", "--seeds", "1", "--count", "3"],
            "--seeds 1 --count 3",
            "did you mean --seed or --feed?",
        ),
        # Another word for it is meant, not what is spelt nearly so.
        (["quantize", "m", "o", "--report", "x"], "--report x", "did you mean --html?"),
        # What the slip makes missing is not what is wrong.
        (["diff", "a", "--al"], "--al", "did you mean --all"),
        (["benchmark", "m", "-z"], "-z", "'thinflow benchmark --help' lists the options"),
        (["saved_model_cli", "show", "--dir=d", "--tagset=x"], "--tagset=x", "did you mean '--tag_set'?"),
    ],
)
def test_flags_that_are_not_there(args: list[str], error: str, hint: str, capsys: Captured) -> None:
    code, out, err = told(capsys, *args)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: unrecognized arguments: {error}\nhint: {hint}")


@pytest.mark.parametrize("verb", [v for v in COMMANDS if v not in ("saved_model_cli",)])
def test_every_command_knows_its_nearest_flag(verb: str, capsys: Captured) -> None:
    """A letter that is left out is no riddle to any of them."""
    (described,) = (c for c in command_line()["commands"] if c["name"] == verb)
    longest = max((f["spellings"][0] for f in described["flags"]), key=len)
    slip = longest[:-2] + longest[-1]
    code, _, err = told(capsys, verb, f"{slip}=x")
    assert code in (2, 255)
    hint = err.split("hint: ", 1)[1]
    assert longest.lstrip("-") in hint.split("\n")[0]


@pytest.mark.parametrize("verb", ["summarize_graph", "compare_graphs", "label_image"])
def test_old_tools_name_the_command_that_has_a_flag(verb: str, capsys: Captured) -> None:
    code, _, err = told(capsys, verb, "--max-drop=1")
    assert code in (2, 255)
    assert err.endswith("hint: --max-drop is a flag of thinflow optimize\n")


def test_a_value_that_is_no_choice(capsys: Captured) -> None:
    code, _, err = told(capsys, "run", "m.pb", "--state", "freez")
    assert code == 2
    assert err == (
        "error: --state freez: it is one of auto, keep, freeze, inputs\nhint: did you mean 'freeze'?\n"
    )
    code, _, err = told(capsys, "run", "m.pb", "--state", "?")
    assert err.endswith("hint: 'thinflow run --help' lists the options\n")


def test_what_is_missing_is_still_said(capsys: Captured) -> None:
    code, _, err = told(capsys, "diff", "a.pb")
    assert code == 2
    assert err == (
        "error: the following arguments are required: b\nhint: 'thinflow diff --help' lists the options\n"
    )
