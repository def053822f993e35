"""Results of the main job as plain data, which the report's texts are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from thinflow.analysis.summary import Summary
from thinflow.bench.report import BenchmarkReport
from thinflow.errors import ThinflowError
from thinflow.ir.ledger import Entry
from thinflow.optimize.coverage import Coverage
from thinflow.optimize.job_inputs import DEFAULT_MAX_DROP
from thinflow.optimize.litert import FloatModel
from thinflow.optimize.maker import ModelPair
from thinflow.optimize.onnx import OnnxModel
from thinflow.optimize.quality import Quality
from thinflow.optimize.quantized import OnnxQuantizedModel, QuantizedModel
from thinflow.quantize.recipe import Recipe
from thinflow.rewrite.runner import Result


@dataclass(repr=False, kw_only=True)
class JobResults:
    """What the job finds of every model, and what it always makes: the optimized graph."""

    source: str
    summary: Summary
    inputs: list[tuple[str, str]]
    outputs: list[tuple[str, str]]
    ledger: Result
    recipe: Recipe
    samples: str
    synthetic: bool
    files: dict[str, Path]
    sizes: dict[str, int]
    latency: BenchmarkReport | None = None
    warnings: list[str] = field(default_factory=list)
    next_steps: list[str] = field(default_factory=list)


@dataclass(repr=False, kw_only=True)
class PairResults(JobResults):
    """Results of a job that made both LiteRT models; the attributes are told by `OptimizeReport`."""

    model_inputs: list[tuple[str, str]]
    model_outputs: list[tuple[str, str]]
    outside: dict[str, str]
    float_difference: float
    float_quality: Quality
    int8_quality: Quality
    int8: QuantizedModel
    tested_on: str = ""
    max_drop: float = DEFAULT_MAX_DROP
    onnx: ModelPair[OnnxModel, OnnxQuantizedModel] | None = None
    coverage: Coverage
    left: dict[str, list[Entry]] = field(default_factory=dict)

    @property
    def is_part(self) -> bool:
        """Whether the LiteRT models hold only a part of the graph."""
        return self.coverage.is_part

    @property
    def coverages(self) -> list[Coverage]:
        """Of the LiteRT models, and of those for ONNX Runtime if there are any."""
        return [self.coverage] if self.onnx is None else [self.coverage, self.onnx.plain.coverage]

    @property
    def qualities(self) -> dict[str, Quality]:
        """Of each model, by the role of its file."""
        found = {"fp32": self.float_quality, "int8": self.int8_quality}
        return found if self.onnx is None else found | self.onnx.qualities


@dataclass(repr=False, kw_only=True)
class GraphResults(JobResults):
    """Results of a job that could not make both LiteRT models; the attributes are told by `GraphReport`."""

    obstacle: ThinflowError
    runs: bool = True
    model: FloatModel | None = None

    @property
    def scheme(self) -> str:
        """The scheme in which the model was to be quantized."""
        return self.recipe.scheme

    @property
    def is_part(self) -> bool:
        """Whether there is a float model, of a part of the graph."""
        return self.model is not None and self.model.coverage.is_part
