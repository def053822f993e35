"""Other roundings of weights and biases, which cost nothing when the model runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from thinflow.optimize.rungs import Best, Candidate, rung


@rung(order=50, usual_db=0.5)
def weights(best: Best) -> Iterator[Candidate]:
    """Weights rounded one after the other, each making up for those before it."""
    if best.recipe.rounding == "nearest" and best.recipe.scheme != "float16":
        yield Candidate("weights rounded by GPTQ", replace(best.recipe, rounding="gptq"))
    # Each layer is a walk through the samples in two networks, and brings something only where rounding
    # weights is most of the noise, which it is not at eight bits.
    if best.recipe.scheme == "int4_weights" and best.recipe.rounding in ("nearest", "gptq"):
        yield Candidate("the same, layer by layer", replace(best.recipe, rounding="sequential"))


# What smoothing takes from activations it puts into weights, where GPTQ makes up for it: `depthwise` gains
# 0.3 dB by it then, and loses 0.2 without (`python -m benchmarks ptq_rungs`). Samples that nobody has seen
# gain less than those that judge: it has to bring more.
@rung(order=52, worth_db=0.5, usual_db=0.3)
def smoothed_weights(best: Best) -> Iterator[Candidate]:
    """Smoothing that did not pay before weights made up for one another."""
    recipe = replace(best.recipe, rescale="all", rounding="gptq")
    is_new = best.recipe.scheme == "int8" and best.recipe.rescale != "all"
    if is_new and best.recipe.rounding in ("nearest", "gptq") and best.fit.rescaling(recipe).groups:
        yield Candidate("smoothing, and weights rounded by GPTQ", recipe)


# GPTQ gives biases the mean of the error already: behind it this costs as often as it brings something.
@rung(order=51, effort="best", usual_db=-0.2)
def biases(best: Best) -> Iterator[Candidate]:
    """Biases that make up for what rounding adds on average."""
    if not best.recipe.correct_bias and best.recipe.scheme != "float16":
        yield Candidate("bias correction", replace(best.recipe, correct_bias=True))
