"""Other roundings of weights and biases, which cost nothing when the model runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from thinflow.optimize.rungs import Best, Candidate, rung


@rung(order=50)
def biases(best: Best) -> Iterator[Candidate]:
    """Biases that make up for what rounding adds on average."""
    if not best.recipe.correct_bias:
        yield Candidate("bias correction", replace(best.recipe, correct_bias=True))
