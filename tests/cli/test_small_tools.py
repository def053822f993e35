"""strip_unused, optimize_for_inference, graph_metrics, graph_to_dot, view, the memmapped converter and
import_pb_to_tensorboard, as people type them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.cli.examples import commands_shown
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.cli._oldflags import OldFlags
from thinflow.cli._options import names
from thinflow.ir.graph import Versions
from thinflow.ir.types import BOOL, FLOAT, UINT8

Out = pytest.CaptureFixture[str]


# --- flags --------------------------------------------------------------------------------------------------

FLAGS = OldFlags(
    "tool", {"name": ("", "a text"), "on": (False, "a switch"), "n": (3, "a number")}, {"m": "n"}
)


@pytest.mark.parametrize(
    ("argv", "values"),
    [
        ([], ("", False, 3)),
        (["--name=a=b", "--on", "--n=7"], ("a=b", True, 7)),
        (["-name", "x", "-on=yes", "--m", "-2"], ("x", True, -2)),
        (["--on", "true", "--name", "--on"], ("--on", True, 3)),
        (["--on", "OFF"], ("", False, 3)),
        (["--on=1", "--on=no"], ("", False, 3)),
        # what a web page makes of two dashes and of quotes, and what the shell of Windows leaves of them
        (["\N{EN DASH}name=x", "\N{EM DASH}on", "\N{MINUS SIGN}n", "7"], ("x", True, 7)),
        (["--name=\N{LEFT DOUBLE QUOTATION MARK}a b\N{RIGHT DOUBLE QUOTATION MARK}"], ("a b", False, 3)),
        (["--name='x'", "--n='7'"], ("x", False, 7)),
        (["--name='x','y'"], ("'x','y'", False, 3)),
        (["--name='"], ("'", False, 3)),
        # every tool took the flags of the logging library
        (["--logtostderr", "--v=1", "--name=x", "-alsologtostderr", "true", "--n=4"], ("x", False, 4)),
        (["--v", "2", "--vmodule=a=1", "--stderrthreshold", "0", "--name=x"], ("x", False, 3)),
    ],
)
def test_flags(argv: list[str], values: tuple[object, ...]) -> None:
    assert FLAGS.parse(argv) == dict(zip(("name", "on", "n"), values, strict=True))


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--nam=x"], "Unknown argument --nam=x.\nhint: did you mean 'name'"),
        (
            ["stray"],
            "Unknown argument stray.\nhint: a value stands behind its flag, with no blank around '='",
        ),
        (["--logtostder"], "Unknown argument --logtostder."),
        (["--on=maybe"], "Couldn't interpret value maybe for flag on."),
        (["--n=1.5"], "Couldn't interpret value 1.5 for flag n."),
        (["--name"], "the flag --name needs a value"),
    ],
)
def test_wrong_flags(argv: list[str], words: str, capsys: Out) -> None:
    assert FLAGS.parse(argv) is None
    assert words in capsys.readouterr().err


def test_a_flag_of_the_tool_wins_over_one_for_logging() -> None:
    tool = OldFlags("tool", {"log_dir": ("", ""), "variable": (False, "")}, python=True)
    assert tool.parse(["--log_dir=x", "--v", "1"]) == {"log_dir": "x", "variable": False}


def test_names_in_quotes() -> None:
    assert names("'a', 'b:1',\N{LEFT DOUBLE QUOTATION MARK}c\N{RIGHT DOUBLE QUOTATION MARK},''") == [
        *("a", "b:1", "c")
    ]


def test_flags_of_scripts_in_python(capsys: Out) -> None:
    """The beginning of a name will do, and `--noflag` is false: so had argparse and absl it."""
    tool = OldFlags(
        "tool", {**FLAGS.flags, "number": ("", "")}, FLAGS.aliases, python=True, examples="  tool"
    )
    assert tool.parse(["--nam=x", "-o", "--m", "2", "--nu", "3"]) == {
        "name": "x",
        "on": True,
        "n": 2,
        "number": "3",
    }
    assert tool.parse(["--on", "--noon"]) == {"name": "", "on": False, "n": 3, "number": ""}
    assert FLAGS.parse(["--noon"]) is None
    capsys.readouterr()
    wide = OldFlags("tool", {"in_a": ("", ""), "in_b": ("", "")}, python=True)
    assert wide.parse(["--in", "x"]) is None
    assert "hint: it is the beginning of 'in_a' and 'in_b'" in capsys.readouterr().err
    assert wide.parse(["--noin_a"]) is None
    assert wide.parse(["-"]) is None
    capsys.readouterr()
    assert tool.parse(["--help"]) is None
    out, err = capsys.readouterr()
    assert "\t--n=3\tint32\ta number\n" in out
    assert out.endswith("examples:\n  tool\n")
    assert not err


TOOLS = [
    "strip_unused",
    "optimize_for_inference",
    "graph_metrics",
    "graph_to_dot",
    "import_pb_to_tensorboard",
    "convert_graphdef_memmapped_format",
]


@pytest.mark.parametrize("tool", TOOLS)
def test_help_and_missing_flags(tool: str, capsys: Out) -> None:
    assert main([tool, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: thinflow {tool}\nFlags:\n\t--")
    examples = commands_shown(text)
    assert all(line.startswith(f"thinflow {tool} --") for line in examples)
    assert examples
    code = 255 if tool.startswith("convert") else 2
    assert main([tool]) == code
    error = capsys.readouterr().err
    assert "is required" in error or "can't be empty" in error
    assert main([tool, "--bogus=1"]) == code


# --- strip_unused -------------------------------------------------------------------------------------------


def strip(model: str, *more: str, inputs: str = "conv1/Relu", outputs: str = "logits/BiasAdd") -> int:
    flags = [f"--input_node_names={inputs}", f"--output_node_names={outputs}", "--output_graph=s.pb"]
    return main(["strip_unused", f"--input_graph={model}", "--input_binary=true", *flags, *more])


def test_strip_unused(model: str, capsys: Out) -> None:
    assert strip(model) == 0
    assert capsys.readouterr().out == "68 ops in the final graph.\n"
    fed = thinflow.load("s.pb").node("conv1/Relu")
    assert (fed.op, fed.get("dtype"), fed.get("shape")) == ("Placeholder", FLOAT, (None, 8, 8, 16))
    feed = {"conv1/Relu": np.ones((1, 8, 8, 16), np.float32)}
    ours, want = (thinflow.run(m, feed, ["logits/BiasAdd"], engine="reference") for m in ("s.pb", model))
    np.testing.assert_array_equal(ours["logits/BiasAdd"], want["logits/BiasAdd"])


def test_strip_unused_takes_types_and_writes_text(model: str, capsys: Out) -> None:
    assert strip(model, "--placeholder_type_enum", "4", "--output_binary=false", inputs="image:0") == 0
    assert Path("s.pb").read_bytes().startswith(b"node {")
    assert thinflow.load("s.pb").node("image").get("dtype") is UINT8


def test_strip_unused_keeps_versions_and_cuts_ports(model: str) -> None:
    graph = parse_graph(
        "x = Placeholder() {dtype=uint8, shape=shape[4]}\ns = Split(d, x) {T=uint8, num_split=2}\n"
        "y = Relu(s:1) {T=uint8}\nd = Const() {dtype=int32, value=int32[]{0}}"
    )
    graph.versions = Versions(producer=22)
    thinflow.save(graph, "split.pb")
    assert strip("split.pb", inputs="s:1", outputs="y") == 0
    back = thinflow.load("s.pb")
    assert back.versions == Versions(producer=22)
    assert [n.op for n in back] == ["Placeholder", "Relu"]
    assert back.inputs[0].dtype is UINT8


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"inputs": "conv1/Rel"}, "there is no input 'conv1/Rel'"),
        ({"outputs": "logits/BiasAd"}, "did you mean 'logits/BiasAdd'"),
        ({"more": "--placeholder_type_enum=1,1"}, "there are 2 types for 1 inputs"),
        ({"more": "--placeholder_type_enum=7000"}, "a placeholder cannot be of type 7000"),
        ({"more": "--placeholder_type_enum=flaot"}, "'flaot' is not a TensorFlow type name"),
    ],
)
def test_strip_unused_mistakes(model: str, capsys: Out, flags: dict[str, str], words: str) -> None:
    more = [flags.pop("more")] if "more" in flags else []
    assert strip(model, *more, **flags) == 1
    assert words in capsys.readouterr().err
    assert not Path("s.pb").exists()


# --- optimize_for_inference ---------------------------------------------------------------------------------


def optimize(model: str, *more: str) -> int:
    flags = ["--input_names=image", "--output_names=probabilities"]
    return main(["optimize_for_inference", f"--input={model}", "--output=o.pb", *flags, *more])


def test_optimize_for_inference(model: str, capsys: Out, paste: Callable[[str], int]) -> None:
    assert optimize(model) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert "89 -> 47 nodes" in first
    assert "verified" in first
    assert paste(last) == 0
    graph = thinflow.load("o.pb")
    assert graph.node("conv1/BatchNorm/FusedBatchNormV3").op == "BiasAdd"
    assert "conv1/Conv2D_bn_offset" in graph
    assert not [n for n in graph if n.op in {"Identity", "FusedBatchNormV3"}]
    assert thinflow.verify(model, "o.pb").ok


SWITCHED = """
x = Placeholder() {dtype=float, shape=shape[1,2]}
keras_learning_phase = Placeholder() {dtype=bool, shape=shape[]}
my/phase = PlaceholderWithDefault(no) {dtype=bool, shape=shape[]}
no = Const() {dtype=bool, value=bool[]{False}}
a = LogicalOr(keras_learning_phase, my/phase)
n = Neg(x) {T=float}
c = CheckNumerics(n) {T=float, message="bad"}
y = Select(a, c, x) {T=float}
"""


def test_switches_become_constants_and_checks_are_spliced(model: str, capsys: Out) -> None:
    graph = parse_graph(SWITCHED)
    assert graph.node("keras_learning_phase").get("dtype") is BOOL
    thinflow.save(graph, "switch.pb")
    argv = [
        "optimize_for_inference",
        "--input=switch.pb",
        "--output=o.pb",
        "--input_names=x",
        "--output_names=y",
    ]
    assert main([*argv, "--placeholder_to_const_names=my/phase=True"]) == 0
    (y,) = thinflow.run("o.pb", {"x": np.float32([[1, 2]])}, ["y"], engine="reference").values()
    assert y.tolist() == [[-1, -2]]
    assert not [n for n in thinflow.load("o.pb") if n.op == "CheckNumerics" or "phase" in n.name]


def test_a_switch_that_is_no_bool_is_warned_of(model: str, capsys: Out) -> None:
    thinflow.save(
        parse_graph(
            "x = Placeholder() {dtype=float}\np = Placeholder() {dtype=float}\ny = AddV2(x, p) {T=float}"
        ),
        "s.pb",
    )
    argv = ["--input=s.pb", "--output=o.pb", "--input_names=x", "--output_names=y", "--verify=false"]
    assert main(["optimize_for_inference", *argv, "--placeholder_to_const_names=p=False"]) == 0
    assert "warning: 'p' is no bool placeholder and stays" in capsys.readouterr().out


def test_convolutions_are_fused_unless_for_toco(model: str, capsys: Out) -> None:
    graph = parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[1,4,4,1]}\n"
        "p = Const() {dtype=int32, value=int32[4,2]{0,0,1,1,1,1,0,0}}\n"
        'm = MirrorPad(x, p) {T=float, Tpaddings=int32, mode="REFLECT"}\n'
        "w = Const() {dtype=float, value=float[1,1,1,1]{2}}\n"
        'y = Conv2D(m, w) {T=float, strides=[1,1,1,1], padding="VALID", data_format="NHWC"}'
    )
    thinflow.save(graph, "pad.pb")
    argv = [
        "optimize_for_inference",
        "--input=pad.pb",
        "--output=o.pb",
        "--input_names=x",
        "--output_names=y",
    ]
    assert main(argv) == 0
    assert thinflow.load("o.pb").node("y").op == "FusedPadConv2D"
    assert main([*argv, "--toco_compatible", "--frozen_graph", "false"]) == 0
    assert Path("o.pb").read_bytes().startswith(b"node {")
    assert thinflow.load("o.pb").node("y").op == "Conv2D"


def test_a_setting_needs_a_value(model: str, capsys: Out) -> None:
    assert optimize(model, "--placeholder_to_const_names=phase") == 1
    assert "'phase' is no setting" in capsys.readouterr().err


# --- graph_metrics ------------------------------------------------------------------------------------------


def test_graph_metrics(model: str, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    assert main(["graph_metrics", "--graph", model]) == 0
    captured = capsys.readouterr()
    assert captured.out == "Total: weight_parameters=43498\nTotal: flops=466685\n"
    assert "there is no 'Mul:0': the input is 'image'" in captured.err
    assert (
        main(["graph_metrics", "--graph", model, "--input_layer=image:0", "--print_nodes", "--batch_size=2"])
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert "conv1/Conv2D(Conv2D): flops=36864" in lines
    assert "conv1/Relu(Relu): flops=None" in lines
    assert lines[-1] == "Total: flops=933369"


def test_graph_metrics_for_machines(model: str, capsys: Out) -> None:
    assert main(["graph_metrics", f"--graph={model}", "--json", "--statistics=flops"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["input"], data["shape"], data["macs"]) == ("image", [1, 8, 8, 1], 466685 // 2)
    assert data["constants"] == 43906


def test_unknown_sizes_are_not_zero(model: str, capsys: Out) -> None:
    thinflow.save(
        parse_graph("x = Placeholder() {dtype=float, shape=shape[?,?]}\ny = Neg(x) {T=float}"), "u.pb"
    )
    argv = ["graph_metrics", "--graph=u.pb", "--input_layer=x"]
    assert main([*argv, "--print_nodes"]) == 0
    captured = capsys.readouterr()
    assert "y(Neg): flops=unknown" in captured.out
    assert captured.out.endswith("Total: flops=None\n")
    assert "1 nodes of unknown sizes are not counted, first 'y'" in captured.err
    assert main([*argv, "--input_shape_override=1,5"]) == 0
    assert capsys.readouterr().out.endswith("Total: flops=5\n")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--input_layer=imag"], "there is no node named 'imag'"),
        (["--statistics=flop"], "did you mean 'flops'"),
        (["--batch_size=0"], "the batch size is 0"),
        (["--input_shape_override=1,x"], "'x' is not a size"),
        (["--input_shape_override=1,?"], "has an unknown size"),
    ],
)
def test_graph_metrics_mistakes(model: str, capsys: Out, flags: list[str], words: str) -> None:
    assert main(["graph_metrics", f"--graph={model}", *flags]) == 1
    assert words in capsys.readouterr().err


# --- pictures, packages, TensorBoard ------------------------------------------------------------------------


def test_graph_to_dot(model: str, capsys: Out) -> None:
    assert main(["graph_to_dot", f"--graph={model}", "--dot_output=x.dot"]) == 0
    assert capsys.readouterr().out == "Created DOT file 'x.dot'.\n"
    assert (
        Path("x.dot").read_text("utf-8").startswith('digraph graphname {\n  "image" [label="Placeholder"];\n')
    )


def test_view(model: str, capsys: Out, paste: Callable[[str], int]) -> None:
    assert main(["view", model, "-o", "x.svg", "--engine", "thinflow"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("wrote x.svg: 36 boxes, ")
    assert paste(last) == 0
    capsys.readouterr()
    assert main(["view", model, "-o", "y.svg", "--depth", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == "y.svg"
    assert main(["view", model, "-o", "x.gif"]) == 1
    assert "names no kind of picture" in capsys.readouterr().err


def test_memmapped(model: str, capsys: Out, paste: Callable[[str], int]) -> None:
    argv = ["convert_graphdef_memmapped_format", f"--in_graph={model}", "--out_graph=x.mmpb"]
    assert main([*argv, "--min_conversion_size_bytes=1000"]) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == "Converted 4 nodes"
    assert second.startswith("wrote x.mmpb: 184 kB, ")
    assert last == "next: thinflow benchmark x.mmpb"
    assert main(["inspect", "x.mmpb"]) == 0
    assert "frozen GraphDef in a memmapped package of 4 mapped regions" in capsys.readouterr().out
    assert main([*argv, "--min_conversion_tensor_size=0"]) == 255
    assert "must be greater than 0" in capsys.readouterr().err
    assert thinflow.verify(model, "x.mmpb").ok


def test_tensorboard(model: str, capsys: Out) -> None:
    assert main(["import_pb_to_tensorboard", f"--model_dir={model}", "--log_dir=my logs"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert last == "Model Imported. Visualize by running: tensorboard --logdir='my logs'"
    assert main(["inspect", first.removeprefix("wrote ")]) == 0
    assert "frozen GraphDef in a TensorBoard event file" in capsys.readouterr().out
