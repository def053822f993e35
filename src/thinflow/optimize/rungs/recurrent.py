"""Recurrent networks: cells between floats, and what stands beside them.

A loop is called with floats, and LiteRT finds the ranges inside of it in each step. Rounded once more on the
way there are what a convolution gives it, and what a layer reads of it. Where a loop is unrolled, one range
for all samples leaves the sums of each gate fewer bits than a range of each run, and what was rounded in one
step is rounded again in all that follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from thinflow.optimize.rungs import Best, Candidate, in_float, rung
from thinflow.quantize.integer_lstm import CODE
from thinflow.quantize.macs import main_block, multiplications, recurrent_multiplications, unrolled_cells
from thinflow.quantize.recipe import pattern_of
from thinflow.tflite.model import Program


# Trained unrolled networks gain 14 and 27 dB by it.
@rung(order=25, worth_db=0.5, usual_db=5.0)
def unrolled(best: Best) -> Iterator[Candidate]:
    """The products of unrolled cells with ranges of each run: as fast, and the gates are not rounded."""
    recipe, program = best.recipe, best.fit.program
    if (
        isinstance(program, Program)
        # Sixteen bits hold a range of all samples well.
        and recipe.scheme == "int8"
        and "float32" in (recipe.input_type, recipe.output_type)
    ):
        cells = [o for o in unrolled_cells(program) if not recipe.why_float(o) and pattern_of(o)]
        if cells:
            kept = tuple(dict.fromkeys((*recipe.dynamic_nodes, *map(pattern_of, cells))))
            yield Candidate("unrolled cells with ranges of each run", replace(recipe, dynamic_nodes=kept))


# The float kernel of a layer takes some two to three times as long as that in integers, and cells are slower
# per multiplication than layers are: measured, a net whose convolutions have 1.3 times the multiplications of
# its GRU takes 1.06 times as long with them in float, for 10 dB.
_LARGEST_PART = 2.0
"""Of the multiplications in recurrent layers: what the layers beside them have at most."""


# Trained networks gain 1.2 to 13 dB by it.
@rung(order=62, worth_db=0.5, usual_db=2.0)
def beside_cells(best: Best) -> Iterator[Candidate]:
    """All layers outside of recurrent ones."""
    recipe = best.recipe
    if "float32" in (recipe.input_type, recipe.output_type):
        main, costs = main_block(best.fit.program), multiplications(best.fit.program)
        inside = recurrent_multiplications(best.fit.program)
        if inside and sum(costs.values()) <= _LARGEST_PART * inside:
            # Patterns are names, and what an LSTM reads may have its name: that would be float, too.
            lstms = [o for o in main.operators if o.code == CODE and not recipe.leaves("recurrent")]
            taken = {*map(pattern_of, lstms)}
            layers = [o for o in costs if not recipe.why_float(o) and pattern_of(o) not in taken]
            yield from in_float(best, "layers beside recurrent ones in float", layers)
