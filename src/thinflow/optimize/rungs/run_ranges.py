"""Layers between floats that multiply integers: LiteRT finds the range of what each reads in every run.

A range of one run is narrower than one that has to hold all samples, and what a layer gives is not rounded.
Products take as long as in int8. What is between such layers is in float then, which no accelerator of
integers runs, and takes four times the memory: for those who ask for the best, for networks that change their
answers without, and for ends in float.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from thinflow.optimize.answers_at_risk import AT_RISK
from thinflow.optimize.rungs import Best, Candidate, in_float, rung
from thinflow.program.model import Operator
from thinflow.quantize.kernels.litert import weights_of
from thinflow.quantize.macs import multiplications
from thinflow.quantize.recipe import pattern_of
from thinflow.quantize.small_weights import FEWEST
from thinflow.tflite.model import Program

_LARGEST_REST = 0.25
"""Of all multiplications, in layers without such a form: in float these take some two to three times as
long as in int8."""


# Trained networks gain 7 to 25 dB by both together, and 0 to 7 dB where the rest stays in integers.
@rung(order=65, effort="best", worth_db=0.5, usual_db=5.0, mends=AT_RISK)
def ranges_of_each_run(best: Best) -> Iterator[Candidate]:
    """All layers with a kernel for it, and between them floats where that is cheap."""
    recipe, program = best.recipe, best.fit.program
    # Sixteen bits hold a range of all samples well.
    if not isinstance(program, Program) or recipe.scheme != "int8":
        return
    if "float32" not in (recipe.input_type, recipe.output_type):
        return
    costs = multiplications(program)
    layers = [o for o in costs if not recipe.why_float(o) and pattern_of(o)]
    chosen = [o for o in layers if _finds_ranges(o)]
    if not chosen:
        return
    names = tuple(dict.fromkeys((*recipe.dynamic_nodes, *map(pattern_of, chosen))))
    changed = replace(recipe, dynamic_nodes=names)
    rest = [o for o in layers if o not in chosen]
    if rest and sum(costs[o] for o in rest) <= _LARGEST_REST * sum(costs.values()):
        what = "ranges of each run, and floats between"
        yield from in_float(replace(best, recipe=changed), what, rest)
    # Taken already, if what is above was.
    if best.recipe is recipe:
        yield Candidate("ranges of each run", changed)


def _finds_ranges(operator: Operator[Any]) -> bool:
    """True if XNNPACK multiplies integers by what it rounds itself; depthwise layers are not among these."""
    weights = weights_of(operator)
    if weights is None or operator.code not in ("CONV_2D", "FULLY_CONNECTED"):
        return False
    data, x = weights.tensor.array(), operator.inputs[0]
    # Weights of a convolution are OHWI.
    is_grouped = operator.code == "CONV_2D" and (
        x is None or x.shape is None or x.shape[-1] != data.shape[-1]
    )
    return data.size >= FEWEST and not is_grouped
