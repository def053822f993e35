"""Lines of the table of budgets."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.processes import Finished
from thinflow.analysis.stats import Interval, ratio_of_medians

if TYPE_CHECKING:
    from benchmarks.bench import Bench


@dataclass(frozen=True)
class Line:
    """One line: what was asked and what was found.

    Attributes:
        verdict: "pass", "within error", "MISS", "-" (no budget), "needs the oracle", "not there yet" or
            "error".
    """

    what: str
    budget: str
    measured: str
    verdict: str


class NeedsOracle(Exception):
    """The comparison needs a Python with TensorFlow."""


class NotThereYet(Exception):
    """The feature that would be measured does not exist."""


def judged(what: str, budget: str, measured: str, passed: bool) -> Line:
    """A line with a budget."""
    return Line(what, budget, measured, "pass" if passed else "MISS")


def figure(what: str, measured: str) -> Line:
    """A line without a budget."""
    return Line(what, "", measured, "-")


def ratio_line(what: str, ours: Sequence[float], theirs: Sequence[float], limit: float, unit: str) -> Line:
    """Median of ours over median of theirs, measured by turns."""
    found = ratio_of_medians(ours, theirs, paired=len(ours) == len(theirs))
    return interval_line(what, found, limit, f"{_median(ours):.3g} : {_median(theirs):.3g} {unit}")


def interval_line(what: str, found: Interval, limit: float, detail: str, *, at_least: bool = False) -> Line:
    """A ratio that must not exceed the limit, or must reach it.

    A value on the wrong side is a miss only if its whole interval is there.
    """
    kept = found.value >= limit if at_least else found.value <= limit
    verdict = "pass" if kept else "within error" if found.known and limit in found else "MISS"
    return Line(what, f"{'≥' if at_least else '≤'} {limit:.3g}×", f"{found}× ({detail})", verdict)


def guarded(what: str, measure: Callable[[Bench], Iterable[Line]], bench: Bench) -> Iterator[Line]:
    """The lines of a measurement, and one more if something goes wrong on the way."""
    try:
        yield from measure(bench)
    except NeedsOracle:
        yield Line(what, "", "`make oracle-venv`, or set THINFLOW_ORACLE_PYTHON", "needs the oracle")
    except (NotThereYet, ModuleNotFoundError) as error:
        yield Line(what, "", str(error), "not there yet")
    except Exception as error:
        traceback.print_exc()
        first = next(iter(str(error).splitlines()), "")
        yield Line(what, "", f"{type(error).__name__}: {first}", "error")


def against(
    what: str, them: str, ours: Sequence[Finished], theirs: Sequence[Finished], limit: float
) -> Iterator[Line]:
    """Time and peak memory of whole processes that ran by turns."""
    seconds = [r.seconds for r in ours], [r.seconds for r in theirs]
    peaks = [r.peak_bytes / 1e6 for r in ours], [r.peak_bytes / 1e6 for r in theirs]
    yield ratio_line(f"{what}: time : {them}", *seconds, limit, "s")
    yield ratio_line(f"{what}: peak memory : {them}", *peaks, limit, "MB")
    cpu = ratio_of_medians([r.cpu_seconds for r in ours], [r.cpu_seconds for r in theirs])
    yield figure(f"{what}: CPU time of all cores : {them}", f"{cpu}×")


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
