"""Trials: what was tried to make a smaller model better, what it brought, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from thinflow.ir.brief import brief_repr
from thinflow.optimize.quality import Score
from thinflow.quantize.recipe import PLAIN, Recipe


@dataclass(frozen=True)
class Trial:
    """One thing that was tried.

    Attributes:
        what: in words.
        sqnr_db: of the logits, in decibels: the mean over samples held out.
        kept: whether it was better than the best before it by as much as it has to be.
        agreement: share of top answers that are as in float; None where there are no classes.
        seconds: that it took.
        gain_db: over the best before it; None of the first.
        error_db: standard error of the gain. Of a gain that is smaller, what is usual counts for more.
        in_float: reasons that a recipe gives for what it leaves float, where this trial is behind them.
    """

    what: str
    sqnr_db: float
    kept: bool
    agreement: float | None = None
    seconds: float = 0.0
    gain_db: float | None = None
    error_db: float = 0.0
    in_float: tuple[str, ...] = ()

    @property
    def why_float(self) -> str:
        """The reason for what it leaves float, with what was measured."""
        gain = "" if self.gain_db is None else f", which was worth {_gain(self)} dB on samples held out"
        return f"tried as '{self.what}'{gain}"


@brief_repr
@dataclass
class Climb:
    """The way to a recipe.

    Attributes:
        recipe: the best.
        trials: in order; the first is the recipe that was asked for. Empty if there was nothing to judge on.
        note: why nothing was tried; "" if something was.
        scores: of the best, on each sample held out.
    """

    recipe: Recipe = PLAIN
    trials: list[Trial] = field(default_factory=list)
    note: str = ""
    scores: Sequence[Score] = ()


def with_measured_reasons(
    float_operators: Sequence[tuple[Any, str]], trials: Sequence[Trial]
) -> list[tuple[Any, str]]:
    """Operators that stay float and why: not what the recipe says, but why the climb had it say so."""
    found = {why: trial.why_float for trial in trials if trial.kept for why in trial.in_float}
    return [(operator, found.get(why, why)) for operator, why in float_operators]


_WIDTH = 24
"""Characters of the longest bar of a curve."""


def trial_lines(trials: Sequence[Trial]) -> list[str]:
    """A line for each trial, with a bar from the worst to the best in decibels."""
    if not trials:
        return []
    low, high = min(t.sqnr_db for t in trials), max(t.sqnr_db for t in trials)
    width = max(len(t.what) for t in trials)
    return [
        f"{'kept' if t.kept else 'left'}: {t.what:{width}} {t.sqnr_db:6.1f} dB {_gain(t):11}{_agreement(t)}"
        f"  {_bar(t.sqnr_db, low, high)}".rstrip()
        for t in trials
    ]


def trial_table(trials: Sequence[Trial]) -> list[str]:
    """The same as a table in Markdown."""
    if not trials:
        return []
    low, high = min(t.sqnr_db for t in trials), max(t.sqnr_db for t in trials)
    rows = [
        f"| {t.what} | {t.sqnr_db:.1f} | {_gain(t)} |{_agreement(t, ' ') or ' '} |"
        f" {'yes' if t.kept else 'no'} |"
        f" {t.seconds:.1f} | {_bar(t.sqnr_db, low, high)} |"
        for t in trials
    ]
    return ["| tried | SQNR, dB | gain | same answer | kept | s | |", "|---|---|---|---|---|---|---|", *rows]


def _gain(trial: Trial) -> str:
    """Such as +0.8 ± 0.3."""
    return "" if trial.gain_db is None else f"{trial.gain_db:+.1f} ± {trial.error_db:.1f}"


def _agreement(trial: Trial, before: str = "  ") -> str:
    return "" if trial.agreement is None else f"{before}{trial.agreement:6.1%}"


def _bar(value: float, low: float, high: float) -> str:
    share = (value - low) / (high - low) if high > low else 1.0
    return "█" * max(1, round(share * _WIDTH))
