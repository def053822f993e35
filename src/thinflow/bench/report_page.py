"""A benchmark as a document: runs, ratios with their intervals, sizes, and times of operators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from thinflow.bench.devices import MeasuredDevice
from thinflow.bench.machine import Machine
from thinflow.bench.profile_model import Profile
from thinflow.bench.rows import Measured, Ratio, Row, figures, readable
from thinflow.pages.report import (
    Bar,
    Bars,
    Block,
    Column,
    Command,
    Commands,
    Distribution,
    Fact,
    Facts,
    Intervals,
    ReportDocument,
    Runs,
    Span,
    Table,
    Text,
    Tone,
    notes,
    section,
)
from thinflow.program.amounts import ms_text

_DOTS = 160
"""Of the runs of a row that are drawn; more would be one on the other."""
_OPS = 12
_TONES: dict[str, Tone] = {"faster": "good", "slower": "bad"}


class Benchmarked(Measured, Protocol):
    """What a document is made of."""

    @property
    def machine(self) -> Machine: ...

    @property
    def devices(self) -> Sequence[MeasuredDevice]: ...

    @property
    def rounds(self) -> int: ...

    @property
    def seconds(self) -> float: ...

    @property
    def interrupted(self) -> bool: ...

    @property
    def fed(self) -> str: ...

    def ratios(self) -> list[Ratio]: ...

    def sentences(self) -> list[str]: ...

    def caveats(self) -> list[str]: ...

    def data(self) -> dict[str, Any]: ...


class Profiled(Protocol):
    """Times of the operators of a row, or why there are none."""

    @property
    def row(self) -> Row: ...

    @property
    def profile(self) -> Profile | None: ...

    @property
    def refusal(self) -> str: ...

    @property
    def title(self) -> str: ...

    def data(self) -> dict[str, Any]: ...


def benchmark_document(
    report: Benchmarked, profiles: Sequence[Profiled] = (), next_steps: Sequence[str] = ()
) -> ReportDocument:
    """The document of a benchmark.

    Args:
        profiles: of its rows.
        next_steps: commands to try.
    """
    verdict, *others = report.sentences()
    data = report.data() | ({"profiles": [p.data() for p in profiles]} if profiles else {})
    sections = [
        section("Result", Facts(list(_facts(report))), notes(others)),
        section("Latency", *latency_blocks(report)),
        section("Size and memory", *_sizes(report)),
        section("Operators", *profile_blocks(profiles)),
        section("What to know", notes(report.caveats(), "warn"), Text(how(report))),
        section("Try next", Commands([Command(text) for text in next_steps])),
    ]
    names = list(dict.fromkeys(row.subject for row in report.rows))
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ReportDocument(
        f"Benchmark of {', '.join(names[:3])}{more}",
        verdict,
        sections,
        data,
        _tone(report),
        "Interrupted: these are the runs up to then." if report.interrupted else "",
    )


def _tone(report: Benchmarked) -> Tone:
    ratios = report.ratios()
    return _TONES.get(ratios[0].outcome, "") if ratios else ""


def _facts(report: Benchmarked) -> Iterator[Fact]:
    """The first rows and ratios as figures."""
    for row in report.rows[:4]:
        share = f", {_percent(row.percent_of_peak)} % of the peak" if row.percent_of_peak is not None else ""
        yield Fact(row.subject, ms_text(row.median_ms), f"median on {row.setting}{share}")
    for ratio in report.ratios()[:1]:
        if ratio.outcome in ("faster", "slower"):
            shown = ratio.interval if ratio.outcome == "faster" else ratio.interval.inverse()
            yield Fact(ratio.outcome, f"{shown.value:.2f}×", str(ratio), _TONES[ratio.outcome])


def _percent(share: float) -> str:
    """Two digits, and none behind the point from ten on."""
    return f"{share:.0f}" if share >= 10 else f"{share:.2g}"


def how(report: Benchmarked) -> str:
    """A sentence on how it was measured."""
    fed = f", input: {report.fed}" if report.fed else ""
    measured = f"{report.rounds} rounds in turns, {report.seconds:.1f} s{fed}"
    if report.devices:
        return f"{measured}. {'. '.join(device.line() for device in report.devices)}."
    return f"{measured}, on {report.machine}."


# --- latency ------------------------------------------------------------------------------------------------


def latency_blocks(report: Benchmarked, names: Mapping[str, str] | None = None) -> list[Block]:
    """Runs, ratios and tables.

    Args:
        names: subject -> how it is called here.
    """
    called = {row.subject: (names or {}).get(row.subject, row.subject) for row in report.rows}
    series = list(dict.fromkeys(called.values()))
    # Rows of one setting side by side, so that eyes compare what is comparable.
    rows = sorted(report.rows, key=lambda row: (row.threads or 0, row.engine))
    engines = len({row.engine for row in rows}) > 1
    runs = [_runs(row, called[row.subject], series, engines) for row in rows]
    told = "Each dot is a run; the thick line is where the median lies with 95 % confidence."
    return [
        Distribution("Time of a run", "ms", series, runs, told),
        Intervals(
            "How many times as fast as the other", "x", [], list(_speedups(report, called)), 1.0, _SPEEDUPS
        ),
        _table("Figures", *readable(report, None)),
        _table("Every figure", *figures(report), folded=True),
    ]


_SPEEDUPS = "Right of 1 it is faster; where the line crosses 1, no difference could be measured."


def _runs(row: Row, name: str, series: Sequence[str], engines: bool) -> Runs:
    setting = f"{row.engine}, {row.setting}" if engines and row.threads is not None else row.setting
    known = row.latency.has_interval
    return Runs(
        f"{name} · {setting}",
        series.index(name),
        _quantiles([ns / 1e6 for ns in row.samples_ns]),
        row.latency.count,
        row.latency.median,
        row.latency.low if known else None,
        row.latency.high if known else None,
        row.latency.p99,
    )


def _quantiles(values: Sequence[float]) -> list[float]:
    """Values that are spread as all are, the least and the greatest among them."""
    if len(values) > _DOTS:
        values = list(np.quantile(np.asarray(values), np.linspace(0, 1, _DOTS), method="nearest"))
    return [float(f"{value:.5g}") for value in sorted(values)]


def _speedups(report: Benchmarked, called: Mapping[str, str]) -> Iterator[Span]:
    for ratio in report.ratios():
        who = [
            called[row.subject] + (f" on {row.setting}" if _differ(ratio) else "")
            for row in (ratio.b, ratio.a)
        ]
        where = "" if _differ(ratio) else f", {ratio.a.setting}"
        ends = (ratio.interval.low, ratio.interval.high) if ratio.interval.known else (None, None)
        if math.isfinite(ratio.value):
            yield Span(f"{who[0]} beside {who[1]}{where}", 0, ratio.value, *ends)


def _differ(ratio: Ratio) -> bool:
    return ratio.a.setting != ratio.b.setting


def _table(
    title: str, headers: Sequence[str], cells: Sequence[Sequence[str]], *, folded: bool = False
) -> Table:
    columns = [Column(header, code=number == 0) for number, header in enumerate(headers)]
    return Table(columns, [[_cell(text) for text in line] for line in cells], title, folded)


def _cell(text: str) -> str | float | None:
    """A number as such, which stands to the right; a dash as nothing."""
    if text in ("", "-"):
        return None
    try:
        found = float(text)
    except ValueError:
        return text
    return found if math.isfinite(found) else text


def _sizes(report: Benchmarked) -> Iterator[Block]:
    files = [Bar(name, [float(size)]) for name, size in report.sizes.items()]
    yield Bars("Size of the file", "bytes", ["file"], files)
    peaks = [
        Bar(f"{m.subject}, {m.device or m.engine}", [float(m.peak_bytes)])
        for m in report.memory
        if m.peak_bytes
    ]
    yield Bars("Peak memory", "bytes", ["memory"], peaks, "Of a process that does nothing but run the model.")


# --- operators ----------------------------------------------------------------------------------------------


def profile_blocks(profiles: Sequence[Profiled], names: Mapping[str, str] | None = None) -> Iterator[Block]:
    """Times by op side by side, and those of each node.

    Args:
        names: subject -> how it is called here.
    """
    found = [(p, p.profile) for p in profiles if p.profile is not None]
    # Sums of two settings do not belong side by side.
    first = [pair for pair in found if pair[0].row.setting == found[0][0].row.setting]
    series = [(names or {}).get(p.row.subject, p.row.subject) for p, _ in first]
    times = [{op: micros / 1000 for op, micros in made.stats.medians_by_op()} for _, made in first]
    ops = sorted(
        {op for ms in times for op in ms if ms[op]}, key=lambda op: -max(ms.get(op, 0.0) for ms in times)
    )
    note = f"Medians on {found[0][0].row.setting}; {found[0][1].method}." if found else ""
    if len(ops) > _OPS:
        note += f" {len(ops) - _OPS} more ops take less."
    bars = [Bar(op, [ms.get(op) for ms in times]) for op in ops[:_OPS]]
    yield Bars("Time of a run by op", "ms", series, bars, note)
    yield from (_nodes(p, made) for p, made in found)
    yield notes([f"{p.title}: {p.refusal}" for p in profiles if p.profile is None], "warn")


def _nodes(one: Profiled, made: Profile) -> Table:
    """Every node, the slowest first."""
    medians = made.stats.medians()
    total = max(sum(medians.values()), 1e-9)
    rows = sorted(made.stats.rows.values(), key=lambda row: (-medians[row.name], row.order))
    cells: list[list[str | float | None]] = [
        [
            row.name,
            *([made.part_of.get(row.name, "")] if made.parts else []),
            row.op,
            medians[row.name] / 1000,
            round(100 * medians[row.name] / total, 1),
            made.kernels.get(row.name, ""),
        ]
        for row in rows
    ]
    columns = [
        Column("node", code=True),
        *([Column("part")] if made.parts else []),
        Column("op", code=True),
        Column("median", "ms"),
        Column("share", "%"),
        Column("kernel"),
    ]
    return Table(columns, cells, f"Nodes of {one.row.subject} on {one.row.setting}", folded=True)
