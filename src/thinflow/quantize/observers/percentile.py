"""All but a few values lie in the range."""

from __future__ import annotations

import numpy as np

from thinflow.errors import ParameterError
from thinflow.quantize.observers import observer
from thinflow.quantize.observers._histogram import Histogram


@observer("percentile")
class Percentile(Histogram):
    """The range from 100 - percent to percent; of one-sided data only the far side is cut.

    Args:
        percent: of the values below the high end, above 50 and at most 100.
    """

    # One value of 100,000 is cut: none of a small tensor in a few samples, and a few hot pixels of a picture.
    def __init__(self, percent: float = 99.999) -> None:
        super().__init__()
        if not 50 < percent <= 100:
            raise ParameterError(f"percent is {percent}", hint="give a percentage like 99.99")
        self.percent = percent

    def range(self) -> tuple[float, float]:
        if self.is_flat:
            return self.low, self.high
        beyond = int(self.counts.sum() * (1 - self.percent / 100))
        edges = self.edges
        # The outermost bins in which more values than those that may be cut have come together.
        first = int(np.argmax(np.cumsum(self.counts) > beyond))
        last = len(self.counts) - int(np.argmax(np.cumsum(self.counts[::-1]) > beyond))
        low = self.low if self.low >= 0 else float(edges[first])
        high = self.high if self.high <= 0 else float(edges[last])
        return low, high
