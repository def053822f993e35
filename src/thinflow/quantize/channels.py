"""Statistics of each channel of an activation over all samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from thinflow.ir.brief import brief_repr
from thinflow.onnx import program as onnx
from thinflow.program import model
from thinflow.quantize.calibrate import watch_program
from thinflow.quantize.observers import Watcher
from thinflow.quantize.runners import Feed
from thinflow.tflite.model import Program
from thinflow.typing import Array, Progress

T = TypeVar("T", bound=model.Tensor)


@brief_repr
@dataclass(frozen=True)
class ChannelStatistics:
    """Statistics of a tensor's channels, C entries.

    Attributes:
        largest: float64 [C], of the magnitudes.
        mean: float64 [C]
    """

    largest: Array
    mean: Array


class _Observer(Watcher):
    """Sums up one tensor; a sample with values that are not finite is left out.

    Args:
        shape: of the tensor.
        axes: along which its channels lie.
    """

    def __init__(self, shape: Sequence[int | None], axes: Sequence[int]) -> None:
        self.rank, self.axes = len(shape), [a % len(shape) for a in axes]
        self.sizes = [shape[a] or 0 for a in self.axes]
        self.others = tuple(a for a in range(self.rank) if a not in self.axes)
        self.largest = np.zeros(math.prod(self.sizes))
        self.sums = np.zeros(math.prod(self.sizes))
        self.count = 0

    def observe(self, values: Array, low: float, high: float) -> None:
        # Where some values are not finite, the others come as one flat array: nobody knows their channels
        # then, and as many of them as there are channels are no row of those.
        if values.ndim != self.rank or [values.shape[a] for a in self.axes] != self.sizes:
            return
        largest = np.maximum(values.max(axis=self.others), -values.min(axis=self.others)).ravel()
        self.largest = np.maximum(self.largest, largest)
        self.sums += values.sum(axis=self.others, dtype=np.float64).ravel()
        self.count += values.size // len(self.sums)

    def statistics(self) -> ChannelStatistics:
        # A tensor that no sample filled has mean 0, which corrects nothing.
        return ChannelStatistics(self.largest, self.sums / max(self.count, 1))


def channel_statistics(
    program: Program | onnx.Program,
    tensors: Iterable[T] | Mapping[T, Sequence[int]],
    feeds: Iterable[Mapping[str, Array]],
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> dict[T, ChannelStatistics]:
    """Statistics of activations whose channels' number is known, in a float program.

    Args:
        tensors: with the axes along which their channels lie, several of them in row-major order; the last
            one where none are said.

    Raises:
        FeedError: a sample does not fit the inputs, or there are no samples.
        EngineUnavailable: the runtime is missing or cannot run the program.
    """
    axes = tensors if isinstance(tensors, Mapping) else dict.fromkeys(tensors, (-1,))
    watched = {
        t: _Observer(t.shape, along)
        for t, along in axes.items()
        if t.shape and all(t.shape[a] for a in along)
    }
    samples: Iterable[Feed] = feeds
    watch_program(program, watched, samples, threads=threads, progress=progress)
    return {tensor: one.statistics() for tensor, one in watched.items()}
