"""What the main job found, made and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thinflow.analysis.summary import Summary
from thinflow.bench.latency import BenchmarkReport
from thinflow.ir.brief import brief_repr, brief_sentence
from thinflow.ir.notebook import markdown_html
from thinflow.ir.states import without_states
from thinflow.optimize import report as pages
from thinflow.optimize.advice import next_steps, settled_notes, warnings_for
from thinflow.optimize.coverage import Coverage
from thinflow.optimize.finishing import described, sizes_of
from thinflow.optimize.litert_job import LiteRTPair
from thinflow.optimize.onnx_job import OnnxPair
from thinflow.optimize.page import markdown_of
from thinflow.optimize.partial import partial_verdict_of, with_note
from thinflow.optimize.quality import Quality
from thinflow.optimize.quantizing import QuantizedModel
from thinflow.optimize.small_graph import SmallGraph
from thinflow.optimize.task import DEFAULT_MAX_DROP
from thinflow.optimize.verdict import verdict_of
from thinflow.quantize.recipe import Recipe
from thinflow.rewrite.runner import Result


@dataclass(repr=False)
class OptimizeReport:
    """Everything the job found, made and measured. `verdict` says it in one sentence.

    Attributes:
        source: path of the model.
        summary: what it is.
        inputs, outputs: (name, type and shape) of the whole graph.
        model_inputs, model_outputs: the same for the LiteRT models, which may hold only the core.
        outside: node -> why it is not in the LiteRT models.
        ledger: what each transform did.
        float_difference: LiteRT float beside the interpreter, relative to the largest value.
        float_quality, int8_quality: both models beside the original graph, end to end.
        int8: the quantized model, of whatever scheme; the key "int8" of `sizes` and `files` is its file.
        latency: interleaved timing of both; None if skipped.
        sizes: role of a model's file -> bytes.
        files: what was written, by role.
        samples: where the samples came from; `synthetic` if they were made up.
        tested_on: where those came from that the models were judged on.
        warnings: what the reader must know.
        next_steps: commands to try.
        max_drop: points that fewer bits may cost.
        recipe: how it was quantized.
        onnx: the models for ONNX Runtime, if they were asked for.
        coverage: how much of the graph the LiteRT models hold.
    """

    source: str
    summary: Summary
    inputs: list[tuple[str, str]]
    outputs: list[tuple[str, str]]
    model_inputs: list[tuple[str, str]]
    model_outputs: list[tuple[str, str]]
    outside: dict[str, str]
    ledger: Result
    float_difference: float
    float_quality: Quality
    int8_quality: Quality
    int8: QuantizedModel
    latency: BenchmarkReport | None
    sizes: dict[str, int]
    files: dict[str, Path]
    samples: str
    synthetic: bool
    tested_on: str = ""
    warnings: list[str] = field(default_factory=list)
    next_steps: list[str] = field(default_factory=list)
    max_drop: float = DEFAULT_MAX_DROP
    recipe: Recipe = field(default_factory=Recipe)
    onnx: OnnxPair | None = None
    coverage: Coverage | None = None

    @property
    def verdict(self) -> str:
        if self.is_part:
            return partial_verdict_of(self)
        return with_note(verdict_of(self), *self.coverages)

    @property
    def is_part(self) -> bool:
        """Whether the LiteRT models hold only a part of the graph."""
        return self.coverage is not None and self.coverage.is_part

    @property
    def coverages(self) -> list[Coverage]:
        """Of the LiteRT models, and of those for ONNX Runtime if there are any."""
        found = [self.coverage, None if self.onnx is None else self.onnx.plain.coverage]
        return [c for c in found if c is not None]

    def __repr__(self) -> str:
        return brief_sentence(self, self.verdict)

    def _repr_html_(self) -> str:
        return markdown_html(self.markdown())

    def data(self) -> dict[str, Any]:
        """The report for machines, what `report.json` holds."""
        return pages.data(self)

    def json_text(self) -> str:
        """`report.json`."""
        return pages.json_text(self)

    def lines(self) -> list[str]:
        """What the command prints: the verdict first, the next command last."""
        return pages.lines(self)

    def markdown(self) -> str:
        """The report for people, what `report.md` holds."""
        return markdown_of(self)


@brief_repr
@dataclass(frozen=True)
class Products:
    """What the job made of a small graph.

    Attributes:
        litert, onnx: models in pairs; no `onnx` if it was not asked for, or failed.
        files: models and pages by role.
        latency: of the models; None if nothing was timed.
        failures: why something that was asked for is not there.
    """

    litert: LiteRTPair
    onnx: OnnxPair | None
    files: dict[str, Path]
    latency: BenchmarkReport | None
    failures: Sequence[str]


def report_on(small: SmallGraph, made: Products) -> OptimizeReport:
    """All that the job did; what it says is not written yet."""
    task, pair = small.task, made.litert
    core = pair.plain.core
    report = OptimizeReport(
        source=task.graph.path,
        summary=small.summary,
        inputs=described(without_states(task.graph, task.graph.inputs)),
        outputs=described(without_states(task.graph, task.graph.outputs)),
        model_inputs=described(core.fed),
        model_outputs=described(core.given),
        outside={n.name: why for n, why in core.outside.items()},
        ledger=small.restored,
        float_difference=pair.difference,
        float_quality=pair.qualities["float"],
        int8_quality=pair.qualities["int8"],
        int8=pair.quantized,
        latency=made.latency,
        sizes=sizes_of(made.files),
        files=made.files,
        samples=task.data.note,
        synthetic=task.data.synthetic,
        tested_on=task.tested.note,
        warnings=_warnings(small, made),
        max_drop=task.choices.max_drop,
        recipe=task.choices.recipe,
        onnx=made.onnx,
        coverage=pair.plain.coverage,
    )
    report.next_steps = next_steps(report, small)
    return report


def _warnings(small: SmallGraph, made: Products) -> list[str]:
    settled = settled_notes(small.task.graph.inputs, made.litert.plain.core, small.task.data)
    return [*small.notes, *settled, *made.failures, *warnings_for(small, made.litert.quantized)]
