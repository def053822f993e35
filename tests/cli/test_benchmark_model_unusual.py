"""benchmark_model with flags as people spell them, and with what cannot work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.engines.session import Session

TEXT = """
    x = Placeholder() {dtype=float, shape=shape[2,3]}
    w = Const() {value=float[3,4]{range}}
    y = MatMul(x, w) {T=float}
    z = Relu(y) {T=float}
    inputs: x
    outputs: z
"""
QUIET = [f"--show_{what}=false" for what in ("run_order", "time", "memory", "type")]
QUICK = ["--max_num_runs=2", "--num_threads=1", "--engine=reference"]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    thinflow.save(parse_graph(TEXT), "m.pb")
    return "--graph=m.pb"


def outcome(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["benchmark_model", *argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def one_op(path: Path, op: str, element: str, shape: str) -> None:
    text = f"""
        x = Placeholder() {{dtype={element}, shape=shape[{shape}]}}
        y = {op}(x) {{T={element}}}
        inputs: x
        outputs: y
    """
    thinflow.save(parse_graph(text), path)


@pytest.mark.parametrize(
    "off",
    [
        ["--show_type=false"],
        ["-show_type=false"],
        ["--show_type=0"],
        ["--show_type=False"],
        ["--show_type", "false"],
        ["--noshow_type"],
        ["-noshow_type"],
    ],
)
def test_spellings_of_a_switch(model: str, off: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome([model, *QUICK, *off], capsys)
    assert code == 0
    assert "Run Order" in out
    assert "Summary by node type" not in out


def test_values_behind_a_blank(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["-graph", "m.pb", "--max_num_runs", "3", "-num_threads", "1", "--engine", "reference"]
    code, out, _ = outcome(argv, capsys)
    assert code == 0
    assert "Timings (microseconds): count=3 " in out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--num_threads=5000"], "5000 threads are too many\nhint: give 1024 or fewer"),
        (["--num_threads=99999999999999999999"], "are too many"),
        (["--input_layer_shape=99999999999999999999,3"], "of the sizes 99999999999999999999,3 is too large"),
        (
            ["--input_layer_shape=100000,10000"],
            "the input 'x' of the sizes 100000,10000 is too large\nhint: it may have 32 sizes and 2 GiB",
        ),
        (
            ["--benchmark_name=b", "--output_prefix=no/such/"],
            "no/such/b: its folder does not exist\nhint: create",
        ),
        (["--profiling_output_csv_file=no/ops.csv"], "no/ops.csv: its folder does not exist"),
        (["--step_stats_name=no/stats"], "no/stats: its folder does not exist"),
        (["--step_stats_name=m.pb"], "m.pb: this file exists already"),
    ],
)
def test_what_cannot_work_is_told_before_anything_runs(
    model: str, flags: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = outcome([model, *QUICK, *flags], capsys)
    assert (code, out) == (1, "")
    assert words in err
    assert "Running benchmark" not in err


def test_a_result_file_that_exists_is_told_before_anything_runs(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [model, *QUICK, *QUIET, "--benchmark_name=b", "--output_prefix=r_"]
    code, _, err = outcome(flags, capsys)
    assert code == 0
    assert "Outputting: [MatMul]" in err
    code, _, err = outcome(flags, capsys)
    assert code == 1
    assert "r_b: this result file exists already" in err
    assert "Running benchmark" not in err


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("?,?,?,3", "--input_layer=x --input_layer_shape=1,224,224,3"),
        ("?,?,5", "--input_layer=x --input_layer_shape=1,16,5"),
    ],
)
def test_open_sizes_are_asked_for(
    tmp_path: Path, shape: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one_op(tmp_path / "m.pb", "Relu", "float", shape)
    code, _, err = outcome([f"--graph={tmp_path / 'm.pb'}"], capsys)
    assert code == 1
    assert "error: the sizes of the input 'x' are open\n" in err
    assert f"hint: give all, such as {words}\n" in err


def test_an_input_that_nothing_is_known_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "x = Placeholder() {dtype=float}\ny = Relu(x) {T=float}\ninputs: x\noutputs: y"
    thinflow.save(parse_graph(text), tmp_path / "m.pb")
    code, _, err = outcome([f"--graph={tmp_path / 'm.pb'}"], capsys)
    assert code == 1
    assert "error: the number of sizes of the input 'x' is open\n" in err


def test_text_on_an_engine_whose_profiler_takes_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ai_edge_litert")
    one_op(tmp_path / "m.pb", "Identity", "string", "2")
    flags = [f"--graph={tmp_path / 'm.pb'}", "--max_num_runs=2", "--engine=litert", "--num_threads=1"]
    code, out, _ = outcome(flags, capsys)
    assert code == 0
    assert "the reference interpreter's kernels" in out
    assert "a model that is fed strings cannot be profiled here" in out


def test_a_sound_is_made_up_for_a_graph_that_takes_one_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
        wav = Placeholder() {dtype=string, shape=shape[]}
        sound = DecodeWav(wav) {desired_channels=1, desired_samples=100}
        inputs: wav
        outputs: sound
    """
    thinflow.save(parse_graph(text), tmp_path / "m.pb")
    flags = [f"--graph={tmp_path / 'm.pb'}", *QUICK, *QUIET, "--show_sizes"]
    code, out, _ = outcome(flags, capsys)
    assert code == 0
    assert "sound\t2\tfloat\t2\t100\t1\tint32\t0" in out


def test_eight_bit_types_keep_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one_op(tmp_path / "m.pb", "Identity", "quint8", "3")
    _, out, _ = outcome([f"--graph={tmp_path / 'm.pb'}", *QUICK, "--show_sizes"], capsys)
    assert "y\t1\tquint8\t1\t3" in out


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_sizes_of_the_operators_of_a_file(
    model: str, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("onnxruntime")
    thinflow.convert("m.pb", f"m.{suffix}")
    flags = [f"--graph=m.{suffix}", "--max_num_runs=2", "--num_threads=1", *QUIET, "--show_sizes"]
    code, out, _ = outcome(flags, capsys)
    assert code == 0
    _, _, table = out.partition("tensor sizes in run order ========\n")
    assert "z\t1\tfloat\t2\t2\t4" in table.splitlines()


def test_making_a_graph_ready_belongs_to_the_initialization(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ready: list[int] = []
    own = Session.run

    def run(self: Session, *args: object) -> list[np.ndarray]:
        ready.append(len(self._compiled))
        return own(self, *args)

    monkeypatch.setattr(Session, "run", run)
    assert outcome([model, *QUICK], capsys)[0] == 0
    assert ready == [1, 1, 1]  # a warm-up and two runs, none of which had to compile


@pytest.mark.parametrize("engine", ["litert", "onnxruntime"])
def test_tables_of_a_graph_that_the_engine_runs_in_part(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine's own profiler times its nodes, the clock the interpreter's; a line says which are whose."""
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("onnxruntime")
    text = """
        wav = Placeholder() {dtype=string, shape=shape[]}
        sound = DecodeWav(wav) {desired_channels=1, desired_samples=16}
        w = Const() {value=float[1,900]{range}}
        a = MatMul(sound, w) {T=float}
        y = Softmax(a) {T=float}
        inputs: wav
        outputs: y
    """
    thinflow.save(parse_graph(text), tmp_path / "sound.pb")
    argv = [f"--graph={tmp_path / 'sound.pb'}", f"--engine={engine}", "--max_num_runs=2", "--warmup_runs=0"]
    code, out, err = outcome(argv, capsys)
    assert code == 0, err
    assert f"times of nodes: in 2 parts, reference (1 node), {engine} (2 nodes)" in out
    assert "5 nodes defined 3 nodes observed" in out
