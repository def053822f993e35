"""The first and the last layer in float: what they round, nothing behind or before them can make up for.

Only where the model takes or gives floats there: integers at an end say that it runs where they are wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from thinflow.optimize.rungs import Best, Candidate, in_float, rung
from thinflow.program.model import Operator
from thinflow.quantize.macs import main_block, multiplications

# The float kernel of a layer takes some two to three times as long as that in integers.
_LARGEST_PART = 0.05
"""Of all multiplications, in the last layers: what a larger part costs, the whole model feels."""


@rung(order=60, worth_db=0.2, usual_db=1.0)
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
        if sum(costs[o] for o in found) <= _LARGEST_PART * sum(costs.values()):
            yield from in_float(best, "last layer in float", found)


# A convolution of pictures in float may be slower by some percent: it has to bring more.
@rung(order=61, worth_db=0.5, usual_db=0.4)
def first_layer(best: Best) -> Iterator[Candidate]:
    """The layers that read the inputs."""
    if best.recipe.input_type == "float32":
        main, costs = main_block(best.fit.program), multiplications(best.fit.program)
        readers = main.consumers()
        found = [o for t in main.inputs for o, _ in readers.get(t, ()) if o in costs]
        yield from in_float(best, "first layer in float", found)
