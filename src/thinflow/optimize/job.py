"""The main job, end to end: an unknown graph in; an optimised float model, an eight-bit model and a proof
out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from thinflow.analysis.opened import tell_unkept
from thinflow.analysis.summary import summarize
from thinflow.bench.report import BenchmarkReport
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.ir.graph import Graph
from thinflow.ir.states import without_states
from thinflow.load.keeping import AUTO, FREEZE
from thinflow.optimize.advice import graph_next_steps, next_steps, settled_notes, warnings_for
from thinflow.optimize.calls import StateNotKept, check_calls, require_states
from thinflow.optimize.checking import check_float_model
from thinflow.optimize.finishing import (
    checked_folder,
    described,
    make_folder,
    model_files,
    page_files,
    sizes_of,
    write_graph,
    write_pages,
)
from thinflow.optimize.float_model import FloatModel
from thinflow.optimize.litert_job import LiteRTPair, litert_pair, running_model, write_plain
from thinflow.optimize.onnx_job import OnnxPair, onnx_pair, require_onnx
from thinflow.optimize.quantizing import chosen_recipe
from thinflow.optimize.report import GraphReport, OptimizeReport
from thinflow.optimize.samples import both_samples
from thinflow.optimize.small_graph import SmallGraph, small_graph
from thinflow.optimize.task import DEFAULT_MAX_DROP, Choices, Task, named_ends, open_model, require_sensible
from thinflow.optimize.timing import first_sample, timed
from thinflow.optimize.trying import require_ours, require_runnable
from thinflow.quantize.pictures import Scaling
from thinflow.quantize.recipe import Recipe
from thinflow.typing import Progress


def optimize(
    source: str | os.PathLike[str] | Graph,
    out_dir: str | os.PathLike[str],
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Mapping[str, Sequence[int | None]] | None = None,
    calibration: Any = None,
    test: Any = None,
    labels: str | os.PathLike[str] | Sequence[str] | None = None,
    scaling: Scaling | None = None,
    samples: int | None = None,
    threads: Sequence[int] = (1, 2),
    max_drop: float = DEFAULT_MAX_DROP,
    measure: bool = True,
    seconds: float = 4.0,
    verify: bool = True,
    scheme: str | None = None,
    recipe: Recipe | None = None,
    onnx: bool = False,
    strict: bool = False,
    state: str = AUTO,
    progress: Progress | None = None,
    **options: Any,
) -> OptimizeReport | GraphReport:
    """The work of `thinflow.optimize`, whose arguments these are; options: how to open the model.

    Of a model that no LiteRT model can hold, the graph alone is made smaller, and the report says why.

    Raises:
        PartialModel: a file could hold only a part of the model, and `strict` forbids that.
        ThinflowError: with `strict`, what keeps one of the models from being made.
        ThinflowError: the model cannot be read, converted or written; nothing half-made is left.
    """
    require_sensible(threads, max_drop)
    recipe = chosen_recipe(scheme, recipe)
    if onnx:
        require_onnx(recipe)
    choices = Choices(recipe, onnx, verify, measure, tuple(threads), seconds, max_drop, progress, strict)
    folder = checked_folder(out_dir)

    def opened(state: str, unkept: str = "") -> Task:
        names = {"inputs": inputs, "outputs": outputs, "shapes": shapes, "state": state, **options}
        graph, settings = open_model(source, names)
        if unkept:
            tell_unkept(graph, unkept)
        summary = summarize(graph.clone(), shapes)
        data, tested = both_samples(graph, calibration, test, labels=labels, scaling=scaling, limit=samples)
        opened_with = {**named_ends(inputs, outputs), **options}
        return Task(graph, settings, summary, data, tested, folder, choices, opened_with)

    try:
        return _carried_out(opened(state))
    except StateNotKept as error:
        if state != AUTO or isinstance(source, Graph):
            raise
        return _carried_out(opened(FREEZE, error.problem))


def _carried_out(task: Task) -> OptimizeReport | GraphReport:
    """The job once the model is open: make, prove, write, measure, tell."""
    small = small_graph(task)
    try:
        model = running_model(small)
    except UnsupportedOp as obstacle:
        _require_stateless(task, obstacle)
        if small.unknown is None:
            require_runnable(small.graph, small.calibration, obstacle)
        return _without(small, obstacle)
    except ThinflowError as failure:
        _require_stateless(task, failure)
        require_ours(failure, task.data)
        return _without(small, failure)
    require_states(model.core)
    if task.choices.strict:
        model.coverage.require_whole()
    try:
        difference = check_float_model(model, small.calibration)
        calls = check_calls(model.core, b"".join(model.chunks()), small.calibration)
        difference = max(difference, calls)
    except ThinflowError as failure:
        _require_stateless(task, failure)
        require_ours(failure, task.data)
        return _without(small, failure)
    try:
        litert = litert_pair(small, model, difference)
    except ThinflowError as failure:  # of the smaller model: float ran
        require_ours(failure, task.data)
        return _without(small, failure, model)
    onnx, no_onnx = _onnx(small)
    if task.choices.strict and onnx is not None:
        onnx.plain.coverage.require_whole()
    return _report_on_models(small, litert, onnx, no_onnx)


def _require_stateless(task: Task, error: ThinflowError) -> None:
    """Say of a failure that it may be due to the state that is kept.

    Raises:
        StateNotKept: the graph has states.
    """
    if task.graph.states:
        raise StateNotKept(error.problem, error.where, error.hint) from error


def _without(small: SmallGraph, failure: ThinflowError, model: FloatModel | None = None) -> GraphReport:
    """The report on what is left without models that could not be made; an error where all were wanted."""
    if small.task.choices.strict:
        raise failure
    return _report_on_graph(small, failure, model)


def _onnx(small: SmallGraph) -> tuple[OnnxPair | None, str]:
    """The models for ONNX Runtime if they were asked for; or None, and why there are none."""
    if not small.task.choices.onnx:
        return None, ""
    try:
        return onnx_pair(small), ""
    except ThinflowError as error:  # the models for LiteRT are made, whatever happens here
        require_ours(error, small.task.data)
        if small.task.choices.strict:
            raise
        return None, f"no ONNX models were written: {error.message}"


def _report_on_models(
    small: SmallGraph, litert: LiteRTPair, onnx: OnnxPair | None, no_onnx: str
) -> OptimizeReport:
    """Write and time the models; the report on them, written too."""
    task, core = small.task, litert.plain.core
    files = _write_graph(small)
    files |= litert.write(task.folder, task.stem, task.choices.recipe.scheme) | page_files(task.folder)
    if onnx is not None:
        files |= onnx.write(task.folder, task.stem, task.choices.recipe.scheme)
    latency, unmeasured = _timed_models(task, files, litert, onnx)
    settled = settled_notes(task.graph.inputs, core, task.data)
    failures = [why for why in (no_onnx, unmeasured) if why]
    report = OptimizeReport(
        **_common(small),
        files=files,
        sizes=sizes_of(files),
        latency=latency,
        warnings=[*small.notes, *settled, *failures, *warnings_for(small, litert.quantized)],
        model_inputs=described(core.fed),
        model_outputs=described(core.given),
        outside={n.name: why for n, why in core.outside.items()},
        float_difference=litert.difference,
        float_quality=litert.qualities["float"],
        int8_quality=litert.qualities["int8"],
        int8=litert.quantized,
        tested_on=task.tested.note,
        max_drop=task.choices.max_drop,
        onnx=onnx,
        coverage=litert.plain.coverage,
    )
    report.next_steps = next_steps(report, small)
    write_pages(report)
    return report


def _report_on_graph(small: SmallGraph, obstacle: ThinflowError, model: FloatModel | None) -> GraphReport:
    """Write what could be made, time the graph before and after; the report on it, written too.

    Args:
        small: the graph, and what it was.
        obstacle: why there is no model, or only a float one.
        model: the float model, if there is one.
    """
    task, runs = small.task, small.unknown is None
    files = _write_graph(small)
    if model is not None:
        files |= write_plain(model, task.folder, task.stem)
    files |= page_files(task.folder)
    latency, unmeasured = _timed_graph(small, files, model) if runs else (None, "")
    found = (*(() if model is None else model.batch_notes), small.restored.note, unmeasured)
    report = GraphReport(
        **_common(small),
        files=files,
        sizes=sizes_of(files),
        latency=latency,
        warnings=[*small.notes, *filter(None, found)],
        next_steps=graph_next_steps(files, model, runs=runs),
        obstacle=obstacle,
        runs=runs,
        model=model,
    )
    write_pages(report)
    return report


def _common(small: SmallGraph) -> dict[str, Any]:
    """The fields that every report has, told by the job's inputs and the optimized graph."""
    task = small.task
    return {
        "source": task.graph.path,
        "summary": small.summary,
        "inputs": described(without_states(task.graph, task.graph.inputs)),
        "outputs": described(without_states(task.graph, task.graph.outputs)),
        "ledger": small.restored,
        "recipe": task.choices.recipe,
        "samples": task.data.note,
        "synthetic": task.data.synthetic,
    }


def _write_graph(small: SmallGraph) -> dict[str, Path]:
    """Write the optimized graph into the job's folder; the file by its role."""
    make_folder(small.task.folder)
    return write_graph(small.restored.graph, small.task.folder, small.task.stem)


def _timed_models(
    task: Task, files: Mapping[str, Path], litert: LiteRTPair, onnx: OnnxPair | None
) -> tuple[BenchmarkReport | None, str]:
    """The models side by side if that was chosen; or None, and why nothing was timed."""
    models = {role: path for role, path in model_files(files).items() if role != "fp32_pb"}
    cores = {
        path: onnx.plain.core if onnx is not None and role.startswith("onnx") else litert.plain.core
        for role, path in models.items()
    }
    return timed(task, list(models.values()), first_sample(task, cores))


def _timed_graph(
    small: SmallGraph, files: Mapping[str, Path], model: FloatModel | None
) -> tuple[BenchmarkReport | None, str]:
    """The graph as it came beside the whole float model, or the optimized graph; or None, and why not."""
    task = small.task
    before: dict[str, Any] = {"before": task.graph}
    if model is None or model.coverage.is_part:
        feeds = first_sample(task, {}, ["before", "after"])
        return timed(task, before | {"after": small.restored.graph}, feeds, memory=False)
    feeds = first_sample(task, {files["fp32"]: model.core}, ["before"])
    return timed(task, before | {"after": files["fp32"]}, feeds, memory=False)
