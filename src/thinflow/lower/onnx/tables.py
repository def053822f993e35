"""Lookup tables that never change, as LabelEncoder of ONNX's ops for machine learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT, INT32, INT64, STRING, DType
from thinflow.lower.onnx.builder import Builder, require
from thinflow.lower.rules import lower
from thinflow.lower.tables import known_content
from thinflow.onnx.program import Tensor

ENCODER = "ai.onnx.ml.LabelEncoder"
_WORDS = {STRING: "strings", INT64: "int64s", FLOAT: "floats"}
_DEFAULTS = {STRING: "default_string", INT64: "default_int64", FLOAT: "default_float"}


@lower("LookupTableFindV2", "LookupTableFind", to="onnx")
def lookup(b: Builder, node: Node, table: Tensor, keys: Tensor, default: Tensor) -> Tensor:
    """The value of each key; a default for those that are not there."""
    content = known_content(node)
    require(default.is_constant and default.shape == (), "the default is computed, or is one for each key")
    require(bool(content.items), "the table is empty")
    # Its keys and values are attributes: lists of texts, int64 or float.
    key = INT64 if content.key is INT32 else content.key
    value = INT64 if content.value is INT32 else content.value
    require(key in (STRING, INT64), f"keys of {content.key} have no ONNX form")
    require(value in _WORDS, f"values of {content.value} have no ONNX form")
    options = {
        f"keys_{_WORDS[key]}": _plain(list(content.items), key),
        f"values_{_WORDS[value]}": _plain(list(content.items.values()), value),
        _DEFAULTS[value]: _plain([default.array().reshape(-1)[0]], value)[0],
    }
    found = b.step(ENCODER, b.cast(keys, key), shape=keys.shape, element=value, **options)
    return b.result(b.cast(found, content.value))


@lower("LookupTableSizeV2", "LookupTableSize", to="onnx")
def size(b: Builder, node: Node, table: Tensor) -> Tensor:
    """The number of keys."""
    return b.int64(len(known_content(node).items), "count")


def _plain(values: Sequence[Any], element: DType) -> list[Any]:
    """Values as attributes hold them.

    Raises:
        UnsupportedOp: a text is no UTF-8, which ONNX's texts are.
    """
    if element is not STRING:
        kind = int if element is INT64 else float
        return [kind(np.asarray(v)) for v in values]
    try:
        return [v if isinstance(v, str) else bytes(v).decode() for v in values]
    except UnicodeDecodeError:
        require(False, "a text of the table is not UTF-8, which ONNX's texts are")
        raise
