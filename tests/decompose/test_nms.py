"""Soft suppression in both runtimes: what a chosen box does to the scores of the others."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.onnx.harness import Net as OnnxNet
from tests.lower.tflite.harness import Net
from thinflow.errors import UnsupportedOp

BOTH = pytest.mark.parametrize("kind", [Net, OnnxNet])


def build(kind=Net, count=20, limit=8, least=0.1, sigma=0.5, seed=0, shape=(), boxes=None, **attrs):
    net = kind()
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 0.7, (count, 2))
    if boxes is None:
        boxes = np.concatenate([corners, corners + random.uniform(0.1, 0.5, (count, 2))], 1)
    scores = random.permutation(np.linspace(0.05, 1, count)).astype(np.float32)
    y = net.op(
        "NonMaxSuppressionV5",
        net.feed(boxes.astype(np.float32), "boxes", shape),
        net.feed(scores, "scores"),
        *(np.int32(limit), np.float32(0.3), np.float32(least), np.float32(sigma)),
        **attrs,
    )
    return net, [y.node.output(n) for n in range(3)]


@BOTH
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("limits", [(8, 0.1), (30, 0.0), (3, 0.9), (1, 0.2)])
def test_neighbours_lose_their_scores(kind, seed, pad, limits):
    limit, least = limits
    net, outputs = build(kind, limit=limit, least=least, seed=seed, sigma=0.2, pad_to_max_output_size=pad)
    codes = net.check(*outputs)
    assert codes.count("ARG_MAX") + codes.count("ArgMax") == min(limit, 20)


@BOTH
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize(("count", "limit"), [(40, 33), (40, 60), (300, 9)])
def test_many_iterations_or_boxes_are_a_loop(kind, pad, count, limit):
    net, outputs = build(kind, count=count, limit=limit, least=0.1, sigma=0.2, pad_to_max_output_size=pad)
    assert {"WHILE", "Loop"} & set(net.check(*outputs))


@BOTH
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("options", [{"least": -1.0}, {"shape": (None, 4)}])
def test_scores_below_zero_and_any_number_of_boxes(kind, pad, options):
    net, outputs = build(kind, sigma=0.2, pad_to_max_output_size=pad, **options)
    net.check(*outputs)


@BOTH
def test_a_limit_that_is_computed(kind):
    net, _ = build(kind)
    boxes, scores = net.feeds
    operands = [net.feed(np.int32(5), "limit"), *(np.float32(n) for n in (0.3, 0.1, 0.2))]
    y = net.op("NonMaxSuppressionV5", boxes, scores, *operands, name="y")
    net.check(*(y.node.output(n) for n in range(3)))


@BOTH
def test_overlaps_that_are_given(kind):
    net = kind()
    overlaps = np.random.default_rng(0).uniform(0, 1, (9, 9)).astype(np.float32)
    operands = [net.feed(overlaps, "overlaps"), net.feed(np.linspace(0, 1, 9).astype(np.float32), "scores")]
    net.check(
        net.op("NonMaxSuppressionWithOverlaps", *operands, np.int32(6), np.float32(0.6), np.float32(0.1))
    )


@BOTH
@pytest.mark.parametrize("pad", [False, True])
def test_a_sigma_of_zero_drops_boxes(kind, pad):
    net, outputs = build(kind, sigma=0.0, pad_to_max_output_size=pad)
    assert not {"ARG_MAX", "ArgMax"} & set(net.check(*outputs))


def test_equal_scores():
    net, outputs = build(count=12, limit=9, least=0.0)
    scores = list(net.feeds)[1]
    net.feeds[scores] = np.float32([0.5, -0.5, 0.5, 0.0, 0.25, -1, 0.25, 0.5, -0.1, 0.0, -0.2, -0.3])
    net.check(*outputs)


def test_boxes_that_are_turned_over_equal_or_without_area():
    boxes = np.float32([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], [0.5, 0.5, 0.5, 0.9], [0.2, 0.2, 0.9, 1.1]])
    net, outputs = build(count=5, limit=5, boxes=boxes)
    net.check(*outputs)


def test_nothing_is_above_the_limit():
    net, outputs = build(least=1.5, pad_to_max_output_size=True)
    net.check(*outputs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma": -0.5}, "computed while the model runs, or below 0"),
        ({"limit": 0}, "there is nothing to choose"),
    ],
)
def test_refusals(options, message):
    net, outputs = build(**options)
    with pytest.raises(UnsupportedOp, match=message):
        net.lower(*outputs)
