"""Integers at the edges of their types, where ONNX Runtime's own kernels stop, round or crash."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.onnx.harness import Net
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import dtype

LONG = np.array([2**32 - 1, 5, 2**31 + 7, -(2**40), 2**62, -3, 0, 9], np.int64)
SHORT = np.array([2**31 - 1, -(2**31), 7, -7, 1, -1, 2**30, 0], np.int32)


@pytest.mark.parametrize("op", ["Maximum", "Minimum", "SquaredDifference", "Sub", "Mul"])
def test_pairs(op):
    net = Net()
    net.check(
        net.op(op, net.feed(LONG), np.roll(LONG, 3)), net.op(op, net.feed(SHORT, "s"), SHORT[::-1].copy())
    )


@pytest.mark.parametrize("op", ["FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod"])
@pytest.mark.parametrize("given", [False, True])
def test_quotients(op, given):
    lowest = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max, -7, 7], np.int64)
    divisors = np.array([-1, 2, 3, -3], np.int64)
    net = Net()
    y = net.feed(divisors, "y") if given else net.const(divisors)
    narrow = net.feed(lowest.astype(np.int8) | np.int8(-128), "narrow")
    net.check(net.op(op, net.feed(lowest), y), net.op(op, narrow, divisors.astype(np.int8)))


@pytest.mark.parametrize("op", ["LeftShift", "RightShift"])
def test_far_shifts(op):
    far = np.array([2**63, 2**64 - 1, 3, 64, 0], np.uint64)
    net = Net()
    net.check(net.op(op, net.feed(np.full(5, 2**64 - 5, np.uint64)), net.feed(far, "y")))


@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_through_double_and_back(kind):
    """Double has 53 bits: what is beyond them is lost, and must be."""
    large = np.array([2**53 + 1, 2**61 + 3, 5], kind)
    net = Net()
    double = net.op("Cast", net.feed(large), SrcT=dtype(kind), DstT=dtype("double"))
    assert net.check(net.op("Cast", double, SrcT=dtype("double"), DstT=dtype(kind))) == ["Cast", "Cast"]
    net = Net()
    double = net.op("Cast", net.feed(SHORT), SrcT=dtype("int32"), DstT=dtype("double"))
    # An int32 comes back whole.
    assert "Cast" not in net.check(net.op("Cast", double, SrcT=dtype("double"), DstT=dtype("int32")))


@pytest.mark.parametrize("op", ["Sign", "Abs", "Neg"])
def test_one_operand(op):
    net = Net()
    net.check(net.op(op, net.feed(LONG)))


def test_clipping():
    net = Net()
    net.check(net.op("ClipByValue", net.feed(LONG), np.int64(0), np.int64(2**35)))
    net = Net()
    net.check(net.op("ClipByValue", net.feed(np.float32([-1, 0, 9])), np.float32(2), np.float32(1)))


@pytest.mark.parametrize("op", ["Max", "Min"])
@pytest.mark.parametrize("axes", [[1], [0, 2], [-1, 0, 1]])
@pytest.mark.parametrize("keep", [False, True])
def test_extremes(op, axes, keep):
    cube = np.resize(LONG, (2, 3, 4))
    net = Net()
    whole = [
        net.op(op, net.feed(cube.astype(t), t), np.int32(axes), keep_dims=keep) for t in ("int64", "uint32")
    ]
    net.check(*whole)


def test_sums_and_products_wrap_around():
    cube = np.resize(SHORT, (2, 3, 4))
    net = Net()
    x = net.feed(cube)
    net.check(net.op("Sum", x, np.int32([0, 2])), net.op("Prod", x, np.int32([-1, 0]), keep_dims=True))
    net.check(net.op("Pow", x, np.int32(5)), net.op("Pow", x, np.int32(1)))


@pytest.mark.parametrize(
    ("op", "x", "other"),
    [
        ("Prod", np.ones((2, 9), np.int32), np.int32([1])),
        ("Pow", SHORT, np.int32(9)),
        ("Pow", SHORT, np.int32([2])),
        ("EuclideanNorm", np.ones(3, np.int8), np.int32([0])),
        ("Mean", np.ones((0, 2), np.float32), np.int32([0])),
    ],
)
def test_what_has_no_exact_form_is_refused(op, x, other):
    net = Net()
    with pytest.raises(UnsupportedOp, match="node 'y'"):
        net.lower(net.op(op, net.feed(x), other, name="y"))


def test_axes_that_are_fed():
    net = Net()
    x, axes = net.feed(np.float32([[1, 2], [3, 4]])), net.feed(np.int32([-2]), "axes", (None,))
    y = net.op("Sum", x, axes, keep_dims=True)
    net.opset = 18
    for given in ([-2], [0, 1], []):
        net.check(y, feeds={x: net.feeds[x], axes: np.int32(given)})
