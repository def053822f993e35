"""The choice among measured candidates: what is on the front, what fits a budget, and which is best."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from thinflow.ir.brief import brief_repr
from thinflow.optimize.ladder.budget import Budget
from thinflow.optimize.ladder.measured import Measured
from thinflow.program.amounts import bytes_text, ms_text

AS_SMALL = 1.1
"""Costs that differ by less than this factor are as good: sizes differ by metadata, times by chance."""
_AS_FAST = 0.02
"""Of a time: medians of one model taken twice differ by about as much."""


@dataclass(frozen=True)
class Bound:
    """One bound of a budget on what a model needs.

    Attributes:
        what: it is on, in a word.
        limit: that is not to be exceeded.
        of: tells a candidate's need; None where it is not known.
        text: of a need.
        most: what has the least of it, in a word.
    """

    what: str
    limit: float
    of: Callable[[Measured], float | None]
    text: Callable[[float], str]
    least: str

    def excess(self, one: Measured) -> float:
        """How many times too much a candidate needs; 1 and less if it fits."""
        need = self.of(one)
        return math.inf if need is None else need / self.limit


def bounds(budget: Budget) -> list[Bound]:
    """The bounds of a budget on size, time and memory."""
    found = [
        ("size", budget.size_bytes, lambda m: float(m.size_bytes), bytes_text, "smallest"),
        ("latency", budget.latency_ms, _ms, ms_text, "fastest"),
        ("RAM", budget.ram_bytes, lambda m: float(m.ram_bytes), bytes_text, "leanest"),
    ]
    return [
        Bound(what, limit, of, text, least) for what, limit, of, text, least in found if limit is not None
    ]


def _ms(one: Measured) -> float | None:
    return None if one.latency is None else one.latency.ms


@brief_repr
@dataclass(frozen=True)
class Choice:
    """The best within a budget, or the best found.

    Attributes:
        best: to be shipped.
        smaller: the best of those that are no float model; `best` itself if it is one of them.
        missed: why the goal is out of reach, in a sentence; "" if it is reached.
    """

    best: Measured
    smaller: Measured
    missed: str = ""


def front(found: Sequence[Measured]) -> list[Measured]:
    """Those that no other beats in size, time and quality at once, the smallest first."""
    own = [m for m in found if m.is_own]
    kept = [m for m in own if not any(_beats(other, m) for other in own)]
    return sorted(kept, key=lambda m: (m.size_bytes, m.loss))


def _beats(a: Measured, b: Measured) -> bool:
    """True if a is as good as b in everything, and better in something."""
    at_least = a.size_bytes <= b.size_bytes and a.loss <= b.loss and a.exactness_db >= b.exactness_db
    better = a.size_bytes < b.size_bytes or a.loss < b.loss or a.exactness_db > b.exactness_db
    if a.latency is None or b.latency is None:
        return at_least and better
    slack = 1 + _AS_FAST
    faster = a.latency.ratio * slack < b.latency.ratio
    return at_least and a.latency.ratio <= b.latency.ratio * slack and (better or faster)


def misfits(one: Measured, budget: Budget) -> list[str]:
    """What keeps a candidate from fitting a budget, in a word each; empty if nothing does."""
    if one.failure:
        return ["failed"]
    words = [bound.what for bound in bounds(budget) if not bound.excess(one) <= 1]
    return [*words, *(["drop"] if one.too_wrong(budget.drop) else [])]


def choose(found: Sequence[Measured], budget: Budget) -> Choice | None:
    """The best within a budget, else the one that comes nearest; None if no smaller model could be made.

    What has a bound needs only to keep it. Of the rest, size and time beside float, their product decides;
    and among those within `AS_SMALL` of the least, the most exact.
    """
    own = [m for m in found if m.is_own]
    small = [m for m in own if not m.is_float]
    if not small:
        return None
    best, smaller = _best(own, budget), _best(small, budget)
    missed = "" if not misfits(best, budget) else _why_missed(best, own, budget)
    return Choice(best, best if not best.is_float else smaller, missed)


def _best(own: Sequence[Measured], budget: Budget) -> Measured:
    fitting = [m for m in own if not misfits(m, budget)]
    if not fitting:
        # Good answers come first: nothing that is wrong is shipped for being small.
        good = [m for m in own if not m.too_wrong(budget.drop)]
        if not good:
            return min(own, key=lambda m: m.loss)
        nearest = min(_worst_excess(m, budget) for m in good)
        fitting = [m for m in good if _worst_excess(m, budget) <= AS_SMALL * nearest]
    least = min(_cost(m, budget) for m in fitting)
    return max((m for m in fitting if _cost(m, budget) <= AS_SMALL * least), key=lambda m: m.exactness_db)


def _worst_excess(one: Measured, budget: Budget) -> float:
    return max((bound.excess(one) for bound in bounds(budget)), default=1.0)


def _cost(one: Measured, budget: Budget) -> float:
    """What a candidate needs of that which has no bound; only ratios of it mean something."""
    size = float(one.size_bytes) if budget.size_bytes is None else 1.0
    time = 1.0 if one.latency is None or budget.latency_ms is not None else one.latency.ratio
    return size * time


def _why_missed(best: Measured, own: Sequence[Measured], budget: Budget) -> str:
    """Why nothing fits, with figures, and what comes nearest."""
    parts = []
    for bound in bounds(budget):
        if bound.excess(best) <= 1:
            continue
        need = bound.of(best)
        if need is None:
            return f"{bound.what} could not be measured"
        least = min(own, key=bound.excess)
        is_least = bound.excess(least) == bound.excess(best)
        which = f", the {bound.least} of all," if is_least else ""
        text = f"{best.name}{which} has a {bound.what} of {bound.text(need)}, not {bound.text(bound.limit)}"
        if bound.excess(least) > 1 and not is_least:
            text += f", and even the {bound.least}, {least.name}, has {bound.text(bound.of(least) or 0)}"
        parts.append(text)
    if lost := best.too_wrong(budget.drop):
        parts.append(lost)
    # Small, fast and lean enough, but wrong.
    light = [m for m in own if m is not best and _worst_excess(m, budget) <= 1]
    if light:
        nearest = min(light, key=lambda m: m.loss)
        parts.append(f"what fits otherwise loses too much: {nearest.too_wrong(budget.drop)}")
    return "; ".join(parts)
