"""Soft suppression as a loop, through LiteRT: what a chosen box does to the scores of the others."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.tflite.harness import Net
from thinflow.errors import UnsupportedOp


def build(count=20, limit=8, least=0.1, sigma=0.5, seed=0, shape=(), boxes=None, **attrs):
    net = Net()
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


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("limits", [(8, 0.1), (30, 0.0), (3, 0.9), (1, 0.2)])
def test_neighbours_lose_their_scores(seed, pad, limits):
    limit, least = limits
    net, outputs = build(limit=limit, least=least, seed=seed, sigma=0.2, pad_to_max_output_size=pad)
    assert net.check(*outputs).count("ARG_MAX") == min(limit, 20)


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("limit", [33, 60])
def test_many_turns_are_a_loop(pad, limit):
    net, outputs = build(count=40, limit=limit, least=0.1, sigma=0.2, pad_to_max_output_size=pad)
    assert "WHILE" in net.check(*outputs)


def test_scores_below_zero_and_equal_ones():
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
        ({"least": -1.0}, "a fixed score_threshold from 0"),
        ({"shape": (None, 4)}, "a fixed number of boxes"),
        ({"sigma": -0.5}, "computed while the model runs, or below 0"),
        ({"limit": 0}, "there is nothing to choose"),
    ],
)
def test_refusals(options, message):
    net, outputs = build(**options)
    with pytest.raises(UnsupportedOp, match=message):
        net.lower(*outputs)
