"""Special functions: stored values, identities, ends of their domains."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, TensorSpec

f32, f64 = np.float32, np.float64
X = np.array([-2.5, -1, -0.5, 0, 0.2, 1, 2, 5, 24.9, 25.1, 50])
ENDS = np.array([np.inf, -np.inf, np.nan])
UNARY = (
    "BesselI0", "BesselI0e", "BesselI1", "BesselI1e", "BesselJ0", "BesselJ1", "BesselK0", "BesselK0e",
    "BesselK1", "BesselK1e", "BesselY0", "BesselY1", "Dawsn", "Expint", "FresnelCos", "FresnelSin", "Spence",
)  # fmt: skip
A = np.array([0.5, 1, 1.5, 2, 3, 4, 30, 200])
B = np.array([0.7, 3, 1.5, 9, 0.1, 4, 25, 210])
P = np.array([0.1, 0.5, 0.9, 0.25, 0.7, 0.999, 0.4, 0.5])


def _narrow(*arrays: np.ndarray) -> list[Case]:
    """Of narrower types without 0, where TensorFlow's approximations end."""
    kinds = (f32, np.float16, ml_dtypes.bfloat16)
    return [(list(arrays), {}), *(([a[a != 0].astype(k) for a in arrays], {}) for k in kinds)]


CASES: dict[str, list[Case]] = {name: [*_narrow(X), ([ENDS], {})] for name in UNARY}
CASES |= {
    "Igamma": [([A, B], {}), ([A.astype(f32), f32(2.5)], {}), ([A.reshape(2, 4, 1), B[:3]], {})],
    "Igammac": [([A, B], {}), ([A.astype(f32), f32(2.5)], {})],
    "Zeta": [
        ([A + 0.75, B], {}),
        ([(A + 0.75).astype(f32), f32(2.5)], {}),
        ([f64(2), np.array([-1.5, -2])], {}),
    ],
    "Polygamma": [([np.array([0, 1, 2, 3, 4, 0, 1, 7.0]), B], {}), ([f32(2), B.astype(f32)], {})],
    "Betainc": [
        ([A, B, P], {}),
        ([v[:7].astype(f32) for v in (A, B, P)], {}),
        ([f64(2), f64(3), P], {}),
    ],
}

STORED: dict[str, list[tuple[tuple[float, ...], float]]] = {
    "BesselI0": [((0.3,), 1.022626879351597), ((2.5,), 3.289839144050123), ((30.0,), 781672297823.9775)],
    "BesselI1": [((0.3,), 0.1516938400035928), ((2.5,), 2.5167162452886984), ((-30.0,), -768532038938.957)],
    "BesselJ0": [((0.3,), 0.9776262465382961), ((7.5,), 0.2663396578803784), ((60.0,), -0.09147180408906187)],
    "BesselJ1": [((0.3,), 0.148318816273104), ((7.5,), 0.1352484275797055), ((60.0,), 0.046598383758166315)],
    "BesselY0": [((0.3,), -0.8072735778045195), ((7.5,), 0.11731328614820863), ((60.0,), 0.0473589522094494)],
    "BesselY1": [
        ((0.3,), -2.2931051383885293),
        ((7.5,), -0.25912851048611624),
        ((60.0,), 0.09186960936986689),
    ],
    "BesselK0": [
        ((0.3,), 1.3724600605442974),
        ((7.5,), 0.00024917761635611437),
        ((60.0,), 1.4138978405591078e-27),
    ],
    "BesselK1": [
        ((0.3,), 3.055992033457325),
        ((7.5,), 0.0002652973901252895),
        ((60.0,), 1.4256320265171043e-27),
    ],
    "Dawsn": [
        ((0.3,), 0.28263166502131193),
        ((2.5,), 0.2230837221674355),
        ((-150.0,), -0.003333407412346228),
    ],
    "Expint": [((0.3,), -0.3026685392658259), ((2.5,), 7.0737658945786), ((50.0,), 1.058563689713169e20)],
    "FresnelSin": [
        ((0.3,), 0.014116998006576585),
        ((2.5,), 0.6191817558195929),
        ((-9.3,), -0.5246658599528188),
    ],
    "FresnelCos": [
        ((0.3,), 0.2994009760520472),
        ((2.5,), 0.45741300964177706),
        ((-9.3,), -0.47627249167238256),
    ],
    "Spence": [((0.3,), 0.8893776242860387), ((1.7,), -0.6051584023377052), ((50.0,), -9.197761709530997)],
    "Igamma": [
        ((0.3, 0.7), 0.8668625855062952),
        ((40.0, 35.0), 0.21980955482531797),
        ((10000.0, 10100.0), 0.8413487504471796),
    ],
    "Igammac": [
        ((0.3, 0.7), 0.13313741449370475),
        ((3.0, 30.0), 4.501016648012124e-11),
        ((10000.0, 10100.0), 0.15865124955282037),
    ],
    "Zeta": [
        ((1.5, 1.0), 2.612375348685488),
        ((4.0, 0.3), 123.85696077584161),
        ((30.0, 2.0), 9.313274324196682e-10),
    ],
    "Polygamma": [
        ((1.0, 0.3), 12.24536454610773),
        ((3.0, 7.5), 0.005772436656578694),
        ((2.0, 40.0), -0.0006408202718352986),
    ],
    "Betainc": [
        ((0.3, 0.7, 0.2), 0.5375966477465097),
        ((40.0, 30.0, 0.6), 0.6818561974094371),
        ((2.0, 500.0, 0.01), 0.9605771017455123),
    ],
}
"""Inputs and values, computed with mpmath to 30 digits."""


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


@pytest.mark.parametrize("name", STORED)
def test_stored_values(name: str) -> None:
    for inputs, expected in STORED[name]:
        assert run(name, *(f64(v) for v in inputs)) == pytest.approx(expected, rel=2e-13)


@pytest.mark.parametrize(
    ("s", "q"), [(s, -k - f) for s in (2.0, 3.0, 4.0) for k in (900, 1000) for f in (0.25, 0.5)]
)
def test_zeta_left_of_many_poles(s: float, q: float) -> None:
    """One more term on the left is the same sum; beyond 1,000 terms the sum is another."""
    gap = run("Zeta", f64(s), f64(q - 200)) - run("Zeta", f64(s), f64(q))
    terms = np.sum((q - np.arange(1, 201)) ** -s)
    np.testing.assert_allclose(gap, terms, rtol=0, atol=1e-12)


def test_zeta_and_polygamma_far_to_the_left() -> None:
    # Both halves of the sum over all whole numbers: pi² / sin²(pi q), without what is left of q.
    expected = np.pi**2 - 1 / 150001.0
    assert run("Zeta", f64(2), f64(-150000.5)) == pytest.approx(expected, rel=1e-12)
    assert run("Polygamma", f64(1), f64(-150000.5)) == pytest.approx(expected, rel=1e-12)
    assert run("Zeta", f64(2), f64(-150000)) == np.inf


def test_scaled_and_plain() -> None:
    x = np.array([0.1, 1, 7, 24, 26, 60])
    for name, sign in (("BesselI0", 1), ("BesselI1", 1), ("BesselK0", -1), ("BesselK1", -1)):
        np.testing.assert_allclose(run(name, x), run(f"{name}e", x) * np.exp(sign * x), rtol=1e-13)


def test_wronskians() -> None:
    """J1 Y0 - J0 Y1 = 2 / pi x and I0 K1 + I1 K0 = 1 / x (DLMF 10.5.2, 10.28.2)."""
    x = np.geomspace(0.01, 100, 200)
    value: Any = {name: run(name, x) for name in UNARY if name.startswith("Bessel")}
    first = value["BesselJ1"] * value["BesselY0"] - value["BesselJ0"] * value["BesselY1"]
    np.testing.assert_allclose(first, 2 / (np.pi * x), rtol=1e-12)
    second = value["BesselI0e"] * value["BesselK1e"] + value["BesselI1e"] * value["BesselK0e"]
    np.testing.assert_allclose(second, 1 / x, rtol=1e-13)


def test_parts_sum_to_one() -> None:
    np.testing.assert_allclose(run("Igamma", A, B) + run("Igammac", A, B), 1, rtol=1e-14)
    np.testing.assert_allclose(run("Betainc", A, B, P) + run("Betainc", B, A, 1 - P), 1, rtol=1e-13)


def test_outside_the_domain() -> None:
    assert np.isnan(run("Igamma", f64(-1), f64(1)))
    assert np.isnan(run("Betainc", f64(1), f64(1), f64(1.5)))
    assert np.isnan(run("Zeta", f64(0.5), f64(1)))
    assert run("Zeta", f64(1), f64(1)) == np.inf
    assert np.isnan(run("Polygamma", f64(1.5), f64(1)))
    assert np.isnan(run("Expint", f64(-1)))
    assert run("BesselK0", f64(0)) == np.inf
    assert run("BesselY1", f64(-1)) == -np.inf


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(ShapeError, match="do not broadcast"):
        infer("Betainc", *(TensorSpec(FLOAT, (n,)) for n in (2, 3, 2)))
