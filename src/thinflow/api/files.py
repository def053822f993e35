"""Models and results as files: writing them, and what they are, without running anything."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph, paused_gc
from thinflow.load.graphs import Source, opening, require_outputs
from thinflow.typing import Shapes

if TYPE_CHECKING:
    from thinflow.analysis.summary import Summary
    from thinflow.optimize.c_options import COptions
    from thinflow.typing import FilePath


class Saveable(Protocol):
    """A model that is not a graph any more and knows how to write itself: what `quantize` returns."""

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write it; the bytes written."""


def writable() -> list[str]:
    """Suffixes of files that a TensorFlow graph can be written to: of its own formats, and of targets."""
    from thinflow.formats.format import formats
    from thinflow.lower.targets import targets

    own = [f.suffixes for f in formats() if f.save is not None and f.vocabulary is None]
    return sorted({suffix for group in (*own, *(t.suffixes for t in targets())) for suffix in group})


def require_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a name whose suffix says another format than those that are written.

    A name without a suffix passes, and so does a folder, whose name may have a dot.

    Raises:
        ParameterError: it does.
    """
    suffix = Path(os.fspath(path).removesuffix(".gz")).suffix
    if suffix not in {*(known := writable()), ""} and not os.path.isdir(path):
        raise ParameterError(
            f"{os.fspath(path)}: writing {suffix} files is not supported",
            hint=f"end the name in {', '.join(known)}",
        )


def save(
    graph: Graph | Saveable,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    rounding: str | None = None,
    cpu: str | None = None,
    sound: str | None = None,
    sample_rate: int | None = None,
    layout: str | None = None,
    stream: bool = False,
    ram: float | str | None = None,
) -> int:
    """Write a graph; the format goes by the suffix. Returns the bytes written.

    A file for a runtime, such as .tflite or .onnx, is made from the graph as it is, node by node, and not
    run: `convert` proves what it writes, and `Session` runs the same program. A graph of a file's own ops
    that is written in the same format is that file, byte for byte.

    Args:
        graph: what to write; a quantized model goes to the format it was made for.
        path: where to: .pb or .pbtxt (also .gz), .tflite or .onnx; a GraphDef if the name has no suffix.
            Written aside and renamed, so it may be the source.
        format: "graphdef", "pbtxt", "tflite" or "onnx", overriding the suffix.
        rounding, cpu, sound, sample_rate, layout, stream, ram: for .c, as for `convert`.

    Raises:
        ParameterError: the suffix names no format that is written; or there is no such choice, or no way to
            take so little memory.
        WriteError: it cannot be written; what stood there is untouched.
        UnsupportedOp: a node cannot be expressed in the format.
    """
    from thinflow.optimize.c_options import COptions

    asked = COptions(rounding, cpu, sound, sample_rate, layout, stream, ram)
    if asked != COptions():
        if format != "c":
            asked.require_c(path)
        return _save_c(graph, path, asked)
    if not isinstance(graph, Graph):
        return graph.save(path)
    from thinflow.lower.targets import target_for

    target = target_for(path, format)
    if graph.vocabulary:
        from thinflow.formats import format_for
        from thinflow.formats import save as save_file
        from thinflow.formats.foreign import is_as_read
        from thinflow.load.graphs import load

        if format_for(path, format).name == graph.vocabulary and is_as_read(graph):
            return save_file(graph, path, format=format)
        if target is None or graph.vocabulary not in target.takes or not is_as_read(graph):
            graph = load(graph)
    if target is not None:
        require_outputs(graph)
        return target.write(graph, path)
    if format is None:
        require_writable(path)
    from thinflow.formats import save as save_file

    return save_file(graph, path, format=format)


def _save_c(graph: Graph | Saveable, path: str | os.PathLike[str], asked: COptions) -> int:
    """Write C with what is asked of it, see `save`."""
    from thinflow.formats.foreign import is_as_read
    from thinflow.ir.vocabulary import LITERT
    from thinflow.load.graphs import load
    from thinflow.lower.c.target import program_of
    from thinflow.optimize.c_conversion import convert_to_c
    from thinflow.optimize.quantized import QuantizedModel

    if isinstance(graph, QuantizedModel):
        return graph.save_c(path, asked).size_bytes
    if not isinstance(graph, Graph):
        raise ParameterError("this model is not written as C", hint="a quantized .tflite model is")
    if graph.vocabulary and not (graph.vocabulary == LITERT.name and is_as_read(graph)):
        graph = load(graph)
    require_outputs(graph)
    program = program_of(graph, asked.sample_rate)
    return convert_to_c(program, path, asked.chosen(), verify=False).size_bytes


def is_sound(graph: Graph) -> bool:
    """Whether a graph breaks none of TensorFlow's rules, as what changes it asks for. O(nodes + edges)."""
    from thinflow.ir.check import find_problems

    return not find_problems(graph)


def runtime_format(path: str | os.PathLike[str]) -> str:
    """ "tflite" or "onnx" for a model that an engine runs as it is, in a file or a package; "" for any other.

    Raises:
        FormatError: no such file, or one that cannot hold a model.
    """
    from thinflow.formats import named, recognise
    from thinflow.formats.packed_bytes import packed_kind

    # A package says what it holds without being decrypted.
    name = packed_kind(path) or recognise(path).name
    return name if name and named(name).engine else ""


def own_engine(path: str | os.PathLike[str]) -> str:
    """The engine that runs a file as it is; "" for any other model."""
    from thinflow.engines._files import engine_of

    return engine_of(path)


def obstacles(summary: Summary) -> list[str]:
    """Why a graph cannot be run as it is, as far as that shows without running it: a sentence each.

    Of a .tflite or .onnx file its own runtime says that. O(nodes + edges).
    """
    from thinflow.analysis.obstacles import find_obstacles
    from thinflow.synthetic.feeds import why_not_made_up

    # Its own runtime decides what runs.
    if summary.graph.vocabulary:
        return []
    # A score of 0 or below is no suggestion.
    outputs = summary.graph.outputs or [c.value for c in summary.interface.outputs if c.score > 0]
    inputs = [c.value for c in summary.interface.inputs if c.score > 0]
    found = find_obstacles(summary.graph, outputs, summary.shape_failures)
    return found + [reason for value in inputs if (reason := why_not_made_up(value))]


def summarize(
    source: Source,
    *,
    shapes: Shapes | None = None,
    outputs: Sequence[str] | None = None,
    tags: str | None = None,
    signature: str | None = None,
    checkpoint: FilePath | None = None,
) -> Summary:
    """What one graph is, as data: inputs and outputs, parameters, ops, cost, memory, findings.

    `inspect` is another name of the same function, after the command. To look at two graphs, see `diff`.

    Args:
        source: path or Graph, which is not changed.
        shapes: input name -> shape to assume.
        outputs: of a model with variables, names of the values of which only what they need is looked at.
        tags, signature, checkpoint: as for `load`.

    Returns:
        The summary; `str()` of it is the text of TensorFlow's summarize_graph.

    Raises:
        FormatError: not a model.
    """
    from thinflow.load.sources import open_model
    from thinflow.load.summaries import summary_of

    with paused_gc():
        # A copy, since assuming sizes leaves its mark on the values.
        options = opening(tags, signature, checkpoint)
        graph = (
            source.clone() if isinstance(source, Graph) else open_model(source, outputs=outputs, **options)
        )
        return summary_of(graph, shapes)


inspect = summarize


def sizes_to_give(graph: Graph, inputs: Sequence[str] = ()) -> Mapping[str, Sequence[int | None]]:
    """Sizes for what a graph leaves open, as `shapes` takes them: such that they fit each other, or usual
    ones where none are found that do.

    Args:
        graph: shapes inferred.
        inputs: names of those to settle, of a graph of TensorFlow's ops; there only what is found to fit.
    """
    from thinflow.load.fitting_sizes import fitting_sizes, usual_sizes
    from thinflow.synthetic import USUAL, fitting_specs

    if not graph.vocabulary:
        specs = fitting_specs([graph.value(name) for name in inputs], first=USUAL)
        return {v.name: spec.shape for v, spec in specs.items() if spec.shape is not None}
    return fitting_sizes(graph) or usual_sizes(graph)


def stored_graph(source: Source, tags: str | None = None) -> Graph:
    """The graph of a model of any kind with its variables and functions, nothing frozen or guessed.

    Args:
        source: path, or a Graph, which is returned as it is.
        tags: which graph of a SavedModel; default: the only one, or "serve". Other formats have no tags.

    Raises:
        FormatError: no such file, or not a model.
    """
    from thinflow.formats import load, metagraph, recognise, savedmodel

    if isinstance(source, Graph):
        return source
    kind = recognise(source).name
    if kind == "savedmodel":
        return savedmodel.read(source).select(tags).graph
    return metagraph.read(source).graph if kind == "metagraph" else load(source)


def write_json(path: str | os.PathLike[str], data: Any) -> int:
    """Write data as JSON, atomically."""
    import json

    from thinflow.formats.files import write_file

    return write_file(path, [(json.dumps(data, indent=2, default=str) + "\n").encode()])


def write_text(path: str | os.PathLike[str], text: str) -> int:
    """Write a text, atomically."""
    from thinflow.formats.files import write_file

    return write_file(path, [text.encode()])


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> int:
    """Write arrays as .npz, atomically."""
    from thinflow.formats.files import npz_bytes, write_file

    return write_file(path, [npz_bytes(arrays)])
