"""The trained one: a small CNN for handwritten digits, made by examples/train_digits.py, and its images."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from thinflow.errors import ParameterError
from thinflow.formats import graphdef
from thinflow.ir.graph import Graph
from thinflow.typing import Array

SUMMARY = "small trained CNN for 8x8 handwritten digits, with test images: 98.75% right (44k parameters)"
INPUT = "image"


_FOLDER = Path(__file__).parents[1] / "data"


def build(seed: int) -> Graph:
    del seed  # it is trained: there is only one
    graph = graphdef.load(_FOLDER / "digits.pb")
    graph.inputs, graph.outputs = [graph.value(INPUT)], [graph.value("probabilities")]
    return graph


def calibration_images(count: int | None) -> Array:
    """The first `count` of 200 training images [count,8,8,1], float32 in 0..16; None for all."""
    images = _images("calibration_images")
    if count is not None and count > len(images):
        raise ParameterError(f"count is {count}; there are {len(images)} calibration images of digits")
    return images[:count]


def test_images() -> dict[str, Array]:
    """400 images [400,8,8,1] the network never saw, and their digits [400] int64."""
    with np.load(_FOLDER / "digits_test.npz") as data:
        labels = data["labels"].astype(np.int64)
    return {INPUT: _images("images"), "labels": labels}


def _images(key: str) -> Array:
    with np.load(_FOLDER / "digits_test.npz") as data:
        images: Array = data[key].astype(np.float32)
    return images
