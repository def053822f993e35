"""Fourier transforms."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of
from thinflow.errors import ShapeError
from thinflow.ir.types import DOUBLE, FLOAT, INT32, TensorSpec, dtype


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


_random = np.random.default_rng(0)
REAL = _random.standard_normal((2, 4, 5, 6)).astype(np.float32)
COMPLEX = (REAL + 1j * _random.standard_normal(REAL.shape)).astype(np.complex64)
WIDE = {"Treal": DOUBLE, "Tcomplex": dtype("complex128")}

CASES: dict[str, list[Case]] = {
    "FFT": [([COMPLEX], {}), ([COMPLEX.astype(np.complex128)], {}), ([COMPLEX[:0]], {})],
    "IFFT": [([COMPLEX], {})],
    "FFT2D": [([COMPLEX], {})],
    "IFFT2D": [([COMPLEX], {})],
    "FFT3D": [([COMPLEX], {})],
    "IFFT3D": [([COMPLEX], {})],
    "RFFT": [([REAL, ints(6)], {}), ([REAL, ints(3)], {}), ([REAL.astype(np.float64), ints(5)], WIDE)],
    "RFFT2D": [([REAL, ints(5, 6)], {}), ([REAL, ints(4, 3)], {})],
    "RFFT3D": [([REAL, ints(4, 5, 6)], {})],
    "IRFFT": [
        ([COMPLEX, ints(10)], {}),
        ([COMPLEX, ints(5)], {}),
        ([COMPLEX.astype(np.complex128), ints(4)], WIDE),
    ],
    "IRFFT2D": [([COMPLEX, ints(5, 10)], {}), ([COMPLEX, ints(4, 7)], {})],
    "IRFFT3D": [([COMPLEX, ints(4, 5, 10)], {})],
}

CASES |= {f"Batch{n}": CASES[n] for n in ("FFT", "IFFT", "FFT2D", "IFFT2D", "FFT3D", "IFFT3D")}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


def test_against_the_sum() -> None:
    x = COMPLEX[0, 0, 0].astype(np.complex128)
    n = np.arange(6)
    expected = np.exp(-2j * np.pi * np.outer(n, n) / 6) @ x
    np.testing.assert_allclose(run("FFT", x), expected, atol=1e-12)
    np.testing.assert_allclose(run("IFFT", run("FFT", x)), x, atol=1e-12)


def test_real_input_is_cut_but_never_padded() -> None:
    np.testing.assert_allclose(run("RFFT", REAL, ints(4)), run("FFT", REAL[..., :4] + 0j)[..., :3], atol=1e-5)
    with pytest.raises(ShapeError, match="shorter"):
        run("RFFT", REAL, ints(7))
    with pytest.raises(ShapeError, match="shorter"):
        run("IRFFT", COMPLEX[..., :3], ints(6))


def test_shapes_follow_fft_length() -> None:
    x = TensorSpec(FLOAT, (None, 9, 9))
    assert infer("RFFT2D", x, spec_of(ints(4, 6))).shape == (None, 4, 4)
    assert infer("RFFT2D", x, TensorSpec(INT32, (2,), (None, 5))).shape == (None, None, 3)
    assert infer("IRFFT", TensorSpec(dtype("complex64"), (3, None)), spec_of(ints(8))).shape == (3, 8)
