"""Complex numbers as their parts, and Fourier transforms."""

from __future__ import annotations

import numpy as np
import pytest

from tests.loops import entered
from tests.lower.builders import floats
from tests.lower.control_flow import condition, counted_loop
from tests.lower.onnx.harness import Net, run_onnx
from thinflow.engines.session import Session
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import dtype

C64 = dtype("complex64")


def complex_input(net, *shape):
    return net.op(
        "Complex", net.feed(floats(*shape), "re"), net.feed(floats(*shape) * 0.5 + 1, "im"), Tout=C64
    )


@pytest.mark.parametrize("op", ["Real", "Imag", "ComplexAbs", "Angle"])
def test_parts(op):
    net = Net()
    net.check(net.op(op, complex_input(net, 3, 4)))


@pytest.mark.parametrize("op", ["Conj", "Exp", "Square", "Neg"])
def test_functions(op):
    net = Net()
    y = net.op(op, complex_input(net, 3, 4), T=C64)
    net.check(net.op("Real", y, name="r"), net.op("Imag", y, name="i"))


@pytest.mark.parametrize("op", ["Mul", "AddV2", "Sub", "RealDiv"])
@pytest.mark.parametrize("constant", [np.complex64([1 + 2j, 3, -1j]), None])
def test_arithmetic(op, constant):
    net = Net()
    x = complex_input(net, 2, 3)
    y = net.op(op, x, x if constant is None else constant, T=C64)
    net.check(net.op("Real", y, name="r"), net.op("Imag", y, name="i"))


def complex_parts(net, real, imag, name):
    return net.op(
        "Complex", net.feed(np.float32(real), f"{name}r"), net.feed(np.float32(imag), f"{name}i"), Tout=C64
    )


def test_sizes_of_infinities():
    net = Net()
    net.check(net.op("ComplexAbs", complex_parts(net, [np.inf, 1, -np.inf, 3], [1, -np.inf, np.inf, 4], "x")))


def test_quotients_at_the_ends_of_the_range():
    """The squares of these divisors overflow, or vanish."""
    net = Net()
    x = complex_parts(net, [1e30, 1e-30, 2, 3, 4], [2e30, 2e-30, 3, 4, 5], "x")
    y = complex_parts(net, [3e30, 1e-30, np.inf, 0, -7], [-1e30, 3e-30, 1, -2, 0], "y")
    z = net.op("RealDiv", x, y, T=C64)
    net.check(net.op("Real", z, name="r"), net.op("Imag", z, name="i"))


def test_ops_on_each_part():
    net = Net()
    x = complex_input(net, 2, 6)
    y = net.op("Transpose", net.op("Reshape", x, np.int32([3, 4]), T=C64), np.int32([1, 0]), T=C64)
    y = net.op("Sum", net.op("ConcatV2", y, y, np.int32(0), N=2, T=C64), np.int32([0]), T=C64)
    net.check(net.op("Real", y, name="r"), net.op("Imag", y, name="i"))


def test_products_of_matrices():
    net = Net()
    x = complex_input(net, 3, 3)
    y = net.op("ConjugateTranspose", net.op("MatMul", x, x, T=C64), np.int32([1, 0]), T=C64)
    net.check(net.op("Real", y, name="r"), net.op("Imag", y, name="i"))


@pytest.mark.parametrize(
    "op", ["FFT", "IFFT", "FFT2D", "IFFT2D", "FFT3D", "IFFT3D", "BatchFFT", "BatchIFFT2D"]
)
def test_transforms(op):
    net = Net()
    y = net.op(op, complex_input(net, 2, 3, 5, 6), Tcomplex=C64)
    net.check(net.op("Real", y, name="r"), net.op("Imag", y, name="i"), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("length", [[8], [7], [3, 6], [2, 3, 5]])
def test_transforms_of_reals(length):
    net = Net()
    more = {1: "", 2: "2D", 3: "3D"}[len(length)]
    y = net.op(f"RFFT{more}", net.feed(floats(2, 3, 4, 8)), np.int32(length), Tcomplex=C64)
    back = net.op(f"IRFFT{more}", y, np.int32(length), Tcomplex=C64)
    net.check(net.op("Real", y, name="r"), net.op("Imag", y, name="i"), back, rtol=1e-4, atol=1e-4)


def test_outside_of_a_program_complex_numbers_are_pairs():
    net = Net()
    x = net.feed(np.complex64([[1 + 2j, 3 - 1j]]), "x", shape=(None, 2))
    y = net.op("Mul", x, x, name="y", T=C64)
    lowered = net.lower(y)
    assert lowered.inputs["x"].shape == (None, 2, 2)
    assert lowered.outputs["y"].shape == (None, 2, 2)
    pairs = np.float32([[[1, 2], [3, -1]]])
    np.testing.assert_allclose(run_onnx(lowered, {"x": pairs})["y"], [[[-3, 4], [8, -6]]])


def test_the_engine_takes_and_gives_complex_numbers():
    net = Net()
    x = net.feed(np.complex64([1 + 2j, 3 - 1j]), "x")
    y = net.op("FFT", net.op("Mul", x, x, T=C64), name="y", Tcomplex=C64)
    session = Session(net.graph, "onnxruntime")
    (found,) = session.run([y], net.feeds)
    assert found.dtype == np.complex64
    np.testing.assert_allclose(found, net.reference(y)[0], rtol=1e-5)
    assert "onnxruntime" in session.placement.values()


@pytest.mark.parametrize(
    ("op", "attrs", "reason"),
    [("Sqrt", {"T": C64}, "no form of Sqrt of complex numbers"), ("Cast", {"DstT": dtype("half")}, None)],
)
def test_what_has_no_form(op, attrs, reason):
    net = Net()
    y = net.op(op, complex_input(net, 2), **attrs)
    if reason is None:
        net.check(y, rtol=1e-3)
        return
    with pytest.raises(UnsupportedOp, match=reason):
        net.lower(net.op("Real", y, name="r"))


def test_a_length_that_is_computed_is_refused():
    net = Net()
    y = net.op("RFFT", net.feed(floats(8)), net.feed(np.int32([8]), "n"), Tcomplex=C64)
    with pytest.raises(UnsupportedOp, match="fft_length is computed"):
        net.lower(net.op("Real", y, name="r"))


def test_a_loop_carries_both_parts():
    """z = 1; z = z * w + z, three times: w is read from outside, and z starts as a constant."""
    net = Net()
    w = entered(net.graph, "loop", complex_input(net, 2, 3))
    start = net.const(np.ones((2, 3), np.complex64), "start")
    z = counted_loop(net, "loop", start, lambda z, i: net.op("AddV2", net.op("Mul", z, w, T=C64), z, T=C64))
    net.check(net.op("Real", z, name="r"), net.op("Imag", z, name="i"))


def test_a_loop_hands_complex_numbers_out():
    net = Net()
    z = counted_loop(net, "loop", complex_input(net, 2, 3), lambda z, i: net.op("Mul", z, z, T=C64))
    (expected,) = net.reference(z)
    results = run_onnx(net.lower(z), {v.name: a for v, a in net.feeds.items()})
    np.testing.assert_allclose(results[z.name], np.stack([expected.real, expected.imag], -1), rtol=1e-5)


@pytest.mark.parametrize("decision", [False, True])
def test_branches_give_both_parts(decision):
    net = Net()
    x, p = complex_input(net, 2, 3), net.feed(np.array(decision), "p")
    y = condition(net, p, x, lambda x: net.op("Mul", x, x, T=C64), lambda x: net.op("Conj", x, T=C64))
    net.check(net.op("Real", y, name="r"), net.op("Imag", y, name="i"))
