"""The range whose rounding and clipping together make the smallest squared error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from thinflow.errors import ParameterError
from thinflow.quantize.observers import observer
from thinflow.quantize.observers._histogram import Histogram

# Steps of 2 % of the range find the valley, golden section its bottom. What has its best range below a fifth
# of the extremes gets a fifth: rounding at that range is a 25th of the squared error there was.
FACTORS = np.linspace(0.2, 1.0, 41)
GOLDEN = (5**0.5 - 1) / 2
# Each shortens the interval to 0.618 of it: twelve leave 0.3 % of the two steps that they start with.
REFINEMENTS = 12

Shrink = Callable[[float], tuple[float, float]]


@observer("mse")
class MeanSquaredError(Histogram):
    """The best of 41 shrunken ranges, refined by golden section.

    Both ends shrink together, or for two-sided data the longer side alone.

    Args:
        levels: quantized values there are, 256 for int8.
    """

    def __init__(self, levels: int = 256) -> None:
        super().__init__()
        if not 2 <= levels <= 65536:
            raise ParameterError(f"levels is {levels}", hint="give a number of levels like 256")
        self.levels = levels

    def range(self) -> tuple[float, float]:
        if self.is_flat:
            return self.low, self.high
        found = [self._best(shrink) for shrink in self._ways()]
        # Compared by the error first.
        return min(found)[1]

    def _ways(self) -> list[Shrink]:
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        longer = max(-low, high)
        ways: list[Shrink] = [lambda factor: (low * factor, high * factor)]
        if low < 0 < high:
            # Cutting the longer side first costs the shorter one nothing until both are equally long.
            ways.append(lambda factor: (max(low, -longer * factor), min(high, longer * factor)))
        return ways

    def _best(self, shrink: Shrink) -> tuple[float, tuple[float, float]]:
        """Smallest error along one way of shrinking, and its range."""
        errors = [self._error(*shrink(f)) for f in FACTORS]
        place = int(np.argmin(errors))
        step = FACTORS[1] - FACTORS[0]
        # The lowest error lies between the neighbours of the best factor, if it has one valley there.
        low, high = FACTORS[place] - step, min(1.0, FACTORS[place] + step)
        for _ in range(REFINEMENTS):
            left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
            if self._error(*shrink(left)) <= self._error(*shrink(right)):
                high = right
            else:
                low = left
        refined = shrink((low + high) / 2)
        return min((errors[place], shrink(FACTORS[place])), (self._error(*refined), refined))

    def _error(self, low: float, high: float) -> float:
        """Sum of squared errors, all values of a bin taken for its centre."""
        scale = (high - low) / (self.levels - 1)
        if scale <= 0:
            return float("inf")
        values = self.centers
        # Rounded like a zero point, so that the error is that of the integers and not of an ideal grid.
        zero = np.rint(-low / scale)
        back = scale * (np.clip(np.rint(values / scale) + zero, 0, self.levels - 1) - zero)
        return float((self.counts * np.square(values - back)).sum())
