"""Clamps at the ends of a grid."""

from __future__ import annotations

import pytest

from tests.lower.tflite.harness import Net
from tests.lower.tflite.test_quantized import fed, narrowed, one, operators, two, within
from thinflow.ir.types import QINT32, QUINT8


def added(net, clamp, low, high):
    """Codes of a clamped sum on a grid."""
    x, y = fed(net, (1, 6, 6, 8), -4.0, 5.0), fed(net, (1, 6, 6, 8), -1.0, 3.0, "y", seed=1)
    wide = two(net, "QuantizedAdd", x, y, T1=QUINT8, T2=QUINT8, Toutput=QINT32)
    return narrowed(net, one(net, clamp, wide, Tinput=QINT32, out_type=QINT32), low, high)


def activation_of(net, codes):
    lowered, _ = operators(net, codes[0])
    (add,) = (o for o in lowered.program.subgraphs[0].operators if o.code == "ADD")
    return add.options["fused_activation_function"]


@pytest.mark.parametrize(
    ("clamp", "low", "high", "left"),
    [
        ("QuantizedRelu", 0.0, 3.0, "NONE"),
        ("QuantizedRelu6", 0.0, 6.0, "NONE"),
        ("QuantizedRelu6", 0.0, 5.5, "NONE"),
        ("QuantizedRelu6", 0.0, 7.0, "RELU6"),  # codes go on above 6
        ("QuantizedRelu6", -1.0, 6.0, "RELU6"),  # and below 0
        ("QuantizedRelu", -1.0, 3.0, "RELU"),
    ],
)
def test_only_clamps_that_no_code_needs_go(clamp, low, high, left):
    net = Net()
    codes = added(net, clamp, low, high)
    within(net, codes)
    assert activation_of(net, codes) == left
