"""A small network and samples whose channels are related, as those of real layers are."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.quantize.programs import Builder
from thinflow.tflite.model import Program

Feeds = list[dict[str, np.ndarray]]


def related(program: Any, count: int = 40, seed: int = 5, mean: float = 0.5) -> Feeds:
    """Samples whose channels follow each other, which makes errors cancel out or add up."""
    rng = np.random.default_rng(seed)
    (x,) = program.inputs if hasattr(program, "inputs") else program.subgraphs[0].inputs
    axis = 1 if hasattr(program, "inputs") else -1
    shape = tuple(n or 1 for n in x.shape)
    channels = shape[axis]
    mix = rng.standard_normal((channels, channels)) * 0.3 + 1.0
    beside = [channels if n == axis % len(shape) else 1 for n in range(len(shape))]
    feeds = []
    for _ in range(count):
        around = rng.standard_normal(shape) + 2 * rng.standard_normal(channels).reshape(beside)
        drawn = np.moveaxis(around, axis, -1) @ mix + mean
        feeds.append({x.name: np.ascontiguousarray(np.moveaxis(drawn, -1, axis), np.float32)})
    return feeds


def net() -> tuple[Program, Feeds]:
    b = Builder(1)
    x = b.conv(b.input(1, 8, 8, 6), 12, act="RELU")
    x = b.depthwise(x, act="RELU6")
    x = b.conv(x, 16, size=1, act="NONE")
    program = b.program(x)
    return program, related(program, 32)
