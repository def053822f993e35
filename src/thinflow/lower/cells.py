"""Recognises recurrent cells in what one iteration of a loop computes.

LSTM    i, f, o = s(W x + R h + p * c + b)   g = a(W x + R h + b)   c' = f * c + i * g   h' = o * e(c')
GRU     z, r = s(W x + R h + b)   g = a(W x + R (r * h) + b), or a(W x + r * (R h + d) + b)
        h' = z * h + (1 - z) * g
RNN     h' = a(W x + R h + b)

A cell may keep its state where a condition says so. Several may be stacked: one reads what another gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.lower.cell_sums import FUNCTIONS, Atom, NoCell, Sum, Sums
from thinflow.typing import Array

Bent = tuple[str, Sum]
"""A function and the sum it is applied to."""


@dataclass(eq=False)
class Gate:
    """A gate: its function, and what goes into it.

    Attributes:
        function: one of FUNCTIONS, or "hard_sigmoid": the sum itself, between 0 and 1.
        x: what is read besides h, an atom -> matrix [units, its width].
        h: [units, units].
        bias: [units].
        late_bias: [units], of a GRU's candidate within what the reset gate scales; else zeros.
        peephole: [units] or None.
    """

    function: str
    x: dict[Atom, Array]
    h: Array
    bias: Array
    late_bias: Array
    peephole: Array | None = None


@dataclass(eq=False)
class Cell:
    """A recurrent cell.

    Attributes:
        kind: "LSTM", "GRU" or "RNN".
        output, state: the variables that are h and c; the latter None without.
        gates: by letter: "ifog", "zrg" or "g".
        finish: function of an LSTM's state.
        is_reset_late: whether a GRU's reset gate is applied behind the product.
        projection: [outputs, units], what an LSTM's o * e(c') is multiplied by to give h'; the matrices of
            its gates have been multiplied by it, so that they read o * e(c') too.
        choice: the condition under which it goes on, as the target's steps tell it; None for always.
        result: h' as a sum, before a condition keeps the old one.
    """

    kind: str
    output: int
    state: int | None
    gates: dict[str, Gate]
    choice: Any
    result: Sum
    finish: str = ""
    is_reset_late: bool = False
    projection: Array | None = None

    @property
    def units(self) -> int:
        return len(self.gates["g"].bias)

    @property
    def sources(self) -> list[Atom]:
        """The sources besides its own output, in the order in which the columns of weights are joined."""
        return list(dict.fromkeys(s for gate in self.gates.values() for s in gate.x))


def find_cells(sums: Sums, before: Mapping[int, Any], after: Mapping[int, Any]) -> list[Cell]:
    """The cells of a loop, each behind those whose output it reads.

    Args:
        before, after: variable -> its tensor before and after an iteration; h and c of cells, nothing else.

    Raises:
        NoCell: a variable belongs to none.
    """
    return _Finder(sums, before, after).found()


def taken(total: Sum, own: Atom) -> tuple[Sum, Any]:
    """The new value of a variable, and where it is taken.

    Args:
        own: what has to stand there elsewhere.

    Raises:
        NoCell: a condition chooses in another way.
    """
    atom = total.single()
    if atom is None or atom.kind != "choose":
        return total, None
    yes, no = atom.inputs
    if no.single() is not own:
        raise NoCell("a condition chooses between two new values")
    return yes, atom.tensor


def bent(total: Sum) -> Bent | None:
    """The function that a sum is, and of what."""
    atom = total.single()
    if atom is not None and atom.kind in FUNCTIONS:
        return atom.kind, atom.inputs[0]
    return _clipped(total)


def _clipped(total: Sum) -> Bent | None:
    """The inner sum of clip(s, 0, h) / h, as it is between 0 and 1."""
    if total.products or len(total.terms) != 1 or np.any(total.bias):
        return None
    atom, factor = next(iter(total.terms.items()))
    # Keras writes a hard sigmoid as clip(0.2 x + 0.5, 0, 1), or as relu6(x + 3) / 6: the inner sum takes the
    # factor.
    if atom.kind != "clip" or atom.numbers[0] != 0 or not np.allclose(factor * atom.numbers[1], 1, rtol=1e-6):
        return None
    return "hard_sigmoid", atom.inputs[0].scaled(factor)


class _Finder:
    """The search; variables that have been found to be of a cell are taken away."""

    def __init__(self, sums: Sums, before: Mapping[int, Any], after: Mapping[int, Any]) -> None:
        self._sums = sums
        self._own: dict[int, Atom] = {}
        self._new: dict[int, Sum] = {}
        self._choices: dict[int, Any] = {}
        for n, tensor in after.items():
            own = sums.of(before[n]).single()
            if own is None:
                raise NoCell("a state is no tensor of its own")
            self._own[n] = own
            self._new[n], self._choices[n] = taken(sums.of(tensor), own)

    def found(self) -> list[Cell]:
        cells = [cell for n in self._new if (cell := self._lstm(n)) is not None]
        # LSTMs first, as each takes two of the variables.
        done = {n for cell in cells for n in (cell.output, cell.state)}
        for n in self._new:
            if n not in done:
                cell = self._gru(n) or self._rnn(n)
                if cell is None:
                    raise NoCell("a variable of the loop belongs to no cell")
                cells.append(cell)
        return self._ordered(cells)

    # --- LSTM ---------------------------------------------------------------------------------------------

    def _lstm(self, state: int) -> Cell | None:
        parts = self._state_parts(state)
        if parts is None:
            return None
        for output, result in self._new.items():
            hidden, projection = _projected(result)
            opened = self._opened(hidden, self._new[state])
            # Variables in any order: which one is h only its form tells.
            if opened is None or output == state:
                continue
            if self._choices[output] != self._choices[state]:
                raise NoCell("h and c are kept under different conditions")
            o, finish = opened
            f, i, g = parts
            if o[0] != f[0]:
                raise NoCell("gates have different functions")
            gates = {"i": i, "f": f, "o": o, "g": g}
            units = self._own[state].width
            made = {n: self._gate(b, output, units, state, opens=n == "o") for n, b in gates.items()}
            if projection is not None:
                # h = P (o * e(c)): R h = (R P) (o * e(c)), so the gates may read what is projected.
                for gate in made.values():
                    gate.h = gate.h @ projection
            choice = self._choices[output]
            return Cell("LSTM", output, state, made, choice, result, finish, projection=projection)
        return None

    def _state_parts(self, state: int) -> tuple[Bent, Bent, Bent] | None:
        """f, i and g of f * c + i * g."""
        total, own = self._new[state], self._own[state]
        pairs = _products(total)
        # A sum has no order: both ways round are tried, here and below.
        for forgotten, added in (pairs, pairs[::-1]) if len(pairs) == 2 else ():
            kept = _beside(forgotten, own)
            f = bent(kept) if kept is not None else None
            ends = [bent(s) for s in added]
            for i, g in (ends, ends[::-1]) if f is not None else ():
                if i is not None and g is not None and f is not None and i[0] == f[0]:
                    return f, i, g
        return None

    def _opened(self, result: Sum, state: Sum) -> tuple[Bent, str] | None:
        """o, and the function of the new cell state, if a sum is o * e(c')."""
        pairs = _products(result)
        for gate, finished in (pairs[0], pairs[0][::-1]) if len(pairs) == 1 else ():
            o, e = bent(gate), bent(finished)
            # The very same sum, not an equal one: sums are read once for each tensor.
            if o is not None and e is not None and e[1] is state:
                return o, e[0]
        return None

    # --- GRU and RNN --------------------------------------------------------------------------------------

    def _gru(self, output: int) -> Cell | None:
        total, own = self._new[output], self._own[output]
        pairs = _products(total)
        for forgotten, added in (pairs, pairs[::-1]) if len(pairs) == 2 else ():
            z = _beside(forgotten, own)
            for rest, candidate in (added, added[::-1]) if z is not None else ():
                g = bent(candidate)
                gate = _complement(z, rest) if z is not None else None
                if gate is not None and g is not None:
                    return self._gru_of(output, gate, g)
        return None

    def _gru_of(self, output: int, z: Bent, g: Bent) -> Cell:
        own = self._own[output]
        early = [s for s in g[1].products if s is not own and _reset(s, own) is not None]
        late = [a for a in g[1].terms if a.kind == "multiply"]
        # One reset gate, in front of the product or behind it; h itself goes nowhere but through it.
        if len(early) + len(late) != 1 or own in g[1].products:
            raise NoCell("its candidate is not that of a GRU")
        total, late_bias = g[1], np.zeros((), np.float32)
        if early:
            r = _reset(early[0], own)
            h = total.products[early[0]]
            rest = Sum(
                total.width, total.bias, {s: m for s, m in total.products.items() if s is not early[0]}
            )
            rest.terms = total.terms
        else:
            r, inner = self._late(late[0], own)
            # r * (R h + d) with a factor of its own has no place in the runtimes' weights.
            if np.any(total.terms[late[0]] != 1):
                raise NoCell("its reset gate is scaled")
            h, late_bias = inner.products[own], inner.bias
            rest = Sum(total.width, total.bias, total.products)
            rest.terms = {a: f for a, f in total.terms.items() if a is not late[0]}
        if r is None or r[0] != z[0]:
            raise NoCell("gates have different functions")
        units = total.width
        gate = self._gate((g[0], rest), output, units)
        gate.h, gate.late_bias = h, _wide(late_bias, rest.width)
        gates = {"z": self._gate(z, output, units), "r": self._gate(r, output, units), "g": gate}
        result = self._new[output]
        return Cell("GRU", output, None, gates, self._choices[output], result, is_reset_late=not early)

    def _late(self, atom: Atom, own: Atom) -> tuple[Bent | None, Sum]:
        """r, and R h + d, of their product."""
        for gate, inner in (atom.inputs, atom.inputs[::-1]):
            if list(inner.products) == [own] and not inner.terms:
                return bent(gate), inner
        raise NoCell("its candidate is not that of a GRU")

    def _rnn(self, output: int) -> Cell | None:
        found = bent(self._new[output])
        if found is None or self._own[output] not in found[1].products:
            return None
        gates = {"g": self._gate(found, output, self._new[output].width)}
        return Cell("RNN", output, None, gates, self._choices[output], self._new[output])

    # --- all ----------------------------------------------------------------------------------------------

    def _gate(
        self, of: Bent, output: int, units: int, state: int | None = None, *, opens: bool = False
    ) -> Gate:
        """A gate taken apart.

        Args:
            state: what a peephole may look at.
            opens: whether it looks at the new cell state, not at the old one.
        """
        function, total = of
        own = self._own[output]
        if total.width != units:
            raise NoCell("its gates differ in size")
        peephole = None
        if total.terms:
            # The output gate's peephole looks at the new state, the others' at the one before.
            seen = None if state is None else self._new[state] if opens else self._sums_of(state)
            peephole = _ratio(total.terms, seen, units)
        x = {s: m for s, m in total.products.items() if s is not own}
        # Its own h has been taken out above.
        if any(s.kind == "state" for s in x):
            raise NoCell("a gate reads the state of another cell")
        h = total.products.get(own, np.zeros((units, own.width), np.float32))
        return Gate(function, x, h, _wide(total.bias, units), np.zeros(units, np.float32), peephole)

    def _sums_of(self, state: int) -> Sum:
        return Sum(self._own[state].width, np.zeros(()), {}, {self._own[state]: np.ones(())})

    def _ordered(self, cells: list[Cell]) -> list[Cell]:
        """Each behind those that it reads."""
        givers = {self._sums.source(cell.result): cell for cell in cells}
        done: list[Cell] = []
        waiting = list(cells)
        while waiting:
            ready = [c for c in waiting if all(givers.get(s) is None or givers[s] in done for s in c.sources)]
            if not ready:
                raise NoCell("cells read each other")
            done += ready
            waiting = [c for c in waiting if c not in ready]
        return done


def _projected(total: Sum) -> tuple[Sum, Array | None]:
    """The sum that a matrix [outputs,units] multiplies to give another, and that matrix; None without."""
    if total.terms or np.any(total.bias) or len(total.products) != 1:
        return total, None
    source, matrix = next(iter(total.products.items()))
    if source.kind != "multiply":
        return total, None
    return Sum(source.width, np.zeros(()), {}, {source: np.ones(())}), matrix


def _products(total: Sum) -> list[tuple[Sum, Sum]]:
    """The pairs of factors that a sum adds up, if it adds up nothing else."""
    plain = not total.products and not np.any(total.bias)
    pure = all(a.kind == "multiply" and np.all(f == 1) for a, f in total.terms.items())
    return [(a.inputs[0], a.inputs[1]) for a in total.terms] if plain and pure else []


def _beside(pair: tuple[Sum, Sum], own: Atom) -> Sum | None:
    """The factor beside a state."""
    for one, other in (pair, pair[::-1]):
        if other.single() is own:
            return one
    return None


def _reset(source: Atom, own: Atom) -> Bent | None:
    """r, if what a matrix is multiplied by is r * h."""
    if source.kind != "multiply":
        return None
    gate = _beside((source.inputs[0], source.inputs[1]), own)
    return bent(gate) if gate is not None else None


def _complement(z: Sum, rest: Sum) -> Bent | None:
    """z as a gate if `rest` is 1 - z; a gate that is written as 1 - s is one with all its signs turned."""
    # z + (1 - z) is 1 as a sum, whatever z is: its terms cancel to zeros.
    total = z.plus(rest)
    if total.products or any(np.any(f) for f in total.terms.values()) or np.any(total.bias != 1):
        return None
    straight, turned = bent(z), bent(rest)
    if straight is not None:
        return straight
    if turned is None or turned[0] not in ("sigmoid", "hard_sigmoid"):
        return None
    # 1 - sigmoid(x) is sigmoid(-x).
    negative = turned[1].scaled(np.float32(-1) * np.ones(()))
    if turned[0] == "hard_sigmoid":
        # 1 - clip(s, 0, 1) is clip(1 - s, 0, 1).
        negative = negative.plus(Sum(1, np.ones((), np.float32)))
    return turned[0], negative


def _ratio(terms: Mapping[Atom, Array], seen: Sum | None, units: int) -> Array:
    """The factors [units] by which a state is scaled in a gate.

    Raises:
        NoCell: the gate adds something else.
    """
    if seen is None or set(terms) != set(seen.terms) or seen.products or np.any(seen.bias):
        raise NoCell("a gate adds what is neither a product with a matrix nor a peephole")
    factors = [_wide(f, units) for f in terms.values()]
    # The new state has several terms, f * c and i * g: one factor must scale all of them.
    if any(np.any(f != factors[0]) for f in factors) or any(np.any(f != 1) for f in seen.terms.values()):
        raise NoCell("a gate looks at parts of a state")
    return factors[0]


def _wide(array: Array, units: int) -> Array:
    return np.ascontiguousarray(np.broadcast_to(np.asarray(array, np.float32), units))
