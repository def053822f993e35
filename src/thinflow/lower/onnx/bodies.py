"""Programs inside of operators: what they read from outside, what they hand out, what Loop gathers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from thinflow.lower.onnx.fuse import fuse
from thinflow.lower.onnx.layout import settle_layout
from thinflow.onnx.program import Operator, Program, Tensor


def close(programs: Sequence[Program]) -> list[Tensor]:
    """Finish the bodies of one operator: what they read from outside, for which each has a last input then.

    Args:
        programs: what they read from outside they read as it is.
    """
    for program in programs:
        program.remove_dead()
    outer = _capture(programs)
    for program in programs:
        settle_layout(program)
        fuse(program)
        _separate_outputs(program)
    return outer


def _capture(programs: Sequence[Program]) -> list[Tensor]:
    """The tensors that bodies read from outside, for which each has a last input then. O(operators)."""
    outer: dict[Tensor, None] = {}
    for program in programs:
        written = {t for o in program.operators for t in o.outputs} | set(program.inputs)
        read = [t for o in program.operators for t in o.inputs] + list(program.outputs)
        outer.update(dict.fromkeys(t for t in read if t and not t.is_constant and t not in written))
    for program in programs:
        own = {t: Tensor(t.name, t.shape, t.dtype) for t in outer}
        for operator in program.operators:
            operator.inputs = [t if t is None else own.get(t, t) for t in operator.inputs]
        program.outputs = [own.get(t, t) for t in program.outputs]
        program.inputs = [*program.inputs, *own.values()]
    return list(outer)


def _separate_outputs(program: Program) -> None:
    """Give each output of a body a tensor of its own that an operator writes."""
    written = {t for operator in program.operators for t in operator.outputs}
    for number, tensor in enumerate(program.outputs):
        # What is handed through, or handed out twice, has no name of its own as an output.
        if tensor in written and tensor not in program.outputs[:number]:
            continue
        copy = Tensor(f"{tensor.name}/copy", tensor.shape, tensor.dtype)
        program.operators.append(Operator("Identity", [tensor], [copy], origin=copy.name))
        program.outputs[number] = copy


# ---- Lists that a loop fills in order, one item in each iteration, as what Loop itself gathers.
#
# A list that is a variable of the loop is copied whole in every iteration. A loop that writes item i in
# iteration i, and does not read the list, needs not do that: ONNX puts what each iteration gives side by
# side.


def gathered_rows(
    operators: Sequence[Operator],
    arguments: Sequence[Tensor],
    first: Sequence[Tensor],
    results: Sequence[Tensor],
) -> dict[int, Tensor]:
    """Variable -> the item that each iteration writes behind those before. O(variables + operators).

    Args:
        operators: of the loop's body.
        arguments: the variables.
        first: what they are before the first iteration.
        results: what they are in the next iteration, and then other results.
    """
    producers = {t: o for o in operators for t in o.outputs}
    counters = {arguments[n] for n in counters_of(operators, arguments, first, results)}
    reads = [t for o in operators for t in o.inputs if t is not None] + list(results)
    found = {}
    for number, (argument, result) in enumerate(zip(arguments, results, strict=False)):
        row = _written(producers, result, argument, counters)
        # Read once each, by the write itself and as the next iteration's list: nobody else looks into it.
        if row is not None and reads.count(argument) == 1 and reads.count(result) == 1:
            found[number] = row
    return found


def counters_of(
    operators: Sequence[Operator],
    arguments: Sequence[Tensor],
    first: Sequence[Tensor],
    results: Sequence[Tensor],
) -> set[int]:
    """The variables that count the iterations from 0."""
    producers = {t: o for o in operators for t in o.outputs}
    return {
        n
        for n, (argument, start, result) in enumerate(zip(arguments, first, results, strict=False))
        if _is(start, 0) and _is_next(producers.get(result), argument)
    }


def _is(tensor: Tensor, number: int) -> bool:
    return tensor.is_constant and tensor.array().shape == () and bool(tensor.array() == number)


def _is_next(operator: Operator | None, argument: Tensor) -> bool:
    """True if an operator adds 1 to a variable."""
    if operator is None or operator.code != "Add" or argument not in operator.inputs:
        return False
    others = [t for t in operator.inputs if t is not argument]
    return len(others) == 1 and others[0] is not None and _is(others[0], 1)


def _written(
    producers: Mapping[Tensor, Operator], result: Tensor, argument: Tensor, counters: set[Tensor]
) -> Tensor | None:
    """The one row that is written to a list, at the place a counter says."""
    scatter = producers.get(result)
    if scatter is None or scatter.code != "ScatterND" or scatter.options:
        return None
    spread = None if scatter.inputs[0] is None else producers.get(scatter.inputs[0])
    if argument not in (scatter.inputs[0], spread.inputs[0] if spread and spread.code == "Expand" else None):
        return None
    place, rows = scatter.inputs[1:3]
    # The counter on its way to a place: [1,1], int64.
    while place is not None and place not in counters:
        before = producers.get(place)
        if before is None or before.code not in ("Reshape", "Cast", "Identity", "Unsqueeze"):
            return None
        place = before.inputs[0]
    unsqueeze = None if rows is None else producers.get(rows)
    if unsqueeze is None or unsqueeze.code != "Unsqueeze":
        return None
    axes = unsqueeze.inputs[1]
    is_row = axes is not None and axes.is_constant and np.array_equal(axes.array(), [0])
    return unsqueeze.inputs[0] if is_row else None
