"""Sums of eight-bit codes, on which the engines' forms rest: the interpreter's are TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.eight_bit import WIDE, fed, narrowed, stored, three, two
from tests.lower.tflite.harness import Net
from tests.oracle._frozen import run_in_tensorflow, to_message
from thinflow.ir.types import FLOAT, INT32, QINT8, QINT32, QUINT8, DType

Array = np.ndarray[Any, Any]

RANGES = [
    ((-5.3, 0.5), (-0.31, 6.0)),
    ((-1.0, 1.0), (-0.001, 0.002)),
    ((0.0, 6.0), (-0.5, 0.7)),
    ((-6.4, 3.0), (-1.0, 0.9)),
    ((0.5, 2.0), (-3.0, -1.0)),
]
PARTS = [0.02, 0.4, 1.0]


def _types(op: str, T: DType) -> dict[str, DType]:
    return {"T1": T, "T2": T, "out_type": QINT32} if op == "QuantizedBiasAdd" else WIDE


def _compare(net: Net, wanted: list[Any]) -> None:
    found = run_in_tensorflow(
        to_message(net.graph), {v.name: a for v, a in net.feeds.items()}, [v.name for v in wanted]
    )
    for value, ours, theirs in zip(wanted, net.reference(*wanted), found, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=value.name)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("ranges", RANGES, ids=str)
@pytest.mark.parametrize("T", [QUINT8, QINT8], ids=str)
@pytest.mark.parametrize("op", ["QuantizedAdd", "QuantizedBiasAdd", "QuantizedMul"])
def test_codes_are_those_of_tensorflow(op: str, T: DType, ranges: Any, part: float) -> None:
    if op != "QuantizedBiasAdd" and T is QINT8:
        pytest.skip("TensorFlow has no such kernel")
    net = Net()
    x, y = fed(net, (2, 5, 4, 8), *ranges[0], T=T), stored(net, (8,), *ranges[1], "y", T)
    wide = two(net, op, x, y, **_types(op, T))
    reach = part * (abs(ranges[0][0]) + ranges[0][1])
    result = narrowed(net, wide, -reach, reach)
    _compare(net, [wide[0], *result])


@pytest.mark.parametrize("T", [QUINT8, QINT8], ids=str)
@pytest.mark.parametrize("scale", [0.3, 1.0, 2.9])
def test_a_bias_on_reals_of_a_measured_range(scale: float, T: DType) -> None:
    net = Net()
    x = net.feed((np.random.default_rng(0).normal(size=(1, 6, 5, 16)) * scale).astype(np.float32))
    axes = np.int32([0, 1, 2, 3])
    ends = [net.op(op, x, axes, name=op, T=FLOAT, Tidx=INT32) for op in ("Min", "Max")]
    codes = three(net.op("QuantizeV2", x, *ends, name="codes", T=T, mode="MIN_FIRST").node)
    wide = two(
        net, "QuantizedBiasAdd", codes, stored(net, (16,), -0.5, 0.8, "y", T), **_types("QuantizedBiasAdd", T)
    )
    _compare(net, [codes[0], wide[0], *narrowed(net, wide, -2.0, 2.0)])
