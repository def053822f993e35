"""The first and the last layer in float: what they round, nothing behind or before them can make up for.

Only where the model takes or gives floats there: integers at an end say that it runs where they are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from thinflow.optimize.rungs import Best, Candidate, in_float, rung
from thinflow.program.model import Operator
from thinflow.quantize.macs import main_block, multiplications

# The float kernel of a layer takes some two to three times as long as that in integers.
_LARGEST_LAST, _LARGEST_FIRST = 0.05, 0.25
"""Of all multiplications, in the last and in the first layers: what a larger part costs, the whole model
feels. First layers read few channels, for which integer kernels gain least."""


@rung(order=60, worth_db=0.2, usual_db=1.0)
def last_layer(best: Best) -> Iterator[Candidate]:
    """The layers that give the answers."""
    if best.recipe.output_type == "float32":
        main = main_block(best.fit.program)
        producers = main.producers()

        def before(tensor: Any) -> list[Operator[Any]]:
            maker = producers.get(tensor)
            return [] if maker is None else [maker]

        # Up through what has no weights: squashing, reshaping, pooling.
        found = _first_met(best, main.outputs, before, lambda operator: operator.inputs[:1])
        yield from _in_float(best, "last layer in float", found, _LARGEST_LAST)


# A convolution of pictures in float may be slower by some percent: it has to bring more.
@rung(order=61, worth_db=0.5, usual_db=0.4)
def first_layer(best: Best) -> Iterator[Candidate]:
    """The layers that read the inputs."""
    if best.recipe.input_type == "float32":
        main = main_block(best.fit.program)
        readers = main.consumers()

        def behind(tensor: Any) -> list[Operator[Any]]:
            return [operator for operator, _ in readers.get(tensor, ())]

        # Sounds come as one row, which is given a shape first.
        found = _first_met(best, main.inputs, behind, lambda operator: operator.outputs)
        yield from _in_float(best, "first layer in float", found, _LARGEST_FIRST)


def _first_met(
    best: Best,
    tensors: Iterable[Any],
    touching: Callable[[Any], Iterable[Operator[Any]]],
    onward: Callable[[Operator[Any]], Iterable[Any]],
) -> list[Operator[Any]]:
    """Layers that are met first on the way from some tensors, through operators without weights."""
    costs = multiplications(best.fit.program)
    met = list(dict.fromkeys(tensors))
    found: dict[Operator[Any], None] = {}
    # It grows under way.
    for tensor in met:
        for operator in touching(tensor):
            if operator in costs:
                found[operator] = None
            else:
                met += [t for t in onward(operator) if t is not None and t not in met]
    return [*found]


def _in_float(best: Best, what: str, layers: list[Operator[Any]], most: float) -> Iterator[Candidate]:
    """Layers in float, if they are a small enough part of the network."""
    costs = multiplications(best.fit.program)
    if sum(costs[o] for o in layers) <= most * sum(costs.values()):
        yield from in_float(best, what, layers)
