"""Ops with an ONNX form of several operators, against the reference kernels."""

from __future__ import annotations

import traceback

import numpy as np
import pytest

from tests.lower.builders import converted
from tests.lower.onnx.builders import build, outputs_of
from tests.lower.onnx.cases import MORE, MORE_NAMES
from tests.lower.onnx.harness import Net, run_onnx
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.ir.types import FLOAT, dtype


@pytest.mark.parametrize(("op", "operands", "attrs"), MORE, ids=MORE_NAMES)
def test_numerical(op, operands, attrs):
    net, node = build(op, operands, attrs)
    net.check(*outputs_of(node))


@pytest.mark.parametrize("opset", [17])
def test_other_opsets(opset):
    wrong = []
    for name, (op, operands, attrs) in zip(MORE_NAMES, MORE, strict=True):
        net, node = build(op, operands, attrs, opset=opset)
        try:
            net.check(*outputs_of(node))
        except UnsupportedOp as error:
            if "since opset 18" not in error.problem:
                wrong.append(f"{name}: {error.problem}")
        except Exception:
            wrong.append(f"{name}: {traceback.format_exc()}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("element", ["half", "int32", "uint8"])
def test_other_types_are_right_or_refused(element):
    wrong = []
    for name, (op, operands, attrs) in zip(MORE_NAMES, MORE, strict=True):
        net, node = build(op, [converted(o, dtype(element).numpy()) for o in operands], attrs)
        outputs = outputs_of(node)
        try:
            with np.errstate(all="ignore"):
                net.reference(*outputs)
            net.lower(*outputs)
        except ThinflowError:
            continue
        try:
            net.check(*outputs, **({"rtol": 2e-2, "atol": 2e-2} if element == "half" else {}))
        except Exception:
            wrong.append(f"{name}: {traceback.format_exc()}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("unknown", ["batch", "sizes", "rank"])
def test_unknown_sizes_are_right_or_refused(unknown):
    wrong, refused = [], []
    for name, (op, operands, attrs) in zip(MORE_NAMES, MORE, strict=True):
        net, node = build(op, operands, attrs, unknown)
        outputs = outputs_of(node)
        try:
            net.lower(*outputs)
        except UnsupportedOp as error:
            refused.append(f"{name}: {error.problem}")
            continue
        try:
            net.check(*outputs)
        except Exception:
            wrong.append(f"{name}: {traceback.format_exc()}")
    assert not wrong, "\n".join(wrong)


def test_random_numbers_are_of_their_distribution():
    net = Net()
    sizes = net.feed(np.int32([60, 50]), "sizes")
    whole = net.op("RandomUniformInt", sizes, np.int32(-3), np.int32(4), name="whole")
    cut = net.op("TruncatedNormal", sizes, name="cut", dtype=FLOAT)
    logits = np.log(np.float32([[0.7, 0.2, 0.1]] * 2))
    drawn = net.op("Multinomial", net.feed(logits, "logits"), np.int32(2000), name="drawn")
    feeds = {v.name: a for v, a in net.feeds.items()}
    results = run_onnx(net.lower(whole, cut, drawn), feeds)
    assert results["whole"].dtype == np.int32
    assert set(np.unique(results["whole"])) == set(range(-3, 4))
    assert np.abs(results["cut"]).max() <= 2.0
    assert 0.8 < results["cut"].std() < 0.95
    assert abs((results["drawn"] == 0).mean() - 0.7) < 0.05
    assert results["drawn"].shape == (2, 2000)


@pytest.mark.parametrize("images", [1, 3])
def test_boxes_of_an_open_number_of_images(images):
    random = np.random.default_rng(images)
    corners = random.uniform(0, 0.8, (images, 9, 1, 2))
    boxes = np.concatenate([corners, corners + 0.3], -1).astype(np.float32)
    net = Net()
    y = net.op(
        "CombinedNonMaxSuppression",
        net.feed(boxes, "boxes", (None, 9, 1, 4)),
        net.feed(random.uniform(0, 1, (images, 9, 3)).astype(np.float32), "scores", (None, 9, 3)),
        *(np.int32(4), np.int32(6), np.float32(0.4), np.float32(0.3)),
    ).node
    net.check(*(y.output(n) for n in range(4)))


@pytest.mark.parametrize(("limit", "least"), [(12, 0.1), (12, -1.0), (1, 0.1), (1, -1.0)])
def test_soft_suppression_with_all_overlaps_ahead_and_without(limit, least):
    """A few of many boxes are compared turn by turn, else all with all at once."""
    random = np.random.default_rng(limit)
    corners = random.uniform(0, 0.7, (12, 2))
    boxes = np.concatenate([corners, corners + random.uniform(0.1, 0.5, (12, 2))], 1).astype(np.float32)
    scores = random.permutation(np.linspace(0.05, 1, 12)).astype(np.float32)
    net = Net()
    more = [np.int32(limit), np.float32(1), np.float32(least), np.float32(0.3)]
    y = net.op("NonMaxSuppressionV5", net.feed(boxes, "boxes"), net.feed(scores, "scores"), *more).node
    net.check(*(y.output(n) for n in range(3)))
