"""Operators that cost less in float than in integers, the crossings between the two forms counted.

    x [int8] -> slow(x) -> y [int8]     ->     x [int8] -> DEQUANTIZE -> slow -> QUANTIZE -> y [int8]

What is cheapest for all operators together is a cut: integers on one side of it, floats on the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from thinflow.ir.disjoint_sets import DisjointSets
from thinflow.ir.min_cut import sink_side
from thinflow.program.model import Block
from thinflow.quantize.kernels import Cost, Kernels, Operator, elements, is_float

INTEGERS, FLOATS = "integers", "floats"
"""What has to be in the one form, and in the other: source and sink."""

# An island in float needs four times the memory, and was timed on one processor: it has to pay clearly.
MARGIN = 1.5
# Less than that may be another way round on the next processor.
SLOW = 2.0
"""How many times longer than its float kernel an integer kernel has to take to be called slow."""
AMONG_FLOATS = "the operators around it are float"
# Kernels that differ by little; of the smaller tensors that integers are, moving ops have some advantage.
_ALIKE = Cost(2.0, 1.5)
# Integers that are made within the limits of a clamp need no clamp; floats do.
_NOTHING = Cost(1.6, 0.0)
_NEVER = 1 << 60


def cheaper_in_float(
    block: Block[Any, Any], placement: Mapping[Any, str], kernels: Kernels, borders: Collection[Any]
) -> dict[Any, str]:
    """The operators placed among the integers that are faster in float -> why.

    Args:
        borders: inputs and outputs of the block that are integers; others are floats.
    """
    network = _Network(block, placement, kernels, borders)
    slow = {o: times for o in network.free if (times := network.cost(o).times_slower) >= SLOW}
    if not slow:
        return {}
    cut = sink_side(network.edges(), INTEGERS, FLOATS)
    moved = [o for o in placement if o in network.free and o in cut]
    touching: dict[Any, list[Any]] = {}
    for operator in moved:
        for tensor in (*kernels.computed_inputs(operator), *operator.outputs):
            touching.setdefault(tensor, []).append(operator)
    islands: DisjointSets[Any] = DisjointSets(moved)
    for operators in touching.values():
        islands.join(operators)
    # Others would save little, and are what other rules decide about.
    worth = {islands.find(o) for o in moved if o in slow}
    return {o: _reason(slow.get(o), kernels) for o in moved if islands.find(o) in worth}


def faster_in_float(
    block: Block[Any, Any],
    placement: Mapping[Any, str],
    kernels: Kernels,
    borders: Collection[Any],
    times: Mapping[Any, Cost],
    margin: float,
) -> list[Any]:
    """The operators placed among the integers that are faster in float, by times that were measured.

    Layers with weights are among them.

    Args:
        borders: as for `cheaper_in_float`.
        times: of whole operators, in the unit of `Cost`; others take none.
        margin: how many times what they are taken to cost crossings count.
    """
    network = _Network(block, placement, kernels, borders, times, margin)
    cut = sink_side(network.edges(), INTEGERS, FLOATS)
    return [o for o in placement if o in network.free and o in cut]


def _reason(times: float | None, kernels: Kernels) -> str:
    if times is None:
        return AMONG_FLOATS
    return kernels.slower.format(f"{times:.0f}" if times >= 10 else f"{times:.1f}")


class _Network:
    """Operators and crossings as the edges of a network."""

    def __init__(
        self,
        block: Block[Any, Any],
        placement: Mapping[Any, str],
        kernels: Kernels,
        borders: Collection[Any],
        times: Mapping[Any, Cost] | None = None,
        margin: float = MARGIN,
    ) -> None:
        self.block, self.placement, self.kernels, self.borders = block, placement, kernels, borders
        self.times, self.margin = times, margin
        # Layers with weights stay: their integers are a quarter of the file, and faster, as far as anybody
        # knows who has not measured.
        self.free = {
            o
            for o, why in placement.items()
            if not why
            and not kernels.table[o.code].has_matrices
            and (times is not None or kernels.weights(o) is None)
        }
        self.makers: dict[Any, Any] = {t: o for o in block.operators for t in o.outputs}
        self.readers: dict[Any, list[Any]] = {}
        for operator in placement:
            for tensor in dict.fromkeys(kernels.data_inputs(operator)):
                self.readers.setdefault(tensor, []).append(operator)

    def edges(self) -> Iterator[tuple[Any, Any, int]]:
        """From, to, and the cost of having the first in integers and the second in floats."""
        for operator in self.placement:
            if operator in self.free:
                cost = self.whole_cost(operator)
                yield INTEGERS, operator, round(cost.floats)
                yield operator, FLOATS, round(cost.integers)
        ends = {
            t: INTEGERS if t in self.borders else FLOATS for t in (*self.block.inputs, *self.block.outputs)
        }
        fetched = {t: ends[t] for t in self.block.outputs}
        for tensor in dict.fromkeys((*self.readers, *fetched)):
            if not tensor.is_constant and is_float(tensor):
                maker = self.makers.get(tensor)
                readers = [self._placed(o) for o in self.readers.get(tensor, ())]
                readers += [fetched[tensor]] if tensor in fetched else []
                made = ends[tensor] if maker is None else self._placed(maker)
                crossing = self.kernels.call + round(self.margin * elements(tensor))
                yield from _crossings(tensor, made, readers, crossing)

    def whole_cost(self, operator: Operator) -> Cost:
        """Of all elements of an operator that is still open."""
        if self.times is not None:
            return self.times.get(operator, Cost(0, 0))
        cost, work = self.cost(operator), self.kernels.work(operator)
        return Cost(cost.floats * work, cost.integers * work)

    def cost(self, operator: Operator) -> Cost:
        """Of an operator that is still open, per element."""
        kernel = self.kernels.table[operator.code]
        if kernel.is_clamp and self._is_absorbed(operator):
            return _NOTHING
        return kernel.cost or _ALIKE

    def _is_absorbed(self, clamp: Operator) -> bool:
        """True if the integers that a clamp reads can be clamped as they are made; see `ranges`."""
        (x,) = self.kernels.data_inputs(clamp)
        if self.readers[x] != [clamp] or x in self.block.outputs or x in self.block.inputs:
            return False
        maker = self.makers.get(x)
        kernel = self.kernels.table.get(maker.code) if maker is not None else None
        return kernel is None or (not kernel.same_scale and kernel.fixed is None)

    def _placed(self, operator: Operator) -> Any:
        """The operator if its form is still open, else the form."""
        if operator in self.free:
            return operator
        return INTEGERS if self.placement.get(operator) == "" else FLOATS


def _crossings(tensor: Any, maker: Any, readers: list[Any], cost: int) -> Iterator[tuple[Any, Any, int]]:
    """A tensor is converted once, for all its readers in the other form."""
    others = dict.fromkeys(r for r in readers if r != maker)
    if others:
        yield maker, (tensor, FLOATS), cost
        yield (tensor, INTEGERS), maker, cost
    for reader in others:
        yield (tensor, FLOATS), reader, _NEVER
        yield reader, (tensor, INTEGERS), _NEVER
