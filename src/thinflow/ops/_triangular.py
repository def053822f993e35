"""Triangular and banded systems, solved row by row for all matrices of a batch at once."""

from __future__ import annotations

import numpy as np

from thinflow.typing import Array


def adjoint(x: Array) -> Array:
    """The conjugate transpose of every matrix."""
    return np.conj(np.swapaxes(x, -1, -2))


def substitute(triangle: Array, b: Array, lower: bool) -> Array:
    """y with triangle @ y = b; leading axes broadcast. A zero on the diagonal gives what division gives."""
    lead = np.broadcast_shapes(triangle.shape[:-2], b.shape[:-2])
    y = np.array(np.broadcast_to(b, (*lead, *b.shape[-2:])), np.result_type(triangle, b))
    size = triangle.shape[-1]
    with np.errstate(all="ignore"):
        for i in range(size) if lower else range(size - 1, -1, -1):
            done = slice(0, i) if lower else slice(i + 1, size)
            known = triangle[..., i : i + 1, done] @ y[..., done, :]
            y[..., i : i + 1, :] = (y[..., i : i + 1, :] - known) / triangle[..., i : i + 1, i : i + 1]
    return y


def banded(bands: Array, lower: bool) -> Array:
    """The triangular matrices [..., n, n] whose bands are rows [..., k, n], each element in its row's place.

    lower: the diagonal is the first band, else the last.
    """
    count, size = bands.shape[-2:]
    matrix = np.zeros((*bands.shape[:-2], size, size), bands.dtype)
    for distance in range(min(count, size)):
        rows = np.arange(distance, size) if lower else np.arange(size - distance)
        columns = rows - distance if lower else rows + distance
        matrix[..., rows, columns] = bands[..., distance if lower else count - 1 - distance, rows]
    return matrix


def tridiagonal(diagonals: Array, b: Array, pivoting: bool) -> Array:
    """y with A @ y = b, A given by (above, main, below) [..., 3, n]: row i has below[i], main[i], above[i].

    Gaussian elimination; with pivoting rows i and i + 1 change places where that makes the pivot larger.
    """
    above, main, below = (np.moveaxis(diagonals, -1, 0)[..., k].copy() for k in range(3))
    y = np.moveaxis(b, -2, 0).astype(np.result_type(diagonals, b))
    size = main.shape[0]
    # An exchange brings row i + 1's own element above the diagonal two columns right of the pivot.
    second = np.zeros_like(above)  # the second diagonal above, which row exchanges fill
    # TensorFlow does not look at above[n-1] and below[0]; whatever is there must not reach the sums.
    above[-1:], second[-1:] = 0, 0
    with np.errstate(all="ignore"):
        for i in range(size - 1):
            _eliminate(i, above, main, below, second, y, pivoting)
        for i in range(size - 1, -1, -1):
            rest = y[i]
            if i + 1 < size:
                rest = rest - above[i][..., None] * y[i + 1]
            if i + 2 < size:
                rest = rest - second[i][..., None] * y[i + 2]
            y[i] = rest / main[i][..., None]
    return np.moveaxis(y, 0, -2)


def _eliminate(
    i: int, above: Array, main: Array, below: Array, second: Array, y: Array, pivoting: bool
) -> None:
    """Clear the element below the diagonal in column i, in place."""
    # Each matrix of the batch decides on its own; `where` on both rows keeps one loop for all.
    swap = (np.abs(below[i + 1]) > np.abs(main[i])) & pivoting
    upper = main[i], above[i], second[i]
    lower = below[i + 1], main[i + 1], above[i + 1]
    first = [np.where(swap, b, a) for a, b in zip(upper, lower, strict=True)]
    other = [np.where(swap, a, b) for a, b in zip(upper, lower, strict=True)]
    wide = swap[..., None]
    top, bottom = np.where(wide, y[i + 1], y[i]), np.where(wide, y[i], y[i + 1])
    factor = other[0] / first[0]
    main[i], above[i], second[i] = first
    main[i + 1], above[i + 1] = other[1] - factor * first[1], other[2] - factor * first[2]
    y[i], y[i + 1] = top, bottom - factor[..., None] * top
