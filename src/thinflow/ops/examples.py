"""Ops that take serialized tensorflow.Examples apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.ir.types import INT64, DType, Shape, TensorSpec, shape_text
from thinflow.ops._example import Feature, Features, example
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array

Arrays = tuple[Array, ...]
_NO_SHAPES: tuple[Shape, ...] = ()


def _empty(kind: DType, *shape: int) -> Array:
    return np.full(shape, b"" if kind.kind == "O" else 0, kind.numpy())


def joined(kind: DType, parts: Sequence[Array]) -> Array:
    """Vectors one after the other."""
    return np.concatenate([_empty(kind, 0), *parts])


def given(features: Features, key: bytes, kind: DType) -> Array | None:
    """The values of a feature; None if it is missing or says nothing."""
    feature = features.get(key)
    if feature is None or feature.kind is None:
        return None
    return feature.of(kind, key.decode("utf-8", "replace"))


@dataclass(frozen=True)
class Dense:
    """A feature that becomes one tensor.

    Attributes:
        shape: of one example's; its first size may be unknown, then each example has as many as it has.
        default: what stands in where it is missing; no elements if it must be there.
    """

    key: bytes
    kind: DType
    shape: Shape
    default: Array

    @property
    def name(self) -> str:
        return self.key.decode("utf-8", "replace")

    @property
    def is_ragged(self) -> bool:
        return bool(self.shape) and self.shape is not None and self.shape[0] is None

    @property
    def inner(self) -> tuple[int, ...]:
        """The sizes that are known."""
        shape = self.shape or ()
        known = tuple(d for d in (shape[1:] if self.is_ragged else shape) if d is not None)
        expected = len(shape) - self.is_ragged
        require(len(known) == expected, f"'{self.name}' has the shape {shape_text(self.shape)}")
        return known

    def one(self, features: Features) -> Array:
        """This feature of one example, in its shape."""
        # A first size that is unknown: any number of rows, none if the feature is missing.
        values = given(features, self.key, self.kind)
        if self.is_ragged:
            values = _empty(self.kind, 0) if values is None else values
            step = math.prod(self.inner)
            require(
                step > 0 and values.size % step == 0,
                f"'{self.name}' has {values.size} values, not a multiple of {step}",
            )
            return values.reshape(-1, *self.inner)
        if values is None:
            require(
                self.default.size > 0 or 0 in self.inner,
                f"the feature '{self.name}' is required and missing",
                "give it a default",
            )
            return np.broadcast_to(self.default, self.inner)
        count = math.prod(self.inner)
        require(values.size == count, f"'{self.name}' has {values.size} values, {count} are expected")
        return values.reshape(self.inner)

    def batch(self, rows: Sequence[Features]) -> Array:
        """This feature of all examples; those of different lengths are filled up with the default."""
        parts = [self.one(features) for features in rows]
        if not self.is_ragged:
            return np.stack(parts) if parts else _empty(self.kind, 0, *self.inner)
        # Ragged only within the batch: the result is as wide as its longest example.
        longest = max((len(p) for p in parts), default=0)
        y = _empty(self.kind, len(parts), longest, *self.inner)
        # The default is also what shorter rows are filled with; it can only be a scalar then.
        if self.default.size == 1:
            y[...] = self.default.item() if self.default.dtype.hasobject else self.default.ravel()[0]
        for row, part in enumerate(parts):
            y[row, : len(part)] = part
        return y


def sparse_batch(key: bytes, kind: DType, rows: Sequence[Features]) -> Arrays:
    """(indices [m,2], values [m], shape [2]) of a feature of all examples."""
    parts = [v if (v := given(f, key, kind)) is not None else _empty(kind, 0) for f in rows]
    sizes = [len(p) for p in parts]
    first = np.repeat(np.arange(len(parts)), sizes)
    second = np.concatenate([np.arange(0), *(np.arange(n) for n in sizes)])
    shape = np.array([len(parts), max(sizes, default=0)], np.int64)
    return np.stack([first, second], -1).astype(np.int64), joined(kind, parts), shape


def ragged_batch(key: bytes, kind: DType, splits: DType, rows: Sequence[Features]) -> Arrays:
    """(values [m], row splits [n+1]) of a feature of all examples."""
    parts = [v if (v := given(f, key, kind)) is not None else _empty(kind, 0) for f in rows]
    return joined(kind, parts), np.cumsum([0, *(len(p) for p in parts)]).astype(splits.numpy())


def grouped(triples: Sequence[Arrays]) -> Arrays:
    """All first members, all second ones, and so on."""
    return tuple(part for column in zip(*triples, strict=True) for part in column)


def sparse_specs(types: Sequence[DType], rank: int) -> tuple[TensorSpec, ...]:
    """Specs of (indices..., values..., shapes...)."""
    return (
        *(TensorSpec(INT64, (None, rank)) for _ in types),
        *(TensorSpec(t, (None,)) for t in types),
        *(TensorSpec(INT64, (rank,)) for _ in types),
    )


def dense_specs(types: Sequence[DType], shapes: Sequence[Shape], lead: Shape) -> tuple[TensorSpec, ...]:
    """Specs of features of a shape each, with the sizes `lead` in front."""
    if len(shapes) != len(types):
        return tuple(TensorSpec(t) for t in types)
    return tuple(
        TensorSpec(t, None if s is None or lead is None else (*lead, *s))
        for t, s in zip(types, shapes, strict=True)
    )


def denses(
    keys: Sequence[bytes], types: Sequence[DType], shapes: Sequence[Shape], defaults: Sequence[Array]
) -> list[Dense]:
    """The dense features; the lists must be of one length."""
    same = len(keys) == len(types) == len(shapes) == len(defaults)
    require(same, f"{len(keys)} dense keys, {len(shapes)} shapes and {len(defaults)} defaults")
    return [Dense(*row) for row in zip(keys, types, shapes, defaults, strict=True)]


def _words(array: Array) -> list[bytes]:
    return [bytes(w) for w in array.ravel().tolist()]


@op("ParseExample")
class ParseExample(OpDef):
    """The features of n Examples.

    serialized [n], names [n] or [0], Nsparse keys [], Ndense keys [], Ndense defaults ->
    sparse indices [m,2], values [m] and shapes [2] for each key, then for each dense key [n, *shape].
    """

    decodes = "records"

    num_outputs = ""

    @staticmethod
    def infer(
        serialized: TensorSpec,
        names: TensorSpec,
        *rest: TensorSpec,
        sparse_types: tuple[DType, ...],
        Tdense: tuple[DType, ...],
        dense_shapes: tuple[Shape, ...] = _NO_SHAPES,
    ) -> tuple[TensorSpec, ...]:
        lead = None if serialized.shape is None else serialized.shape
        return (*sparse_specs(sparse_types, 2), *dense_specs(Tdense, dense_shapes, lead))

    @staticmethod
    def kernel(
        serialized: Array,
        names: Array,
        *rest: Array,
        sparse_types: tuple[DType, ...],
        Tdense: tuple[DType, ...],
        dense_shapes: tuple[Shape, ...] = _NO_SHAPES,
    ) -> Arrays:
        sparse, dense = len(sparse_types), len(Tdense)
        require(len(rest) == sparse + 2 * dense, f"{len(rest)} keys and defaults, not {sparse + 2 * dense}")
        keys = [_words(k)[0] for k in rest[: sparse + dense]]
        rows = [example(s) for s in _words(serialized)]
        found = grouped([sparse_batch(k, t, rows) for k, t in zip(keys[:sparse], sparse_types, strict=True)])
        wanted = denses(keys[sparse:], Tdense, dense_shapes, rest[sparse + dense :])
        return (*found, *(d.batch(rows) for d in wanted))


@op("ParseExampleV2")
class ParseExampleV2(OpDef):
    """The features of n Examples, or of a single one.

    serialized [n] or [], names, sparse keys [s], dense keys [d], ragged keys [r], d defaults ->
    as ParseExample, then for each ragged key its values [m], then for each its row splits [n+1].
    A single example has no axis of examples, and no splits.
    """

    decodes = "records"

    num_outputs = ""

    @staticmethod
    def infer(
        serialized: TensorSpec,
        *rest: TensorSpec,
        num_sparse: int,
        sparse_types: tuple[DType, ...],
        Tdense: tuple[DType, ...],
        ragged_value_types: tuple[DType, ...] = (),
        ragged_split_types: tuple[DType, ...] = (),
        dense_shapes: tuple[Shape, ...] = _NO_SHAPES,
    ) -> tuple[TensorSpec, ...]:
        if serialized.shape is None:
            count = 3 * num_sparse + len(Tdense) + len(ragged_value_types) + len(ragged_split_types)
            types = (*(INT64,) * num_sparse, *sparse_types, *(INT64,) * num_sparse, *Tdense)
            return tuple(TensorSpec(t) for t in (*types, *ragged_value_types, *ragged_split_types))[:count]
        many = serialized.shape
        # A single example ([]) has no splits; they come out empty.
        splits = (None if many[0] is None else many[0] + 1,) if many else (0,)
        return (
            *sparse_specs(sparse_types, 1 + len(many)),
            *dense_specs(Tdense, dense_shapes, many),
            *(TensorSpec(t, (None,)) for t in ragged_value_types),
            *(TensorSpec(t, splits) for t in ragged_split_types),
        )

    @staticmethod
    def kernel(
        serialized: Array,
        names: Array,
        sparse_keys: Array,
        dense_keys: Array,
        ragged_keys: Array,
        *defaults: Array,
        sparse_types: tuple[DType, ...],
        Tdense: tuple[DType, ...],
        ragged_value_types: tuple[DType, ...] = (),
        ragged_split_types: tuple[DType, ...] = (),
        dense_shapes: tuple[Shape, ...] = _NO_SHAPES,
    ) -> Arrays:
        rows = [example(s) for s in _words(serialized)]
        wanted = denses(_words(dense_keys), Tdense, dense_shapes, defaults)
        sparse = [sparse_batch(k, t, rows) for k, t in zip(_words(sparse_keys), sparse_types, strict=True)]
        ragged = [
            ragged_batch(k, t, s, rows)
            for k, t, s in zip(_words(ragged_keys), ragged_value_types, ragged_split_types, strict=True)
        ]
        # A scalar gives what ParseSingleExample gives.
        if serialized.ndim == 0:
            sparse = [_single(*triple) for triple in sparse]
            ragged = [(values, splits[:0]) for values, splits in ragged]
            return (*grouped(sparse), *(d.one(rows[0]) for d in wanted), *grouped(ragged))
        return (*grouped(sparse), *(d.batch(rows) for d in wanted), *grouped(ragged))


def _single(indices: Array, values: Array, shape: Array) -> Arrays:
    return indices[:, 1:], values, shape[1:]


@op("ParseSingleExample")
class ParseSingleExample(OpDef):
    """The features of one Example.

    serialized [], a default for each dense key -> sparse indices [m,1], values [m], shapes [1], dense shape.
    """

    decodes = "records"

    num_outputs = ""

    @staticmethod
    def infer(
        serialized: TensorSpec,
        *defaults: TensorSpec,
        sparse_types: tuple[DType, ...],
        Tdense: tuple[DType, ...],
        dense_shapes: tuple[Shape, ...] = _NO_SHAPES,
    ) -> tuple[TensorSpec, ...]:
        return (*sparse_specs(sparse_types, 1), *dense_specs(Tdense, dense_shapes, ()))

    @staticmethod
    def kernel(
        serialized: Array,
        *defaults: Array,
        sparse_keys: tuple[str, ...],
        dense_keys: tuple[str, ...],
        sparse_types: tuple[DType, ...],
        Tdense: tuple[DType, ...],
        dense_shapes: tuple[Shape, ...] = _NO_SHAPES,
    ) -> Arrays:
        rows = [example(serialized.item())]
        wanted = denses([k.encode() for k in dense_keys], Tdense, dense_shapes, defaults)
        sparse = [sparse_batch(k.encode(), t, rows) for k, t in zip(sparse_keys, sparse_types, strict=True)]
        return (*grouped([_single(*t) for t in sparse]), *(d.one(rows[0]) for d in wanted))


def feature_values(feature: Feature, kind: DType, name: str) -> Array:
    """The values of a feature of a list; none for one that says nothing."""
    return _empty(kind, 0) if feature.kind is None else feature.of(kind, name)
