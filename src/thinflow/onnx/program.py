"""An ONNX program in memory.

As on the LiteRT side tensors are objects: an operator lists the tensors it reads and writes, and names have
to be unique only when the file is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.errors import GraphError, ParameterError, UnsupportedOp
from thinflow.ir.brief import brief_repr
from thinflow.ir.types import STRING, DType
from thinflow.onnx.protos import ELEMENT_TYPES

_TABLES = frozenset(
    f"{side}{kind}" for side in ("keys_", "values_", "default_") for kind in ("strings", "int64s", "floats")
) | {"default_int64", "default_float"}
"""Attributes of lookup tables, which hold any numbers, or texts."""
DEFAULT_OPSET = 17
OPSETS = range(17, 22)
"""The versions of ONNX's op set that can be written."""
SMALL_BYTES = 1024
"""Constants up to this size are encoded with the operators that read them."""


@dataclass(eq=False)
class Tensor:
    """A value of a program, or a constant. Tensors are compared by identity.

    Attributes:
        name: unique in the program.
        shape: sizes, None for an unknown one; None alone for an unknown rank.
        dtype: element type.
        data: a constant's elements, an array of the tensor's shape; None if not constant.
    """

    name: str
    shape: tuple[int | None, ...] | None
    dtype: DType
    data: np.ndarray[Any, Any] | None = None

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def is_streamed(self) -> bool:
        """Whether it is a constant too large to be encoded with the operators that read it."""
        return self.data is not None and self.dtype is not STRING and self.data.nbytes > SMALL_BYTES

    def array(self) -> np.ndarray[Any, Any]:
        """The elements of a constant; not a copy."""
        assert self.data is not None, f"{self!r} is not constant"
        return self.data

    def __repr__(self) -> str:
        sizes = "?" if self.shape is None else ",".join("?" if n is None else str(n) for n in self.shape)
        return f"Tensor({self.name!r}, {self.dtype}[{sizes}]{', constant' if self.is_constant else ''})"


@dataclass(eq=False)
class Operator:
    """One step of a program.

    Attributes:
        code: name of the ONNX op ("Conv"), behind its domain if that is not ONNX's own.
        inputs: None for an optional input that is absent.
        outputs: tensors this operator alone writes.
        options: the op's attributes: int, float, str, a sequence of int or float, or a `Tensor`.
        origin: name of the source node it was made from; becomes the name of the ONNX node.
        bodies: attribute -> the program it holds, of Loop and If. Its last `captured` inputs stand for what
            it reads from outside.
        captured: how many of the last inputs are there for the bodies only.
    """

    code: str
    inputs: list[Tensor | None]
    outputs: list[Tensor]
    options: dict[str, Any] = field(default_factory=dict)
    origin: str = ""
    bodies: dict[str, Program] = field(default_factory=dict)
    captured: int = 0

    def __repr__(self) -> str:
        names = ", ".join("-" if t is None else t.name for t in self.inputs)
        return f"Operator({self.code}: {names} -> {', '.join(t.name for t in self.outputs)})"


@brief_repr
@dataclass(eq=False)
class Program:
    """What an .onnx file holds.

    Attributes:
        inputs, outputs: in order; fed and fetched by their names.
        operators: in the order they run.
        opset: version of ONNX's op set.
        description: kept in the file.
    """

    inputs: list[Tensor]
    outputs: list[Tensor]
    operators: list[Operator] = field(default_factory=list)
    opset: int = DEFAULT_OPSET
    name: str = "main"
    description: str = ""

    def tensors(self) -> list[Tensor]:
        """Every tensor once: inputs, then operator by operator what it reads and writes, then outputs."""
        seen: dict[Tensor, None] = dict.fromkeys(self.inputs)
        for operator in self.operators:
            for tensor in (*operator.inputs, *operator.outputs):
                if tensor is not None:
                    seen.setdefault(tensor)
        seen.update(dict.fromkeys(self.outputs))
        return list(seen)

    def programs(self) -> list[Program]:
        """This one and all that its operators hold, each before those it holds itself."""
        found = [self]
        for program in found:  # grows on the way
            found += [body for operator in program.operators for body in operator.bodies.values()]
        return found

    def constants(self) -> dict[Tensor, Program]:
        """Every constant and where it belongs: to the one program that reads it, else to this one.

        What takes much room belongs to this one as well, where it can be streamed.
        """
        homes: dict[Tensor, Program] = {}
        for program in self.programs():
            for tensor in program.tensors():
                if tensor.is_constant:
                    homes[tensor] = self if tensor in homes or tensor.is_streamed else program
        return homes

    def counts(self) -> Counter[str]:
        """How many operators of each kind there are, those in bodies aside."""
        return Counter(o.code for o in self.operators)

    def validate(self) -> None:
        """Check the structure: order, writers, names, types.

        Raises:
            GraphError: naming the operator or tensor at fault.
        """
        names: set[str] = set()
        constants = self.constants()
        for program in self.programs():
            program._validate_order()
            for tensor in program.tensors():
                if not tensor.is_constant or constants.pop(tensor, None) is not None:
                    _validate_tensor(tensor, names)

    def _validate_order(self) -> None:
        ready = {t for t in self.tensors() if t.is_constant} | set(self.inputs)
        for operator in self.operators:
            for tensor in operator.inputs:
                if tensor is not None and tensor not in ready:
                    raise GraphError(f"{operator!r} reads '{tensor.name}' before anything writes it")
            for tensor in operator.outputs:
                if tensor in ready:
                    raise GraphError(f"{operator!r} writes '{tensor.name}', which already has a value")
                ready.add(tensor)
        for tensor in self.outputs:
            if tensor not in ready:
                raise GraphError(f"nothing writes the output '{tensor.name}'")


def _validate_tensor(tensor: Tensor, names: set[str]) -> None:
    if not tensor.name or tensor.name in names:
        raise GraphError(f"two tensors are named '{tensor.name}'")
    names.add(tensor.name)
    if tensor.dtype.name not in ELEMENT_TYPES:
        raise GraphError(f"tensor '{tensor.name}': ONNX has no type {tensor.dtype}")


def check_options(options: Mapping[str, Any]) -> None:
    """Raise UnsupportedOp for an attribute of a kind that ONNX does not have."""
    for name, value in options.items():
        numbers = value if isinstance(value, (tuple, list, range)) else [value]
        plain = all(isinstance(v, (int, float, np.integer, np.floating)) and abs(v) < 2**31 for v in numbers)
        plain = plain or (isinstance(value, float) and not np.isfinite(value))
        plain = plain or name in _TABLES
        if not plain and not isinstance(value, (str, Tensor, type(None))):
            raise UnsupportedOp(f"the attribute '{name}' cannot be {value!r:.60}")


def check_opset(opset: int) -> int:
    """The version, if it can be written.

    Raises:
        ParameterError: it cannot.
    """
    if opset not in OPSETS:
        raise ParameterError(
            f"opset {opset} cannot be written",
            hint=f"choose {OPSETS[0]} to {OPSETS[-1]}; 17 runs nearly everywhere",
        )
    return opset
