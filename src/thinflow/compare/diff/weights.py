"""Changes of weights in a conversion: type, bytes, layout, and how far they moved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from thinflow.analysis.foreign_quant_params import TensorParams, params_of
from thinflow.compare.diff.crossing import Group
from thinflow.compare.differences import NO_CHANGE
from thinflow.ir.graph import Node
from thinflow.ir.types import shape_text
from thinflow.typing import Array

_MOST_ELEMENTS = 1 << 24
"""Of a weight that is compared number by number."""
_MOST_RANK = 5
_SMALL = 2
"""Constants of so few elements are sizes and axes, not weights."""
_SAME = 1e-3
"""Tolerance, as a part of the largest value, up to which it is the same weight in another layout."""


@dataclass(frozen=True)
class WeightPair:
    """A constant of the first model and what stands for it in the second.

    Attributes:
        a, b: names.
        before, after: type and shape, `float[3,3,8]`.
        bytes_before, bytes_after: what they occupy.
        grids: in how many scales the second is quantized; 0 if it is not.
        layout: how the axes moved: "transposed 3,0,1,2", "reshaped", both, or "".
        largest, relative: of the difference, relative to the largest value; None if they are not the same
            weight any more (a batch norm was folded in), or hold no numbers.
        codes: the largest difference in steps of the second's grid; None if it has none.
    """

    a: str
    b: str
    before: str
    after: str
    bytes_before: int
    bytes_after: int
    grids: int = 0
    layout: str = ""
    largest: float | None = None
    relative: float | None = None
    codes: float | None = None

    @property
    def kind(self) -> str:
        """The change in a few words, to count the alike."""
        types = self.before.partition("[")[0], self.after.partition("[")[0]
        grids = (
            "" if not self.grids else " with one scale" if self.grids == 1 else " with a scale per channel"
        )
        if self.relative is None:
            numbers = "other numbers: something was folded in"
        elif self.largest == 0:
            numbers = "the same numbers"
        else:
            numbers = "nearly the same numbers" if self.codes is None else "rounded"
        return f"{types[0]} -> {types[1]}{grids}, {numbers}"

    def __str__(self) -> str:
        ends = self.a if self.a == self.b else f"{self.a} | {self.b}"
        parts = [f"{self.before} -> {self.after}"]
        if self.grids:
            parts.append("one scale" if self.grids == 1 else f"{self.grids} scales")
        if self.layout:
            parts.append(self.layout)
        if self.largest is not None and self.relative is not None:
            codes = "" if self.codes is None else f" = {self.codes:.2g} codes"
            parts.append(f"largest difference {self.largest:.3g}{codes}, {self.relative:.2g} relative")
        else:
            parts.append("other numbers (something was folded in)")
        return f"{ends}: {', '.join(parts)}"

    def data(self) -> dict[str, Any]:
        """The same for machines."""
        return asdict(self)


def worst_text(pairs: Sequence[WeightPair]) -> str:
    """The pair that moved most, in a clause; "" if none moved."""
    moved = [p for p in pairs if p.largest]
    if not moved:
        return ""
    worst = max(moved, key=lambda p: (p.codes or 0.0, p.relative or 0.0))
    gap = f"{worst.codes:.2g} codes" if worst.codes is not None else f"{worst.relative:.2g} relative"
    return f"; furthest {worst.a}: {gap}"


def pair_weights(group: Group) -> Iterator[WeightPair]:
    """The weights of a group in pairs of as many elements; those of one name first."""
    left = [n for n in group.weights_b if _is_weight(n)]
    for node in group.weights_a:
        alike = [m for m in left if _is_weight(node) and _size(m) == _size(node)]
        # A converter may merge or rename constants, so that only the numbers tell those of one size apart.
        twin = next((m for m in alike if m.name == node.name), None) or _closest(node, alike)
        if twin is not None:
            left.remove(twin)
            yield _compared(node, twin)


def _is_weight(node: Node) -> bool:
    """True if a constant is large enough, and not the scale or zero point of a grid."""
    tensor = node.tensor
    if tensor is None or tensor.size <= _SMALL or tensor.dtype.kind not in "fiuq":
        return False
    uses = node.output().uses
    # Inputs 1 and 2 of QuantizeLinear and DequantizeLinear are the scale and the zero point.
    return not uses or not all(u.index and u.node.op.lower().endswith("quantizelinear") for u in uses)


def _size(node: Node) -> int:
    return node.tensor.size if node.tensor is not None else 0


def _closest(node: Node, alike: Sequence[Node]) -> Node | None:
    """The one with the nearest numbers; the first where that says nothing."""
    if len(alike) < 2:
        return alike[0] if alike else None
    one = _real(node)
    gaps = [(_layout(one, _real(m))[1], n) for n, m in enumerate(alike)]
    # The number behind the gap keeps the order where gaps are equal.
    return alike[min(gaps)[1]]


def _compared(a: Node, b: Node) -> WeightPair:
    assert a.tensor is not None
    assert b.tensor is not None
    grid = params_of(b.output())
    pair = WeightPair(
        *(a.name, b.name, _form(a), _form(b), a.tensor.size_bytes, b.tensor.size_bytes),
        grids=len(grid.scale) if grid is not None else 0,
    )
    one, other = _real(a), _real(b)
    # Without a look at the numbers it counts as another weight.
    if one.size > _MOST_ELEMENTS or {one.dtype.kind, other.dtype.kind} - set("fiu"):
        return pair
    # Told by a sample, then judged by all elements.
    order, _ = _layout(one, other)
    largest, relative = _gap(one, _moved(other, one.shape, order))
    # Written so that NaN counts as other numbers.
    if not relative <= (_SAME if grid is None else 1.0 / _FEWEST_CODES):
        return _rows_moved(pair, one, other) if grid is None else pair
    gaps = np.abs(one.astype(np.float64) - _moved(other, one.shape, order))
    # In steps of the channel that each element belongs to.
    codes = None if grid is None else float(np.max(gaps / _moved(_steps(b, grid), one.shape, order)))
    return replace(
        pair,
        layout=_layout_text(one.shape, other.shape, order),
        largest=largest,
        relative=relative,
        codes=codes,
    )


def _gap(one: Array, other: Array) -> tuple[float, float]:
    """The largest difference of two arrays of one shape, and that relative to the first's largest value."""
    largest = float(np.abs(one.astype(np.float64) - other).max())
    return largest, largest / (float(np.abs(one).max()) or 1.0)


def _rows_moved(pair: WeightPair, one: Array, other: Array) -> WeightPair:
    """The pair as one weight whose rows have another order, as behind a flattened picture; if it is that."""
    largest, relative = _gap(np.sort(one, axis=None), np.sort(other, axis=None))
    # Weights of a layer are unlike each other: other ones are not as close once they are sorted.
    if not relative <= NO_CHANGE:
        return pair
    return replace(pair, layout="its elements in another order", largest=largest, relative=relative)


def _layout_text(here: Sequence[int], there: Sequence[int], order: tuple[int, ...]) -> str:
    if order == tuple(range(len(order))):
        return "" if tuple(here) == tuple(there) else "reshaped"
    is_whole = tuple(there[i] for i in order) == tuple(here)
    return f"transposed {','.join(map(str, order))}" + ("" if is_whole else " and reshaped")


# Symmetric int4 weights go from -7 to 7: one step is a seventh of the largest value.
_FEWEST_CODES = 7
"""Of the coarsest grid, of four bits; weights that moved by more than one of its steps are others."""


def _form(node: Node) -> str:
    assert node.tensor is not None
    return f"{node.tensor.dtype}{shape_text(node.tensor.shape)}"


def _real(node: Node) -> Array:
    assert node.tensor is not None
    array, grid = node.tensor.numpy(), params_of(node.output())
    return array if grid is None or array.dtype.kind not in "iu" else grid.real(array)


def _steps(node: Node, grid: TensorParams) -> Array:
    """The step of the grid at every element."""
    assert node.tensor is not None
    # The real number of one above the zero point is the scale.
    return grid.real(np.ones(node.tensor.shape) + _zeros(grid, len(node.tensor.shape)))


def _zeros(grid: TensorParams, rank: int) -> Array:
    if len(grid.zero_point) < 2:
        result: Array = np.array(grid.zero_point or (0,), np.float64)[0]
        return result
    sides = [1] * rank
    sides[grid.axis] = len(grid.zero_point)
    return np.array(grid.zero_point, np.float64).reshape(sides)


def _layout(one: Array, other: Array) -> tuple[tuple[int, ...], float]:
    """The order of axes in which the second is nearest to the first, and how near some elements are there."""
    best = tuple(range(other.ndim)), float("inf")
    if not one.size or {one.dtype.kind, other.dtype.kind} - set("fiu"):
        return best
    # Spread evenly over the tensor, the first and last element included.
    places = np.unravel_index(np.linspace(0, one.size - 1, _SAMPLE).astype(np.int64), one.shape)
    for order in _orders(other.shape, one.shape):
        moved = _moved(other, one.shape, order)[places].astype(np.float64)
        gap = float(np.max(np.abs(one[places] - moved)))
        if gap < best[1]:
            best = order, gap
    return best


_SAMPLE = 4096
"""Elements by which a layout is told."""
# Up to 120 orders are tried, and a transposed array that is reshaped is copied: 1 MB of float32 each time.
_MOST_COPIED = 1 << 18
"""Elements of a weight that is also tried in orders of axes after which it must be copied."""


def _orders(there: Sequence[int], here: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Orders of axes to try: first as it is, then those that lead to the shape, then the others."""
    yield tuple(range(len(there)))
    if len(there) > _MOST_RANK:
        return
    # At most 120 for five axes.
    orders = list(permutations(range(len(there))))
    fitting = [p for p in orders if tuple(there[i] for i in p) == tuple(here)]
    yield from fitting
    if not fitting and math.prod(here) <= _MOST_COPIED:
        yield from orders


def _moved(array: Array, shape: Sequence[int], order: tuple[int, ...]) -> Array:
    result: Array = array.transpose(order).reshape(tuple(shape))
    return result
