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
    if best.recipe.scheme == "int4_weights":
        yield from by_layers(best)


# Each layer is a walk through the samples in two networks: worth it where rounding is most of the noise.
@rung(order=52, effort="best")
def by_layers(best: Best) -> Iterator[Candidate]:
    """GPTQ layer by layer, each making up for what is lost in front of it."""
    if best.recipe.rounding in ("nearest", "gptq") and best.recipe.scheme != "float16":
        yield Candidate("the same, layer by layer", replace(best.recipe, rounding="sequential"))


@rung(order=51, effort="best")
def biases(best: Best) -> Iterator[Candidate]:
    """Biases that make up for what rounding adds on average."""
    if not best.recipe.correct_bias and best.recipe.scheme != "float16":
        yield Candidate("bias correction", replace(best.recipe, correct_bias=True))
