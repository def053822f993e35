"""Fourier transforms in C answer as LiteRT's own kernels do."""

from __future__ import annotations

import pytest

from tests.lower.c.c_answers import differences
from tests.lower.c.many import Many, ints
from thinflow.engines._c_library import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


@pytest.mark.parametrize("size", [(1, 16), (8, 32), (16, 4), (2, 2)])
def test_transforms(size: tuple[int, int]) -> None:
    """Shorter and longer than the input, whose rest is left out, or filled up with zeros."""
    net, (height, width) = Many(2, 5, 20), size
    bins = (2, height, width // 2 + 1)
    y = net.add("RFFT2D", [net.x, ints(height, width)], *bins, kind="complex64")
    turned = net.add("TRANSPOSE", [y, ints(2, 0, 1)], bins[2], 2, height, kind="complex64")
    net.made.clear()
    for code in ("REAL", "IMAG", "COMPLEX_ABS"):
        net.add(code, [y], *bins, kind="float")
    net.add("REAL", [turned], bins[2], 2, height, kind="float")
    assert differences(net.content()) == []
