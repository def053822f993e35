"""Narrower ranges, which give up outliers for a finer step everywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from thinflow.optimize.rungs import Best, Candidate, rung
from thinflow.quantize.recipe import PLAIN


def _candidate(best: Best, name: str, **options: float) -> Iterator[Candidate]:
    if best.recipe.needs_samples and best.asked.observer == PLAIN.observer:
        shown = "".join(f"({k}={v:g})" for k, v in options.items())
        recipe = replace(best.recipe, observer=name, observer_options=options)
        if recipe != best.recipe:
            yield Candidate(f"observer {name}{shown}", recipe)


@rung(order=30, worth_db=0.2, usual_db=0.4)
def least_error(best: Best) -> Iterator[Candidate]:
    """Whatever makes the error of each tensor least."""
    yield from _candidate(best, "mse")


# Samples that nobody has seen may be clipped more than those that judge: it has to bring more.
@rung(order=31, effort="best", worth_db=0.3)
def percentiles(best: Best) -> Iterator[Candidate]:
    """One of 10,000 values clipped, or of 100,000."""
    for percent in (99.99, 99.999):
        yield from _candidate(best, "percentile", percent=percent)
