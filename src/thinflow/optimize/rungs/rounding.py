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
    # weights is most of the noise: of eight bits it costs 0.2 to 1.4 dB on four networks of four.
    if best.recipe.scheme == "int4_weights" and best.recipe.rounding in ("nearest", "gptq"):
        yield Candidate("the same, layer by layer", replace(best.recipe, rounding="sequential"))


# Behind GPTQ, which spares biases the mean of the error, it costs 0.1 to 0.9 dB as often as it brings some.
@rung(order=51, effort="best", usual_db=-0.2)
def biases(best: Best) -> Iterator[Candidate]:
    """Biases that make up for what rounding adds on average."""
    if not best.recipe.correct_bias and best.recipe.scheme != "float16":
        yield Candidate("bias correction", replace(best.recipe, correct_bias=True))
