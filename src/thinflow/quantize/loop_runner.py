"""What tensors in the bodies of LiteRT's loops hold, turn by turn.

A runtime shows nothing of what is inside of a loop. So the program runs up to it, and then its condition and
its body do, as programs of their own, with what the loop would hand from turn to turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.errors import EngineUnavailable
from thinflow.quantize.runners import Feed, LiteRTRunner, Runner, runner_of
from thinflow.tflite.model import Operator, Program, Tensor
from thinflow.typing import Array

# A turn takes some 50 microseconds, whatever is in it.
MOST_TURNS = 128
"""Turns that are followed: those behind them read the same kind of numbers."""


def runner_with_loops(program: Any, watched: Iterable[Any], threads: int) -> Runner:
    """As `runner_of`; tensors may also be those of bodies that LiteRT's loops call.

    Raises:
        EngineUnavailable: the runtime is missing or cannot load the program.
    """
    watched = [*watched]
    if isinstance(program, Program):
        main = {*program.subgraphs[0].tensors()}
        if not main.issuperset(watched):
            return _LoopRunner(program, watched, threads)
    return runner_of(program, watched, threads)


def looped_bodies(program: Program) -> dict[int, Operator]:
    """Number of a subgraph -> the loop of the main block whose body it is; none that several loops share."""
    found: dict[int, list[Operator]] = {}
    for operator in program.subgraphs[0].operators:
        if operator.code == "WHILE":
            found.setdefault(operator.options["body_subgraph_index"], []).append(operator)
    return {number: loops[0] for number, loops in found.items() if len(loops) == 1}


class _LoopRunner:
    """A runner of a program, which also follows the loops that watched tensors are in."""

    def __init__(self, program: Program, watched: Sequence[Tensor], threads: int) -> None:
        inside = {*watched} - {*program.subgraphs[0].tensors()}
        loops = looped_bodies(program).items()
        wanted = {n: [t for t in program.subgraphs[n].tensors() if t in inside] for n, _ in loops}
        self._loops = [_Loop(program, loop, wanted[n]) for n, loop in loops if wanted[n]]
        starts = [t for one in self._loops for t in one.loop.reads() if not t.is_constant]
        self._main = LiteRTRunner(program, [*(t for t in watched if t not in inside), *starts], threads)
        self._inside = {t: one for one in self._loops for t in one.seen}

    def run(self, feed: Feed, where: str) -> None:
        self._main.run(feed, where)
        for one in self._loops:
            one.follow(self._main)

    def view(self, tensor: Tensor) -> Array:
        """What it held in the last run; in a loop in all turns, one behind the other in its first
        dimension.
        """
        loop = self._inside.get(tensor)
        return self._main.view(tensor) if loop is None else loop.all_turns(tensor)


class _Loop:
    """A loop, and what some tensors of its body held in the last run.

    Attributes:
        loop: the operator that calls it.
        seen: tensor -> what it held in each turn.
    """

    def __init__(self, program: Program, loop: Operator, watched: Sequence[Tensor]) -> None:
        self.loop = loop
        self.seen: dict[Tensor, list[Array]] = {t: [] for t in watched}
        self._condition, self._body = (
            _Called(program, loop.options[name], more)
            for name, more in (("cond_subgraph_index", ()), ("body_subgraph_index", watched))
        )

    def follow(self, main: Runner) -> None:
        """Go through its turns, from what it begins with."""
        for held in self.seen.values():
            held.clear()
        # What the called ones cannot be fed, such as lists, has LiteRT refuse to run them: nothing is seen.
        try:
            starts = [t for t in self.loop.inputs if t is not None]
            values = [t.array() if t.is_constant else np.array(main.view(t)) for t in starts]
            for _ in range(MOST_TURNS):
                if not self._condition.outputs(values)[0].all():
                    return
                values = self._body.outputs(values)
                for tensor, held in self.seen.items():
                    held.append(self._body.value(tensor))
        except (RuntimeError, ValueError, KeyError, EngineUnavailable):
            return

    def all_turns(self, tensor: Tensor) -> Array:
        held = self.seen[tensor]
        sizes = {a.shape[1:] for a in held if a.ndim}
        # Numbers without a dimension, and those whose sizes change from turn to turn, are no rows.
        return np.concatenate(held) if len(sizes) == 1 else np.zeros(0, np.float32)


class _Called:
    """A subgraph that runs alone."""

    def __init__(self, program: Program, number: int, watched: Iterable[Tensor]) -> None:
        self.graph = program.subgraphs[number]
        alone = replace(program, subgraphs=[self.graph, *program.subgraphs[1:]], signatures={})
        made = self.graph.producers()
        self._made = {t for t in (*self.graph.outputs, *watched) if t in made}
        # One thread: what is called is small, and called often.
        self._runner = LiteRTRunner(alone, self._made, 1) if self._made else None
        self._fed: dict[Tensor, Array] = {}

    def outputs(self, values: Sequence[Array]) -> list[Array]:
        """Run; the outputs for its inputs."""
        self._fed = dict(zip(self.graph.inputs, values, strict=True))
        if self._runner is not None:
            self._runner.run_with(self._fed)
        return [self.value(t) for t in self.graph.outputs]

    def value(self, tensor: Tensor) -> Array:
        """A copy of what a tensor held."""
        if tensor in self._made and self._runner is not None:
            return np.array(self._runner.view(tensor))
        return tensor.array() if tensor.is_constant else self._fed[tensor]
