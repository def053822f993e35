"""The cases of both targets whose ops have a decomposition, in both runtimes."""

from __future__ import annotations

import pytest

from tests.lower.onnx import test_ops as onnx_ops
from tests.lower.onnx.builders import outputs_of
from tests.lower.onnx.cases import MORE
from tests.lower.tflite import test_ops as tflite_ops
from thinflow.decompose import rules

CASES = [case for case in (*tflite_ops.CASES, *MORE) if rules.find(case[0]) is not None]
NAMES = [f"{n}-{case[0]}" for n, case in enumerate(CASES)]


IN_DOUBLE = ("HistogramFixedWidth",)
"""What is computed in double precision, for which LiteRT has few kernels."""


def check(build, op, operands, attrs, unknown=""):
    net, node = build(op, operands, attrs, unknown)
    outputs = outputs_of(node)
    net.check(*(outputs[:5] if "BatchNorm" in op else outputs))  # the sixth is TensorFlow's own


@pytest.mark.parametrize(("op", "operands", "attrs"), CASES, ids=NAMES)
def test_both_runtimes_run_it(op, operands, attrs):
    for build in (tflite_ops.build, onnx_ops.build)[op in IN_DOUBLE :]:
        check(build, op, operands, attrs)
