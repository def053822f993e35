"""Many operators in one network, which is compiled once."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.lower.c.c_networks import Layers
from thinflow.ir.types import dtype
from thinflow.tflite.model import Operator, Program, Tensor
from thinflow.tflite.writer import to_bytes


class Many(Layers):
    """Operators beside each other, each of which reads the inputs and is an output."""

    def __init__(self, *shape: int, kind: str = "float", seed: int = 0) -> None:
        super().__init__(*shape, kind=kind, seed=seed)
        self.made: list[Tensor] = []
        self.x = self.last

    def value(self, name: str, shape: tuple[int, ...], kind: str | None = None) -> Tensor:
        """One more input."""
        found = self.tensor(name, shape) if kind is None else Tensor(name, shape, dtype(kind))
        self.block.inputs.append(found)
        return found

    def add(
        self, code: str, inputs: list[Any], *shape: int, kind: str | None = None, **options: Any
    ) -> Tensor:
        """An operator; arrays among its inputs are constants. Integers keep the scale of the first input."""
        number = len(self.made)
        read = [
            self.constant(f"c{n}_{number}", np.asarray(x)) if isinstance(x, np.ndarray | np.generic) else x
            for n, x in enumerate(inputs)
        ]
        q = (
            None
            if kind is not None
            else next(t for t in read if t is not None and not t.is_constant).quantization
        )
        y = Tensor(f"{code.lower()}_{number}", shape, dtype(kind or self.kind), None, q)
        self.block.operators.append(Operator(code, read, [y], options))
        self.made.append(y)
        return y

    def content(self) -> bytes:
        self.block.outputs[:] = self.made
        return to_bytes(Program([self.block]))


def ints(*numbers: int) -> Any:
    return np.int32(numbers)


def number(value: int) -> Any:
    return np.array(value, np.int32)
