"""The observer of extremes, which walks the samples once."""

from __future__ import annotations

import math

import numpy as np

from thinflow.quantize.observers import State, observer
from thinflow.typing import Array


@observer("minmax")
class MinMax:
    """Everything seen lies in the range: the safe choice for ReLU networks with enough samples."""

    passes = 1

    def __init__(self) -> None:
        self.low, self.high = math.inf, -math.inf

    def begin(self, walk: int) -> None:
        del walk  # one walk, nothing to reset

    def observe(self, values: Array, low: float, high: float) -> None:
        del values  # the extremes are all it needs
        self.low, self.high = min(self.low, low), max(self.high, high)

    def state(self) -> State:
        return {"ends": np.array([self.low, self.high])}

    def merge(self, later: State) -> None:
        low, high = map(float, later["ends"])
        self.low, self.high = min(self.low, low), max(self.high, high)

    def resume(self, walk: int, whole: State, before: State) -> None:
        del whole, before  # one walk
        self.begin(walk)

    def range(self) -> tuple[float, float]:
        return self.low, self.high
