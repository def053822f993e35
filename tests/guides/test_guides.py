"""Every command of the guides keeps its promise, in the order the guides give them."""

from __future__ import annotations

import re
import shlex
import zipfile
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.guides.rows import ROWS, Row
from tests.guides.walkthrough import outputs, shown, words
from tests.night import AT_NIGHT
from thinflow.cli import main

pytestmark = pytest.mark.slow
Image = pytest.importorskip("PIL.Image")

LONG = (
    "quantize-resnet",
    "compare-resnet",
    "benchmark-resnet",
    "eight-bit-resnet",
    "summarize-resnet-one-dash",
)
"""Rows of the largest network, which nothing else needs: at night."""


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models, the picture and the labels the guides speak of."""
    folder = tmp_path_factory.mktemp("guides")
    main(["sample", "resnet_v2_50", str(folder / "resnet_v2_50.pb")])
    main(["sample", "inception_v3_2015", str(folder / "tensorflow_inception_graph.pb")])
    ramp = np.add.outer(np.arange(240), np.arange(320)) % 256
    pixels = np.stack([ramp, ramp.T[:240, :240].repeat(2, 1)[:, :320], ramp], -1).astype("uint8")
    Image.fromarray(pixels).save(folder / "picture.png")
    lines = "\n".join(f"label {i}" for i in range(1008))
    (folder / "imagenet_comp_graph_label_strings.txt").write_text(lines)
    return folder


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """What each command printed, by the name of its row."""
    return {}


@pytest.fixture
def here(workshop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(workshop)
    return workshop


@pytest.mark.parametrize("row", [r for r in ROWS if AT_NIGHT or r.name not in LONG], ids=lambda row: row.name)
def test_a_command_keeps_its_promise(
    row: Row, here: Path, said: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    code = main(shlex.split(row.command))
    captured = capfd.readouterr()
    assert code == 0, captured.err
    text = captured.out + captured.err
    said[row.name] = captured.out
    if row.stderr_to:
        (here / row.stderr_to).write_text(captured.err)
    for promise in row.says:
        assert re.search(promise, text, re.MULTILINE), f"{promise!r} is not in:\n{text[:3000]}"
    for name, megabytes in row.writes:
        assert 0 < (here / name).stat().st_size <= megabytes * 1e6, name


def top(text: str) -> str:
    """The first label that label_image printed."""
    return text.splitlines()[0].partition(" (")[0]


@pytest.mark.parametrize(
    "row",
    ["label-whole-graph", "label-eight-bit", "log-ranges", "label-frozen-ranges", "label-memmapped"],
)
def test_the_top_answer_stays(row: str, said: dict[str, str]) -> None:
    if row not in said:
        pytest.skip("its command did not run")
    assert top(said[row]) == top(said["label-float"])


def test_the_long_pages_show_what_is_printed(said: dict[str, str]) -> None:
    """Numbers may differ; the tables of a benchmark are in another order each time."""
    rows = {words(row.command): row.name for row in ROWS if "benchmark" not in row.command.split()[0]}
    if not said:
        pytest.skip("its commands did not run")
    for command, below in shown():
        if (name := rows.get(words(command), "")) in said:
            changed = set(below) - set(outputs.skeleton(said[name])) - {""}
            assert not changed, f"{command}\nrenew the page with docs/_make_outputs.py: {sorted(changed)}"


def test_ranges_are_no_longer_computed(here: Path) -> None:
    def count(name: str) -> int:
        return sum(node.op == "RequantizationRange" for node in thinflow.load(here / name))

    assert count("quantized_graph.pb") > 50
    assert count("ranged_quantized_graph.pb") == 0


def test_rounded_weights_zip_to_less_than_half(here: Path) -> None:
    def zipped(name: str) -> int:
        with zipfile.ZipFile(here / "z.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.write(name)
        return (here / "z.zip").stat().st_size

    assert zipped("r.pb") < 0.5 * zipped("optimized_inception_graph.pb")


def test_names_are_short(here: Path) -> None:
    for name in ("o.pb", "o2.pb"):
        graph = thinflow.load(here / name)
        assert {"Mul", "softmax"} <= {node.name for node in graph}
        assert all(len(node.name) <= 4 for node in graph if node.name not in {"Mul", "softmax"})


def test_the_recipe_keeps_the_answers(here: Path) -> None:
    x = np.random.default_rng(0).normal(size=(1, 224, 224, 3)).astype(np.float32)
    output = "resnet_v2_50/predictions/Reshape_1"
    before, after = (
        thinflow.run(here / name, {"input": x}, [output])[output]
        for name in ("resnet_v2_50.pb", "optimized_resnet_v2_50_fp32.pb")
    )
    assert np.abs(before - after).max() < 1e-5


def test_statistics_inside_an_app(here: Path) -> None:
    summarizer = thinflow.StatSummarizer("optimized_inception_graph.pb")
    summarizer.run(["softmax:0"], {"Mul:0": np.zeros((1, 299, 299, 3), np.float32)})
    assert "Top by Computation Time" in summarizer.output_string()


def test_three_calls_and_an_answer(here: Path) -> None:
    model = thinflow.InferenceInterface("optimized_inception_graph.pb")
    model.feed("Mul", np.zeros(299 * 299 * 3, np.float32), 1, 299, 299, 3)
    model.run(["softmax"])
    scores = np.zeros(1008, np.float32)
    model.fetch("softmax", scores)
    model.close()
    assert abs(scores.sum() - 1) < 1e-4


def test_freezing(shared: Path, here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = shared / "formats" / "ckpt_v2_ref"
    command = [
        "freeze_graph",
        f"--input_graph={folder / 'graph.pb'}",
        "--input_binary=true",
        f"--input_checkpoint={folder / 'model.ckpt-7'}",
        "--output_graph=frozen_graph.pb",
        "--input_node_names=x",
        "--output_node_names=net/prob",
    ]
    assert main(command) == 0, capfd.readouterr().err
    command[1:3] = [f"--input_graph={folder / 'graph.pbtxt'}", "--input_binary=false"]
    assert main(command) == 0
    graph = thinflow.load(here / "frozen_graph.pb")
    assert not any("Variable" in node.op or node.op.startswith("Save") for node in graph)
    io = np.load(folder / "io.npz")
    (found,) = thinflow.Session(graph, "reference").run(["net/prob"], {"x": io["in:x:0"]})
    assert np.allclose(found, io["out:net/prob:0"], atol=1e-6)
