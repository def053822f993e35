"""Round weights to a few levels, so that the file compresses well. The file itself keeps its size.

w  ->  lo + step * (floor((w - lo) / step) + 1/2),   step = (hi - lo) / num_steps

or, with clusters=true, to the mean of those that are nearest to it: levels where the weights are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph, Node
from thinflow.ir.tensor import Tensor
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, node
from thinflow.rewrite.rule import Refuse, Trace, transform
from thinflow.transforms.shared.constants import (
    SMALLEST_NORMAL,
    all_equal,
    is_finite,
    other_than_floating,
    stored_once,
)
from thinflow.typing import Array

_ROUNDS = 200  # of k-means, which has long stopped to gain by then
_SAMPLE = 1 << 16  # elements; those that show more levels than wanted spare sorting a large constant


@transform("round_weights")
@dataclass(frozen=True)
class RoundWeights(Rewrite):
    """Round floating-point constants to `num_steps` levels.

    Attributes:
        num_steps: how many levels.
        minimum_size: constants with fewer elements stay.
        preserve_zero: an exact 0 stays 0, as a level of its own.
        clusters: levels where weights are many, by k-means, instead of evenly spaced ones. They lose less,
            and compress a little less.
        legacy: the original tool's numbers, bit for bit: float32 only, zeros shift, the maximum leaves its
            range.
    """

    exact = False
    in_file_order = True
    until_fixpoint = False
    outputs = 0
    pattern: ClassVar = node("Const", name="w", where=other_than_floating)

    num_steps: int = 256
    minimum_size: int = 16
    preserve_zero: bool = True
    clusters: bool = False
    legacy: bool = False

    def __post_init__(self) -> None:
        if self.num_steps < 1:
            raise ParameterError(f"num_steps is {self.num_steps}", hint="give at least 1; 256 is usual")
        if self.legacy and self.clusters:
            raise ParameterError("legacy has evenly spaced levels", hint="leave clusters or legacy out")
        if self.legacy:
            object.__setattr__(self, "repeatable", False)

    def prepare(self, graph: Graph, trace: Trace) -> Mapping[str, object]:
        if self.num_steps == 1:
            trace.warnings.append(
                "num_steps=1 gives each constant a single level; 2 is the least that makes sense"
            )
        return {}

    def check(self, m: Match) -> None:
        what, rounded = self.round(m.w, m.w.tensor)
        m.bind("what", what)
        m.bind("rounded", rounded)

    def describe(self, m: Match) -> str:
        return str(m.what)

    def build(self, m: Match, site: Site) -> None:
        m.w.attrs["value"] = m.rounded

    def round(self, node: Node, tensor: Tensor) -> tuple[str, Tensor]:
        """A sentence about what was done, and the new tensor.

        Raises:
            Refuse: why the constant stays as it is.
        """
        if node.is_protected:
            raise Refuse("it is an input or output of the graph")
        if tensor.size < self.minimum_size or not tensor.size:
            raise Refuse(f"it has {tensor.size} values, fewer than {self.minimum_size}")
        if self.legacy and tensor.dtype.name != "float":
            raise Refuse(f"it is {tensor.dtype}; legacy rounds float only")
        values = tensor.numpy()
        if not is_finite(values):
            raise Refuse("it has values that are not finite")
        done = f"rounded to {self.num_steps} levels"
        if self.legacy:
            return done, Tensor.from_array(_round_as_original(values, self.num_steps), tensor.dtype)
        if tensor.is_splat:
            raise Refuse("all its values are equal")
        if all_equal(values):
            return "stored once, all its values being equal", stored_once(tensor)
        limit = self.num_steps + self.preserve_zero
        # What was rounded before has a range narrower by a step, and would move to other levels.
        if _has_few_levels(values, limit):
            raise Refuse(f"it has at most {limit} different values already")
        return done, stored_once(Tensor.from_array(self._rounded(values), tensor.dtype))

    def _rounded(self, values: Array) -> Array:
        if self.clusters:
            kept = values[values != 0] if self.preserve_zero else values.reshape(-1)
            rounded = _nearest(values, k_means(kept.astype(np.float64), self.num_steps))
            return np.where(values == 0, values, rounded) if self.preserve_zero else rounded
        # In double: float32 cannot tell neighbouring levels of a range far from zero.
        wide = values.astype(np.float64)
        low, high = float(wide.min()), float(wide.max())
        step = (high - low) / self.num_steps
        if not 0 < step < np.inf:
            raise Refuse(
                f"a range from {low:.6g} to {high:.6g} cannot be divided into {self.num_steps} levels"
            )
        # The largest value falls on the upper end of the last level.
        bucket = np.clip(np.floor((wide - low) / step), 0, self.num_steps - 1)
        rounded = (low + step * (bucket + 0.5)).astype(values.dtype)
        return np.where(values == 0, values, rounded) if self.preserve_zero else rounded


def k_means(values: Array, count: int) -> Array:
    """float64 [at most count], ascending: centres that leave little squared error, by Lloyd's iteration."""
    ordered = np.sort(values.reshape(-1))
    # Where it begins decides what it finds: as values lie, evenly for long tails, and between the two.
    dense = np.quantile(ordered, (np.arange(count) + 0.5) / count)
    even = np.linspace(ordered[0], ordered[-1], 2 * count + 1)[1::2]
    found = [_lloyd(ordered, start) for start in (dense, even, (dense + even) / 2)]
    errors = [np.square(ordered - _nearest(ordered, centres)).sum() for centres in found]
    return found[int(np.argmin(errors))]


def _lloyd(ordered: Array, centres: Array) -> Array:
    """Centres of ascending values, each the mean of those nearest to it."""
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    for _ in range(_ROUNDS):
        edges = np.searchsorted(ordered, (centres[1:] + centres[:-1]) / 2)
        edges = np.concatenate([[0], edges, [len(ordered)]])
        sizes = np.diff(edges)
        # A centre that has lost all of its values is one too many.
        means = np.diff(sums[edges])[sizes > 0] / sizes[sizes > 0]
        if len(means) == len(centres) and np.array_equal(means, centres):
            break
        centres = means
    return centres


def _nearest(values: Array, centres: Array) -> Array:
    """The nearest centre for each value, of its type and shape."""
    between = (centres[1:] + centres[:-1]) / 2
    return np.asarray(centres.astype(values.dtype)[np.searchsorted(between, values.astype(np.float64))])


def _has_few_levels(values: Array, limit: int) -> bool:
    """True if there are at most `limit` different values. A sample answers for most constants."""
    if values.size <= limit:
        return True
    flat = values.reshape(-1)
    # More levels in a part are more levels in the whole.
    if np.unique(flat[:_SAMPLE].astype(np.float64)).size > limit:
        return False
    return flat.size <= _SAMPLE or bool(np.unique(flat.astype(np.float64)).size <= limit)


def _round_as_original(values: Array, num_steps: int) -> Array:
    """Bit for bit what the Graph Transform Tool does, quirks included: the range reaches up to 0 or a
    little above.
    """
    low = np.float32(values.min())
    # The original's C++ starts the maximum at the smallest positive float, not at the lowest.
    high = max(SMALLEST_NORMAL, np.float32(values.max()))
    # The original's way out of a step of 0: a range of 1 next to zero, else one that reaches to twice the
    # value.
    if low == high:
        if abs(low) < 1e-6:
            high = np.float32(low + 1)
        elif low > 0:
            high = np.float32(2 * low)
        else:
            low = np.float32(2 * high)
    step = np.float32((high - low) / np.float32(num_steps))
    bucket = np.floor((values - low) / step)
    return np.asarray(low + step * (bucket + np.float32(0.5)), np.float32)
