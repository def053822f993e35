"""More bits where four are too few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from thinflow.optimize.mixed_bits import costly_layers, worth_eight_bits
from thinflow.optimize.rungs import Best, Candidate, rung
from thinflow.quantize.macs import main_block

_ROOM = (0.02, 0.05)
"""Of the file, that more bits may take. Half of that room brings most of the gain: a few layers, often
depthwise ones, make most of the noise."""


# A file that is larger by a twentieth has to be worth it.
@rung(order=45, worth_db=0.5)
def eight_bits(best: Best) -> Iterator[Candidate]:
    """The layers that four bits harm most, with weights of eight."""
    if best.recipe.scheme != "int4_weights":
        return
    layers = costly_layers(best.fit, best.recipe)
    # Most constants become a half of a byte each.
    size = sum(t.array().size for t in main_block(best.fit.program).constants()) / 2
    before = best.recipe.eight_bits
    tried: set[tuple[str, ...]] = {()}
    for part in _ROOM:
        chosen = tuple(layer.pattern for layer in worth_eight_bits(layers, part * size))
        if chosen not in tried:
            tried.add(chosen)
            what = f"{len(chosen)} layers in eight bits" if len(chosen) > 1 else f"{chosen[0]} in eight bits"
            yield Candidate(what, replace(best.recipe, eight_bits=(*before, *chosen)))
