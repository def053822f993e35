"""Layers in less memory: a chain of them runs on a few rows at a time, so that no picture inside it is whole.

    made = network(program, Options(ram=64_000))       # the cheapest schedule in 64 kB, or what is the least
    made.bands                                         # (Bands(start=0, end=9, rows=4),)
    network(program, Options(cpu="cortex-m4", bands=made.bands))   # the same schedule with other kernels
    network(program, Options(bands=(Bands(0, 9, 1),)))             # one of one's own

**How.** A chain is a run of operators whose outputs are made row by row (`reach.py`). It goes in turns. In
each the last operator makes some rows more, and each before it those that are needed for that. Rows that the
next turn needs again, two of them for a window of three, are kept: nothing is computed twice. What a turn
computes with lies in windows, one for each value: the rows kept, and the new ones behind them, in one piece.
So kernels see a small picture, and each that there is, of whatever processor and element type, runs as it is;
it is told how many rows of padding are above. Turns that are alike are a loop in C: commonly there is a first
turn, a loop, and one or two at the end, when rows run out.

**Why so.** A ring of rows would save the copies of what is kept, and every kernel would have to know of it.
Patches, as MCUNetV2 has them, also save the width of what is kept; they compute their rims twice or more.
Copies are by far the cheapest of the three: `benchmarks c_ram` counts them.

**Parts.** `reach.py`: rows of inputs by rows of outputs. Here: what is computed in which turn. `banded.py`:
operators, and where their values lie in windows. `schedule.py`: which chains, by what they take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from thinflow.lower.c.reach import Reach, height_of, reaches
from thinflow.tflite.model import Operator, Subgraph, Tensor


@dataclass(frozen=True)
class Window:
    """What a turn has of a value that is never whole.

    Attributes:
        kept: rows of the turn before.
        made: new rows behind them.
        left: rows of the end of both that the next turn needs.
        is_read: whether it is read in this turn.
    """

    kept: int
    made: int
    left: int
    is_read: bool

    @property
    def is_there(self) -> bool:
        """Whether memory is taken for it: what is only kept stays where it is."""
        return bool(self.made) or self.is_read

    @property
    def rows(self) -> int:
        return self.kept + self.made


@dataclass(frozen=True)
class Read:
    """Rows of an input.

    Attributes:
        number: of the input.
        rows: how many.
        at: the first, counted from that of its window; of what is whole, from its own first in the turn.
        above: rows of padding above them.
    """

    number: int
    rows: int
    at: int
    above: int


@dataclass(frozen=True)
class Work:
    """What one operator does in a turn: so many rows, of which rows of its inputs."""

    rows: int
    reads: tuple[Read, ...]


@dataclass(frozen=True)
class Turn:
    """A turn, or several that are alike.

    Attributes:
        works: of each operator of the chain; None if it makes nothing.
        windows: of each value that is never whole, by the number of the operator that makes it.
    """

    works: tuple[Work | None, ...]
    windows: tuple[tuple[int, Window], ...]


@dataclass
class Turns:
    """Turns that are alike, one after the other.

    Attributes:
        turn: what each does.
        count: how many.
        outputs: the first row that each operator makes in the first of them, and the way to that in the next.
        inputs: the same of each input that is whole, by operator and number.
    """

    turn: Turn
    count: int
    outputs: list[tuple[int, int]]
    inputs: dict[tuple[int, int], tuple[int, int]]


class Chain:
    """Operators that make rows of rows.

    Args:
        block: sizes known.
        start, end: of the operators.

    Raises:
        ValueError: one of them does not go by rows.
    """

    def __init__(self, block: Subgraph, start: int, end: int) -> None:
        self.operators: Sequence[Operator] = block.operators[start:end]
        found = [reaches(o) for o in self.operators]
        if not all(found):
            raise ValueError("an operator is not made of a few rows of its inputs")
        self.reaches: list[dict[int, Reach]] = [r for r in found if r is not None]
        self.makers: dict[Tensor, int] = {o.outputs[0]: n for n, o in enumerate(self.operators)}
        rest = (*block.operators[:start], *block.operators[end:])
        read = {t for o in rest for t in o.reads()} | set(block.outputs)
        self.whole = {n for t, n in self.makers.items() if t in read}
        """Operators whose outputs are needed whole, by number."""

    @cached_property
    def readers(self) -> list[list[tuple[int, Reach]]]:
        """Who reads what an operator makes, and how."""
        found: list[list[tuple[int, Reach]]] = [[] for _ in self.operators]
        for number, reach in enumerate(self.reaches):
            for i, one in reach.items():
                maker = self.maker(number, i)
                if maker is not None:
                    found[maker].append((number, one))
        return found

    @cached_property
    def heights(self) -> list[int]:
        return [height_of(o.outputs[0]) for o in self.operators]

    def maker(self, number: int, i: int) -> int | None:
        """Who makes an input of an operator; None if it is made outside."""
        tensor = self.operators[number].inputs[i]
        assert tensor is not None
        return self.makers.get(tensor)

    def input_height(self, number: int, i: int) -> int:
        tensor = self.operators[number].inputs[i]
        assert tensor is not None
        return height_of(tensor)

    # --- how far each is ----------------------------------------------------------------------------------

    def turns(self, rows: int, is_eager: bool) -> list[Turns]:
        """What is done in which turn.

        Args:
            rows: see `Bands`.
            is_eager: see there.
        """
        return list(self._alike([*(self._eager(rows) if is_eager else self._asked(rows))]))

    def _paces(self, rows: int) -> list[int]:
        """Rows that each operator makes in a turn, once all run."""
        ends = [h for h, read in zip(self.heights, self.readers, strict=True) if not read]
        paces = [0] * len(self.operators)
        for number in reversed(range(len(self.operators))):
            asked = [paces[r] * reach.stride for r, reach in self.readers[number]]
            # Of several ends with other heights, those of more rows go as much faster.
            paces[number] = max(asked, default=max(rows * self.heights[number] // min(ends), 1))
        return paces

    def _asked(self, rows: int) -> Iterator[list[int]]:
        """Rows of each operator that are there after each turn: no more than what the ends need."""
        paces, done = self._paces(rows), 0
        have = [0] * len(self.operators)
        while have != self.heights:
            done += 1
            before, have = have, [0] * len(self.operators)
            is_last = all(
                done * paces[n] >= self.heights[n] for n, read in enumerate(self.readers) if not read
            )
            for number in reversed(range(len(self.operators))):
                height = self.heights[number]
                asked = [
                    reach.needed(have[r] - 1, have[r], height)[1] if have[r] else 0
                    for r, reach in self.readers[number]
                ]
                ends = height if is_last else min(done * paces[number], height)
                if is_last and (number in self.whole or not asked):
                    asked = [height]
                wanted = max(max(asked, default=ends), before[number])
                for reach in self.reaches[number].values():
                    wanted = reach.rounded(wanted, height)
                have[number] = wanted
            yield list(have)
            if is_last:
                return

    def _eager(self, rows: int) -> Iterator[list[int]]:
        """The same: all that can be made of what is there, and at the front a few rows in a turn."""
        paces = self._paces(rows)
        have = [0] * len(self.operators)
        while have != self.heights:
            for number, reach in enumerate(self.reaches):
                height = self.heights[number]
                inside = [(self.maker(number, i), i, one) for i, one in reach.items()]
                ready = [
                    one.ready(have[maker], self.input_height(number, i), height)
                    for maker, i, one in inside
                    if maker is not None
                ]
                wanted = min(ready, default=min(have[number] + paces[number], height))
                for one in reach.values() if not ready else ():
                    wanted = one.rounded(wanted, height)
                have[number] = wanted
            yield list(have)

    # --- turns --------------------------------------------------------------------------------------------

    def _alike(self, table: list[list[int]]) -> Iterator[Turns]:
        """Turns, those that are alike together."""
        last: Turns | None = None
        before = [0] * len(self.operators)
        for have in table:
            turn, inputs = self._turn(before, have)
            if last is not None and self._goes_on(last, turn, before, inputs):
                last.count += 1
            elif any(turn.works):
                if last is not None:
                    yield last
                last = Turns(
                    turn, 1, [(row, 0) for row in before], {key: (row, 0) for key, row in inputs.items()}
                )
            before = have
        if last is not None:
            yield last

    @staticmethod
    def _goes_on(last: Turns, turn: Turn, before: list[int], inputs: dict[tuple[int, int], int]) -> bool:
        """Whether a turn is one more of some; the second of them says how far they go."""
        if turn != last.turn:
            return False
        outputs = [(row, at - row) for (row, _), at in zip(last.outputs, before, strict=True)]
        moved = {key: (row, inputs[key] - row) for key, (row, _) in last.inputs.items()}
        if last.count == 1:
            last.outputs, last.inputs = outputs, moved
            return True
        is_even = all(
            step * last.count == at for (_, step), (_, at) in zip(last.outputs, outputs, strict=True)
        )
        return is_even and all(step * last.count == moved[key][1] for key, (_, step) in last.inputs.items())

    def _turn(self, before: list[int], have: list[int]) -> tuple[Turn, dict[tuple[int, int], int]]:
        """What a turn does, and the first rows it reads of what is whole."""
        works: list[Work | None] = []
        inputs: dict[tuple[int, int], int] = {}
        read: set[int] = set()
        for number, reach in enumerate(self.reaches):
            first, end = before[number], have[number]
            if first == end:
                works.append(None)
                continue
            reads = []
            for i, one in reach.items():
                low, high = one.needed(first, end, self.input_height(number, i))
                maker = self.maker(number, i)
                at = 0
                if maker is None or maker in self.whole:
                    inputs[number, i] = low
                else:
                    at = low - self._start(maker, before)
                    read.add(maker)
                reads.append(Read(i, high - low, at, low - (first * one.stride - one.before)))
            works.append(Work(end - first, tuple(reads)))
        windows = []
        for number in range(len(self.operators)):
            if number not in self.whole:
                start, next_start = self._start(number, before), self._start(number, have)
                kept, made = before[number] - start, have[number] - before[number]
                windows.append((number, Window(kept, made, have[number] - next_start, number in read)))
        return Turn(tuple(works), tuple(windows)), inputs

    def _start(self, maker: int, have: list[int]) -> int:
        """The first row of a value that is needed yet, of those that are there."""
        height = self.heights[maker]
        starts = [
            reach.needed(have[r], have[r] + 1, height)[0] if have[r] < self.heights[r] else height
            for r, reach in self.readers[maker]
        ]
        return min(have[maker], *starts)
