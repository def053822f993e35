"""Queues, for graphs that feed themselves. Nothing waits here: an empty queue is an error, a full one too."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.errors import NodeError
from thinflow.ir.types import BOOL, INT32, INT64, DType, Shape, TensorSpec
from thinflow.ops._state import Effect, Resource, ResourceOp
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array

Item = tuple[Array, ...]


class Queue(Resource):
    """Tuples of tensors that wait to be taken.

    Attributes:
        types: element type of each component.
        shapes: of each component; () if anything goes.
        padded: whether components of a batch are filled up to the longest.
        generator: what picks the next item; None for the oldest.
        ordered: whether the item with the smallest first component goes first.
    """

    def __init__(self, types: tuple[DType, ...], shapes: tuple[Shape, ...], capacity: int) -> None:
        self.types = types
        self.shapes = shapes
        self.capacity = capacity
        self.items: list[Item] = []
        self.closed = False
        self.padded = False
        self.ordered = False
        self.generator: np.random.Generator | None = None

    def put(self, item: Item) -> None:
        require(not self.closed, "the queue is closed")
        require(len(item) == len(self.types), f"the queue takes {len(self.types)} tensors, not {len(item)}")
        for array, element in zip(item, self.types, strict=True):
            fits = not element.numpy_name or element.numpy() == array.dtype
            require(fits, f"the queue takes {element}, not {array.dtype}")
        # Negative means no limit.
        if 0 <= self.capacity <= len(self.items):
            raise NodeError(
                f"the queue is full with {self.capacity} items",
                hint="take something out of it in an earlier run",
            )
        self.items.append(item)

    def take(self) -> Item:
        if not self.items:
            raise NodeError(
                f"the queue{f' of {self.where}' if self.where else ''} is empty",
                hint="feed what comes out of it, or run what fills it first",
            )
        if self.generator is not None:
            return self.items.pop(int(self.generator.integers(len(self.items))))
        if self.ordered:
            # Of equals the oldest.
            first = min(range(len(self.items)), key=lambda i: int(self.items[i][0]))
            return self.items.pop(first)
        return self.items.pop(0)

    def batch(self, count: int) -> Item:
        """`count` items side by side."""
        # Asked before the first is taken, so that a refused batch leaves the queue as it was.
        if count > len(self.items):
            raise NodeError(
                f"the queue has {len(self.items)} items, {count} are asked for", hint="fill it first"
            )
        taken = [self.take() for _ in range(count)]
        if not taken:
            return tuple(self._nothing(i) for i in range(len(self.types)))
        return tuple(_stacked(list(parts), self.padded) for parts in zip(*taken, strict=True))

    def _nothing(self, index: int) -> Array:
        shape = self.shapes[index] if self.shapes else None
        require(shape is not None, "no items are asked for, and their shape is not known")
        return np.zeros((0, *(d or 0 for d in shape or ())), self.types[index].numpy())


def _stacked(parts: list[Array], padded: bool) -> Array:
    if not padded:
        return np.stack(parts)
    sizes = np.max([p.shape for p in parts], axis=0) if parts[0].ndim else ()
    empty: Any = b"" if parts[0].dtype.hasobject else 0
    y = np.full((len(parts), *(int(s) for s in sizes)), empty, parts[0].dtype)
    for row, part in enumerate(parts):
        place: tuple[Any, ...] = (row, *(slice(n) for n in part.shape))
        y[place] = part
    return y


@op("FIFOQueueV2", "FIFOQueue")
class FIFOQueue(ResourceOp):
    """A queue that gives the oldest first."""

    traits = Trait.QUEUE | Trait.FIFO

    @staticmethod
    def kernel(
        *, component_types: tuple[DType, ...], shapes: tuple[Shape, ...] = (), capacity: int = -1
    ) -> Queue:
        return Queue(component_types, shapes, capacity)


@op("PaddingFIFOQueueV2", "PaddingFIFOQueue")
class PaddingFIFOQueue(ResourceOp):
    """As FIFOQueue; batches are filled up with zeros to their longest item."""

    traits = Trait.QUEUE | Trait.FIFO

    @staticmethod
    def kernel(
        *, component_types: tuple[DType, ...], shapes: tuple[Shape, ...] = (), capacity: int = -1
    ) -> Queue:
        queue = Queue(component_types, shapes, capacity)
        queue.padded = True
        return queue


@op("RandomShuffleQueueV2", "RandomShuffleQueue")
class RandomShuffleQueue(ResourceOp):
    """A queue that gives any item; which ones is not as in TensorFlow."""

    traits = Trait.QUEUE

    @staticmethod
    def kernel(
        *,
        component_types: tuple[DType, ...],
        shapes: tuple[Shape, ...] = (),
        capacity: int = -1,
        seed: int = 0,
        seed2: int = 0,
    ) -> Queue:
        queue = Queue(component_types, shapes, capacity)
        # numpy refuses negative seeds.
        queue.generator = np.random.default_rng([abs(seed), abs(seed2)] if seed or seed2 else None)
        return queue


@op("PriorityQueueV2", "PriorityQueue")
class PriorityQueue(ResourceOp):
    """A queue that gives the item with the smallest first component, int64 [], first."""

    traits = Trait.QUEUE

    @staticmethod
    def kernel(
        *, component_types: tuple[DType, ...] = (), shapes: tuple[Shape, ...], capacity: int = -1
    ) -> Queue:
        queue = Queue((INT64, *component_types), ((), *shapes), capacity)
        queue.ordered = True
        return queue


@op("QueueEnqueueV2", "QueueEnqueue")
class QueueEnqueue(Effect):
    """Puts one item, a tensor for each component, at the end."""

    traits = Trait.ENQUEUE

    @staticmethod
    def kernel(queue: Queue, *components: Array) -> tuple[()]:
        queue.put(components)
        return ()


@op("QueueEnqueueManyV2", "QueueEnqueueMany")
class QueueEnqueueMany(Effect):
    """Puts the rows of the components, item by item, at the end."""

    @staticmethod
    def kernel(queue: Queue, *components: Array) -> tuple[()]:
        require(all(c.ndim for c in components), "scalars have no rows")
        require(len({len(c) for c in components}) == 1, "the components differ in their number of rows")
        for row in range(len(components[0])):
            queue.put(tuple(c[row, ...] for c in components))
        return ()


class _Dequeue(OpDef):
    traits = Trait.STATEFUL
    num_outputs = "component_types"

    @staticmethod
    def infer(*inputs: TensorSpec, component_types: tuple[DType, ...]) -> tuple[TensorSpec, ...]:
        return tuple(TensorSpec(t) for t in component_types)


@op("QueueDequeueV2", "QueueDequeue")
class QueueDequeue(_Dequeue):
    """One item, a tensor for each component."""

    traits = Trait.DEQUEUE

    @staticmethod
    def kernel(queue: Queue) -> Item:
        return queue.take()


@op("QueueDequeueManyV2", "QueueDequeueMany")
class QueueDequeueMany(_Dequeue):
    """n [] items side by side, a tensor [n, ...] for each component."""

    traits = Trait.DEQUEUE_MANY

    @staticmethod
    def kernel(queue: Queue, n: Array) -> Item:
        return queue.batch(int(n))


@op("QueueDequeueUpToV2", "QueueDequeueUpTo")
class QueueDequeueUpTo(_Dequeue):
    """As QueueDequeueMany, fewer where a closed queue has no more."""

    traits = Trait.DEQUEUE_UP_TO

    @staticmethod
    def kernel(queue: Queue, n: Array) -> Item:
        # At least 1 of an empty one, for the error that says so.
        return queue.batch(min(int(n), max(len(queue.items), 1)) if queue.closed else int(n))


@op("QueueSizeV2", "QueueSize")
class QueueSize(OpDef):
    """Number of items, int32 []."""

    traits = Trait.STATEFUL | Trait.QUEUE_STATE

    @staticmethod
    def infer(queue: TensorSpec) -> TensorSpec:
        return TensorSpec(INT32, ())

    @staticmethod
    def kernel(queue: Queue) -> Array:
        return np.array(len(queue.items), np.int32)


@op("QueueIsClosedV2", "QueueIsClosed")
class QueueIsClosed(OpDef):
    """Whether the queue was closed, bool []."""

    traits = Trait.STATEFUL | Trait.QUEUE_STATE

    @staticmethod
    def infer(queue: TensorSpec) -> TensorSpec:
        return TensorSpec(BOOL, ())

    @staticmethod
    def kernel(queue: Queue) -> Array:
        return np.array(queue.closed)


@op("QueueCloseV2", "QueueClose")
class QueueClose(Effect):
    """Nothing can be put in any more."""

    traits = Trait.QUEUE_STATE

    @staticmethod
    def kernel(queue: Queue) -> tuple[()]:
        queue.closed = True
        return ()
