"""A program as it was, to go back to."""

from __future__ import annotations

from thinflow.onnx.program import Operator, Program, Tensor

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
