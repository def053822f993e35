"""Rows of a benchmark, and the ratios between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from thinflow.bench.roofline import Peak
from thinflow.bench.stats import Distribution, Interval
from thinflow.bench.workload import Workload
from thinflow.ir.brief import brief_repr

Outcome = Literal["unknown", "even", "faster", "slower"]
PLACEMENT = 0.01
"""Two copies of one model differ by about as much, by where their memory lies; no number of runs shows it."""


@brief_repr
@dataclass(frozen=True)
class Row:
    """One model on one engine with one number of threads.

    Attributes:
        threads: None where the engine decides.
        latency: milliseconds a run.
        feed: milliseconds for copying the inputs, not part of the latency; None if they cannot be told apart.
        samples_ns: every run, in order; the i-th of all rows were measured next to each other.
        converged: the median is known to the precision that was asked for.
        eight_bit: some of its products are eight-bit.
        note: what a reader of the numbers should know.
        cpu_ms: CPU time of a run on average, of all threads together.
        cause: what the machine did in the run that lies furthest off; empty if that is not known.
        work: what a run computes; None if that is not known.
        peak: what the machine can do at most on as many threads; None if it was not measured.
    """

    subject: str
    engine: str
    threads: int | None
    latency: Distribution
    feed: Distribution | None
    samples_ns: tuple[int, ...]
    converged: bool
    eight_bit: bool = False
    note: str = ""
    cpu_ms: float | None = None
    cause: str = ""
    work: Workload | None = None
    peak: Peak | None = None

    @property
    def rate(self) -> float | None:
        """Operations a second; None if not all that it computes can be counted."""
        if self.work is None or not self.work.is_whole or not self.median_ms:
            return None
        return self.work.operations / (self.median_ms / 1e3)

    @property
    def percent_of_peak(self) -> float | None:
        """Its rate in percent of the machine's measured peak."""
        return None if self.rate is None or self.peak is None else 100 * self.rate / self.peak.rate

    @property
    def setting(self) -> str:
        """Its threads or engine in words: `2 threads`."""
        if self.threads is None:
            return f"the {self.engine} engine"
        return f"{self.threads} thread{'s' if self.threads != 1 else ''}"

    @property
    def median_ms(self) -> float:
        """Median latency."""
        return self.latency.median

    @property
    def spread_ms(self) -> float:
        """Uncertainty of the median: half its 95 % interval."""
        return (self.latency.high - self.latency.low) / 2

    def data(self) -> dict[str, Any]:
        """For JSON; times in ms."""
        return {
            "subject": self.subject,
            "engine": self.engine,
            "threads": self.threads,
            "latency_ms": self.latency.data(),
            "feed_ms": None if self.feed is None else self.feed.data(),
            "cpu_ms": self.cpu_ms,
            "converged": self.converged,
            "eight_bit": self.eight_bit,
            "note": self.note,
            "cause_of_worst": self.cause,
            "work": None if self.work is None else self.work.data(),
            "operations_per_second": self.rate,
            "percent_of_peak": self.percent_of_peak,
            "peak": None if self.peak is None else self.peak.data(),
        }


@dataclass(frozen=True)
class Skipped:
    """A setting that could not be measured, and why."""

    subject: str
    engine: str
    why: str


@brief_repr
@dataclass(frozen=True)
class Ratio:
    """The time `a` takes over the time `b` takes, with a 95 % interval: above 1, `b` is faster.

    Attributes:
        among_engines: other rows were measured on other engines, so the sentence names the engine of these.
    """

    a: Row
    b: Row
    interval: Interval
    among_engines: bool = False

    @property
    def value(self) -> float:
        """Median of `a` over median of `b`."""
        return self.interval.value

    @property
    def certain(self) -> bool:
        """True if the interval excludes "equally fast"."""
        return 1.0 not in self.interval

    @property
    def outcome(self) -> Outcome:
        """The verdict on `b` beside `a`: all sentences about speed go by this."""
        # In this order: without an interval nothing is known, and one that holds 1 says nothing about the
        # direction.
        if not self.interval.known:
            return "unknown"
        if not self.certain or self._is_blurred():
            return "even"
        return "faster" if self.value > 1 else "slower"

    def __str__(self) -> str:
        a, b = self._who()
        where = self._where()
        if self.outcome == "unknown":
            return f"too few runs to compare {b} with {a}{where} (ratio {self.interval})"
        if self.outcome == "even":
            return f"no difference between {b} and {a} could be measured{where} (ratio {self.interval})"
        if self.outcome == "faster":
            return f"{b} ran {self.interval} times faster than {a}{where}"
        return f"{b} ran {self.interval.inverse()} times slower than {a}{where}"

    def _is_blurred(self) -> bool:
        """True if "equally fast" lies within the width that is told, which is that of the longer side."""
        # What is printed is ±, wider than the interval on one side. A sentence that says "faster" and shows a
        # width with 1 in it would contradict itself.
        shown = self.interval if self.value > 1 else self.interval.inverse()
        return shown.value - shown.half_width <= 1

    def _where(self) -> str:
        """The setting that both have in common, in words."""
        is_same = self.a.engine == self.b.engine
        if self.a.setting == self.b.setting:
            engine = f" with {self.a.engine}" if is_same and self.among_engines else ""
            return f"{engine} on {self.a.setting}"
        return f" with {self.a.engine}" if is_same else ""

    def _who(self) -> tuple[str, str]:
        if self.a.engine != self.b.engine:
            return f"{self.a.subject} on {self.a.engine}", f"{self.b.subject} on {self.b.engine}"
        if self.a.threads != self.b.threads:
            return f"{self.a.subject} on {self.a.setting}", f"{self.b.subject} on {self.b.setting}"
        return self.a.subject, self.b.subject

    def data(self) -> dict[str, Any]:
        """For JSON."""

        def key(row: Row) -> dict[str, Any]:
            return {"subject": row.subject, "engine": row.engine, "threads": row.threads}

        known = {**vars(self.interval), "outcome": self.outcome, "text": str(self)}
        return {"a": key(self.a), "b": key(self.b), **known}
