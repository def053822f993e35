"""Tables from keys to values. The interpreter keeps them, and fills those that have an initializer."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from thinflow.ir.types import INT64, RESOURCE, DType, Shape, TensorSpec, shape_text
from thinflow.ops._state import Effect, HandleOp, Resource
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array

FILLERS = frozenset(
    {
        "InitializeTableV2",
        "InitializeTable",
        "LookupTableImportV2",
        "LookupTableImport",
        "InitializeTableFromTextFile",
        "InitializeTableFromTextFileV2",
    }
)
"""Ops that put keys and values into a table (input 0) before anybody asks for them."""


class Table(Resource):
    """Contents of one table; None until somebody fills it.

    Attributes:
        key, value: element types.
        shape, key_shape: of each value and of each key.
        items: value by key; None until there are any.
    """

    def __init__(self, key: DType | None = None, value: DType | None = None, shape: Shape = ()) -> None:
        self.key = key
        self.value = value
        self.shape = shape
        self.key_shape: tuple[int, ...] = ()
        self.items: dict[Any, Any] | None = None

    def filled(self) -> dict[Any, Any]:
        require(
            self.items is not None,
            f"nothing was put into the table{f' of {self.where}' if self.where else ''}",
            "keep the table's initializer in the graph",
        )
        return self.items or {}

    def insert(self, keys: Array, values: Array) -> None:
        """Put keys [*k, *key] with values [*k, *value]; later ones win."""
        self._check(self.key, keys, "keys")
        self._check(self.value, values, "values")
        rows = self.rows(keys)
        expected = (*keys.shape[: keys.ndim - len(self.key_shape)], *(self.shape or ()))
        require(
            values.shape == expected,
            f"values of shape {shape_text(values.shape)} for keys {shape_text(keys.shape)}",
        )
        items = self.items if self.items is not None else {}
        parts = values.reshape(len(rows), *(self.shape or ()))
        for index, key in enumerate(rows):
            # A view would keep all the values alive, and change with them.
            items[key] = parts[index, ...].copy() if self.shape else parts[index]
        self.items = items

    def rows(self, keys: Array) -> list[Hashable]:
        """The keys as what a dict takes."""
        if not self.key_shape:
            return list(keys.ravel().tolist())
        require(keys.shape[-1:] == self.key_shape, f"a key has shape {list(self.key_shape)}")
        # Lists do not hash; tuples compare element by element, as TensorFlow's dense tables do.
        return [tuple(row) for row in keys.reshape(-1, *self.key_shape).tolist()]

    @staticmethod
    def _check(element: DType | None, array: Array, what: str) -> None:
        fits = element is None or not element.numpy_name or element.numpy() == array.dtype
        require(fits, f"the table has {what} of {element}, not {array.dtype}")


@op("AnonymousHashTable")
class AnonymousHashTable(HandleOp):
    """A table that is filled once, empty at first; another one each time this runs."""

    traits = Trait.TABLE

    @staticmethod
    def kernel(*, key_dtype: DType | None = None, value_dtype: DType | None = None) -> Table:
        return Table(key_dtype, value_dtype)


@op("HashTableV2", "HashTable")
class HashTable(AnonymousHashTable):
    """As AnonymousHashTable, one a session."""

    traits = Trait.RESOURCE


@op("AnonymousMutableHashTable")
class AnonymousMutableHashTable(HandleOp):
    """A table that may change at any time, empty at first; another one each time this runs."""

    traits = Trait.TABLE

    @staticmethod
    def kernel(*, key_dtype: DType | None = None, value_dtype: DType | None = None) -> Table:
        return _empty(key_dtype, value_dtype, ())


@op("MutableHashTableV2", "MutableHashTable")
class MutableHashTable(AnonymousMutableHashTable):
    """As AnonymousMutableHashTable, one a session."""

    traits = Trait.RESOURCE


@op("AnonymousMutableHashTableOfTensors")
class AnonymousMutableHashTableOfTensors(HandleOp):
    """As AnonymousMutableHashTable, where each value is a vector of value_shape."""

    traits = Trait.TABLE

    @staticmethod
    def kernel(
        *, key_dtype: DType | None = None, value_dtype: DType | None = None, value_shape: Shape = ()
    ) -> Table:
        return _empty(key_dtype, value_dtype, value_shape)


@op("MutableHashTableOfTensorsV2", "MutableHashTableOfTensors")
class MutableHashTableOfTensors(AnonymousMutableHashTableOfTensors):
    """As AnonymousMutableHashTableOfTensors, one a session."""

    traits = Trait.RESOURCE


@op("AnonymousMutableDenseHashTable")
class AnonymousMutableDenseHashTable(OpDef):
    """As AnonymousMutableHashTableOfTensors; keys are of empty_key's shape, [] or [k]."""

    traits = Trait.STATEFUL | Trait.TABLE

    @staticmethod
    def infer(empty_key: TensorSpec, *deleted_key: TensorSpec) -> TensorSpec:
        return TensorSpec(RESOURCE, ())

    @staticmethod
    def kernel(
        empty_key: Array,
        *deleted_key: Array,
        key_dtype: DType | None = None,
        value_dtype: DType | None = None,
        value_shape: Shape = (),
    ) -> Table:
        table = _empty(key_dtype, value_dtype, value_shape)
        table.key_shape = empty_key.shape
        return table


@op("MutableDenseHashTableV2", "MutableDenseHashTable")
class MutableDenseHashTable(AnonymousMutableDenseHashTable):
    """As AnonymousMutableDenseHashTable, one a session."""

    traits = Trait.RESOURCE


def _empty(key: DType | None, value: DType | None, shape: Shape) -> Table:
    table = Table(key, value, shape)
    # Unlike tables that are filled once, mutable ones may be asked at once: {}, not None.
    table.items = {}
    return table


@op("InitializeTableV2", "InitializeTable")
class InitializeTable(Effect):
    """Puts keys [n] with their values [n] into a table; a key that comes twice must mean the same."""

    traits = Trait.TABLE_FILL

    @staticmethod
    def kernel(table: Table, keys: Array, values: Array) -> tuple[()]:
        require(keys.shape == values.shape, f"{keys.size} keys for {values.size} values")
        items: dict[Any, Any] = {}
        for key, value in zip(keys.ravel().tolist(), values.ravel(), strict=True):
            # TensorFlow takes the same pair twice, another value for a key not.
            require(items.setdefault(key, value) == value, f"the key {key!r} has two values")
        table.items = items
        return ()


@op("LookupTableImportV2", "LookupTableImport")
class LookupTableImport(Effect):
    """Puts keys with their values into a table, in place of what it held."""

    traits = Trait.TABLE_FILL

    @staticmethod
    def kernel(table: Table, keys: Array, values: Array) -> tuple[()]:
        table.items = {}
        table.insert(keys, values)
        return ()


@op("LookupTableInsertV2", "LookupTableInsert")
class LookupTableInsert(Effect):
    """Puts keys with their values into a table, besides what it holds."""

    @staticmethod
    def kernel(table: Table, keys: Array, values: Array) -> tuple[()]:
        table.insert(keys, values)
        return ()


@op("LookupTableRemoveV2")
class LookupTableRemove(Effect):
    """Takes keys out of a table, those that are there."""

    @staticmethod
    def kernel(table: Table, keys: Array) -> tuple[()]:
        for key in table.rows(keys):
            table.filled().pop(key, None)
        return ()


@op("LookupTableFindV2", "LookupTableFind")
class LookupTableFind(OpDef):
    """The value of each key, `default` for a key that is not there -> [*keys, *value], Tout.

    default is one value, or one for each key.
    """

    traits = Trait.STATEFUL | Trait.TABLE_FIND

    @staticmethod
    def infer(
        table: TensorSpec, keys: TensorSpec, default: TensorSpec, *, Tout: DType | None = None
    ) -> TensorSpec:
        return TensorSpec(Tout or default.dtype, keys.shape if default.shape == () else None)

    @staticmethod
    def kernel(table: Table, keys: Array, default: Array) -> Array:
        items, rows = table.filled(), table.rows(keys)
        table._check(table.key, keys, "keys")
        table._check(table.value, default, "values")
        shape = tuple(d or 0 for d in table.shape or ())
        lead = keys.shape[: keys.ndim - len(table.key_shape)]
        require(
            default.shape in (shape, lead + shape), f"a default of shape {list(default.shape)} does not fit"
        )
        # One default for all keys, or one for each: both as one per key.
        defaults = np.broadcast_to(default, lead + shape).reshape(len(rows), *shape)
        found: Array = np.empty((len(rows), *shape), default.dtype)
        for index, key in enumerate(rows):
            found[index] = items[key] if key in items else defaults[index]
        return np.reshape(found, lead + shape)


@op("LookupTableSizeV2", "LookupTableSize")
class LookupTableSize(OpDef):
    """Number of keys, int64 []."""

    traits = Trait.STATEFUL | Trait.TABLE_SIZE

    @staticmethod
    def infer(table: TensorSpec) -> TensorSpec:
        return TensorSpec(INT64, ())

    @staticmethod
    def kernel(table: Table) -> Array:
        return np.array(len(table.filled()), np.int64)


@op("LookupTableExportV2", "LookupTableExport")
class LookupTableExport(OpDef):
    """All keys [n, *key] and values [n, *value], in the order they were put in; TensorFlow promises none."""

    traits = Trait.STATEFUL
    num_outputs = 2

    @staticmethod
    def infer(table: TensorSpec, *, Tkeys: DType, Tvalues: DType) -> tuple[TensorSpec, TensorSpec]:
        return TensorSpec(Tkeys), TensorSpec(Tvalues)

    @staticmethod
    def kernel(table: Table, *, Tkeys: DType, Tvalues: DType) -> tuple[Array, Array]:
        items = table.filled()
        keys: Array = np.empty((len(items), *table.key_shape), Tkeys.numpy())
        values: Array = np.empty((len(items), *(d or 0 for d in table.shape or ())), Tvalues.numpy())
        for index, (key, value) in enumerate(items.items()):
            keys[index], values[index] = key, value
        return keys, values
