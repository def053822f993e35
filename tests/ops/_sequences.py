"""SequenceExamples, and all that an op needs to take them apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops._agreement import Case, text
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT, INT32, INT64, STRING
from thinflow.ops._example import example_bytes
from thinflow.wire.values import iter_values, put


def word(value: bytes) -> np.ndarray:
    return np.array(value, object)


def _payload(message: bytes) -> bytes:
    return next(value for number, _, value in iter_values(message) if number == 1)


def sequence(context: list[Any], lists: dict[bytes, list[Any]]) -> bytes:
    """A SequenceExample: features as `example_bytes` takes them, and for each list (type, values) by step."""
    entries = b""
    for name, steps in lists.items():
        found = b""
        for kind, values in steps:
            entry = _payload(_payload(example_bytes([(b"x", kind, values)])))
            found += put(1, next(value for number, _, value in iter_values(entry) if number == 2))
        entries += put(1, put(1, name) + put(2, found))
    return put(1, _payload(example_bytes(context))) + put(2, entries)


FULL = sequence(
    [(b"a", INT64, [1, 2]), (b"b", FLOAT, [1, 2]), (b"r", STRING, [b"q"])],
    {
        b"u": [(INT64, [1]), (INT64, [2, 3])],
        b"d": [(FLOAT, [1, 2]), (FLOAT, [3, 4]), (FLOAT, [5, 6])],
        b"w": [(STRING, [b"x"]), (STRING, [b"y", b"z"])],
    },
)
POOR = sequence([(b"b", FLOAT, [3, 4])], {b"u": [(INT64, [5, 6, 7])], b"d": []})
BOTH = text(FULL, POOR)
NOTHING = np.zeros(0, object)
DEFAULT = np.zeros(0, np.float32)
TYPES: dict[str, Any] = {
    "context_sparse_types": (INT64,),
    "Tcontext_dense": (FLOAT,),
    "context_dense_shapes": (ShapeAttr((2,)),),
    "feature_list_sparse_types": (INT64,),
    "feature_list_dense_types": (FLOAT,),
    "feature_list_dense_shapes": (ShapeAttr((2,)),),
    "Ncontext_sparse": 1,
    "Nfeature_list_sparse": 1,
    "Nfeature_list_dense": 1,
}
KEYS: dict[str, Any] = {
    "context_sparse_keys": ("a",),
    "context_dense_keys": ("b",),
    "feature_list_sparse_keys": ("u",),
    "feature_list_dense_keys": ("d",),
    "feature_list_dense_missing_assumed_empty": (),
    "Ncontext_dense": 1,
}
RAGGED: dict[str, Any] = {
    "context_ragged_value_types": (STRING,),
    "context_ragged_split_types": (INT32,),
    "feature_list_ragged_value_types": (STRING,),
    "feature_list_ragged_split_types": (INT32,),
}
_LISTS = [text(b"a"), text(b"b"), text(b"r"), text(b"u"), text(b"d"), text(b"w"), np.array([True])]
_ONE = [text(b"d"), word(b"a"), word(b"b"), word(b"u"), word(b"d"), DEFAULT, word(b"")]

SEQUENCES: dict[str, list[Case]] = {
    "ParseSequenceExample": [([BOTH, NOTHING, DEFAULT], {**KEYS, **TYPES})],
    "ParseSequenceExampleV2": [([BOTH, NOTHING, *_LISTS, DEFAULT], {**TYPES, **RAGGED})],
    "ParseSingleSequenceExample": [([word(m), *_ONE], {**TYPES, "Ncontext_dense": 1}) for m in (FULL, POOR)],
}
