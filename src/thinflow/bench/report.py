"""Results of a benchmark: rows, ratios, and sentences about them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from thinflow.bench.machine import Machine
from thinflow.bench.memory import Memory
from thinflow.bench.stats import Distribution, Interval, plus_minus, ratio_of_medians
from thinflow.errors import ParameterError, closest

PLACEMENT = 0.01
"""Two copies of one model differ by about as much, by where their memory lies; no number of runs shows it."""


@dataclass(frozen=True)
class Row:
    """One model on one engine with one number of threads.

    Attributes:
        threads: None where the engine decides.
        latency: milliseconds a run.
        feed: milliseconds for copying the inputs, not part of the latency; None if they cannot be told apart.
        samples_ns: every run, in order; the i-th of all rows were measured next to each other.
        converged: the median is known to the precision that was asked for.
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

    @property
    def setting(self) -> str:
        """What it ran with, as words: `2 threads`."""
        if self.threads is None:
            return f"the {self.engine} engine"
        return f"{self.threads} thread{'s' if self.threads != 1 else ''}"

    @property
    def median_ms(self) -> float:
        """Median latency."""
        return self.latency.median

    @property
    def spread_ms(self) -> float:
        """How far the median may be off: half its 95 % interval."""
        return (self.latency.high - self.latency.low) / 2

    def data(self) -> dict[str, Any]:
        """For JSON; times in ms."""
        return {
            "subject": self.subject,
            "engine": self.engine,
            "threads": self.threads,
            "latency_ms": self.latency.data(),
            "feed_ms": None if self.feed is None else self.feed.data(),
            "converged": self.converged,
            "note": self.note,
        }


@dataclass(frozen=True)
class Skipped:
    """What could not be measured, and why."""

    subject: str
    engine: str
    why: str


@dataclass(frozen=True)
class Ratio:
    """The time `a` takes over the time `b` takes, with a 95 % interval: above 1, `b` is faster."""

    a: Row
    b: Row
    interval: Interval

    @property
    def value(self) -> float:
        """Median of `a` over median of `b`."""
        return self.interval.value

    @property
    def certain(self) -> bool:
        """Whether the interval excludes "equally fast"."""
        return 1.0 not in self.interval

    def __str__(self) -> str:
        a, b = self._who()
        where = "" if self.a.setting != self.b.setting else f" on {self.a.setting}"
        if not self.certain:
            return f"no difference between {b} and {a} could be measured{where} (ratio {self.interval})"
        if self.value > 1:
            return f"{b} ran {self.interval} times faster than {a}{where}"
        return f"{b} ran {self.interval.inverse()} times slower than {a}{where}"

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

        return {"a": key(self.a), "b": key(self.b), **vars(self.interval), "text": str(self)}


@dataclass(frozen=True)
class BenchmarkReport:
    """What `benchmark` returns.

    Attributes:
        memory: one entry per model and engine; empty if it was not measured.
        rounds: how often each row ran.
        seconds: how long the timed part took.
        sizes: model -> bytes of its file.
        paths: path of a file -> the name of the model here.
    """

    rows: tuple[Row, ...]
    machine: Machine
    rounds: int
    seconds: float
    skipped: tuple[Skipped, ...] = ()
    memory: tuple[Memory, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)

    def row(
        self, subject: str | os.PathLike[str], engine: str | None = None, threads: int | None = None
    ) -> Row:
        """The first row that fits.

        Args:
            subject: a model's name in this report, or the path it was opened from.
            engine, threads: None means any.

        Raises:
            ParameterError: there is none.
        """
        wanted = os.fspath(subject)
        name = self.paths.get(wanted, wanted)
        for row in self.rows:
            if row.subject == name and engine in (None, row.engine) and threads in (None, row.threads):
                return row
        names = list(dict.fromkeys(r.subject for r in self.rows))
        raise ParameterError(
            f"'{wanted}' was not measured"
            + (" with that engine and number of threads" if name in names else ""),
            hint=closest(wanted, names) or f"measured were {', '.join(names)}",
        )

    def timing(
        self, subject: str | os.PathLike[str], engine: str | None = None, threads: int | None = None
    ) -> Row | None:
        """As `row`, but None if there is none."""
        try:
            return self.row(subject, engine, threads)
        except ParameterError:
            return None

    @property
    def thread_counts(self) -> list[int]:
        """Numbers of threads that were measured, in the order given."""
        return list(dict.fromkeys(r.threads for r in self.rows if r.threads is not None))

    def peak_bytes(self, subject: str | os.PathLike[str], engine: str | None = None) -> int | None:
        """Peak memory of a model by name or path; None if it was not measured."""
        wanted = os.fspath(subject)
        name = self.paths.get(wanted, wanted)
        return next(
            (m.peak_bytes for m in self.memory if m.subject == name and engine in (None, m.engine)), None
        )

    def ratio(
        self,
        a: str | os.PathLike[str] | Row,
        b: str | os.PathLike[str] | Row,
        *,
        engine: str | None = None,
        threads: int | None = None,
    ) -> Ratio:
        """Time of `a` over time of `b`: how many times faster `b` is.

        Args:
            a, b: models by name or path, or rows.
            engine, threads: which of their rows; default the first of each.

        Raises:
            ParameterError: there is no such row.
        """
        first = a if isinstance(a, Row) else self.row(a, engine, threads)
        second = b if isinstance(b, Row) else self.row(b, engine, threads)
        paired = len(first.samples_ns) == len(second.samples_ns)
        interval = ratio_of_medians(first.samples_ns, second.samples_ns, paired=paired)
        return Ratio(first, second, interval.widened(PLACEMENT))

    def ratios(self) -> list[Ratio]:
        """The first model over the others on equal terms, then each model's first row over its others."""
        first: dict[tuple[str, int | None], Row] = {}
        own: dict[str, Row] = {}
        models: list[Ratio] = []
        settings: list[Ratio] = []
        for row in self.rows:
            base = first.setdefault((row.engine, row.threads), row)
            if base is not row:
                models.append(self.ratio(base, row))
            mine = own.setdefault(row.subject, row)
            if mine is not row:
                settings.append(self.ratio(mine, row))
        return models + settings

    def sentences(self) -> list[str]:
        """What the numbers say, the most interesting first."""
        ratios = self.ratios()
        lines = [str(r) for r in ratios]
        if any(r.b.eight_bit and not r.a.eight_bit and r.interval.high < 1 for r in ratios):
            lines.append(self._why_slower())
        if not lines:
            row = self.rows[0]
            lines.append(
                f"{row.subject} takes {plus_minus(row.median_ms, row.spread_ms)} ms a run on {row.setting}"
            )
        return lines

    def _why_slower(self) -> str:
        if self.machine.multiplies_eight_bit is False:
            return "eight-bit is slower here: this CPU has no eight-bit dot products (VNNI, dotprod)"
        return (
            "eight-bit is slower although the CPU has the instructions: look for ops that stayed float or "
            "convert back and forth (thinflow inspect)"
        )

    def caveats(self) -> list[str]:
        """What to know before trusting the numbers."""
        lines = []
        for row in self.rows:
            who = ", ".join([row.subject, row.engine] + ([row.setting] if row.threads is not None else []))
            if not row.converged:
                known = (
                    f"±{100 * row.latency.uncertainty:.0f} %"
                    if row.latency.count >= 6
                    else f"{row.latency.count} runs"
                )
                lines.append(f"{who}: the median is known to {known} only; give it more time (--seconds)")
            if row.latency.outliers:
                index, worst = max(row.latency.outliers, key=lambda o: o[1])
                lines.append(
                    f"{who}: {len(row.latency.outliers)} of {row.latency.count} runs lie far off, "
                    f"run {index + 1} took {worst:.3g} ms"
                )
            if row.note:
                lines.append(f"{who}: {row.note}")
        lines += [f"{s.subject} was not measured on {s.engine}: {s.why}" for s in self.skipped]
        lines += [f"{m.subject}, {m.engine}: memory not measured: {m.error}" for m in self.memory if m.error]
        return lines

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headers and cells, as text."""
        headers = [
            "model",
            "engine",
            "threads",
            "median ms",
            "±",
            "MAD",
            "p90",
            "p99",
            "min",
            "feed ms",
            "runs",
            "peak MB",
        ]
        memory = {(m.subject, m.engine): m for m in self.memory if m.peak_bytes is not None}
        cells = []
        for row in self.rows:
            t = row.latency
            used = memory.get((row.subject, row.engine))
            cells.append(
                [
                    row.subject,
                    row.engine,
                    "any" if row.threads is None else str(row.threads),
                    *(f"{x:.4g}" for x in (t.median, row.spread_ms, t.mad, t.p90, t.p99, t.minimum)),
                    "-" if row.feed is None else f"{row.feed.median:.3g}",
                    str(t.count),
                    "-" if used is None or used.peak_bytes is None else f"{used.peak_bytes / 1e6:.0f}",
                ]
            )
        return headers, cells

    def markdown(self) -> str:
        """Sentences, table, caveats and machine as Markdown."""
        headers, cells = self.table()
        lines = [f"- {s}" for s in self.sentences()]
        lines += ["", _pipes(headers), "|" + "---|" * len(headers), *map(_pipes, cells), ""]
        lines += [f"- {c}" for c in self.caveats()]
        lines += [f"- {self.rounds} interleaved rounds in {self.seconds:.1f} s on {self.machine}"]
        return "\n".join(lines) + "\n"

    def data(self) -> dict[str, Any]:
        """Everything but the single runs, for JSON."""
        return {
            "rows": [r.data() for r in self.rows],
            "ratios": [r.data() for r in self.ratios()],
            "memory": [m.data() for m in self.memory],
            "sizes": self.sizes,
            "skipped": [vars(s) for s in self.skipped],
            "sentences": self.sentences(),
            "caveats": self.caveats(),
            "rounds": self.rounds,
            "seconds": round(self.seconds, 3),
            "machine": self.machine.data(),
        }


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"
