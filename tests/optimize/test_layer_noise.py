"""Noise layer by layer beside a float program that keeps what the model itself states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from thinflow.api import quantize_to_file


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_what_a_stated_range_cuts_off_is_no_noise(tmp_path: Path, suffix: str) -> None:
    """Files of eight bits have a ReLU6 in the ends of a grid alone: its float twin has none left."""
    graph = parse_graph("""
x = Placeholder() {dtype=float, shape=shape[1,6,6,3]}
r = FakeQuantWithMinMaxArgs(x) {min=-1.0, max=0.9921875}
w = Const() {dtype=float, value=float[1,1,3,2]{-2, 2, 1, -2, 2, 1}}
y = Conv2D(r, w) {T=float, strides=[1,1,1,1], padding="VALID", data_format="NHWC"}
relu6 = FakeQuantWithMinMaxArgs(y) {min=0.0, max=0.5}
z = Conv2D(relu6, v) {T=float, strides=[1,1,1,1], padding="VALID", data_format="NHWC"}
v = Const() {dtype=float, value=float[1,1,2,1]{1, -0.5}}
outputs: z
inputs: x
""")
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.uniform(-1, 0.99, (1, 6, 6, 3)).astype(np.float32)} for _ in range(4)]
    made = quantize_to_file(graph, tmp_path / f"m.{suffix}", feeds, effort="none")
    layers = made["noise_by_layer"]["layers"]
    assert [layer["name"] for layer in layers] == ["y", "z"]
    # Beside a float program without its ends both lay below 2 dB.
    assert all(layer["sqnr_db"] > 25 for layer in layers)
