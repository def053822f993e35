"""Networks of 16 bits, and networks whose weights alone have eight, answer as LiteRT's own kernels do."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lower.c.c_answers import differences
from tests.lower.c.c_networks import Layers
from thinflow.api import convert_verified
from thinflow.engines._c_library import compiler
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import dtype
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.tflite.model import Operator, Tensor
from thinflow.tflite.reader import read_program
from thinflow.typing import Array

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
RELU = {"fused_activation_function": "RELU"}


class Wide(Layers):
    """Activations of 16 bits without zero points, weights of eight, biases of 64."""

    def __init__(self, *shape: int, seed: int = 0) -> None:
        super().__init__(*shape, kind="int16", seed=seed)

    def tensor(self, name: str, shape: Any, scale: float | None = None, zero: int | None = None) -> Tensor:
        return super().tensor(name, shape, 0.0003 if scale is None else scale, 0)

    def weighted(
        self, code: str, shape: tuple[int, ...], axis: int, out: tuple[int, ...], **options: Any
    ) -> Tensor:
        x, filters = self.last, shape[axis]
        scales = self.rng.uniform(0.002, 0.02, filters).astype(np.float32)
        w = self.constant("w", self.rng.integers(-127, 128, shape).astype(np.int8), scales, 0, axis)
        assert x.quantization is not None
        bias = self.rng.integers(-(1 << 20), 1 << 20, filters)
        depth = int(np.prod(shape)) // filters
        y = self.tensor(code.lower(), out, float(x.quantization.scale[0] * 0.5 * np.sqrt(depth)))
        bias_scales = x.quantization.scale * scales
        return self.emit(code, [x, w, self.constant("b", bias, bias_scales)], y, **options)

    def curve(self, code: str) -> None:
        self.emit(code, [self.last], self.tensor(code.lower(), self.sizes(), 1 / 32768))


def test_sixteen_bits() -> None:
    net = Wide(1, 9, 7, 3)
    net.conv(6, 3, 2, **RELU)
    first = net.depthwise(2)
    net.pool("MAX_POOL_2D")
    net.curve("LOGISTIC")
    gate = net.last
    net.binary("MUL", gate, gate)
    net.binary("ADD", net.last, gate, **RELU)
    net.binary("SUB", net.last, gate)
    net.pool("AVERAGE_POOL_2D", padding="SAME")
    net.mean()
    net.dense(9)
    net.curve("TANH")
    net.block.outputs.append(first)
    assert differences(net.content(), runs=2) == []


@pytest.mark.parametrize("rounding", ["litert", "xnnpack"])
@pytest.mark.parametrize("layer", ["conv", "depthwise", "dense", "turned"])
def test_sixteen_bits_with_weights_that_are_computed(layer: str, rounding: str) -> None:
    net = Wide(1, 6, 5, 4)
    x, sizes = net.last, net.constant("sizes", np.int32([1, 12, 10, 3]))
    if layer == "conv":
        net.conv(5, 3, 2, **RELU)
    elif layer == "depthwise":
        net.depthwise(2)
    elif layer == "dense":
        net.emit("RESHAPE", [x, net.constant("flat", np.int32([1, 120]))], net.alike("flat", (1, 120)))
        net.dense(7)
    else:
        options = {"stride_h": 2, "stride_w": 2, "padding": "SAME"}
        net.weighted("TRANSPOSE_CONV", (3, 3, 3, 4), 0, (1, 12, 10, 3), **options)
        operator = net.block.operators[-1]
        operator.inputs = [sizes, operator.inputs[1], x, operator.inputs[2]]
    for tensor in net.block.operators[-1].inputs[1 :: 2 if layer == "turned" else 1]:
        assert tensor is not None
        tensor.data = None
        net.block.inputs.append(tensor)
    assert differences(net.content(), rounding) == []


def test_sums_of_more_than_32_bits() -> None:
    net = Wide(1, 1500)
    net.dense(5)
    w = net.block.operators[0].inputs[1]
    assert w is not None
    w.data = np.full((5, 1500), 127, np.int8)
    assert differences(net.content(), runs=2) == []


@pytest.mark.parametrize("is_even", [True, False])
def test_a_curve_is_exact_everywhere(is_even: bool) -> None:
    net = Wide(1, 1 << 12)
    assert net.last.quantization is not None
    net.last.quantization.scale[:] = 2**-12 if is_even else 0.0004
    x = net.last
    net.curve("LOGISTIC")
    net.last = x
    net.curve("TANH")
    net.block.outputs[:] = [o.outputs[0] for o in net.block.operators]
    assert differences(net.content()) == []


@pytest.mark.parametrize("code", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
@pytest.mark.parametrize("rounding", ["litert", "xnnpack"])
def test_weights_of_eight_bits_for_reals(code: str, rounding: str) -> None:
    for even in (False, True):
        net = Layers(2, 5, 4, 3, kind="float")
        if code == "CONV_2D":
            net.conv(4, **RELU)
        elif code == "DEPTHWISE_CONV_2D":
            net.depthwise(2)
        else:
            net.reshaped(2, 60)
            net.dense(7, asymmetric_quantize_inputs=not even)
        _round_weights(net.block.operators[-1], net)
        assert differences(net.content()) == []


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LiteRT fuses products and sums elsewhere")
def test_reals_become_bytes_in_litert_s_steps() -> None:
    """Of a range that is a float: in double the last bit of the step is another now and then."""
    net = Layers(40, 60, kind="float")
    net.dense(7, asymmetric_quantize_inputs=True)
    _round_weights(net.block.operators[-1], net)
    assert differences(net.content(), tolerance=0) == []


def _round_weights(operator: Operator, net: Layers) -> None:
    w = operator.inputs[1]
    assert w is not None
    axis = 3 if operator.code == "DEPTHWISE_CONV_2D" else 0
    scales = net.rng.uniform(0.01, 0.02, w.array().shape[axis]).astype(np.float32)
    operator.inputs[1] = net.constant(
        "w8", net.rng.integers(-127, 128, w.array().shape).astype(np.int8), scales, 0, axis
    )


def test_networks_that_round_midway_are_proven_layer_by_layer(tmp_path: Path) -> None:
    net = Layers(1, 5, 4, 3, kind="float")
    net.conv(4, **RELU)
    _round_weights(net.block.operators[-1], net)
    net.emit("RESHAPE", [net.last], net.alike("flat", (1, 80)), new_shape=[1, 80])
    net.dense(7)
    _round_weights(net.block.operators[-1], net)
    (tmp_path / "net.tflite").write_bytes(net.content())
    made = convert_verified(tmp_path / "net.tflite", tmp_path / "net.c")
    assert made.proof.startswith(
        "layer by layer, as reals are rounded to integers on the way: compiled and run"
    )


@pytest.mark.parametrize("sizes", [(3, 12), (2, 3, 12), (2, 2, 3, 12)], ids=len)
def test_matrices_that_the_reference_kernel_has_wrong_are_refused(sizes: tuple[int, ...]) -> None:
    net = Layers(*sizes, kind="float")
    w = net.constant("w", net.rng.integers(-127, 128, (12, 5)).astype(np.int8), 0.02)
    net.emit("BATCH_MATMUL", [net.last, w], net.tensor("y", (*sizes[:-1], 5)), adj_x=False, adj_y=False)
    assert differences(net.content(), "xnnpack") == []
    if len(sizes) > 3:
        with pytest.raises(UnsupportedOp, match="takes the scales of other rows"):
            network(read_program(net.content()), Options())


def test_one_scale_for_all_channels_is_refused() -> None:
    net = Layers(1, 5, 4, 3, kind="float")
    net.depthwise(2)
    _round_weights(net.block.operators[-1], net)
    w = net.block.operators[-1].inputs[1]
    assert w is not None
    net.block.operators[-1].inputs[1] = net.constant("w1", w.array(), 0.01)
    with pytest.raises(UnsupportedOp, match="reads one for each channel"):
        network(read_program(net.content()), Options())


def test_powers_of_two_are_refused_by_name() -> None:
    net = Wide(1, 8)
    assert net.last.quantization is not None
    net.last.quantization.scale[:] = 2**-12
    x = net.last
    net.emit("ADD", [x, x], net.tensor("y", (1, 8), 2**-11))
    with pytest.raises(UnsupportedOp, match="powers of two"):
        network(read_program(net.content()), Options())


@pytest.mark.parametrize("rounding", ["litert", "xnnpack"])
def test_biases_of_32_bits(rounding: str) -> None:
    net = Wide(1, 9, 7, 3)
    net.conv(6, 3, 2, **RELU)
    net.dense(9)
    for operator in net.block.operators:
        bias = operator.inputs[2]
        assert bias is not None
        assert bias.quantization is not None
        narrow = bias.array().astype(np.int32)
        operator.inputs[2] = net.constant("narrow", narrow, bias.quantization.scale)
        operator.options["quantized_bias_type"] = dtype("int32")
    assert differences(net.content(), rounding) == []


@pytest.mark.parametrize("kind", ["int8", "float", "int16"])
def test_weights_of_four_bits(kind: str) -> None:
    net = Wide(1, 6, 5, 4) if kind == "int16" else Layers(1, 6, 5, 4, kind=kind)
    net.conv(4, 3, 2)
    net.reshaped(1, 36)
    net.dense(6)
    for operator in net.block.operators:
        w = operator.inputs[1]
        assert w is not None
        if operator.code == "RESHAPE":
            continue
        scales = net.rng.uniform(0.01, 0.02, len(w.array())) if kind == "float" else _scales(w)
        data = net.rng.integers(-7, 8, w.array().shape).astype(dtype("int4").numpy())
        operator.inputs[1] = net.constant(f"{operator.code}_w", data, scales)
    assert differences(net.content()) == []


def _scales(w: Tensor) -> Array:
    assert w.quantization is not None
    return w.quantization.scale


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("is_even", [False, True])
def test_matrices_of_bytes_for_reals(turned: bool, is_even: bool) -> None:
    net = Layers(2, 3, 12, kind="float")
    data = net.rng.integers(-127, 128, (5, 12) if turned else (12, 5)).astype(np.int8)
    options = {"adj_x": False, "adj_y": turned, "asymmetric_quantize_inputs": not is_even}
    net.emit("BATCH_MATMUL", [net.last, net.constant("w", data, 0.02)], net.tensor("y", (2, 3, 5)), **options)
    assert differences(net.content()) == []


@pytest.mark.parametrize("is_even", [False, True])
@pytest.mark.parametrize("rounding", ["litert", "xnnpack"])
def test_low_ranks_of_bytes_for_reals(is_even: bool, rounding: str) -> None:
    net = Layers(2, 9, kind="float")
    features, times = (net.rng.integers(-127, 128, (8, n)).astype(np.int8) for n in (9, 6))
    state = Tensor("state", (2, 48), dtype("float"), None, None, is_variable=True)
    bias = net.constant("bias", net.rng.standard_normal(4).astype(np.float32))
    read = [net.last, net.constant("f", features, 0.01), net.constant("t", times, 0.02), bias, state]
    options = {"rank": 2, "asymmetric_quantize_inputs": not is_even, **RELU}
    net.emit("SVDF", read, net.tensor("y", (2, 4)), **options)
    assert differences(net.content(), rounding, runs=9) == []
