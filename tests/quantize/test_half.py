"""Weights stored as float16."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.quantize.onnx_programs import Net, check, optimized_codes, run
from thinflow.onnx.writer import to_bytes
from thinflow.quantize.half import store_half


def dense(net: Net, scale: float = 1.0):
    w = scale * net.rng.standard_normal((16, 16)).astype(np.float32)
    return net.op("Gemm", net.x, w, w[0], shape=(2, 16))


def test_large_constants_take_half_the_room(tmp_path: Path) -> None:
    net = Net(2, 16)
    net.program.outputs = [dense(net)]
    result = store_half(net.program)
    result.program.validate()
    check(result.program)
    assert result.program.counts() == {"Cast": 1, "Gemm": 1}
    assert net.program.counts() == {"Gemm": 1}
    assert len(to_bytes(result.program)) < len(to_bytes(net.program)) - 400
    assert [d.reason for d in result.decisions] == ["stored as float16"]
    feed = net.samples()[0]
    (expected,), (found,) = run(net.program, feed), run(result.program, feed)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)
    assert optimized_codes(result.program, feed, tmp_path) == {"Gemm": 1}


def test_shared_constants_are_stored_once() -> None:
    net = Net(2, 16)
    y = dense(net)
    net.program.outputs = [net.op("Gemm", y, *net.program.operators[0].inputs[1:], shape=(2, 16))]
    assert store_half(net.program).program.counts() == {"Cast": 1, "Gemm": 2}


def test_what_float16_cannot_reach_stays() -> None:
    net = Net(2, 16)
    net.program.outputs = [dense(net, 1e6)]
    result = store_half(net.program)
    assert result.program.counts() == {"Gemm": 1}
    (warning,) = result.warnings
    assert "and float16 ends at 65504" in warning


def test_infinities_are_kept() -> None:
    net = Net(16, 16)
    mask = np.zeros((16, 16), np.float32)
    mask[0] = -np.inf
    net.program.outputs = [net.op("Add", net.x, mask)]
    result = store_half(net.program)
    assert result.program.counts()["Cast"] == 1
    (found,) = run(result.program, net.samples()[0])
    assert np.isneginf(found[0]).all()
    assert np.isfinite(found[1:]).all()


def test_weights_that_float16_blurs_are_reported() -> None:
    net = Net(2, 16)
    net.program.outputs = [dense(net, 1e-6)]
    (warning,) = store_half(net.program).warnings
    assert "are so small that float16 keeps few of their bits" in warning
