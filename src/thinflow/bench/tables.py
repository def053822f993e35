"""A benchmark's rows as tables: one to read, a hundred columns wide, and one with every figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from thinflow.bench.memory import Memory
from thinflow.bench.rows import Row
from thinflow.bench.stats import plus_minus
from thinflow.errors.plain_text import markdown

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
    unit, factor = _unit(report)
    headers = ["model", "engine", "threads", f"median {unit}", "p90", "p99", "GFLOP/s", "% peak"]
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


def _unit(report: Measured) -> tuple[str, float]:
    """The unit of the times, and what a millisecond is in it."""
    quickest = min(row.median_ms for row in report.rows)
    return ("µs", 1e3) if quickest < _SHORT_MS else ("ms", 1.0)


def _readable_row(
    report: Measured, row: Row, memory: dict[tuple[str, str], Memory], factor: float
) -> list[str]:
    used = memory.get((row.subject, row.engine))
    size = report.sizes.get(row.subject)
    percent = row.percent_of_peak
    return [
        row.subject,
        row.engine,
        "any" if row.threads is None else str(row.threads),
        _median(row, factor),
        _three(row.latency.p90 * factor),
        _three(row.latency.p99 * factor),
        "-" if row.rate is None else _three(row.rate / 1e9),
        "-" if percent is None else f"{percent:.2g}" if percent < 9.95 else f"{percent:.0f}",
        "-" if size is None else _three(size / 1e6),
        "-" if used is None or used.peak_bytes is None else f"{used.peak_bytes / 1e6:.0f}",
    ]


def _median(row: Row, factor: float) -> str:
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


def _memory(report: Measured) -> dict[tuple[str, str], Memory]:
    return {(m.subject, m.engine): m for m in report.memory if m.peak_bytes is not None}


FIGURES = (
    *("model", "engine", "threads", "runs", "median_ms", "low_ms", "high_ms", "mad_ms", "p90_ms", "p99_ms"),
    *("min_ms", "max_ms", "outliers", "feed_ms", "cpu_ms", "gflops", "percent_of_peak", "peak_gflops"),
    *("peak_kind", "operations", "file_bytes", "memory_bytes", "eight_bit", "converged", "path"),
)
"""Columns of the table with every figure. The median lies between low and high with 95 % confidence."""


def figures(report: Measured) -> Table:
    """Headers and cells with exact figures, a row for each configuration; empty where nothing is known."""
    memory = _memory(report)
    paths = {name: path for path, name in report.paths.items()}
    return list(FIGURES), [list(_figures_of(report, row, memory, paths)) for row in report.rows]


def _figures_of(
    report: Measured, row: Row, memory: dict[tuple[str, str], Memory], paths: dict[str, str]
) -> Iterable[str]:
    t, used = row.latency, memory.get((row.subject, row.engine))
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
    ]
    return ("" if x is None else f"{x:.9g}" if isinstance(x, float) else str(x) for x in found)


def pipes(cells: Sequence[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(map(markdown, cells)) + " |"
