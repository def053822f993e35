"""Special functions, running totals and small formulas as simpler ops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.decompose.harness import Constant, check_parts, check_targets
from tests.decompose.special import COUNTED, FORMULAS, f
from tests.lower.onnx.harness import Net as OnnxNet
from tests.lower.onnx.harness import run_onnx
from tests.lower.tflite.harness import Net as TfliteNet
from tests.lower.tflite.harness import run_litert
from thinflow.errors import UnsupportedOp

INF = np.array([[np.inf, -np.inf, 0, 1, 2, -1, -3, 1e-30, 5e6, 3e30]], np.float32)
EDGES = np.array([[-1, 1, 0, 0.999999, -0.9999999, 1e-7]], np.float32)


@pytest.mark.parametrize(
    ("op", "x"),
    [
        ("Lgamma", f(4, 2000, low=-20, high=20)),
        ("Lgamma", f(4, 2000, low=0.4, high=10)),
        ("Lgamma", INF),
        ("Digamma", f(4, 2000, low=0.01, high=12)),
        ("Digamma", f(4, 500, low=-4.2, high=0)),
        ("Erfinv", f(4, 2000, low=-1, high=1)),
        ("Erfinv", EDGES),
    ],
)
def test_special_functions(op, x):
    if op == "Digamma":  # its poles and zeros amplify what the rounding of x makes
        x = np.where(np.abs(x - np.rint(x)) < 0.05, x + np.float32(0.2), x).astype(np.float32)
    rtol, atol = (2e-6, 2e-6) if op != "Lgamma" else (1e-5, 3e-6)
    check_parts(op, [x], rtol=rtol, atol=atol)
    check_targets(op, [x], rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize("op", ["Lgamma", "Digamma", "Erfinv"])
def test_half_is_computed_in_float(op):
    check_parts(op, [f(2, 20, low=0.1, high=0.9).astype(np.float16)], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize(
    "attrs", [{}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True}]
)
@pytest.mark.parametrize("op", ["Cumprod", "CumulativeLogsumexp"])
def test_scans(op, attrs, axis):
    x = f(5, 7)
    check_parts(op, [x, Constant(axis, np.int32)], attrs)
    check_targets(op, [x, Constant(axis, np.int32)], attrs, opened=axis != 0)


@pytest.mark.parametrize("exclusive", [False, True])
def test_scans_of_one_element(exclusive):
    check_targets("Cumprod", [f(2, 1), Constant(1, np.int32)], {"exclusive": exclusive})


def test_infinities():
    x = np.array([[np.inf, -np.inf, np.nan, 0, -2, 3]], np.float32)
    for op in ("Digamma", "Lgamma", "Erfinv"):
        check_parts(op, [x])
        check_targets(op, [x])


def test_an_impossible_class_without_a_share():
    x, labels = np.array([[0, 1, -np.inf]], np.float32), np.array([[0.5, 0.5, 0]], np.float32)
    check_parts("SoftmaxCrossEntropyWithLogits", [x, labels])


def test_logarithms_of_sums_of_infinities():
    x = np.array([[-np.inf, -np.inf, 1, 1000, np.inf, 2]], np.float32)
    check_parts("CumulativeLogsumexp", [x, Constant(1, np.int32)])
    check_targets("CumulativeLogsumexp", [x, Constant(1, np.int32)])


def test_products_of_whole_numbers_wrap_around():
    x = np.array([[3, -7, 1000, 12345, 99999, 2], [2**31 - 1, -(2**31), 7, -1, 2**30, 3]], np.int32)
    check_parts("Cumprod", [x, Constant(1, np.int32)])
    check_targets("Cumprod", [x, Constant(1, np.int32)])


@pytest.mark.parametrize(("op", "operands", "attrs", "ports"), FORMULAS)
def test_formulas(op, operands, attrs, ports):
    check_parts(op, operands, attrs, ports=ports)
    check_targets(op, operands, attrs, ports=ports)


@pytest.mark.parametrize(
    ("op", "operands", "why"),
    [
        ("Lgamma", [f(3).astype(np.float64)], "no formula is exact enough for double"),
        ("Cumprod", [f(3), np.array(0, np.int32)], "axis is computed while the model runs"),
        ("Cumprod", [f(0, 2), Constant(0, np.int32)], "its axis is empty"),
        ("NthElement", [f(3), np.array(0, np.int32)], "n is computed while the model runs"),
        ("NthElement", [f(3), Constant(3, np.int32)], "n is 3, a row has 3 elements"),
        ("Cross", [f(2, 4), f(2, 4)], "not of three elements"),
        ("DenseBincount", [COUNTED, Constant(6, np.int32), f(2, 3)], "weights are not like"),
    ],
)
def test_refused(op, operands, why):
    with pytest.raises(UnsupportedOp, match=why):
        check_parts(op, operands)


SIZES = np.float32(
    [1e-8, 7e-8, 1e-6, 1e-4, 3e-3, 6e-3, 0.05, 0.07, 0.3, 0.9, 1, 3.9, 4.1, 12, 17, 20, 60, 80, 88, 1e20]
)
SIDES = np.concatenate([np.float32([0, np.inf, -np.inf, np.nan]), SIZES, -SIZES])
INSIDE = np.append(SIDES[np.abs(SIDES) <= 1], np.float32(1.00001))


EXACT = {
    "Softplus": lambda x: np.logaddexp(0, x),
    "Asinh": np.arcsinh,
    "Log1p": np.log1p,
    "Atanh": np.arctanh,
    "Cosh": np.cosh,
    "Sinh": np.sinh,
    "Erf": lambda x: np.array([math.erf(n) for n in x]),
}


def exact(op, x):
    """In float64, rounded."""
    with np.errstate(all="ignore"):
        return EXACT[op](x.astype(np.float64)).astype(np.float32)


@pytest.mark.parametrize(
    ("op", "x", "rtol"),
    [
        ("Softplus", SIDES, 3e-4),
        ("Asinh", SIDES, 4e-6),
        ("Log1p", SIDES, 2e-5),
        ("Log1p", INSIDE, 2e-5),
        ("Atanh", INSIDE, 5e-6),
        ("Cosh", SIDES[~np.isnan(SIDES)], 4e-6),
        ("Sinh", SIDES, 4e-6),
        ("Erf", SIDES, 2e-5),
    ],
)
@pytest.mark.parametrize("kind", [TfliteNet, OnnxNet])
def test_digits_are_kept_near_0_and_far_from_it(kind, op, x, rtol):
    net = kind()
    y = net.op(op, net.feed(x))
    run = run_litert if kind is TfliteNet else run_onnx
    (found,) = run(net.lower(y), {"x": x}).values()
    np.testing.assert_allclose(found, exact(op, x), rtol=rtol, atol=1.2e-38)  # XNNPACK flushes


def test_half_has_an_asinh_up_to_half_its_largest():
    check_parts("Asinh", [np.float16([-3e4, -300, -1, -0.01, 0, 0.05, 0.07, 190, 210, 3e4])], rtol=3e-3)


def test_no_digits_are_lost_in_exponents():
    x = np.linspace(60, 89, 500, dtype=np.float32)
    check_parts("Cosh", [x], rtol=6e-7, atol=0)
    check_parts("Sinh", [-x], rtol=6e-7, atol=0)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_least_integer_stays_the_least(reverse):
    x = np.array([[3, -(2**31), 7, 2**31 - 1]], np.int32)
    for n in range(4):
        check_parts("NthElement", [x, Constant(n, np.int32)], {"reverse": reverse})
        check_targets("NthElement", [x, Constant(n, np.int32)], {"reverse": reverse})


class Latest(OnnxNet):
    opset = 18


@pytest.mark.parametrize("kind", ["Max", "Min"])
@pytest.mark.parametrize("element", [np.float32, np.int32])
def test_extremes_of_no_rows(kind, element):
    x, ids = np.array([[3], [5]], element), np.array([0, 2], np.int32)
    check_parts(f"Segment{kind}", [x, ids])
    check_parts(f"Segment{kind}V2", [x, ids, Constant(4, np.int32)])
    for net in (TfliteNet(), Latest()):  # ONNX has them since opset 18
        rows = net.feed(x)
        net.check(net.op(f"Segment{kind}", rows, ids), net.op(f"Segment{kind}V2", rows, ids, np.int32(4)))
