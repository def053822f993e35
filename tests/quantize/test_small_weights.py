"""Weights stored as float16."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.quantize.onnx_programs import Net, check, optimized_codes, run
from tests.quantize.programs import Builder
from thinflow.errors import ParameterError
from thinflow.onnx.writer import to_bytes
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.schemes import quantize_program
from thinflow.quantize.small_weights import store_half


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


def test_chosen_operators_keep_their_constants() -> None:
    """Also one that another operator reads as float16."""
    net = Net(2, 16)
    y = dense(net)
    net.program.outputs = [net.op("Gemm", y, *net.program.operators[0].inputs[1:], shape=(2, 16))]
    result = quantize_program(net.program, recipe=Recipe(scheme="float16", skip_nodes=("node0",)))
    result.program.validate()
    first, cast, second = result.program.operators
    assert first.inputs[1] is net.program.operators[0].inputs[1]
    assert second.inputs[1] is cast.outputs[0]
    assert [(o, why) for o, why in result.float_operators] == [(first, "skip_nodes has 'node0'")]
    whole = quantize_program(net.program, recipe=Recipe(scheme="float16", skip_nodes=("node*",)))
    assert whole.decisions == []
    assert whole.program.counts() == {"Gemm": 2}


@pytest.mark.parametrize(
    ("values", "limits"), [((np.nan, -2, 3), (-2, 3)), ((-np.inf, -2, 3), (-2, 3)), ((np.nan,), (0, 0))]
)
def test_reported_ranges_are_real_numbers(values: tuple[float, ...], limits: tuple[float, float]) -> None:
    table = np.resize(np.array(values, np.float32), 256)
    net = Net(16, 16)
    net.program.outputs = [net.op("Add", net.x, table.reshape(16, 16))]
    (decision,) = store_half(net.program).decisions
    assert decision.range == limits


def test_blocks_are_refused_where_kernels_take_one_scale_per_channel() -> None:
    b = Builder(1)
    program = b.program(b.op("FULLY_CONNECTED", b.input(1, 64), b.normal(64, 64), None))
    with pytest.raises(ParameterError, match="block_size is for ONNX models"):
        quantize_program(program, Recipe(scheme="int4_weights", block_size=32))
