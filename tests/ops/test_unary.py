"""Functions of one input: rounding, edges of the domain, special functions."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run
from thinflow.ir.types import BOOL, FLOAT, INT32, TensorSpec

_random = np.random.default_rng(2)
_FLOATS: list[Any] = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
_EDGES = [np.nan, 0.0, -0.0, -1, -2, np.inf, -np.inf, 0.5, 1.5, 2.5, -0.5, -1.5, 1e-5, 40, -40, 0.999]


def _floats(*kinds: Any, low: float = -3, high: float = 3) -> list[Case]:
    cases: list[Case] = [([np.array(_EDGES, np.float32)], {})]
    cases += [([_random.uniform(low, high, (2, 3)).astype(kind)], {}) for kind in kinds or _FLOATS]
    return cases


def _ints(*kinds: Any) -> list[Case]:
    return [([np.array([np.iinfo(k).min, np.iinfo(k).max, 0, 3], k)], {}) for k in kinds]


_COMPLEX: list[Case] = [([np.array([0.3 + 0.4j, -0.5 - 0.2j, 0.1j], np.complex64)], {})]
_F32: list[Any] = [np.float32, np.float64]

CASES: dict[str, list[Case]] = {
    "Neg": _floats() + _ints(np.int8, np.int32, np.int64) + _COMPLEX,
    "Abs": _floats() + _ints(np.int8, np.int32, np.int64),
    "Sign": _floats() + _ints(np.int8, np.int32, np.int64) + _COMPLEX + [([np.zeros(1, np.complex64)], {})],
    "Floor": _floats(),
    "Ceil": _floats(),
    "Round": _floats() + _ints(np.int32),
    "Rint": _floats(*_F32),
    "Square": _floats() + _ints(np.int32, np.uint8) + _COMPLEX,
    "Sqrt": _floats() + _COMPLEX,
    "Rsqrt": _floats() + _COMPLEX,
    "Reciprocal": _floats() + _COMPLEX,
    "Inv": _floats() + _COMPLEX,
    "Exp": _floats() + _COMPLEX,
    "Expm1": _floats() + _COMPLEX,
    "Log": _floats(low=0.01) + _COMPLEX,
    "Log1p": _floats(low=-0.9) + _COMPLEX,
    "Sigmoid": _floats() + _COMPLEX,
    "Sin": _floats() + _COMPLEX,
    "Cos": _floats() + _COMPLEX,
    "Tan": _floats() + _COMPLEX,
    "Asin": _floats(low=-1, high=1) + _COMPLEX,
    "Acos": _floats(low=-1, high=1) + _COMPLEX,
    "Atan": _floats() + _COMPLEX,
    "Sinh": _floats() + _COMPLEX,
    "Cosh": _floats() + _COMPLEX,
    "Tanh": _floats() + _COMPLEX,
    "Asinh": _floats() + _COMPLEX,
    "Acosh": _floats(low=1) + _COMPLEX,
    "Atanh": _floats(low=-0.99, high=0.99) + _COMPLEX,
    "Erf": _floats(),
    "Erfc": _floats(),
    "Erfinv": _floats(*_F32, low=-0.999, high=0.999),
    "Ndtri": _floats(*_F32, low=0.001, high=0.999),
    "Lgamma": _floats(*_F32, np.float16, low=0.1, high=9),
    "Digamma": _floats(*_F32, np.float16, low=0.1, high=9),
    "IsNan": _floats(),
    "IsInf": _floats(),
    "IsFinite": _floats(),
    "Invert": _ints(np.int8, np.uint8, np.int32, np.int64),
    "PopulationCount": _ints(np.int8, np.uint8, np.int32, np.int64),
    "LogicalNot": [([np.array([[True, False]])], {})],
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_shape_rule_agrees_with_kernel(name: str) -> None:
    for case in CASES[name]:
        check_agreement(name, case)


@pytest.mark.parametrize("name", ["Round", "Rint"])
def test_halves_round_to_even(name: str) -> None:
    assert run(name, np.float32([0.5, 1.5, 2.5, -0.5, -1.5])).tolist() == [0, 2, 2, 0, -2]


def test_smallest_integer_has_no_opposite() -> None:
    assert run("Neg", np.int8([-128, 5])).tolist() == [-128, -5]
    assert run("Abs", np.int8([-128, -5])).tolist() == [-128, 5]


def test_sign() -> None:
    y = run("Sign", np.float32([np.nan, -3, 0, 7]))
    assert np.isnan(y[0])
    assert y[1:].tolist() == [-1, 0, 1]
    np.testing.assert_allclose(run("Sign", np.complex64([3 + 4j, 0])), [0.6 + 0.8j, 0])


def test_reciprocal_roots() -> None:
    assert run("Rsqrt", np.float32([0, 4])).tolist() == [np.inf, 0.5]
    assert run("Reciprocal", np.float32([0, -0.0])).tolist() == [np.inf, -np.inf]
    assert run("Inv", np.int32([1, -1, 5])).tolist() == [1, -1, 0]


def test_sigmoid_far_out_is_silent() -> None:
    assert run("Sigmoid", np.float32([-200, 200])).tolist() == [0, 1]


def test_error_function_to_15_digits() -> None:
    x = np.linspace(-8, 8, 4001)
    np.testing.assert_allclose(run("Erf", x), [math.erf(v) for v in x], rtol=5e-16)
    np.testing.assert_allclose(run("Erfc", x), [math.erfc(v) for v in x], rtol=2e-14)
    assert run("Erf", np.float64([np.inf, -np.inf])).tolist() == [1, -1]
    assert np.isnan(run("Erf", np.float64([np.nan]))).all()


def test_inverse_error_function() -> None:
    x = np.linspace(-3, 3, 301)
    np.testing.assert_allclose(run("Erfinv", run("Erf", x)), x, atol=1e-10)
    assert run("Erfinv", np.float32([1, -1, 0])).tolist() == [np.inf, -np.inf, 0]
    assert np.isnan(run("Erfinv", np.float32([1.5, np.nan]))).all()
    assert run("Erfinv", np.float64([1e-9])) == pytest.approx(1e-9 * math.sqrt(math.pi) / 2, rel=1e-14)
    assert run("Ndtri", np.float64([0.975, 1e-30])).tolist() == pytest.approx(
        [1.959963984540054, -11.4640249]
    )
    assert run("Ndtri", np.float64([0, 1])).tolist() == [-np.inf, np.inf]


def test_gamma_functions() -> None:
    assert run("Lgamma", np.float64([1, 4, 0, -1, np.inf])).tolist() == pytest.approx(
        [0, math.log(6), np.inf, np.inf, np.inf]
    )
    euler = 0.5772156649015329
    expected = [-euler, 1 - euler, -euler - 2 * math.log(2), 0.03648997397857652]
    assert run("Digamma", np.float64([1, 2, 0.5, -0.5])).tolist() == pytest.approx(expected, rel=1e-13)
    assert np.isnan(run("Digamma", np.float64([0, -1, -np.inf]))).all()


def test_bits() -> None:
    assert run("Invert", np.uint8([0, 255])).tolist() == [255, 0]
    assert run("PopulationCount", np.int32([[-1, 0], [5, 256]])).tolist() == [[32, 0], [2, 1]]


def test_half_is_computed_in_float32_and_rounded_once() -> None:
    x = np.float16([2.5])
    assert run("Sigmoid", x).tolist() == [float(np.float16(1 / (1 + math.exp(-2.5))))]
    assert run("Exp", x.astype(ml_dtypes.bfloat16)).dtype == ml_dtypes.bfloat16


def test_specs() -> None:
    assert infer("Neg", TensorSpec(INT32, (2,), (None, 3))).elements == (None, -3)
    assert infer("Exp", TensorSpec(FLOAT, (None, 3))) == TensorSpec(FLOAT, (None, 3))
    assert infer("IsNan", TensorSpec(FLOAT, (None, 3))) == TensorSpec(BOOL, (None, 3))
    assert infer("LogicalNot", TensorSpec(BOOL, (2,), (1, None))).elements == (0, None)
