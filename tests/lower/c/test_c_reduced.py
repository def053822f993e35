"""Sums, means, products and extremes in C answer as LiteRT's own kernels do, of every type, over any axes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.c.c_answers import differences
from tests.lower.c.many import Many
from thinflow.engines._c_library import compiler
from thinflow.errors import UnsupportedOp
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.tflite.model import Quantization
from thinflow.tflite.reader import read_program

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")

AXES = [(1,), (0, 2), (-1, 1), (0, 1, 2, 3)]


def reduced(codes: str, kind: str, scale: float | None = None) -> bytes:
    """Each operator over each of the axes; its outputs have a scale and a zero point of their own."""
    net, sizes = Many(2, 3, 4, 5, kind=kind), np.array([2, 3, 4, 5])
    zero = 0 if kind == "int16" else 7
    if kind == "int16" and net.x.quantization is not None:
        net.x.quantization.zero_point[:] = 0
    for code in codes.split():
        for axes in AXES:
            y = net.add(code, [net.x, np.int32(axes)], *np.delete(sizes, axes))
            if scale is not None:
                y.quantization = Quantization(np.float32([scale]), np.int64([zero]))
    return net.content()


@pytest.mark.parametrize("kind", ["float", "int32", "int64"])
def test_whole_numbers_and_reals(kind: str) -> None:
    assert differences(reduced("MEAN SUM REDUCE_MAX REDUCE_MIN", kind)) == []


def test_products() -> None:
    assert differences(reduced("REDUCE_PROD", "float")) == []


def test_truths() -> None:
    codes = "SUM REDUCE_MAX REDUCE_MIN REDUCE_PROD REDUCE_ANY REDUCE_ALL"
    assert differences(reduced(codes, "bool"), runs=9) == []


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("scale", [0.05, 1.5])
def test_integers_with_a_scale(kind: str, scale: float) -> None:
    assert differences(reduced("MEAN", kind, scale)) == []
    assert differences(reduced("REDUCE_MAX REDUCE_MIN", kind)) == []
    if kind == "uint8":
        assert differences(reduced("SUM", kind, scale)) == []
    else:
        assert differences(reduced("REDUCE_PROD", kind, scale)) == []


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("scale", [0.05, 1.5])
def test_sums_by_xnnpack(kind: str, scale: float) -> None:
    assert differences(reduced("SUM MEAN", kind, scale), "xnnpack") == []


@pytest.mark.parametrize("kind", ["int8", "int16"])
def test_a_sum_that_the_reference_kernel_has_wrong_is_refused(kind: str) -> None:
    with pytest.raises(UnsupportedOp, match="as if they were unsigned bytes"):
        network(read_program(reduced("SUM", kind, 0.5)), Options())
