"""Candidates: what can be tried, from what takes seconds to what takes minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thinflow.optimize.climb import EFFORTS
from thinflow.quantize.recipe import NEEDS_SAMPLES, Recipe

FLOAT = "float32"
"""The scheme of the model that nothing was taken from: it always is a candidate."""


@dataclass(frozen=True)
class Candidate:
    """One smaller model that may be made.

    Attributes:
        recipe: what an effort climbs from.
        effort: how much is tried beyond it, see `climb.EFFORTS`.
    """

    recipe: Recipe
    effort: str

    @property
    def scheme(self) -> str:
        return self.recipe.scheme

    @property
    def name(self) -> str:
        """In words, and unique: `int8 (fast)`."""
        return self.scheme if self.effort == "none" else f"{self.scheme} ({self.effort})"

    @property
    def stem(self) -> str:
        """The stem of its files' names."""
        return f"{self.scheme}_{self.effort}"

    @property
    def cost(self) -> float:
        """The time that it takes, nearly, as a multiple of that of the cheapest."""
        effort = EFFORTS[self.effort]
        # A climb walks all its samples for each thing that it tries, in each fold.
        return 1 + effort.samples * effort.folds / 16


def candidates(schemes: Sequence[str], effort: str) -> list[Candidate]:
    """All that can be made in some schemes up to an effort, the cheapest first.

    Every scheme and every effort that there is has its place: those that come later join by themselves.
    """
    levels = list(EFFORTS)[: list(EFFORTS).index(effort) + 1]
    # What needs no ranges is made at once.
    ordered = sorted(schemes, key=lambda scheme: scheme in NEEDS_SAMPLES)
    return [Candidate(Recipe(scheme=scheme), level) for level in levels for scheme in ordered]
