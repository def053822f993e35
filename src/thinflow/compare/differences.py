"""Differences of two arrays, of inner tensors layer by layer, and how much of one to allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from thinflow.ops.traits import Trait, has
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.ir.graph import Node, Value

# Some eight units in the last place of float32, whose epsilon is 1.2e-7.
NO_CHANGE = 1e-6
"""Relative difference that reordering float additions makes; what is below it is not reported."""


@dataclass(frozen=True)
class Difference:
    """Largest difference of two arrays.

    Attributes:
        largest: largest |a - b|.
        relative: that, over the largest |a|.
        index: where, as a tuple.
        before, after: the two values there.
    """

    largest: float
    relative: float
    index: tuple[int, ...] = ()
    before: Any = None
    after: Any = None


def difference(before: Array, after: Array, *, least_size: float = 0.0) -> Difference:
    """The largest difference of two arrays; NaN equals NaN, and infinity the same infinity.

    Other shapes: infinite.

    Args:
        least_size: the difference is relative to this, where all of `before` is smaller; see `size_of`.
    """
    if before.shape != after.shape or (before.dtype.kind in "OSU") != (after.dtype.kind in "OSU"):
        return Difference(math.inf, math.inf, (), f"shape {list(before.shape)}", f"shape {list(after.shape)}")
    if before.size == 0:
        return Difference(0.0, 0.0)
    if before.dtype.kind in "OSU":
        # Text has no distance: it is equal or infinitely far.
        unequal = np.asarray(before != after)
        if not unequal.any():
            return Difference(0.0, 0.0)
        where = _position(unequal)
        return Difference(math.inf, math.inf, where, before[where], after[where])
    # In float64: differences of float16 cannot overflow there, and those of 32-bit integers are exact.
    wide = np.complex128 if "c" in (before.dtype.kind, after.dtype.kind) else np.float64
    a, b = before.astype(wide), after.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(np.asarray(a - b))
    largest = float(gap.max())
    if math.isfinite(largest):  # then all is finite
        scale = float(np.abs(a).max())
    else:
        gap = _gap_of_oddities(a, b, gap)
        largest = float(gap.max())
        scale = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    index = _position(gap)
    # Relative to the largest value of the tensor, not to each element: those near
    # zero would differ by any factor.
    scale = max(scale, least_size)
    relative = 0.0 if largest == 0 else largest / scale if scale > 0 else math.inf
    return Difference(largest, relative, index, before[index], after[index])


def size_of(value: Value) -> float:
    """The size that differences of a value are relative to at least; 0 if its own numbers say it.

    Probabilities by a logistic function: ONNX Runtime's has an error of units in the last place of 1, and
    says 0 below -18, which is nothing near 1 and everything where a detector sees no object at all.
    """
    return _LEAST_PROBABILITY if computed_by(value).op == _LOGISTIC else 0.0


def computed_by(value: Value) -> Node:
    """The node that computed the elements of a value: those behind it at most moved them about."""
    node = value.node
    while node.inputs and has(node.op, _MOVES):
        node = node.inputs[0].node
    return node


_MOVES = Trait.PASSES_THROUGH | Trait.RESHAPE | Trait.REARRANGES
_LOGISTIC = "Sigmoid"
_LEAST_PROBABILITY = 1e-3
PROBABILITY_NOISE = 1e-3 * _LEAST_PROBABILITY
"""By so much kernels of a logistic function are apart: eight units in the last place of 1. It is the usual
tolerance of runtimes, of the least size of probabilities."""


def _gap_of_oddities(a: Array, b: Array, gap: Array) -> Array:
    """|a - b| where some are NaN or infinite: 0 where both are the same, infinite where one is NaN."""
    gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, gap)
    return np.where(np.isnan(gap), math.inf, gap)


def _position(array: Array) -> tuple[int, ...]:
    """Index of the largest element."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(array)), array.shape)) if array.ndim else ()


def allowed(tolerance: float, array: Array) -> float:
    """The relative difference to allow: the tolerance, but at least some units in the last place."""
    if array.dtype.kind in "OSUiub":
        return tolerance
    try:
        epsilon = float(np.finfo(array.dtype).eps)
    except ValueError:  # types that numpy knows only by extension
        import ml_dtypes

        epsilon = float(ml_dtypes.finfo(array.dtype).eps)  # type: ignore[no-untyped-call]
    # Eight: an op rounds its result once, and the few roundings that two forms of it may differ in add up.
    return max(tolerance, 8 * epsilon)


@dataclass(frozen=True)
class Layer:
    """One tensor that two models have.

    Attributes:
        name, op: in the first.
        twin, twin_op: in the second.
        largest: the difference, with its place.
        noise: root mean square of the difference over that of the first model's values.
        step: how far apart neighbouring codes are, where one of them is quantized; else 0.
        reordered: whether the second holds the elements in another order; they are compared sorted then.
    """

    name: str
    op: str
    twin: str
    twin_op: str
    difference: Difference
    noise: float
    step: float = 0.0
    reordered: bool = False

    @property
    def codes(self) -> float | None:
        """The largest difference in codes; None if neither tensor is quantized."""
        return self.difference.largest / self.step if self.step else None

    def __str__(self) -> str:
        ends = self.name if self.name == self.twin else f"{self.name} | {self.twin}"
        codes = "" if self.codes is None else f", {self.codes:.3g} codes"
        gap = self.difference
        one, other = _short(self.op), _short(self.twin_op)
        ops = one if one == other else f"{one} | {other}"
        return (
            f"{ends} ({ops}): {gap.largest:.3g} absolute{codes}, "
            f"{gap.relative:.3g} relative, noise {self.noise:.2g}"
            + (", its elements in another order" if self.reordered else "")
        )

    def data(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "a": self.name,
            "a_op": self.op,
            "b": self.twin,
            "b_op": self.twin_op,
            "largest": self.difference.largest,
            "relative": self.difference.relative,
            "noise": self.noise,
            "codes": self.codes,
            "reordered": self.reordered,
        }


def _short(op: str) -> str:
    """`tfl.CONV_2D` as CONV_2D."""
    return op.removeprefix("tfl.").removeprefix("onnx.")


def layer_of(ends: tuple[str, str, str, str], before: Array, after: Array, step: float) -> Layer:
    """Two arrays of one shape, as a layer.

    Args:
        ends: name and op in the first model, name and op in the second.
        before, after: the real numbers.
        step: between codes; 0 if neither is quantized.
    """
    return Layer(*ends, difference(before, after), _noise(before, after), step)


def sorted_layer(layer: Layer, before: Array, after: Array) -> Layer:
    """The same tensors by their elements, whatever the order in which each has them. O(n log n).

    No order of the second's elements would be nearer to the first than this one.
    """
    gap = difference(np.sort(before, axis=None), np.sort(after, axis=None))
    # A place in sorted elements is none in the tensor.
    gap = replace(gap, index=())
    noise = _noise(np.sort(before, axis=None), np.sort(after, axis=None))
    return replace(layer, difference=gap, noise=noise, reordered=True)


def _noise(before: Array, after: Array) -> float:
    # Text and complex numbers have no noise to speak of.
    if before.dtype.kind not in "fiub" or after.dtype.kind not in "fiub":
        return 0.0
    a, b = before.astype(np.float64), after.astype(np.float64)
    # Squares of large values may overflow; what is not finite is judged below.
    with np.errstate(all="ignore"):
        gap, signal = float(np.sqrt(np.mean((a - b) ** 2))), float(np.sqrt(np.mean(a**2)))
    if not math.isfinite(gap) or not math.isfinite(signal):
        return 0.0 if np.array_equal(a, b, equal_nan=True) else math.inf
    return 0.0 if gap == 0 else gap / signal if signal else math.inf


def first_beyond(layers: Sequence[Layer], tolerance: float) -> Layer | None:
    """The first that differs by more than the tolerance; of quantized ones, by more than half a code too."""
    return next((x for x in layers if is_beyond(x, tolerance)), None)


def is_beyond(layer: Layer, tolerance: float) -> bool:
    """True if one tensor differs by that much."""
    codes = layer.codes
    return layer.difference.relative > tolerance and (codes is None or codes > _HALF_A_CODE)


# A hundredth to spare: scale times code is rounded as well.
_HALF_A_CODE = 0.51
"""Rounding alone makes half of one."""


def steepest(layers: Sequence[Layer]) -> tuple[Layer, Layer] | None:
    """The two tensors in a row between which the noise grows most, if it grows to more than a few percent."""
    # Growth to an infinite noise would hide all others.
    pairs = [(x, y) for x, y in pairwise(layers) if math.isfinite(y.noise)]
    worst = max(pairs, key=lambda p: p[1].noise - p[0].noise, default=None)
    return worst if worst is not None and worst[1].noise - worst[0].noise > _GROWTH else None


_GROWTH = 0.02
