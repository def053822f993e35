"""Subgraphs under construction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.counters import merge_comparisons, replace_tensors, twin_counters
from thinflow.lower.tflite.lists import LISTS, Slot, items_of
from thinflow.lower.tflite.program import Subgraph, Tensor
from thinflow.lower.tflite.slots import tensor_of
from thinflow.tflite import schema


@dataclass
class Body:
    """A subgraph under construction, with its arguments and results as values of their own."""

    subgraph: Subgraph
    builder: Builder
    arguments: list[Slot]
    results: list[Slot]

    def reads(self) -> set[Tensor]:
        """The tensors that its operators read, and those that go through it under another number."""
        read = {t for o in self.subgraph.operators for t in o.inputs if t is not None}
        for number, result in enumerate(self.results):
            # A variable that is handed on as it came is not read; under another number it is.
            same = number < len(self.arguments) and result is self.arguments[number]
            if not same and isinstance(tensor := tensor_of(result), Tensor):
                read.add(tensor)
        return read


def numbered(main: Subgraph, subgraphs: Sequence[Subgraph]) -> list[Subgraph]:
    """The subgraphs that are called, `main` first; the options of the calling operators are put right."""
    found = [main]
    numbers: dict[int, int] = {}
    for subgraph in found:  # grows on the way
        for operator in subgraph.operators:
            for option in [o for o in operator.options if o in schema.SUBGRAPH_OPTIONS]:
                old = operator.options[option]
                # Numbers in options are those of `subgraphs`, from 1 on. What no operator calls any
                # more gets none and is left out.
                if old not in numbers:
                    numbers[old] = len(found)
                    found.append(subgraphs[old - 1])
                operator.options[option] = numbers[old]
    return found


def called_by(main: Subgraph, subgraphs: Sequence[Subgraph]) -> list[Subgraph]:
    """The subgraphs that `main` calls, also through others; `numbered` has not put numbers right yet."""
    found: dict[int, Subgraph] = {}
    stack = [main]
    while stack:
        for operator in stack.pop().operators:
            for number in (n for o, n in operator.options.items() if o in schema.SUBGRAPH_OPTIONS):
                if number not in found:
                    found[number] = subgraphs[number - 1]
                    stack.append(found[number])
    return list(found.values())


def without_twins(
    slots: Sequence[Slot], fixed: Sequence[bool], test: Body, turn: Body, decision: Tensor
) -> tuple[dict[int, int], Tensor]:
    """Variable -> an earlier one that nobody reads it beside any more, and what decides then."""
    # Only counters that start with a constant can be told to start alike.
    starts = [
        s if isinstance(s, Tensor) and s.is_constant and not keep else None
        for s, keep in zip(slots, fixed, strict=True)
    ]
    arguments, results = ([tensor_of(s) for s in side] for side in (turn.arguments, turn.results))
    twins = twin_counters(starts, arguments, results, turn.subgraph)
    for body in (test, turn):
        # In both subgraphs, each with arguments of its own for the same variable.
        by = {
            late: early
            for n, m in twins.items()
            if (late := tensor_of(body.arguments[n])) and (early := tensor_of(body.arguments[m]))
        }
        replace_tensors(body.builder.operators, by)
        body.results = [by.get(r, r) if isinstance(r, Tensor) else r for r in body.results]
        decision = by.get(decision, decision)
    if twins:
        decision = merge_comparisons(test.builder.operators, decision)
    return twins, decision


def stored(body: Body, number: int) -> Tensor:
    """The tensor that holds a result of a subgraph."""
    slot = body.results[number]
    return slot if isinstance(slot, Tensor) else items_of(body.builder, LISTS.list_of(slot))
