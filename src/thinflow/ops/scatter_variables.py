"""Parts of variables: reading and changing rows, places and slices.

The `Resource...` ops give nothing, those of TF1 hand the variable on. Both do the same to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thinflow.ir.types import DType, TensorSpec
from thinflow.ops._state import Effect, Variable
from thinflow.ops.gather import GatherNd, _assign, _check_indices, _gather, _scatter
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.slicing import TensorStridedSliceUpdate
from thinflow.ops.traits import Trait
from thinflow.ops.variables import _OnReference
from thinflow.typing import Array

Combine = Callable[..., None]


def _divide_at(x: Array, places: Any, by: Array) -> None:
    """x[places] /= by, as C divides: whole numbers towards zero."""
    if x.dtype.kind not in "iu":
        np.divide.at(x, places, by)
        return
    require(bool((by != 0).all()), "a whole number cannot be divided by zero")
    flat, parts = np.broadcast_to(places, by.shape[: np.ndim(places)]).ravel(), by
    parts = parts.reshape(len(flat), *x.shape[1:])
    # One by one: a place that occurs twice is divided twice, in order.
    for place, part in zip(flat, parts, strict=True):
        quotient = np.abs(x[place]) // np.abs(part)
        x[place] = np.where((x[place] < 0) != (part < 0), -quotient, quotient)


def _scatter_rows(variable: Variable, indices: Array, updates: Array, combine: Combine | None) -> None:
    """Combine updates [*indices, ...] (or a scalar) into the rows of a variable; None assigns."""
    x = variable.read()
    require(x.ndim > 0, "a scalar has no rows")
    _check_indices(indices, len(x))
    expected = (*indices.shape, *x.shape[1:])
    require(
        updates.shape in ((), expected), f"updates have shape {list(updates.shape)}, not {list(expected)}"
    )
    # Arrays that were read never change, so a changed variable gets a new one.
    y = x.copy()
    source = np.broadcast_to(updates, expected).reshape(indices.size, *x.shape[1:])
    with np.errstate(all="ignore"):
        if combine is None:
            _assign(y, indices.ravel(), source)
        else:
            combine(y, indices.ravel(), source)
    variable.array = y


def _scatter_places(variable: Variable, indices: Array, updates: Array, combine: Combine | None) -> None:
    """Combine updates [i, rest] into the places indices [i, k] of a variable; None assigns."""
    variable.array = _scatter(variable.read(), indices, updates, combine)


def _on_resource(change: Callable[..., None], combine: Combine | None, what: str) -> type[OpDef]:
    class Changed(Effect):
        @staticmethod
        def kernel(variable: Variable, indices: Array, updates: Array) -> tuple[()]:
            change(variable, indices, updates, combine)
            return ()

    Changed.__doc__ = what
    return Changed


def _on_reference(change: Callable[..., None], combine: Combine | None, what: str) -> type[OpDef]:
    class Changed(_OnReference):
        @staticmethod
        def kernel(variable: Variable, indices: Array, updates: Array) -> Variable:
            change(variable, indices, updates, combine)
            return variable

    Changed.__doc__ = what
    return Changed


_COMBINATIONS: dict[str, tuple[Combine | None, str]] = {
    "Update": (None, "replaced by"),
    "Add": (np.add.at, "raised by"),
    "Sub": (np.subtract.at, "lowered by"),
    "Mul": (np.multiply.at, "multiplied by"),
    "Div": (_divide_at, "divided by"),
    "Max": (np.maximum.at, "raised to at least"),
    "Min": (np.minimum.at, "lowered to at most"),
}

for _name, (_combine, _verb) in _COMBINATIONS.items():
    _doc = f"The variable's rows at indices are {_verb} updates [*indices, ...] or []."
    op(f"ResourceScatter{_name}")(_on_resource(_scatter_rows, _combine, _doc))
    op(f"Scatter{_name}")(_on_reference(_scatter_rows, _combine, _doc))
    # TensorFlow has no such ops on places.
    if _name not in ("Mul", "Div"):
        _doc = f"The variable's elements or slices at indices [i, k] are {_verb} updates [i, rest]."
        op(f"ResourceScatterNd{_name}")(_on_resource(_scatter_places, _combine, _doc))
        op(f"ScatterNd{_name}")(_on_reference(_scatter_places, _combine, _doc))


@op("ResourceGather")
class ResourceGather(OpDef):
    """y = rows of the variable's value.   indices [i] -> y [i, rest]; the first batch_dims axes pair up."""

    traits = Trait.STATEFUL

    @staticmethod
    def infer(variable: TensorSpec, indices: TensorSpec, *, dtype: DType, batch_dims: int = 0) -> TensorSpec:
        return TensorSpec(dtype)

    @staticmethod
    def kernel(variable: Variable | Array, indices: Array, *, batch_dims: int = 0) -> Array:
        x = _value(variable)
        require(x.ndim > batch_dims, f"{batch_dims} batch axes leave nothing to gather from rank {x.ndim}")
        return _gather(x, indices, batch_dims, batch_dims)


@op("ResourceGatherNd")
class ResourceGatherNd(OpDef):
    """y = elements or slices of the variable's value at indices [i, k]."""

    traits = Trait.STATEFUL

    @staticmethod
    def infer(variable: TensorSpec, indices: TensorSpec, *, dtype: DType) -> TensorSpec:
        return TensorSpec(dtype)

    @staticmethod
    def kernel(variable: Variable | Array, indices: Array) -> Array:
        return np.asarray(GatherNd.kernel(_value(variable), indices))


def _value(variable: Variable | Array) -> Array:
    """The value of a variable; TensorFlow's freezing leaves loops that read the constant in its place."""
    return variable if isinstance(variable, np.ndarray) else variable.read()


def _change_slice(
    variable: Variable, bounds: tuple[Array, ...], value: Array, masks: tuple[int, ...]
) -> None:
    names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    given = dict(zip(names, masks, strict=True))
    begin, end, strides = bounds
    update: Callable[..., Array] = TensorStridedSliceUpdate.kernel
    variable.array = update(variable.read(), begin, end, strides, value, **given)


@op("ResourceStridedSliceAssign")
class ResourceStridedSliceAssign(Effect):
    """The slice of the variable that StridedSlice would give is replaced by value."""

    @staticmethod
    def kernel(
        variable: Variable,
        begin: Array,
        end: Array,
        strides: Array,
        value: Array,
        *,
        begin_mask: int = 0,
        end_mask: int = 0,
        ellipsis_mask: int = 0,
        new_axis_mask: int = 0,
        shrink_axis_mask: int = 0,
    ) -> tuple[()]:
        masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
        _change_slice(variable, (begin, end, strides), value, masks)
        return ()


@op("StridedSliceAssign")
class StridedSliceAssign(_OnReference):
    """As ResourceStridedSliceAssign, for a TF1 variable, which is handed on."""

    @staticmethod
    def kernel(
        variable: Variable,
        begin: Array,
        end: Array,
        strides: Array,
        value: Array,
        *,
        begin_mask: int = 0,
        end_mask: int = 0,
        ellipsis_mask: int = 0,
        new_axis_mask: int = 0,
        shrink_axis_mask: int = 0,
    ) -> Variable:
        masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
        _change_slice(variable, (begin, end, strides), value, masks)
        return variable
