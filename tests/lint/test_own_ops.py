"""Rules that clean graphs, on files of other vocabularies: what is the file's is told, by its names; what
only its translation has is not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lint.files import written
from tests.quantize.onnx_programs import Net
from thinflow.ir.types import FLOAT, INT32, dtype
from thinflow.lint.finding import LintFinding
from thinflow.onnx.program import Tensor as OnnxTensor
from thinflow.onnx.writer import to_bytes as onnx_bytes
from thinflow.tflite.model import Operator, Tensor


def onnx_file(path: Path, net: Net, *outputs: OnnxTensor) -> Path:
    net.program.outputs = list(outputs)
    path.write_bytes(onnx_bytes(net.program))
    return path


def found(path: Path, code: str) -> list[LintFinding]:
    report = thinflow.lint(path, select=[code])
    assert not report.broken
    return report.findings


def test_transposes_of_an_onnx_file_that_undo_each_other(tmp_path: Path) -> None:
    net = Net(1, 4, 6, 8)
    there = net.op("Transpose", net.x, shape=(1, 6, 8, 4), perm=(0, 2, 3, 1))
    between = net.op("Relu", there)
    back = net.op("Transpose", between, shape=(1, 4, 6, 8), perm=(0, 3, 1, 2))
    path = onnx_file(tmp_path / "m.onnx", net, net.conv(back))
    (one,) = found(path, "TF302")
    assert one.message.startswith("2 of 2 transposes can go")
    assert one.nodes == (there.name, back.name)
    mended = tmp_path / "mended.onnx"
    report = thinflow.lint(path, select=["TF302"], fix=mended)
    assert report.fixed == ["TF302"]
    assert report.proof.startswith("4 operators became 2")
    assert {n.op for n in thinflow.load(mended)} & {"Conv2D"}
    assert not found(mended, "TF302")


def test_convolutions_of_an_onnx_file_have_no_transposes(tmp_path: Path) -> None:
    """Their translation has, around each."""
    net = Net(1, 4, 6, 8)
    path = onnx_file(tmp_path / "m.onnx", net, net.conv(net.op("Relu", net.conv(net.x))))
    for code in ("TF106", "TF302", "TF304", "TF305", "TF306", "TF309", "TF311"):
        assert not found(path, code)


def test_transposes_into_channels_first_stay(tmp_path: Path) -> None:
    """As of a network that was trained with channels last: the convolution of ONNX needs them."""
    net = Net(1, 6, 8, 4)
    there = net.op("Transpose", net.x, shape=(1, 4, 6, 8), perm=(0, 3, 1, 2))
    back = net.op("Transpose", net.conv(there), shape=(1, 6, 8, 4), perm=(0, 2, 3, 1))
    assert not found(onnx_file(tmp_path / "m.onnx", net, back), "TF302")


def test_weights_that_an_onnx_file_turns_in_each_run(tmp_path: Path) -> None:
    net = Net(1, 40)
    weights = net.rng.standard_normal((30, 40)).astype(np.float32)
    turned = net.op("Transpose", weights, shape=(40, 30), perm=(1, 0))
    y = net.op("MatMul", net.x, turned, shape=(1, 30))
    path = onnx_file(tmp_path / "m.onnx", net, y)
    (one,) = found(path, "TF304")
    assert one.nodes == (turned.name,)
    report = thinflow.lint(path, select=["TF304"], fix=tmp_path / "mended.onnx")
    assert report.fixed == ["TF304"]
    assert report.proof.startswith("2 operators became 1")


def test_what_an_onnx_file_computes_twice(tmp_path: Path) -> None:
    net = Net(1, 4, 6, 8)
    weights = net.rng.standard_normal((4, 4, 1, 1)).astype(np.float32)
    first, second = (net.op("Conv", net.x, weights, kernel_shape=(1, 1)) for _ in range(2))
    (one,) = found(onnx_file(tmp_path / "m.onnx", net, net.op("Mul", first, second)), "TF305")
    assert one.nodes == (second.name,)


def test_random_numbers_of_an_onnx_file_are_no_doubles(tmp_path: Path) -> None:
    net = Net(1, 4)
    first, second = (net.op("RandomNormalLike", net.x) for _ in range(2))
    path = onnx_file(tmp_path / "m.onnx", net, net.op("Add", first, second))
    assert not found(path, "TF305")


def test_a_file_with_an_op_that_cannot_be_translated(tmp_path: Path) -> None:
    """Rules that look at the file itself have their say."""
    net = Net(1, 4)
    same = net.op("Neg", net.x), net.op("Neg", net.x)
    odd = net.op("RandomNormalLike", net.op("Add", *same))
    report = thinflow.lint(onnx_file(tmp_path / "m.onnx", net, odd), fix=tmp_path / "mended.onnx")
    assert not report.broken
    assert [f.nodes for f in report.findings if f.code == "TF305"] == [(same[1].name,)]
    assert any("random numbers" in note for note in report.notes)
    assert not report.written


def test_what_does_nothing_in_an_onnx_file(tmp_path: Path) -> None:
    net = Net(1, 4, 6)
    cast = net.op("Cast", net.x, to=1)
    shaped = net.op("Reshape", cast, np.array([1, 4, 6], np.int64))
    (one,) = found(onnx_file(tmp_path / "m.onnx", net, net.op("Tanh", shaped)), "TF306")
    assert one.nodes == (cast.name, shaped.name)


def test_identities_of_an_onnx_file(tmp_path: Path) -> None:
    net = Net(1, 4)
    y = net.x
    names = []
    for _ in range(5):
        same = net.op("Identity", y)
        names.append(same.name)
        y = net.op("Tanh", same)
    (one,) = found(onnx_file(tmp_path / "m.onnx", net, y), "TF106")
    assert one.nodes == tuple(names)


@pytest.mark.parametrize("is_chain", [True, False])
def test_steps_of_an_onnx_file_that_share_weights(tmp_path: Path, is_chain: bool) -> None:
    """A layer that several inputs share, as the frames of a video do, is no recurrent one."""
    net = Net(1, 4)
    weights = net.const(net.rng.standard_normal((4, 4)).astype(np.float32))
    y, names, ends = net.x, [], []
    for _ in range(8):
        product = net.op("MatMul", y if is_chain else net.op("Neg", net.x), weights, shape=(1, 4))
        names.append(product.name)
        ends.append(net.op("Tanh", product))
        y = ends[-1]
    total = y if is_chain else net.op("Concat", *ends, shape=(1, 32), axis=1)
    said = found(onnx_file(tmp_path / "m.onnx", net, total), "TF311")
    assert [f.nodes for f in said] == ([tuple(names)] if is_chain else [])


def test_a_file_that_would_grow_is_not_written(tmp_path: Path) -> None:
    """Put into TensorFlow's ops and back, a Celu is several operators: more than the Cast that goes."""
    net = Net(1, 4)
    y = net.op("Celu", net.op("Celu", net.op("Cast", net.x, to=1), alpha=2.0), alpha=3.0)
    path, mended = onnx_file(tmp_path / "m.onnx", net, y), tmp_path / "mended.onnx"
    report = thinflow.lint(path, select=["TF306"], fix=mended)
    assert [f.code for f in report.findings] == ["TF306"]
    assert not report.written
    assert any("operators become" in note for note in report.notes)
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_transposes_of_a_tflite_file(tmp_path: Path) -> None:
    x, y = Tensor("x", (1, 4, 6, 8), FLOAT), Tensor("y", (1, 4, 6, 8), FLOAT)
    last, same = (Tensor(name, (1, 6, 8, 4), FLOAT) for name in ("last", "same"))
    there, back = (
        Tensor(name, (4,), INT32, np.array(perm, np.int32))
        for name, perm in (("p", (0, 2, 3, 1)), ("q", (0, 3, 1, 2)))
    )
    steps = [Operator("TRANSPOSE", [x, there], [last]), Operator("ABS", [last], [same])]
    path = written(tmp_path / "m.tflite", x, y, *steps, Operator("TRANSPOSE", [same, back], [y]))
    (one,) = found(path, "TF302")
    assert one.nodes == ("last", "y")
    report = thinflow.lint(path, select=["TF302"], fix=tmp_path / "mended.tflite")
    assert report.proof.startswith("3 operators became 1")


def test_half_weights_of_a_tflite_file_are_unpacked_on_purpose(tmp_path: Path) -> None:
    half = np.arange(4, dtype=np.float16)
    x, y = Tensor("x", (1, 4), FLOAT), Tensor("y", (1, 4), FLOAT)
    packed = [Tensor(name, (4,), dtype("half"), half) for name in ("a", "b")]
    plain = [Tensor(f"{t.name}_float", (4,), FLOAT) for t in packed]
    sums = Tensor("sum", (1, 4), FLOAT)
    steps = [Operator("DEQUANTIZE", [a], [b]) for a, b in zip(packed, plain, strict=True)]
    steps += [Operator("ADD", [x, plain[0]], [sums]), Operator("MUL", [sums, plain[1]], [y])]
    path = written(tmp_path / "m.tflite", x, y, *steps)
    for code in ("TF304", "TF305"):
        assert not found(path, code)
