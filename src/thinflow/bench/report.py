"""The report of a benchmark: what its rows say, in sentences, tables and data."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from thinflow.analysis.stats import ratio_of_medians
from thinflow.bench.devices import MeasuredDevice
from thinflow.bench.fed import Fed, by_sample
from thinflow.bench.machine import Doing, Machine
from thinflow.bench.memory import Memory
from thinflow.bench.report_page import Profiled, benchmark_document
from thinflow.bench.roofline import FLOAT, Peak
from thinflow.bench.rows import (
    PLACEMENT,
    Ratio,
    Row,
    Skipped,
    figures,
    median_text,
    pipes,
    readable,
    unit_of,
)
from thinflow.bench.workload import counted
from thinflow.errors import ParameterError, closest
from thinflow.errors.plain_text import markdown
from thinflow.ir.brief import brief_repr
from thinflow.ir.notebook import markdown_html
from thinflow.pages.report import ReportDocument
from thinflow.pages.shell import Paged, save_document
from thinflow.typing import FilePath


@brief_repr
@dataclass(frozen=True)
class BenchmarkReport(Paged):
    """The result of `benchmark`.

    Attributes:
        memory: one entry per model and engine; empty if it was not measured.
        rounds: how often each row ran.
        seconds: how long the timed part took.
        sizes: model -> bytes of its file.
        paths: path of a file -> the name of the model here.
        interrupted: somebody pressed Ctrl-C; these are the runs up to then.
        doing: what else the machine did meanwhile; None if it does not tell.
        runs_asked: how many were asked for; None: as many as the precision needs.
        inter_op_threads: nodes that could run side by side.
        assumed: model -> input -> sizes that were made up, since the model leaves them open.
        parts: model -> what its file says of the part of a model that it holds.
        inputs: model -> what it was run with.
        devices: where the rows ran; empty for this machine alone, which `machine` says.
    """

    rows: tuple[Row, ...]
    machine: Machine
    rounds: int
    seconds: float
    skipped: tuple[Skipped, ...] = ()
    memory: tuple[Memory, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    doing: Doing | None = None
    runs_asked: int | None = None
    inter_op_threads: int = 1
    assumed: dict[str, dict[str, tuple[int, ...]]] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, Fed] = field(default_factory=dict)
    devices: tuple[MeasuredDevice, ...] = ()

    @property
    def fed(self) -> str:
        """What the models were run with, in words; each by its name if they differ."""
        texts = dict.fromkeys(fed.text for fed in self.inputs.values())
        if len(texts) < 2:
            return "".join(texts)
        return "; ".join(f"{name}: {fed.text}" for name, fed in self.inputs.items())

    def row(
        self,
        subject: str | os.PathLike[str],
        engine: str | None = None,
        threads: int | None = None,
        *,
        device: str | None = None,
    ) -> Row:
        """The first row that fits.

        Args:
            subject: a model's name in this report, or the path it was opened from.
            engine, threads, device: None means any.

        Raises:
            ParameterError: there is none.
        """
        wanted = os.fspath(subject)
        name = self.paths.get(wanted, wanted)
        for row in self.rows:
            is_there = device in (None, row.device)
            if (
                row.subject == name
                and engine in (None, row.engine)
                and threads in (None, row.threads)
                and is_there
            ):
                return row
        names = list(dict.fromkeys(r.subject for r in self.rows))
        raise ParameterError(
            f"'{wanted}' was not measured"
            + (" with that engine and number of threads" if name in names else ""),
            hint=closest(wanted, names) or f"measured were {', '.join(names)}",
        )

    def timing(
        self,
        subject: str | os.PathLike[str],
        engine: str | None = None,
        threads: int | None = None,
        *,
        device: str | None = None,
    ) -> Row | None:
        """As `row`, but None if there is none."""
        try:
            return self.row(subject, engine, threads, device=device)
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
        # An interrupted measurement may leave one of them a run ahead; then the i-th runs need not belong
        # together.
        # And what ran on two devices did not run side by side.
        paired = len(first.samples_ns) == len(second.samples_ns) and first.device == second.device
        interval = ratio_of_medians(first.samples_ns, second.samples_ns, paired=paired)
        # Where all rows are of one engine its name would only be in the way.
        among_engines = len({row.engine for row in self.rows}) > 1
        return Ratio(first, second, interval.widened(PLACEMENT), among_engines)

    def ratios(self) -> list[Ratio]:
        """The first model over the others on equal terms, then each model's rows that differ in the number of
        threads, or else in the engine.

        What has no like, such as an .onnx file beside a .tflite file, is compared with the first row.
        """
        first: dict[tuple[str, str, int | None], Row] = {}
        own: dict[tuple[str, object], Row] = {}
        models: list[Ratio] = []
        settings: list[Ratio] = []
        for row in self.rows:
            base = first.setdefault((row.device, row.engine, row.threads), row)
            if base is not row:
                models.append(self.ratio(base, row))
            # The first row of the same model there with this engine, with this number of threads, and with
            # any of either; then anywhere.
            there = row.device
            kinds = ((there, row.engine), (there, row.threads), (there,), (row.threads, row.engine), ())
            likes = [own.setdefault((row.subject, kind), row) for kind in kinds]
            mine = next((like for like in likes if like is not row), row)
            if mine is not row:
                settings.append(self.ratio(mine, row))
            elif base is row and row is not self.rows[0]:  # a file that only another engine runs
                models.append(self.ratio(next(r for r in self.rows if r.threads == row.threads), row))
        return [ratio for ratio in models + settings if ratio.a is not ratio.b]

    def sentences(self) -> list[str]:
        """The findings in words, the most interesting first."""
        lines = [line for device in self.devices for line in device.sentences()]
        lines += [str(r) for r in self.ratios()]
        if not lines:
            row = self.rows[0]
            unit, factor = unit_of(self)
            time = f"{median_text(row, factor)} {unit}"
            lines.append(f"{row.subject} takes {time} a run on {row.setting}{_share(row)}")
        return lines

    def slower_eight_bits(self) -> Iterator[tuple[Row, Row]]:
        """Rows of eight-bit models that are slower than a float one, which is the second."""
        for ratio in self.ratios():
            if ratio.a.eight_bit == ratio.b.eight_bit:
                continue
            if ratio.outcome == ("slower" if ratio.b.eight_bit else "faster"):
                yield (ratio.b, ratio.a) if ratio.b.eight_bit else (ratio.a, ratio.b)

    def _counted(self) -> Iterator[str]:
        """Facts that may have to do with eight bits being slower; what they cost was not measured."""
        for row, _ in self.slower_eight_bits():
            found = "; ".join(counted(row.work, has_dot_products=self.machine.multiplies_eight_bit))
            if found:
                who = f"{row.subject} is eight-bit and slower"
                yield f"{who}; counted, not timed: {found}; --profile times the nodes"

    @property
    def disturbance(self) -> str:
        """Other load of the machine meanwhile, in words; empty if none is known."""
        if self.doing is None or not str(self.doing):
            return ""
        return f"while this was measured {self.doing}: the machine can do better"

    def caveats(self) -> list[str]:
        """Sentences to read before trusting the numbers."""
        lines = ["the measurement was interrupted; these are the runs up to then"] if self.interrupted else []
        lines += [self.disturbance] if self.disturbance else []
        lines += [line for device in self.devices for line in device.caveats()]
        lines += [f"{subject} is PARTIAL: {note}" for subject, note in self.parts.items()]
        lines += [f"{name}: {line}" for name, fed in self.inputs.items() for line in fed.caveats()]
        lines += self._assumptions()
        lines += dict.fromkeys(self._counted())
        for row in self.rows:
            lines += self._caveats_of(row)
        if self.inter_op_threads > 1 and any(r.engine != "onnxruntime" for r in self.rows):
            lines.append(
                "only onnxruntime runs nodes side by side; elsewhere inter-op threads change nothing"
            )
        lines += [f"{s.subject} was not measured on {s.device or s.engine}: {s.why}" for s in self.skipped]
        lines += [
            f"{m.subject}, {m.device or m.engine}: memory not measured: {m.error}"
            for m in self.memory
            if m.error
        ]
        return lines

    def _assumptions(self) -> Iterator[str]:
        for subject, inputs in self.assumed.items():
            for name, shape in inputs.items():
                fed = ",".join(map(str, shape)) or "one number"
                yield f"{subject}: '{name}' leaves sizes open, {fed} was fed; --shape {name}=... sets them"

    def _caveats_of(self, row: Row) -> Iterator[str]:
        who = ", ".join([row.subject, row.engine] + ([row.setting] if row.threads is not None else []))
        fed = self.inputs.get(row.subject)
        # Of a long run on a device only some of the runs are kept.
        are_all = not any(device.soak for device in self.devices)
        apart = by_sample(row.samples_ns, fed.samples) if fed is not None and are_all else None
        if not row.converged:
            known = (
                f"±{100 * row.latency.uncertainty:.0f} %"
                if row.latency.has_interval
                else f"{row.latency.count} run{'s' if row.latency.count != 1 else ''}"
            )
            more = "time (--seconds)" if self.runs_asked is None else "runs (--runs)"
            # Of samples in two groups the median lies between them, however many runs there are.
            what = f"give it more {more}" if apart is None else "samples take different times"
            yield f"{who}: the median is known to {known} only; {what}"
        if row.latency.outliers:
            index, worst = max(row.latency.outliers, key=lambda o: o[1])
            why = f"; {row.cause}" if row.cause else ""
            lie = "lies" if len(row.latency.outliers) == 1 else "lie"
            yield (
                f"{who}: {len(row.latency.outliers)} of {row.latency.count} runs {lie} far off, "
                f"run {index + 1} took {worst:.3g} ms{why}"
            )
        if fed is not None and apart is not None:
            (quick, least), (slow, most) = apart
            yield (
                f"{who}: the time depends on the input: {fed.place(slow)} takes {most:.3g} ms, "
                f"{fed.place(quick)} {least:.3g} ms"
            )
        if row.work is not None and row.work.uncounted:
            count, first = len(row.work.uncounted), row.work.uncounted[0]
            yield f"{who}: no GFLOP/s: the work of {count} nodes is not known, first '{first}'"
        if row.peak is not None and row.work is not None and row.work.is_eight_bit and row.peak.kind == FLOAT:
            yield f"{who}: compared with the peak in float; no eight-bit product could be measured here"
        if row.is_above_peak:
            yield (
                f"{who}: no share of the peak: the model was faster than the matrix products measured as it,"
                " be it that other programs slowed them down or that its kernels skip operations"
            )
        if row.note:
            yield f"{who}: {row.note}"

    @property
    def place(self) -> str:
        """Where it was measured, behind a comma or not: " on ..."; empty where `device_lines` say it."""
        return "" if self.devices else f" on {self.machine}"

    def device_lines(self) -> list[str]:
        """What the devices are, a line each."""
        return [device.line() for device in self.devices]

    def peaks(self) -> list[Peak]:
        """The machine's peaks, for each kind of numbers and number of threads in the report."""
        return list(dict.fromkeys(row.peak for row in self.rows if row.peak is not None))

    def markdown(self, *, exact: bool = True) -> str:
        """Sentences, table, caveats and machine as Markdown; with every figure, or with those to be read."""
        headers, cells = figures(self) if exact else readable(self)
        lines = [f"- {markdown(s)}" for s in self.sentences()]
        lines += ["", pipes(headers), "|" + "---|" * len(headers), *map(pipes, cells), ""]
        lines += [f"- {markdown(c)}" for c in self.caveats()]
        lines += [f"- peak: {markdown(str(p))}" for p in self.peaks()]
        lines += [f"- {markdown(line)}" for line in self.device_lines()]
        lines += [f"- input: {markdown(self.fed)}"] if self.fed else []
        lines += [f"- {self.rounds} interleaved rounds in {self.seconds:.1f} s{self.place}"]
        return "\n".join(lines) + "\n"

    def _repr_html_(self) -> str:
        return markdown_html(self.markdown(exact=False))

    def document(self, profiles: Sequence[Profiled] = (), next_steps: Sequence[str] = ()) -> ReportDocument:
        """What the page shows, block by block; arguments as for `save_html`."""
        return benchmark_document(self, profiles, next_steps)

    def save_html(
        self, path: FilePath, profiles: Sequence[Profiled] = (), next_steps: Sequence[str] = ()
    ) -> int:
        """Write the page; the bytes written.

        Args:
            profiles: times of the operators of its rows, shown and kept with the figures.
            next_steps: commands to try.

        Raises:
            PagesUnavailable: the package was installed without the scripts of its pages.
            WriteError: it cannot be written.
        """
        return save_document(self.document(profiles, next_steps), path)

    def data(self) -> dict[str, Any]:
        """Everything but the single runs, for JSON."""
        return {
            "rows": [r.data() for r in self.rows],
            "ratios": [r.data() for r in self.ratios()],
            "memory": [m.data() for m in self.memory],
            "sizes": self.sizes,
            "assumed_shapes": self.assumed,
            "parts": self.parts,
            "fed": self.fed,
            "inputs": {name: fed.data() for name, fed in self.inputs.items()},
            "skipped": [vars(s) for s in self.skipped],
            "sentences": self.sentences(),
            "caveats": self.caveats(),
            "interrupted": self.interrupted,
            "inter_op_threads": self.inter_op_threads,
            "peaks": [p.data() for p in self.peaks()],
            "rounds": self.rounds,
            "seconds": round(self.seconds, 3),
            "machine": self.machine.data(),
            "devices": [device.data() for device in self.devices],
        }


def _share(row: Row) -> str:
    """The share of the peak that it reaches, in brackets; empty if that is not known."""
    if row.rate is None or row.percent_of_peak is None:
        return ""
    percent = f"{row.percent_of_peak:.2g}" if row.percent_of_peak < 10 else f"{row.percent_of_peak:.0f}"
    return f" ({row.rate / 1e9:.3g} GFLOP/s, {percent} % of this machine's measured peak)"
