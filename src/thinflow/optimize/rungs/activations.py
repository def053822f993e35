"""Activations that eight bits hold badly, in float: with what makes them and what reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from thinflow.onnx import program as onnx
from thinflow.optimize.rungs import Best, Candidate, in_float, rung
from thinflow.program.model import Operator
from thinflow.quantize.macs import kernels_of, main_block, multiplications

# Networks of `benchmarks/ptq` that lose nothing have 29 dB and more at their worst activation; maps that are
# nearly everywhere 0 have 15.
_DROWNED_DB = 26.0
"""Signal to noise below which an activation is lost in its rounding."""
# Layers take some two to three times as long in float.
_LARGEST_PART, _LARGEST_DROWNED = 0.25, 0.5
"""Of all multiplications, in float: for a little more quality, and for what is of no use without."""
_MOST_TRIED = 12
# Of 60 samples the nearest decide: `kws_DS_CNN_S` is expected to change 0.2 % of its answers by them, and
# 1.4 % by 180 others.
_NEAR_RISK = 0.002
"""Expected share of changed answers from which on floats are tried that cost little."""


# All at once: while one of them is drowned, what the others gain is not heard.
@rung(order=40, worth_db=1.0)
def drowned_activations(best: Best) -> Iterator[Candidate]:
    """All that are lost in their rounding."""
    network = _Network(best)
    chosen: dict[Operator[Any], None] = {}
    for tensor in network.worst(_DROWNED_DB):
        more = chosen | dict.fromkeys(network.touching(tensor))
        if network.part(more) <= _LARGEST_DROWNED:
            chosen = more
    yield from in_float(best, "activations with much noise in float", [*chosen])


@rung(order=70, effort="best", worth_db=0.4)
def loud_activations(best: Best) -> Iterator[Candidate]:
    """One after the other, from the worst on, while they take little time."""
    if not isinstance(best.fit.program, onnx.Program):
        yield from _one_by_one(best)


# ONNX Runtime has no kernel that mends by ranges of each run: its convolutions of integers take as long as
# float ones and longer (1.0 to 2.5 times, with AVX2), and for linear layers it finds one range for all rows:
# `attention` of `benchmarks/ptq` has 33.2 dB with that and 35.4 without.
@rung(order=71, effort="best", worth_db=0.4, mends=_NEAR_RISK)
def loud_activations_of_onnx(best: Best) -> Iterator[Candidate]:
    """The same for ONNX Runtime, where answers are near, too."""
    if isinstance(best.fit.program, onnx.Program):
        yield from _one_by_one(best)


def _one_by_one(best: Best) -> Iterator[Candidate]:
    if best.recipe.needs_samples:
        network = _Network(best)
        chosen: dict[Operator[Any], None] = {}
        for tensor in network.worst()[:_MOST_TRIED]:
            before, more = best.recipe, chosen | dict.fromkeys(network.touching(tensor))
            if network.part(more) <= _LARGEST_PART:
                yield from in_float(best, f"'{tensor.name}' in float", network.touching(tensor))
                chosen = chosen if best.recipe is before else more


class _Network:
    """The float program of the best, and the noise of its activations."""

    def __init__(self, best: Best) -> None:
        program = best.fit.rescaling(best.recipe).program
        main = main_block(program)
        self._makers, self._readers = main.producers(), main.consumers()
        self._costs, self._kernels = multiplications(program), kernels_of(program)
        self._noise = best.fit.activation_noise(best.recipe)

    def worst(self, below_db: float = float("inf")) -> list[Any]:
        """Activations that are rounded, from the worst on."""
        found = [tensor for tensor, decibels in self._noise.items() if decibels < below_db]
        return sorted(found, key=lambda tensor: self._noise[tensor])

    def touching(self, tensor: Any) -> list[Operator[Any]]:
        """What makes an activation, and what reads it."""
        makers = []
        maker = self._makers.get(tensor)
        while maker is not None:
            makers.append(maker)
            # What stands in front of a clamp is rounded as its result is.
            kernel = self._kernels.table.get(maker.code)
            is_clamp = kernel is not None and kernel.is_clamp
            maker = self._makers.get(maker.inputs[0]) if is_clamp else None
        return [*makers, *(operator for operator, _ in self._readers.get(tensor, ()))]

    def part(self, operators: Iterable[Operator[Any]]) -> float:
        """The share of all multiplications that operators make."""
        return sum(self._costs.get(o, 0) for o in operators) / (sum(self._costs.values()) or 1)
