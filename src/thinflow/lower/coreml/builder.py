"""What rules write with: MIL's builder, and the values that stand for a program's tensors."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import DType
from thinflow.onnx.program import Operator, Tensor
from thinflow.typing import Array

Var: TypeAlias = Any
"""A value of MIL, which has no type of ours."""
MIL_TYPES = {
    "float": "fp32",
    "half": "fp32",
    "bool": "bool",
    "int32": "int32",
    "int64": "int32",
    "int16": "int32",
    "uint16": "int32",
    "int8": "int32",
    "uint8": "int32",
}
"""Types of a program -> what MIL computes them in. Whole numbers are int32: the others are few operators' in
MIL, and sizes and indices, which ONNX has in int64, fit into it."""
_STORED = {"fp32": np.float32, "int32": np.int32, "bool": np.bool_}
_MOST_RANK = 5


def mil_type(element: DType) -> str:
    """The type of MIL that holds an element type.

    Raises:
        UnsupportedOp: there is none.
    """
    found = MIL_TYPES.get(element.name)
    if found is None:
        raise UnsupportedOp(f"Core ML does not compute with {element}")
    return found


class Builder:
    """One function of MIL on its way.

    Attributes:
        mb: coremltools' builder of operators.
        values: what stands for tensors.
        target: version of MIL's operators: 15 for iOS15, and so on.
    """

    def __init__(self, mb: Any, target: int) -> None:
        self.mb = mb
        self.target = target
        self.values: dict[Tensor, Var] = {}

    def read(self, operator: Operator, place: int) -> Var:
        """An operand: a value, or the array of a constant.

        Raises:
            UnsupportedOp: it is absent, or of a type that Core ML lacks.
        """
        tensor = operator.inputs[place] if place < len(operator.inputs) else None
        if tensor is None:
            raise UnsupportedOp(f"its operand {place} is absent")
        return self.value(tensor)

    def value(self, tensor: Tensor) -> Var:
        """What stands for a tensor; a constant becomes one here, once."""
        if tensor not in self.values:
            assert tensor.is_constant, f"{tensor!r} is read before it is computed"
            self.values[tensor] = self.mb.const(val=constant_array(tensor), name=tensor.name)
        return self.values[tensor]

    def has(self, operator: Operator, place: int) -> bool:
        """True if an operand is given."""
        return place < len(operator.inputs) and operator.inputs[place] is not None

    def known(self, operator: Operator, place: int, what: str) -> Array:
        """The elements of an operand that does not depend on what is fed.

        Raises:
            UnsupportedOp: it does, or is absent.
        """
        found = self.maybe_known(operator, place)
        if found is None:
            raise UnsupportedOp(f"{what} depends on what is fed")
        return found

    def maybe_known(self, operator: Operator, place: int) -> Array | None:
        """As `known`; None where it depends on what is fed, or is absent."""
        if not self.has(operator, place):
            return None
        tensor = operator.inputs[place]
        assert tensor is not None
        if tensor.is_constant:
            return np.asarray(tensor.array())
        return self.content(self.values[tensor])

    def content(self, value: Var) -> Array | None:
        """The elements of a value, if MIL knows them."""
        found = getattr(value, "val", None)
        return None if found is None else np.asarray(found)

    def shape(self, value: Var) -> tuple[int | None, ...]:
        """Sizes of a value, None for those that are open."""
        return tuple(int(n) if isinstance(n, (int, np.integer)) else None for n in value.shape)

    def sizes(self, value: Var) -> tuple[int, ...]:
        """Sizes of a value.

        Raises:
            UnsupportedOp: they are not all known.
        """
        shape = self.shape(value)
        if None in shape:
            raise UnsupportedOp("the sizes of its operand are not known", hint="give them: --shape NAME=...")
        return tuple(n for n in shape if n is not None)

    def type(self, value: Var) -> str:
        """MIL's name of a value's type: "fp32", "int32" or "bool"."""
        names: dict[str, str] = {"fp32": "fp32", "int32": "int32", "bool": "bool", "fp16": "fp16"}
        text = str(value.dtype.__name__ if hasattr(value.dtype, "__name__") else value.dtype)
        return names.get(text, text)

    def is_float(self, value: Var) -> bool:
        return self.type(value).startswith("fp")

    def cast(self, value: Var, wanted: str) -> Var:
        """A value in another type; itself where it has that."""
        return value if self.type(value) == wanted else self.mb.cast(x=value, dtype=wanted)

    def like(self, number: float, value: Var) -> Any:
        """A number in the type of a value."""
        return _STORED[self.type(value)](number)

    def require_float(self, value: Var) -> Var:
        """The value.

        Raises:
            UnsupportedOp: it is not of floats.
        """
        if not self.is_float(value):
            raise UnsupportedOp(f"Core ML has it of floats only, not of {self.type(value)}")
        return value


def constant_array(tensor: Tensor) -> Array:
    """The elements of a constant in the type that MIL has for them.

    Raises:
        UnsupportedOp: there is no such type, or numbers are beyond it.
    """
    array = tensor.array()
    wanted = _STORED[mil_type(tensor.dtype)]
    if array.dtype.kind in "iu" and array.size:
        limits = np.iinfo(np.int32)
        if int(array.max()) > limits.max or int(array.min()) < limits.min:
            raise UnsupportedOp(
                f"the constant '{tensor.name}' has numbers beyond int32, the widest of Core ML"
            )
    found: Array = np.ascontiguousarray(array, wanted).reshape(array.shape)
    return found


def checked(value: Var) -> Var:
    """A result, if Core ML can hold it.

    Raises:
        UnsupportedOp: it has too many axes.
    """
    if len(value.shape) > _MOST_RANK:
        raise UnsupportedOp(f"it makes {len(value.shape)} axes; Core ML has {_MOST_RANK} at most")
    return value


def whole(numbers: Any) -> list[int]:
    """A sequence of whole numbers as Python's own."""
    return [int(n) for n in np.asarray(numbers).reshape(-1)]
