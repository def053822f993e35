"""Rows of a benchmark, the ratios between them, and their tables: one to read, one with every figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from thinflow.analysis.stats import Distribution, Interval, plus_minus
from thinflow.bench.memory import Memory
from thinflow.bench.roofline import Peak
from thinflow.bench.workload import Workload
from thinflow.errors.plain_text import markdown
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
        device: where it ran; "" for this machine, in this process.
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
    device: str = ""

    @property
    def rate(self) -> float | None:
        """Operations a second; None if not all that it computes can be counted."""
        if self.work is None or not self.work.is_whole or not self.median_ms:
            return None
        return self.work.operations / (self.median_ms / 1e3)

    @property
    def percent_of_peak(self) -> float | None:
        """Its rate in percent of the machine's measured peak; None also where it was faster than that."""
        if self.rate is None or self.peak is None or self.is_above_peak:
            return None
        return 100 * self.rate / self.peak.rate

    @property
    def is_above_peak(self) -> bool:
        """True if what was measured as the peak is none: the model itself was faster."""
        return self.rate is not None and self.peak is not None and self.rate > self.peak.rate

    @property
    def setting(self) -> str:
        """Its threads or engine in words, behind where it ran: `2 threads`, `board, 2 threads`."""
        where = f"{self.device}, " if self.device else ""
        if self.threads is None:
            return f"{where}the {self.engine} engine"
        return f"{where}{self.threads} thread{'s' if self.threads != 1 else ''}"

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
            "device": self.device,
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
    device: str = ""


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
        if self.a.engine != self.b.engine and self.a.device == self.b.device:
            return f"{self.a.subject} on {self.a.engine}", f"{self.b.subject} on {self.b.engine}"
        if (self.a.threads, self.a.device) != (self.b.threads, self.b.device):
            return f"{self.a.subject} on {self.a.setting}", f"{self.b.subject} on {self.b.setting}"
        return self.a.subject, self.b.subject

    def data(self) -> dict[str, Any]:
        """For JSON."""

        def key(row: Row) -> dict[str, Any]:
            where = {"device": row.device} if row.device else {}
            return {"subject": row.subject, "engine": row.engine, "threads": row.threads, **where}

        known = {**self.interval.data(), "outcome": self.outcome, "text": str(self)}
        return {"a": key(self.a), "b": key(self.b), **known}


# --- tables -------------------------------------------------------------------------------------------------

WIDTH = 100
_GAP = 2
_SHORT_MS = 0.1
_SHORTEST_NAME = 12
Table = tuple[list[str], list[list[str]]]


class Measured(Protocol):
    """The part of a report that its tables are made of."""

    @property
    def rows(self) -> Sequence[Row]: ...

    @property
    def memory(self) -> Sequence[Memory]: ...

    @property
    def sizes(self) -> Mapping[str, int]: ...

    @property
    def paths(self) -> Mapping[str, str]: ...


def readable(report: Measured, width: int | None = WIDTH) -> Table:
    """Headers and cells for people, names shortened in the middle until the table fits a width, if given.

    Columns without anything in them are left out. Times are in µs where the quickest model needs that.
    """
    unit, factor = unit_of(report)
    headers = ["model", "device", "engine", "threads", f"median {unit}", "p90", "p99", "GFLOP/s", "% peak"]
    headers += ["file MB", "RAM MB"]
    memory = _memory(report)
    cells = [_readable_row(report, row, memory, factor) for row in report.rows]
    kept = [i for i in range(len(headers)) if any(line[i] != "-" for line in cells)]
    headers, cells = [headers[i] for i in kept], [[line[i] for i in kept] for line in cells]
    if width is None:
        return headers, cells
    # Shorter headers first, then shorter names.
    if sum(map(_GAP.__add__, _widths([headers, *cells]))) - _GAP > width:
        headers = ["thr." if h == "threads" else h for h in headers]
    rest = sum(map(_GAP.__add__, _widths([headers, *cells])[1:]))
    names = shortened([line[0] for line in cells], max(_SHORTEST_NAME, width - rest))
    for line, name in zip(cells, names, strict=True):
        line[0] = name
    return headers, cells


def unit_of(report: Measured) -> tuple[str, float]:
    """The unit of the times, and what a millisecond is in it."""
    quickest = min(row.median_ms for row in report.rows)
    return ("µs", 1e3) if quickest < _SHORT_MS else ("ms", 1.0)


_ByRow = dict[tuple[str, str, str], Memory]


def _readable_row(report: Measured, row: Row, memory: _ByRow, factor: float) -> list[str]:
    used = memory.get((row.subject, row.engine, row.device))
    size = report.sizes.get(row.subject)
    percent = row.percent_of_peak
    return [
        row.subject,
        row.device or "-",
        row.engine,
        "any" if row.threads is None else str(row.threads),
        median_text(row, factor),
        _three(row.latency.p90 * factor),
        _three(row.latency.p99 * factor),
        "-" if row.rate is None else _three(row.rate / 1e9),
        "-" if percent is None else f"{percent:.2g}" if percent < 9.95 else f"{percent:.0f}",
        "-" if size is None else _three(size / 1e6),
        "-" if used is None or used.peak_bytes is None else f"{used.peak_bytes / 1e6:.0f}",
    ]


def median_text(row: Row, factor: float) -> str:
    """Median and how far it may be off, in as many digits as that deserves, of three at most."""
    median, spread = row.median_ms * factor, row.spread_ms * factor
    if not row.latency.has_interval:
        return f"{_three(median)} ± ?"
    # Three digits at most, however narrow the interval is.
    return plus_minus(median, max(spread, median / 1000))


def _three(number: float) -> str:
    """Three digits, without an exponent."""
    # 99.95 rounds to 100, which has three digits already; below 1e-4 "g" would turn to an exponent.
    return f"{number:.0f}" if abs(number) >= 99.95 else f"{number:.3g}" if number >= 1e-4 else f"{number:.6f}"


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*table, strict=True)]


def shortened(names: Sequence[str], width: int) -> list[str]:
    """The names, each no longer than the width: without a part in the middle, as long as they stay distinct.

    >>> shortened(["resnet_v2_50_optimized_int8"], 15)
    ['resnet_…ed_int8']
    """
    if width < 3:
        return list(names)
    half = width // 2
    found = [n if len(n) <= width else f"{n[:half]}…{n[len(n) - (width - half - 1) :]}" for n in names]
    # Two models under one name would be worse than a wide table.
    return found if len(set(found)) == len(set(names)) else list(names)


def _memory(report: Measured) -> _ByRow:
    return {(m.subject, m.engine, m.device): m for m in report.memory if m.peak_bytes is not None}


FIGURES = (
    *("model", "engine", "threads", "runs", "median_ms", "low_ms", "high_ms", "mad_ms", "p90_ms", "p99_ms"),
    *("min_ms", "max_ms", "outliers", "feed_ms", "cpu_ms", "gflops", "percent_of_peak", "peak_gflops"),
    *("peak_kind", "operations", "file_bytes", "memory_bytes", "eight_bit", "converged", "path", "device"),
)
"""Columns of the table with every figure. The median lies between low and high with 95 % confidence."""


def figures(report: Measured) -> Table:
    """Headers and cells with exact figures, a row for each configuration; empty where nothing is known."""
    memory = _memory(report)
    paths = {name: path for path, name in report.paths.items()}
    return list(FIGURES), [list(_figures_of(report, row, memory, paths)) for row in report.rows]


def _figures_of(report: Measured, row: Row, memory: _ByRow, paths: dict[str, str]) -> Iterable[str]:
    t, used = row.latency, memory.get((row.subject, row.engine, row.device))
    found = [
        *(row.subject, row.engine, row.threads, t.count, t.median, t.low, t.high, t.mad, t.p90, t.p99),
        *(t.minimum, t.maximum, len(t.outliers)),
        None if row.feed is None else row.feed.median,
        row.cpu_ms,
        None if row.rate is None else row.rate / 1e9,
        row.percent_of_peak,
        None if row.peak is None else row.peak.rate / 1e9,
        None if row.peak is None else row.peak.kind,
        None if row.work is None or not row.work.is_whole else row.work.operations,
        report.sizes.get(row.subject),
        None if used is None else used.peak_bytes,
        int(row.eight_bit),
        int(row.converged),
        paths.get(row.subject, ""),
        row.device,
    ]
    return ("" if x is None else f"{x:.9g}" if isinstance(x, float) else str(x) for x in found)


def pipes(cells: Sequence[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(map(markdown, cells)) + " |"
