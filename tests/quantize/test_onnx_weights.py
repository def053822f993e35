"""Integer weights of ONNX programs: eight and four bits, per channel and in blocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.quantize import onnx_programs
from tests.quantize.related_inputs import related
from thinflow import zoo
from thinflow.errors import ParameterError
from thinflow.ir.types import INT8
from thinflow.onnx.program import Program
from thinflow.onnx.writer import to_bytes
from thinflow.optimize.mixed_bits import costly_layers
from thinflow.quantize.fit import Fit
from thinflow.quantize.onnx_unpacking import unpacked, unpacking
from thinflow.quantize.recipe import Quantized, Recipe
from thinflow.quantize.rounding import NEAREST, weight_grid
from thinflow.quantize.schemes import quantize_program
from thinflow.quantize.small_weights import INT4


def deep(count: int = 4) -> Program:
    """1x1 convolutions of 64 channels."""
    net = onnx_programs.Net(1, 64, 4, 4)
    x = net.x
    for _ in range(count):
        x = net.op("Relu", net.conv(x, 64))
    net.program.outputs = [x]
    net.program.opset = 21
    return net.program


def noise(program: Program, made: Program, feeds: list[dict[str, np.ndarray]]) -> float:
    before, after = (
        np.concatenate([np.ravel(onnx_programs.run(p, feed)[0]) for feed in feeds]) for p in (program, made)
    )
    return float(np.square(after - before).mean() / np.square(before).mean())


def kinds(made: Quantized[Program]) -> list[object]:
    return [o.inputs[0].dtype for o in made.program.operators if o.code == "Cast"]


@pytest.mark.parametrize(
    ("block", "scales"), [(0, (64, 1, 1, 1)), (16, (64, 4, 1, 1, 1)), (64, (64, 1, 1, 1, 1))]
)
def test_four_bits_run_and_the_first_and_last_layer_have_eight(block: int, scales: tuple[int, ...]) -> None:
    program, recipe = deep(), Recipe(scheme="int4_weights", block_size=block)
    feeds = related(program, 4)
    made = quantize_program(program, recipe)
    assert kinds(made) == [INT8, INT4, INT4, INT8]
    (second,) = [o for o in made.program.operators if o.code == "Mul"][1:2]
    assert second.inputs[1].array().shape == scales
    onnx_programs.check(made.program)
    assert 0 < noise(program, made.program, feeds) < 0.1
    assert len(to_bytes(made.program)) < len(to_bytes(program)) / 3


def test_eight_bits_run_in_every_opset() -> None:
    program = deep()
    program.opset = 17
    made = quantize_program(program, Recipe(scheme="int8_weights"))
    assert kinds(made) == [INT8] * 4
    onnx_programs.check(made.program)
    assert noise(program, made.program, related(program, 4)) < 1e-3


@pytest.mark.parametrize("rounding", ["gptq", "sequential"])
@pytest.mark.parametrize("block", [0, 16])
def test_learned_roundings_come_closer(rounding: str, block: int) -> None:
    program = deep()
    feeds = related(program, 32)
    fit = Fit(program, feeds, feeds)
    plain, made = (
        fit.quantized(Recipe(scheme="int4_weights", block_size=block, rounding=r)).program
        for r in ("nearest", rounding)
    )
    assert noise(program, made, feeds) < noise(program, plain, feeds) / 2


def test_layers_of_eight_bits_are_named_and_costly_ones_found() -> None:
    program = deep()
    feeds = related(program, 8)
    layers = costly_layers(Fit(program, feeds, feeds), Recipe(scheme="int4_weights"))
    assert sorted(layer.pattern for layer in layers) == ["node2", "node4"]
    made = quantize_program(program, Recipe(scheme="int4_weights", eight_bits=("node2",)))
    assert kinds(made) == [INT8, INT8, INT4, INT8]


def test_blocks_have_scales_of_their_own() -> None:
    w = np.random.default_rng(0).normal(size=(8, 32, 1, 1)).astype(np.float32)
    w[:, 16:] *= 100
    grid = weight_grid(w, 0, 4, NEAREST, (1, 16))
    assert grid.how == "per block of 16 along dimension 1"
    back = grid.real(NEAREST.codes(w, grid))
    for part in (slice(0, 16), slice(16, 32)):
        error = np.square(back - w)[:, part].mean() / np.square(w)[:, part].mean()
        assert error < 0.02


def test_what_cannot_be_is_refused() -> None:
    program = deep()
    program.opset = 17
    with pytest.raises(ParameterError, match="opset 17 has no weights of four bits"):
        quantize_program(program, Recipe(scheme="int4_weights"))
    with pytest.raises(ParameterError, match="block_size cannot be 24 in scheme 'int4_weights'"):
        Recipe(scheme="int4_weights", block_size=24)
    with pytest.raises(ParameterError, match="block_size cannot be 32 in scheme 'int8'"):
        Recipe(block_size=32)


def test_layers_of_few_weights_and_odd_ones_stay_float_with_a_reason() -> None:
    net = onnx_programs.Net(1, 64, 4, 4)
    net.program.outputs = [net.conv(net.op("Relu", net.conv(net.x, 64)), 2)]
    net.program.operators[0].inputs[1].data[0, 0] = np.nan
    made = quantize_program(net.program, Recipe(scheme="int8_weights"))
    reasons = [why for _, why in made.float_operators]
    assert reasons[0].endswith("has values that are not finite")
    assert reasons[1] == "its weights are 128, and below 1024 that is not worth it"
    assert made.program.operators[0] is net.program.operators[0]


@pytest.mark.parametrize("block", [0, 16])
def test_onnx_runtime_unpacks_weights_once(block: int, tmp_path: Path) -> None:
    program = deep()
    made = quantize_program(program, Recipe(scheme="int4_weights", block_size=block)).program
    found = onnx_programs.optimized_codes(made, related(program, 1)[0], tmp_path)
    assert not {"Cast", "Mul", "DequantizeLinear"} & {code for code, count in found.items() if count}


def products(rows: int, clamp: str) -> Program:
    """Three matrix products, the second one of `rows` x 1024 weights."""
    net = onnx_programs.Net(1, rows)

    def normal(*shape: int) -> np.ndarray:
        return net.rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32)

    x = net.op("MatMul", net.x, normal(rows, rows))
    x = net.op("MatMul", x, normal(rows, 1024), shape=(1, 1024))
    x = net.op(clamp, net.op("Add", x, normal(1024)))
    net.program.outputs = [net.op("MatMul", x, normal(1024, 8), shape=(1, 8))]
    net.program.opset = 21
    return net.program


@pytest.mark.parametrize(
    ("rows", "clamp", "scheme", "codes"),
    [
        (512, "Sigmoid", "int4_weights", ["MatMulNBits"]),
        (512, "Relu", "int4_weights", []),
        (256, "Sigmoid", "int4_weights", []),
        (512, "Sigmoid", "int8_weights", []),
    ],
)
def test_only_kernels_that_read_four_bits_and_gain_get_them(
    rows: int, clamp: str, scheme: str, codes: list[str], tmp_path: Path
) -> None:
    program = products(rows, clamp)
    feeds = related(program, 2)
    made = quantize_program(program, Recipe(scheme=scheme)).program
    found = onnx_programs.optimized_codes(made, feeds[0], tmp_path)
    of_codes = ("MatMulNBits", "DequantizeLinear")
    assert [code for code in found if code in of_codes and found[code]] == codes
    assert noise(program, made, feeds) < 0.1


@pytest.mark.parametrize("keeps_codes", [False, True])
@pytest.mark.parametrize("block", [None, (0, 16)])
def test_what_is_unpacked_can_be_told(block: tuple[int, int] | None, keeps_codes: bool) -> None:
    w = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    grid = weight_grid(w, 1, 4, NEAREST, block)
    codes = NEAREST.codes(w, grid)
    operators, stored, result = unpacking("w", codes, grid, str, keeps_codes=keeps_codes)
    found = unpacked(result, {t: o for o in operators for t in o.outputs})
    assert found is not None
    assert stored.dtype is found[0] is INT4
    np.testing.assert_allclose(found[1], grid.real(codes), rtol=1e-6)
    assert unpacked(stored, {}) is None


def test_no_two_weights_share_a_zero_point() -> None:
    """ONNX Runtime's kernels that cannot overflow fail on such models."""
    onnx = pytest.importorskip("onnx")
    found = thinflow.quantize(
        zoo.build("digits"), zoo.calibration("digits", 20), format="onnx", effort="none"
    )
    graph = onnx.load_model_from_string(found.content).graph
    stored = {tensor.name for tensor in graph.initializer}
    weights = [n for n in graph.node if n.op_type == "DequantizeLinear" and n.input[0] in stored]
    zeros = [n.input[2] for n in weights if len(n.input) > 2]
    assert len(zeros) == len({*zeros}) > 3
