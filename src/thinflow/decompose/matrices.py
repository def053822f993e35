"""Common ground of matrix decompositions: one leading axis, a size that is known, and a type."""

from __future__ import annotations

import numpy as np

from thinflow.decompose.terms import Term, joined, refuse_unless
from thinflow.ir.types import DOUBLE, FLOAT, INT32, DType

MOST = 32
"""Rows of the largest matrix that is written step by step: about 20 operators for each row."""


def working_type(x: Term) -> DType:
    """The type that x is computed in: half and bfloat16 in float, as TensorFlow does.

    Raises:
        UnsupportedOp: x is no real matrix.
    """
    refuse_unless(x.dtype.is_floating, f"its matrices are {x.dtype}, not of real numbers")
    return DOUBLE if x.dtype is DOUBLE else FLOAT


def square_size(x: Term) -> int:
    """Rows of square matrices.

    Raises:
        UnsupportedOp: they are not square, open, empty, or too many.
    """
    refuse_unless(len(x.shape) >= 2, "a matrix is needed")
    rows, columns = x.shape[-2:]
    refuse_unless(
        rows is not None or columns is not None, "the size of its matrices is open", "fix it with --shape"
    )
    size = rows if rows is not None else columns
    assert size is not None
    refuse_unless(rows in (None, size) and columns in (None, size), "its matrices are not square")
    return limited(size)


def limited(size: int) -> int:
    """A number of rows that can be written out.

    Raises:
        UnsupportedOp: too many, or none.
    """
    refuse_unless(size > 0, "its matrices are empty")
    refuse_unless(
        size <= MOST,
        f"its matrices have {size} rows, and are written step by step up to {MOST}",
        "let the interpreter run it",
    )
    return size


def flat(x: Term, rows: int, columns: int) -> Term:
    """The matrices on one leading axis, in the type to compute in.   x [..., m, n] -> [b, m, n]."""
    x = x.cast(working_type(x))
    return x if len(x.shape) == 3 else x.reshaped([-1, rows, columns])


def unflat(y: Term, like: Term, *last: int) -> Term:
    """Results with the leading axes and the type of `like` [..., m, n].   y [b, *last] -> [..., *last]."""
    y = y.cast(like.dtype)
    lead = like.shape[:-2]
    if len(lead) == 1:
        return y
    # Fixed sizes where they are known, else those of the model's run.
    if None not in lead:
        return y.reshaped([*(n or 0 for n in lead), *last])
    return y.reshaped(joined([like.sizes().cut(0, 0, len(lead)), y.body.constant(last, INT32)], 0))


def identity(like: Term, size: int) -> Term:
    """The unit matrix [size, size] in the type of `like`."""
    return like.of(np.eye(size))
