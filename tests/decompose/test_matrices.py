"""Matrices as simpler ops, against the kernels, and through both runtimes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.decompose.harness import check_parts, check_targets
from tests.decompose.matrices import CASES, f, positive
from tests.lower.tflite.harness import Net
from thinflow.errors import UnsupportedOp


@pytest.mark.parametrize(("op", "operands", "attrs", "ports"), CASES)
def test_parts(op, operands, attrs, ports):
    check_parts(op, operands, attrs, ports=ports, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "ports"), [c for c in CASES if c[1][0].dtype == np.float32]
)
def test_runtimes(op, operands, attrs, ports):
    check_targets(op, operands, attrs, ports=ports, rtol=2e-4, atol=2e-5, opened=operands[0].ndim > 2)


@pytest.mark.parametrize("op", ["Cholesky", "MatrixInverse", "MatrixDeterminant"])
@pytest.mark.parametrize("size", [8, 32])
def test_larger_ones(op, size):
    check_parts(op, [positive(2, n=size) / size], rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("size", [2, 3, 6, 7, 16, 32])
def test_eigenvalues_of_every_size(size):
    x = f(4, size, size, seed=size)
    x = x + np.swapaxes(x, -1, -2)
    check_parts("SelfAdjointEigV2", [x], {"compute_v": False}, rtol=1e-4, atol=1e-5 * size)
    check_parts("Svd", [f(3, size + 1, size)], {"compute_uv": False}, rtol=1e-4, atol=1e-5 * size)


def test_a_matrix_that_is_not_positive_definite_gives_nan():
    net = Net()
    x = net.feed(np.array([[-1, 0], [0, 1]], np.float32))
    y = net.op("Cholesky", x)
    (wanted,) = net.reference(y)
    assert np.isnan(wanted[0, 0])


REFUSED = [
    ("Cholesky", [f(2, 33, 33)], {}, "up to 32 rows have a form, and this one has 33"),
    ("Cholesky", [f(2, 0, 0)], {}, "empty"),
    ("MatrixInverse", [f(3, 3).astype(np.complex64)], {}, "real"),
    ("SelfAdjointEigV2", [f(3, 3)], {}, "eigenvectors are unique up to their sign"),
    ("Svd", [f(3, 3)], {}, "singular vectors are unique up to their sign"),
    ("MatrixTriangularSolve", [f(3, 3), f(2, 3, 1)], {}, "broadcast"),
    ("MatrixSolve", [f(1, 3, 3), f(2, 3, 1)], {}, "not alike"),
    ("MatrixSolve", [f(1, 3, 3), f(1, 3, 0)], {}, "no right sides"),
]


@pytest.mark.parametrize(("op", "operands", "attrs", "why"), REFUSED)
def test_refused(op, operands, attrs, why):
    with pytest.raises(UnsupportedOp, match=why):
        check_parts(op, operands, attrs)


def test_an_open_size_is_refused():
    net = Net()
    x = net.feed(f(2, 3, 3), shape=(None, None, None))
    with pytest.raises(UnsupportedOp, match="open"):
        net.lower(net.op("Cholesky", x))
