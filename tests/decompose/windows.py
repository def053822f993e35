"""Boxes, images and pooling windows."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import INT32


def floats(*shape, low=-2.0, high=2.0, seed=0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


POOLS = [
    {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"},
    {"ksize": [1, 3, 2, 1], "strides": [1, 1, 2, 1], "padding": "VALID"},
    {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME", "include_batch_in_index": True},
    {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME", "Targmax": INT32},
]
BOXES = np.array(
    [[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9], [0.83, 0.91, 0.12, 0.23], [-0.3, 0.5, 0.4, 1.4]], np.float32
)
IMAGES = np.array([0, 1, 1, 0], np.int32)
