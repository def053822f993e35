"""Chains of bands as operators: each on some rows, between copies of the rows that are kept.

    BANDS (opens the loop), operators on windows, BANDS_KEEP (copies), BANDS_END (closes it)

What an operator reads and writes is a view: a part of a window, or of a value that is whole, which moves on
by as many bytes in each round of the loop. A plan of memory by lifetimes holds: BANDS and BANDS_END touch all
that lasts from round to round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from thinflow.lower.c.bands import Chain, Read, Turns, Window
from thinflow.lower.c.bands import Work as RowWork
from thinflow.lower.c.options import Bands
from thinflow.lower.c.reach import Reach, height_of, sizes
from thinflow.lower.c.windows import PAD_TOP
from thinflow.tflite.model import Operator, Subgraph, Tensor

BANDS, BANDS_END, BANDS_KEEP = "BANDS", "BANDS_END", "BANDS_KEEP"


@dataclass(frozen=True)
class View:
    """A tensor that is a part of another one.

    Attributes:
        base: the other one.
        offset: bytes from its first to that of the view.
        step: bytes that the view moves on by in each round of the loop around it.
    """

    base: Tensor
    offset: int
    step: int = 0


@dataclass
class Banded:
    """A network some of whose operators run on bands.

    Attributes:
        block: its operators in the order they run.
        views: what lies in other tensors.
        sources: operator on some rows, or copy of rows -> the operator of the network that it is a part of.
        counts: operator in a loop -> how often it runs.
    """

    block: Subgraph
    views: dict[Tensor, View] = field(default_factory=dict)
    sources: dict[Operator, Operator] = field(default_factory=dict)
    counts: dict[Operator, int] = field(default_factory=dict)


def banded(block: Subgraph, bands: Sequence[Bands], *, keep_all: bool = False) -> Banded:
    """A network with chains of its operators in bands.

    Args:
        block: sizes known; it stays as it is.
        bands: in order, none over another.
        keep_all: whether all values of the chains are to be whole after a run; what is computed is the same.
    """
    made = Banded(Subgraph(block.inputs, block.outputs, [], block.name))
    at = 0
    for one in bands:
        made.block.operators += block.operators[at : one.start]
        _Writer(made, block, one, keep_all).run()
        at = one.end
    made.block.operators += block.operators[at:]
    return made


class _Writer:
    """Writes the operators of one chain."""

    def __init__(self, made: Banded, block: Subgraph, bands: Bands, keep_all: bool) -> None:
        self.made = made
        self.chain = Chain(block, bands.start, bands.end)
        if keep_all:
            self.chain.whole = set(range(len(self.chain.operators)))
        self.turns = self.chain.turns(bands.rows, bands.is_eager)
        self.kept = self._kept_tensors()
        self.windows: dict[int, Tensor] = {}

    def run(self) -> None:
        chain = self.chain
        whole = [chain.operators[n].outputs[0] for n in sorted(chain.whole)]
        lasting = [*whole, *self.kept.values()]
        given = {t: None for o in chain.operators for t in o.reads() if not t.is_constant}
        outside = [t for t in given if t not in chain.makers]
        for turns in self.turns:
            if turns.count == 1:
                self._turn(turns)
                continue
            self.made.block.operators.append(Operator(BANDS, [], list(lasting), {"count": turns.count}))
            begin = len(self.made.block.operators)
            self._turn(turns)
            for operator in self.made.block.operators[begin:]:
                self.made.counts[operator] = turns.count
            self.made.block.operators.append(Operator(BANDS_END, [*lasting, *outside], []))

    def _kept_tensors(self) -> dict[int, Tensor]:
        """Memory for the rows of each value that are kept between turns."""
        most: dict[int, int] = {}
        for turns in self.turns:
            for number, window in turns.turn.windows:
                most[number] = max(most.get(number, 0), window.kept, window.left)
        return {n: self._rows_of(self._output(n), rows) for n, rows in most.items() if rows}

    def _turn(self, turns: Turns) -> None:
        windows = dict(turns.turn.windows)
        self.windows = {n: self._rows_of(self._output(n), w.rows) for n, w in windows.items() if w.is_there}
        for number, work in enumerate(turns.turn.works):
            if work is not None:
                self._operator(number, work, turns, windows)
            if number in self.windows:
                self._keep(number, windows[number])

    def _operator(self, number: int, work: RowWork, turns: Turns, windows: dict[int, Window]) -> None:
        """One operator on its rows."""
        whole = self.chain.operators[number]
        inputs = list(whole.inputs)
        for read in work.reads:
            inputs[read.number] = self._input(number, read, turns)
        y = whole.outputs[0]
        if number in self.windows:
            out = self._view(self.windows[number], windows[number].kept, work.rows)
        else:
            out = self._view(y, turns.outputs[number][0], work.rows, turns.outputs[number][1])
        options = dict(whole.options)
        if whole.code in ("PAD", "PADV2"):
            inputs[1] = _amounts(whole, work)
        elif self.chain.reaches[number][work.reads[0].number] != Reach():
            options[PAD_TOP] = work.reads[0].above
        operator = replace(whole, inputs=inputs, outputs=[out], options=options)
        self.made.block.operators.append(operator)
        self.made.sources[operator] = whole

    def _input(self, number: int, read: Read, turns: Turns) -> Tensor:
        x = self.chain.operators[number].inputs[read.number]
        assert x is not None
        maker = self.chain.maker(number, read.number)
        if maker in self.windows:
            return self._view(self.windows[maker], read.at, read.rows)
        return self._view(
            x, *turns.inputs[number, read.number][:1], read.rows, turns.inputs[number, read.number][1]
        )

    def _keep(self, number: int, window: Window) -> None:
        """Put what was kept in front of what is new, and keep what the next turn needs."""
        rows = self.windows[number]
        if window.kept:
            self._copy(
                number, self._view(self.kept[number], 0, window.kept), self._view(rows, 0, window.kept)
            )
        # Rows that were kept and go on being kept, with none made behind them, stay where they are.
        if window.left and (window.made or window.left != window.kept):
            last = self._view(rows, window.rows - window.left, window.left)
            self._copy(number, last, self._view(self.kept[number], 0, window.left))

    def _copy(self, number: int, x: Tensor, y: Tensor) -> None:
        operator = Operator(BANDS_KEEP, [x], [y])
        self.made.block.operators.append(operator)
        self.made.sources[operator] = self.chain.operators[number]

    def _view(self, base: Tensor, first: int, rows: int, step: int = 0) -> Tensor:
        """Rows of a tensor; `step` rows further in each round."""
        row_bytes = (base.size_bytes or 0) // max(height_of(base), 1)
        found = self._rows_of(base, rows)
        self.made.views[found] = View(base, first * row_bytes, step * row_bytes)
        return found

    def _output(self, number: int) -> Tensor:
        return self.chain.operators[number].outputs[0]

    @staticmethod
    def _rows_of(tensor: Tensor, rows: int) -> Tensor:
        """A tensor of so many rows."""
        batch, _, *rest = sizes(tensor)
        return replace(tensor, shape=(batch, rows, *rest))


def _amounts(operator: Operator, work: RowWork) -> Tensor:
    """What is put around some rows."""
    given = operator.inputs[1]
    assert given is not None
    (read,) = work.reads
    amounts = np.array(given.array())
    amounts[1] = read.above, work.rows - read.rows - read.above
    return replace(given, data=amounts)
