"""Transposed convolutions are the adjoints of convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, INT32, TensorSpec

Array = np.ndarray[Any, Any]


def random(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


CASES: dict[str, list[Case]] = {
    "Conv2DBackpropInput": [
        (
            [ints(1, 7, 5, 2), random(3, 3, 2, 4), random(1, 4, 3, 4)],
            {"strides": (1, 2, 2, 1), "padding": "SAME"},
        ),
        (
            [ints(7, 5), random(2, 2, 3, 4, dtype=np.float16), random(2, 6, 4, 4, dtype=np.float16)],
            {"strides": (1, 1, 1, 1), "padding": "VALID"},
        ),
        (
            [ints(1, 2, 7, 5), random(3, 3, 2, 4), random(1, 4, 4, 3)],
            {"strides": (1, 1, 2, 2), "padding": "SAME", "data_format": "NCHW"},
        ),
    ],
    "Conv3DBackpropInputV2": [
        (
            [ints(1, 4, 5, 6, 2), random(2, 2, 2, 2, 3), random(1, 2, 5, 3, 3)],
            {"strides": (1, 2, 1, 2, 1), "padding": "SAME"},
        )
    ],
    "DepthwiseConv2dNativeBackpropInput": [
        (
            [ints(1, 7, 5, 2), random(3, 3, 2, 2), random(1, 4, 3, 4)],
            {"strides": (1, 2, 2, 1), "padding": "SAME"},
        )
    ],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


@pytest.mark.parametrize("padding", ["SAME", "VALID", "EXPLICIT"])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize(
    ("forward", "filters"),
    [("Conv2D", (3, 2, 4, 6)), ("Conv2D", (3, 2, 2, 6)), ("DepthwiseConv2dNative", (3, 2, 4, 3))],
)
def test_adjoint(forward: str, filters: tuple[int, ...], padding: str, stride: int) -> None:
    """<conv(x), dy> equals <x, transposed(dy)> for every x and dy."""
    x, w = random(2, 9, 8, 4, dtype=np.float64), random(*filters, dtype=np.float64)
    attrs: dict[str, Any] = {"strides": (1, stride, stride, 1), "padding": padding, "dilations": (1, 2, 1, 1)}
    if padding == "EXPLICIT":
        attrs["explicit_paddings"] = (0, 0, 1, 2, 0, 3, 0, 0)
    y = run(forward, x, w, **attrs)
    dy = random(*y.shape, dtype=np.float64)
    dx = run(f"{forward}BackpropInput", ints(*x.shape), w, dy, **attrs)
    np.testing.assert_allclose((x * dx).sum(), (y * dy).sum(), rtol=1e-10)


def test_shape_comes_from_the_sizes() -> None:
    w, dy = spec_of(random(3, 3, 2, 4)), TensorSpec(FLOAT, (None, 4, 3, 4))
    assert infer("Conv2DBackpropInput", TensorSpec(INT32, (4,), (None, 7, 5, 2)), w, dy).shape == (
        None,
        7,
        5,
        2,
    )
    assert infer("Conv2DBackpropInput", spec_of(ints(7, 5)), w, dy).shape == (None, 7, 5, 2)
    assert infer("Conv2DBackpropInput", TensorSpec(INT32, (4,)), w, dy).shape == (None,) * 4


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match="dy is"):
        run(
            "Conv2DBackpropInput",
            ints(1, 9, 5, 2),
            random(3, 3, 2, 4),
            random(1, 4, 3, 4),
            strides=(1, 2, 2, 1),
            padding="SAME",
        )
