"""The main job's report: what it found, made and measured, for people and for machines."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from thinflow._version import __version__
from thinflow.ir.brief import brief_sentence
from thinflow.ir.ledger import reasons
from thinflow.ir.notebook import markdown_html
from thinflow.optimize.quality import Quality, finite_decibels
from thinflow.optimize.quality_text import quality_data
from thinflow.optimize.quantized import SmallerModel
from thinflow.optimize.report_page import job_document
from thinflow.optimize.report_text import lines_of, markdown_of
from thinflow.optimize.verdict import GraphResults, JobResults, PairResults, ratio_of, speed_data, verdict_of
from thinflow.pages.report import ReportDocument
from thinflow.pages.shell import Paged
from thinflow.rewrite.runner import Result


class _Report(JobResults, Paged):
    """Every text that is made of the results."""

    @property
    def verdict(self) -> str:
        return verdict_of(self)

    def __repr__(self) -> str:
        return brief_sentence(self, self.verdict)

    def _repr_html_(self) -> str:
        return markdown_html(self.markdown())

    def data(self) -> dict[str, Any]:
        """The report for machines, what `report.json` holds."""
        return _data(self)

    def json_text(self) -> str:
        """`report.json`."""
        # default=str: hints and names may hold paths and numpy's numbers.
        return json.dumps(self.data(), indent=2, default=str) + "\n"

    def lines(self) -> list[str]:
        """Lines that the command prints: the verdict first, the next command last."""
        return lines_of(self)

    def document(self) -> ReportDocument:
        """What `report.html` shows, block by block."""
        return job_document(self, self.data())

    def markdown(self) -> str:
        """The report for people, what `report.md` holds."""
        return markdown_of(self)


@dataclass(repr=False, kw_only=True)
class OptimizeReport(PairResults, _Report):
    """Everything the job found, made and measured. `verdict` says it in one sentence.

    Attributes:
        source: path of the model.
        origin: of a file in other ops than TensorFlow's, what it is and how it compares with the graph.
        summary: what it is.
        inputs, outputs: (name, type and shape) of the whole graph.
        model_inputs, model_outputs: the same for the LiteRT models, which may hold only the core.
        outside: node -> why it is not in the LiteRT models.
        ledger: what each transform did.
        float_difference: LiteRT float beside the interpreter, relative to the largest value.
        float_quality, int8_quality: both models beside the original graph, end to end.
        int8: the quantized model, of whatever scheme; the key "int8" of `sizes` and `files` is its file.
        quantized_source_bytes: of the quantized file that the model came from, if a runtime opens that as it
            is; else 0.
        latency: interleaved timing of both, on the machine or the device that its `devices` names; None if
            skipped.
        alike: which files answer on the device as they do here, in a sentence; "" without a device.
        sizes: role of a model's file -> bytes.
        files: what was written, by role.
        samples: where the samples came from; `synthetic` if they were made up.
        tested_on: where those came from that the models were judged on.
        warnings: what the reader must know.
        next_steps: commands to try.
        max_drop: points that fewer bits may cost.
        recipe: how it was quantized.
        ladder: what the smaller model was chosen from under a budget; None without one.
        misses_budget: whether what is shipped does not keep it.
        onnx: the models for ONNX Runtime, if they were asked for; with a `ladder` of their own.
        openvino: the same for OpenVINO.
        race: the engines that were to be compared, with the file that each would ship and its latency.
        coverage: how much of the graph the LiteRT models hold.
        profiles: times of the operators of both LiteRT models; empty if they were not measured.
        shown: what some of the samples look like, those that were answered wrongly among them.
    """


@dataclass(repr=False, kw_only=True)
class GraphReport(GraphResults, _Report):
    """Findings and files of the job where not both LiteRT models can be. `verdict` says it in one sentence.

    Attributes:
        source: path of the model.
        origin: of a file in other ops than TensorFlow's, what it is and how it compares with the graph.
        summary: what it is.
        inputs, outputs: (name, type and shape) of the whole graph.
        ledger: what each transform did.
        recipe: how it was to be quantized, in the scheme `scheme`.
        obstacle: why there is no LiteRT model, or only a float one; its hint says what helps.
        runs: whether something here runs the graph; not one with an op that nothing here knows.
        model: the float model; None if there is none.
        samples: where the samples came from; `synthetic` if they were made up.
        sizes: role of a file -> bytes.
        files: what was written.
        quantized_source_bytes: as of the other report.
        latency: the graph before and after on our engines; None if skipped.
        warnings: what the reader must know.
        next_steps: commands to try.
    """


def _data(results: JobResults) -> dict[str, Any]:
    """The report as plain data, in the order of the file."""
    pair = results if isinstance(results, PairResults) else None
    graph = results if isinstance(results, GraphResults) else None
    return {
        "thinflow": __version__,
        "verdict": verdict_of(results),
        "source": results.source,
        "origin": results.origin,
        "inputs": [list(i) for i in results.inputs],
        "outputs": [list(o) for o in results.outputs],
        # The keys of both kinds of reports stand in one order, so that two files can be compared line by
        # line.
        **({} if pair is None else _pair_coverage(pair)),
        **({} if graph is None else _graph_coverage(graph)),
        "files": {key: str(path) for key, path in results.files.items()},
        "size_bytes": results.sizes,
        "samples": results.samples,
        **({} if pair is None else {"tested_on": pair.tested_on}),
        "synthetic": results.synthetic,
        **({} if pair is None else _pair_quality(pair)),
        "latency": results.latency.data() if results.latency is not None else None,
        **({"alike": pair.alike} if pair is not None and pair.alike else {}),
        **({} if pair is None else _pair_speed(pair)),
        "transforms": _transform_data(results.ledger),
        **({} if pair is None else {"int8": _quantized_data(pair.int8)}),
        **({} if pair is None or pair.onnx is None else {"onnx_int8": _quantized_data(pair.onnx.quantized)}),
        **({} if pair is None or pair.race is None else {"engines": pair.race.data()}),
        "warnings": results.warnings,
        "next": results.next_steps,
        **_ladder_data(results),
    }


def _ladder_data(results: JobResults) -> dict[str, Any]:
    """What was chosen under a budget; nothing without one."""
    if results.budget is None:
        return {}
    ladders = results.ladders if isinstance(results, PairResults) else []
    return {
        "within_budget": not results.misses_budget,
        "ladder": {ladder.runtime.lower(): ladder.data() for ladder in ladders},
    }


def _pair_coverage(pair: PairResults) -> dict[str, Any]:
    return {
        "model": {
            "inputs": [list(i) for i in pair.model_inputs],
            "outputs": [list(o) for o in pair.model_outputs],
            "outside": pair.outside,
        },
        "partial": pair.is_part,
        "coverage": {"litert" if c.runtime == "LiteRT" else "onnx": c.data() for c in pair.coverages},
        "not_fused": {name.lower(): [list(r) for r in reasons(left)] for name, left in pair.left.items()},
    }


def _graph_coverage(graph: GraphResults) -> dict[str, Any]:
    obstacle = graph.obstacle
    return {
        "obstacle": {"node": obstacle.where, "why": obstacle.problem, "hint": obstacle.hint},
        "partial": graph.is_part,
        "coverage": None if graph.model is None else graph.model.coverage.data(),
    }


def _pair_quality(pair: PairResults) -> dict[str, Any]:
    return {
        "scheme": pair.recipe.scheme,
        "float_difference": pair.float_difference,
        "quality": {
            "float" if role == "fp32" else role: _quality(found) for role, found in pair.qualities.items()
        },
    }


def _pair_speed(pair: PairResults) -> dict[str, Any]:
    ratio = ratio_of(pair)
    speed = {"speedup": None if ratio is None else ratio.value, "speed": speed_data(pair)}
    return speed | {"profiles": [found.data() for found in pair.profiles]}


def _quality(quality: Quality) -> dict[str, Any]:
    return {
        "samples": quality.samples,
        "outputs": list(quality.outputs),
        "of": quality.part or "the file",
        "same_answer": None if quality.part else quality.same_answer,
        "accuracy": quality.accuracy,
        "accuracy_before": quality.accuracy_before,
        # JSON has no infinity; nothing but noise must not look like none.
        "sqnr_db": finite_decibels(quality.sqnr_db),
        "largest_difference": quality.largest if math.isfinite(quality.largest) else None,
        "not_finite": quality.not_finite,
        "changed_samples": quality.worst_samples,
        **quality_data(quality),
    }


def _transform_data(ledger: Result) -> list[dict[str, Any]]:
    """The changes of each transform, as plain data."""
    return [
        {
            "transform": s.transform,
            "changes": s.changes,
            "left": [[text, count, example] for text, count, example in s.trace.reasons()],
            "nodes": list(s.nodes),
            "size_bytes": list(s.size_bytes),
            "difference": s.difference,
        }
        for s in ledger.steps
    ]


def _quantized_data(model: SmallerModel[Any]) -> dict[str, Any]:
    """The quantization of each tensor, the operators that stay float, and what was tried."""
    quantized = model.quantized
    return {
        "trials": [asdict(trial) for trial in model.way.trials],
        "arithmetic": model.shares.data(),
        "noise_by_layer": model.layers.data(),
        "decisions": [
            {
                "tensor": d.tensor,
                "scale": [float(s) for s in d.scale[:1]] if len(d.scale) == 1 else f"{len(d.scale)} channels",
                "zero_point": int(d.zero_point),
                "range": [float(d.range[0]), float(d.range[1])],
                "observer": d.observer,
                "reason": d.reason,
            }
            for d in quantized.decisions
        ],
        "float_operators": [[o.code, o.origin, why] for o, why in quantized.float_operators],
    }
