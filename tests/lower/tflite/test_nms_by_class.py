"""CombinedNonMaxSuppression, unrolled over images and classes, through LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.tflite.harness import Net
from thinflow.errors import UnsupportedOp


def build(images=2, count=12, classes=3, own=1, limits=(4, 7, 0.4, 0.3), low=0.0, shape=(), **attrs):
    net = Net()
    random = np.random.default_rng([images, count, classes, own])
    corners = random.uniform(-0.2, 0.8, (images, count, own, 2))
    boxes = np.concatenate([corners, corners + random.uniform(0.1, 0.5, corners.shape)], -1).astype(
        np.float32
    )
    scores = random.uniform(low, 1, (images, count, classes)).astype(np.float32)
    sizes = () if shape == () else (None, *boxes.shape[1:])
    most, total, iou, least = limits
    y = net.op(
        "CombinedNonMaxSuppression",
        net.feed(boxes, "boxes", sizes),
        net.feed(scores, "scores"),
        *(np.int32(most), np.int32(total), np.float32(iou), np.float32(least)),
        **attrs,
    )
    return net, [y.node.output(n) for n in range(4)]


@pytest.mark.parametrize("own", [1, 3])
@pytest.mark.parametrize("attrs", [{}, {"pad_per_class": True}, {"clip_boxes": False}])
@pytest.mark.parametrize("limits", [(4, 7, 0.4, 0.3), (3, 50, 0.7, 0.0), (20, 2, 0.1, 0.9)])
def test_the_best_of_all_classes(own, attrs, limits):
    net, outputs = build(own=own, limits=limits, **attrs)
    assert net.check(*outputs).count("NON_MAX_SUPPRESSION_V4") == 6


def test_nothing_is_above_the_limit():
    net, outputs = build(images=1, limits=(4, 7, 0.4, 1.5))
    net.check(*outputs)


def test_too_many_lists_are_refused():
    net, outputs = build(images=2, classes=129)
    with pytest.raises(UnsupportedOp, match="129 classes of 2 images are too many to unroll"):
        net.lower(*outputs)


def test_an_open_number_of_images_is_refused():
    net, outputs = build(shape=None)
    with pytest.raises(UnsupportedOp, match="the numbers of images and boxes are not known"):
        net.lower(*outputs)


def test_equal_scores_and_overlaps_at_the_limit():
    net = Net()
    random = np.random.default_rng(0)
    corners = random.integers(0, 3, (2, 12, 1, 2))
    boxes = np.concatenate([corners, corners + random.integers(0, 3, corners.shape)], -1) / 4
    y = net.op(
        "CombinedNonMaxSuppression",
        net.feed(boxes.astype(np.float32), "boxes"),
        net.feed((random.integers(0, 4, (2, 12, 2)) / 4).astype(np.float32), "scores"),
        *(np.int32(5), np.int32(7), np.float32(0.5), np.float32(0.1)),
    )
    net.check(*(y.node.output(n) for n in range(4)))
