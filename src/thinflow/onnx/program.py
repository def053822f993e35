"""An ONNX program in memory: what its tensors and operators have beside those of other targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.errors import GraphError, ParameterError, UnsupportedOp
from thinflow.ir.brief import brief_repr
from thinflow.ir.types import STRING
from thinflow.onnx.protos import PACKED_BITS, STORED_TYPES
from thinflow.program import model
from thinflow.typing import Array

_TABLES = frozenset(
    f"{side}{kind}" for side in ("keys_", "values_", "default_") for kind in ("strings", "int64s", "floats")
) | {"default_int64", "default_float"}
"""Attributes of lookup tables, which hold any numbers, or texts."""
DEFAULT_OPSET = 17
OPSETS = range(17, 22)
"""The versions of ONNX's op set that can be written."""
SMALL_BYTES = 1024
"""Constants up to this size are encoded with the operators that read them."""


@dataclass(eq=False, repr=False)
class Tensor(model.Tensor):
    """A value of a program, or a constant; its name is unique in the file."""

    data: Array | None = None

    @property
    def is_streamed(self) -> bool:
        """True if it is a constant too large to be encoded with the operators that read it."""
        return self.data is not None and self.dtype is not STRING and self.stored_bytes > SMALL_BYTES

    @property
    def stored_bytes(self) -> int:
        """Bytes that a constant takes in a file; elements of less than a byte are packed."""
        array = self.array()
        bits = PACKED_BITS.get(self.dtype.name)
        return array.nbytes if bits is None else -(-array.size * bits // 8)


@dataclass(eq=False, repr=False)
class Operator(model.Operator[Tensor]):
    """One step of a program.

    `code` stands behind its domain if that is not ONNX's own. `options` are int, float, str, a sequence of
    int or float, or a `Tensor`. `origin` becomes the name of the ONNX node.

    Attributes:
        bodies: attribute -> the program it holds, of Loop and If. Its last `captured` inputs stand for what
            it reads from outside.
        captured: how many of the last inputs are there for the bodies only.
    """

    bodies: dict[str, Program] = field(default_factory=dict)
    captured: int = 0


@brief_repr
@dataclass(eq=False)
class Program(model.Block[Tensor, Operator]):
    """The content of an .onnx file; it is fed and fetched by the names of its inputs and outputs.

    Attributes:
        opset: version of ONNX's op set.
        description: kept in the file.
        metadata: keys and texts that are kept in the file, too.
    """

    opset: int = DEFAULT_OPSET
    description: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)

    def programs(self) -> list[Program]:
        """This one and all that its operators hold, each before those it holds itself."""
        programs = [self]
        for program in programs:  # grows on the way
            programs += [body for operator in program.operators for body in operator.bodies.values()]
        return programs

    def homes(self) -> dict[Tensor, Program]:
        """Every constant and where it belongs: to the one program that reads it, else to this one.

        What takes much room belongs to this one as well, where it can be streamed.
        """
        homes: dict[Tensor, Program] = {}
        for program in self.programs():
            for tensor in program.tensors():
                if tensor.is_constant:
                    # Read in two places: the names of the outermost graph are seen in all bodies. A large one
                    # must lie there, since only the outermost graph is written as a stream.
                    homes[tensor] = self if tensor in homes or tensor.is_streamed else program
        return homes

    def validate(self) -> None:
        """Check the structure: order, writers, names, types.

        Raises:
            GraphError: naming the operator or tensor at fault.
        """
        names: set[str] = set()
        homes = self.homes()
        for program in self.programs():
            program.check_order()
            for tensor in program.tensors():
                # A constant that several programs read is one tensor of the file, and looked at once.
                if not tensor.is_constant or homes.pop(tensor, None) is not None:
                    _validate_tensor(tensor, names)


def _validate_tensor(tensor: Tensor, names: set[str]) -> None:
    if not tensor.name or tensor.name in names:
        raise GraphError(f"two tensors are named '{tensor.name}'")
    names.add(tensor.name)
    if tensor.dtype.name not in STORED_TYPES:
        raise GraphError(f"tensor '{tensor.name}': ONNX has no type {tensor.dtype}")


def check_options(options: Mapping[str, Any]) -> None:
    """Raise UnsupportedOp for an attribute of a kind that ONNX does not have."""
    for name, value in options.items():
        numbers = value if isinstance(value, (tuple, list, range)) else [value]
        plain = all(isinstance(v, (int, float, np.integer, np.floating)) and abs(v) < 2**31 for v in numbers)
        # NaN and infinity fail every comparison with a bound, and are good floats all the same.
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


def unique_names(taken: set[str]) -> Callable[[str], str]:
    """Gives names that are not taken yet; a number follows one that is."""

    def unique(wished: str) -> str:
        name, count = wished, 0
        while name in taken:
            count += 1
            name = f"{wished}_{count}"
        taken.add(name)
        return name

    return unique
