"""LiteRT's eight-bit layers in the interpreter: the codes that LiteRT gives, in random configurations."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lift.tflite.programs import both
from thinflow.ir.types import INT8, INT32, DType, dtype
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor

pytest.importorskip("ai_edge_litert")
UINT8 = dtype("uint8")
ZOO = Path(os.environ.get("THINFLOW_SHARED", "../shared")) / "zoo" / "tflite"
ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")


def layer(code: str, kind: DType, seed: int) -> tuple[Program, dict[str, np.ndarray]]:
    """A layer with the quantization that converters write for the type."""
    rng = np.random.default_rng(seed)
    batch, height, width, cin, cout, kernel = (int(n) for n in rng.integers(1, 6, 6))
    height, width = height + kernel, width + kernel
    unsigned = kind is UINT8
    low, high = (0, 255) if unsigned else (-128, 127)
    if code == "FULLY_CONNECTED":
        x_shape, w_shape, axis, y_shape = (batch, cin * 9), (cout, cin * 9), 0, (batch, cout)
        options: dict[str, object] = {}
    else:
        stride, padding = int(rng.integers(1, 3)), str(rng.choice(["SAME", "VALID"]))
        sides = [
            -(-n // stride) if padding == "SAME" else (n - kernel) // stride + 1 for n in (height, width)
        ]
        options = {"stride_w": stride, "stride_h": stride, "padding": padding}
        x_shape = (batch, height, width, cin)
        if code == "CONV_2D":
            w_shape, axis, y_shape = (cout, kernel, kernel, cin), 0, (batch, *sides, cout)
        else:
            cout, axis = cin * int(rng.integers(1, 3)), 3
            w_shape, y_shape = (1, kernel, kernel, cout), (batch, *sides, cout)
            options["depth_multiplier"] = cout // cin
    options["fused_activation_function"] = str(rng.choice(ACTIVATIONS))
    scale = float(rng.uniform(0.01, 0.05))
    count = 1 if unsigned or code == "FULLY_CONNECTED" else cout
    steps = rng.uniform(0.002, 0.02, count).astype(np.float32)
    zero = int(rng.integers(100, 150)) if unsigned else 0
    x = Tensor("x", x_shape, kind, quantization=Quantization((scale,), (int(rng.integers(low, high)),)))
    w = Tensor(
        "w",
        w_shape,
        kind,
        rng.integers(low + (not unsigned), high + 1, w_shape).astype(kind.numpy()),
        quantization=Quantization(steps, np.full(count, zero), axis if count > 1 else 0),
    )
    bias = Tensor(
        "bias",
        (cout,),
        INT32,
        rng.integers(-4000, 4000, cout).astype(np.int32),
        quantization=Quantization(np.float32(scale) * steps, np.zeros(count, np.int64), 0),
    )
    spread = scale * float(steps.mean()) * 127 * 60 * np.sqrt(np.prod(w_shape) / w_shape[axis])
    grid = Quantization((float(spread / 100),), (int(rng.integers(low, high)),))
    y = Tensor("y", y_shape, kind, quantization=grid)
    program = Program([Subgraph([x], [y], [Operator(code, [x, w, bias], [y], options)])])
    return program, {"x": rng.integers(low, high + 1, x_shape).astype(kind.numpy())}


@pytest.mark.parametrize("kind", [INT8, UINT8], ids=str)
@pytest.mark.parametrize("code", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_layers(code: str, kind: DType, tmp_path: Path) -> None:
    different = 0
    for seed in range(30):
        program, feed = layer(code, kind, seed)
        (expected,), (found,) = both(program, tmp_path / "m.tflite", feed)
        np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}")
        different += len(np.unique(expected))
    assert different > 100, "the layers say nothing"


WHOLE = (
    *("hello_world_int8", "micro_speech_quantized", "mlperf_ad01_int8", "mlperf_kws_ref"),
    *("mlperf_resnet_quant", "mlperf_str_ww", "mlperf_vww_96_int8", "mnist_lstm_int8"),
    *("mobilenet_v1_025_224_quant", "person_detect"),
)


@pytest.mark.parametrize("name", WHOLE)
def test_networks_give_the_codes_that_litert_gives(name: str) -> None:
    if not (ZOO / f"{name}.tflite").is_file():
        pytest.skip("the zoo is not here")
    answers = np.load(ZOO / f"{name}.npz")
    session = thinflow.Session(ZOO / f"{name}.tflite", "reference")
    feed = {k.removeprefix("in:"): answers[k] for k in answers.files if k.startswith("in:")}
    stated = [answers[k] for k in answers.files if k.startswith("out:")]
    for found, expected in zip(session.run(None, feed), stated, strict=True):
        np.testing.assert_array_equal(found, expected)
