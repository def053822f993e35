"""ONNX programs with their edges, the constants that rewriting makes, and the way back."""

from __future__ import annotations

from typing import TypeAlias

from thinflow.ir.types import INT64, DType
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.program import fusion, wiring
from thinflow.typing import Array

Match: TypeAlias = fusion.Match[Tensor, Operator]
Rewrite: TypeAlias = fusion.Rewrite[Tensor, Operator]


Wiring: TypeAlias = wiring.Wiring[Tensor, Operator]


def new_constant(name: str, array: Array, element: DType = INT64) -> Tensor:
    """A constant of some type."""
    return Tensor(name, tuple(array.shape), element, array)


# ---- A program as it was, to go back to.


Snapshot = tuple[
    list[tuple[Operator, str, list[Tensor | None], list[Tensor], dict[str, object]]], list[Tensor]
]


def snapshot(program: Program) -> Snapshot:
    """Everything that `restore` needs; the operators stay the same objects."""
    return [(o, o.code, list(o.inputs), list(o.outputs), dict(o.options)) for o in program.operators], list(
        program.outputs
    )


def restore(program: Program, before: Snapshot) -> None:
    """Make a program what it was."""
    operators, outputs = before
    program.operators = []
    for operator, code, inputs, written, options in operators:
        operator.code, operator.options = code, dict(options)
        operator.inputs, operator.outputs = list(inputs), list(written)
        program.operators.append(operator)
    program.outputs = list(outputs)
    program.remove_dead()
