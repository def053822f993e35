"""Rungs: what may make a smaller model better, tried one after the other on samples held out.

A function becomes a rung by `@rung`, in a module of this folder. It is given the best so far and yields
recipes that might be better.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from thinflow.program.model import Operator
from thinflow.quantize.fit import Fit
from thinflow.quantize.macs import main_block
from thinflow.quantize.recipe import Recipe, pattern_of


class Candidate(NamedTuple):
    """A recipe that may be better than the best so far.

    Attributes:
        what: was changed, in words.
    """

    what: str
    recipe: Recipe


@dataclass
class Best:
    """The best so far. A rung sees it change when what it yields is taken.

    Attributes:
        recipe: of it.
        asked: that the climb began with; what it chose stays.
        fit: what samples that do not judge tell.
    """

    recipe: Recipe
    asked: Recipe
    fit: Fit[Any]


Candidates = Callable[[Best], Iterator[Candidate]]


@dataclass(frozen=True)
class Rung:
    """What is tried, and when.

    Attributes:
        order: the smaller goes first: what changes ranges goes before what rounds by them.
        effort: the smallest that tries it, see `climb.EFFORTS`.
        mends: share of answers that are expected to change, from which on the default effort tries it, too; 0
            for never. Of its candidates no more are tried than it takes.
        worth_db: a smaller gain is not taken. More for what makes a model larger or slower.
        usual_db: what it gains on most networks, which counts as much as what some samples tell.
        fewest: samples without which nothing is tried.
        candidates: made one by one, each when that before it has been judged.
    """

    name: str
    order: int
    effort: str
    worth_db: float
    usual_db: float
    fewest: int
    candidates: Candidates
    mends: float = 0.0


_RUNGS: dict[str, Rung] = {}


def rung(
    *,
    order: int,
    effort: str = "default",
    worth_db: float = 0.1,
    usual_db: float = 0.0,
    fewest: int = 8,
    mends: float = 0.0,
) -> Callable[[Candidates], Candidates]:
    """Decorator that makes a function a rung under its own name; see `Rung`."""

    def register(candidates: Candidates) -> Candidates:
        name = candidates.__name__
        _RUNGS[name] = Rung(name, order, effort, worth_db, usual_db, fewest, candidates, mends)
        return candidates

    return register


def rungs() -> list[Rung]:
    """All, in order."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return sorted(_RUNGS.values(), key=lambda r: r.order)


# Weights of a layer that is kept float take four times the room.
_LARGEST_FLOATS = 0.05
"""Of all constants, by bytes. Layers that are larger together keep weights of eight bits: what theirs would
add to the file is more than users give for a decibel."""


def in_float(best: Best, what: str, layers: Sequence[Operator[Any]]) -> Iterator[Candidate]:
    """The best with more layers in float, and with weights of eight bits where they are large."""
    recipe = with_floats(best.recipe, best.fit.program, layers)
    if recipe is not None:
        yield Candidate(what, recipe)


def with_floats(recipe: Recipe, program: Any, layers: Sequence[Operator[Any]]) -> Recipe | None:
    """A recipe with more layers of a float program in float; None if there is none."""
    names = [*filter(None, map(pattern_of, layers))]
    if not recipe.needs_samples or not names:
        return None
    every = sum(t.array().nbytes for t in main_block(program).constants()) or 1
    size = sum(t.array().nbytes for layer in layers for t in layer.reads() if t.is_constant)
    field = "skip_nodes" if size <= _LARGEST_FLOATS * every else "weights_only"
    before = getattr(recipe, field)
    changed: dict[str, Any] = {field: (*before, *(n for n in names if n not in before))}
    # Of those that find ranges in each run the integers are given up, too.
    changed["dynamic_nodes"] = tuple(n for n in recipe.dynamic_nodes if n not in names)
    return replace(recipe, **changed)
