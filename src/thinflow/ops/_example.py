"""tensorflow.Example and SequenceExample messages. Source: TensorFlow's `example.proto`, `feature.proto`.

A feature is told by its kind: a list of byte strings, of floats or of int64s; "" for one that is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, INT64, STRING, DType
from thinflow.ops._tensor_proto import packed_numbers
from thinflow.ops.registry import require
from thinflow.typing import Array
from thinflow.wire.fields import encode_varint
from thinflow.wire.values import iter_messages, iter_values, packed_varints, put, signed

# The oneof of `Feature`: bytes_list = 1, float_list = 2, int64_list = 3; in each list `value` = 1.
_KINDS = {1: STRING, 2: FLOAT, 3: INT64}


@dataclass(frozen=True)
class Feature:
    """Values [n] of one of three types; None for one that says nothing."""

    kind: DType | None
    values: Array

    def of(self, wanted: DType, name: str) -> Array:
        """The values, which must be of that type."""
        matches = self.kind is wanted
        require(
            matches,
            f"the feature '{name}' is of {self.kind}, not {wanted}",
            "check the parsing specification",
        )
        return self.values


Features = dict[bytes, Feature]


def example(data: bytes) -> Features:
    """The features of an Example, by name; of two of one name the last counts."""
    found: Features = {}
    for value in iter_messages(data, 1):
        found |= dict(_features(value))
    return found


def sequence_example(data: bytes) -> tuple[Features, dict[bytes, list[Feature]]]:
    """The context and the feature lists of a SequenceExample, by name."""
    context: Features = {}
    lists: dict[bytes, list[Feature]] = {}
    for value in iter_messages(data, 1):
        context |= dict(_features(value))
    for value in iter_messages(data, 2):
        lists |= {name: [_feature(f) for f in iter_messages(entry, 1)] for name, entry in _entries(value)}
    return context, lists


def _entries(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a map."""
    for entry in iter_messages(data, 1):
        # Absent keys and values of a protobuf map mean empty ones.
        key = value = b""
        for number, _, part in iter_values(entry):
            if not isinstance(part, bytes):
                continue
            if number == 1:
                key = part
            elif number == 2:
                value = part
        yield key, value


def _features(data: bytes) -> Iterator[tuple[bytes, Feature]]:
    return ((key, _feature(value)) for key, value in _entries(data))


def _feature(data: bytes) -> Feature:
    found = Feature(None, np.zeros(0, np.int64))
    for number, _, value in iter_values(data):
        if number in _KINDS and isinstance(value, bytes):
            found = Feature(_KINDS[number], _LISTS[number](value))
    return found


def _byte_list(data: bytes) -> Array:
    words = list(iter_messages(data, 1))
    y: Array = np.empty(len(words), object)
    y[:] = words
    return y


def _float_list(data: bytes) -> Array:
    # Packed or not, a float is the same four bytes; parsers must take both spellings.
    parts = [packed_numbers(value, "<f4") for value in iter_messages(data, 1)]
    return np.concatenate([np.zeros(0, np.float32), *parts]).astype(np.float32)


def _int_list(data: bytes) -> Array:
    found: list[int] = []
    for number, _, value in iter_values(data):
        if number == 1:
            found += packed_varints(value) if isinstance(value, bytes) else [signed(value)]
    return np.array(found, np.int64)


_LISTS = {1: _byte_list, 2: _float_list, 3: _int_list}


def example_bytes(features: Iterable[tuple[bytes, DType, list[Any]]]) -> bytes:
    """An Example with features of name, type and values."""
    return put(1, _features_bytes(features))


def sequence_example_bytes(
    context: Iterable[tuple[bytes, DType, list[Any]]], lists: Iterable[tuple[bytes, DType, list[list[Any]]]]
) -> bytes:
    """A SequenceExample with the features of its context, and lists with the values of each step."""
    entries = b""
    for name, kind, steps in lists:
        features = b"".join(put(1, _feature_bytes(kind, values)) for values in steps)
        entries += put(1, put(1, name) + put(2, features))
    return put(1, _features_bytes(context)) + put(2, entries)


def _features_bytes(features: Iterable[tuple[bytes, DType, list[Any]]]) -> bytes:
    return b"".join(
        put(1, put(1, name) + put(2, _feature_bytes(kind, values))) for name, kind, values in features
    )


def _feature_bytes(kind: DType, values: list[Any]) -> bytes:
    # Empty packed lists are left out, but the list's own field stays: it alone tells the kind.
    if kind is STRING:
        return put(1, b"".join(put(1, v) for v in values))
    if kind is FLOAT:
        content = np.array(values, "<f4").tobytes()
        return put(2, put(1, content) if content else b"")
    content = b"".join(encode_varint(int(v)) for v in values)
    return put(3, put(1, content) if content else b"")
