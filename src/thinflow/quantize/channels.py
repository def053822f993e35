"""Statistics of each channel of an activation, over all samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from thinflow.ir.brief import brief_repr
from thinflow.lower.tflite.program import Program, Tensor
from thinflow.quantize.calibrate import Feed, watch_program
from thinflow.typing import Array, Progress


@brief_repr
@dataclass(frozen=True)
class ChannelStatistics:
    """Of a tensor's last dimension, C entries.

    Attributes:
        largest: float64 [C], of the magnitudes.
        mean: float64 [C]
    """

    largest: Array
    mean: Array


class _Observer:
    """Sums up one tensor [..., C]; a sample with values that are not finite is left out."""

    passes = 1

    def __init__(self, channels: int, rank: int) -> None:
        self.rank = rank
        self.largest = np.zeros(channels)
        self.sums = np.zeros(channels)
        self.count = 0

    def begin(self, walk: int) -> None:
        del walk  # one walk, nothing to reset

    def observe(self, values: Array, low: float, high: float) -> None:
        channels = len(self.sums)
        # Where some values are not finite, the others come as one flat array: nobody knows their channels
        # then, and as many of them as there are channels are no row of those.
        if values.ndim != self.rank or values.shape[-1] != channels:
            return
        rows = values.reshape(-1, channels)
        self.largest = np.maximum(self.largest, np.abs(rows).max(axis=0))
        self.sums += rows.sum(axis=0, dtype=np.float64)
        self.count += len(rows)

    def range(self) -> tuple[float, float]:
        return 1.0, -1.0  # nobody asks for it

    def statistics(self) -> ChannelStatistics:
        return ChannelStatistics(self.largest, self.sums / max(self.count, 1))


def channel_statistics(
    program: Program,
    tensors: Iterable[Tensor],
    feeds: Iterable[Mapping[str, Array]],
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> dict[Tensor, ChannelStatistics]:
    """Of activations whose last size is known, in a float program.

    Raises:
        FeedError: a sample does not fit the inputs, or there are no samples.
        EngineUnavailable: LiteRT cannot run the program.
    """
    watched = {
        t: _Observer(t.shape[-1], len(t.shape)) for t in tensors if t.shape and t.shape[-1] is not None
    }
    samples: Iterable[Feed] = feeds
    watch_program(program, watched, samples, threads=threads, progress=progress)
    return {tensor: one.statistics() for tensor, one in watched.items()}
