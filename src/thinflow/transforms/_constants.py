"""Questions and small changes to the numbers of a constant, shared by the transforms that rewrite weights."""

from __future__ import annotations

import numpy as np

from thinflow.ir.tensor import Tensor
from thinflow.typing import Array

SMALLEST_NORMAL = np.float32(1.1754944e-38)
"""The smallest positive float32 with full precision."""


def is_finite(values: Array) -> bool:
    """Whether no element is infinite or NaN."""
    if values.dtype.kind != "f":  # bfloat16 and the like, which numpy does not know as floats
        values = values.astype(np.float32)
    return bool(np.isfinite(values).all())


def all_equal(values: Array) -> bool:
    """Whether every element has the bits of the first, so that 0.0 and -0.0 differ."""
    if values.size < 2:
        return True
    flat = values.reshape(-1)
    bits = flat.view(np.dtype(f"u{values.dtype.itemsize}")) if values.dtype.itemsize <= 8 else flat
    return bool((bits == bits[0]).all())


def stored_once(tensor: Tensor) -> Tensor:
    """The same tensor, as one value repeated if all its elements are equal, which takes no space in the
    file.
    """
    values = tensor.numpy()
    if tensor.is_splat or values.size < 2 or not all_equal(values):
        return tensor
    return Tensor.from_array(np.broadcast_to(values.reshape(-1)[0], values.shape), tensor.dtype)
