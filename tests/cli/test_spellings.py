"""One spelling, one metavar and one sentence of help for one thing, on every command."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from thinflow.cli import main
from thinflow.cli._parser import parser_of
from thinflow.cli._reference import CommandData, FlagData, command_line
from thinflow.cli._values import (
    BORDER_TYPES,
    EFFORTS,
    ENGINES,
    LAYOUTS,
    OBSERVERS,
    PIPELINES,
    SCHEMES,
    VALUES,
    is_path,
    values_of,
)

COMMANDS = [c for c in command_line()["commands"] if c["manners"] == "thinflow"]
Captured = pytest.CaptureFixture[str]

MEANS_ANOTHER_THING = {
    ("sample", "--calibration"): "it writes what the others read",
    ("sample", "--test"): "it writes what the others read",
    ("verify", "--runs"): "so many made-up inputs, not so many measurements of one",
    ("view", "--profile"): "it colours the nodes of a page, by the engine that may be named",
    ("view", "--placement"): "it colours the nodes of a page, by the engine that may be named",
    ("evaluate", "--strict"): "it is about samples that cannot be read, not about parts of a model",
    ("survey", "--csv"): "it names a file; benchmark has its whole output so",
    ("evaluate", "--csv"): "it names a file; benchmark has its whole output so",
    ("view", "--layout"): "it places boxes of a picture; convert arranges files of C",
    ("deploy", "--test"): "it runs the folder's own test, where the others name samples to judge on",
    (
        "check",
        "--format",
    ): "reports for workflows, of which JUnit's is one that findings of lint have no use for",
    ("check", "--report"): "its suffix chooses how; what transforms did is JSON alone",
    ("check", "--strict"): "what is not known of a budget, and no part of a model",
    ("optimize", "--engine"): "models are made for engines and compared, where others run what there is",
    ("deploy", "--target"): "a platform that an app is for, not a processor that is judged by",
    ("inspect", "--placement"): "it prepares a model for an engine to tell; run has one at hand",
}
"""Spellings that were public before they clashed."""

SYNONYMS = (
    {"--engine", "--engines", "--backend"},
    {"--threads", "--num-threads", "--jobs"},
    {"--output", "--out", "--save", "--output-file"},
    {"--shape", "--shapes", "--input-shape", "--input-shapes"},
    {"--feed", "--feeds", "--input"},
    {"--samples", "--num-samples", "--limit"},
    {"--inputs", "--input-names"},
    {"--outputs", "--output-names"},
    {"--json", "--as-json", "--format-json"},
    {"--all", "--verbose", "--full"},
    {"--tolerance", "--rtol", "--atol", "--max-difference"},
    {"--seed", "--seeds", "--random-seed"},
    {"--timeout", "--time-limit"},
    {"--key-file", "--key"},
)
"""Words for one thing, of which a command line listed more than one somewhere, or might."""


def first_clause(text: str) -> str:
    """What a flag is for, without its default and what is special to a command."""
    return re.split(r"; | \(default", text)[0]


def one_of(metavar: str) -> str:
    """A metavar without what says that several may be given."""
    return re.sub(r"\[,\w+\.\.\.\]", "", metavar)


def flags_of(command: CommandData) -> list[FlagData]:
    return [f for f in command["flags"] if (command["name"], f["spellings"][0]) not in MEANS_ANOTHER_THING]


def test_what_means_the_same_is_said_the_same_way() -> None:
    found: dict[str, dict[tuple[str, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for command in COMMANDS:
        for flag in flags_of(command):
            said = (one_of(flag["metavar"]), first_clause(flag["help"]), *flag["spellings"], *flag["choices"])
            found[flag["spellings"][0]][said].append(command["name"])
    several = {name: dict(said) for name, said in found.items() if len(said) > 1}
    assert not several


def test_one_word_for_one_thing() -> None:
    listed = {s for c in COMMANDS for f in c["flags"] for s in f["spellings"]}
    assert not [words & listed for words in SYNONYMS if len(words & listed) > 1]


def test_flags_are_spelt_alike() -> None:
    for command in COMMANDS:
        for flag in command["flags"]:
            long, *others = flag["spellings"]
            assert re.fullmatch(r"--[a-z]+(-[a-z]+)*", long), f"{command['name']} {long}"
            assert all(re.fullmatch(r"-\w", o) or o == f"--no-{long[2:]}" for o in others), long
            assert (
                flag["takes"] == "nothing"
                or flag["metavar"].isupper()
                or "=" in flag["metavar"]
                or ("." in flag["metavar"])
            ), f"{command['name']} {long} {flag['metavar']}"


def test_arguments_are_said_the_same_way() -> None:
    found = defaultdict(set)
    for command in COMMANDS:
        for argument in command["arguments"]:
            if argument["name"] == "model":
                found[argument["name"]].add(first_clause(argument["help"]))
    assert found
    assert all(len(said) == 1 for said in found.values())


def test_exceptions_are_needed() -> None:
    every = {(c["name"], f["spellings"][0]) for c in COMMANDS for f in c["flags"]}
    assert set(MEANS_ANOTHER_THING) <= every


# --- what it was called before ------------------------------------------------------------------------------

ALIASES = [
    ("benchmark m --engines litert,reference", "engine", "litert,reference"),
    ("benchmark m --num_threads 1,2", "threads", "1,2"),
    ("run m --engine reference", "engine", "reference"),
    ("run m --num_threads 3", "threads", 3),
    ("run m --intra_op_parallelism_threads 3", "threads", 3),
    ("run m --inter_op 2", "inter_op", 2),
    ("run m --num_inter_threads 2", "inter_op", 2),
    ("run m --save o.npz", "output", "o.npz"),
    ("run m -o o.npz", "output", "o.npz"),
    ("optimize m d --num_threads 1", "threads", "1"),
    ("reduce m o.pb --feeds f.npz", "feed", ["f.npz"]),
    ("transform m --dry_run -t a", "dry_run", True),
    ("transform m o --keep_going -t a", "keep_going", True),
    ("quantize m o --tune", "effort", "best"),
    ("view m --engine thinflow", "engine", "thinflow"),
    ("freeze m -o o.pb", "output", "o.pb"),
]


@pytest.mark.parametrize(("command", "name", "value"), ALIASES)
def test_old_spellings_are_understood(command: str, name: str, value: object) -> None:
    verb, *words = shlex.split(command)
    assert getattr(parser_of(verb).parse_args(words), name) == value


@pytest.mark.parametrize("verb", [c["name"] for c in COMMANDS if c["name"] not in ("run", "view")])
def test_where_to_write_is_said_either_way(verb: str, capsys: Captured) -> None:
    parser = parser_of(verb)
    (described,) = (c for c in COMMANDS if c["name"] == verb)
    if not any("-o" in f["spellings"] for f in described["flags"]):
        return
    word = "out_dir" if verb == "optimize" else "output"
    more = ["-t", "x"] if verb == "transform" else []
    assert getattr(parser.parse_args(["a", "b", *more]), word) == "b"
    for words in (["a", "-o", "b", *more], ["-o", "b", "a", *more], ["a", *more, "--output=b"]):
        assert getattr(parser.parse_args(words), word) == "b"
    assert main([verb, "a", "b", "-o", "c", *more]) == 2
    assert capsys.readouterr().err.startswith("error: two outputs are given: b and c\n")


@pytest.mark.parametrize(
    "command",
    [
        "optimize m --signature s out --state keep",
        "transform m -t fold_constants out --json",
        "convert --shape x=1 m --json out",
        "reduce m --seed 3 out",
        "sample digits --seed 3 out",
    ],
)
def test_words_may_stand_between_flags(command: str) -> None:
    verb, *words = shlex.split(command)
    parsed = parser_of(verb).parse_args(words)
    assert getattr(parsed, "out_dir" if verb == "optimize" else "output") == "out"


def test_models_may_stand_between_flags() -> None:
    parsed = parser_of("benchmark").parse_args(["a", "--runs", "3", "b", "--json", "c"])
    assert (parsed.models, parsed.runs, parsed.json) == (["a", "b", "c"], 3, True)
    assert parser_of("inspect").parse_args(["--json", "--", "-odd.pb"]).model == "-odd.pb"


@pytest.mark.parametrize("verb", ["optimize", "convert", "quantize", "freeze", "pack", "unpack"])
def test_where_to_write_is_needed(verb: str, capsys: Captured) -> None:
    word = "out_dir" if verb == "optimize" else "output"
    assert main([verb, "m"]) == 2
    assert capsys.readouterr().err == (
        f"error: the following arguments are required: {word}\n"
        f"hint: 'thinflow {verb} --help' lists the options\n"
    )


@pytest.mark.parametrize("verb", ["run", "verify", "benchmark", "reduce", "diff"])
def test_one_archive_feeds_all_inputs_everywhere(verb: str, summing: str, capsys: Captured) -> None:
    """`--feed all.npz` and `--feed x=x.npy` mean the same on every command that has it."""
    np.savez("all.npz", x=np.zeros((1, 4), np.float32))
    np.save("x.npy", np.zeros((1, 4), np.float32))
    words = {
        "run": [summing],
        "verify": [summing, summing],
        "diff": [summing, summing],
        "benchmark": [summing, "--runs", "1", "--seconds", "0.01", "--no-memory", "--no-peak"],
        "reduce": [summing, "--check", "--engine", "reference"],
    }[verb]
    told = []
    for feed in ("all.npz", "x=x.npy"):
        assert main([verb, *words, "--feed", feed]) == 0
        told.append(capsys.readouterr().out)
    if verb == "run":
        assert told[0] == told[1]
        assert "1, 2, 3, 4" in told[0] or "[3] 4" in told[0]


def test_a_feed_without_a_name(summing: str, capsys: Captured) -> None:
    Path("x.npy").write_bytes(b"")
    assert main(["run", summing, "--feed", "x.npy"]) == 1
    assert capsys.readouterr().err == (
        "error: --feed x.npy: the name is missing\nhint: write --feed NAME=FILE\n"
    )


# --- what stands for values ---------------------------------------------------------------------------------


def test_lists_of_values_are_those_of_the_library() -> None:
    from thinflow.engines import names as engines
    from thinflow.optimize.climb import EFFORTS as known_efforts
    from thinflow.quantize.observers import names as observers
    from thinflow.quantize.recipe import BORDER_TYPES as known_types
    from thinflow.quantize.recipe import SCHEMES as known_schemes
    from thinflow.transforms.pipelines import order_names

    assert set(ENGINES) == {"auto", *engines()}
    assert tuple(known_schemes) == SCHEMES
    assert tuple(known_efforts) == EFFORTS
    assert set(OBSERVERS) == set(observers())
    assert list(PIPELINES) == order_names()
    assert {t for types in known_types.values() for t in types} == set(BORDER_TYPES)


def test_words_stand_for_values() -> None:
    assert values_of("ENGINE[,ENGINE...]") == list(ENGINES)
    assert values_of("LAYOUT") == list(LAYOUTS)
    assert "fold_constants" in values_of("TRANSFORMS")
    assert "digits" in values_of("SAMPLE")
    assert values_of("FILE") == []
    assert all(values() for values in VALUES.values())
    assert all(
        map(is_path, ("model", "FILE.npz", "NAME=FILE", "NAME=FILE.py:FUNCTION", "FOLDER|FILE", "out_dir"))
    )
    assert not any(map(is_path, ("N", "NAMES", "ENGINE", "NAME=1,224,224,3")))
