"""Integers of 8 and 16 bits in C answer as LiteRT's own kernels do, operator by operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.c.c_answers import differences
from tests.lower.c.many import Many
from thinflow.engines._c_library import compiler
from thinflow.tflite.model import Quantization, Tensor

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


class Scaled(Many):
    """Integers of which the output has a scale and a zero point of its own."""

    def __init__(self, *shape: int, kind: str, scale: float = 0.05, zero: int = 0) -> None:
        super().__init__(*shape, kind=kind)
        self.rescale(self.x, scale, zero)

    def rescale(self, tensor: Tensor, scale: float, zero: int = 0) -> Tensor:
        tensor.quantization = Quantization(np.float32([scale]), np.int64([zero]))
        return tensor

    def both(self, code: str, other: Tensor, scale: float, zero: int = 0, **options: Any) -> Tensor:
        assert self.x.shape is not None
        return self.rescale(self.add(code, [self.x, other], *self.sizes(), **options), scale, zero)

    def alone(self, code: str, scale: float, zero: int = 0, **options: Any) -> Tensor:
        return self.rescale(self.add(code, [self.x], *self.sizes(), **options), scale, zero)


@pytest.mark.parametrize("rounding", ["litert", "xnnpack"])
def test_squares_of_differences(rounding: str) -> None:
    net = Scaled(3, 200, kind="int8", scale=0.03, zero=-5)
    for scale, zero in ((0.02, 7), (0.07, -128)):
        other = net.rescale(net.value(f"other_{zero}", (200,)), scale, zero)
        net.both("SQUARED_DIFFERENCE", other, 0.1, -128)
        net.both("SQUARED_DIFFERENCE", other, 0.01, -100)
    assert differences(net.content(), rounding) == []


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("activation", ["NONE", "RELU"])
def test_quotients(kind: str, activation: str) -> None:
    lowest = np.iinfo(kind).min
    # LiteRT refuses a division by 0 while it runs, so that the zero point has to lie outside of the numbers.
    zero = {"int8": -128, "uint8": 0, "int16": 0}[kind]
    net = Scaled(3, 120, kind=kind, scale=0.03, zero=zero if kind == "int16" else 100)
    divisors = np.arange(1, 121) * (1 if kind != "int16" else 251) + max(lowest, -128) * (kind == "int8")
    if kind == "int16":
        divisors[::2] *= -1
    other = net.constant("divisors", divisors.astype(kind), 0.02, zero)
    net.both("DIV", other, 0.05, zero, fused_activation_function=activation)
    net.both("DIV", other, 0.7, zero, fused_activation_function=activation)
    assert differences(net.content()) == []


@pytest.mark.parametrize("depth", [1, 5, 300])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_rows_of_length_1(kind: str, depth: int) -> None:
    for zero in (-7, 127) if kind == "int8" else (0, 130):
        net = Scaled(60, depth, kind=kind, zero=zero)
        net.alone("L2_NORMALIZATION", 1 / 128, 0 if kind == "int8" else 128)
        assert differences(net.content()) == []


@pytest.mark.parametrize("rounding", ["litert", "xnnpack"])
@pytest.mark.parametrize("depth", [1, 2, 10, 1000])
@pytest.mark.parametrize("scale", [0.003, 0.02, 0.1, 0.7])
def test_logarithms_of_softmax(scale: float, depth: int, rounding: str) -> None:
    net = Scaled(40, depth, kind="int8", scale=scale)
    net.alone("LOG_SOFTMAX", 1 / 16, 127)
    assert differences(net.content(), rounding) == []


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_functions_of_every_byte(kind: str) -> None:
    net = Scaled(1, 1024, kind=kind, zero=3)
    codes = ["RELU_0_TO_1", "GELU", "HARD_SWISH"]
    for code in codes:
        net.alone(code, 0.04, 20)
    assert differences(net.content(), runs=2) == []
    if kind == "int8":
        net = Scaled(1, 1024, kind=kind, zero=-128)
        for code in ("SQRT", "RSQRT", "LOG", "ELU", "EXP", "ABS"):
            net.alone(code, 0.04, 20)
        assert differences(net.content(), runs=2) == []


def test_functions_of_every_number_of_16_bits() -> None:
    net = Scaled(1, 1 << 16, kind="int16", scale=0.0002)
    for code, scale in (("EXP", 0.02), ("GELU", 0.0002), ("LOG", 0.001)):
        net.alone(code, scale)
    # Steep ones, too, which leave the range.
    for code, scale in (("EXP", 0.003), ("EXP", 0.0004), ("LOG", 0.00001)):
        net.alone(code, scale)
    net.alone("NEG", 0.0002)
    positive = net.alone("ABS", 0.0002)
    net.rescale(net.add("RSQRT", [positive], 1, 1 << 16), 0.002)
    for scale in (0.0002, 0.00001):
        net.rescale(net.add("SQRT", [positive], 1, 1 << 16), scale)
    for scale in (0.0002, 0.00017):
        net.alone("ABS", scale)
        for slope in (0.3, 1.5, -0.2):
            net.alone("LEAKY_RELU", scale, alpha=slope)
    assert differences(net.content(), runs=2) == []


def test_slopes_of_16_bits() -> None:
    net = Scaled(1, 300, 5, kind="int16", scale=0.0002)
    slopes = net.constant("slopes", np.int8([[[-100, -3, 0, 5, 127]]]), 0.01)
    net.both("PRELU", slopes, 0.00021)
    assert differences(net.content()) == []


@pytest.mark.parametrize("kinds", ["int8 int16", "uint8 int16", "int32 int8", "int32 int16", "int16 int32"])
def test_other_numbers_of_bits(kinds: str) -> None:
    kind, made = kinds.split()
    net = Scaled(3, 500, kind=kind, scale=0.03, zero=5 if kind in ("int8", "uint8") else 0)
    y = net.add("QUANTIZE", [net.x], 3, 500, kind=made)
    net.rescale(y, 0.0004, 0)
    assert differences(net.content()) == []


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("depth", [1, 7, 300])
def test_softmax_from_8_to_16_bits(kind: str, depth: int) -> None:
    net = Scaled(40, depth, kind=kind, scale=0.05)
    y = net.add("SOFTMAX", [net.x], 40, depth, kind="int16", beta=1.0)
    net.rescale(y, 1 / 65536, -32768)
    assert differences(net.content()) == []


def test_bytes_side_by_side_at_one_scale() -> None:
    net = Scaled(2, 300, kind="uint8", scale=0.05, zero=12)
    others = [net.rescale(net.value(f"other_{n}", (2, 300)), 0.02 * n, 100 + n) for n in (1, 2)]
    y = net.add("CONCATENATION", [net.x, *others, net.x], 2, 1200, axis=1)
    net.rescale(y, 0.05, 12)
    assert differences(net.content()) == []


@pytest.mark.parametrize("kind", ["int8", "int16"])
def test_quotients_of_numbers_without_a_scale(kind: str) -> None:
    net = Many(2, 300, kind=kind)
    net.x.quantization = None
    divisors = np.resize([3, -7, 1, -1, 100], 300).astype(kind)
    for code in ("FLOOR_DIV", "FLOOR_MOD"):
        net.add(code, [net.x, net.constant(code, divisors)], 2, 300, kind=kind)
    assert differences(net.content()) == []


def test_powers_of_whole_numbers() -> None:
    net = Many(2, 300, kind="int32")
    net.add("POW", [net.x, net.constant("by", np.resize([0, 1, 2, 3, 4], 300).astype(np.int32))], 2, 300)
    assert differences(net.content()) == []


@pytest.mark.parametrize("rounding", ["litert", "xnnpack"])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_slopes_of_bytes(kind: str, rounding: str) -> None:
    for seed in range(4):
        rng, limits = np.random.default_rng(seed), np.iinfo(kind)
        net = Scaled(1, 9, 11, 5, kind=kind, scale=rng.uniform(0.01, 0.1), zero=rng.integers(limits.min, 128))
        numbers = rng.integers(limits.min, limits.max + 1, (1, 1, 5)).astype(kind)
        slopes = net.constant("slopes", numbers, rng.uniform(0.002, 0.01), 7)
        net.both("PRELU", slopes, rng.uniform(0.01, 0.1), 3)
        assert differences(net.content(), rounding) == []


SIDES = [(4, 5, 7, 4), (9, 7, 3, 11), (1, 6, 5, 6), (5, 1, 9, 3), (6, 6, 12, 12)]
MODES = [
    {},
    {"align_corners": True, "half_pixel_centers": False},
    {"align_corners": False, "half_pixel_centers": True},
]


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_pictures_of_another_size_by_xnnpack(kind: str, mode: dict[str, bool]) -> None:
    for height, width, out_height, out_width in SIDES:
        net = Scaled(2, height, width, 3, kind=kind)
        sizes = net.constant("sizes", np.int32([out_height, out_width]))
        net.add("RESIZE_BILINEAR", [net.x, sizes], 2, out_height, out_width, 3, **mode)
        assert differences(net.content(), "xnnpack") == []
