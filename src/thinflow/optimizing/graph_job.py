"""What is left of the main job when LiteRT cannot run the model, or not with fewer bits."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thinflow.analysis.summary import Summary
from thinflow.bench.latency import BenchmarkReport
from thinflow.engines.litert import Model
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.formats import graphdef
from thinflow.formats._files import write_file
from thinflow.ir.graph import Graph
from thinflow.optimizing import report as pages
from thinflow.optimizing.finishing import make_folder, measured, stem_of
from thinflow.rewrite.runner import Result

Progress = Callable[[int, int, str], None]


@dataclass
class GraphReport:
    """What the job found and made where not both LiteRT models can be. `verdict` says it in one sentence.

    Attributes:
        source: path of the model.
        summary: what it is.
        inputs, outputs: (name, type and shape) of the whole graph.
        ledger: what each transform did.
        scheme: how it was to be quantized.
        obstacle: why there is no LiteRT model, or only a float one; its hint says what helps.
        runs: whether something here runs the graph; not one with an op that nothing here knows.
        tflite: the float model; None if there is none.
        samples: where the samples came from; `synthetic` if they were made up.
        sizes: role of a file -> bytes.
        files: what was written.
        latency: the graph before and after on our engines; None if skipped.
        warnings: what the reader must know.
        next_steps: commands to try.
    """

    source: str
    summary: Summary
    inputs: list[tuple[str, str]]
    outputs: list[tuple[str, str]]
    ledger: Result
    scheme: str
    samples: str
    synthetic: bool
    obstacle: ThinflowError = field(default_factory=lambda: UnsupportedOp("nothing was tried"))
    runs: bool = True
    tflite: bytes | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    latency: BenchmarkReport | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def next_steps(self) -> list[str]:
        if self.tflite is not None:
            return [f"thinflow benchmark {shlex.quote(str(self.files['fp32']))}"]
        verb = "run" if self.runs else "inspect"
        return [f"thinflow {verb} {shlex.quote(str(self.files['fp32_pb']))}"]

    @property
    def verdict(self) -> str:
        steps = self.ledger.steps
        before, after = steps[0].nodes[0], steps[-1].nodes[1]
        done = (
            f"the graph went from {before} to {after} nodes" if after < before else "the graph stays as it is"
        )
        same = " and computes the same" if any(s.difference is not None for s in steps) else ""
        if self.tflite is not None:
            why = _sentence(self.obstacle)
            return f"no {self.scheme} model can be made, because {why}: ship {self.files['fp32'].name}"
        carrier = "a TensorFlow runtime, or with thinflow's own engines"
        if not self.runs:
            carrier = "the TensorFlow runtime that has the op"
        return (
            f"no LiteRT model can be made, because {_sentence(self.obstacle)}; {done}{same}: "
            f"ship {self.files['fp32_pb'].name} with {carrier}"
        )

    def data(self) -> dict[str, Any]:
        """The report for machines, what `report.json` holds."""
        from thinflow import __version__

        return {
            "thinflow": __version__,
            "verdict": self.verdict,
            "source": self.source,
            "inputs": [list(i) for i in self.inputs],
            "outputs": [list(o) for o in self.outputs],
            "obstacle": {
                "node": self.obstacle.where,
                "why": self.obstacle.problem,
                "hint": self.obstacle.hint,
            },
            "files": {key: str(path) for key, path in self.files.items()},
            "size_bytes": self.sizes,
            "samples": self.samples,
            "synthetic": self.synthetic,
            "latency": self.latency.data() if self.latency is not None else None,
            "transforms": pages.transform_data(self.ledger),
            "warnings": self.warnings,
            "next": self.next_steps,
        }

    def json_text(self) -> str:
        """`report.json`."""
        return json.dumps(self.data(), indent=2, default=str) + "\n"

    def lines(self) -> list[str]:
        """What the command prints: the verdict first, the next command last."""
        result = [self.verdict, "", *pages.model_lines(self), *pages.transform_lines(self.ledger)]
        result.append(f"samples    {self.samples}")
        if self.latency is not None:
            result.append(f"latency    {', '.join(self._latency())}")
        return [*result, *pages.closing_lines(self), "", f"next: {self.next_steps[0]}"]

    def _latency(self) -> list[str]:
        timings = {what: self.latency.timing(what) for what in ("before", "after")} if self.latency else {}
        return [
            f"{what} {pages.duration(timing.median_ms, timing.spread_ms)} on 1 thread"
            for what, timing in timings.items()
            if timing is not None
        ]

    def markdown(self) -> str:
        """The report for people, what `report.md` holds."""
        parts = [f"# {self.files['fp32_pb'].stem.removesuffix('_fp32')}", "", f"**{self.verdict}**", ""]
        parts += [f"Samples: {self.samples}.", ""]
        if self.warnings:
            parts += ["## What to know", "", *(f"- {w}" for w in self.warnings), ""]
        parts += ["## Interface", "", "| role | name | type and shape |", "|---|---|---|"]
        for role, values in (("graph input", self.inputs), ("graph output", self.outputs)):
            parts += [f"| {role} | `{name}` | {spec} |" for name, spec in values]
        parts += pages.transform_pages(self.ledger)
        if self.latency is not None:
            parts += ["", "## Latency", "", self.latency.markdown()]
        return "\n".join([*parts, "", f"Next: `{self.next_steps[0]}`", ""])


def finish(
    report: GraphReport, graph: Graph, folder: Path, seconds: float, progress: Progress | None
) -> GraphReport:
    """Write what could be made, and time the graph before and after.

    Args:
        graph: as it was.
        seconds: for the timing; 0 for none.
    """
    make_folder(folder)
    stem = stem_of(graph)
    report.files = {"fp32_pb": folder / f"{stem}_fp32.pb"}
    graphdef.save(report.ledger.graph, report.files["fp32_pb"])
    graphdef.load(report.files["fp32_pb"])
    if report.tflite is not None:
        report.files["fp32"] = folder / f"{stem}_fp32.tflite"
        write_file(report.files["fp32"], [report.tflite], check=Model)
    report.sizes = {key: path.stat().st_size for key, path in report.files.items()}
    report.files |= {"json": folder / "report.json", "markdown": folder / "report.md"}
    report.warnings += [report.ledger.note] if report.ledger.note else []
    if seconds and report.runs:
        after = report.ledger.graph if report.tflite is None else report.files["fp32"]
        models = {"before": graph, "after": after}
        report.latency, unmeasured = measured(models, seconds=seconds, progress=progress, memory=False)
        report.warnings += [unmeasured] if unmeasured else []
    write_file(report.files["json"], [report.json_text().encode()])
    write_file(report.files["markdown"], [report.markdown().encode()])
    return report


def _sentence(error: ThinflowError) -> str:
    """The problem, with the node it is about."""
    return f"{error.problem} ({error.where})" if error.where else error.problem
