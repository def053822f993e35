"""Rules that look at operators of .tflite files, or at runs on samples: no case of graph text holds those."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lint.files import written
from tests.quantize.onnx_programs import Net
from tests.transforms.golden import parse_graph
from thinflow.ir.types import FLOAT, INT8, INT32
from thinflow.onnx.program import Tensor as OnnxTensor
from thinflow.onnx.writer import to_bytes as onnx_bytes
from thinflow.program.model import Quantization
from thinflow.tflite.model import Operator, Tensor
from thinflow.typing import Array


def codes(scale: float) -> Quantization:
    return Quantization(np.array([scale], np.float32), np.array([0], np.int64))


def eight_bit(name: str, shape: tuple[int, ...], scale: float = 0.1, data: Array | None = None) -> Tensor:
    return Tensor(name, shape, INT8, data, codes(scale))


def island(path: Path, *, is_island: bool) -> Path:
    """Eight bits, floats through a sine, and eight bits again; or floats to the end."""
    x, y = eight_bit("x", (1, 4)), eight_bit("y", (1, 4))
    real, sine = (Tensor(name, (1, 4), FLOAT) for name in ("real", "sine"))
    steps = [Operator("DEQUANTIZE", [x], [real]), Operator("SIN", [real], [sine])]
    if is_island:
        steps.append(Operator("QUANTIZE", [sine], [y]))
    return written(path, x, y if is_island else sine, *steps)


def test_a_float_part_between_eight_bits(tmp_path: Path) -> None:
    report = thinflow.lint(island(tmp_path / "m.tflite", is_island=True), select=["TF601"])
    (found,) = report.findings
    assert found.message == "1 float op between eight-bit parts (SIN)"
    assert found.nodes == ("sine",)


def test_a_float_end_is_no_island(tmp_path: Path) -> None:
    report = thinflow.lint(island(tmp_path / "m.tflite", is_island=False), select=["TF601"])
    assert not report.broken
    assert not report.findings


def test_an_eight_bit_softmax_at_the_end(tmp_path: Path) -> None:
    """The translation spells it out in a dozen ops; the file has one."""
    x, y = eight_bit("x", (1, 4)), eight_bit("y", (1, 4), 1 / 256)
    softmax = Operator("SOFTMAX", [x], [y], options={"beta": 1.0})
    path = written(tmp_path / "m.tflite", x, y, softmax)
    (found,) = thinflow.lint(path, select=["TF403"]).findings
    assert (found.message, found.flops) == ("the output 'y' is a SOFTMAX of 'x'", None)


def paired(net: Net, path: Path, *codes: str) -> Path:
    """Ops, each list of them between a pair of eight-bit codes and numbers, as .onnx files have them."""

    def pair(x: OnnxTensor) -> OnnxTensor:
        scale, zero = np.array(0.1, np.float32), np.array(0, np.int8)
        held = net.op("QuantizeLinear", x, scale, zero, element=INT8)
        return net.op("DequantizeLinear", held, scale, zero)

    y = pair(net.x)
    for listed in codes:
        for code in listed.split():
            y = net.op(code, y)
        y = pair(y)
    net.program.outputs = [y]
    path.write_bytes(onnx_bytes(net.program))
    return path


def test_an_onnx_layer_between_pairs_is_no_island(tmp_path: Path) -> None:
    path = paired(Net(1, 4, 6, 6), tmp_path / "m.onnx", "Sigmoid", "LeakyRelu Relu", "Relu", "Sigmoid")
    report = thinflow.lint(path, select=["TF601"])
    assert not report.broken
    assert not report.findings


def test_onnx_ops_without_an_integer_kernel_are_an_island(tmp_path: Path) -> None:
    path = paired(Net(1, 4, 6, 6), tmp_path / "m.onnx", "Sigmoid", "Sin", "Sigmoid LeakyRelu", "Sigmoid")
    report = thinflow.lint(path, select=["TF601"])
    assert [f.message for f in report.findings] == [
        "1 float op between eight-bit parts (Sin)",
        "2 float ops between eight-bit parts (Sigmoid, LeakyRelu)",
    ]


@pytest.mark.parametrize(
    ("told", "drops"),
    [((), False), ((0.5,), False), ((0.5, True), True), ((None, True), True), ((0.0, True), False)],
)
def test_a_dropout_of_onnx(tmp_path: Path, told: tuple[float | None, ...], drops: bool) -> None:
    net = Net(1, 4)
    options = [None if v is None else np.array(v, bool if v is True else np.float32) for v in told]
    net.program.outputs = [net.op("Sigmoid", net.op("Dropout", net.op("Relu", net.x), *options))]
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx_bytes(net.program))
    told = "".join(thinflow.lint(path, select=["TF102"]).notes)
    assert ("--fix OUT.onnx goes through TensorFlow's ops and back" in told) is not drops
    report = thinflow.lint(path, select=["TF102"], fix=tmp_path / "out.onnx")
    assert report.fixed == ([] if drops else ["TF102"])
    assert [f.message for f in report.findings] == ["dropout that drops: a Dropout in training mode"] * drops
    assert (tmp_path / "out.onnx").exists() is not drops


def test_what_only_its_own_runtime_knows_is_not_mended(tmp_path: Path) -> None:
    net = Net(1, 4)
    twice = [net.op("Sigmoid", net.x), net.op("Sigmoid", net.x)]
    magic = net.op("Dropout", net.op("Mul", *twice), None, np.array(True))
    net.program.outputs = [magic]
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx_bytes(net.program))
    report = thinflow.lint(path, select=["TF305"], fix=tmp_path / "out.onnx")
    (found,) = report.findings
    assert not found.fix
    assert "export the model without it" in found.mend
    assert report.notes[-1].startswith(
        "only its own runtime knows its ops, which transforms leave alone; export"
    )


def test_ends_that_are_floats(tmp_path: Path) -> None:
    report = thinflow.lint(island(tmp_path / "m.tflite", is_island=False), select=["TF604"])
    assert not report.findings, "the end is computed in floats"
    x, y = Tensor("x", (1, 4), FLOAT), Tensor("y", (1, 4), FLOAT)
    a, b = eight_bit("a", (1, 4)), eight_bit("b", (1, 4))
    steps = [Operator("QUANTIZE", [x], [a]), Operator("ABS", [a], [b]), Operator("DEQUANTIZE", [b], [y])]
    report = thinflow.lint(written(tmp_path / "n.tflite", x, y, *steps), select=["TF604"])
    (found,) = report.findings
    assert (
        found.message == "the model takes 'x' as floats and gives 'y' as floats, and computes in eight bits"
    )
    assert found.nodes == ("x", "y")


def convolution(path: Path, sizes: tuple[int, ...]) -> Path:
    """A convolution with one scale, whose channels' largest weights are these."""
    weights = np.zeros((len(sizes), 1, 1, 2), np.int8)
    weights[..., 0] = np.array(sizes).reshape(-1, 1, 1)
    w = eight_bit("w", weights.shape, 0.01, weights)
    b = Tensor("b", (len(sizes),), INT32, np.zeros(len(sizes), np.int32), codes(0.001))
    x, y = eight_bit("x", (1, 4, 4, 2)), eight_bit("y", (1, 4, 4, len(sizes)))
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    return written(path, x, y, Operator("CONV_2D", [x, w, b], [y], options))


def test_one_scale_for_channels_that_differ(tmp_path: Path) -> None:
    report = thinflow.lint(convolution(tmp_path / "m.tflite", (127, 5, 4, 3)), select=["TF603"])
    (found,) = report.findings
    assert "half of the channels use 4 steps of 127 or fewer" in found.message
    assert found.nodes == ("y",)


def test_one_scale_for_channels_that_are_alike(tmp_path: Path) -> None:
    report = thinflow.lint(convolution(tmp_path / "m.tflite", (127, 90, 80, 100)), select=["TF603"])
    assert not report.broken
    assert not report.findings


RECTIFIED = """
x = Placeholder() {dtype=float, shape=shape[1,2]}
w = Const() {dtype=float, value=float[2,4]{1,0,-1,-1,0,1,-1,-1}}
product = MatMul(x, w) {T=float}
y = Relu(product) {T=float}
inputs: x
outputs: y
"""


def test_channels_that_are_silent_on_samples() -> None:
    samples = [{"x": np.array([[n, 1.0]], np.float32)} for n in range(1, 10)]
    report = thinflow.lint(parse_graph(RECTIFIED), select=["TF702"], calibration=samples)
    (found,) = report.findings
    assert found.message == "2 of 4 channels of 1 layer were 0 on all 9 samples"
    assert found.nodes == ("y",)


def test_too_few_samples_tell_nothing() -> None:
    samples = [{"x": np.ones((1, 2), np.float32)}] * 4
    report = thinflow.lint(parse_graph(RECTIFIED), select=["TF702"], calibration=samples)
    assert not report.broken
    assert not report.findings
    assert not thinflow.lint(parse_graph(RECTIFIED), select=["TF702"], synthetic=True).findings
