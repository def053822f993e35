"""What commands print fits a terminal of 80 columns, and in a pipe no name is cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thinflow
from tests.cli.terminals import in_terminal
from tests.night import some
from thinflow.cli import main
from thinflow.cli._folding import folded, shortened
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT

LONG = "scope_of_a_network/" * 10 + "tower"
"""Some 200 characters, as names of a framework that nests its modules have them."""
COLUMNS = 80


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose every name is long, the same transformed, as .tflite, and samples."""
    folder = tmp_path_factory.mktemp("widths")
    graph = Graph()
    random = np.random.default_rng(0)
    x = graph.add("Placeholder", [], f"{LONG}/x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 8))}).output()
    y = x
    for layer in ("first", "second"):
        weights = graph.constant(random.normal(size=(8, 8)).astype(np.float32), f"{LONG}/{layer}/weights")
        y = graph.add("MatMul", [y, weights], f"{LONG}/{layer}/product", attrs={"T": FLOAT}).output()
        y = graph.add("Relu", [y], f"{LONG}/{layer}/relu", attrs={"T": FLOAT}).output()
    graph.inputs, graph.outputs = [x], [y]
    thinflow.save(graph, folder / "model.pb")
    thinflow.save(thinflow.transform(graph, "round_weights(num_steps=4)", verify=False), folder / "other.pb")
    thinflow.convert(folder / "model.pb", folder / "model.tflite")
    return folder


QUICK = ["--seconds", "0.01", "--runs", "2", "--no-memory", "--no-peak"]
COMMANDS = [
    ["inspect", "model.pb"],
    ["inspect", "model.pb", "--all", "--placement", "litert"],
    ["inspect", "model.tflite"],
    ["transform", "model.pb", "t.pb", "-t", "strip_unused_nodes fold_constants round_weights(num_steps=16)"],
    ["transform", "model.pb", "--dry-run", "-t", f"insert_logging(op=Relu, message={LONG})"],
    ["convert", "model.pb", "c.tflite", "--why"],
    ["run", "model.pb", "--placement"],
    ["verify", "model.pb", "model.tflite"],
    ["verify", "model.pb", "other.pb"],
    ["diff", "model.pb", "other.pb", "--all"],
    ["diff", "model.pb", "model.tflite", "--all"],
    ["freeze", "model.pb", "f.pb"],
    ["quantize", "model.pb", "q.tflite", "--sensitivity", "--effort", "none"],
    ["benchmark", "model.pb", "model.tflite", "--profile", *QUICK],
    ["lint", "model.pb", "--all"],
    ["lint", "--list"],
    ["lint", "--explain", "TF301"],
    ["view", "model.pb", "-o", "v.dot"],
    ["reduce", "model.pb", "--check", "--engine", "reference"],
    ["sample"],
    ["pack", "model.pb", "m.tfpack"],
    ["transforms"],
    ["transforms", "fold_batch_norms"],
]


def is_pasted(line: str) -> bool:
    """Whether it is a command, which a terminal breaks itself so that it can be copied."""
    return line.startswith(("next: ", "hint: ", "to use it: "))


@pytest.mark.slow
@pytest.mark.parametrize(
    "args", some([*COMMANDS[:16], ["transforms"], ["sample"]], 2), ids=lambda args: " ".join(args)[:40]
)
def test_nothing_is_wider_than_the_terminal(args: list[str], place: Path) -> None:
    code, out = in_terminal(args, place, COLUMNS)
    assert code in (0, 1), out
    assert out.strip()
    wide = [line for line in out.splitlines() if len(line) > COLUMNS and not is_pasted(line)]
    assert not wide


@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_no_name_is_cut_in_a_pipe(
    args: list[str], place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(args) in (0, 1)
    out = capsys.readouterr().out
    assert "…" not in out
    # Where a name begins, it goes on to its end.
    assert out.count("scope_of_a_network/" * 10) * 10 == out.count("scope_of_a_network/")


def test_machines_get_whole_lines_in_a_terminal(place: Path) -> None:
    import json

    _, out = in_terminal(["inspect", "model.pb", "--json"], place, COLUMNS)
    assert json.loads(out)["inputs"][0]["name"] == f"{LONG}/x"


# --- folding ------------------------------------------------------------------------------------------------


@given(st.text(alphabet=st.sampled_from("ab/ .:-…"), max_size=300), st.integers(20, 100))
def test_folded_lines_fit_and_lose_nothing_but_long_names(text: str, width: int) -> None:
    lines = folded(text, width).split("\n")
    if not text.startswith(("next: ", "hint: ")):
        assert max(map(len, lines)) <= max(width, 0)
    if all(len(word) <= width // 2 - 4 for word in text.split()):
        assert "".join(folded(text, width).split()) == "".join(text.split())


def test_a_fold_is_set_off() -> None:
    assert folded("  one two three four five six", 20) == "  one two three four\n      five six"
    assert folded("short\n" + "word " * 5, 20) == "short\nword word word word\n    word"


def test_commands_to_paste_are_left_whole() -> None:
    line = "next: thinflow inspect " + "a" * 90
    assert folded(line, 80) == line


TABLE = """\
files      two of them
      file         size    quality                          1 thread  memory
fp32  fp32.tflite  177 kB  same answer on 20 of 20 samples       8.8      63
int8  int8.tflite   52 kB  same answer on 19 of 20 samples      10.2
int8       signal to noise: 27.3 dB
"""


def test_a_table_that_is_too_wide_becomes_several() -> None:
    """Each with the first column, so that no row has to be put together from pieces of lines."""
    assert folded(TABLE, 50).split("\n") == [
        "files      two of them",
        "      file         size",
        "fp32  fp32.tflite  177 kB",
        "int8  int8.tflite   52 kB",
        "      quality                          1 thread",
        "fp32  same answer on 20 of 20 samples       8.8",
        "int8  same answer on 19 of 20 samples      10.2",
        "      memory",
        "fp32      63",
        "int8       signal to noise: 27.3 dB",
        "",
    ]


@given(
    st.lists(st.lists(st.text("ab9.", max_size=9), min_size=3, max_size=7), min_size=1, max_size=5),
    st.integers(20, 60),
)
def test_tables_fit_and_lose_no_cell(cells: list[list[str]], width: int) -> None:
    rows = ["  ".join(f"{cell:9}" for cell in row) for row in cells]
    lines = folded("\n".join(rows), width).split("\n")
    assert max(map(len, lines)) <= width
    told = " ".join(lines).split()
    assert all(told.count(word) >= " ".join(rows).split().count(word) for word in told)


@pytest.mark.parametrize(("width", "text"), [(9, "abcdefghi"), (8, "abc…fghi"), (3, "a…i")])
def test_long_names_lose_their_middle(width: int, text: str) -> None:
    assert shortened("abcdefghi", width) == text
