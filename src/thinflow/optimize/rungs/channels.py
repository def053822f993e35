"""Rescaling of channels, which changes no answer in float."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from thinflow.optimize.rungs import Best, Candidate, rung
from thinflow.quantize.macs import recurrent_multiplications
from thinflow.quantize.rescale import UNEQUAL


# Two samples tell that one channel is a hundred times another, and nothing is gained less often by chance.
@rung(order=10, effort="fast", worth_db=0.3, fewest=2)
def unequal_channels(best: Best) -> Iterator[Candidate]:
    """Channels that are many times the size of others, in every scheme."""
    recipe = replace(best.recipe, rescale="unequal")
    if best.recipe.rescale == "off" and best.fit.rescaling(recipe).groups:
        yield Candidate("unequal channels rescaled", recipe)


# Tensors inside are other numbers then, which is a nuisance to whoever compares them: it has to bring more.
@rung(order=20, worth_db=0.3)
def all_channels(best: Best) -> Iterator[Candidate]:
    """All channels, where activations and weights both have eight bits to share."""
    recipe = replace(best.recipe, rescale="all")
    if best.recipe.scheme == "int8" and best.recipe.rescale != "all" and best.fit.rescaling(recipe).groups:
        yield Candidate("smoothing" if recipe.per_channel else "cross-layer equalization", recipe)


# Features of sounds, of which the first is many times the others, gain 3 to 4 dB by it; of pictures all
# channels are of one size. What is made has an operator more, which nobody has asked for.
@rung(order=15, effort="fast", worth_db=0.5, fewest=2)
def inputs(best: Best) -> Iterator[Candidate]:
    """Channels of inputs that are floats, by a product that the model then begins with."""
    recipe = replace(best.recipe, scale_inputs=True)
    is_new = recipe.needs_samples and recipe.scales_inputs and not best.recipe.scale_inputs
    if is_new and best.fit.rescaling(recipe).scaled_inputs:
        yield Candidate("channels of the inputs rescaled", recipe)


# Before weights make up for one another and what stands beside cells is float, that is most of the noise, and
# what this gains is not heard: `kws_GRU_L` gains -0.1 dB then, and 5 dB now.
@rung(order=63, worth_db=0.5)
def inputs_of_cells(best: Best) -> Iterator[Candidate]:
    """The same once more, for recurrent layers."""
    if recurrent_multiplications(best.fit.program):
        for one in inputs(best):
            yield Candidate(f"{one.what}, once more", one.recipe)


@rung(order=16, effort="fast", worth_db=0.3, fewest=2)
def outputs(best: Best) -> Iterator[Candidate]:
    """Channels of outputs that are floats and many times the size of others, by a product behind them."""
    recipe = replace(best.recipe, scale_outputs=True)
    is_new = recipe.needs_samples and recipe.scales_outputs and not best.recipe.scale_outputs
    if is_new and max(best.fit.rescaling(recipe).scaled_outputs.values(), default=0.0) > UNEQUAL:
        yield Candidate("channels of the outputs rescaled", recipe)
