"""Integers of types that LiteRT's kernels do not take are computed in wider ones, to the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.tflite.harness import Net
from thinflow.errors import UnsupportedOp

KINDS = (np.int8, np.uint8, np.int16, np.uint16, np.uint32)
OPS = "AddV2 Sub Mul Maximum Minimum FloorMod Less LessEqual Greater GreaterEqual Equal NotEqual"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("op", OPS.split())
def test_they_wrap_and_compare_as_their_own_type(op: str, kind: type) -> None:
    limits, net = np.iinfo(kind), Net()
    rng = np.random.default_rng(5)
    numbers = [rng.integers(limits.min, limits.max, (4, 6), kind, endpoint=True) for _ in range(2)]
    numbers[0][0, :3] = limits.min, limits.max, limits.max
    numbers[1][0, :3] = limits.max, limits.max, 1
    # A remainder by 0 is an error in every runtime.
    numbers[1][numbers[1] == 0] = 1
    x, y = (net.feed(array, name) for array, name in zip(numbers, "xy", strict=True))
    net.check(net.op(op, x, y), rtol=0, atol=0)


@pytest.mark.parametrize("op", ["FloorDiv", "TruncateDiv"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
def test_quotients(op: str, kind: type) -> None:
    limits, net = np.iinfo(kind), Net()
    x = net.feed(np.array([limits.min, limits.max, 7, 100, limits.min], kind), "x")
    y = net.feed(np.array([3, 2, 7, 9, 2], kind), "y")
    net.check(net.op(op, x, y), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("op", "message"), [("AddV2", "no ADD for uint64"), ("LeftShift", "does not compute with uint64")]
)
def test_what_has_no_wider_type(op: str, message: str) -> None:
    net = Net()
    x, y = (net.feed(np.array([1, 2], np.uint64), name) for name in "xy")
    with pytest.raises(UnsupportedOp, match=message):
        net.lower(net.op(op, x, y))
