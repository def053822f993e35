"""Writing a model in another format, and proving what was written."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from thinflow.api.files import require_writable, runtime_format, save
from thinflow.errors import ParameterError, PartialModel, UnsupportedOp
from thinflow.ir.graph import Graph, paused_gc
from thinflow.load.graphs import (
    Source,
    load,
    load_for_inference,
    opening,
    require_outputs,
)
from thinflow.typing import Progress, Shapes

if TYPE_CHECKING:
    from thinflow.load.layouts import Layouts
    from thinflow.optimize.c_options import COptions
    from thinflow.optimize.conversion import Conversion, Converter
    from thinflow.optimize.coreml_options import CoreMLOptions
    from thinflow.optimize.maker import ModelMaker
    from thinflow.typing import FilePath


def convert(
    source: Source,
    path: FilePath,
    *,
    verify: bool = True,
    shapes: Shapes | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
    state: str | None = None,
    input_layout: Layouts | None = None,
    output_layout: Layouts | None = None,
    rounding: str | None = None,
    cpu: str | None = None,
    sound: str | None = None,
    sample_rate: int | None = None,
    layout: str | None = None,
    stream: bool = False,
    ram: float | str | None = None,
    compute_precision: str | None = None,
    weights: str | None = None,
    deployment_target: str | None = None,
    image_input: bool = False,
    labels: FilePath | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
) -> int:
    """Write a model in the format of the target's suffix; returns the bytes written.

    All of the model, or nothing. A .tflite, .onnx or .xml file is run beside the interpreter before it takes
    its name, as `thinflow convert` does; `convert_verified` tells what came of that, and also writes the part
    that a runtime can run.

    Args:
        source: path or Graph.
        path: target, for example model.tflite; see `save`.
        verify: whether to run it.
        shapes: input name -> shape to assume.
        inputs, outputs: names of values; default: what the model declares, else the best guess.
        tags, signature, checkpoint: as for `load`.
        state: as for `convert_verified`.
        input_layout, output_layout: as for `load`.
        rounding, cpu, sound, sample_rate, layout, stream, ram: for .c, as for `convert_verified`.
        compute_precision, weights, deployment_target, image_input, labels, mean, std: for .mlpackage, as
            for `convert_verified`.

    Raises:
        ParameterError: there is no such format or choice, or no way to take so little memory.
        WriteError: it cannot be written.
        UnsupportedOp: a node cannot be expressed in the format.
        VerificationError: it gives other answers; nothing is written.
        EngineCrashed: running it crashed or took too long; nothing is written.
    """
    from thinflow.optimize.c_options import COptions
    from thinflow.optimize.coreml_options import SUFFIX, CoreMLOptions

    asked = (rounding, cpu, sound, sample_rate, layout, stream, ram)
    COptions(*asked).require_c(path)
    of_coreml = (compute_precision, weights, deployment_target, image_input, labels, mean, std)
    CoreMLOptions(*of_coreml).require_coreml(path)
    kept = state_for(state, os.fspath(path))
    if not _is_run(path) and not os.fspath(path).endswith((".c", SUFFIX)):
        # The same nodes in other letters.
        options = {"state": kept, **opening(tags, signature, checkpoint, input_layout, output_layout)}
        graph = load(source, inputs=inputs, outputs=outputs, shapes=shapes, **options)
        if verify and graph.source is not None:
            from thinflow.optimize.source_proof import note_proof

            note_proof(graph, may_differ=isinstance(source, Graph))
        return save(_with_ends(graph, path), path)
    try:
        made = convert_verified(
            source,
            path,
            verify=verify,
            strict=True,
            shapes=shapes,
            inputs=inputs,
            outputs=outputs,
            tags=tags,
            signature=signature,
            checkpoint=checkpoint,
            state=state,
            input_layout=input_layout,
            output_layout=output_layout,
            rounding=rounding,
            cpu=cpu,
            sound=sound,
            sample_rate=sample_rate,
            layout=layout,
            stream=stream,
            ram=ram,
            compute_precision=compute_precision,
            weights=weights,
            deployment_target=deployment_target,
            image_input=image_input,
            labels=labels,
            mean=mean,
            std=std,
        )
    # `convert` promises all or nothing, so a part is to its caller an op that cannot be expressed.
    except PartialModel as error:
        raise UnsupportedOp(error.problem, error.where, error.hint) from error
    return made.size_bytes


def _with_ends(graph: Graph, path: FilePath) -> Graph:
    """What is to be saved: a GraphDef has to show its ends."""
    from thinflow.lower.targets import target_for
    from thinflow.optimize.graphdef_ends import with_plain_ends

    return graph if target_for(path) is not None else with_plain_ends(graph)


def _is_run(path: FilePath) -> bool:
    """True if a file of that name goes to a runtime that can run it here."""
    from thinflow.lower.targets import target_for

    target = target_for(path)
    return target is not None and target.has_runtime


def _copied(source: Source, path: str) -> int | None:
    """The bytes written where a .tflite or .onnx file is wanted in its own format; None if it is not."""
    from thinflow.formats import format_for
    from thinflow.formats import save as save_file
    from thinflow.formats.foreign import is_as_read
    from thinflow.load.sources import open_model

    kind = source.vocabulary if isinstance(source, Graph) else runtime_format(source)
    if not kind or format_for(path).name != kind:
        return None
    graph = source if isinstance(source, Graph) else open_model(source)
    return save_file(graph, path) if is_as_read(graph) else None


def convert_verified(
    source: Source,
    path: str | os.PathLike[str],
    *,
    verify: bool = True,
    shapes: Shapes | None = None,
    opset: int | None = None,
    external_data: bool | None = None,
    timeout: float | None = None,
    strict: bool = False,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
    state: str | None = None,
    input_layout: Layouts | None = None,
    output_layout: Layouts | None = None,
    rounding: str | None = None,
    cpu: str | None = None,
    sound: str | None = None,
    sample_rate: int | None = None,
    layout: str | None = None,
    stream: bool = False,
    ram: float | str | None = None,
    compute_precision: str | None = None,
    weights: str | None = None,
    deployment_target: str | None = None,
    image_input: bool = False,
    labels: FilePath | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    progress: Progress | None = None,
) -> Conversion:
    """As `convert`; a .tflite, .onnx or .xml may hold only the part its runtime can run, and is run beside
    the interpreter before it is written. A part is written under another name: model.tflite becomes
    model_part.tflite.

    Args:
        source, path, shapes: as for `convert`.
        verify: whether to run it.
        opset: for .onnx, version of ONNX's op set: 17 to 21; default 17, or a newer one that holds more.
        external_data: for .onnx, whether weights go to a file of their own, PATH.data; default: only if they
            do not fit into one.
        timeout: seconds for running the written file, in a child process; default 300.
        strict: refuse to write a part.
        inputs, outputs, tags, signature, checkpoint, input_layout, output_layout: as for `load`.
        state: what becomes of variables that runs change: "keep", from call to call (.tflite, .c); "freeze",
            as they were saved; "inputs", for the app to hand on; default "auto": kept in a .tflite and in C
            where that is possible, else frozen.
        rounding: for .c, whose answers to give to the last bit: "litert" (default), those of LiteRT's
            reference kernels, in integers, or "xnnpack", those of what it runs on phones and computers.
        cpu: for .c, the processor that kernels are chosen for; default "generic".
        sound: for .c, how samples come in where the model makes a spectrogram of them: "float" (default), in
            -1..1, or "int16", as from a microphone; "fixed" is "int16" with coefficients in fixed point.
        sample_rate: for .c, samples a second, where the model takes that beside the samples: its filters are
            made for it; default 16000.
        layout: for .c, how its files are arranged: "files" (default), "one-file", "c++17", "arduino",
            "zephyr", "esp-idf", "cmsis-pack"; the last four are a folder.
        stream: for .c, whether a network over time hears only what is new in a run, and keeps what it
            computed of the rest of its window.
        ram: for .c, the memory that it may take on the processor, inputs, outputs and stack included, in
            bytes or with a unit: "64KB", "64KiB". Layers run a few rows at a time where it takes that, in the
            way that costs least; default: all whole, the fastest.
        compute_precision: for .mlpackage, in which floats Core ML computes: "float32" (default), which gives
            the model's own answers, or "float16", which the Neural Engine needs.
        weights: for .mlpackage, "float" (default) or "int8", with a scale for each channel.
        deployment_target: for .mlpackage, the oldest system that runs it: "iOS15", "iOS16" (default),
            "iOS17" or "iOS18"; macOS12 to macOS15 are the same.
        image_input: for .mlpackage, whether it takes pictures where inputs are such; the package scales them.
        labels: for .mlpackage, a file with the names of classes, one a line: it becomes a classifier.
        mean, std: with `image_input`: (pixel - mean) / std, one number or one for each channel; default: as
            the model's metadata or first steps say, else pixels as they are.
        progress: called with (done, total, label).

    Raises:
        PartialModel: the file could hold only a part, and `strict` forbids that; nothing is written.
        StateNotKept: the file cannot keep state, and that was asked for.
        VerificationError: it gives other answers; nothing is written.
        EngineCrashed: running it crashed or took too long; nothing is written.
        ParameterError: senseless options; or no schedule takes so little memory.
    """
    # What is imported stays: looking through it for garbage takes a tenth of the time.
    with paused_gc():
        from thinflow.analysis.training_mode import switch_notes
        from thinflow.engines._child import checked_timeout
        from thinflow.engines._threads import blas
        from thinflow.load.frozen import opening_notes, source_notes
        from thinflow.lower.targets import target_for
        from thinflow.optimize.c_options import COptions
        from thinflow.optimize.conversion import COPIED, Conversion
        from thinflow.optimize.coreml_options import SUFFIX, CoreMLOptions
        from thinflow.optimize.source_proof import note_proof

    target = os.fspath(path)
    # Before the model is opened: wrong options should not cost a minute.
    require_writable(target)
    if (opset is not None or external_data is not None) and not target.endswith(".onnx"):
        what = "an opset goes" if opset is not None else "external data goes"
        raise ParameterError(f"{what} with .onnx files only", hint="end the output's name in .onnx")
    seconds = checked_timeout(timeout)
    if target.endswith(".xml"):
        from thinflow.optimize.openvino import require_openvino

        require_openvino()
    options = opening(tags, signature, checkpoint, input_layout, output_layout)
    names = {"inputs": inputs, "outputs": outputs, "state": state_for(state, target)} | options
    of_c = COptions(rounding, cpu, sound, sample_rate, layout, stream, ram)
    of_c.require_c(target)
    of_coreml = CoreMLOptions(compute_precision, weights, deployment_target, image_input, labels, mean, std)
    of_coreml.require_coreml(target)
    nothing_asked = not any((shapes, inputs, outputs, options, opset, external_data, state))
    if nothing_asked and target.endswith(".tflite"):
        # Only such a file can need it: other conversions do not wait for what it imports.
        from thinflow.api.mending import mended_copy

        if (mended := mended_copy(source, target, verify=verify)) is not None:
            return mended
    if nothing_asked and (copied := _copied(source, target)) is not None:
        return Conversion(target, copied, COPIED)
    if target.endswith(".c"):
        return _converted_to_c(source, target, shapes, names, of_c, verify)
    if target.endswith(SUFFIX):
        return _converted_to_coreml(source, target, shapes, names, of_coreml, verify, progress)
    if not _is_run(target):
        from thinflow.optimize.graphdef_ends import unsaid_ends

        graph = load(source, shapes=shapes, **names)
        if verify:
            note_proof(graph, may_differ=isinstance(source, Graph))
        whole = _with_ends(graph, target)
        size = save(whole, target)
        is_lowered = target_for(target) is not None
        proof = "nothing here runs it" if is_lowered else "every node and weight kept as it was"
        if not is_lowered and graph.source is not None:
            proof = "the nodes and weights that the outputs need"
        if not os.path.splitext(target)[1]:
            proof = f"a GraphDef, as the name has no ending: {proof}"
        unsaid = [] if is_lowered else unsaid_ends(whole)
        return Conversion(target, size, proof, [*source_notes(graph), *opening_notes(graph), *unsaid])

    def write(graph: Graph) -> Conversion:
        maker = _maker(target, opset, external_data)
        kind = _converter(graph, maker)
        # A Graph may have been changed on purpose by whoever gives it.
        is_as_opened = not isinstance(source, Graph)
        return kind(maker, graph, target, seconds, strict, verify, is_as_opened, progress).convert()

    # Matrix products of folding and of the proof are small: a second thread spins between them longer than
    # it works.
    with blas().limited(1):
        made, graph, settings = _kept_else_frozen(source, shapes, names, write)
    made.notes += [*source_notes(graph), *switch_notes(settings), *opening_notes(graph)]
    return made


# Each importing what it asks for alone: a small model is converted in less time than all of it takes.
def _maker(target: str, opset: int | None, external_data: bool | None) -> ModelMaker[Any, Any]:
    """What makes files of the target's suffix."""
    if target.endswith(".xml"):
        from thinflow.optimize.openvino import OpenVinoMaker

        return OpenVinoMaker()
    if target.endswith(".onnx"):
        from thinflow.optimize.onnx import OnnxMaker

        return OnnxMaker(opset, external_data=external_data)
    from thinflow.optimize.litert import LiteRTMaker

    return LiteRTMaker()


def _converter(graph: Graph, maker: ModelMaker[Any, Any]) -> type[Converter[Any]]:
    """What writes a graph: one read from a quantized file stays in so few bits, with that file's scales."""
    from thinflow.transforms.quantized.grids import kept_grids

    if kept_grids(graph):
        from thinflow.optimize.kept_grids import KeptConverter, bits_of

        if bits_of(graph, maker) is not None:
            return KeptConverter
    from thinflow.optimize.conversion import Converter

    return Converter


def _converted_to_c(
    source: Source,
    path: str,
    shapes: Shapes | None,
    names: dict[str, Any],
    asked: COptions,
    verify: bool,
) -> Conversion:
    """The conversion of a model to C."""
    from thinflow.optimize.c_conversion import convert_to_c
    from thinflow.optimize.c_source import c_source
    from thinflow.optimize.conversion import Conversion

    options = asked.chosen()
    way, found = c_source(
        *(source, shapes, names, asked.sample_rate),
        lambda it: convert_to_c(it.program(), path, options, verify=verify),
        verify=verify,
    )
    return Conversion(path, found.size_bytes, found.proof, [*found.notes, *way.notes])


def _converted_to_coreml(
    source: Source,
    path: str,
    shapes: Shapes | None,
    names: dict[str, Any],
    asked: CoreMLOptions,
    verify: bool,
    progress: Progress | None,
) -> Conversion:
    """The conversion of a model to a Core ML package."""
    from thinflow.analysis.training_mode import switch_notes
    from thinflow.load.frozen import opening_notes, source_notes
    from thinflow.optimize.conversion import Conversion
    from thinflow.optimize.coreml_conversion import convert_to_coreml

    options = asked.chosen()
    graph, settings = load_for_inference(source, shapes=shapes, **names)
    require_outputs(graph)
    made = convert_to_coreml(
        graph, path, options, verify=verify, is_as_opened=not isinstance(source, Graph), progress=progress
    )
    notes = [*made.notes, *source_notes(graph), *switch_notes(settings), *opening_notes(graph)]
    return Conversion(path, made.size_bytes, made.proof, notes)


def state_for(state: str | None, path: str) -> str:
    """The treatment of state in a file of that name.

    Raises:
        ParameterError: its format has no variables to keep state in.
    """
    from thinflow.load.frozen import AUTO, FREEZE, KEEP

    if path.endswith((".tflite", ".c")):
        return state or AUTO
    if state == KEEP:
        raise ParameterError(
            f"{path}: only .tflite files and C keep state from call to call",
            hint="--state inputs makes it inputs and outputs of the model, for the app to hand on",
        )
    return FREEZE if state in (None, AUTO) else state


def _kept_else_frozen(
    source: Source, shapes: Shapes | None, names: dict[str, Any], write: Callable[[Graph], Conversion]
) -> tuple[Conversion, Graph, list[str]]:
    """The conversion of a model, with its state if the file can keep that; also the graph, and what was set
    in it for inference.

    Raises:
        StateNotKept: the file cannot, and that was asked for.
    """
    from thinflow.load.frozen import kept_else_frozen

    def opened(state: str) -> tuple[Graph, list[str]]:
        graph, settings = load_for_inference(source, shapes=shapes, **names | {"state": state})
        require_outputs(graph)
        return graph, settings

    graph, settings, made = kept_else_frozen(source, names["state"], opened, lambda it, _: write(it))
    return made, graph, settings
