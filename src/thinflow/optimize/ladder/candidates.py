"""Candidates: what can be tried, from what takes seconds to what takes minutes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        more: what else it has, in words; "" for nothing.
    """

    recipe: Recipe
    effort: str
    more: str = ""

    @property
    def scheme(self) -> str:
        return self.recipe.scheme

    @property
    def name(self) -> str:
        """In words, and unique: `int8 (fast)`."""
        pruned = f"pruned {self.recipe.prune:g} dB" if self.recipe.prune else ""
        how = ", ".join(filter(None, ["" if self.effort == "none" else self.effort, pruned, self.more]))
        return f"{self.scheme} ({how})" if how else self.scheme

    @property
    def stem(self) -> str:
        """The stem of its files' names."""
        pruned = f"_pruned_{self.recipe.prune:g}" if self.recipe.prune else ""
        more = f"_{self.more.replace(' ', '_')}" if self.more else ""
        return f"{self.scheme}_{self.effort}{pruned}{more}"

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


LEVELS = (40.0, 30.0, 25.0)
"""Decibels below a layer's sum of channels that may go: eight bits lose as much as the first."""
_LEAST = 0.02
"""Part of the weights that has to go with them."""


def pruned_candidates(
    schemes: Sequence[str], effort: str, weights_without: Callable[[float], float]
) -> list[Candidate]:
    """Candidates without weak channels, where some are: of the fastest scheme and of the smallest, from the
    default effort on.

    Args:
        weights_without: level -> the part of the weights that goes at it.
    """
    levels = list(EFFORTS)
    tried = [s for s in ("int8", "int4_weights") if s in schemes] or list(schemes)[:1]
    if levels.index(effort) < levels.index("default"):
        return []
    found: list[Candidate] = []
    before = 0.0
    for level in LEVELS:
        part = weights_without(level)
        # Another level has to bring something beyond the one before it.
        if part - before >= _LEAST:
            found += [Candidate(Recipe(scheme=scheme, prune=level), "default") for scheme in tried]
            before = part
    return found
