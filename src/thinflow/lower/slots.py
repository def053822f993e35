"""Values of a graph while it is lowered, where several tensors stand for one: lists, and complex numbers.

A loop and a branch take and give tensors. The form of a value is what is known of it while it is a variable
of a loop or a result of branches: its type, and its shape as far as it is the same in every iteration.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import DOUBLE, VARIANT, DType, dtype
from thinflow.lower.operands import merged
from thinflow.program import model
from thinflow.program.model import Dims, T


class Slot(Protocol):
    """Stand-in for a value: a tensor, or something that is made of several."""

    @property
    def dtype(self) -> DType: ...

    @property
    def shape(self) -> Dims: ...

    @property
    def is_constant(self) -> bool: ...


S = TypeVar("S", bound=Slot)
L = TypeVar("L", bound="Listed[Any]")


@dataclass(frozen=True, eq=False)
class Listed(Generic[T]):
    """A TensorList or TensorArray: its items side by side. It never changes: a write gives a new one.

    Attributes:
        count: number of items; None if that is known when the model runs only.
        element: element type.
        shape: what is known of each item's shape; None for an unknown rank.
        tensor: the items [count, *shape]; None where none has been set, which means zeros.
        size: their number, of one element, where neither `count` nor `tensor` says it.
        grows: whether an item may be set behind the last.
    """

    count: int | None
    element: DType
    shape: Dims
    tensor: T | None = None
    size: T | None = None
    grows: bool = False

    is_constant: ClassVar[bool] = False
    dtype: ClassVar[DType] = VARIANT

    def with_tensor(self: L, tensor: model.Tensor) -> L:
        """The list whose items are the rows of a tensor."""
        if tensor.shape is None:
            return replace(self, tensor=tensor, size=None)
        count = tensor.shape[0] if self.count is None else self.count
        return replace(self, tensor=tensor, count=count, shape=tensor.shape[1:], size=None)

    @property
    def stored_shape(self) -> Dims:
        """The shape of the tensor that holds the items."""
        return None if self.shape is None else (self.count, *self.shape)


@dataclass(frozen=True, eq=False)
class Complex(Generic[T]):
    """Complex numbers by their parts, which are tensors of one shape and type."""

    real: T
    imag: T

    is_constant: ClassVar[bool] = False
    quantization: ClassVar[None] = None

    @property
    def dtype(self) -> DType:
        return dtype("complex128" if self.real.dtype is DOUBLE else "complex64")

    @property
    def shape(self) -> Dims:
        return self.real.shape


# --- forms ------------------------------------------------------------------------------------------------


def stored_shape(slot: Slot) -> Dims:
    """The shape of the tensor that holds a value."""
    return slot.stored_shape if isinstance(slot, Listed) else slot.shape


def variable(slot: S, tensor: type[model.Tensor]) -> S:
    """The form of a loop variable that starts with this.

    Args:
        tensor: class of the target's tensors.

    Raises:
        UnsupportedOp: the target has no tensor for such a value.
    """
    if isinstance(slot, Listed):
        # The tensor has as many rows as the list has items, so a size beside it would say it twice.
        items = tensor("items", slot.stored_shape, slot.element)
        return cast("S", replace(slot, tensor=items, size=None))
    if isinstance(slot, model.Tensor):
        return cast("S", tensor(slot.name, slot.shape, slot.dtype))
    raise UnsupportedOp(f"no tensor holds {slot.dtype} that was computed, as a loop or a branch needs")


def like(form: S, tensor: model.Tensor) -> S:
    """A value of some form, held by a tensor."""
    return cast("S", form.with_tensor(tensor) if isinstance(form, Listed) else tensor)


def joined(a: S, b: S, what: str, tensor: type[model.Tensor]) -> S:
    """The form that both have: what holds of one alone is left open.

    Args:
        what: they are, for an error.
        tensor: class of the target's tensors.

    Raises:
        UnsupportedOp: they are of different kinds or types.
    """
    if isinstance(a, Listed) and isinstance(b, Listed):
        if a.element is not b.element:
            raise UnsupportedOp(f"{what} is a list of {a.element}, or of {b.element}")
        count = a.count if a.count == b.count else None
        form = replace(a, count=count, shape=merged(a.shape, b.shape))
        return variable(cast("S", form), tensor)
    if isinstance(a, Listed) or isinstance(b, Listed):
        raise UnsupportedOp(f"{what} is a list, or none")
    if a.dtype is not b.dtype:
        raise UnsupportedOp(f"{what} is {a.dtype}, or {b.dtype}")
    name = a.name if isinstance(a, model.Tensor) else ""
    return cast("S", tensor(name, _common(a.shape, b.shape), a.dtype))


def _common(a: Dims, b: Dims) -> Dims:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))
