"""The main job, end to end: an unknown graph in; an optimized float model, a smaller one and a proof out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from thinflow.bench.report import BenchmarkReport
from thinflow.device.base import DeviceLost
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.formats.files import write_file
from thinflow.ir.graph import Graph
from thinflow.ir.interface import without_states
from thinflow.load.frozen import AUTO, FREEZE, source_notes
from thinflow.load.summaries import bytes_beside
from thinflow.optimize.advice import graph_next_steps, next_steps, settled_notes, slower_note, warnings_for
from thinflow.optimize.engine_names import LITERT, ONNX, OPENVINO, PREFIXES
from thinflow.optimize.engine_race import race
from thinflow.optimize.examination import attach, examine
from thinflow.optimize.float_islands import quicker
from thinflow.optimize.grounds import litert_ground, onnx_ground, openvino_ground, running_model
from thinflow.optimize.job_inputs import (
    JobInputs,
    JobOptions,
    checked_folder,
    described,
    make_folder,
    model_files,
    open_inputs,
    page_files,
    sizes_of,
    write_graph,
    write_pages,
)
from thinflow.optimize.ladder.climber import LadderInterrupted, climbed
from thinflow.optimize.ladder.ground import Ground
from thinflow.optimize.ladder.plot import save_unfinished, svg
from thinflow.optimize.ladder.result import Ladder
from thinflow.optimize.litert import FloatModel, LiteRTMaker
from thinflow.optimize.maker import M, ModelPair, Q
from thinflow.optimize.numeric_check import StateNotKept, check_calls, check_model, require_states
from thinflow.optimize.on_device import answers_there, worse_elsewhere
from thinflow.optimize.onnx import OnnxModel, require_onnx
from thinflow.optimize.openvino import require_openvino
from thinflow.optimize.optimized_graph import OptimizedGraph, optimized_graph
from thinflow.optimize.quality import Quality
from thinflow.optimize.quality_page import Shown, shown_of
from thinflow.optimize.quantized import OnnxQuantizedModel, QuantizedModel
from thinflow.optimize.recipe_options import recipe_notes, save_recipe
from thinflow.optimize.report import GraphReport, OptimizeReport
from thinflow.optimize.samples import class_names_of
from thinflow.optimize.trial_runs import (
    FirstSample,
    first_sample,
    profiled,
    require_ours,
    require_runnable,
    timed,
)
from thinflow.pages.shell import why_no_pages
from thinflow.quantize.recipe import check_recipe

LiteRTPair = ModelPair[FloatModel, QuantizedModel]
OnnxPair = ModelPair[OnnxModel, OnnxQuantizedModel]


def optimize(
    source: str | os.PathLike[str] | Graph, out_dir: str | os.PathLike[str], options: JobOptions
) -> OptimizeReport | GraphReport:
    """The work of `thinflow.optimize`.

    Of a model that no LiteRT model can hold, the graph alone is made smaller, and the report says why.

    Raises:
        PartialModel: a file could hold only a part of the model, and `strict` forbids that.
        ThinflowError: with `strict`, what keeps one of the models from being made.
        ThinflowError: the model cannot be read, converted or written; nothing half-made is left.
    """
    if options.makes_onnx:
        require_onnx(options.chosen_recipe)
    if OPENVINO in options.raced:
        require_openvino()
        check_recipe(options.chosen_recipe)
    folder = checked_folder(out_dir)
    try:
        return _run(open_inputs(source, folder, options, options.state))
    # By itself only where nobody chose: the model is opened again, with its variables frozen.
    except StateNotKept as error:
        if options.state != AUTO or isinstance(source, Graph):
            raise
        return _run(open_inputs(source, folder, options, FREEZE, error.problem))


def _run(job: JobInputs) -> OptimizeReport | GraphReport:
    """The report of a job whose model is open: make, prove, write, measure, tell."""
    optimized, options = optimized_graph(job), job.options
    try:
        model = running_model(optimized)
    except ThinflowError as failure:
        _require_stateless(job, failure)
        # What LiteRT cannot hold is a finding for the report; other failures may be the user's to mend.
        if not isinstance(failure, UnsupportedOp):
            require_ours(failure, job.data)
        elif optimized.unknown is None:
            require_runnable(optimized.graph, optimized.calibration, failure)
        return _without(optimized, failure)
    require_states(model.core)
    if options.strict:
        model.coverage.require_whole()
    try:
        # State first: a model that keeps it wrongly may still be right in single calls.
        calls = check_calls(model, b"".join(model.chunks()), optimized.calibration)
        difference = max(check_model(model, optimized.calibration), calls)
    except ThinflowError as failure:
        _require_stateless(job, failure)
        require_ours(failure, job.data)
        return _without(optimized, failure)
    try:
        litert = _litert_pair(optimized, model)
    except DeviceLost:
        # What was measured is kept, and the same command goes on from there.
        raise
    except ThinflowError as failure:  # of the smaller model: float ran
        require_ours(failure, job.data)
        return _without(optimized, failure, model)
    onnx, no_onnx = _onnx(optimized)
    if options.strict and onnx is not None:
        onnx.plain.coverage.require_whole()
    others = {} if onnx is None else {ONNX: onnx}
    missing = {} if onnx is not None else {ONNX: no_onnx}
    found, missing[OPENVINO] = _openvino(optimized, onnx)
    others |= {} if found is None else {OPENVINO: found}
    return _report_on_models(optimized, litert, difference, others, missing)


def _require_stateless(job: JobInputs, error: ThinflowError) -> None:
    """Say of a failure that it may be due to the state that is kept.

    Raises:
        StateNotKept: the graph has states.
    """
    if job.graph.states:
        raise StateNotKept(error.problem, error.where, error.hint) from error


def _without(
    optimized: OptimizedGraph, failure: ThinflowError, model: FloatModel | None = None
) -> GraphReport:
    """The report on what is left without models that could not be made; an error where all were wanted."""
    if optimized.job.options.strict:
        raise failure
    return _report_on_graph(optimized, failure, model)


def _litert_pair(optimized: OptimizedGraph, model: FloatModel) -> LiteRTPair:
    """The float model and the smaller one for LiteRT, judged."""
    job = optimized.job
    given = (job.data, optimized.calibration)
    found = examine(model, job.graph, given, optimized.evaluation, job.options.chosen_recipe)
    pair = _pair(litert_ground(optimized, model))
    attach(pair.quantized, found)
    return pair


def _pair(ground: Ground[M, Q]) -> ModelPair[M, Q]:
    """The float model of a runtime and a smaller one: the best within a budget, or as it was asked for."""
    options, effort = ground.job.options, ground.job.options.opened.effort
    maker = ground.make(effort)
    if options.budget is not None:
        try:
            return climbed(ground, options.schemes(maker.schemes), effort, options.budget)
        except LadderInterrupted as stopped:
            save_unfinished(ground.job.folder, ground.original.path, options.budget, stopped)
            raise
    pair = maker.pair(
        ground.model,
        ground.original,
        ground.calibration,
        ground.evaluation,
        options.chosen_recipe,
        progress=options.progress,
        end_to_end=ground.end_to_end,
    )
    return quicker(ground, pair)


def _onnx(optimized: OptimizedGraph) -> tuple[OnnxPair | None, str]:
    """The models for ONNX Runtime if they were asked for; or None, and why there are none."""
    options = optimized.job.options
    if not options.makes_onnx:
        return None, ""
    try:
        return _pair(onnx_ground(optimized)), ""
    except ThinflowError as error:  # the models for LiteRT are made, whatever happens here
        require_ours(error, optimized.job.data)
        if options.strict:
            raise
        return None, f"no ONNX models were written: {error.message}"


def _openvino(optimized: OptimizedGraph, onnx: OnnxPair | None) -> tuple[OnnxPair | None, str]:
    """The models for OpenVINO if it is in the race; or None, and why there are none.

    Args:
        onnx: those for ONNX Runtime: what was looked for to make them smaller is taken from them.
    """
    options = optimized.job.options
    if OPENVINO not in options.raced:
        return None, ""
    try:
        ground = openvino_ground(optimized)
        alike = onnx is not None and not (onnx.plain.coverage.is_part or ground.model.coverage.is_part)
        if onnx is None or not alike:
            return _pair(ground), ""
        smaller = replace(onnx.quantized, core=ground.model.core)
        judged = ground.make(options.opened.effort).judged(
            *(ground.model, smaller, ground.original, ground.evaluation),
            progress=options.progress,
            end_to_end=ground.end_to_end,
        )
        return replace(judged, ladder=onnx.ladder), ""
    except ThinflowError as error:  # as above
        require_ours(error, optimized.job.data)
        if options.strict:
            raise
        return None, f"no OpenVINO models were written: {error.message}"


def _report_on_models(
    optimized: OptimizedGraph,
    litert: LiteRTPair,
    difference: float,
    others: Mapping[str, OnnxPair],
    missing: Mapping[str, str],
) -> OptimizeReport:
    """Write and time the models; the report on them, written too.

    Args:
        difference: of the float model's answers from the interpreter's.
        others: engine -> the models for it, where they were asked for.
        missing: engine -> why there are none, although they were.
    """
    onnx = others.get(ONNX)
    job, core = optimized.job, litert.plain.core
    files = _write_graph(optimized)
    files |= litert.write(job.folder, job.stem) | page_files(job.folder)
    save_recipe(files["recipe"], litert.quantized.way, job.graph, litert.quantized.note_of(job.data))
    for pair in others.values():
        files |= pair.write(job.folder, job.stem)
    files |= _write_ladders(job, litert.ladder, onnx)
    feeds = _fed(job, files, litert, others)
    latency, unmeasured = timed(job, list(_timed_files(job, files).values()), feeds)
    alike, doubts = _answers_there(job, files, feeds) if latency is not None else ("", [])
    doubts += _elsewhere(job, files, latency, litert.ladder)
    settled = settled_notes(job.graph.inputs, core, job.data)
    failures = [why for why in (*missing.values(), unmeasured, left_out_page()) if why]
    standings = None
    if job.options.raced:
        standings = race(
            job.options.raced,
            {LITERT: litert, **others},
            files,
            latency,
            threads=job.options.threads[0],
            max_drop=job.options.allowed_drop,
            synthetic=job.data.synthetic,
            missing=missing,
        )
    foreign = recipe_notes(job.options.opened.file, job.graph)
    report = OptimizeReport(
        **_common(optimized, litert.quantized),
        files=files,
        sizes=sizes_of(files),
        latency=latency,
        alike=alike,
        warnings=[
            *foreign,
            *optimized.notes,
            *settled,
            *failures,
            *doubts,
            *warnings_for(optimized, litert.quantized),
            *slower_note(latency, job.options),
        ],
        model_inputs=described(core.fed),
        model_outputs=described(core.given),
        outside={n.name: why for n, why in core.outside.items()},
        float_difference=difference,
        float_quality=litert.qualities["float"],
        int8_quality=litert.qualities["int8"],
        int8=litert.quantized,
        tested_on=job.tested.note,
        max_drop=job.options.allowed_drop,
        ladder=litert.ladder,
        onnx=onnx,
        openvino=others.get(OPENVINO),
        race=standings,
        coverage=litert.plain.coverage,
        profiles=profiled(job, latency, [files["fp32"], files["int8"]], feeds),
        shown=shown_samples(job, litert.qualities),
        left={"LiteRT": litert.plain.left} | ({} if onnx is None else {"ONNX": onnx.plain.left}),
    )
    report.next_steps = next_steps(report, optimized)
    write_pages(report)
    return report


def _write_ladders(job: JobInputs, ladder: Ladder | None, onnx: OnnxPair | None) -> dict[str, Path]:
    """Write pictures of what was chosen from, and the recipe of the ONNX model; the files by role."""
    if ladder is None:
        return {}
    files = {"plot": job.folder / ladder.plot_name}
    write_file(files["plot"], [svg(ladder).encode()])
    if onnx is not None and onnx.ladder is not None:
        files |= {
            "onnx_plot": job.folder / onnx.ladder.plot_name,
            "onnx_recipe": job.folder / "recipe_onnx.toml",
        }
        write_file(files["onnx_plot"], [svg(onnx.ladder).encode()])
        save_recipe(files["onnx_recipe"], onnx.quantized.way, job.graph, onnx.quantized.note_of(job.data))
    return files


def _report_on_graph(
    optimized: OptimizedGraph, obstacle: ThinflowError, model: FloatModel | None
) -> GraphReport:
    """Write what could be made, time the graph before and after; the report on it, written too.

    Args:
        optimized: the graph, and what it was.
        obstacle: why there is no model, or only a float one.
        model: the float model, if there is one.
    """
    job, runs = optimized.job, optimized.unknown is None
    files = _write_graph(optimized)
    if model is not None:
        files["fp32"] = job.folder / f"{model.coverage.stem(job.stem)}_fp32.tflite"
        LiteRTMaker().write(model, files["fp32"], check=LiteRTMaker.open_file)
    files |= page_files(job.folder, with_recipe=False)
    latency, unmeasured = _timed_graph(optimized, files, model) if runs else (None, "")
    found = (*(() if model is None else model.batch_notes), optimized.restored.note, unmeasured)
    found += (left_out_page(),)
    report = GraphReport(
        **_common(optimized),
        files=files,
        sizes=sizes_of(files),
        latency=latency,
        warnings=[*optimized.notes, *filter(None, found)],
        next_steps=graph_next_steps(files, model, runs=runs),
        obstacle=obstacle,
        runs=runs,
        model=model,
    )
    write_pages(report)
    return report


def _common(optimized: OptimizedGraph, made: QuantizedModel | None = None) -> dict[str, Any]:
    """The fields that every report has, told by the job's inputs, the optimized graph, the smaller model."""
    job = optimized.job
    return {
        "source": job.graph.path,
        "quantized_source_bytes": _quantized_bytes(job.graph),
        "origin": [*source_notes(job.graph), *([made.ranges_note] if made and made.ranges_note else [])],
        "summary": optimized.summary,
        "inputs": described(without_states(job.graph, job.graph.inputs)),
        "outputs": described(without_states(job.graph, job.graph.outputs)),
        "ledger": optimized.restored,
        "recipe": job.options.chosen_recipe
        if made is None or job.options.budget is None
        else made.way.recipe,
        "budget": job.options.budget,
        "samples": job.data.note if made is None else made.note_of(job.data),
        "synthetic": job.data.synthetic,
    }


def _quantized_bytes(graph: Graph) -> int:
    """Bytes of the quantized file that a graph was made of, if a runtime opens that as it is; else 0."""
    source = graph.source
    if source is None or not source.has_codes or not source.engine or not os.path.isfile(source.path):
        return 0
    beside = bytes_beside(source.path, is_onnx=source.path.endswith(".onnx"))
    return os.path.getsize(source.path) + beside


def _write_graph(optimized: OptimizedGraph) -> dict[str, Path]:
    """Write the optimized graph into the job's folder; the file by its role."""
    make_folder(optimized.job.folder)
    return write_graph(optimized.restored.graph, optimized.job.folder, optimized.job.stem)


def _raced(files: Mapping[str, Path]) -> dict[str, Path]:
    """The models for runtimes, by role: the .pb runs in the interpreter."""
    return {role: path for role, path in model_files(files).items() if role != "fp32_pb"}


def _timed_files(job: JobInputs, files: Mapping[str, Path]) -> dict[str, Path]:
    """Those of them that are timed: devices run LiteRT."""
    raced = _raced(files)
    if job.options.device is None:
        return raced
    return {role: path for role, path in raced.items() if path.suffix == ".tflite"}


def _answers_there(job: JobInputs, files: Mapping[str, Path], feeds: FirstSample) -> tuple[str, list[str]]:
    """Whether the files answer on the devices as they do here; nothing without a device."""
    agreeing: list[str] = []
    doubts: list[str] = []
    for device in job.options.devices:
        alike, odd = answers_there(device, _timed_files(job, files), feeds, job.options.progress)
        agreeing += [alike] if alike else []
        doubts += odd
    return "; ".join(agreeing), doubts


def _elsewhere(
    job: JobInputs, files: Mapping[str, Path], latency: BenchmarkReport | None, ladder: Ladder | None
) -> list[str]:
    """What is to know of the devices by which nothing was decided."""
    others, budget = job.options.devices[1:], job.options.budget
    if latency is None or not others:
        return []
    is_float = ladder is not None and ladder.choice.best.is_float
    chosen = files["fp32" if is_float else "int8"]
    bound = None if budget is None else budget.latency_ms
    return worse_elsewhere(latency, files["fp32"], chosen, others, bound)


def _fed(
    job: JobInputs, files: Mapping[str, Path], litert: LiteRTPair, others: Mapping[str, OnnxPair]
) -> FirstSample:
    """What each of the models is fed when it is timed."""
    cores = {}
    for role, path in _raced(files).items():
        own = next((pair for engine, pair in others.items() if role.startswith(PREFIXES[engine])), None)
        cores[path] = litert.plain.core if own is None else own.plain.core
    return first_sample(job, cores)


def _timed_graph(
    optimized: OptimizedGraph, files: Mapping[str, Path], model: FloatModel | None
) -> tuple[BenchmarkReport | None, str]:
    """The graph as it came beside the whole float model, or the optimized graph; or None, and why not."""
    job = optimized.job
    before: dict[str, Any] = {"before": job.graph}
    # A part is quicker than the whole for the wrong reason.
    if model is None or model.coverage.is_part:
        feeds = first_sample(job, {}, ["before", "after"])
        return timed(job, before | {"after": optimized.restored.graph}, feeds, memory=False)
    feeds = first_sample(job, {files["fp32"]: model.core}, ["before"])
    return timed(job, before | {"after": files["fp32"]}, feeds, memory=False)


def left_out_page() -> str:
    """A warning where the page cannot be written; "" where it can."""
    why = why_no_pages()
    return f"report.html was left out: {why}" if why else ""


def shown_samples(job: JobInputs, qualities: Mapping[str, Quality]) -> Shown:
    """What the samples look like whose answers are told, unless they were made up."""
    tested = job.tested
    if tested.synthetic:
        return Shown()
    judged = [one for quality in qualities.values() for one in quality.told]
    return shown_of(judged, tested, tested.place, class_names_of(job.graph, job.options.labels))
