"""Values that may be missing: tuples of tensors, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.ir.types import BOOL, VARIANT, DType, Shape, TensorSpec
from thinflow.ops.registry import Handle, OpDef, op, require
from thinflow.typing import Array


@dataclass(frozen=True, eq=False)
class OptionalValue(Handle):
    """Components, or None for nothing."""

    components: tuple[Any, ...] | None


@op("OptionalNone")
class OptionalNone(OpDef):
    """Nothing."""

    @staticmethod
    def infer() -> TensorSpec:
        return TensorSpec(VARIANT, ())

    @staticmethod
    def kernel() -> OptionalValue:
        return OptionalValue(None)


@op("OptionalFromValue")
class OptionalFromValue(OpDef):
    """The inputs as one value."""

    @staticmethod
    def infer(*components: TensorSpec) -> TensorSpec:
        return TensorSpec(VARIANT, ())

    @staticmethod
    def kernel(*components: Array) -> OptionalValue:
        return OptionalValue(components)


@op("OptionalHasValue")
class OptionalHasValue(OpDef):
    """Whether there is something, bool []."""

    @staticmethod
    def infer(optional: TensorSpec) -> TensorSpec:
        return TensorSpec(BOOL, ())

    @staticmethod
    def kernel(optional: OptionalValue) -> Array:
        return np.array(optional.components is not None)


@op("OptionalGetValue")
class OptionalGetValue(OpDef):
    """The components; an error if there is nothing."""

    num_outputs = "output_types"

    @staticmethod
    def infer(
        optional: TensorSpec, *, output_types: tuple[DType, ...], output_shapes: tuple[Shape, ...] = ()
    ) -> tuple[TensorSpec, ...]:
        shapes = output_shapes if len(output_shapes) == len(output_types) else (None,) * len(output_types)
        return tuple(TensorSpec(t, s) for t, s in zip(output_types, shapes, strict=True))

    @staticmethod
    def kernel(optional: OptionalValue) -> tuple[Any, ...]:
        require(optional.components is not None, "the optional value is missing")
        return optional.components or ()
