"""Ops that take serialized tensorflow.SequenceExamples apart: a context and lists of features, one a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.ir.types import INT64, DType, Shape, TensorSpec
from thinflow.ops._example import Feature, sequence_example
from thinflow.ops.examples import (
    Arrays,
    Dense,
    _single,
    _words,
    dense_specs,
    denses,
    feature_values,
    grouped,
    joined,
    ragged_batch,
    sparse_batch,
    sparse_specs,
)
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array

Steps = dict[bytes, list[Feature]]
_NONE: tuple[Any, ...] = ()


@dataclass(frozen=True)
class _Lists:
    """The feature lists of several examples."""

    rows: Sequence[Steps]

    def values(self, key: bytes, kind: DType) -> list[list[Array]]:
        """For each example, for each step the values of a feature."""
        name = key.decode("utf-8", "replace")
        return [[feature_values(f, kind, name) for f in row.get(key, [])] for row in self.rows]

    def sparse(self, key: bytes, kind: DType) -> Arrays:
        """(indices [m,3], values [m], shape [3]): example, step, place."""
        found = self.values(key, kind)
        # In the order of the values below, which are joined example by example and step by step.
        places = [(r, t, i) for r, row in enumerate(found) for t, v in enumerate(row) for i in range(len(v))]
        steps = max((len(row) for row in found), default=0)
        longest = max((len(v) for row in found for v in row), default=0)
        values = joined(kind, [v for row in found for v in row])
        return (
            np.array(places, np.int64).reshape(-1, 3),
            values,
            np.array([len(found), steps, longest], np.int64),
        )

    def dense(self, key: bytes, kind: DType, shape: Shape, may_miss: bool) -> tuple[Array, Array]:
        """([n, steps, *shape] filled up with zeros, steps of each example [n])."""
        name = key.decode("utf-8", "replace")
        sizes = tuple(d or 0 for d in shape or ())
        require(shape is not None and None not in shape, f"the shape of '{name}' is not known")
        # A list that is there may still be empty; only one whose key is absent is missing.
        present = all(key in row for row in self.rows)
        require(present or may_miss, f"the feature list '{name}' is required and missing", "let it be empty")
        found = self.values(key, kind)
        lengths = [len(row) for row in found]
        empty: Any = b"" if kind.kind == "O" else 0
        y = np.full((len(found), max(lengths, default=0), *sizes), empty, kind.numpy())
        for number, row in enumerate(found):
            for step, values in enumerate(row):
                fits = values.size == int(np.prod(sizes))
                require(
                    fits, f"'{name}' has {values.size} values in a step, {int(np.prod(sizes))} are expected"
                )
                y[number, step] = values.reshape(sizes)
        return y, np.array(lengths, np.int64)

    def ragged(self, key: bytes, kind: DType, splits: DType) -> Arrays:
        """(values [m], splits into examples [n+1], splits into steps [steps+1])."""
        found = self.values(key, kind)
        outer = np.cumsum([0, *(len(row) for row in found)])
        inner = np.cumsum([0, *(len(v) for row in found for v in row)])
        values = joined(kind, [v for row in found for v in row])
        return values, outer.astype(splits.numpy()), inner.astype(splits.numpy())


def _parsed(serialized: Array) -> tuple[list[Any], _Lists]:
    pairs = [sequence_example(s) for s in _words(serialized)]
    return [context for context, _ in pairs], _Lists([steps for _, steps in pairs])


def _encoded(keys: Sequence[str]) -> list[bytes]:
    return [k.encode() for k in keys]


def _context_dense(wanted: Sequence[Dense], rows: Sequence[Any]) -> list[Array]:
    return [d.batch(rows) for d in wanted]


def _with_steps(lead: Shape) -> Shape:
    """The sizes in front of a step's values: examples, and steps, which only the messages tell."""
    return None if lead is None else (*lead, None)


@op("ParseSequenceExample")
class ParseSequenceExample(OpDef):
    """Context and feature lists of n SequenceExamples; the keys are attributes.

    serialized [n], names, a default for each dense context key -> context: sparse indices, values, shapes,
    dense values; feature lists: sparse indices [m,3], values, shapes [3], dense values [n,steps,...], and for
    each of those the steps of each example [n].
    """

    decodes = "records"

    num_outputs = ""

    @staticmethod
    def infer(
        serialized: TensorSpec,
        *rest: TensorSpec,
        context_sparse_types: tuple[DType, ...] = _NONE,
        Tcontext_dense: tuple[DType, ...] = _NONE,
        feature_list_sparse_types: tuple[DType, ...] = _NONE,
        feature_list_dense_types: tuple[DType, ...] = _NONE,
        context_dense_shapes: tuple[Shape, ...] = _NONE,
        feature_list_dense_shapes: tuple[Shape, ...] = _NONE,
    ) -> tuple[TensorSpec, ...]:
        return (
            *sparse_specs(context_sparse_types, 2),
            *dense_specs(Tcontext_dense, context_dense_shapes, serialized.shape),
            *sparse_specs(feature_list_sparse_types, 3),
            *dense_specs(feature_list_dense_types, feature_list_dense_shapes, _with_steps(serialized.shape)),
            *(TensorSpec(INT64, serialized.shape) for _ in feature_list_dense_types),
        )

    @staticmethod
    def kernel(
        serialized: Array,
        debug_name: Array,
        *defaults: Array,
        feature_list_dense_missing_assumed_empty: tuple[str, ...],
        context_sparse_keys: tuple[str, ...],
        context_dense_keys: tuple[str, ...],
        feature_list_sparse_keys: tuple[str, ...],
        feature_list_dense_keys: tuple[str, ...],
        context_sparse_types: tuple[DType, ...] = _NONE,
        Tcontext_dense: tuple[DType, ...] = _NONE,
        feature_list_sparse_types: tuple[DType, ...] = _NONE,
        feature_list_dense_types: tuple[DType, ...] = _NONE,
        context_dense_shapes: tuple[Shape, ...] = _NONE,
        feature_list_dense_shapes: tuple[Shape, ...] = _NONE,
    ) -> Arrays:
        context, lists = _parsed(serialized)
        wanted = denses(_encoded(context_dense_keys), Tcontext_dense, context_dense_shapes, defaults)
        pairs = zip(_encoded(context_sparse_keys), context_sparse_types, strict=True)
        steps = zip(_encoded(feature_list_sparse_keys), feature_list_sparse_types, strict=True)
        columns = zip(
            feature_list_dense_keys, feature_list_dense_types, feature_list_dense_shapes, strict=True
        )
        may_miss = set(feature_list_dense_missing_assumed_empty)
        dense = [lists.dense(k.encode(), t, s, k in may_miss) for k, t, s in columns]
        return (
            *grouped([sparse_batch(k, t, context) for k, t in pairs]),
            *_context_dense(wanted, context),
            *grouped([lists.sparse(k, t) for k, t in steps]),
            *grouped(dense),
        )


@op("ParseSequenceExampleV2")
class ParseSequenceExampleV2(OpDef):
    """As ParseSequenceExample, with the keys as inputs [k] and ragged results besides.

    serialized [n], names, context sparse, dense and ragged keys, feature list sparse, dense and ragged keys,
    whether each dense list may be missing, context defaults -> as there, with context ragged values and
    splits behind the context and feature list ragged values, outer and inner splits at the end.
    """

    decodes = "records"

    num_outputs = ""

    @staticmethod
    def infer(
        serialized: TensorSpec,
        *rest: TensorSpec,
        context_sparse_types: tuple[DType, ...] = _NONE,
        Tcontext_dense: tuple[DType, ...] = _NONE,
        context_ragged_value_types: tuple[DType, ...] = _NONE,
        context_ragged_split_types: tuple[DType, ...] = _NONE,
        feature_list_sparse_types: tuple[DType, ...] = _NONE,
        feature_list_dense_types: tuple[DType, ...] = _NONE,
        feature_list_ragged_value_types: tuple[DType, ...] = _NONE,
        feature_list_ragged_split_types: tuple[DType, ...] = _NONE,
        context_dense_shapes: tuple[Shape, ...] = _NONE,
        feature_list_dense_shapes: tuple[Shape, ...] = _NONE,
    ) -> tuple[TensorSpec, ...]:
        splits = feature_list_ragged_split_types
        return (
            *sparse_specs(context_sparse_types, 2),
            *dense_specs(Tcontext_dense, context_dense_shapes, serialized.shape),
            *(TensorSpec(t) for t in (*context_ragged_value_types, *context_ragged_split_types)),
            *sparse_specs(feature_list_sparse_types, 3),
            *dense_specs(feature_list_dense_types, feature_list_dense_shapes, _with_steps(serialized.shape)),
            *(TensorSpec(INT64, serialized.shape) for _ in feature_list_dense_types),
            *(TensorSpec(t) for t in (*feature_list_ragged_value_types, *splits, *splits)),
        )

    @staticmethod
    def kernel(
        serialized: Array,
        debug_name: Array,
        context_sparse_keys: Array,
        context_dense_keys: Array,
        context_ragged_keys: Array,
        list_sparse_keys: Array,
        list_dense_keys: Array,
        list_ragged_keys: Array,
        may_miss: Array,
        *defaults: Array,
        context_sparse_types: tuple[DType, ...] = _NONE,
        Tcontext_dense: tuple[DType, ...] = _NONE,
        context_ragged_value_types: tuple[DType, ...] = _NONE,
        context_ragged_split_types: tuple[DType, ...] = _NONE,
        context_dense_shapes: tuple[Shape, ...] = _NONE,
        feature_list_sparse_types: tuple[DType, ...] = _NONE,
        feature_list_dense_types: tuple[DType, ...] = _NONE,
        feature_list_ragged_value_types: tuple[DType, ...] = _NONE,
        feature_list_ragged_split_types: tuple[DType, ...] = _NONE,
        feature_list_dense_shapes: tuple[Shape, ...] = _NONE,
    ) -> Arrays:
        require(
            serialized.ndim == 1, "a vector of examples is needed", "use ParseSingleSequenceExample for one"
        )
        context, lists = _parsed(serialized)
        wanted = denses(_words(context_dense_keys), Tcontext_dense, context_dense_shapes, defaults)
        sparse = zip(_words(context_sparse_keys), context_sparse_types, strict=True)
        ragged = zip(
            _words(context_ragged_keys), context_ragged_value_types, context_ragged_split_types, strict=True
        )
        steps = zip(_words(list_sparse_keys), feature_list_sparse_types, strict=True)
        shapes, missing = feature_list_dense_shapes, may_miss.tolist()
        columns = zip(_words(list_dense_keys), feature_list_dense_types, shapes, missing, strict=True)
        rows = zip(
            _words(list_ragged_keys),
            feature_list_ragged_value_types,
            feature_list_ragged_split_types,
            strict=True,
        )
        return (
            *grouped([sparse_batch(k, t, context) for k, t in sparse]),
            *_context_dense(wanted, context),
            *grouped([ragged_batch(k, t, s, context) for k, t, s in ragged]),
            *grouped([lists.sparse(k, t) for k, t in steps]),
            *grouped([lists.dense(*column) for column in columns]),
            *grouped([lists.ragged(*row) for row in rows]),
        )


@op("ParseSingleSequenceExample")
class ParseSingleSequenceExample(OpDef):
    """As ParseSequenceExample for a single one, without the axis of examples and without lengths.

    serialized [], names of dense lists that may be missing [k], keys [] in the order context sparse, context
    dense, list sparse, list dense, the context defaults, a name [].
    """

    decodes = "records"

    num_outputs = ""

    @staticmethod
    def infer(
        serialized: TensorSpec,
        *rest: TensorSpec,
        context_sparse_types: tuple[DType, ...] = _NONE,
        Tcontext_dense: tuple[DType, ...] = _NONE,
        feature_list_sparse_types: tuple[DType, ...] = _NONE,
        feature_list_dense_types: tuple[DType, ...] = _NONE,
        context_dense_shapes: tuple[Shape, ...] = _NONE,
        feature_list_dense_shapes: tuple[Shape, ...] = _NONE,
    ) -> tuple[TensorSpec, ...]:
        return (
            *sparse_specs(context_sparse_types, 1),
            *dense_specs(Tcontext_dense, context_dense_shapes, ()),
            *sparse_specs(feature_list_sparse_types, 2),
            *dense_specs(feature_list_dense_types, feature_list_dense_shapes, (None,)),
        )

    @staticmethod
    def kernel(
        serialized: Array,
        missing: Array,
        *rest: Array,
        context_sparse_types: tuple[DType, ...] = _NONE,
        Tcontext_dense: tuple[DType, ...] = _NONE,
        feature_list_sparse_types: tuple[DType, ...] = _NONE,
        feature_list_dense_types: tuple[DType, ...] = _NONE,
        context_dense_shapes: tuple[Shape, ...] = _NONE,
        feature_list_dense_shapes: tuple[Shape, ...] = _NONE,
    ) -> Arrays:
        # The keys of all four kinds stand one behind the other, told apart by the lengths of the type lists.
        counts = [len(context_sparse_types), len(Tcontext_dense), len(feature_list_sparse_types)]
        ends = np.cumsum([*counts, len(feature_list_dense_types)]).tolist()
        keys = [bytes(k.item()) for k in rest[: ends[3]]]
        context, lists = _parsed(serialized)
        wanted = denses(keys[ends[0] : ends[1]], Tcontext_dense, context_dense_shapes, rest[ends[3] : -1])
        sparse = zip(keys[: ends[0]], context_sparse_types, strict=True)
        steps = zip(keys[ends[1] : ends[2]], feature_list_sparse_types, strict=True)
        columns = zip(keys[ends[2] :], feature_list_dense_types, feature_list_dense_shapes, strict=True)
        may_miss = set(_words(missing))
        return (
            *grouped([_single(*sparse_batch(k, t, context)) for k, t in sparse]),
            *(d.one(context[0]) for d in wanted),
            *grouped([_single(*lists.sparse(k, t)) for k, t in steps]),
            # The only example, without its lengths: they are the size of the first axis.
            *(lists.dense(k, t, s, k in may_miss)[0][0] for k, t, s in columns),
        )
