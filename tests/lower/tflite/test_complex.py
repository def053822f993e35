"""Fourier transforms of any length and complex numbers, through LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.builders import floats
from tests.lower.tflite.harness import Net, run_litert
from thinflow.analysis.shapes import infer_with_loops
from thinflow.engines.litert import ENGINE
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT, dtype
from thinflow.lower.tflite.convert import unsupported
from thinflow.lower.tflite.quantized_context import inner_groups

COMPLEX = dtype("complex64")


def spectrum(net, x, length):
    return net.op("RFFT", x, np.int32([length]), Tcomplex=COMPLEX)


def real(net, x):
    return net.op("Real", x, T=COMPLEX, Tout=FLOAT), net.op("Imag", x, T=COMPLEX, Tout=FLOAT)


@pytest.mark.parametrize("length", [24, 7, 1, 10])
def test_lengths_that_are_no_powers_of_two(length):
    net = Net()
    y = spectrum(net, net.feed(floats(3, 24)), length)
    size = net.op("ComplexAbs", y, T=COMPLEX, Tout=FLOAT)
    assert "RFFT2D" not in net.check(*real(net, y), size, atol=1e-4)


def test_powers_of_two_stay_litert_s_own():
    net = Net()
    size = net.op("ComplexAbs", spectrum(net, net.feed(floats(3, 32)), 32), T=COMPLEX, Tout=FLOAT)
    assert net.check(size) == ["RESHAPE", "RFFT2D", "RESHAPE", "COMPLEX_ABS"]


@pytest.mark.parametrize("length", [16, 15, 12])
def test_there_and_back(length):
    net = Net()
    y = spectrum(net, net.feed(floats(2, 3, length)), length)
    net.check(net.op("IRFFT", y, np.int32([length]), Treal=FLOAT), atol=1e-4)


@pytest.mark.parametrize("op", ["FFT", "IFFT", "FFT2D", "IFFT2D", "FFT3D"])
def test_complex_transforms(op):
    net = Net()
    x = net.op(
        "Complex", net.feed(floats(2, 3, 5, 6), "re"), net.feed(floats(2, 3, 5, 6), "im"), Tout=COMPLEX
    )
    net.check(*real(net, net.op(op, x, Tcomplex=COMPLEX)), atol=1e-4)


def test_two_axes():
    net = Net()
    y = net.op("RFFT2D", net.feed(floats(2, 6, 10)), np.int32([6, 10]), Tcomplex=COMPLEX)
    net.check(*real(net, y), atol=1e-4)
    net.check(net.op("IRFFT2D", y, np.int32([6, 10]), Treal=FLOAT), atol=1e-4)


def test_an_open_batch():
    net = Net()
    y = spectrum(net, net.feed(floats(2, 12), "x", (None, 12)), 12)
    net.check(net.op("IRFFT", net.op("Mul", y, y), np.int32([12]), Treal=FLOAT), atol=1e-3)


FACTOR = (floats(7) + 1j * floats(7, low=0.5)).astype(np.complex64)


@pytest.mark.parametrize("op", ["Mul", "AddV2", "Sub", "RealDiv"])
@pytest.mark.parametrize("factor", [FACTOR, FACTOR.real.astype(np.complex64)])
def test_arithmetic(op, factor):
    net = Net()
    y = net.op(op, spectrum(net, net.feed(floats(3, 12)), 12), factor + np.complex64(2))
    angle = [] if not factor.imag.any() else [net.op("Angle", y, T=COMPLEX, Tout=FLOAT)]
    net.check(*real(net, y), *angle, atol=1e-4)


@pytest.mark.parametrize("op", ["Conj", "Square", "Exp", "Neg", "Identity"])
def test_functions(op):
    net = Net()
    net.check(*real(net, net.op(op, spectrum(net, net.feed(floats(3, 12) * 0.2), 12))), atol=1e-4)


def test_the_size_of_what_is_huge_or_tiny_or_nothing():
    net = Net()
    parts = np.float32([1e30, -1e-30, 0.0, 3.0])
    x = net.op("Complex", net.feed(parts, "re"), net.feed(parts[::-1].copy(), "im"), Tout=COMPLEX)
    net.check(net.op("ComplexAbs", x, T=COMPLEX, Tout=FLOAT))


def test_layouts():
    net = Net()
    y = net.op("Transpose", spectrum(net, net.feed(floats(3, 12)), 12), np.int32([1, 0]))
    y = net.op("ExpandDims", net.op("ConcatV2", y, y, np.int32(1)), np.int32(0))
    net.check(*real(net, y), atol=1e-4)


def test_parts_never_leave_the_model():
    net = Net()
    y = net.op("Mul", spectrum(net, net.feed(floats(3, 12)), 12), FACTOR, name="product")
    with pytest.raises(
        UnsupportedOp, match="LiteRT cannot hand out complex numbers that it has computed with"
    ):
        net.lower(y)


def test_an_unknown_op_of_complex_numbers_says_so():
    net = Net()
    y = net.op("Cumprod", spectrum(net, net.feed(floats(3, 12)), 12), np.int32(0))
    (reason,) = [why for n, why in unsupported(net.graph, net.graph).items() if n is y.node]
    assert reason == "there is a form of Cumprod for real numbers only"


def test_what_hangs_together_goes_to_the_engine_together():
    net = Net()
    x = net.feed(floats(3, 12))
    y = net.op("IRFFT", net.op("Mul", spectrum(net, x, 12), FACTOR), np.int32([12]), Treal=FLOAT)
    total = net.op("Tanh", y)
    infer_with_loops(net.graph)
    (group,) = inner_groups(net.graph)
    assert sorted(n.op for n in group) == ["IRFFT", "Mul", "RFFT"]
    compiled = ENGINE.compile(net.graph, [x], [total])
    assert set(compiled.placement.values()) == {"litert"}
    (found,) = compiled.run([net.feeds[x]])
    np.testing.assert_allclose(found, net.reference(total)[0], atol=1e-4)


def test_sizes_and_quotients_of_numbers_near_both_ends():
    reals = np.float32([1, 8e-38, 9e-38, 1e-30, 1e20, 3e37])
    net = Net()
    z = net.op("Complex", net.feed(reals, "re"), net.feed(-0.75 * reals, "im"), T=FLOAT, Tout=COMPLEX)
    size = net.op("ComplexAbs", z, T=COMPLEX, Tout=FLOAT)
    divisors = {
        "own": (z, reals * (1 - 0.75j)),
        "two": (np.complex64(2), 2),
        "turned": (np.complex64(4j), 4j),
    }
    parts = {}
    for name, (divisor, _) in divisors.items():
        quotient = net.op("RealDiv", z, divisor, name=name, T=COMPLEX)
        parts[name] = [
            net.op(op, quotient, name=f"{name}_{op}", T=COMPLEX, Tout=FLOAT) for op in ("Real", "Imag")
        ]
    lowered = net.lower(size, *(part for both in parts.values() for part in both))
    found = run_litert(lowered, {v.name: a for v, a in net.feeds.items()})
    wide = reals.astype(np.float64) * (1 - 0.75j)
    np.testing.assert_allclose(found[size.name], np.abs(wide), rtol=1e-6)
    for name, (re, im) in parts.items():
        exact = wide / divisors[name][1]
        np.testing.assert_allclose(found[re.name], exact.real, rtol=1e-6, atol=1e-6 * np.abs(exact).min())
        np.testing.assert_allclose(found[im.name], exact.imag, rtol=1e-6, atol=1e-6 * np.abs(exact).min())
