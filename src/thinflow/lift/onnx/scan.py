"""ONNX's Scan: one iteration for each slice of some tensors."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.decompose.terms import Term, stack
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32, TensorSpec
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.control import Iteration, for_all, settled
from thinflow.lift.onnx.formulas import Formula
from thinflow.lift.onnx.values import opset
from thinflow.lift.rules import lifts

_FIRST_WITHOUT_BATCH = 9
"""The version of ONNX's op set from which on Scan has no axis for a batch of its own."""
_LARGEST_BATCH = 64
"""Sequences of a batch; each is a loop of its own."""


@lifts("onnx.Scan")
def _scan(c: Call) -> list[Value]:
    """Scan: states first, then what it goes along."""
    if opset(c) < _FIRST_WITHOUT_BATCH:
        return _by_sequence(c)
    iteration = Iteration.of(c)
    states, along = _operands(c, iteration, 0)
    axes = [a % len(t.shape) for a, t in zip(_each(c, "scan_input_axes", len(along)), along, strict=True)]
    turned = _each(c, "scan_input_directions", len(along))
    end, stacks = gone_along(c, iteration, states, along, axes, turned)
    ways = _each(c, "scan_output_directions", len(stacks))
    places = _each(c, "scan_output_axes", len(stacks))
    placed = [_placed(*each) for each in zip(stacks, places, ways, strict=True)]
    return [t.value for t in (*end, *placed)]


def _by_sequence(c: Call) -> list[Value]:
    """Scan of version 8: the first axis of everything is the batch, the second that of the steps."""
    if c.has(0):
        raise UnsupportedOp("its sequences have lengths of their own")
    iteration = Iteration.of(c)
    states, along = _operands(c, iteration, 1)
    batch = along[0].static_size(0, "the size of its batch")
    if not 0 < batch <= _LARGEST_BATCH:
        raise UnsupportedOp(f"it has a batch of {batch} sequences")
    turned = _each(c, "directions", len(along))
    rows = []
    for number in range(batch):
        own, slices = ([t.at(0, number) for t in terms] for terms in (states, along))
        end, stacks = gone_along(c, iteration, own, slices, [0] * len(slices), turned)
        rows.append([*end, *stacks])
    return [stack(parts, 0).value for parts in zip(*rows, strict=True)]


def _operands(c: Call, iteration: Iteration, first: int) -> tuple[list[Term], list[Term]]:
    """The states, and what is gone along."""
    body = Formula(c)
    given = [body.term(c[i]) for i in range(first, len(c.xs) - len(iteration.captured))]
    slices = int(c.get("num_scan_inputs", 0))
    if not 0 < slices <= len(given):
        raise UnsupportedOp(f"it states {slices} operands to go along, it has {len(given)} operands")
    return given[: len(given) - slices], given[len(given) - slices :]


def gone_along(
    c: Call,
    iteration: Iteration,
    states: Sequence[Term],
    along: Sequence[Term],
    axes: Sequence[int],
    turned: Sequence[int],
) -> tuple[list[Term], list[Term]]:
    """The last states, and what the iterations gave, each on a new first axis."""
    body = along[0].body
    last = body.constant(0, INT32) if not any(turned) else along[0].sizes().at(0, axes[0]) - 1

    def after(now: Sequence[TensorSpec]) -> list[TensorSpec]:
        return iteration.specs([*now, *map(_slice, along, axes)])

    specs, results = settled([s.value.spec for s in states], after)

    def operands(count: Term, own: Sequence[Term], fixed: Sequence[Term]) -> list[Value]:
        back = fixed[-1] - count
        parts = [
            t.gather(back if is_turned else count, axis).value
            for t, axis, is_turned in zip(fixed, axes, turned, strict=False)
        ]
        return [*(t.value for t in own), *parts]

    size = next((n for t, a in zip(along, axes, strict=True) if (n := t.shape[a]) is not None), None)
    times: int | Term = along[0].sizes().at(0, axes[0]) if size is None else size
    rows = results[len(states) :]
    return for_all(c, iteration, times, operands, states, [*along, last], (specs, rows))


def _each(c: Call, option: str, count: int) -> tuple[int, ...]:
    """A number for each of so many operands or results; 0 where the option is not there."""
    numbers = tuple(int(n) for n in c.get(option, None) or (0,) * count)
    if len(numbers) != count:
        raise UnsupportedOp(f"its option '{option}' has {len(numbers)} numbers, {count} are needed")
    return numbers


def _slice(along: Term, axis: int) -> TensorSpec:
    shape = along.shape
    return TensorSpec(along.dtype, (*shape[:axis], *shape[axis + 1 :]))


def _placed(rows: Term, axis: int, is_turned: int) -> Term:
    """What the iterations gave, on its axis and in its order."""
    y = rows.reverse(0) if is_turned else rows
    rank = len(y.shape)
    axis %= rank
    return y if not axis else y.transpose((*range(1, axis + 1), 0, *range(axis + 1, rank)))
