"""The public functions: a few lines of glue each.

They take a path or a Graph, return data, and never print.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinflow.errors import GraphError, ParameterError
from thinflow.ir.graph import Graph, Value

if TYPE_CHECKING:
    import numpy as np

    from thinflow.analysis.summary import Summary
    from thinflow.engines.session import Session as Session
    from thinflow.optimizing.core import Core
    from thinflow.rewrite.runner import Result
    from thinflow.verify import Verification

Source = str | os.PathLike[str] | Graph
Shapes = Mapping[str, Sequence[int | None]]
Progress = Callable[[int, int, str], None]


_WRITABLE = (".pb", ".pbtxt", ".tflite", ".onnx")
_FOREIGN = frozenset(
    {".mmpb", ".h5", ".hdf5", ".keras", ".mlmodel", ".pt", ".pth", ".json", ".npz", ".zip", ".jpg"}
)
"""Suffixes that promise another format than GraphDef."""


def __getattr__(name: str) -> Any:
    if name == "Session":
        from thinflow.engines.session import Session

        return Session
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def load(
    source: Source,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    shapes: Shapes | None = None,
) -> Graph:
    """A graph from a file of any supported format, told by its content; a Graph is copied.

    Weights stay in the file's mapping until somebody reads them.

    Args:
        source: path of a GraphDef (.pb, .pbtxt, gzip or not), or a Graph.
        inputs: names of the values to feed; default: guessed.
        outputs: names of the values to compute; default: guessed.
        shapes: input name -> shape to assume where the graph says less.

    Raises:
        FormatError: not such a file.
        GraphError: a name does not exist; the closest is offered.
    """
    from thinflow.analysis.interface import guess_interface
    from thinflow.analysis.shapes import infer_shapes
    from thinflow.formats import load as load_file
    from thinflow.synthetic import override_shapes

    graph = source.clone() if isinstance(source, Graph) else load_file(source)
    infer_shapes(graph)
    guess = None
    if (inputs is None and not graph.inputs) or (outputs is None and not graph.outputs):
        guess = guess_interface(graph)
    if inputs is not None:
        graph.inputs = _values(graph, inputs, "input")
    elif guess is not None and not graph.inputs:
        graph.inputs = guess.chosen_inputs
    if outputs is not None:
        graph.outputs = _values(graph, outputs, "output")
    elif guess is not None and not graph.outputs:
        graph.outputs = guess.chosen_outputs
    if shapes:
        infer_shapes(graph, override_shapes(graph.inputs, shapes))
    return graph


def _values(graph: Graph, names: Sequence[str] | str, role: str) -> list[Value]:
    """Values by name, trimmed; empty names are dropped.

    Raises:
        GraphError: unknown or repeated.
    """
    wanted = [n.strip() for n in (names.split(",") if isinstance(names, str) else names)]
    values: list[Value] = []
    for name in filter(None, wanted):
        try:
            value = graph.value(name)
        except GraphError as error:
            raise GraphError(f"there is no {role} '{name}' in the graph", graph.path, error.hint) from error
        if value in values:
            raise GraphError(f"the {role} '{name}' is given twice", hint="give each once")
        values.append(value)
    return values


def save(graph: Graph, path: str | os.PathLike[str], *, format: str | None = None) -> int:
    """Write a graph; the format goes by the suffix. Returns the bytes written.

    Args:
        graph: what to write.
        path: where to: .pb or .pbtxt (also .gz), .tflite or .onnx. Written aside and renamed, so it may be
            the source.
        format: "graphdef", "pbtxt", "tflite" or "onnx", overriding the suffix.

    Raises:
        WriteError: it cannot be written; what stood there is untouched.
        UnsupportedOp: a node cannot be expressed in the format.
    """
    suffix = Path(path).suffix
    if format == "tflite" or (format is None and suffix == ".tflite"):
        from thinflow.formats._files import write_file

        return write_file(path, _tflite_chunks(graph))
    if format == "onnx" or (format is None and suffix == ".onnx"):
        from thinflow.lower.onnx.convert import lower_graph
        from thinflow.optimizing.onnx import write_onnx

        _require_outputs(graph)
        return write_onnx(lower_graph(graph, graph.inputs, graph.outputs).program, path)
    if format is None and suffix in _FOREIGN:
        raise ParameterError(
            f"writing {suffix} files is not supported yet", hint="choose .pb, .pbtxt, .tflite or .onnx"
        )
    from thinflow.formats import save as save_file

    return save_file(graph, path, format=format)


def _tflite_chunks(graph: Graph) -> Iterable[bytes | memoryview]:
    from thinflow.lower.tflite.convert import lower_graph
    from thinflow.lower.tflite.program import write_program

    _require_outputs(graph)
    _, chunks = write_program(lower_graph(graph, graph.inputs, graph.outputs).program)
    return chunks


def _require_outputs(graph: Graph) -> None:
    if not graph.outputs:
        raise GraphError("the graph has no outputs to convert", graph.path, hint="name them: outputs=[...]")


def summarize(source: Source, *, shapes: Shapes | None = None) -> Summary:
    """What a graph is, as data; `str()` of it is the text of TensorFlow's summarize_graph.

    Args:
        source: path or Graph.
        shapes: input name -> shape to assume.
    """
    from thinflow.analysis.summary import summarize as summarize_graph
    from thinflow.formats import load as load_file

    # A copy, since assuming sizes leaves its mark on the values.
    graph = source.clone() if isinstance(source, Graph) else load_file(source)
    return summarize_graph(graph, shapes)


inspect = summarize


def transform(
    source: Source,
    transforms: Any,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    *,
    verify: bool = True,
    feeds: Sequence[Mapping[str, Any]] | None = None,
    shapes: Shapes | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Graph:
    """A new graph with the transforms applied; the source is not changed.

    Args:
        source: path or Graph.
        transforms: `'strip_unused_nodes(type=float) fold_constants'`, or a list of names, (name, options)
            pairs and
            configured transforms.
        inputs, outputs: names; default: those of the graph.
        verify: run the graph before and after every step that changed something, and undo and report one
            that changed the
            numbers.
        feeds: what to run it on; made up if None.
        shapes: input name -> shape to assume.
        seed: for made-up feeds.
        progress: called with (done, total, label).

    Raises:
        ParseError, ParameterError: the transforms cannot be read; nothing ran.
        TransformError: one failed.
        VerificationError: one changed what the graph computes.
    """
    return transform_with_ledger(
        source,
        transforms,
        inputs,
        outputs,
        verify=verify,
        feeds=feeds,
        shapes=shapes,
        seed=seed,
        progress=progress,
    ).graph


def transform_with_ledger(
    source: Source,
    transforms: Any,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    *,
    verify: bool = True,
    feeds: Sequence[Mapping[str, Any]] | None = None,
    shapes: Shapes | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Result:
    """As `transform`, but returns the graph together with what each step did, left, and why."""
    from thinflow.analysis.shapes import infer_shapes, port_count
    from thinflow.formats.graphdef import serialized_size
    from thinflow.rewrite.runner import run as run_steps
    from thinflow.transforms import resolve
    from thinflow.verify import OutputComparer

    steps = resolve(transforms)
    graph = load(source, inputs=inputs, outputs=outputs, shapes=shapes)
    comparer = OutputComparer(_named_feeds(graph, feeds), seed=seed) if verify else None
    result = run_steps(
        graph, steps, comparer=comparer, port_count=port_count, size_of=serialized_size, progress=progress
    )
    infer_shapes(result.graph)
    if comparer is not None and comparer.skipped:
        result.note = f"not compared: {comparer.skipped}"
    return result


def measure_batch_norms(
    source: Source,
    calibration: Any,
    path: str | os.PathLike[str],
    *,
    samples: int | None = None,
    **names: Any,
) -> int:
    """Measure the statistics of batch norms in training mode on samples, for the transform
    `freeze_batch_norms`.

    Args:
        source: path or Graph.
        calibration: samples, as for `optimize`.
        path: the .npz file to write, keyed NAME/mean and NAME/variance.
        samples: use the first so many only.
        names: as for `load`.

    Returns:
        How many norms were measured.
    """
    from thinflow.optimizing.steps import samples_for
    from thinflow.transforms.freeze_batch_norms import measure_batch_norms as measure
    from thinflow.transforms.freeze_batch_norms import save_statistics

    graph = load(source, **names)
    statistics = measure(graph, samples_for(graph, calibration, limit=samples))
    save_statistics(path, statistics)
    return len(statistics)


def _named_feeds(graph: Graph, feeds: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    import numpy as np

    if feeds is None:
        return None
    return [{graph.value(name).name: np.asarray(array) for name, array in feed.items()} for feed in feeds]


def convert(
    source: Source, path: str | os.PathLike[str], *, shapes: Shapes | None = None, **names: Any
) -> int:
    """Write a model in the format of the target's suffix; returns the bytes written.

    Args:
        source: path or Graph.
        path: target, for example model.tflite.
        shapes: input name -> shape to assume.
        names: `inputs=` and `outputs=`, as for `load`.
    """
    return save(load(source, shapes=shapes, **names), path)


def run(
    source: Source,
    feeds: Mapping[str, Any],
    fetches: Sequence[str] | None = None,
    *,
    engine: str = "auto",
    threads: int = 1,
) -> dict[str, np.ndarray[Any, Any]]:
    """Run a model once: fetch name -> array. For repeated runs keep a `Session`."""
    from thinflow.engines.session import Session

    graph = load(source, outputs=fetches)
    names = list(fetches) if fetches is not None else [v.name for v in graph.outputs]
    return dict(zip(names, Session(graph, engine, threads).run(names, feeds), strict=True))


def verify(
    a: Source,
    b: Source,
    feeds: Iterable[Mapping[str, Any]] | Mapping[str, Any] | None = None,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    engine: str = "reference",
    tolerance: float = 1e-4,
    seed: int = 0,
) -> Verification:
    """Whether two models compute the same: largest error per output, and the first value that differs.

    Args:
        a, b: paths or Graphs.
        feeds: one feed or several; made up if None.
        inputs, outputs: names in `a`; outputs are paired by name.
        engine: what runs them.
        tolerance: largest |a - b| relative to the largest |a| up to which they agree.
        seed: for made-up feeds.
    """
    from thinflow.verify import verify as compare_graphs

    first = load(a, inputs=inputs, outputs=outputs)
    second = load(b)
    return compare_graphs(first, second, feeds, engine=engine, tolerance=tolerance, seed=seed)


def optimize(source: Source, out_dir: str | os.PathLike[str], **options: Any) -> Any:
    """The main job: find inputs and outputs, optimise in 32 bits, quantize to eight, measure both, report.

    Writes STEM_fp32.pb, STEM_fp32.tflite, STEM_int8.tflite, report.json and report.md into `out_dir`.
    Options: see `thinflow.optimizing.job.optimize`.
    """
    from thinflow.optimizing.job import optimize as run_job

    return run_job(source, out_dir, **options)


def quantize(source: Source, calibration: Any, *, scheme: str = "int8", **options: Any) -> Any:
    """An eight-bit LiteRT program calibrated on data. Options: see `thinflow.optimizing.steps.quantize`."""
    from thinflow.optimizing.steps import quantize as run_quantize

    return run_quantize(source, calibration, scheme=scheme, **options)


def benchmark(source: Source | Sequence[Source], **options: Any) -> Any:
    """Latency of one or several models, interleaved. Options: see `thinflow.bench.latency.benchmark`."""
    from thinflow.bench.latency import benchmark as run_benchmark

    return run_benchmark(source, **options)


def evaluate(source: Source, data: Any, **options: Any) -> Any:
    """Accuracy of a model on labelled data. Options: see `thinflow.optimizing.steps.evaluate`."""
    from thinflow.optimizing.steps import evaluate as run_evaluate

    return run_evaluate(source, data, **options)


def freeze(*_: Any, **__: Any) -> Graph:
    """Not there yet: freezing needs the checkpoint readers.

    Raises:
        ParameterError: always, with what to do instead.
    """
    raise ParameterError(
        "freezing checkpoints and SavedModels is not supported yet",
        hint="freeze with TensorFlow: python -m tensorflow.python.tools.freeze_graph --help",
    )


def compare(a: Source, b: Source) -> list[str]:
    """Differences of two graphs in structure and constants, as sentences; empty if they are equal."""
    from thinflow.analysis.compare import graph_differences

    return graph_differences(load(a, inputs=[], outputs=[]), load(b, inputs=[], outputs=[]))


def TransformGraph(  # the name TensorFlow gave it
    input_graph_def: Any, inputs: Sequence[str], outputs: Sequence[str], transforms: Sequence[str] | str
) -> Any:
    """TensorFlow's own Python entry point: a GraphDef (message or bytes) in, the same kind out.

    Args:
        input_graph_def: a GraphDef message with SerializeToString, or its bytes.
        inputs, outputs: node names.
        transforms: transform strings.

    Raises:
        ParameterError: a bad transform (also a ValueError).
    """
    from thinflow.formats import graphdef

    raw = (
        input_graph_def
        if isinstance(input_graph_def, (bytes, bytearray, memoryview))
        else input_graph_def.SerializeToString()
    )
    pipeline = transforms if isinstance(transforms, str) else " ".join(transforms)
    graph = graphdef.from_bytes(memoryview(raw))
    result = transform(graph, pipeline, inputs, outputs, verify=False) if pipeline.strip() else graph
    data = graphdef.to_bytes(result)
    if isinstance(input_graph_def, (bytes, bytearray, memoryview)):
        return data
    message = type(input_graph_def)()
    message.ParseFromString(data)
    return message


# --- what the commands use besides
# ------------------------------------------------------------------------------


def structure_lines(graph: Graph) -> list[str]:
    """The nodes in execution order, one per line, as summarize_graph --print_structure prints them."""
    from thinflow.analysis.summary import structure_lines as lines

    return lines(graph)


def transform_names() -> list[str]:
    """Every transform, sorted."""
    from thinflow.transforms import names

    return names()


def parse_transforms(text: str) -> list[Any]:
    """The calls in a transform string.

    Raises:
        ParseError: with the place of the mistake.
    """
    from thinflow.rewrite.spec import parse_transforms as parse

    return list(parse(text))


def write_json(path: str | os.PathLike[str], data: Any) -> int:
    """Write data as JSON, atomically."""
    import json

    from thinflow.formats._files import write_file

    return write_file(path, [(json.dumps(data, indent=2, default=str) + "\n").encode()])


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> int:
    """Write arrays as .npz, atomically."""
    import io

    import numpy as np

    from thinflow.formats._files import write_file

    buffer = io.BytesIO()
    np.savez_compressed(buffer, **dict(arrays))
    return write_file(path, [buffer.getvalue()])


@dataclass
class Conversion:
    """What `convert_verified` wrote and proved."""

    path: str
    size_bytes: int
    proof: str
    notes: list[str] = field(default_factory=list)

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {"path": self.path, "size_bytes": self.size_bytes, "proof": self.proof, "notes": self.notes}


def convert_verified(
    source: Source,
    path: str | os.PathLike[str],
    *,
    verify: bool = True,
    shapes: Shapes | None = None,
    opset: int | None = None,
    external_data: bool | None = None,
    **names: Any,
) -> Conversion:
    """As `convert`; a .tflite or .onnx may hold only the part its runtime can run, and is run beside the
    interpreter before it is written.

    Args:
        source, path, shapes, names: as for `convert`.
        verify: whether to run it.
        opset: for .onnx, version of ONNX's op set: 17 (default) to 21.
        external_data: for .onnx, whether weights go to a file of their own, PATH.data; default: only if they
            do not fit into one.

    Raises:
        VerificationError: it gives other answers; nothing is written.
    """
    target = os.fspath(path)
    suffix = Path(target.removesuffix(".gz")).suffix
    if suffix not in {*_WRITABLE, *_FOREIGN, ""} and not os.path.isdir(target):
        raise ParameterError(
            f"{target}: this suffix names no format", hint=f"end the name in {', '.join(_WRITABLE)}"
        )
    if (opset is not None or external_data is not None) and not target.endswith(".onnx"):
        what = "an opset goes" if opset is not None else "external data goes"
        raise ParameterError(f"{what} with .onnx files only", hint="end the output's name in .onnx")
    graph = load(source, shapes=shapes, **names)
    if target.endswith(".onnx"):
        return _convert_to_onnx(graph, target, verify, opset, external_data)
    if not target.endswith(".tflite"):
        return Conversion(target, save(graph, target), "every node and weight kept as it was")
    from thinflow.formats._files import write_file
    from thinflow.optimizing.steps import check_float_model, float_graph, float_model, samples_for

    model = float_model(float_graph(graph, verify=verify).graph)
    found: list[float] = []
    if verify:
        samples = samples_for(model.core.graph, None, limit=1)

        def check(part: str) -> None:
            found.append(check_float_model(model, samples, path=part))

        size = write_file(target, model.chunks(), check=check)
        proof = f"LiteRT agrees with the graph, largest relative difference {found[0]:.2g}"
    else:
        size = write_file(target, model.chunks())
        proof = "not verified (--no-verify)"
    return Conversion(target, size, proof, _core_notes(model.core))


def _convert_to_onnx(
    graph: Graph, target: str, verify: bool, opset: int | None, external_data: bool | None
) -> Conversion:
    from thinflow.engines.onnxruntime import ENGINE
    from thinflow.lower.onnx.program import DEFAULT_OPSET, check_opset
    from thinflow.optimizing.onnx import check_onnx_model, onnx_model, write_onnx
    from thinflow.optimizing.steps import float_graph, samples_for

    opset = check_opset(DEFAULT_OPSET if opset is None else opset)
    _require_outputs(graph)
    optimised = float_graph(graph, verify=verify).graph
    model = onnx_model(optimised, samples_for(optimised, None, limit=1), opset=opset)
    missing = ENGINE.available()
    found: list[float] = []
    if verify and not missing:
        samples = samples_for(model.core.graph, None, limit=1)

        def check(part: str) -> None:
            found.append(check_onnx_model(model, samples, part))

        size = write_onnx(model.program, target, external_data=external_data, check=check)
        proof = f"ONNX Runtime agrees with the graph, largest relative difference {found[0]:.2g}"
    else:
        size = write_onnx(model.program, target, external_data=external_data)
        proof = f"not run: {missing}" if verify else "not verified (--no-verify)"
    return Conversion(target, size, proof, [*_core_notes(model.core), f"opset  {opset}"])


def _core_notes(core: Core) -> list[str]:
    """What a converted model takes and gives, and what of the graph is not in it."""
    notes = [f"input  {v.name}  {v.spec}" for v in core.inputs]
    notes += [f"output {v.name}  {v.spec}" for v in core.outputs]
    if core.outside:
        node, why = next(iter(core.outside.items()))
        notes.append(f"{len(core.outside)} nodes are not in it and run in the app, first {node.where}: {why}")
    return notes


def quantize_to_file(
    source: Source,
    path: str | os.PathLike[str],
    calibration: Any,
    *,
    samples: int | None = None,
    scaling: Any = None,
    progress: Progress | None = None,
    **names: Any,
) -> dict[str, Any]:
    """Write an int8 .tflite and say how good it is: its size, quality beside the graph, and warnings."""
    from thinflow.formats._files import write_file
    from thinflow.optimizing.steps import compare_models, float_graph, float_model, int8_model, samples_for

    if not os.fspath(path).endswith(".tflite"):
        raise ParameterError(
            f"{os.fspath(path)}: an eight-bit model is a .tflite file", hint="end the name in .tflite"
        )
    graph = load(source, **names)
    data = samples_for(graph, calibration, limit=samples, scaling=scaling)
    optimised = float_graph(graph, samples=data, progress=progress).graph
    model = float_model(optimised)
    moved = samples_for(optimised, calibration, limit=samples, scaling=scaling)
    int8 = int8_model(model, moved, progress=progress)
    quality = compare_models(model, {"int8": int8.content}, graph, moved, progress=progress)["int8"]
    size = write_file(path, [int8.content])
    return {
        "path": os.fspath(path),
        "size_bytes": size,
        "float_bytes": len(model.content),
        "quality": quality.sentence(),
        "sqnr_db": quality.sqnr_db,
        "samples": data.note,
        "synthetic": data.synthetic,
        "float_operators": [[o.code, o.origin, why] for o, why in int8.quantized.float_operators],
        "warnings": int8.warnings,
    }


def picture_scaling(mean: float, std: float) -> Any:
    """(pixel - mean) / std for pictures that feed float inputs.

    Raises:
        ParameterError: std is 0.
    """
    from thinflow.quantize.feeds import Scaling

    return Scaling(mean, std)


def optimize_lines(report: Any) -> list[str]:
    """What `thinflow optimize` prints: the verdict first, the next command last."""
    from thinflow.optimizing.report import lines

    return lines(report)


def read_feeds(graph: Graph, paths: Mapping[str, str]) -> dict[str, Any]:
    """One feed from files, one per input name: .npy, .npz (first member), .txt numbers; for string inputs the
    file's bytes.

    Raises:
        FeedError: a file cannot be read, or does not fit the input.
    """
    from thinflow.quantize.feeds import read_input

    return {name: read_input(Path(path), name, graph.value(name).spec) for name, path in paths.items()}


def made_up_feed(graph: Graph, seed: int = 0) -> dict[str, Any]:
    """One made-up feed for the graph's inputs, by name."""
    from thinflow.synthetic import synthetic_feeds

    return {v.name: array for v, array in next(synthetic_feeds(graph.inputs, 1, seed)).items()}
