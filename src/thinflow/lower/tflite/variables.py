"""State that a program keeps from one run to the next, in LiteRT's resource variables.

y, v/next = f(x, v)     ->     v = READ_VARIABLE(h);  y, v/next = f(x, v);  ASSIGN_VARIABLE(h, v/next)

A subgraph that CALL_ONCE runs before the first run gives the variables their first values. Another one of the
same content is a signature without inputs and outputs, so that an app can begin anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.interface import State
from thinflow.ir.types import RESOURCE, DType
from thinflow.tflite.model import Operator, Program, Signature, Subgraph, Tensor

RESET = "reset_state"
"""The signature, and its subgraph, that puts the first values back."""
_START = "start_state"
_SIGNATURE = "serving_default"


def with_variables(program: Program, states: Sequence[State]) -> Program:
    """The program with variables where it takes and gives states. Without states it is the same.

    Args:
        program: its tensors for the ends of states have their names.
        states: of the graph that it was made from.

    Raises:
        UnsupportedOp: the program takes a state and does not give it, or has another type for it.
    """
    main = program.subgraphs[0]
    fed = {t.name: t for t in main.inputs}
    used = [s for s in states if s.input.name in fed]
    if not used:
        return program
    given = {t.name: t for t in main.outputs}
    lost = next((s for s in used if s.output.name not in given), None)
    if lost is not None:
        raise UnsupportedOp(f"the state '{lost.name}' is not computed in the model that reads it")
    numbers = len(program.subgraphs), len(program.subgraphs) + 1
    # Reads stand before everything and writes behind it, so all operators see the state of the run before.
    before: list[Operator] = [Operator("CALL_ONCE", [], [], {"init_subgraph_index": numbers[0]})]
    after: list[Operator] = []
    for state in used:
        before += _read(state, fed[state.input.name])
        after += _written(state, given[state.output.name])
    ends = {t for s in used for t in (fed[s.input.name], given[s.output.name])}
    inputs, outputs = ([t for t in side if t not in ends] for side in (main.inputs, main.outputs))
    whole = Subgraph(inputs, outputs, [*before, *main.operators, *after], name=main.name)
    # The same twice: CALL_ONCE takes a subgraph, and a signature wants one of its own.
    starts = [
        Subgraph([], [], [o for s in used for o in _started(s, fed[s.input.name])], name=name)
        for name in (_START, RESET)
    ]
    named = {
        key: Signature(*({n: t for n, t in side.items() if t not in ends} for side in pair))
        for key, pair in program.signatures.items()
    }
    # Beside that of reset the main subgraph needs a signature, too.
    named = named or {_SIGNATURE: Signature({t.name: t for t in inputs}, {t.name: t for t in outputs})}
    subgraphs = [whole, *program.subgraphs[1:], *starts]
    return replace(program, subgraphs=subgraphs, signatures={**named, RESET: Signature({}, {})})


def _handle(state: State) -> tuple[Tensor, Operator]:
    """A handle of the variable. Each subgraph and each use may have its own: the name tells which it is."""
    handle = Tensor(f"{state.name}/handle", (), RESOURCE)
    return handle, Operator("VAR_HANDLE", [], [handle], {"container": "", "shared_name": state.name})


def _read(state: State, tensor: Tensor) -> list[Operator]:
    handle, made = _handle(state)
    if tensor.quantization is None:
        return [made, Operator("READ_VARIABLE", [handle], [tensor])]
    # The variable holds real numbers: the codes that come in and those that go out have scales of their own.
    real = Tensor(f"{state.name}/read", tensor.shape, _element(state, tensor))
    return [made, Operator("READ_VARIABLE", [handle], [real]), Operator("QUANTIZE", [real], [tensor])]


def _written(state: State, tensor: Tensor) -> list[Operator]:
    handle, made = _handle(state)
    if tensor.quantization is None:
        return [made, Operator("ASSIGN_VARIABLE", [handle, tensor], [])]
    real = Tensor(f"{state.name}/written", tensor.shape, _element(state, tensor))
    assigned = Operator("ASSIGN_VARIABLE", [handle, real], [])
    return [made, Operator("DEQUANTIZE", [tensor], [real]), assigned]


def _started(state: State, tensor: Tensor) -> list[Operator]:
    """The operators that give a variable its first value."""
    handle, made = _handle(state)
    element = _element(state, tensor)
    numbers = np.asarray(state.start.numpy().astype(element.numpy(), copy=False))
    start = Tensor(f"{state.name}/start", numbers.shape, element, numbers)
    return [made, Operator("ASSIGN_VARIABLE", [handle, start], [])]


def _element(state: State, tensor: Tensor) -> DType:
    """The type of what the variable holds: the program's, which may be float where the model's was double."""
    return tensor.dtype if tensor.quantization is None else state.start.dtype
