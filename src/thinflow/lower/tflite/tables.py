"""Lookup tables that never change: LiteRT's hash tables, or a gather where the keys are small numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from thinflow.analysis.tables import Content
from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, FLOAT, INT32, INT64, RESOURCE, STRING, DType
from thinflow.lower.operands import known_content, require
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, TableContent
from thinflow.tflite.model import Operator, Subgraph, Tensor
from thinflow.typing import Array

_MOST_PLACES = 1 << 20
"""Numbers between the least key and the greatest, up to which a row of values is kept for all of them."""
_MOST_COMPARED = 1 << 10
"""Keys that each number is compared with."""


@lower("LookupTableFindV2", "LookupTableFind", to="tflite")
def lookup(b: Builder, node: Node, table: Tensor, keys: Tensor, default: Tensor) -> Tensor:
    """The value of each key; a default for those that are not there."""
    content = known_content(node)
    require(default.shape == (), "there is a default for each key, or its rank is not known")
    require(bool(content.items), "the table is empty")
    require(keys.shape is not None, "the rank of the keys is not known")
    # LiteRT's hash tables know two pairs of types only: string to int64 and int64 to string.
    if content.key.is_integer and content.value is not STRING:
        return _by_number(b, content, keys, default)
    if content.key is STRING and content.value is not STRING:
        return _by_text(b, content, keys, default)
    require(content.key.is_integer, f"LiteRT has no tables from {content.key} to {content.value}")
    items = np.array(list(content.items), np.int64), _texts(content.items.values())
    return _found(b, *items, INT64, STRING, b.cast(keys, INT64), default)


def _by_text(b: Builder, content: Content, keys: Tensor, default: Tensor) -> Tensor:
    """The values themselves where they are int64, else by their places."""
    texts = _texts(content.items)
    values = np.array(list(content.items.values()), content.value.numpy())
    if content.value is INT64:
        return _found(b, texts, values, STRING, INT64, keys, default)
    count = len(texts)
    # A place behind the last value: `_gathered` puts the default there.
    none = b.const(np.int64(count), "none")
    places = _found(b, texts, np.arange(count), STRING, INT64, keys, none)
    return _gathered(b, values, content.value, places, default, keys.shape)


def _found(
    b: Builder,
    keys: Array,
    values: Array,
    key: DType,
    value: DType,
    wanted: Tensor,
    default: Tensor,
) -> Tensor:
    """Values from a hash table. Its handle is made where it is read; it is filled when a model is loaded."""
    # Tables with the same content are one, however many ops make them.
    content = (key, value, tuple(keys.tolist()), tuple(values.tolist()))
    number = b.tables.setdefault(content, len(b.tables))
    options = {"key_dtype": key, "value_dtype": value, "table_id": number}
    handle = b.own("table", (1,), RESOURCE)
    b.append("HASHTABLE", [], [handle], options)
    return b.step("HASHTABLE_FIND", handle, wanted, default, shape=wanted.shape, element=value)


def filling(table: int, content: TableContent) -> Subgraph:
    """The subgraph that fills a table."""
    key, value, *sides = content
    name = f"table{table}"
    handle = Tensor(f"{name}/handle", (1,), RESOURCE)
    parts = [
        Tensor(f"{name}/{what}", (len(side),), element, _row(side, element))
        for what, side, element in zip(("keys", "values"), sides, (key, value), strict=True)
    ]
    options = {"key_dtype": key, "value_dtype": value, "table_id": table}
    operators = [
        Operator("HASHTABLE", [], [handle], options, origin=name),
        Operator("HASHTABLE_IMPORT", [handle, *parts], [], {}, origin=name),
    ]
    return Subgraph([], [], operators, name=f"{name}/fill")


def _by_number(b: Builder, content: Content, keys: Tensor, default: Tensor) -> Tensor:
    """By a row of values for all numbers between the least and the greatest key; else by comparing."""
    require(content.value in (INT32, INT64, FLOAT, BOOL), f"LiteRT gathers no {content.value}")
    known, values = list(content.items), np.array(list(content.items.values()), content.value.numpy())
    low, high = min(known), max(known)
    keys = b.cast(keys, INT64)
    if high - low >= _MOST_PLACES:
        return _compared(b, known, values, content.value, keys, default)
    # Number -> its place among the values; numbers in between that are no keys lead to the default.
    row = np.full(high - low + 1, len(known), np.int32)
    row[np.array(known, np.int64) - low] = np.arange(len(known), dtype=np.int32)
    # GATHER fails on a place outside: keys are moved inside, and those that moved get the default.
    inside = b.step("MAXIMUM", keys, b.const(np.int64(low), "low"), shape=keys.shape)
    inside = b.step("MINIMUM", inside, b.const(np.int64(high), "high"), shape=keys.shape)
    off = b.step("SUB", inside, b.const(np.int64(low), "low"), shape=keys.shape)
    places = b.step("GATHER", b.const(row, "row"), b.index(off), shape=keys.shape, axis=0)
    is_inside = b.step("EQUAL", inside, keys, shape=keys.shape, element=BOOL)
    none = b.const(np.int32(len(known)), "none")
    places = b.step("SELECT_V2", is_inside, places, none, shape=keys.shape, element=INT32)
    return _gathered(b, values, content.value, places, default, keys.shape)


def _compared(
    b: Builder, known: list[int], values: Any, element: DType, keys: Tensor, default: Tensor
) -> Tensor:
    """The place of the one key that is equal, or one more than there are."""
    require(len(known) <= _MOST_COMPARED, f"{len(known)} keys that far from each other are not searched")
    shape = (*(keys.shape or ()), len(known))
    each = b.reshaped(keys, (*shape[:-1], 1)) if (keys.shape or ()).count(None) <= 1 else None
    require(each is not None, "more than one size of the keys is not known")
    same = b.step("EQUAL", each, b.const(np.array(known, np.int64), "keys"), shape=shape, element=BOOL)
    places = b.const(np.arange(len(known), dtype=np.int32), "places")
    none = b.const(np.int32(len(known)), "none")
    # At most one key is equal, so the least place is its own, and `none` where there is none.
    chosen = b.step("SELECT_V2", same, places, none, shape=shape, element=INT32)
    least = b.step("REDUCE_MIN", chosen, b.ints([-1], "axis"), shape=keys.shape, keep_dims=False)
    return _gathered(b, values, element, least, default, keys.shape)


def _gathered(b: Builder, values: Any, element: DType, places: Tensor, default: Tensor, shape: Any) -> Tensor:
    """Values at places, the default behind the last of them."""
    row = b.const(values, "values", element)
    last = b.reshaped(default, (1,))
    if last.is_constant:
        every = b.const(np.append(values, np.asarray(last.array())).astype(values.dtype), "values", element)
    else:
        every = b.step("CONCATENATION", row, last, shape=(len(values) + 1,), axis=0)
    return b.step("GATHER", every, places, shape=shape, element=element, axis=0)


@lower("LookupTableSizeV2", "LookupTableSize", to="tflite")
def size(b: Builder, node: Node, table: Tensor) -> Tensor:
    """The number of keys."""
    return b.const(np.int64(len(known_content(node).items)), "count")


def _texts(values: Iterable[str | bytes]) -> Array:
    return _row([v.encode() if isinstance(v, str) else bytes(v) for v in values], STRING)


def _row(values: Sequence[Any], element: DType) -> Array:
    """An array [n]."""
    # Filled and not converted: NumPy would make fixed-width bytes of texts, which lose trailing zeros.
    row = np.empty(len(values), object if element is STRING else element.numpy())
    row[:] = values
    return row
