"""The first and the last layer in float: what they round, nothing behind or before them can make up for.

Only where the model takes or gives floats there: integers at an end say that it runs where they are wanted.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from thinflow.optimize.rungs import Best, Candidate, rung
from thinflow.program.model import Operator
from thinflow.quantize.macs import main_block, multiplications
from thinflow.quantize.recipe import names_of

# Weights of a layer that is kept float take four times the room.
_LARGEST_PART = 0.05
"""Of all weights. What a larger layer would add to the file is more than users give for a decibel."""


def _bytes_of(operator: Operator[Any]) -> int:
    return sum(t.array().nbytes for t in operator.reads() if t.is_constant)


def _candidate(best: Best, what: str, layers: list[Operator[Any]]) -> Iterator[Candidate]:
    """The best with more layers in float, if they are small."""
    program = best.fit.program
    every = sum(t.array().nbytes for t in main_block(program).constants()) or 1
    names = [glob.escape(names_of(layer)[0]) for layer in layers if names_of(layer)]
    is_small = sum(map(_bytes_of, layers)) <= _LARGEST_PART * every
    if best.recipe.needs_samples and names and is_small:
        kept = (*best.recipe.skip_nodes, *(n for n in names if n not in best.recipe.skip_nodes))
        yield Candidate(what, replace(best.recipe, skip_nodes=kept))


@rung(order=60, worth_db=0.2)
def last_layer(best: Best) -> Iterator[Candidate]:
    """The layers that give the answers."""
    if best.recipe.output_type == "float32":
        main, costs = main_block(best.fit.program), multiplications(best.fit.program)
        producers = main.producers()
        found: list[Operator[Any]] = []
        for tensor in main.outputs:
            operator = producers.get(tensor)
            # Up through what has no weights: squashing, reshaping, pooling.
            while operator is not None and operator not in costs:
                first = operator.inputs[0] if operator.inputs else None
                operator = None if first is None else producers.get(first)
            if operator is not None and operator not in found:
                found.append(operator)
        yield from _candidate(best, "last layer in float", found)


# A convolution of pictures in float may be slower by some percent: it has to bring more.
@rung(order=61, worth_db=0.5)
def first_layer(best: Best) -> Iterator[Candidate]:
    """The layers that read the inputs."""
    if best.recipe.input_type == "float32":
        main, costs = main_block(best.fit.program), multiplications(best.fit.program)
        readers = main.consumers()
        found = [o for t in main.inputs for o, _ in readers.get(t, ()) if o in costs]
        yield from _candidate(best, "first layer in float", found)
