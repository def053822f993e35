"""benchmark_model as people type it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.formats import benchmark_entries

TEXT = """
    image = Placeholder() {dtype=float, shape=shape[?,6,6,2]}
    filter = Const() {value=float[3,3,2,4]{range}}
    conv = Conv2D(image, filter) {T=float, strides=[1,1,1,1], padding="SAME"}
    relu = Relu(conv) {T=float}
    sizes = Const() {value=int32[2]{-1,144}}
    flat = Reshape(relu, sizes) {T=float, Tshape=int32}
    weights = Const() {value=float[144,5]{range}}
    logits = MatMul(flat, weights) {T=float}
    out = Softmax(logits) {T=float}
    inputs: image
    outputs: out
"""
QUICK = ["--max_num_runs=5", "--num_threads=1", "--engine=reference"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    thinflow.save(parse_graph(TEXT), tmp_path / "model.pb")
    return tmp_path / "model.pb"


def outcome(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["benchmark_model", *argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_guides_command(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [f"--graph={model}", "--input_layer=image:0", "--input_layer_shape=1,6,6,2"]
    flags += [
        "--input_layer_type=float",
        "--output_layer=out:0",
        "--show_run_order=false",
        "--show_flops=true",
    ]
    code, out, err = outcome([*flags, *QUICK, "--logtostderr"], capsys)
    assert code == 0
    assert "Run Order" not in out
    assert "============================== Top by Computation Time ==============================" in out
    assert "============================== Summary by node type ==============================" in out
    assert re.search(r"^Timings \(microseconds\): count=5 first=\d+ curr=\d+ min=\d+ max=\d+ avg=", out, re.M)
    assert re.search(r"^Memory \(bytes\): count=5 curr=\d+\(all same\)$", out, re.M)
    assert "9 nodes defined 8 nodes observed" in out
    # 2 * (36 outputs * 4 channels * 3 * 3 * 2) + 2 * (144 * 5)
    assert "FLOPs estimate: 6.62k" in out
    assert "FLOPs/second: " in out
    assert "Input shapes: [1,6,6,2]" in err
    assert "Running benchmark for max 5 iterations, max 10 seconds without detailed stat logging" in err
    assert "Running benchmark for max 5 iterations, max 10 seconds with detailed stat logging" in err
    assert re.search(
        r"^Average inference timings in us: Warmup: \d+, no stats: \d+, with stats: \d+$", out, re.M
    )


def test_rows_have_tabs_and_widths(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = outcome([f"--graph={model}", *QUICK], capsys)
    header = next(line for line in out.splitlines() if "[node type]" in line)
    assert header == (
        "\t                             [node type]\t  [first]\t [avg ms]\t     [%]\t  [cdf%]"
        "\t  [mem KB]\t[times called]\t[Name]"
    )
    row = next(line for line in out.splitlines() if line.endswith("\tconv"))
    assert re.fullmatch(
        r"\t +Conv2D\t *[\d.]{5,}\t *[\d.]{5,}\t *[\d.]+%\t *[\d.]+%\t *0.576\t +1\tconv", row
    )


def test_the_layout_of_tensorflow_1(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = outcome([f"--graph={model}", *QUICK, "--table_style=tf1"], capsys)
    header = next(line for line in out.splitlines() if "[node type]" in line)
    assert header.startswith("\t             [node type]\t          [start]\t  [first]")


def test_comma_separated_values(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = outcome([f"--graph={model}", *QUICK, "--csv"], capsys)
    assert "node type, first, avg_ms, %, cdf%, mem KB, times called, name\n" in out
    assert re.search(r"^Conv2D, [\d.e-]+, [\d.e-]+, [\d.]+%, [\d.]+%, 0.576, 1, conv$", out, re.M)
    assert "node type, count, avg_ms, avg %, cdf %, mem KB, times called\n" in out


def test_inputs_and_outputs_are_found(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = outcome([f"--graph={model}", *QUICK, "--show_sizes"], capsys)
    assert code == 0
    assert "Output layers: []" in err or "Output layers: [out]" in err


def test_sizes(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = outcome([f"--graph={model}", *QUICK, "--show_sizes", "--output_layer=out"], capsys)
    _, _, table = out.partition("============ Node output tensor sizes in run order ========\n")
    lines = table.splitlines()
    assert [line.split("\t")[0] for line in lines[-4:]] == ["relu", "flat", "logits", "out"]
    assert "conv\t1\tfloat\t4\t1\t6\t6\t4" in lines
    assert lines[-1] == "out\t1\tfloat\t2\t1\t5"


@pytest.mark.parametrize("engine", ["litert", "auto"])
def test_other_engines(model: Path, engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [f"--graph={model}", "--max_num_runs=3", "--num_threads=1", f"--engine={engine}"]
    code, out, _ = outcome(argv, capsys)
    assert code == 0
    assert re.search(r"CONV_2D\t.*\trelu$", out, re.M)  # the fused operator goes by its last node's name
    assert "Timings (microseconds): count=3" in out


def test_a_converted_model(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.convert(model, tmp_path / "m.tflite", shapes={"image": (1, 6, 6, 2)})
    argv = [f"--graph={tmp_path / 'm.tflite'}", "--num_runs=3", "--min_secs=0", "--num_threads=1"]
    code, out, _ = outcome([*argv, "--warmup_min_secs=0"], capsys)
    assert code == 0
    assert "Inference timings in us: Init: " in out
    assert "CONV_2D" in out
    assert "Timings (microseconds): count=3" in out


def test_result_files(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [f"--graph={model}", *QUICK, "--benchmark_name=a/b", f"--output_prefix={tmp_path}/res_"]
    assert outcome(flags, capsys)[0] == 0
    (entry,) = benchmark_entries.from_bytes((tmp_path / "res_a__b").read_bytes())
    assert (entry.name, entry.runs) == ("a/b", 5)
    assert entry.seconds > 0
    assert entry.throughput > 0
    names = sorted(p.name for p in tmp_path.glob("res_*"))
    assert "res_a__b_meta-init" in names
    assert "res_a__b_meta-first-inference" in names
    assert "res_a__b_meta-init-plus-first-inference" in names
    assert "res_a__b_Conv2D" in names
    code, _, err = outcome(flags, capsys)
    assert code == 1
    assert "this result file exists already" in err


def test_values_reach_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "x = Placeholder() {dtype=int32, shape=shape[3]}\ny = Neg(x) {T=int32}\ninputs: x\noutputs: y"
    thinflow.save(parse_graph(text), tmp_path / "m.pb")
    flags = [f"--graph={tmp_path / 'm.pb'}", "--input_layer=x", "--input_layer_type=int32"]
    flags += ["--input_layer_shape=3", "--output_layer=y", *QUICK]
    assert outcome([*flags, "--input_layer_values=1,2"], capsys)[0] == 0
    code, _, err = outcome([*flags, "--input_layer_values=1,2,3,4"], capsys)
    assert code == 1
    assert "input 'x': 4 values for 3 elements" in err


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (["--input_layer=image", "--input_layer_shape=1,6,6,2:1"], 255, "same number of items"),
        (["--input_layer=image", "--input_layer_type=float,float"], 255, "same number of items"),
        (["--input_layer_shape=1,6,x,2"], 1, "'x' is not a size"),
        (["--input_layer_shape=-1,6,6,2"], 1, "a size is open"),
        (["--input_layer_type=flot"], 1, "'flot' is not a TensorFlow type name"),
        (["--input_layer_type=resource"], 1, "a resource cannot be fed"),
        (["--input_layer_values=a"], 1, "'a' are not numbers"),
        (["--max_num_runs=many"], 1, "--max_num_runs=many is not a whole number"),
        (["--max_time=long"], 1, "--max_time=long is not a number"),
        (["--max_num_runs=0", "--max_time=0"], 1, "neither the number of runs nor the time is limited"),
        (["--output_layer=outt"], 1, "did you mean 'out'"),
        (["--input_layer=imagee"], 1, "did you mean 'image'"),
        (["--table_style=tf3"], 1, "choose tf2 or tf1"),
        (["--engine=tpu"], 1, "tpu"),
        (["--init_ops=init"], 1, "init"),
        (["--graf=x"], 2, "--graf=x"),
    ],
)
def test_wrong_flags(
    model: Path, flags: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _, err = outcome([f"--graph={model}", *QUICK[:2], *flags], capsys)
    assert found == code, err
    assert words in err
    assert "Traceback" not in err


def test_no_graph(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = outcome([], capsys)
    assert code == 2
    assert "graph file name can't be empty" in err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(["--help"], capsys)[0] == 0


def test_the_time_ends_a_phase(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [
        f"--graph={model}",
        "--engine=reference",
        "--num_threads=1",
        "--max_num_runs=0",
        "--max_time=0.05",
    ]
    code, out, _ = outcome(flags, capsys)
    assert code == 0
    assert re.search(r"no stats: count=\d{2,} ", out)


@pytest.mark.parametrize(
    ("flags", "words", "hint"),
    [
        (["--input_layer=imge"], "there is no node named 'imge'", "did you mean 'image'?"),
        (["--output_layer=outt"], "there is no node named 'outt'", "did you mean 'out'"),
        (["--target_layer=rellu"], "there is no node named 'rellu'", "did you mean 'relu'"),
        (["--input_layer_type=flot"], "'flot' is not a TensorFlow type name", "did you mean 'float'"),
        (["--input_layer_type=int32"], "the input 'image' is float, not int32", "--input_layer_type=float"),
        (["--input_layer_shape=1x6x6x2"], "'1x6x6x2' is not a size", "1,224,224,3"),
        (["--input_layer_shape=1,6,-1,2"], "a size is open", "write all of them"),
        (
            ["--input_layer_shape=1,6,6"],
            "the input 'image' has 4 sizes, [?,6,6,2], and 3 were given: [1,6,6]",
            "give sizes like 1,6,6,2",
        ),
        (["--input_layer_shape=1,6,6,2:3"], "There must be the same number of items", "the inputs are image"),
        (["--input_layer_values=1,a"], "'1,a' are not numbers", "':' between inputs"),
        (["--num_threads=two"], "--num_threads=two is not a whole number", "give a number"),
        (["--max_time=soon"], "--max_time=soon is not a number", "give seconds"),
        (["--engine=litter"], "there is no engine 'litter'", "did you mean 'litert'?"),
    ],
)
def test_what_is_wrong_is_named_with_the_next_step(
    model: Path, flags: list[str], words: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = outcome([f"--graph={model}", "--max_num_runs=1", *flags], capsys)
    assert (code, out) == (1, "")
    assert words in err
    assert hint in err


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_what_is_wrong_with_a_converted_model(
    model: Path, tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime" if suffix == ".onnx" else "ai_edge_litert")
    path = tmp_path / f"m{suffix}"
    thinflow.convert(model, path, shapes={"image": (1, 6, 6, 2)})
    for flag, words in (
        ("--input_layer=imge", "did you mean 'image'?"),
        ("--output_layer=outt", "did you mean 'out'?"),
        ("--input_layer_type=int8", "the input 'image' is float, not int8"),
        ("--input_layer_shape=1,6,6", "and 3 were given: [1,6,6]"),
    ):
        code, _, err = outcome([f"--graph={path}", "--max_num_runs=1", flag], capsys)
        assert code == 1
        assert words in err


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_a_converted_model_by_the_names_of_the_graph(
    model: Path, tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime" if suffix == ".onnx" else "ai_edge_litert")
    path = tmp_path / f"m{suffix}"
    thinflow.convert(model, path, shapes={"image": (1, 6, 6, 2)})
    argv = [f"--graph={path}", "--max_num_runs=2", "--num_threads=1", "--show_flops", "--show_time=false"]
    code, out, _ = outcome([*argv, "--show_memory=false"], capsys)
    assert code == 0
    assert "FLOPs estimate: 6.62k" in out
    observed = {line.split("\t")[-1] for line in out.splitlines() if re.search(r"\d%\t", line)}
    own = {"image", "conv", "relu", "flat", "logits", "out", ""}
    assert {"relu", "out"} <= observed
    assert {n for n in observed if not n.startswith("Reorder")} <= own | set(observed_types(out))


def observed_types(out: str) -> list[str]:
    """The first column of the table of node types, whose rows end with a number."""
    return [n for n in re.findall(r"\t([^\t\n]+)$", out, re.M) if n.strip().isdigit()]


@pytest.mark.parametrize(
    "flags",
    [
        ["--intra_op=1"],
        ["--intra_op_parallelism_threads", "1", "--inter_op_parallelism_threads", "1"],
        ["--num_intra_threads=1", "--num_inter_threads=2"],
    ],
)
def test_spellings_of_threads(model: Path, flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = outcome([f"--graph={model}", "--max_num_runs=2", *flags], capsys)
    assert code == 0
    assert "Num threads: [1]" in err
