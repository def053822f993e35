"""Loops that are recurrent networks, as ONNX's own LSTM, GRU and RNN, which run many times faster.

Their cells run one after the other over the whole sequence. Where lengths end a sequence the ops know that.
Where a mask does, which may have holes, the steps that count are brought to the front first, and back
afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from thinflow.ir.types import FLOAT
from thinflow.lower.cell_sums import Atom, NoCell, Sums
from thinflow.lower.cells import Cell, find_cells
from thinflow.lower.onnx.bodies import counters_of
from thinflow.lower.onnx.builder import Builder
from thinflow.lower.onnx.cell_steps import Condition, OnnxSteps, functions_of, weights_of
from thinflow.lower.onnx.packing import Packed, is_zero, is_zeros, packed
from thinflow.onnx.program import Operator, Tensor

logger = logging.getLogger(__name__)

_MOST_PROJECTED = 4
"""Units for each output of a projection up to which multiplying its weights out pays."""


@dataclass
class Turning:
    """A loop before it is written.

    Attributes:
        operators: of its body.
        arguments, first, after: the variables in the body, before the first iteration and after one.
        going_on: whether to iterate once more, in the body.
        rows: variable that is a list -> what each iteration adds to it.
    """

    operators: Sequence[Operator]
    arguments: Sequence[Tensor]
    first: Sequence[Tensor]
    after: Sequence[Tensor]
    going_on: Tensor
    rows: Mapping[int, Tensor]


def recurrent_loop(b: Builder, loop: Turning) -> dict[int, Tensor] | None:
    """Variable -> what it is at the end, by recurrent ops; None if it stays a loop.

    Lists hold only the rows that the iterations have added.
    """
    mark = len(b.operators)
    try:
        return _Network(b, loop).emitted()
    except NoCell as reason:
        del b.operators[mark:]
        logger.debug("%s stays a loop: %s", b.node.where, reason)
        return None


@dataclass(frozen=True)
class _Given:
    """The result of an iteration: a cell's output, and what stands there where the cell does not go on.

    Attributes:
        held: the variable whose value stays; -1 for zeros, None where the cell always goes on.
    """

    cell: Cell
    held: int | None = None


@dataclass
class _Run:
    """A cell over the whole sequence: its outputs [steps,batch,units], and its last states [batch,units]."""

    rows: Tensor
    last: Tensor
    state: Tensor | None = None


@dataclass
class _Network:
    """The cells of a loop, found and then written."""

    b: Builder
    loop: Turning
    runs: dict[Cell, _Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        loop = self.loop
        self.counters = counters_of(loop.operators, loop.arguments, loop.first, loop.after)
        self.steps = OnnxSteps(
            loop.operators, loop.arguments, {a for n, a in enumerate(loop.arguments) if n in self.counters}
        )
        self.sums = Sums(self.steps)
        self.limit = self._limit()
        self.lists = {n: row for n in self._others(()) if (row := self._only_row(n)) is not None}
        self.held = [n for n in self._others(self.lists) if self._is_held(n)]
        states = self._others({*self.lists, *self.held})
        before = {n: loop.arguments[n] for n in states}
        self.cells = find_cells(self.sums, before, {n: loop.after[n] for n in states})
        if not self.cells:
            raise NoCell("it has no state")
        conditions = {cell.choice for cell in self.cells}
        if len(conditions) > 1:
            raise NoCell("its cells go on under different conditions")
        self.condition: Condition | None = conditions.pop()
        self.given = {n: self._given(row) for n, row in {**loop.rows, **self.lists}.items()}
        self.given |= {n: self._given(loop.after[n]) for n in self.held}

    # --- what the variables are -----------------------------------------------------------------------------

    def _others(self, known: object) -> list[int]:
        """The variables that are neither counters nor lists with a row per iteration, nor known otherwise."""
        assert isinstance(known, (dict, set, tuple))
        return [
            n
            for n in range(len(self.loop.arguments))
            if n not in self.counters and n not in self.loop.rows and n not in known
        ]

    def _only_row(self, number: int) -> Tensor | None:
        """The row that is written to a list of one item."""
        own, maker = self.loop.arguments[number], self.steps.maker(self.loop.after[number])
        if maker is None or maker.code != "ScatterND" or maker.options or (own.shape or (None,))[0] != 1:
            return None
        spread, place, row = maker.inputs[:3]
        before = self.steps.maker(spread)
        base = before.inputs[0] if before is not None and before.code == "Expand" else spread
        item = self.steps.maker(row)
        is_first = place is not None and place.is_constant and not np.any(place.array())
        if base is not own or not is_first or item is None or item.code != "Unsqueeze":
            return None
        axes = item.inputs[1]
        return (
            item.inputs[0] if axes is not None and axes.is_constant and axes.array().tolist() == [0] else None
        )

    def _is_held(self, number: int) -> bool:
        """True if a variable is read at most to stay what it is."""
        own, after = self.loop.arguments[number], self.loop.after[number]
        maker = self.steps.maker(after)
        # Once per reading input, so that a Where which reads it twice does not pass.
        readers = [o for o in self.loop.operators for t in o.inputs if t is own]
        return maker is not None and maker.code == "Where" and readers in ([], [maker])

    def _given(self, tensor: Tensor) -> _Given:
        """The result of an iteration, as far as it is the output of a cell."""
        maker = self.steps.maker(tensor)
        while maker is not None and maker.code == "Identity":
            tensor = maker.inputs[0] or tensor
            maker = self.steps.maker(tensor)
        if maker is not None and maker.code == "Where":
            return self._chosen(maker)
        for cell in self.cells:
            if self.sums.of(tensor) is cell.result and self.condition is None:
                return _Given(cell)
        raise NoCell("it hands out something else than the output of a cell")

    def _chosen(self, maker: Operator) -> _Given:
        condition, yes, no = maker.inputs[:3]
        told = self.steps.condition(condition)
        new, old = (yes, no) if told.holds else (no, yes)
        assert new is not None
        assert old is not None
        # The same sum by identity: tensors that are read alike are one sum.
        cell = next((c for c in self.cells if self.sums.of(new) is c.result), None)
        if cell is None or told.positive() != self.condition:
            raise NoCell("it hands out something else than the output of a cell")
        if is_zeros(self.steps.maker(old)) or (self.steps.is_outer(old) and is_zero(self.b, old)):
            return _Given(cell, -1)
        number = next((n for n, a in enumerate(self.loop.arguments) if a is old), None)
        if number is None or (number not in self.held and number != cell.output):
            raise NoCell("it hands out something else where a sequence has ended")
        return _Given(cell, number)

    # --- how often it iterates ------------------------------------------------------------------------------

    def _limit(self) -> Tensor:
        """The number of iterations, an integer []; below zero for none."""
        following = {self.loop.after[n] for n in self.counters}
        limits: list[Tensor] = []
        waiting = [self.loop.going_on]
        while waiting:
            tensor = waiting.pop()
            maker = self.steps.maker(tensor)
            # "While true" sets no limit of its own.
            if tensor.is_constant and tensor.array().all():
                continue
            if maker is not None and maker.code == "And":
                waiting += [t for t in maker.inputs if t is not None]
                continue
            counter, limit = maker.inputs[:2] if maker is not None and maker.code == "Less" else (None, None)
            if (
                counter not in following
                or limit is None
                or not self.steps.is_outer(limit)
                or limit.shape != ()
            ):
                raise NoCell("the number of iterations is not known before")
            limits.append(limit)
        if not limits:
            raise NoCell("it has no end")
        fixed = [int(t.array()) for t in limits if t.is_constant]
        open_limits = [self.b.index(t) for t in dict.fromkeys(limits) if not t.is_constant]
        if fixed:
            # Of several limits the smallest ends the loop.
            open_limits.append(self.b.int64(min(fixed), "turns"))
        return open_limits[0] if len(open_limits) == 1 else self.b.step("Min", *open_limits, shape=())

    # --- writing --------------------------------------------------------------------------------------------

    def emitted(self) -> dict[int, Tensor]:
        b = self.b
        iterations = int(self.limit.array()) if self.limit.is_constant else None
        if iterations is not None and iterations < 1:
            raise NoCell("it does not iterate")
        span = packed(b, self.limit, self.condition, self._sequences(), needs_step=self._needs_step())
        for cell in self.cells:
            self.runs[cell] = self._run(cell, span)
        results: dict[int, Tensor] = {}
        # A counter ends at the number of iterations; below zero iterations it never moved.
        for n in self.counters:
            results[n] = b.cast(b.step("Max", self.limit, b.int64(0)), self.loop.first[n].dtype)
        for cell, run in self.runs.items():
            results[cell.output] = run.last
            if cell.state is not None:
                assert run.state is not None
                results[cell.state] = run.state
        for n, given in self.given.items():
            results[n] = self._handed_out(n, given, span)
        return results

    def _sequences(self) -> list[Tensor]:
        """The sequences that the loop reads."""
        return list(dict.fromkeys(s.tensor for c in self.cells for s in c.sources if s.kind == "row"))

    def _needs_step(self) -> bool:
        """True if an op would end the process for a sequence of no steps: LSTM alone does not."""
        return any(cell.kind != "LSTM" for cell in self.cells)

    def _handed_out(self, n: int, given: _Given, span: Packed) -> Tensor:
        run, first = self.runs[given.cell], self.loop.first
        held = first[given.held] if given.held is not None and given.held >= 0 else None
        if n in self.loop.rows:
            return span.rows(run.rows, held, first[n])
        last = span.last(run.last, held, is_zeroed=given.held == -1)
        return self.b.unsqueezed(last, [0]) if n in self.lists else last

    def _run(self, cell: Cell, span: Packed) -> _Run:
        b = self.b
        x = self._input(cell, span)
        first = [self.loop.first[cell.output]]
        if cell.state is not None:
            first.append(self.loop.first[cell.state])
        _check_projection(b, cell, first[0])
        # A missing first state is zeros to the op.
        starts = [None if is_zero(b, t) else b.unsqueezed(_checked(x, t), [0]) for t in first]
        weights = weights_of(b, cell)
        operands = [x, *weights[:3], span.lengths, *starts, *weights[3:]]
        # ONNX leaves trailing optional inputs out; those between stay as empty names.
        while operands[-1] is None:
            operands.pop()
        steps, batch = (x.shape or (None, None))[:2]
        y = b.own("rows", (steps, 1, batch, cell.units), FLOAT)
        ends = [b.own("last", (1, batch, cell.units), FLOAT) for _ in first]
        options = {"hidden_size": cell.units, **functions_of(cell)}
        if cell.kind == "GRU" and cell.is_reset_late:
            options["linear_before_reset"] = 1
        b.operators.append(Operator(cell.kind, operands, [y, *ends], options, origin=b.node.name))
        # The axis taken out is that of directions, of which there is one.
        rows, *last = b.squeezed(y, [1]), *(b.squeezed(e, [0]) for e in ends)
        if cell.projection is not None:
            rows, last[0] = (self._projected(t, cell.projection) for t in (rows, last[0]))
        return _Run(rows, *(span.ended(e, t) for e, t in zip(last, first, strict=True)))

    def _projected(self, x: Tensor, projection: np.ndarray) -> Tensor:
        weights = self.b.const(np.ascontiguousarray(projection.T, np.float32), "projection")
        shape = (*(x.shape or ())[:-1], len(projection))
        return self.b.step("MatMul", x, weights, shape=shape)

    def _input(self, cell: Cell, span: Packed) -> Tensor:
        parts = [self._sequence(source, span) for source in cell.sources]
        if not parts:
            raise NoCell("a cell reads nothing")
        if len(parts) == 1:
            return parts[0]
        width = sum((t.shape or (0,))[-1] or 0 for t in parts)
        return self.b.step("Concat", *parts, shape=(*(parts[0].shape or ())[:2], width), axis=2)

    def _sequence(self, source: Atom, span: Packed) -> Tensor:
        if source.kind == "row":
            return span.sequence(source.tensor)
        for cell, run in self.runs.items():
            if self.sums.source(cell.result) is source:
                return run.rows
        raise NoCell(f"a cell reads a {source.kind}")


def _check_projection(b: Builder, cell: Cell, start: Tensor) -> None:
    """The op's own state is what is projected: it is known only where h starts from zero.

    With weights multiplied out it does the work of units * units where the loop does that of units * outputs.
    """
    if cell.projection is None:
        return
    if not is_zero(b, start) or cell.units > _MOST_PROJECTED * len(cell.projection):
        raise NoCell("its projection stays in the loop")


def _checked(x: Tensor, start: Tensor) -> Tensor:
    """A first state; the op wants one for each sequence of the batch, TensorFlow repeats one for all."""
    wanted, given = (x.shape or (None, None))[1], (start.shape or (None,))[0]
    if len(start.shape or ()) != 2 or (given is not None and given != wanted):
        raise NoCell(f"its first state is for {given} sequences, its input has {wanted}")
    return start
