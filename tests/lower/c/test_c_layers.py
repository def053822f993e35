"""Layers in C answer as LiteRT's own kernels do, to the last bit."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.c.c_answers import differences
from tests.lower.c.c_networks import Layers, mixed
from tests.night import AT_NIGHT, some
from thinflow.engines._c_library import compiler
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.tflite.reader import read_program

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
ROUNDINGS = ("litert", "xnnpack")
EXACT = (
    "hello_world_int8",
    "mnist_lstm_int8",
    "micro_speech_quantized",
    "mlperf_ad01_int8",
    "mlperf_kws_ref",
    "mlperf_resnet_quant",
    "mlperf_str_ww",
    "mlperf_vww_96_int8",
    "mobilenet_v1_025_224_quant",
)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("kind", ["int8", "uint8", "float"])
def test_layers_with_weights(kind: str, rounding: str) -> None:
    net = Layers(1, 9, 7, 3, kind=kind)
    net.conv(5, fused_activation_function="RELU")
    net.depthwise(2, step=2)
    net.conv(7, window=1, fused_activation_function="RELU6")
    net.depthwise(1, window=2, padding="VALID")
    net.conv(6, step=2, padding="VALID")
    net.dense(11)
    assert differences(net.content(), rounding) == []


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LiteRT fuses products and sums elsewhere")
def test_reals_are_equal_to_the_last_bit() -> None:
    """Where they become integers later on, the last bit decides."""
    net = Layers(1, 9, 7, 3, kind="float")
    net.conv(5, fused_activation_function="RELU")
    net.depthwise(2, step=2)
    net.conv(7, window=1)
    net.dense(11)
    net.unary("LOGISTIC")
    assert differences(net.content(), tolerance=0) == []


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LiteRT fuses products and sums elsewhere")
def test_a_sigmoid_of_reals_ends_where_that_of_litert_ends() -> None:
    net = Layers(1, 2000, kind="float")
    net.binary("MUL", net.last, net.constant("factor", np.float32([20])))
    net.unary("LOGISTIC")
    assert differences(net.content(), tolerance=0) == []


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("kind", ["int8", "float"])
def test_a_network_of_many_kinds_of_layers(kind: str, rounding: str) -> None:
    assert differences(mixed(kind), rounding) == []


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("code", ["LOGISTIC", "TANH", "RELU", "HARD_SWISH", "LEAKY_RELU"])
@pytest.mark.parametrize("kind", ["int8", "float"])
def test_functions_of_one_value(kind: str, code: str, rounding: str) -> None:
    net = Layers(2, 300, kind=kind)
    net.unary(code)
    assert differences(net.content(), rounding) == []


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(
    "shapes", [((2, 3, 4), (4,)), ((2, 1, 4), (3, 1)), ((5,), (1,)), ((2, 3, 4), (2, 3, 4))]
)
@pytest.mark.parametrize("code", ["ADD", "SUB", "MUL"])
def test_inputs_that_are_broadcast(code: str, shapes: tuple[tuple[int, ...], ...], rounding: str) -> None:
    for kind in ("int8", "float"):
        net = Layers(*shapes[0], kind=kind)
        first = net.last
        second = net.tensor("second", shapes[1])
        net.block.inputs.append(second)
        net.binary(code, first, second)
        assert differences(net.content(), rounding) == []


@st.composite
def networks(draw: st.DrawFn) -> bytes:
    """Small networks of random layers, windows, steps and sizes."""
    kind = draw(st.sampled_from(["int8", "float"]))
    sides = st.integers(3, 8)
    net = Layers(
        1, draw(sides), draw(sides), draw(st.integers(1, 5)), kind=kind, seed=draw(st.integers(0, 999))
    )
    activations = st.sampled_from(["NONE", "RELU", "RELU6"])
    for _ in range(draw(st.integers(1, 5))):
        layer = draw(st.sampled_from(["conv", "depthwise", "pool", "add", "pad", "function"]))
        options = {"fused_activation_function": draw(activations)}
        window, step = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        if layer == "conv":
            net.conv(draw(st.integers(1, 9)), window, step, **options)
        elif layer == "depthwise":
            net.depthwise(draw(st.integers(1, 2)), window, step, **options)
        elif layer == "pool":
            net.pool(draw(st.sampled_from(["MAX_POOL_2D", "AVERAGE_POOL_2D"])), window, step, "SAME")
        elif layer == "add":
            net.binary(draw(st.sampled_from(["ADD", "SUB", "MUL"])), net.last, net.last, **options)
        elif layer == "pad":
            net.padded(draw(st.tuples(*[st.integers(0, 2)] * 4)))
        else:
            net.unary(draw(st.sampled_from(["LOGISTIC", "TANH"])))
    if draw(st.booleans()):
        net.dense(draw(st.integers(1, 10)))
    return net.content()


@pytest.mark.slow
@settings(max_examples=25 if AT_NIGHT else 12, deadline=None)
@given(networks(), st.sampled_from(ROUNDINGS))
def test_random_networks(content: bytes, rounding: str) -> None:
    assert differences(content, rounding, runs=2) == []


@pytest.mark.slow
@pytest.mark.parametrize(("rounding", "name"), some([(r, n) for r in ROUNDINGS for n in EXACT], 2))
def test_every_layer_of_networks_that_people_use(name: str, rounding: str, shared: Path) -> None:
    content = (shared / "zoo" / "tflite" / f"{name}.tflite").read_bytes()
    assert differences(content, rounding, runs=10) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["face_detection_short_range", "movie_review", "mnist_lstm"])
def test_every_layer_of_float_networks(name: str, shared: Path) -> None:
    assert differences((shared / "zoo" / "tflite" / f"{name}.tflite").read_bytes()) == []


def test_moves_of_elements() -> None:
    net = Layers(2, 3, 4, 5, kind="float")
    first = net.last
    order = net.constant("order", np.int32([0, 3, 1, 2]))
    net.emit("TRANSPOSE", [first, order], net.tensor("turned", (2, 5, 3, 4)))
    numbers = [
        net.constant(name, np.int32(v))
        for name, v in (("b", [0, 4, 0, 1]), ("e", [2, 0, 3, 4]), ("s", [1, -2, 2, 1]))
    ]
    net.emit("STRIDED_SLICE", [net.last, *numbers], net.tensor("cut", (2, 2, 2, 3)), begin_mask=0, end_mask=0)
    times = net.constant("times", np.int32([1, 2, 1, 3]))
    net.emit("TILE", [net.last, times], net.tensor("tiled", (2, 4, 2, 9)))
    net.reshaped(4, 36)
    assert differences(net.content()) == []


def test_what_lies_in_the_shared_folder_is_tested(shared: Path) -> None:
    """A new eight-bit file in the zoo is to be tested, or to be named here."""
    known = {*EXACT, "person_detect"}  # LiteRT refuses the last
    found = {Path(f).stem for f in (shared / "zoo" / "tflite").glob("*.tflite")}
    floats = {"face_detection_short_range", "movie_review", "emg_rnn", "mnist_lstm"}
    assert found == known | floats


@pytest.mark.parametrize("kind", ["int8", "uint8", "float"])
def test_nothing_larger_lies_in_the_callers_memory(kind: str) -> None:
    """What a layer makes smaller in place is reshaped into the output, which the larger does not fit into."""
    net = Layers(1, 4, 4, 40, kind=kind)
    net.pool("AVERAGE_POOL_2D", 4)
    net.conv(3, window=1)
    net.reshaped(1, 3)
    made = network(read_program(net.content()), Options())
    for buffer in made.plan.buffers.values():
        assert buffer.owner is None or buffer.size_bytes <= (buffer.owner.size_bytes or 0)
    assert differences(net.content()) == []
