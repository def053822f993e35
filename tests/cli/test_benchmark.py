"""`thinflow benchmark` on a tiny model."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

import thinflow
from tests.page_scripts import BUILT, without_scripts
from thinflow.bench.timing_loop import Case, _Loop
from thinflow.cli import _console, main
from thinflow.cli import benchmark as benchmark_command
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT
from thinflow.pages.shell import data_of
from thinflow.zoo import digits

QUICK = ["--runs", "2", "--seconds", "60", "--no-memory"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("benchmark")
    graph = digits.build(0)
    paths = folder / "digits.pb", folder / "digits_fp32.tflite"
    for path in paths:
        thinflow.save(graph, path)
    return str(paths[0]), str(paths[1])


def test_verdict_first_next_command_last(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", *files, *QUICK]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "digits_fp32" in lines[0]
    assert "on 1 thread" in lines[0]
    assert lines[-1].startswith("next: thinflow benchmark ")
    assert any(line.split()[:3] == ["model", "engine", "threads"] for line in lines)


def test_one_model_alone(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", files[0], *QUICK]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("digits takes ")
    assert lines[-1] == f"next: thinflow optimize {files[0]} out"


def test_json(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["benchmark", files[0], "--engine", "litert,reference", "--threads", "1,2", "--json", *QUICK])
        == 0
    )
    data = json.loads(capsys.readouterr().out)
    assert [(r["engine"], r["threads"]) for r in data["rows"]] == [
        ("litert", 1),
        ("litert", 2),
        ("reference", 1),
        ("reference", 2),
    ]
    assert all(r["latency_ms"]["count"] == 2 for r in data["rows"])


def test_csv_and_markdown(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", files[0], "--csv", *QUICK]) == 0
    header, row = csv.reader(io.StringIO(capsys.readouterr().out))
    assert dict(zip(header, row, strict=True))["runs"] == "2"
    assert main(["benchmark", files[0], "--markdown", *QUICK]) == 0
    assert "| digits | litert | 1 |" in capsys.readouterr().out


def test_every_figure_in_one_row_a_configuration(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["benchmark", *files, "--threads", "1,2", "--csv", "--runs", "7", "--seconds", "60"]
    assert main(argv) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(r["model"], r["engine"], r["threads"]) for r in rows] == [
        ("digits", "litert", "1"),
        ("digits_fp32", "litert", "1"),
        ("digits", "litert", "2"),
        ("digits_fp32", "litert", "2"),
    ]
    for row in rows:
        low, median, high = (float(row[f"{name}_ms"]) for name in ("low", "median", "high"))
        assert 0 < low <= median <= high
        assert int(row["operations"]) == 464_128
        assert float(row["gflops"]) == pytest.approx(464_128 / median / 1e6, rel=1e-6)
        assert float(row["percent_of_peak"]) > 0
        assert row["peak_kind"] == "float32"
        assert int(row["file_bytes"]) > 100_000
        assert int(row["memory_bytes"]) > 10_000_000
        assert float(row["cpu_ms"]) > 0


def test_tables_fit_the_terminal(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_console, "terminal_width", lambda: 100)
    monkeypatch.setattr(benchmark_command, "terminal_width", lambda: 100)
    argv = ["benchmark", *files, "--engine", "litert,reference", "--threads", "1,2", "--profile", *QUICK]
    assert main(argv) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("model "))
    assert len(lines[first].split()) >= 9
    assert max(map(len, lines[first : lines.index("", first)])) <= 100
    node = next(i for i, line in enumerate(lines) if line.startswith("node "))
    assert max(map(len, lines[node : lines.index("", node)])) <= 100
    assert "GFLOP/s" in out
    assert "peak: " in out


def test_what_each_node_takes(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", *files, "--profile", "--no-peak", *QUICK]) == 0
    out = capsys.readouterr().out
    assert "digits, litert, 1 thread, node by node: LiteRT's own profiler" in out
    assert any(line.split()[:2] == ["CONV_2D", "3"] for line in out.splitlines())
    assert any(line.split()[:2] == ["conv3/Relu", "CONV_2D"] for line in out.splitlines())
    assert main(["benchmark", files[0], "--profile", "--json", "--no-peak", *QUICK]) == 0
    (found,) = json.loads(capsys.readouterr().out)["profiles"]
    assert (found["subject"], found["engine"], found["threads"]) == ("digits", "litert", 1)
    assert "conv1/Relu" in [n["name"] for n in found["nodes"]]
    assert main(["benchmark", files[0], "--profile", "--markdown", "--no-peak", *QUICK]) == 0
    assert "| conv1/Relu | CONV_2D |" in capsys.readouterr().out
    assert main(["benchmark", files[0], "--profile", "--csv", *QUICK]) == 1
    assert "--csv holds one table" in capsys.readouterr().err


def test_a_graph_outside_of_the_engine_is_profiled_in_the_interpreter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((4,))}).output()
    graph.inputs, graph.outputs = [x], [graph.add("BesselI0", [x], "odd").output()]
    thinflow.save(graph, tmp_path / "m.pb")
    assert main(["benchmark", str(tmp_path / "m.pb"), "--profile", *QUICK]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "in 1 part, reference (1 node): the interpreter by the clock" in out
    assert "odd 1 reference BesselI0 " in out


def test_ctrl_c_gives_what_was_measured_so_far(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = _Loop._run

    def run(self: _Loop, case: Case, turns: int, *, warm_first: bool) -> None:
        own(self, case, turns, warm_first=warm_first)
        if len(case.times) == 8:
            raise KeyboardInterrupt

    monkeypatch.setattr(_Loop, "_run", run)
    assert main(["benchmark", *files, "--runs", "1000"]) == 130
    out = capsys.readouterr().out
    assert "note: the measurement was interrupted; these are the runs up to then" in out
    assert any(line.split()[:2] == ["digits", "litert"] for line in out.splitlines())


@pytest.mark.parametrize(
    "flag",
    ["--threads", "--num_threads", "--intra_op", "--intra_op_parallelism_threads", "--num_intra_threads"],
)
def test_spellings_of_the_threads(
    files: tuple[str, str], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", files[1], flag, "2", "--json", "--no-peak", *QUICK]) == 0
    assert [r["threads"] for r in json.loads(capsys.readouterr().out)["rows"]] == [2]


def test_nodes_side_by_side(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--inter_op", "--inter_op_parallelism_threads", "--num_inter_threads"):
        assert main(["benchmark", files[1], flag, "2", "--json", "--no-peak", *QUICK]) == 0
        data = json.loads(capsys.readouterr().out)
        assert data["inter_op_threads"] == 2
        assert any("only onnxruntime runs nodes side by side" in line for line in data["caveats"])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--threads", "many"], "not a list of whole numbers"),
        (["--engine", "warp"], "there is no engine 'warp'"),
        (["--shape", "nothing=1,2"], "no model has an input 'nothing'"),
        (["--shape", "imag=1,8,8,1"], "did you mean 'image'?"),
        (["--shape", "image=1x8x8x1"], "'1x8x8x1' is not a size"),
        (["--shape", "1,8,8,1"], "the name is missing"),
        (["--shape", "image=1,8,8"], "'image' has 4 sizes, [?,8,8,1], and 3 were given: [1,8,8]"),
        (["--signature", "serving_default"], "no model here takes signature=serving_default"),
        (["--tags", "serve"], "no model here takes tags=serve"),
        (["--threads", "0"], "0 threads cannot run anything"),
        (["--threads", "1,-2"], "not a list of whole numbers"),
        (["--inter_op", "0"], "0 threads cannot run anything"),
        (["--engine", "litert,refrence"], "did you mean 'reference'?"),
        (["--outputs", "probabilites"], "did you mean 'probabilities'"),
        (["--inputs", "imag"], "did you mean 'image'?"),
        (["--warmup", "-1"], "-1 warm-up runs are not possible"),
    ],
)
def test_wrong_flags(
    files: tuple[str, str], flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", files[0], *flags, *QUICK]) == 1
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--shape", "image=1,8,8"], "and 3 were given: [1,8,8]"),
        (["--inputs", "imag"], "did you mean 'image'?"),
        (["--outputs", "probabilites"], "did you mean 'probabilities'?"),
    ],
)
@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_wrong_flags_for_a_file(
    tmp_path: Path, suffix: str, flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime" if suffix == ".onnx" else "ai_edge_litert")
    path = tmp_path / f"m{suffix}"
    thinflow.save(digits.build(0), path)
    assert main(["benchmark", str(path), *flags, *QUICK]) == 1
    assert words in capsys.readouterr().err


def test_too_many_threads(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", files[1], "--threads", "1,5000"]) == 1
    assert "5000 threads are too many\nhint: give 1024 or fewer" in capsys.readouterr().err


def test_a_few_runs_do_not_say_how_certain_the_median_is(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", files[1], "--runs", "3", "--no-memory", "--no-peak"]) == 0
    verdict = capsys.readouterr().out.splitlines()[0]
    assert re.search(r" takes [\d.]+ ± \? (ms|µs) a run on 1 thread", verdict)


def test_the_verdict_has_the_figures_of_the_table(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A model of microseconds took `0.008 ± 0.000 ms`."""
    assert main(["benchmark", files[1], "--seconds", "0.2", "--no-memory", "--no-peak"]) == 0
    lines = capsys.readouterr().out.splitlines()
    verdict = re.search(r" takes (.* ± .*) (ms|µs) a run on 1 thread", lines[0])
    assert verdict is not None
    titles, row = lines[2:4]
    assert f"median {verdict[2]}" in titles
    assert f" {verdict[1]} " in row


def test_a_missing_file_is_told_with_what_there_is(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", files[0] + "x"]) == 1
    err = capsys.readouterr().err
    assert "there is no such file" in err
    assert "hint: in that folder there is: " in err


@BUILT
def test_a_page(files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "report.html"
    assert main(["benchmark", *files, "--json", "--profile", "--html", str(page), *QUICK]) == 0
    found = data_of(page.read_bytes())
    assert found["data"] == json.loads(capsys.readouterr().out)
    titles = [section["title"] for section in found["sections"]]
    assert titles[:4] == ["Result", "Latency", "Size and memory", "Operators"]
    assert main(["benchmark", files[1], "--html", str(page), *QUICK]) == 0
    *_, written, last = capsys.readouterr().out.splitlines()
    assert written == f"page: {page}"
    assert f"next: {data_of(page.read_bytes())['sections'][-1]['blocks'][0]['items'][0]['text']}" == last


def test_no_page_without_scripts_and_no_time_is_lost(
    files: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(thinflow, "benchmark", lambda *_, **__: pytest.fail("measured for nothing"))
    without_scripts(monkeypatch)
    assert main(["benchmark", files[0], "--html", "report.html"]) == 1
    assert "came without the scripts of its pages" in capsys.readouterr().err
