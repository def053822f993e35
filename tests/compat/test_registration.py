"""What a model needs, for builds that leave out the rest."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import thinflow
from tests.library import constant, function, graph_of, node
from tests.night import some
from tests.transforms.golden import parse_graph
from thinflow import zoo
from thinflow.cli import main
from thinflow.compat import registration
from thinflow.compat.registration import Need, header, needs_of, read_ops_list, with_defaults
from thinflow.errors import ParameterError
from thinflow.ir.types import FLOAT

TEXT = """
    image = Placeholder() {dtype=float, shape=shape[1,6,6,2]}
    filter = Const() {value=float[3,3,2,4]{range}}
    conv = Conv2D(image, filter) {T=float, strides=[1,1,1,1], padding="SAME"}
    relu = Relu(conv) {T=float}
    again = Add(relu, relu) {T=float}
    inputs: image
    outputs: again
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    thinflow.save(parse_graph(TEXT), tmp_path / "model.pb")
    return tmp_path / "model.pb"


def outcome(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(argv)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_classes_go_by_the_types_of_the_node() -> None:
    needs, warnings = needs_of(parse_graph(TEXT), release="2.21")
    assert needs == [
        Need("Add", "BinaryOp<CPUDevice, functor::add<float>>"),
        Need("Const", "ConstantOp"),
        Need("Conv2D", "Conv2DOp<CPUDevice, float>"),
        Need("Placeholder", "PlaceholderOp"),
        Need("Relu", "ReluOp<CPUDevice, float>"),
    ]
    assert warnings == []
    doubles = parse_graph("x = Placeholder() {dtype=double}\ny = Add(x, x) {T=double}\ninputs: x\noutputs: y")
    assert Need("Add", "BinaryOp<CPUDevice, functor::add<double>>") in needs_of(doubles)[0]


def test_an_attribute_left_out_means_its_default() -> None:
    """Dequantize has kernels for bfloat16, which come first in the table, and for float, the default."""
    text = """
        codes = Placeholder() {dtype=quint8}
        low = Placeholder() {dtype=float}
        high = Placeholder() {dtype=float}
        y = Dequantize(codes, low, high) {T=quint8}
        inputs: codes, low, high
        outputs: y
    """
    needs, _ = needs_of(parse_graph(text))
    assert Need("Dequantize", "DequantizeOp<CPUDevice, quint8, float>") in needs
    other, _ = needs_of(parse_graph(text.replace("{T=quint8}", "{T=quint8, dtype=bfloat16}")))
    assert Need("Dequantize", "DequantizeOp<CPUDevice, quint8, bfloat16>") in other


def test_kernels_that_are_for_no_device_in_particular() -> None:
    """A loop needs NextIteration; TensorFlow registers it, Assert and IdentityN for any device."""
    ops = [node("next", "NextIteration", "c", T=FLOAT), node("all", "IdentityN", "c")]
    ops += [node("check", "Assert", "c", "c"), node("nothing", "NoOp")]
    needs, warnings = needs_of(graph_of([constant("c", 1.0), *ops]))
    assert warnings == []
    assert {Need("NextIteration", "NextIterationOp"), Need("IdentityN", "IdentityNOp")} <= set(needs)
    assert {Need("Assert", "AssertOp"), Need("NoOp", "NoOp")} <= set(needs)


def test_functions_count_and_unknown_ops_are_told() -> None:
    body = [node("y", "Tanh", "x", T=FLOAT), node("z", "SomethingNew", "y:y:0")]
    called = function("f", {"x": FLOAT}, body, {"r": "z:output:0"})
    graph = graph_of([constant("c", 1.0), node("call", "PartitionedCall", "c", f="@f")], [called])
    needs, warnings = needs_of(graph)
    assert {n.op for n in needs} == {"Const", "PartitionedCall", "Tanh"}
    assert len(warnings) == 1
    assert "no kernel of this name is known" in warnings[0]
    assert {n.op for n in needs_of(graph, ops_only=True)[0]} >= {"SomethingNew", "Tanh"}


def test_the_command_of_the_guide(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = outcome(["print_selective_registration_header", f"--graphs={model}"], capsys)
    assert (code, err) == (0, "")
    assert "#ifndef OPS_TO_REGISTER" in out
    assert '"Conv2DOp<CPUDevice, float>",\n' in out
    assert '"RecvOp",' in out
    assert 'same(op, "_Send")' in out
    assert "#define SHOULD_REGISTER_OP_GRADIENT false" in out


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("flags", [[], ["--ops_only"], ["--default_ops=all"]])
def test_the_header_is_cplusplus_11(
    model: Path, flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = outcome(["print_selective_registration_header", f"--graphs={model}", *flags], capsys)
    (tmp_path / "ops_to_register.h").write_text(out)
    absent = "true" if "all" in str(flags) else "false"
    other_class = "true" if flags else "false"
    (tmp_path / "t.cc").write_text(
        f"""#include "ops_to_register.h"
static_assert(SHOULD_REGISTER_OP("Conv2D"), "");
static_assert(SHOULD_REGISTER_OP("Conv3D") == {absent}, "");
static_assert(SHOULD_REGISTER_OP_KERNEL("Conv2DOp<CPUDevice,float>"), "");
static_assert(SHOULD_REGISTER_OP_KERNEL("Conv2DOp<CPUDevice,double>") == {other_class}, "");
int main() {{ return 0; }}
"""
    )
    command = ["g++", "-std=c++11", "-fsyntax-only", str(tmp_path / "t.cc")]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""


def test_lists_of_ops_go_in_and_out(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool = "print_selective_registration_header"
    _, out, _ = outcome([tool, f"--graphs={model}", "--ops_list", "--default_ops="], capsys)
    pairs = json.loads(out)
    assert ["Conv2D", "Conv2DOp<CPUDevice, float>"] in pairs
    assert len(pairs) == 5
    (tmp_path / "ops.json").write_text(out)
    argv = [tool, f"--graphs={tmp_path / 'ops.json'}", "--proto_fileformat=ops_list", "--ops_list"]
    assert json.loads(outcome([*argv, "--default_ops="], capsys)[1]) == pairs


def test_an_op_without_a_kernel_class() -> None:
    assert read_ops_list('[["Add", null], ["Sub", "S"]]', "x") == [Need("Add", ""), Need("Sub", "S")]
    assert 'same(op, "Add")' in header([Need("Add", "")])


def test_default_pairs() -> None:
    assert with_defaults([Need("B", "b")], " A:a , C:c") == [Need("A", "a"), Need("B", "b"), Need("C", "c")]
    with pytest.raises(ParameterError, match="'A' is no pair"):
        with_defaults([], "A")


def test_gradients_are_registered_with_their_op() -> None:
    assert "#define SHOULD_REGISTER_OP_GRADIENT true" in header([Need("SymbolicGradient", "G")])


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (["--graphs="], 2, "--graphs is needed"),
        (["--graphs={m}", "--proto_fileformat=xml"], 1, "choose rawproto, textproto or ops_list"),
        (["--graphs={m}", "--proto_fileformat=ops_list"], 1, "ops"),
        (["--graphs={m}", "--release=1.0"], 1, "the kernel classes of TensorFlow 1.0 are not known"),
        (["--graphs={m}", "--default_ops=x"], 1, "'x' is no pair"),
        (["--graphs=missing.pb"], 1, "there is no such file"),
        (["--grahps={m}"], 2, "graphs"),
    ],
)
def test_wrong_flags(
    model: Path, flags: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [flag.format(m=model) for flag in flags]
    found, _, err = outcome(["print_selective_registration_header", *argv], capsys)
    assert found == code
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[]", '[["a"]]', '{"a": 1}'])
def test_bad_lists(text: str) -> None:
    with pytest.raises(ParameterError, match=r"x\.json"):
        read_ops_list(text, "x.json")


def test_micro(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(["ops", str(model), "--micro"], capsys)
    assert code == 0
    assert "tflite::MicroMutableOpResolver<2>" in out
    assert "resolver.AddConv2D()" in out
    assert "resolver.AddAdd()" in out
    thinflow.convert(model, tmp_path / "m.tflite")
    assert outcome(["ops", str(tmp_path / "m.tflite"), "--micro"], capsys)[1] == out


def test_micro_names_and_gaps() -> None:
    text, warnings = registration.micro_resolver(["UNIDIRECTIONAL_SEQUENCE_LSTM", "LSTM"], ["Mfcc"])
    assert "AddUnidirectionalSequenceLSTM()" in text
    assert 'AddCustom("Mfcc"' in text
    assert warnings == ["TFLite Micro has no kernel for LSTM"]


def test_onnxruntime(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    code, out, _ = outcome(["ops", str(model), "--ort"], capsys)
    assert code == 0
    line = out.splitlines()[1]
    assert line.startswith("ai.onnx;17;")
    assert "Conv" in line.split(";")[2].split(",")


def test_the_plain_list(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = outcome(["ops", str(model)], capsys)
    assert ["Conv2D", "Conv2DOp<CPUDevice, float>"] in json.loads(out)
    assert "#ifndef" in outcome(["ops", str(model), "--header"], capsys)[1]


# --- every model we have, through a compiler ----------------------------------------------------------------

MICRO_METHODS = """
    Abs Add AddN ArgMax ArgMin AssignVariable AveragePool2D BatchMatMul BatchToSpaceNd BroadcastArgs
    BroadcastTo CallOnce Cast Ceil CircularBuffer Concatenation Conv2D Cos CumSum DepthToSpace
    DepthwiseConv2D Dequantize DetectionPostprocess Div DynamicUpdateSlice Elu EmbeddingLookup Equal
    EthosU Exp ExpandDims Fill Floor FloorDiv FloorMod FullyConnected Gather GatherNd Greater
    GreaterEqual HardSwish If L2Normalization L2Pool2D LeakyRelu Less LessEqual Log LogSoftmax
    LogicalAnd LogicalNot LogicalOr Logistic MaxPool2D Maximum Mean Minimum MirrorPad Mul Neg NotEqual
    Pack Pad PadV2 Prelu Quantize ReadVariable ReduceMax ReduceMin Relu Relu6 Reshape ResizeBilinear
    ResizeNearestNeighbor ReverseV2 Round Rsqrt SelectV2 Shape Sin Slice Softmax SpaceToBatchNd
    SpaceToDepth Split SplitV Sqrt Square SquaredDifference Squeeze StridedSlice Sub Sum Svdf Tanh
    Transpose TransposeConv UnidirectionalSequenceLSTM Unpack VarHandle While ZerosLike
"""
"""The methods of `tflite::MicroMutableOpResolver`, `Add` left out."""


def compiles(text: str, folder: Path) -> str:
    """What a compiler has against the code, with a header of ours for TFLite Micro's; "" if nothing."""
    header = folder / "tensorflow" / "lite" / "micro" / "micro_mutable_op_resolver.h"
    header.parent.mkdir(parents=True, exist_ok=True)
    methods = "\n".join(
        f"  TfLiteStatus Add{name}() {{ return kTfLiteOk; }}" for name in MICRO_METHODS.split()
    )
    header.write_text(
        "enum TfLiteStatus { kTfLiteOk, kTfLiteError };\n"
        "namespace tflite { template <unsigned int n> struct MicroMutableOpResolver {\n"
        + methods
        + "\n}; }\n"
    )
    (folder / "model_ops.h").write_text(text)
    (folder / "use.cc").write_text(
        '#include "model_ops.h"\n#include "model_ops.h"\n'
        "int main() { ModelOpResolver resolver; return RegisterModelOps(resolver); }\n"
    )
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    command = [
        compiler,
        "-std=c++11",
        "-Wall",
        "-Werror",
        "-fsyntax-only",
        f"-I{folder}",
        str(folder / "use.cc"),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stderr


def test_every_name_is_a_method_of_the_resolver() -> None:
    text, warnings = registration.micro_resolver(sorted(registration._MICRO_OPS))
    called = re.findall(r"resolver\.Add(\w+)\(\)", text)
    assert not warnings
    assert len(called) == len(registration._MICRO_OPS)
    assert set(called) <= set(MICRO_METHODS.split())


def test_all_ops_at_once_compile(tmp_path: Path) -> None:
    hostile = 'x"); } int y = 1; //\n#error no\\'
    text, _ = registration.micro_resolver(
        [*sorted(registration._MICRO_OPS), "LSTM"], ["TFLite_Detection_PostProcess", hostile]
    )
    assert "\n#error" not in text
    assert compiles(text, tmp_path) == ""


def check_both(model: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The resolver of a model compiles, and covers the ops of the file that is converted from it."""
    code, micro, err = outcome(["ops", str(model), "--micro"], capsys)
    assert code == 0, err
    assert compiles(micro, folder) == "", model.name
    assert main(["convert", str(model), str(folder / "m.tflite"), "--no-verify"]) == 0
    capsys.readouterr()
    assert outcome(["ops", str(folder / "m.tflite"), "--micro"], capsys)[1] == micro
    code, ort, err = outcome(["ops", str(model), "--ort"], capsys)
    assert code == 0, err
    assert re.fullmatch(r"# Written by thinflow ops --ort\.\nai\.onnx;17;[A-Za-z0-9,]+\n", ort)
    assert main(["convert", str(model), str(folder / "m.onnx"), "--no-verify"]) == 0
    capsys.readouterr()
    assert outcome(["ops", str(folder / "m.onnx"), "--ort"], capsys)[1] == ort


@pytest.mark.parametrize("name", ["digits"])
def test_bundled_models(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zoo.write(name, tmp_path / "model.pb")
    check_both(tmp_path / "model.pb", tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", some(["mobilenet_v2", "mobilenet_v1", "resnet_v2_50", "inception_v3_2015"], 4)
)
def test_generated_models(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    zoo.write(name, tmp_path / "model.pb")
    check_both(tmp_path / "model.pb", tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["kws_CNN_S", "kws_DNN_S", "kws_DS_CNN_S", "kws_Basic_LSTM_S", "autoencoder"]
)
def test_trained_models(name: str, shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_both(shared / "models" / f"{name}.pb", tmp_path, capsys)


def test_onnx_files_of_several_domains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    inner = helper.make_graph([helper.make_node("Relu", ["x"], ["t"])], "then", [], [
        helper.make_tensor_value_info("t", onnx.TensorProto.FLOAT, [1])])  # fmt: skip
    nodes = [
        helper.make_node("Gelu", ["x"], ["g"], domain="com.microsoft"),
        helper.make_node("Greater", ["x", "g"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner),
    ]
    out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", [value], [out]), opset_imports=opsets)
    onnx.save(model, tmp_path / "m.onnx")
    code, text, _ = outcome(["ops", str(tmp_path / "m.onnx"), "--ort"], capsys)
    assert code == 0
    assert text.splitlines()[1:] == ["ai.onnx;19;Greater,If,Relu", "com.microsoft;1;Gelu"]


def test_other_vocabularies_have_no_kernels_in_tensorflow(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thinflow.convert(model, tmp_path / "m.tflite")
    code, _, err = outcome(["ops", str(tmp_path / "m.tflite")], capsys)
    assert code == 1
    assert "cannot be built into TensorFlow" in err
    assert (
        outcome(["print_selective_registration_header", f"--graphs={tmp_path / 'm.tflite'}"], capsys)[0] == 1
    )
