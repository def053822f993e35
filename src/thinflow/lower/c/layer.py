"""What forms make: calls of kernels, and what these are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from thinflow.tflite.model import Operator, Tensor
from thinflow.typing import Array

_TYPE_BYTES = {"float": 4, "int8_t": 1, "uint8_t": 1, "int16_t": 2, "int32_t": 4, "int64_t": 8, "uint64_t": 8}


@dataclass(eq=False)
class Constant:
    """An array in the file of weights.

    Attributes:
        name: what it is for; the writer makes it unique.
        data: one-dimensional, in the order the kernel reads it; its dtype is that of C.
    """

    name: str
    data: Array


@dataclass(eq=False)
class Scratch:
    """Memory of the arena that one layer uses while it runs."""

    size_bytes: int


@dataclass(eq=False)
class State:
    """Memory that keeps what it holds from run to run.

    Attributes:
        name: what it is for; the writer makes it unique.
        type: of its elements, in C.
        count: of them.
        first: the number that each begins with; of more than a byte only 0.
        values: what they begin with instead, if that differs.
    """

    name: str
    type: str
    count: int
    first: int = 0
    values: Array | None = None

    @property
    def size_bytes(self) -> int:
        """Of all its elements."""
        return self.count * _TYPE_BYTES.get(self.type, 4)


@dataclass
class Struct:
    """Values under the names of a C struct's members, which a kernel declares."""

    type: str
    members: Mapping[str, Argument]


@dataclass(frozen=True)
class Verbatim:
    """An argument that is C already."""

    text: str


NOTHING = Verbatim("NULL")
"""In place of an operand that is absent."""

Argument: TypeAlias = (
    "Tensor | Constant | Scratch | State | Struct | Verbatim | tuple[int, ...] | int | float"
)


NAMING = ("type", "rounding", "op", "halves", "stride", "pitch", "step", "blocks", "rest", "outputs", "own")
"""Words that tell functions of one kernel apart; what other words stand for follows from these."""


def function_name(kernel: str, words: Mapping[str, str]) -> str:
    """The name of the function that a kernel is with these words."""
    return "_".join([kernel, *(words[word] for word in NAMING if word in words)])


@dataclass
class Call:
    """A call of a kernel.

    Attributes:
        kernel: the name of its file.
        words: what stands for the `$` words in it; of these, some name the function, see `NAMING`.
    """

    kernel: str
    words: dict[str, str]
    arguments: list[Argument]

    @property
    def function(self) -> str:
        return function_name(self.kernel, self.words)


@dataclass
class Layer:
    """An operator in C.

    Attributes:
        operator: what it computes.
        calls: in the order they run; none if the output is the input.
        macs: products that are summed.
        in_place: the input that the first output may lie on; None if it may not.
        same: the input that the first output is; None if it is memory of its own.
        brace: C behind the calls that opens or closes braces around layers; {0} is the place of `verdict`.
        verdict: what it looks at.
        source: the operator of the network that it is a part of.
        count: how often it runs in a run of the network.
    """

    operator: Operator
    calls: list[Call] = field(default_factory=list)
    macs: int = 0
    in_place: int | None = None
    same: int | None = None
    brace: str = ""
    verdict: Tensor | None = None
    source: Operator | None = None
    count: int = 1

    @property
    def whole(self) -> Operator:
        """What it is, or is a part of."""
        return self.source or self.operator

    def scratches(self) -> list[Scratch]:
        return [a for a in self.arguments() if isinstance(a, Scratch)]

    def states(self) -> list[State]:
        return [a for a in self.arguments() if isinstance(a, State)]

    def constants(self) -> list[Constant]:
        return [a for a in self.arguments() if isinstance(a, Constant)]

    def arguments(self) -> list[Argument]:
        """What its calls are given, each once, what is in structs included."""
        # By identity: what is equal may be two pieces of memory.
        found: dict[int, Argument] = {}
        pending = [a for call in self.calls for a in call.arguments]
        while pending:
            argument = pending.pop(0)
            if isinstance(argument, Struct):
                pending = [*argument.members.values(), *pending]
            found.setdefault(id(argument), argument)
        return list(found.values())


def flat(array: Array) -> Array:
    """The elements in row-major order."""
    return np.ascontiguousarray(array).reshape(-1)
