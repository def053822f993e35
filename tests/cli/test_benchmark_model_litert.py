"""benchmark_model with the flags of LiteRT's tool."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.cli.examples import commands_shown
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.cli._oldflags import Setting
from thinflow.cli.compat.benchmark_model import WITHOUT_EFFECT
from thinflow.formats import step_stats

LOOKUP = """
    ids = Placeholder() {dtype=int32, shape=shape[1,3]}
    x = Placeholder() {dtype=float, shape=shape[1,2]}
    table = Const() {dtype=float, value=float[4,2]{1,2,3,4,5,6,7,8}}
    axis = Const() {dtype=int32, value=int32[]{0}}
    rows = GatherV2(table, ids, axis) {Tparams=float, Tindices=int32, Taxis=int32}
    y = Add(rows, x) {T=float}
    inputs: ids, x
    outputs: y
"""
SHORT = ["--num_threads=1", "--engine=reference", "--max_num_runs=2"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    thinflow.save(parse_graph(LOOKUP), tmp_path / "m.pb")
    return tmp_path / "m.pb"


@pytest.fixture
def lite(model: Path, tmp_path: Path) -> Path:
    pytest.importorskip("ai_edge_litert")
    thinflow.convert(model, tmp_path / "m.tflite")
    return tmp_path / "m.tflite"


def outcome(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["benchmark_model", *argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def plain_runs(out: str) -> int:
    found = re.search(r"^no stats: count=(\d+)", out, re.M)
    assert found
    return int(found[1])


def test_one_blank_line_between_tables(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [f"--graph={model}", *SHORT, "--show_sizes", "--output_layer=y", "--show_flops"]
    code, out, _ = outcome(argv, capsys)
    assert code == 0
    assert "\n\n\n" not in out
    after_blank = re.findall(r"\n\n(\S+ \S+ \S+)", out)
    assert [line.strip("= ") for line in after_blank] == [
        *("Run Order", "Top by", "Top by"),
        "Number of nodes",
        "Timings (microseconds): count=2",
        "Node output",
    ]


def test_a_time_to_run_at_least(lite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [
        f"--graph={lite}",
        "--num_threads=1",
        "--num_runs=4",
        "--min_secs=0.05",
        "--warmup_min_secs=0.05",
    ]
    code, out, err = outcome(flags, capsys)
    assert code == 0
    assert plain_runs(out) > 4
    assert "for at least 4 iterations and at least 0.05 seconds but terminate if exceeding 150 seconds" in err
    assert "for at least 1 iterations and at least 0.05 seconds" in err


def test_the_limit_beats_the_number_of_runs(lite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [
        f"--graph={lite}",
        "--num_threads=1",
        "--num_runs=100000000",
        "--max_secs=0.05",
        "--min_secs=0.01",
    ]
    # All of them would take the better part of an hour.
    assert plain_runs(outcome(flags, capsys)[1]) < 100_000_000


def test_a_number_of_runs_without_a_least_time(lite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [f"--graph={lite}", "--num_threads=1", "--num_runs=3", "--min_secs=0", "--warmup_min_secs=0"]
    assert plain_runs(outcome(flags, capsys)[1]) == 3


def test_the_frequency_spaces_the_runs(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin = time.perf_counter()
    argv = [f"--graph={model}", *SHORT[:2], "--max_num_runs=5", "--run_frequency=20", "--inference_delay=600"]
    assert outcome(argv, capsys)[0] == 0
    assert 0.2 <= time.perf_counter() - begin < 600


def test_warm_up_by_time(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [f"--graph={model}", *SHORT, "--warmup_runs=0", "--warmup_min_secs=0.05"]
    code, out, err = outcome(argv, capsys)
    assert (code, plain_runs(out)) == (0, 2)
    assert "at least 1 iterations and at least 0.05 seconds" in err


@pytest.mark.parametrize("suffix", ["pb", "tflite"])
def test_numbers_from_a_range_and_a_file(
    suffix: str, lite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.float32([5, 7]).tofile(tmp_path / "x:1.bin")
    colon = f"{tmp_path / 'x:1.bin'}".replace(":", "::")
    argv = [f"--graph={lite.with_suffix('.' + suffix)}", "--num_threads=1", "--max_num_runs=1"]
    code, out, err = outcome(
        [*argv, "--input_layer_value_range=ids,2,3", f"--input_layer_value_files=x:{colon}"], capsys
    )
    assert code == 0, err
    assert "Timings (microseconds): count=1" in out


def test_what_is_drawn_and_read() -> None:
    from thinflow.compat.benchmark_model.inputs import drawn_input

    ids = drawn_input("ids", "int32", [1000], 2, 3)
    assert set(ids.tolist()) == {2, 3}
    assert ids.dtype == np.int32
    floats = drawn_input("x", "float", [1000], -1, 1)
    assert floats.dtype == np.float32
    assert -1 <= floats.min() < -0.9
    assert 0.9 < floats.max() < 1
    assert set(drawn_input("b", "bool", [100], 0, 1).tolist()) == {False, True}


def test_strings_from_a_file(tmp_path: Path) -> None:
    from thinflow.compat.benchmark_model.inputs import file_input

    (tmp_path / "w").write_bytes(b"one\0two\0")
    words = file_input("w", "string", [2, 1], str(tmp_path / "w"))
    assert words.tolist() == [[b"one"], [b"two"]]


@pytest.mark.parametrize(
    ("flag", "problem", "hint"),
    [
        ("--input_layer_value_range=ids,2", "'ids,2' cannot be read", "NAME,LOWEST,HIGHEST"),
        ("--input_layer_value_range=ids,a,3", "'a,3' are not whole numbers", "such as ids,0,99"),
        ("--input_layer_value_range=ids,3,2", "3 is more than 2", "the lowest number comes first"),
        ("--input_layer_value_range=idz,0,1", "there is no input 'idz'", "did you mean 'ids'"),
        (
            "--input_layer_value_range=ids,0,3000000000",
            "int32 does not hold 0 to 3000000000",
            "it holds -2147",
        ),
        ("--input_layer_value_files=x", "'x' cannot be read", "NAME:FILE"),
        ("--input_layer_value_files=x:/no/such", "the values of 'x' cannot be read", "value_files"),
        ("--input_layer_value_files=x:{model}", "takes 8 bytes, the file holds", "tofile"),
        ("--run_frequency=fast", "--run_frequency=fast is not a number", "give seconds"),
        ("--max_secs=nan", "--max_secs=nan is not a number", "give seconds"),
        ("--op_profiling_output_mode=proto", "--op_profiling_output_mode=proto", "stdout or csv"),
    ],
)
def test_wrong_values(
    model: Path, flag: str, problem: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [f"--graph={model}", *SHORT, flag.replace("{model}", str(model))]
    code, out, err = outcome(argv, capsys)
    assert (code, out) == (1, "")
    assert problem in err
    assert hint in err


@pytest.mark.parametrize(
    "flags",
    [
        ["--profiling_output_csv_file={file}"],
        ["--op_profiling_output_mode=csv", "--op_profiling_output_file={file}"],
    ],
)
def test_the_profile_as_a_file(
    model: Path, tmp_path: Path, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ops.csv"
    argv = [f"--graph={model}", *SHORT, *(f.replace("{file}", str(file)) for f in flags)]
    code, out, _ = outcome(argv, capsys)
    assert code == 0
    assert "Run Order" not in out
    nodes, types = file.read_text().split("\n\n")
    assert nodes.startswith("node type, first, avg_ms, %, cdf%, mem KB, times called, name\n")
    assert re.search(r"^Add, .*, y$", nodes, re.M)
    assert types.startswith("node type, count, avg_ms, ")


def test_a_dry_run(lite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome([f"--graph={lite}", "--dry_run", "--num_threads=1"], capsys)
    assert code == 0
    assert out == (
        "dry run: the model was opened with litert and was not run; inputs: ids int32[1, 3], x float[1, 2]\n"
    )


def test_step_stats(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [f"--graph={model}", *SHORT, f"--step_stats_name={tmp_path / 'steps'}"]
    assert outcome(argv, capsys)[0] == 0
    steps = step_stats.from_bytes((tmp_path / "steps").read_bytes())
    assert [(name, op) for name, op, _, _ in steps][-2:] == [("rows", "GatherV2"), ("y", "Add")]
    assert all(micros >= 0 for _, _, micros, _ in steps)
    code, _, err = outcome(argv, capsys)
    assert code == 1
    assert "this file exists already" in err


def test_memory_and_every_flag(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [f"--graph={model}", *SHORT, "--report_peak_memory_footprint", "--verbose"]
    _, out, err = outcome(argv, capsys)
    assert re.search(r"^Overall peak memory footprint \(MB\): (\d|not known)", out, re.M)
    assert "--warmup_min_secs: []" in err


def _other(default: Setting) -> str:
    return str(not default).lower() if isinstance(default, bool) else f"{default}1"


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_flags_without_effect_are_told(name: str, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = _other(WITHOUT_EFFECT[name][0])
    argv = [f"--graph={model}", *SHORT, f"--{name}={value}", "--dry_run"]
    code, _, err = outcome(argv, capsys)
    assert code == 0
    assert err.splitlines()[0].startswith(f"note: --{name} has no effect: ")
    code, _, err = outcome([f"--graph={model}", *SHORT, "--dry_run"], capsys)
    assert "note:" not in err


def test_flags_of_one_reason_share_a_line(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        f"--graph={model}",
        *SHORT,
        "--use_gpu=true",
        "--gpu_backend=cl",
        "--use_xnnpack=false",
        "--dry_run",
    ]
    lines = outcome(argv, capsys)[2].splitlines()
    assert lines[:2] == [
        "note: --use_gpu, --gpu_backend have no effect: the CPU runs the model, no delegate does",
        "note: --use_xnnpack has no effect: LiteRT runs with XNNPACK as it comes",
    ]
    assert not lines[2].startswith("note:")


@pytest.mark.parametrize("tool", ["benchmark_model", "label_image", "label_wav"])
def test_help_shows_examples(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([tool, "--help"]) == 0
    shown = commands_shown(capsys.readouterr().out)
    assert shown
    assert all(line.startswith(f"thinflow {tool} -") for line in shown)


@pytest.mark.parametrize(("tool", "short"), [("label_image", "im"), ("label_wav", "w")])
def test_the_beginning_of_a_flag_is_enough(tool: str, short: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([tool, f"--{short}=a", "--gr", "no.pb", "--la=l.txt", "--out=y"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "Unknown argument" not in err
