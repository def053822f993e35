"""What is left of the main job when LiteRT cannot run the model, or not with fewer bits."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thinflow.analysis.summary import Summary
from thinflow.bench.latency import BenchmarkReport
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.ir.brief import brief_sentence
from thinflow.ir.notebook import markdown_html
from thinflow.optimize import report as pages
from thinflow.optimize.coverage import Coverage
from thinflow.optimize.finishing import (
    described,
    make_folder,
    page_files,
    sizes_of,
    write_graph,
    write_pages,
)
from thinflow.optimize.float_model import FloatModel
from thinflow.optimize.litert_job import write_plain
from thinflow.optimize.page import graph_markdown_of
from thinflow.optimize.partial import partial_verdict, with_note
from thinflow.optimize.small_graph import SmallGraph
from thinflow.optimize.task import Task
from thinflow.optimize.timing import first_sample, timed
from thinflow.rewrite.runner import Result


@dataclass(repr=False)
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
        model: the float model; None if there is none.
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
    obstacle: ThinflowError
    runs: bool = True
    model: FloatModel | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    latency: BenchmarkReport | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def next_steps(self) -> list[str]:
        if self.model is not None and not self.model.coverage.is_part:
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
        if self.model is not None:
            return self._verdict_on(self.model.coverage)
        carrier = "a TensorFlow runtime, or with thinflow's own engines"
        if not self.runs:
            carrier = "the TensorFlow runtime that has the op"
        none = "can be made" if isinstance(self.obstacle, UnsupportedOp) else "was written"
        return (
            f"no LiteRT model {none}, because {_sentence(self.obstacle)}; {done}{same}: "
            f"ship {self.files['fp32_pb'].name} with {carrier}"
        )

    def _verdict_on(self, coverage: Coverage) -> str:
        """The verdict where there is a float model."""
        failed = f"no {self.scheme} model can be made, because {_sentence(self.obstacle)}"
        if coverage.is_part:
            return partial_verdict(coverage, [self.files["fp32"]], self.files["fp32_pb"], failed)
        return with_note(f"{failed}: ship {self.files['fp32'].name}", coverage)

    def __repr__(self) -> str:
        return brief_sentence(self, self.verdict)

    def _repr_html_(self) -> str:
        return markdown_html(self.markdown())

    def data(self) -> dict[str, Any]:
        """The report for machines, what `report.json` holds."""
        from thinflow._version import __version__

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
            "partial": self.model is not None and self.model.coverage.is_part,
            "coverage": None if self.model is None else self.model.coverage.data(),
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
        result += [f"help       {self.obstacle.hint}"] if self.obstacle.hint else []
        result.append(f"samples    {self.samples}")
        if self.latency is not None:
            result.append(f"latency    {', '.join(self._latency())}")
        return [*result, *pages.closing_lines(self), "", f"next: {self.next_steps[0]}"]

    def _latency(self) -> list[str]:
        rows = self.latency.rows if self.latency is not None else ()
        return [f"{r.subject} {pages.duration(r)} on {r.setting}" for r in rows]

    def markdown(self) -> str:
        """The report for people, what `report.md` holds."""
        return graph_markdown_of(self)


def finish(small: SmallGraph, obstacle: ThinflowError, model: FloatModel | None = None) -> GraphReport:
    """Write what could be made, time the graph before and after, and tell of it.

    Args:
        small: the graph, and what it was.
        obstacle: why there is no model, or only a float one.
        model: the float model, if there is one.
    """
    report = _report_on(small, obstacle, model)
    report.files = _written(report, small.task)
    report.sizes = sizes_of(report.files)
    report.latency, unmeasured = _timed(report, small.task, model)
    report.warnings += [note for note in (report.ledger.note, unmeasured) if note]
    write_pages(report)
    return report


def _report_on(small: SmallGraph, obstacle: ThinflowError, model: FloatModel | None) -> GraphReport:
    """What is known before anything is written."""
    task = small.task
    return GraphReport(
        source=task.graph.path,
        summary=small.summary,
        inputs=described(task.graph.inputs),
        outputs=described(task.graph.outputs),
        ledger=small.restored,
        scheme=task.choices.recipe.scheme,
        samples=task.data.note,
        synthetic=task.data.synthetic,
        obstacle=obstacle,
        runs=small.unknown is None,
        model=model,
        warnings=[*small.notes, *(() if model is None else model.batch_notes)],
    )


def _written(report: GraphReport, task: Task) -> dict[str, Path]:
    """Write the graph, and the float model if there is one; the files by role, the report's included."""
    make_folder(task.folder)
    files = write_graph(report.ledger.graph, task.folder, task.stem)
    if report.model is not None:
        files |= write_plain(report.model, task.folder, task.stem)
    return files | page_files(task.folder)


def _timed(report: GraphReport, task: Task, model: FloatModel | None) -> tuple[BenchmarkReport | None, str]:
    """The graph as it came beside the float model, or the smaller graph; or None, and why there is none."""
    if not report.runs:
        return None, ""
    before: dict[str, Any] = {"before": task.graph}
    if model is None or model.coverage.is_part:
        feeds = first_sample(task, {}, ["before", "after"])
        return timed(task, before | {"after": report.ledger.graph}, feeds, memory=False)
    file = report.files["fp32"]
    feeds = first_sample(task, {file: model.core}, ["before"])
    return timed(task, before | {"after": file}, feeds, memory=False)


def _sentence(error: ThinflowError) -> str:
    """The problem, with the node it is about."""
    return f"{error.problem} ({error.where})" if error.where else error.problem
