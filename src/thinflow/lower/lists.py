"""TensorLists and TensorArrays, the lists of TF2's and of TF1's loops: the rules that all targets share.

The items of a TensorArray go with its flow, which orders the accesses: an op that writes gives the list it
has made as its flow, and one that reads takes the list from there. The handle only says that there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node
from thinflow.ir.types import DType, Shape
from thinflow.lower.building import B
from thinflow.lower.operands import ints, is_count, merged, require, shape_of
from thinflow.lower.slots import Listed, Slot
from thinflow.program.model import Dims, T

R = TypeVar("R", bound=Callable[..., Any])


def wished(shape: Any) -> Dims:
    """A shape given as a tensor, as far as it is constant; -1 alone means any rank."""
    if not shape.is_constant or shape.shape == ():
        return None
    return tuple(None if n < 0 else int(n) for n in shape.array().ravel().tolist())


def _of(*names: str) -> Callable[[R], R]:
    """Method decorator: the rule for these ops."""

    def mark(rule: R) -> R:
        rule.__dict__["ops"] = names
        return rule

    return mark


@dataclass(frozen=True, eq=False)
class Lists(Generic[B, T]):
    """Operations of a target on lists, and the rules made of them.

    Attributes:
        label: of the target's models.
        size: the number of items of a new list as `Listed.size` holds it.
        stacked: all items, as the current node's output 0.
        rows: the items at some indices, as the current node's output 0.
        with_row: the list with an item set: at an index, to a tensor.
        with_rows: the list with the rows of a tensor at some indices.
        filled_up: the list with zeros behind it, as large as an item, up to an index.
        concatenated: the items one behind the other along their first axis, and their sizes.
        length: the number of items, int32 [].
    """

    label: str
    size: Callable[[B, T], T]
    stacked: Callable[[B, Listed[T]], T]
    rows: Callable[[B, Listed[T], T], T]
    with_row: Callable[[B, Listed[T], T, T], Listed[T]]
    with_rows: Callable[[B, Listed[T], T, T], Listed[T]]
    filled_up: Callable[[B, Listed[T], T, T], Listed[T]]
    concatenated: Callable[[B, Listed[T]], tuple[T, T]]
    length: Callable[[B, Listed[T]], T]

    def rules(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        """Each op with its rule."""
        for name, rule in vars(Lists).items():
            for op in getattr(rule, "ops", ()):
                yield op, getattr(self, name)

    def list_of(self, slot: Slot) -> Listed[T]:
        """The list that stands for a value.

        Raises:
            UnsupportedOp: it was made elsewhere.
        """
        if not isinstance(slot, Listed):
            raise UnsupportedOp(f"its list comes from outside of the {self.label} model")
        return slot

    def new(self, b: B, number: T, element: DType, shape: Dims) -> Listed[T]:
        """A list of so many items, none of them set.

        Raises:
            UnsupportedOp: that is no number of items.
        """
        require(element.kind not in "cV", f"a list of {element} has no form in {self.label} models")
        known = b.elements(number)
        count = known[0] if known else None
        require(count is None or count >= 0, f"a list of {count} items")
        require(count is not None or number.shape in ((), (1,), None), "the size of a list is not one number")
        return Listed(count, element, shape, None, None if count is not None else self.size(b, number))

    def _gathered(self, b: B, values: Listed[T], indices: T) -> T:
        # All indices in their order: the tensor itself.
        every = values.count is not None and is_count(indices, values.count)
        return self.stacked(b, values) if every else self.rows(b, values, indices)

    def grown(self, b: B, values: Listed[T], index: T, item: T) -> Listed[T]:
        """The list with an item at an index, which may lie behind its end."""
        known = replace(values, shape=merged(values.shape, shape_of(item, "the item")))
        at = b.elements(index)
        if at is None or at[0] is None or known.count is None:
            return self.filled_up(b, known, index, item)
        count = max(known.count, at[0] + 1)
        if count == known.count:
            return known
        if known.tensor is not None:
            return self.filled_up(b, known, index, item)
        return replace(known, count=count, size=None)

    def described(self, slot: Slot, element_shape: T) -> Listed[T]:
        """The list, with what the reader knows of its items."""
        values = self.list_of(slot)
        # Items that are there know their shape better than what a reader expects.
        if values.tensor is not None and values.tensor.shape is not None:
            return values
        return replace(values, shape=merged(values.shape, wished(element_shape)))

    # --- TensorLists --------------------------------------------------------------------------------------

    @_of("TensorListReserve")
    def reserve(self, b: B, node: Node, element_shape: T, count: T, *, element_dtype: DType) -> Listed[T]:
        return self.new(b, count, element_dtype, wished(element_shape))

    @_of("TensorListFromTensor")
    def from_tensor(self, b: B, node: Node, x: T, element_shape: T, *, element_dtype: DType) -> Listed[T]:
        sizes = shape_of(x, "the tensor")
        require(len(sizes) > 0, "a scalar has no rows")
        # The rows' shape comes from x itself.
        empty: Listed[T] = Listed(sizes[0], element_dtype, None)
        return empty.with_tensor(x)

    @_of("TensorListGetItem")
    def get_item(
        self, b: B, node: Node, values: Slot, index: T, element_shape: T, *, element_dtype: DType
    ) -> T:
        return self.rows(b, self.described(values, element_shape), index)

    @_of("TensorListSetItem")
    def set_item(
        self,
        b: B,
        node: Node,
        values: Slot,
        index: T,
        item: T,
        *,
        resize_if_index_out_of_bounds: bool = False,
    ) -> Listed[T]:
        known = self.list_of(values)
        known = self.grown(b, known, index, item) if resize_if_index_out_of_bounds else known
        return self.with_row(b, known, index, item)

    @_of("TensorListStack")
    def stack(self, b: B, node: Node, values: Slot, element_shape: T, *, element_dtype: DType) -> T:
        return self.stacked(b, self.described(values, element_shape))

    @_of("TensorListGather")
    def gather(
        self, b: B, node: Node, values: Slot, indices: T, element_shape: T, *, element_dtype: DType
    ) -> T:
        return self._gathered(b, self.described(values, element_shape), indices)

    @_of("TensorListConcat", "TensorListConcatV2")
    def concat(self, b: B, node: Node, values: Slot, *shapes: T, element_shape: Shape = None) -> tuple[T, T]:
        known = self.list_of(values)
        if known.tensor is None:
            shape = wished(shapes[0]) if shapes else element_shape
            known = replace(known, shape=merged(known.shape, shape))
        return self.concatenated(b, known)

    @_of("TensorListLength")
    def list_length(self, b: B, node: Node, values: Slot) -> T:
        return self.length(b, self.list_of(values))

    # --- TensorArrays -------------------------------------------------------------------------------------

    @_of("TensorArrayV3")
    def array(
        self,
        b: B,
        node: Node,
        size: T,
        *,
        dtype: DType,
        element_shape: Shape = None,
        dynamic_size: bool = False,
    ) -> tuple[Listed[T], Listed[T]]:
        values = replace(self.new(b, size, dtype, element_shape), grows=dynamic_size)
        # The handle and the flow.
        return values, values

    @_of("TensorArrayReadV3")
    def read(self, b: B, node: Node, handle: Slot, index: T, flow: Slot) -> T:
        return self.rows(b, self.list_of(flow), index)

    @_of("TensorArrayWriteV3")
    def write(self, b: B, node: Node, handle: Slot, index: T, item: T, flow: Slot) -> Listed[T]:
        known = self.list_of(flow)
        known = self.grown(b, known, index, item) if known.grows else known
        return self.with_row(b, known, index, item)

    @_of("TensorArrayGatherV3")
    def gather_items(
        self, b: B, node: Node, handle: Slot, indices: T, flow: Slot, *, element_shape: Shape = None
    ) -> T:
        values = self.list_of(flow)
        # Nothing has been written: the reader's own attribute is all that tells the shape.
        if values.tensor is None:
            values = replace(values, shape=merged(values.shape, element_shape))
        return self._gathered(b, values, indices)

    @_of("TensorArrayScatterV3")
    def scatter(self, b: B, node: Node, handle: Slot, indices: T, x: T, flow: Slot) -> Listed[T]:
        known = self.list_of(flow)
        return self.with_rows(b, self._large_enough(b, known, indices), indices, x)

    def _large_enough(self, b: B, values: Listed[T], indices: T) -> Listed[T]:
        """An array that may grow, with room for what is written at some indices before anything else."""
        if not values.grows:
            return values
        at = [n for n in b.elements(indices) or (None,) if n is not None]
        is_known = values.count is not None and len(at) == (indices.shape or (None,))[0]
        require(is_known and values.tensor is None, "it writes many items of an array that grows")
        return replace(values, count=max(values.count or 0, *(n + 1 for n in at)), size=None)

    @_of("TensorArrayConcatV3")
    def concat_items(self, b: B, node: Node, handle: Slot, flow: Slot) -> tuple[T, T]:
        return self.concatenated(b, self.list_of(flow))

    @_of("TensorArraySplitV3")
    def split(self, b: B, node: Node, handle: Slot, x: T, lengths: T, flow: Slot) -> Listed[T]:
        values = self.list_of(flow)
        sizes = shape_of(x, "the value")
        pieces = set(ints(lengths, "the list of lengths"))
        count = (lengths.shape or (0,))[0]
        # Items of one list are rows of one tensor, so they have one size.
        same = len(pieces) == 1 and values.count in (None, count) and not sizes[1:].count(None)
        require(same, "it cuts a tensor into pieces of different sizes")
        return values.with_tensor(b.reshaped(x, (count, pieces.pop(), *sizes[1:])))

    @_of("TensorArraySizeV3")
    def array_size(self, b: B, node: Node, handle: Slot, flow: Slot) -> T:
        return self.length(b, self.list_of(flow))
