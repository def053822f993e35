"""Values that hold tensors: maps, optionals, stacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.ir.types import BOOL, INT32, RESOURCE, VARIANT, DType, Shape, TensorSpec
from thinflow.ops.registry import Handle, OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


@dataclass(frozen=True, eq=False)
class MapValue(Handle):
    """Key and value by what a key holds."""

    items: dict[Any, tuple[Array, Any]] = field(default_factory=dict)


def _name(key: Array) -> Any:
    # Equal elements of another type or shape are another key.
    return key.dtype.str, key.shape, tuple(key.ravel().tolist())


class _MapOp(OpDef):
    @staticmethod
    def infer(*inputs: TensorSpec) -> TensorSpec:
        return TensorSpec(VARIANT, ())


@op("EmptyTensorMap")
class EmptyTensorMap(_MapOp):
    """A map without keys."""

    @staticmethod
    def kernel() -> MapValue:
        return MapValue()


@op("TensorMapInsert")
class TensorMapInsert(_MapOp):
    """The map with `value` under `key`."""

    @staticmethod
    def kernel(values: MapValue, key: Array, value: Any) -> MapValue:
        # A copy: maps are values, and others may hold the old one.
        return MapValue({**values.items, _name(key): (key, value)})


@op("TensorMapErase")
class TensorMapErase(_MapOp):
    """The map without `key`, which must be there."""

    @staticmethod
    def kernel(values: MapValue, key: Array) -> MapValue:
        require(_name(key) in values.items, "the map has no such key")
        return MapValue({name: item for name, item in values.items.items() if name != _name(key)})


@op("TensorMapLookup")
class TensorMapLookup(OpDef):
    """The value under `key`, which must be there."""

    @staticmethod
    def infer(values: TensorSpec, key: TensorSpec, *, value_dtype: DType) -> TensorSpec:
        return TensorSpec(value_dtype)

    @staticmethod
    def kernel(values: MapValue, key: Array) -> Any:
        require(_name(key) in values.items, "the map has no such key")
        return values.items[_name(key)][1]


@op("TensorMapHasKey")
class TensorMapHasKey(OpDef):
    """Whether `key` is there, bool []."""

    @staticmethod
    def infer(values: TensorSpec, key: TensorSpec) -> TensorSpec:
        return TensorSpec(BOOL, ())

    @staticmethod
    def kernel(values: MapValue, key: Array) -> Array:
        return np.array(_name(key) in values.items)


@op("TensorMapSize")
class TensorMapSize(OpDef):
    """Number of keys, int32 []."""

    @staticmethod
    def infer(values: TensorSpec) -> TensorSpec:
        return TensorSpec(INT32, ())

    @staticmethod
    def kernel(values: MapValue) -> Array:
        return np.array(len(values.items), np.int32)


@op("TensorMapStackKeys")
class TensorMapStackKeys(OpDef):
    """All keys side by side, [n,...]."""

    @staticmethod
    def infer(values: TensorSpec, *, key_dtype: DType) -> TensorSpec:
        return TensorSpec(key_dtype)

    @staticmethod
    def kernel(values: MapValue, *, key_dtype: DType) -> Array:
        keys = [key for key, _ in values.items.values()]
        require(bool(keys), "the map is empty")
        return np.stack(keys)


# ---- Values that may be missing: tuples of tensors, or none.


@dataclass(frozen=True, eq=False)
class OptionalValue(Handle):
    """Components, or None for nothing."""

    components: tuple[Any, ...] | None


@op("OptionalNone")
class OptionalNone(OpDef):
    """Nothing."""

    @staticmethod
    def infer() -> TensorSpec:
        return TensorSpec(VARIANT, ())

    @staticmethod
    def kernel() -> OptionalValue:
        return OptionalValue(None)


@op("OptionalFromValue")
class OptionalFromValue(OpDef):
    """The inputs as one value."""

    @staticmethod
    def infer(*components: TensorSpec) -> TensorSpec:
        return TensorSpec(VARIANT, ())

    @staticmethod
    def kernel(*components: Array) -> OptionalValue:
        return OptionalValue(components)


@op("OptionalHasValue")
class OptionalHasValue(OpDef):
    """Whether there is something, bool []."""

    @staticmethod
    def infer(optional: TensorSpec) -> TensorSpec:
        return TensorSpec(BOOL, ())

    @staticmethod
    def kernel(optional: OptionalValue) -> Array:
        return np.array(optional.components is not None)


@op("OptionalGetValue")
class OptionalGetValue(OpDef):
    """The components; an error if there is nothing."""

    num_outputs = "output_types"

    @staticmethod
    def infer(
        optional: TensorSpec, *, output_types: tuple[DType, ...], output_shapes: tuple[Shape, ...] = ()
    ) -> tuple[TensorSpec, ...]:
        shapes = output_shapes if len(output_shapes) == len(output_types) else (None,) * len(output_types)
        return tuple(TensorSpec(t, s) for t, s in zip(output_types, shapes, strict=True))

    @staticmethod
    def kernel(optional: OptionalValue) -> tuple[Any, ...]:
        require(optional.components is not None, "the optional value is missing")
        return optional.components or ()


# ---- Stacks, which gradients of TF1 loops left behind in some graphs.


class StackValue(Handle):
    """Items of one stack of a run, at most `limit` (negative: any number)."""

    def __init__(self, limit: int) -> None:
        self.items: list[Array] = []
        self.limit = limit


@op("StackV2")
class Stack(OpDef):
    """A new stack of at most max_size [] items (negative: any number)."""

    traits = Trait.STATEFUL

    @staticmethod
    def infer(max_size: TensorSpec) -> TensorSpec:
        return TensorSpec(RESOURCE, ())

    @staticmethod
    def kernel(max_size: Array) -> StackValue:
        return StackValue(int(max_size))


@op("Stack")
class OldStack(OpDef):
    """A new stack of any number of items."""

    traits = Trait.STATEFUL

    @staticmethod
    def infer() -> TensorSpec:
        return TensorSpec(RESOURCE, ())

    @staticmethod
    def kernel() -> StackValue:
        return StackValue(-1)


@op("StackPushV2", "StackPush")
class StackPush(OpDef):
    """x, which is on top of the stack from now on."""

    traits = Trait.STATEFUL

    @staticmethod
    def infer(stack: TensorSpec, x: TensorSpec) -> TensorSpec:
        return x

    @staticmethod
    def kernel(stack: StackValue, x: Array) -> Array:
        full = 0 <= stack.limit <= len(stack.items)
        require(not full, f"the stack is full with {stack.limit} items")
        stack.items.append(x)
        return x


@op("StackPopV2", "StackPop")
class StackPop(OpDef):
    """The item on top, which is taken away."""

    traits = Trait.STATEFUL

    @staticmethod
    def infer(stack: TensorSpec, *, elem_type: DType) -> TensorSpec:
        return TensorSpec(elem_type)

    @staticmethod
    def kernel(stack: StackValue) -> Array:
        require(bool(stack.items), "nothing can be taken from an empty stack")
        return stack.items.pop()


@op("StackCloseV2", "StackClose")
class StackClose(OpDef):
    """Frees the stack."""

    traits = Trait.STATEFUL
    num_outputs = 0

    @staticmethod
    def infer(stack: TensorSpec) -> tuple[TensorSpec, ...]:
        return ()

    @staticmethod
    def kernel(stack: StackValue) -> tuple[()]:
        stack.items.clear()
        return ()
