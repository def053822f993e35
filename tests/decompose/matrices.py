"""Matrices and what TensorFlow's ops are asked of them."""

from __future__ import annotations

import numpy as np


def f(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def positive(*lead, n):
    x = f(*lead, n, n)
    return x @ np.swapaxes(x, -1, -2) + 2 * np.eye(n, dtype=np.float32)


SINGULAR = np.array([[[1, 2], [2, 4]], [[0, 1], [1, 0]]], np.float32)
ZERO_FIRST = np.array([[[0, 2, 1], [3, 0, 1], [1, 1, 0]]], np.float32)
CASES = [
    ("Cholesky", [positive(2, n=4)], {}, 1),
    ("Cholesky", [positive(2, 3, n=2)], {}, 1),
    ("Cholesky", [positive(n=1)], {}, 1),
    ("Cholesky", [positive(3, n=5).astype(np.float64)], {}, 1),
    ("MatrixTriangularSolve", [positive(2, n=4), f(2, 4, 3)], {}, 1),
    ("MatrixTriangularSolve", [positive(2, n=4), f(2, 4, 1)], {"lower": False}, 1),
    ("MatrixTriangularSolve", [positive(2, n=3), f(2, 3, 3)], {"adjoint": True}, 1),
    ("MatrixSolve", [positive(3, n=4), f(3, 4, 2)], {}, 1),
    ("MatrixSolve", [ZERO_FIRST, f(1, 3, 3)], {"adjoint": True}, 1),
    ("MatrixSolve", [f(5, 5), f(5, 2)], {}, 1),
    ("MatrixInverse", [f(3, 4, 4)], {}, 1),
    ("MatrixInverse", [ZERO_FIRST], {"adjoint": True}, 1),
    ("MatrixInverse", [f(2, 2, 3, 3)], {}, 1),
    ("MatrixDeterminant", [f(6, 4, 4)], {}, 1),
    ("MatrixDeterminant", [SINGULAR], {}, 1),
    ("MatrixDeterminant", [f(3, 3)], {}, 1),
    ("LogMatrixDeterminant", [f(6, 4, 4)], {}, 2),
    ("LogMatrixDeterminant", [SINGULAR], {}, 2),
    ("Qr", [f(2, 4, 4)], {}, 2),
    ("Qr", [f(2, 5, 3)], {}, 2),
    ("Qr", [f(2, 5, 3)], {"full_matrices": True}, 2),
    ("Qr", [f(3, 5)], {}, 2),
    ("Qr", [ZERO_FIRST], {}, 2),
    ("SelfAdjointEigV2", [positive(3, n=4)], {"compute_v": False}, 1),
    ("SelfAdjointEigV2", [f(2, 5, 5)], {"compute_v": False}, 1),
    ("SelfAdjointEigV2", [np.eye(3, dtype=np.float32)[None]], {"compute_v": False}, 1),
    ("SelfAdjointEigV2", [f(2, 1, 1)], {"compute_v": False}, 1),
    ("Svd", [f(2, 5, 3)], {"compute_uv": False}, 1),
    ("Svd", [f(2, 3, 6)], {"compute_uv": False}, 1),
    ("Svd", [SINGULAR], {"compute_uv": False}, 1),
]
