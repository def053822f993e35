"""State that a program keeps from one run to the next, in LiteRT's resource variables.

y, v/next = f(x, v)     ->     v = READ_VARIABLE(h);  y, v/next = f(x, v);  ASSIGN_VARIABLE(h, v/next)

Recurrent ops of LiteRT keep their state themselves where all of it is theirs; `reset_all_variables` of an
interpreter begins anew. For any other state a subgraph that CALL_ONCE runs before the first run gives the
variables their first values. Another one of the same content is a signature without inputs and outputs, so
that an app can begin anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.interface import State
from thinflow.ir.types import RESOURCE, DType
from thinflow.lower.tflite.wiring import Wiring
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
    main, used = _kept_by_ops(main, used)
    if not used:
        return replace(program, subgraphs=[main, *program.subgraphs[1:]], signatures=_without(program, main))
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
    named = _without(program, whole)
    # Beside that of reset the main subgraph needs a signature, too.
    named = named or {_SIGNATURE: Signature({t.name: t for t in inputs}, {t.name: t for t in outputs})}
    subgraphs = [whole, *program.subgraphs[1:], *starts]
    return replace(program, subgraphs=subgraphs, signatures={**named, RESET: Signature({}, {})})


def _without(program: Program, main: Subgraph) -> dict[str, Signature]:
    """The signatures without what the main subgraph takes and gives no more."""
    left = {*main.inputs, *main.outputs}
    first = {*program.subgraphs[0].inputs, *program.subgraphs[0].outputs}
    return {
        key: Signature(*({n: t for n, t in side.items() if t in left or t not in first} for side in pair))
        for key, pair in program.signatures.items()
    }


def _handle(state: State) -> tuple[Tensor, Operator]:
    """A handle of the variable. Each subgraph and each use may have its own: the name tells which it is."""
    handle = Tensor(f"{state.name}/handle", (), RESOURCE)
    return handle, Operator("VAR_HANDLE", [], [handle], {"container": "", "shared_name": state.name})


def _read(state: State, tensor: Tensor) -> list[Operator]:
    handle, made = _handle(state)
    if not _holds_reals(state, tensor):
        return [made, Operator("READ_VARIABLE", [handle], [tensor])]
    # The variable holds real numbers: the codes that come in and those that go out have scales of their own.
    real = Tensor(f"{state.name}/read", tensor.shape, _element(state, tensor))
    return [made, Operator("READ_VARIABLE", [handle], [real]), Operator("QUANTIZE", [real], [tensor])]


def _written(state: State, tensor: Tensor) -> list[Operator]:
    handle, made = _handle(state)
    if not _holds_reals(state, tensor):
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
    return state.start.dtype if _holds_reals(state, tensor) else tensor.dtype


def _holds_reals(state: State, tensor: Tensor) -> bool:
    """True if the variable holds what the codes of the program stand for: the model's state is no codes."""
    return tensor.quantization is not None and state.start.dtype is not tensor.dtype


# --- state that a recurrent op keeps itself -----------------------------------------------------------------


def _kept_by_ops(main: Subgraph, states: list[State]) -> tuple[Subgraph, list[State]]:
    """The program with the state of recurrent ops in the variables that they have, as LiteRT's converter
    leaves it; and the states that are left. All or none, so that one way puts all first values back.
    """
    wiring = Wiring(main)
    fed, given = {t.name: t for t in main.inputs}, {t.name: t for t in main.outputs}
    pairs = [(s, fed[s.input.name], given[s.output.name]) for s in states]
    fills = [_filling(wiring, x, y, s) for s, x, y in pairs]
    if None in fills:
        return main, states
    ends = {t for _, x, y in pairs for t in (x, y)}
    inputs, outputs = ([t for t in side if t not in ends] for side in (main.inputs, main.outputs))
    kept = Subgraph(inputs, outputs, [o for o in main.operators if o not in fills], name=main.name)
    kept.remove_dead()
    return kept, []


_OUTPUT_STATE = 18
"""Operand of UNIDIRECTIONAL_SEQUENCE_LSTM: what it gave last."""


def _filling(wiring: Wiring, before: Tensor, behind: Tensor, state: State) -> Operator | None:
    """The operator that writes a state into the variable of an op, which leaves just that state there."""
    # An operator stands there once for each input.
    readers = list(dict.fromkeys(wiring.readers(before)))
    if len(readers) != 1 or readers[0].code != "MAXIMUM" or not readers[0].outputs[0].is_variable:
        return None
    (variable,) = readers[0].outputs
    # Beside the op itself there is what reads the state that it leaves.
    users = [o for o in wiring.readers(variable) if o.code != "SELECT_V2"]
    grid = variable.quantization
    # What LiteRT's variables begin with: the real number 0.
    zero = 0 if grid is None else int(grid.zero_point[0])
    if len(users) != 1 or (state.start.numpy() != zero).any():
        return None
    return readers[0] if variable is _state_in(wiring, users[0], behind) else None


def _state_in(wiring: Wiring, user: Operator, tensor: Tensor) -> Tensor | None:
    """The variable whose content a tensor is once an op has run; None if it is something else."""
    made = wiring.producer(tensor)
    while made is not None and made.code == "RESHAPE" and made.inputs[0] is not None:
        made = wiring.producer(made.inputs[0])
    if made is None:
        return None
    if made.code == "SELECT_V2":
        return made.inputs[2]
    sequence, begin = made.inputs[0], made.inputs[1]
    if made.code != "STRIDED_SLICE" or sequence is not user.outputs[0] or begin is None:
        return None
    # The output of the last step is what stays of outputs.
    axis = 0 if user.options.get("time_major") else 1
    last = (sequence.shape or ())[axis] if sequence is not None else None
    mask = 1 << axis
    is_row = made.options.get("shrink_axis_mask") == mask and last is not None and begin.is_constant
    return user.inputs[_OUTPUT_STATE] if is_row and begin.array()[axis] == (last or 0) - 1 else None
