"""The value of a TensorList, and the shapes its ops are given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thinflow.ir.types import DType, Shape, TensorSpec, shape_text
from thinflow.ops._shapes import merge
from thinflow.ops.registry import Handle, require
from thinflow.typing import Array


@dataclass(frozen=True, eq=False)
class TensorListValue(Handle):
    """The items of a list, None where nothing was set yet.

    Attributes:
        items: tensors, or lists in a list of lists.
        element: element type.
        shape: what is known of each item's shape.
        limit: the most items it may grow to; -1 for no limit.
    """

    items: tuple[Any, ...]
    element: DType
    shape: Shape
    limit: int = -1

    def with_items(self, items: Iterable[Any]) -> TensorListValue:
        return replace(self, items=tuple(items))

    def with_item(self, index: int, item: Any) -> TensorListValue:
        self._require_index(index)
        items = list(self.items)
        items[index] = item
        return self.with_items(items)

    def item_shape(self, wished: Array) -> Shape:
        """All that is known of the items' shape: from the list, from the reader, from the items there are."""
        shape = merge(self.shape, as_shape(wished))
        # Items that are there settle unknown sizes, as TensorFlow merges them when it has to make up a
        # missing one.
        for item in self.items:
            if isinstance(item, np.ndarray) and (shape is None or None in shape):
                shape = merge(shape, item.shape)
        return shape

    def item(self, index: int, wished: Array) -> Any:
        self._require_index(index)
        item = self.items[index]
        return self.zeros(self.item_shape(wished)) if item is None else item

    def zeros(self, shape: Shape, problem: str = "an item was never set") -> Array:
        """Zeros, as TensorFlow gives for an item nobody set."""
        known = shape is not None and None not in shape
        require(known, f"{problem}, and the shape of items is not known: {shape_text(shape)}")
        zeros = np.zeros(tuple(d or 0 for d in shape or ()), self.element.numpy())
        if zeros.dtype.hasobject:
            zeros[...] = b""
        return zeros

    def stacked(self, indices: Iterable[int], wished: Array) -> Array:
        """The items side by side along a new first axis."""
        chosen = list(indices)
        for index in chosen:
            self._require_index(index)
        items = [self.items[index] for index in chosen]
        if not items:
            # Nothing tells the items' shape but the list and the reader: [0, *shape] has to be fully known.
            return self.zeros(self.item_shape(wished), "the list is empty")[np.newaxis][:0]
        if any(item is None for item in items):
            zeros = self.zeros(self.item_shape(wished))
            items = [zeros if item is None else item for item in items]
        return np.stack(items)

    def _require_index(self, index: int) -> None:
        require(0 <= index < len(self.items), f"index {index} of a list of {len(self.items)}")


def as_shape(sizes: Array) -> Shape:
    """A shape given as a tensor: -1 alone for an unknown rank, -1 in a vector for an unknown size."""
    if sizes.ndim == 0:
        require(int(sizes) == -1, f"the shape {int(sizes)} is neither a vector nor -1")
        return None
    return tuple(None if d < 0 else d for d in sizes.tolist())


def shape_of(spec: TensorSpec) -> Shape:
    """The same for a shape that may not be known yet."""
    # A scalar can only be -1, an unknown rank.
    if spec.shape == () or spec.elements is None:
        return None
    return tuple(None if d is None or d < 0 else d for d in spec.elements)


def rows(x: Array) -> list[Array]:
    """The rows as arrays, which iterating over a vector does not give."""
    return [x[i, ...] for i in range(len(x))]
