"""The main job, end to end: an unknown graph in; an optimised float model, an eight-bit model and a proof
out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thinflow.analysis.summary import Summary, summarize
from thinflow.analysis.switches import switch_notes
from thinflow.bench.latency import BenchmarkReport
from thinflow.engines.litert import Model
from thinflow.errors import (
    EngineCrashed,
    GraphError,
    ParameterError,
    UnsupportedOp,
)
from thinflow.formats import graphdef
from thinflow.formats._files import write_file
from thinflow.ir.check import require_valid
from thinflow.ir.graph import Graph
from thinflow.optimizing import report as pages
from thinflow.optimizing.advice import next_steps, settled_notes, warnings_for
from thinflow.optimizing.checking import check_float_model, compare_models
from thinflow.optimizing.finishing import checked_folder, described, make_folder, measured, stem_of
from thinflow.optimizing.float_model import FloatModel, float_graph, float_model
from thinflow.optimizing.graph_job import GraphReport, finish
from thinflow.optimizing.labels import class_names_for
from thinflow.optimizing.onnx_job import OnnxPair, onnx_pair, require_onnx
from thinflow.optimizing.quality import Quality
from thinflow.optimizing.quantizing import QuantizedModel, chosen_recipe, quantized_model
from thinflow.optimizing.samples import Samples, rebind, samples_for
from thinflow.optimizing.trying import (
    reaches_core,
    require_running,
    unknown_op,
    unproven,
    why_not_running,
)
from thinflow.optimizing.written import as_it_came
from thinflow.quantize.pictures import Scaling
from thinflow.quantize.recipe import Recipe
from thinflow.rewrite.runner import Result

Progress = Callable[[int, int, str], None]
VARIABLES = frozenset({"Variable", "VariableV2", "VarHandleOp"})
DEFAULT_MAX_DROP = 1.5
"""Points of accuracy (or of equal answers) that fewer bits may cost before float is recommended."""

_MODELS = ("fp32_pb", "fp32", "int8", "onnx_fp32", "onnx_int8")


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

    def lines(self) -> list[str]:
        """What the command prints: the verdict first, the next command last."""
        return pages.lines(self)

    def markdown(self) -> str:
        """The report for people, what `report.md` holds."""
        return pages.markdown(self)


def optimize(
    source: str | os.PathLike[str] | Graph,
    out_dir: str | os.PathLike[str],
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Mapping[str, Sequence[int | None]] | None = None,
    calibration: Any = None,
    test: Any = None,
    labels: str | Path | Sequence[str] | None = None,
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
    progress: Progress | None = None,
    **options: Any,
) -> OptimizeReport | GraphReport:
    """Make a model small and fast, prove it, measure it, and write what devices run.

    Of a model that no LiteRT model can hold, the graph alone is made smaller, and the report says why.

    Args:
        source: path of a model of any format, or a Graph.
        out_dir: folder for the results; made if missing. Files of the same names are replaced, each at once.
        inputs, outputs: names; default: the best guess.
        shapes: input name -> shape where the graph leaves it open.
        calibration: samples for eight-bit ranges: a folder, a .npz or .npy file, arrays, an iterable of
            feeds. Without it
            inputs are made up, and the report says so.
        test: other samples to judge the models on; default: the calibration samples.
        labels: class names in the order of the outputs, or a file of them; default: a labels file beside
            the model.
        scaling: of pictures, for float inputs.
        samples: use so many samples only.
        threads: thread counts to measure.
        max_drop: points of accuracy fewer bits may cost.
        scheme: a key of `thinflow.quantize.recipe.SCHEMES`; default "int8".
        measure: whether to time the models.
        seconds: time for each pair of measurements.
        verify: run the graph before and after every transform.
        recipe: all that can be chosen about quantization, instead of `scheme`.
        onnx: also make both models for ONNX Runtime.
        progress: called with (done, total, label).
        options: how to open the model, such as `signature=`; as for `load`.

    Raises:
        ThinflowError: the model cannot be read, converted or written; nothing half-made is left.
    """
    _check_options(threads, max_drop)
    recipe = chosen_recipe(scheme, recipe)
    if onnx:
        require_onnx(recipe)
    graph, settings = _loaded(source, inputs, outputs, shapes, options)
    folder = checked_folder(out_dir)
    summary = summarize(graph.clone(), shapes)
    names = class_names_for(graph, labels)
    data = samples_for(graph, calibration, scaling=scaling, limit=samples, class_names=names)
    tested = data
    if test is not None:
        tested = samples_for(graph, test, scaling=scaling, limit=samples, class_names=names)
    ledger = float_graph(graph, samples=data, verify=verify, progress=progress)
    restored = as_it_came(ledger, data, verify=verify)
    summary.training_norms = [name for name in summary.training_norms if name in ledger.graph]
    calibration = rebind(data, graph, ledger.graph)
    plain = GraphReport(
        source=graph.path,
        summary=summary,
        inputs=described(graph.inputs),
        outputs=described(graph.outputs),
        ledger=restored,
        scheme=recipe.scheme,
        samples=data.note,
        synthetic=data.synthetic,
        warnings=switch_notes(settings),
    )
    unknown = unknown_op(ledger.graph)
    if unknown is not None:
        plain.warnings.append(unproven(unknown))
        plain.runs = False
    try:
        model = float_model(ledger.graph, calibration)
        if unknown is not None and not reaches_core(model, calibration):
            raise UnsupportedOp("nothing here knows an op that it begins with", unknown.where, unknown.hint)
        require_running(model, calibration)
    except UnsupportedOp as obstacle:
        if unknown is None and (failure := why_not_running(ledger.graph, calibration)) is not None:
            hint = failure.hint or "`thinflow inspect MODEL --all` shows its nodes"
            raise UnsupportedOp(obstacle.problem, obstacle.where, hint) from failure
        plain.obstacle = obstacle
        return finish(plain, graph, folder, seconds if measure else 0, progress)
    judges = calibration if tested is data else rebind(tested, graph, ledger.graph)
    difference = check_float_model(model, calibration)
    try:
        ends = unknown is None
        made = _make(graph, restored, model, difference, calibration, judges, recipe, progress, ends)
    except EngineCrashed as crash:  # on the eight-bit model: float ran
        plain.obstacle, plain.tflite = crash, model.content
        return finish(plain, graph, folder, seconds if measure else 0, progress)
    pair, no_onnx = None, ""
    if onnx:
        try:
            pair = onnx_pair(graph, ledger.graph, data, tested, recipe, progress)
        except EngineCrashed as error:  # the models for LiteRT are made, whatever happens here
            no_onnx = f"no ONNX models were written: {error.message}"
    files = _write(folder, stem_of(graph), made, recipe.scheme)
    if pair is not None:
        files |= pair.write(folder, stem_of(graph), recipe.scheme)
    written = [key for key in _MODELS if key in files]
    latency, unmeasured = None, ""
    if measure:
        models = [files[key] for key in written[1:]]
        latency, unmeasured = measured(models, threads=tuple(threads), seconds=seconds, progress=progress)
    report = OptimizeReport(
        source=graph.path,
        summary=summary,
        inputs=described(graph.inputs),
        outputs=described(graph.outputs),
        model_inputs=described(made.model.core.inputs),
        model_outputs=described(made.model.core.outputs),
        outside={n.name: why for n, why in made.model.core.outside.items()},
        ledger=made.ledger,
        float_difference=made.difference,
        float_quality=made.qualities["float"],
        int8_quality=made.qualities["int8"],
        int8=made.int8,
        latency=latency,
        sizes={key: files[key].stat().st_size for key in written},
        files=files,
        samples=data.note,
        synthetic=data.synthetic,
        tested_on=tested.note,
        warnings=[
            *plain.warnings,
            *settled_notes(graph.inputs, made.model.core, data),
            *filter(None, [no_onnx, unmeasured]),
            *warnings_for(data, tested, summary, made, recipe),
        ],
        max_drop=max_drop,
        recipe=recipe,
        onnx=pair,
    )
    report.next_steps = next_steps(report, graph, calibration, options)
    write_file(files["json"], [pages.json_text(report).encode()])
    write_file(files["markdown"], [report.markdown().encode()])
    return report


def _loaded(
    source: str | os.PathLike[str] | Graph,
    inputs: Sequence[str] | None,
    outputs: Sequence[str] | None,
    shapes: Mapping[str, Sequence[int | None]] | None,
    options: Mapping[str, Any],
) -> tuple[Graph, list[str]]:
    """The graph, sound, frozen, with outputs and ready for inference; and what was set for that."""
    from thinflow.api.files import load_for_inference, require_tensorflow

    graph, settings = load_for_inference(source, inputs=inputs, outputs=outputs, shapes=shapes, **options)
    require_tensorflow(graph, "optimized")
    require_valid(graph)
    _require_frozen(graph)
    if not graph.outputs:
        raise GraphError(
            "no output was found",
            graph.path,
            hint="name it with --outputs; `thinflow inspect MODEL` lists nodes",
        )
    return graph, settings


@dataclass
class Made:
    """Both models of a graph, and what proves them."""

    ledger: Result
    model: FloatModel
    difference: float
    int8: QuantizedModel
    qualities: dict[str, Quality]


def _make(
    graph: Graph,
    ledger: Result,
    model: FloatModel,
    difference: float,
    calibration: Samples,
    judges: Samples,
    recipe: Recipe,
    progress: Progress | None,
    end_to_end: bool,
) -> Made:
    """Quantize the float model and judge both, all in memory."""
    int8 = quantized_model(model, calibration, recipe=recipe, progress=progress)
    contents = {"float": model.content, "int8": int8.comparable}
    qualities = compare_models(model, contents, graph, judges, progress=progress, end_to_end=end_to_end)
    return Made(ledger, model, difference, int8, qualities)


def _write(folder: Path, stem: str, made: Made, scheme: str) -> dict[str, Path]:
    """Write the models and read each back; the files by role, those of the report included."""
    make_folder(folder)
    files = {
        "fp32_pb": folder / f"{stem}_fp32.pb",
        "fp32": folder / f"{stem}_fp32.tflite",
        "int8": folder / f"{stem}_{scheme}.tflite",
        "json": folder / "report.json",
        "markdown": folder / "report.md",
    }
    graphdef.save(made.ledger.graph, files["fp32_pb"])
    graphdef.load(files["fp32_pb"])
    for key, content in (("fp32", made.model.content), ("int8", made.int8.content)):
        write_file(files[key], [content], check=Model)
    return files


def _check_options(threads: Sequence[int], max_drop: float) -> None:
    if not threads or any(t < 1 for t in threads):
        shown = ",".join(map(str, threads))
        raise ParameterError(f"'{shown}' is no list of thread counts", hint="give counts like 1,2")
    if not max_drop >= 0:
        raise ParameterError(f"a drop of at most {max_drop:g} points makes no sense", hint="give 0 or more")


def _require_frozen(graph: Graph) -> None:
    """Refuse variables, whose values are in a checkpoint.

    Raises:
        GraphError: names the first.
    """
    variable = next((n for n in graph if n.op in VARIABLES), None)
    if variable is not None:
        raise GraphError(
            f"the graph is not frozen: '{variable.name}' is a variable, its values are in a checkpoint",
            graph.path,
            hint="give the checkpoint's prefix: --checkpoint PREFIX",
        )
