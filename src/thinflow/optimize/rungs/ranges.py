"""Narrower ranges, which give up outliers for a finer step everywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from thinflow.optimize.rungs import Best, Candidate, rung
from thinflow.quantize.recipe import PLAIN


def _candidate(best: Best, name: str, **options: float) -> Iterator[Candidate]:
    # An observer that was asked for stays.
    if best.recipe.needs_samples and best.recipe.observer in (PLAIN.observer, "percentile"):
        shown = "".join(f"({k}={v:g})" for k, v in options.items())
        recipe = replace(best.recipe, observer=name, observer_options=options)
        if recipe != best.recipe:
            yield Candidate(f"observer {name}{shown}", recipe)


# One of 10,000 values clipped. Samples that nobody has seen may be clipped more: it has to bring more.
@rung(order=30, worth_db=0.3)
def percentiles(best: Best) -> Iterator[Candidate]:
    """Next to nothing clipped."""
    yield from _candidate(best, "percentile", percent=99.99)


@rung(order=31, effort="best", worth_db=0.3)
def finer_ranges(best: Best) -> Iterator[Candidate]:
    """Less clipped than that, and whatever makes the error least."""
    yield from _candidate(best, "percentile", percent=99.999)
    yield from _candidate(best, "mse")
