"""Warnings of a report, and commands to try next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thinflow.ir.graph import Graph, Value
from thinflow.ir.interface import without_states
from thinflow.ops.traits import Trait, has
from thinflow.optimize.core import Core
from thinflow.optimize.float_graph import reopened
from thinflow.optimize.float_islands import SLOWER
from thinflow.optimize.job_inputs import stem_of
from thinflow.optimize.onnx import fits_onnx
from thinflow.optimize.samples import Samples
from thinflow.optimize.verdict import PairResults
from thinflow.rewrite.rule import Trace
from thinflow.transforms.fold.batch_norms import FoldBatchNorms, FoldOldBatchNorms
from thinflow.transforms.recurrence.reroll_recurrence import RerollRecurrence

if TYPE_CHECKING:
    from thinflow.bench.report import BenchmarkReport
    from thinflow.optimize.job_inputs import JobInputs, JobOptions
    from thinflow.optimize.litert import FloatModel
    from thinflow.optimize.on_device import ReachedDevice
    from thinflow.optimize.optimized_graph import OptimizedGraph
    from thinflow.optimize.quantized import QuantizedModel
    from thinflow.rewrite.runner import Result

_DEVICE_FLAGS = ("binary", "delegate", "cpus")
"""Settings of a device that a command of its own has to name, too."""


def warnings_for(optimized: OptimizedGraph, quantized: QuantizedModel) -> list[str]:
    """Warnings of what may mislead whoever reads only the figures."""
    warnings = _about_samples(optimized.job, quantized)
    unrolled = optimized.unrolled_layers
    if unrolled:
        layers = "a recurrent layer is" if unrolled == 1 else f"{unrolled} recurrent layers are"
        warnings.append(
            f"{layers} unrolled, step by step: reroll_recurrence makes one loop of the steps, which is "
            "smaller and opens at once, and which runtimes may know as one operator"
        )
    norms = optimized.summary.training_norms
    if norms:
        warnings.append(
            f"{len(norms)} batch norms are in training mode: they use the statistics of "
            "each batch, were left as they are, and cost speed and eight-bit quality; freeze_batch_norms "
            "freezes them on your data, which changes the answers"
        )
    warnings += quantized.warnings
    if optimized.restored.note:
        warnings.append(optimized.restored.note)
    # Two models of one graph may warn of the same thing: each text once, in the order of the first.
    return list(dict.fromkeys(warnings))


def slower_note(latency: BenchmarkReport | None, options: JobOptions) -> list[str]:
    """What mends a smaller model that took longer than the float one, where nobody asked for that yet."""
    if latency is None or options.device is not None or options.max_latency is not None:
        return []
    for smaller, plain in latency.slower_eight_bits():
        ratio = latency.ratio(smaller, plain).interval
        # Devices, this machine as one of them, run LiteRT alone.
        if ratio.low > SLOWER and smaller.engine == "litert":
            return [
                f"on this machine {smaller.subject} took {ratio} times as long as {plain.subject}; if this is"
                " where it is to run, --device local puts the layers in float that integers slow down here"
            ]
    return []


def _about_samples(job: JobInputs, quantized: QuantizedModel) -> list[str]:
    if job.data.synthetic and not quantized.quantized.measured:
        return [
            "SYNTHETIC INPUT: no samples were given, so inputs were made up. Speed and size are real; "
            "agreement says little. Give real samples with --calibration."
        ]
    if job.data.synthetic:
        return [
            "SYNTHETIC INPUT: no calibration data was given, so inputs were made up. Speed and size are "
            "real; the eight-bit ranges fit the made-up data only, and agreement says little. "
            "Give real samples with --calibration."
        ]
    if job.tested is job.data:
        return ["quality was judged on the calibration samples; --test takes others"]
    return []


def settled_notes(inputs: Sequence[Value], core: Core, samples: Samples) -> list[str]:
    """Notes on sizes that the graph leaves open and models were made for, such as steps of a recurrent net.

    Args:
        inputs: of the graph as it came.
        core: what the models hold, with the sizes they were made for.
        samples: where those sizes are from.
    """
    made = {v.name: v.spec for v in core.inputs}
    notes = []
    for value in inputs:
        before, after = value.spec, made.get(value.name)
        # An open batch is no news: models keep that open or say themselves why they do not.
        if after is None or after.shape is None or None in after.shape[1:]:
            continue
        if before.shape is not None and None not in before.shape[1:]:
            continue
        sizes = ",".join("N" if m is None else str(m) for m in before.shape or after.shape or ())
        origin = "made up" if samples.synthetic else "of the first sample"
        notes.append(
            f"'{value.name}' is {before} in the graph; the models are made for {after}, sizes {origin}: "
            f"choose others with --shape {shlex.quote(value.name)}={sizes}"
        )
    return notes


def propose_folding(result: Result) -> None:
    """Say in the ledger of `fold_batch_norms`, which folds no batch-norm ops, that some are left which
    `fold_old_batch_norms` folds. It is tried, and nothing is said unless it does.
    """
    folding = [s for s in result.steps if s.name == FoldBatchNorms.name]
    if not folding or not any(has(node.op, Trait.BATCH_NORM) for node in result.graph):
        return
    trace = Trace()
    FoldOldBatchNorms().apply(result.graph.clone(), trace)
    norms = [entry for entry in trace.changes if has(entry.op, Trait.BATCH_NORM)]
    if norms:
        what = "1 batch norm is an op" if len(norms) == 1 else f"{len(norms)} batch norms are ops"
        folding[-1].trace.notes.append(
            f"{what} of {'its' if len(norms) == 1 else 'their'} own ({norms[0].op}), which "
            "fold_old_batch_norms folds"
        )
        result.proposed = FoldOldBatchNorms.name


def next_steps(results: PairResults, optimized: OptimizedGraph) -> list[str]:
    """Commands to try, those that make up for what was missing first."""
    job = optimized.job
    graph = job.graph
    model = shlex.quote(results.source or "MODEL")
    # Commands must open the model as this job did, or they would be about another graph.
    model += "".join(f" --{key} {shlex.quote(str(value))}" for key, value in job.opened_with.items())
    folder = results.files["int8"].parent
    samples = shlex.quote(job.data.path or "FOLDER_OF_SAMPLES")
    data = f"--calibration {samples}"
    steps: list[str] = _steps_to_a_whole_model(results, optimized, model) if results.is_part else []
    if results.synthetic and not results.is_part:
        # Those that were given: what the file itself states is no news to it.
        shapes = _known_shapes(graph, one_sample=False) if job.options.shapes else ""
        steps.append(f"thinflow optimize {model}{_layouts(job)} {shlex.quote(str(folder))} {data}{shapes}")
    if optimized.unrolled_layers:
        loops = shlex.quote(str(folder / f"{stem_of(graph)}_loops.pb"))
        steps.append(f"thinflow transform {model} {loops} -t {RerollRecurrence.name}")
    if results.summary.training_norms:
        frozen = shlex.quote(str(folder / f"{stem_of(graph)}_frozen.pb"))
        # freeze_batch_norms runs the graph on the samples, and has to know their sizes first.
        data += _known_shapes(graph)
        steps.append(f"thinflow transform {model} {frozen} -t freeze_batch_norms {data}")
    files = " ".join(shlex.quote(str(results.files[key])) for key in ("fp32", "int8"))
    return [*steps, f"thinflow benchmark {files} --threads 1,2{_there(job.options.devices)}"]


def _there(devices: Sequence[ReachedDevice]) -> str:
    """The flags that measure on the same devices; "" without any."""
    if not devices:
        return ""
    named = ",".join(device.name for device in devices)
    used = {key: value for d in devices for key in _DEVICE_FLAGS if (value := getattr(d.settings, key))}
    return "".join(f" --{key} {shlex.quote(value)}" for key, value in {"device": named, **used}.items())


def graph_next_steps(files: Mapping[str, Path], model: FloatModel | None, *, runs: bool) -> list[str]:
    """Commands to try with what is left without a smaller model.

    Args:
        files: by role.
        model: the float model, if there is one.
        runs: whether something here runs the graph.
    """
    if model is not None and not model.coverage.is_part:
        return [f"thinflow benchmark {shlex.quote(str(files['fp32']))}"]
    return [f"thinflow {'run' if runs else 'inspect'} {shlex.quote(str(files['fp32_pb']))}"]


def _steps_to_a_whole_model(results: PairResults, optimized: OptimizedGraph, model: str) -> list[str]:
    """Commands that make or run all of a model that the LiteRT models hold only a part of."""
    if results.onnx is not None and not results.onnx.plain.coverage.is_part:
        return [f"thinflow benchmark {shlex.quote(str(results.files['onnx_fp32']))}"]
    whole = results.files["fp32_pb"]
    if results.onnx is None and results.source and fits_onnx(reopened(optimized.job.graph, optimized.graph)):
        ends = _ends(optimized.job.graph)
        return [f"thinflow convert {model}{ends} {shlex.quote(str(whole.with_suffix('.onnx')))}"]
    return [f"thinflow run {shlex.quote(str(whole))}{_ends(optimized.job.graph)}"]


def _layouts(job: JobInputs) -> str:
    """The flags for layouts of a job again."""
    given = ((key, job.options.opening.get(key)) for key in ("input_layout", "output_layout"))
    texts = (
        (k, v if isinstance(v, str) else ",".join(f"{n}={w}" for n, w in v.items())) for k, v in given if v
    )
    return "".join(f" --{key.replace('_', '-')} {shlex.quote(text)}" for key, text in texts)


def _ends(graph: Graph) -> str:
    """Flags that name a graph's inputs and outputs, so that nothing is guessed anew."""
    fed, given = (without_states(graph, side) for side in (graph.inputs, graph.outputs))
    sides = (("inputs", fed), ("outputs", given))
    return "".join(f" --{role} {shlex.quote(','.join(v.name for v in values))}" for role, values in sides)


def _known_shapes(graph: Graph, *, one_sample: bool = True) -> str:
    """A `--shape` flag for each input whose shape is known.

    Args:
        one_sample: whether an open batch is known to be one sample; else it stays open.
    """
    fed = without_states(graph, graph.inputs)
    known = {v.name: v.shape for v in fed if v.shape and None not in v.shape[1:]}
    shapes = {name: shape for name, shape in known.items() if one_sample or shape[0] is not None}
    texts = (
        f"{name}={','.join('1' if d is None else str(d) for d in shape)}" for name, shape in shapes.items()
    )
    return "".join(f" --shape {shlex.quote(text)}" for text in texts)
