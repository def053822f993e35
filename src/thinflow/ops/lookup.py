"""Tables from keys to values. A table belongs to the plan that runs it; the interpreter fills it."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import INT64, RESOURCE, DType, TensorSpec
from thinflow.ops.registry import Handle, OpDef, op, require

Array = np.ndarray[Any, Any]

TABLES = frozenset({"HashTableV2", "HashTable"})
FILLERS = frozenset({"InitializeTableV2", "InitializeTable", "LookupTableImportV2", "LookupTableImport"})
"""What puts keys (input 1) and values (input 2) into a table (input 0)."""


class Table(Handle):
    """What one table holds; None until somebody fills it."""

    def __init__(self) -> None:
        self.items: dict[Any, Any] | None = None

    def filled(self) -> dict[Any, Any]:
        require(
            self.items is not None,
            "nothing was put into the table",
            "keep the table's initializer in the graph",
        )
        return self.items or {}


@op("HashTableV2", "HashTable")
class HashTable(OpDef):
    """An empty table."""

    stateful = True

    @staticmethod
    def infer() -> TensorSpec:
        return TensorSpec(RESOURCE, ())

    @staticmethod
    def kernel() -> Table:
        return Table()


@op("InitializeTableV2", "InitializeTable", "LookupTableImportV2", "LookupTableImport")
class InitializeTable(OpDef):
    """Puts keys [n] with their values [n] into a table, in place of what it held."""

    stateful = True
    num_outputs = 0

    @staticmethod
    def kernel(table: Table, keys: Array, values: Array) -> tuple[()]:
        require(keys.shape == values.shape, f"{keys.size} keys for {values.size} values")
        table.items = dict(zip(keys.ravel().tolist(), values.ravel(), strict=True))
        return ()


@op("LookupTableFindV2", "LookupTableFind")
class LookupTableFind(OpDef):
    """The value of each key, `default` [] for a key that is not there -> as the keys, Tout."""

    stateful = True

    @staticmethod
    def infer(
        table: TensorSpec, keys: TensorSpec, default: TensorSpec, *, Tout: DType | None = None
    ) -> TensorSpec:
        return TensorSpec(Tout or default.dtype, keys.shape)

    @staticmethod
    def kernel(table: Table, keys: Array, default: Array) -> Array:
        items, absent = table.filled(), default[()]
        found: Array = np.empty(keys.size, default.dtype)
        for index, key in enumerate(keys.ravel().tolist()):
            found[index] = items.get(key, absent)
        return np.reshape(found, keys.shape)


@op("LookupTableSizeV2", "LookupTableSize")
class LookupTableSize(OpDef):
    """Number of keys, int64 []."""

    stateful = True

    @staticmethod
    def infer(table: TensorSpec) -> TensorSpec:
        return TensorSpec(INT64, ())

    @staticmethod
    def kernel(table: Table) -> Array:
        return np.array(len(table.filled()), np.int64)
