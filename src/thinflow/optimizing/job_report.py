"""What the main job found, made and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thinflow.analysis.summary import Summary
from thinflow.bench.latency import BenchmarkReport
from thinflow.optimizing import report as pages
from thinflow.optimizing.advice import next_steps, settled_notes, warnings_for
from thinflow.optimizing.finishing import described, sizes_of
from thinflow.optimizing.litert_job import LiteRTPair
from thinflow.optimizing.onnx_job import OnnxPair
from thinflow.optimizing.quality import Quality
from thinflow.optimizing.quantizing import QuantizedModel
from thinflow.optimizing.small_graph import SmallGraph
from thinflow.optimizing.task import DEFAULT_MAX_DROP
from thinflow.quantize.recipe import Recipe
from thinflow.rewrite.runner import Result


@dataclass
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
        sizes: file name -> bytes.
        files: what was written.
        samples: where the samples came from; `synthetic` if they were made up.
        warnings: what the reader must know.
        next_steps: commands to try.
        max_drop: points that fewer bits may cost.
        recipe: how it was quantized.
        onnx: the models for ONNX Runtime, if they were asked for.
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

    @property
    def verdict(self) -> str:
        return pages.verdict(self)

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
        return pages.markdown(self)


@dataclass(frozen=True)
class Products:
    """What the job made of a small graph.

    Attributes:
        litert, onnx: models in pairs; no `onnx` if it was not asked for or failed.
        models: the models' files by role.
        pages: files of the report by role.
        latency: of the models; None if nothing was timed.
        failures: why something that was asked for is not there.
    """

    litert: LiteRTPair
    onnx: OnnxPair | None
    models: dict[str, Path]
    pages: dict[str, Path]
    latency: BenchmarkReport | None
    failures: Sequence[str]


def report_on(small: SmallGraph, made: Products) -> OptimizeReport:
    """The report of all the job did; it is not written yet."""
