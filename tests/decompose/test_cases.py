"""The cases of both targets whose ops have a decomposition, in both runtimes."""

from __future__ import annotations

import pytest

from tests.lower.onnx.builders import build, outputs_of
from tests.lower.onnx.cases import MORE
from tests.lower.onnx.harness import Net as OnnxNet
from tests.lower.tflite.cases import CASES as SINGLE
from tests.lower.tflite.harness import Net
from thinflow.decompose import rules
from thinflow.errors import UnsupportedOp

CASES = [case for case in (*SINGLE, *MORE) if rules.find(case[0]) is not None]
NAMES = [f"{n}-{case[0]}" for n, case in enumerate(CASES)]


LIMITS = ("LiteRT has no", "is found in a vector only")
"""Words of refusals of LiteRT: it computes little in double precision, and finds maxima of int64 nowhere."""


def check(kind, op, operands, attrs):
    net, node = build(op, operands, attrs, kind=kind)
    outputs = outputs_of(node)
    net.check(*(outputs[:5] if "BatchNorm" in op else outputs))  # the sixth is TensorFlow's own


@pytest.mark.parametrize(("op", "operands", "attrs"), CASES, ids=NAMES)
def test_both_runtimes_run_it(op, operands, attrs):
    check(OnnxNet, op, operands, attrs)
    try:
        check(Net, op, operands, attrs)
    except UnsupportedOp as error:
        assert any(words in error.problem for words in LIMITS), error  # noqa: PT017
