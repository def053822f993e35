"""Loops, branches and variables in a row: one block of operators, some of which open and close braces in C.

    WHILE  ->  LOOP (copies the first values), condition, LOOP_TEST, body, LOOP_NEXT (copies the next ones)
    IF     ->  BRANCH, one side, BRANCH_ELSE, the other one, BRANCH_END; each side copies its results

What a loop only hands on is not copied, and stays the constant that it may be. A plan of memory by lifetimes
holds for such a row as it does without: LOOP_NEXT reads all that has to live until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.layer import State
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.schema import SUBGRAPH_OPTIONS

LOOP, LOOP_TEST, LOOP_NEXT = "LOOP", "LOOP_TEST", "LOOP_NEXT"
BRANCH, BRANCH_ELSE, BRANCH_END = "BRANCH", "BRANCH_ELSE", "BRANCH_END"
COPY = "COPY"
EFFECTS = frozenset((LOOP, LOOP_TEST, LOOP_NEXT, BRANCH, BRANCH_ELSE, BRANCH_END, "ASSIGN_VARIABLE", COPY))
"""Operators that do more than write their outputs."""
RENAMES = frozenset(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"))
"""Operators that give other sizes to the same numbers."""


def flattened(program: Program) -> Subgraph:
    """The first subgraph with all that it calls in it; tensors of what is called are new ones.

    Raises:
        UnsupportedOp: a variable begins with what is computed.
    """
    main = program.subgraphs[0]
    if not any(SUBGRAPH_OPTIONS & o.options.keys() or o.code == "VAR_HANDLE" for o in main.operators):
        return main
    expansion = _Expansion(program)
    env: dict[Tensor, Tensor] = {}
    operators = expansion.expand(main, env)
    outputs = [env.get(t, t) for t in main.outputs]
    return Subgraph(main.inputs, outputs, operators, main.name)


def nesting(operator: Operator) -> int:
    """By how much what follows lies deeper in loops and branches: 1 where one opens, -1 where it closes."""
    return (operator.code in (LOOP, BRANCH)) - (operator.code in (LOOP_NEXT, BRANCH_END))


def remove_unused(block: Subgraph) -> None:
    """Drop operators whose results nobody reads, unless they have an effect. O(edges)."""
    live = set(block.outputs)
    kept: list[Operator] = []
    for operator in reversed(block.operators):
        if operator.code in EFFECTS or any(t in live for t in operator.outputs):
            kept.append(operator)
            live.update(operator.reads())
    block.operators = kept[::-1]


class _Expansion:
    """Puts the operators of subgraphs into one list."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.variables: dict[str, State] = {}
        self.handles: dict[Tensor, State] = {}

    def expand(self, block: Subgraph, env: dict[Tensor, Tensor]) -> list[Operator]:
        """The operators of a block; `env` says what its tensors are outside, and is added to."""
        made: list[Operator] = []
        is_main = block is self.program.subgraphs[0]
        for operator in block.operators:
            inputs = [None if t is None else env.get(t, t) for t in operator.inputs]
            if operator.code == "WHILE":
                made += self._loop(operator, inputs, env, is_main)
            elif operator.code == "IF":
                made += self._branch(operator, inputs, env, is_main)
            elif operator.code in ("CALL", "STABLEHLO_COMPOSITE"):
                made += self._call(operator, inputs, env)
            elif operator.code == "CALL_ONCE":
                self._first_values(self._subgraph(operator, "init_subgraph_index"))
            elif operator.code in ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"):
                made += self._variable(operator, inputs, env, is_main)
            else:
                made.append(replace(operator, inputs=inputs, outputs=_fresh(operator.outputs, env, is_main)))
        return made

    def _subgraph(self, operator: Operator, option: str) -> Subgraph:
        return self.program.subgraphs[int(operator.options.get(option, 0))]

    # --- calls ------------------------------------------------------------------------------------------

    def _call(
        self, operator: Operator, inputs: Sequence[Tensor | None], env: dict[Tensor, Tensor]
    ) -> list[Operator]:
        """What is called, in place of the call."""
        option = "subgraph" if operator.code == "CALL" else "decomposition_subgraph_index"
        called = self._subgraph(operator, option)
        inner = _bound(called, inputs)
        made = self.expand(called, inner)
        env.update(zip(operator.outputs, (inner.get(t, t) for t in called.outputs), strict=True))
        return made

    # --- loops ------------------------------------------------------------------------------------------

    def _loop(
        self,
        operator: Operator,
        inputs: Sequence[Tensor | None],
        env: dict[Tensor, Tensor],
        is_main: bool,
    ) -> list[Operator]:
        condition = self._subgraph(operator, "cond_subgraph_index")
        body = self._subgraph(operator, "body_subgraph_index")
        values: list[Tensor | None] = []
        changing: list[int] = []
        for number, (given, result) in enumerate(zip(inputs, operator.outputs, strict=True)):
            if given is None or body.outputs[number] is body.inputs[number]:
                # Handed on as it is: inside and behind the loop it is what it was before.
                values.append(given)
                if given is not None:
                    env[result] = given
                continue
            changing.append(number)
            values += _fresh([result], env, is_main)
        carried = [values[n] for n in changing]
        asked, inner = _bound(condition, values), _bound(body, values)
        test = self.expand(condition, asked)
        steps = self.expand(body, inner)
        found = [inner.get(body.outputs[n], body.outputs[n]) for n in changing]
        found, saved = _apart(found, carried, steps)
        verdict = asked.get(condition.outputs[0], condition.outputs[0])
        first = Operator(LOOP, [inputs[n] for n in changing], [t for t in carried if t is not None])
        # What comes from before the loop is needed in the next round again, so that it lives as long as it.
        made = {t for o in (*test, *steps, *saved) for t in o.outputs}
        lasting = {t: None for o in (*test, *steps, *saved) for t in o.reads() if t not in made}
        count = {"count": len(changing)}
        return [
            first,
            *test,
            Operator(LOOP_TEST, [verdict], []),
            *steps,
            *saved,
            Operator(LOOP_NEXT, [*found, *carried, *lasting], [], count),
        ]

    # --- branches ---------------------------------------------------------------------------------------

    def _branch(
        self,
        operator: Operator,
        inputs: Sequence[Tensor | None],
        env: dict[Tensor, Tensor],
        is_main: bool,
    ) -> list[Operator]:
        results = _fresh(operator.outputs, env, is_main)
        made = [Operator(BRANCH, [inputs[0]], results)]
        for option, ending in (("then_subgraph_index", BRANCH_ELSE), ("else_subgraph_index", BRANCH_END)):
            side = self._subgraph(operator, option)
            inner = _bound(side, inputs[1:])
            made += self.expand(side, inner)
            found = [inner.get(t, t) for t in side.outputs]
            made += [Operator(COPY, [x, y], []) for x, y in zip(found, results, strict=True)]
            made.append(Operator(ending, [], []))
        return made

    # --- variables --------------------------------------------------------------------------------------

    def _variable(
        self, operator: Operator, inputs: list[Tensor | None], env: dict[Tensor, Tensor], is_main: bool
    ) -> list[Operator]:
        if operator.code == "VAR_HANDLE":
            self.handles[_known(operator.outputs[0], env)] = self._state(operator)
            return []
        handle = inputs[0]
        assert handle is not None
        options: dict[str, Any] = {"state": self.handles[handle]}
        if operator.code == "READ_VARIABLE":
            return [Operator(operator.code, [], _fresh(operator.outputs, env, is_main), options)]
        return [Operator(operator.code, [inputs[1]], [], options)]

    def _state(self, handle: Operator) -> State:
        name = str(handle.options.get("shared_name", ""))
        key = f"{handle.options.get('container', '')}/{name}"
        return self.variables.setdefault(key, State(name or "variable", "int8_t", 0))

    def _first_values(self, block: Subgraph) -> None:
        """What variables are before the first run."""
        handles = {o.outputs[0]: o for o in block.operators if o.code == "VAR_HANDLE"}
        for operator in block.operators:
            if operator.code != "ASSIGN_VARIABLE":
                continue
            handle, value = operator.inputs[0], operator.inputs[1]
            if value is None or not value.is_constant or handle not in handles:
                raise UnsupportedOp("what a variable begins with is computed; C needs it constant")
            self._state(handles[handle]).values = value.array().reshape(-1)


def _bound(block: Subgraph, values: Iterable[Tensor | None]) -> dict[Tensor, Tensor]:
    """What the inputs of a subgraph are where it is called."""
    return {x: given for x, given in zip(block.inputs, values, strict=True) if given is not None}


def _known(tensor: Tensor, env: Mapping[Tensor, Tensor]) -> Tensor:
    return env.get(tensor, tensor)


def _fresh(tensors: Iterable[Tensor], env: dict[Tensor, Tensor], is_main: bool) -> list[Tensor]:
    """Tensors of this call alone: a subgraph may be called twice. Those of the network itself are its own."""
    if is_main:
        return [env.get(t, t) for t in tensors]
    return [env.setdefault(t, replace(t)) for t in tensors]


def _apart(
    found: Sequence[Tensor], carried: Sequence[Tensor | None], steps: Sequence[Operator]
) -> tuple[list[Tensor], list[Operator]]:
    """The next values of a loop, none of which lies where another is copied to; and copies to that end."""
    # Through what may be renamed memory only: a reshaped value is the value.
    source = {o.outputs[0]: o.inputs[0] for o in steps if o.code in RENAMES}
    apart, saved = [], []
    for number, tensor in enumerate(found):
        root: Tensor | None = tensor
        while root in source:
            root = source[root]
        if root in carried and root is not carried[number]:
            own = replace(tensor, data=None)
            saved.append(Operator(COPY, [tensor], [own]))
            apart.append(own)
        else:
            apart.append(tensor)
    return apart, saved
