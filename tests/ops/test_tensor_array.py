"""Tensor arrays at the edge: what there is to join when nothing was written."""

from __future__ import annotations

import numpy as np
import pytest

from thinflow.errors import ThinflowError
from thinflow.ir.types import FLOAT
from thinflow.ops.tensor_array import Elements, TensorArrayConcat

FLOW = np.float32(0)


def test_nothing_is_joined_to_nothing_of_the_known_shape() -> None:
    joined, sizes = TensorArrayConcat.kernel(
        Elements(0, FLOAT, None, True), FLOW, dtype=FLOAT, element_shape_except0=(4,)
    )
    assert (joined.shape, joined.dtype, sizes.tolist()) == ((0, 4), np.float32, [])


@pytest.mark.parametrize("shape", [None, (None,), (4, None)])
def test_nothing_of_an_unknown_shape_is_refused(shape: tuple[int | None, ...] | None) -> None:
    with pytest.raises((ThinflowError, ValueError), match="the tensor array is empty and the shape"):
        TensorArrayConcat.kernel(
            Elements(0, FLOAT, None, True), FLOW, dtype=FLOAT, element_shape_except0=shape
        )
