"""Results of a benchmark: rows, ratios, and sentences about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from thinflow.bench.machine import Machine
from thinflow.bench.memory import Memory
from thinflow.bench.stats import Distribution, Interval, plus_minus, ratio_of_medians
from thinflow.errors import ParameterError, closest


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
        """`1 thread`, `litert aside`: what it ran with."""
        if self.threads is None:
            return f"the {self.engine} engine"
        return f"{self.threads} thread{'s' if self.threads != 1 else ''}"

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
    """How many times faster one row is than another, with a 95 % interval; below 1 means slower."""

    row: Row
    than: Row
    speedup: Interval

    @property
    def certain(self) -> bool:
        """Whether the interval excludes "equally fast"."""
        return 1.0 not in self.speedup

    def __str__(self) -> str:
        a, b = self._who()
        where = "" if self.row.setting != self.than.setting else f" on {self.row.setting}"
        if not self.certain:
            return f"{a} and {b} are equally fast{where} as far as could be measured (ratio {self.speedup})"
        if self.speedup.value > 1:
            return f"{a} ran {self.speedup} times faster than {b}{where}"
        return f"{a} ran {self.speedup.inverse()} times slower than {b}{where}"

    def _who(self) -> tuple[str, str]:
        a, b = self.row, self.than
        names = [a.subject, b.subject]
        if a.engine != b.engine:
            names = [f"{n} on {row.engine}" for n, row in zip(names, (a, b), strict=True)]
        elif a.threads != b.threads:
            names = [f"{n} on {row.setting}" for n, row in zip(names, (a, b), strict=True)]
        return names[0], names[1]

    def data(self) -> dict[str, Any]:
        """For JSON."""

        def key(row: Row) -> dict[str, Any]:
            return {"subject": row.subject, "engine": row.engine, "threads": row.threads}

        return {"faster": key(self.row), "than": key(self.than), **vars(self.speedup), "text": str(self)}


@dataclass(frozen=True)
class BenchmarkReport:
    """What `benchmark` returns.

    Attributes:
        memory: one entry per model and engine; empty if it was not measured.
        rounds: how often each row ran.
        seconds: how long the timed part took.
    """

    rows: tuple[Row, ...]
    machine: Machine
    rounds: int
    seconds: float
    skipped: tuple[Skipped, ...] = ()
    memory: tuple[Memory, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)

    def row(self, subject: str, engine: str | None = None, threads: int | None = None) -> Row:
        """The first row that fits.

        Raises:
            ParameterError: none does.
        """
        for row in self.rows:
            if row.subject == subject and engine in (None, row.engine) and threads in (None, row.threads):
                return row
        names = list(dict.fromkeys(r.subject for r in self.rows))
        raise ParameterError(
            f"'{subject}' was not measured" + ("" if subject not in names else " with that engine and number of threads"),
            hint=closest(subject, names) or f"measured were {', '.join(names)}",
        )

    def ratio(self, a: str | Row, b: str | Row, *, engine: str | None = None, threads: int | None = None) -> Ratio:
        """How many times faster `a` ran than `b`.

        Args:
            a, b: names of models, or rows.
            engine, threads: which of their rows; default the first of each.

        Raises:
            ParameterError: there is no such row.
        """
        first = a if isinstance(a, Row) else self.row(a, engine, threads)
        second = b if isinstance(b, Row) else self.row(b, engine, threads)
        paired = len(first.samples_ns) == len(second.samples_ns)
        return Ratio(first, second, ratio_of_medians(second.samples_ns, first.samples_ns, paired=paired))

    def ratios(self) -> list[Ratio]:
        """Every model against the first on equal terms, then each on more threads and other engines against its own first row."""
        first: dict[tuple[str, int | None], Row] = {}
        own: dict[str, Row] = {}
        models: list[Ratio] = []
        settings: list[Ratio] = []
        for row in self.rows:
            base = first.setdefault((row.engine, row.threads), row)
            if base.subject != row.subject:
                models.append(self.ratio(row, base))
            mine = own.setdefault(row.subject, row)
            if mine is not row:
                settings.append(self.ratio(row, mine))
        return models + settings

    def sentences(self) -> list[str]:
        """What the numbers say, the most interesting first."""
        ratios = self.ratios()
        lines = [str(r) for r in ratios]
        if any(r.row.eight_bit and not r.than.eight_bit and r.speedup.high < 1 for r in ratios):
            lines.append(self._why_slower())
        if not lines:
            row = self.rows[0]
            half = (row.latency.high - row.latency.low) / 2
            lines.append(f"{row.subject} takes {plus_minus(row.latency.median, half)} ms a run on {row.setting}")
        return lines

    def _why_slower(self) -> str:
        if self.machine.multiplies_eight_bit is False:
            return "eight-bit is slower here because this CPU has no instructions for eight-bit dot products (VNNI, dotprod)"
        return (
            "eight-bit is slower although the CPU has the instructions: look for ops that stayed float or "
            "convert back and forth (thinflow inspect)"
        )

    def caveats(self) -> list[str]:
        """What to know before trusting the numbers."""
        lines = []
        for row in self.rows:
            who = f"{row.subject}, {row.engine}, {row.setting}"
            if not row.converged:
                known = f"±{100 * row.latency.uncertainty:.0f} %" if row.latency.count >= 6 else f"{row.latency.count} runs"
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
        headers = ["model", "engine", "threads", "median ms", "±", "MAD", "p90", "p99", "min", "feed ms", "runs", "peak MB"]
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
                    *(f"{x:.4g}" for x in (t.median, (t.high - t.low) / 2, t.mad, t.p90, t.p99, t.minimum)),
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
