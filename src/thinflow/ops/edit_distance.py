"""Edit distances of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.ops._elements import shape_from
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.sparse import _places
from thinflow.typing import Array

Sequences = dict[tuple[int, ...], list[Any]]


@op("EditDistance")
class EditDistance(OpDef):
    """Levenshtein distances of the sequences along the last axis of two sparse tensors, float [groups].

    normalize divides by the length of the truth; against an empty one, anything is infinitely far.
    """

    @staticmethod
    def infer(
        a_indices: TensorSpec,
        a_values: TensorSpec,
        a_shape: TensorSpec,
        b_indices: TensorSpec,
        b_values: TensorSpec,
        b_shape: TensorSpec,
    ) -> TensorSpec:
        a, b = shape_from(a_shape), shape_from(b_shape)
        if a is None or b is None or None in a or None in b:
            return TensorSpec(FLOAT)
        return TensorSpec(FLOAT, tuple(max(x or 0, y or 0) for x, y in zip(a[:-1], b[:-1], strict=True)))

    @staticmethod
    def kernel(
        a_indices: Array,
        a_values: Array,
        a_shape: Array,
        b_indices: Array,
        b_values: Array,
        b_shape: Array,
        *,
        normalize: bool = True,
    ) -> Array:
        require(a_shape.size == b_shape.size, "hypothesis and truth differ in rank")
        hypothesis = _sequences(a_indices, a_values, a_shape)
        truth = _sequences(b_indices, b_values, b_shape)
        y = np.zeros(np.maximum(a_shape, b_shape)[:-1].tolist(), np.float32)
        for group in hypothesis.keys() | truth.keys():
            y[group] = _distance(hypothesis.get(group, []), truth.get(group, []), normalize)
        return y


def _sequences(indices: Array, values: Array, shape: Array) -> Sequences:
    _places(indices, shape)
    found: Sequences = {}
    for place, value in zip(indices[:, :-1].tolist(), values.tolist(), strict=True):
        found.setdefault(tuple(place), []).append(value)
    return found


def _distance(a: Sequence[Any], b: Sequence[Any], normalize: bool) -> float:
    if normalize and not b:
        return np.inf if a else 0.0
    # One row of the table at a time; from nothing to b takes len(b) insertions.
    before = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
        before = row
    return before[-1] / len(b) if normalize else float(before[-1])
