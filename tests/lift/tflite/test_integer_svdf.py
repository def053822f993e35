"""LiteRT's SVDF of eight-bit codes in the interpreter: bit by bit as in LiteRT, from run to run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.api import convert_verified
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import INT8, INT32, DType, dtype
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

pytest.importorskip("ai_edge_litert")
INT16 = dtype("int16")


def model(path: Path, seed: int, *, activation: str = "RELU", state: DType = INT16, rank: int = 0) -> str:
    rng = np.random.default_rng(seed)
    batch, inputs, units, memory = (int(n) for n in rng.integers(1, 9, 4))
    rank = rank or int(rng.integers(1, 4))
    filters = units * rank

    def grid(low: float, high: float, zero: int = 0) -> Quantization:
        return Quantization((float(rng.uniform(low, high)),), (zero,))

    def const(name: str, shape: tuple[int, ...], kind: DType, most: int, low: float, high: float) -> Tensor:
        data = rng.integers(-most, most, shape, endpoint=True).astype(kind.numpy())
        return Tensor(name, shape, kind, data, quantization=grid(low, high))

    x = Tensor("x", (batch, inputs), INT8, quantization=grid(0.01, 0.1, int(rng.integers(-128, 128))))
    operands = [
        x,
        const("features", (filters, inputs), INT8, 127, 0.005, 0.02),
        const("times", (filters, memory), INT16, 32767, 1e-5, 1e-4),
        const("bias", (units,), INT32, 20000, 1e-6, 1e-5) if rng.random() < 0.7 else None,
        Tensor("state", (batch, filters * memory), state, quantization=grid(5e-4, 2e-3), is_variable=True),
    ]
    y = Tensor("y", (batch, units), INT8, quantization=grid(0.01, 0.05, int(rng.integers(-128, 128))))
    options = {"fused_activation_function": activation, "rank": int(rank)}
    program = Program([Subgraph([x], [y], [Operator("SVDF", operands, [y], options)])])
    path.write_bytes(to_bytes(program))
    return str(path)


def test_it_and_litert_agree_bit_by_bit(tmp_path: Path) -> None:
    different = 0
    for seed in range(40):
        path = model(tmp_path / "m.tflite", seed)
        first, second = thinflow.Session(path), thinflow.Session(path, "reference")
        assert set(first.placement.values()) == {"litert"}
        rng = np.random.default_rng(seed)
        for run in range(6):
            feed = {"x": rng.integers(-128, 127, first.inputs["x"].shape, np.int8, endpoint=True)}
            (expected,), (found,) = first.run(None, feed), second.run(None, feed)
            np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}, run {run}")
            different += len(np.unique(expected))
    assert different > 500, "the models say nothing"


def test_what_its_kernel_does_not_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOp, match="no activation but the rectifier"):
        thinflow.Session(model(tmp_path / "m.tflite", 0, activation="NONE"), "reference")
    with pytest.raises(UnsupportedOp, match="not of the types that its kernel of eight bits takes"):
        thinflow.Session(model(tmp_path / "m.tflite", 0, state=INT8), "reference")


@pytest.mark.parametrize(
    ("suffix", "state"), [(".tflite", "keep"), (".tflite", "freeze"), (".onnx", "freeze")]
)
def test_it_goes_out_again_bit_by_bit(suffix: str, state: str, tmp_path: Path) -> None:
    if suffix == ".onnx":
        pytest.importorskip("onnxruntime")
    for seed in range(6):
        path, made = model(tmp_path / "m.tflite", seed), str(tmp_path / f"made{suffix}")
        convert_verified(path, made, state=state, strict=True)
        first, second = thinflow.Session(path), thinflow.Session(made)
        rng = np.random.default_rng(seed)
        for run in range(4):
            feed = {"x": rng.integers(-128, 127, first.inputs["x"].shape, np.int8, endpoint=True)}
            if state == "freeze":
                first.restart()
            (expected,), (found,) = first.run(None, feed), second.run(None, feed)
            np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}, run {run}")
