"""Maps from tensors to tensors. A map is a value: an op that changes one gives a new map."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.ir.types import BOOL, INT32, VARIANT, DType, TensorSpec
from thinflow.ops.registry import Handle, OpDef, op, require
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
