"""Of outputs that are no scores of classes: how far they point into the direction of the first model's."""

from __future__ import annotations

import numpy as np

from thinflow.optimize.evaluation.metric import Answered, Figure, mean_figure, metric
from thinflow.optimize.exact_sum import ExactSum


@metric("cosine")
class Cosine:
    """The mean cosine between each sample's float outputs and those of the first model; 1 if they are
    alike.
    """

    def __init__(self) -> None:
        self.count = 0
        self.sum, self.squares = ExactSum(), ExactSum()

    def add(self, sample: Answered) -> None:
        """See `Metric`."""
        pairs = zip(sample.outputs.values(), sample.first.values(), strict=False)
        alike = [(a, b) for a, b in pairs if a.dtype.kind == b.dtype.kind == "f" and a.size == b.size]
        if not alike:
            return
        mine = np.concatenate([a.reshape(-1).astype(np.float64) for a, _ in alike])
        other = np.concatenate([b.reshape(-1).astype(np.float64) for _, b in alike])
        norm = float(np.sqrt(np.square(mine).sum() * np.square(other).sum()))
        if not np.isfinite(norm):
            return
        # Two outputs of zeros are alike; one of them alone has no direction.
        value = float((mine * other).sum()) / norm if norm else float(np.array_equal(mine, other))
        self.count += 1
        self.sum.add(value)
        self.squares.add(value * value)

    def merge(self, later: Cosine) -> None:
        """See `Metric`."""
        self.count += later.count
        self.sum.merge(later.sum)
        self.squares.merge(later.squares)

    def figures(self) -> list[Figure]:
        """The mean, with its interval."""
        return [mean_figure("cosine", self.sum, self.squares, self.count)]
