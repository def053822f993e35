"""From paths and Graphs to subjects that can be measured, each with a name of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thinflow.analysis.shapes import declared_spec, infer_shapes
from thinflow.bench.inputs import (
    Feeds,
    FeedSeries,
    FeedsFor,
    Given,
    Made,
    Shapes,
    by_inputs,
    check_rank,
    each_by_position,
    each_feed,
    input_specs,
    named_sizes,
    sensible_inputs,
)
from thinflow.bench.targets import (
    FileSubject,
    GraphSubject,
    OnnxSubject,
    OpenVinoSubject,
    SignatureSubject,
    Subject,
    TFLiteSubject,
)
from thinflow.engines._child import can_fork, in_child, survives_fork
from thinflow.engines._files import engine_of, is_file, open_file, path_of
from thinflow.errors import FeedError, FormatError, ParameterError, closest
from thinflow.formats.files import map_file
from thinflow.formats.openvino import weights_beside
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import TensorSpec
from thinflow.load.graphs import declare_interface
from thinflow.load.sources import open_model, options_for
from thinflow.synthetic import fitting_specs, likely_shape, open_sizes, override_shapes


def open_subjects(
    sources: Mapping[str, Any] | Sequence[Any] | Any,
    *,
    feeds: Given | FeedsFor = None,
    shapes: Shapes | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    made: Made | None = None,
    **options: Any,
) -> list[Subject]:
    """Subjects from paths and Graphs, each with a name of its own.

    Args:
        sources: one path or Graph, several, or name -> path or Graph.
        feeds: input name -> array, or arrays in order, for all of them, or several such; or what gives them
            by a model's path and inputs. Made up if None.
        shapes: input name -> shape, for those that have such an input.
        inputs, outputs: names of the graphs' inputs and outputs; default: declared, else guessed.
        made: for files, what `sensible_inputs` makes up; None makes it.
        options: how to open models that keep their variables outside the graph.

    Raises:
        FormatError: a file is missing or of no known kind.
        FeedError: no subject has an input that a shape was given for.
    """
    if isinstance(sources, Mapping):
        named = list(sources.items())
    else:
        single = isinstance(sources, str | os.PathLike | Graph)
        listed = [sources] if single else list(sources)
        named = list(zip(_names(listed), listed, strict=True))
    if not named:
        raise FeedError("there is nothing to measure", hint="give at least one model")
    wanted = {k.removesuffix(":0"): v for k, v in (shapes or {}).items()}
    _check_options([source for _, source in named], options)
    used: set[str] = set()  # the names of all inputs
    subjects = [
        _open(name, source, feeds, made, wanted, used, inputs, outputs, options) for name, source in named
    ]
    _level(subjects)
    if unused := set(wanted) - used:
        near = closest(min(unused), sorted(used)) or f"the inputs are {', '.join(sorted(used))}"
        raise FeedError(f"no model has an input '{min(unused)}'", hint=near)
    return subjects


def _level(subjects: Sequence[Subject]) -> None:
    """Take as many samples for each model: the i-th runs of all of them get the same one."""
    series = [(s, s.feeds) for s in subjects if isinstance(s.feeds, FeedSeries)]
    least = min((len(feeds.feeds) for _, feeds in series), default=0)
    for subject, feeds in series:
        subject.feeds = feeds.first(least)


def _names(sources: Sequence[Any]) -> list[str]:
    """File names without suffix, made different by the suffix, else the whole path, else a number."""
    files = [None if isinstance(s, Graph) else Path(s) for s in sources]
    choices: list[Callable[[Path], str]] = [lambda p: p.stem, lambda p: p.name, str]
    for spelled in choices:
        names = [
            f"graph{i}" if f is None and len(files) > 1 else "graph" if f is None else spelled(f)
            for i, f in enumerate(files, 1)
        ]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({i})" for i, name in enumerate(names, 1)]


def _open(
    name: str,
    source: Any,
    feeds: Given | FeedsFor,
    made: Made | None,
    shapes: Shapes,
    used: set[str],
    inputs: Sequence[str] | None,
    outputs: Sequence[str] | None,
    options: Mapping[str, Any],
) -> Subject:
    # A graph of LiteRT's or ONNX's ops runs from the file that it was read from.
    if isinstance(source, Graph) and is_file(source):
        source = path_of(source)
    if isinstance(source, Graph):
        # A copy: interface and sizes are set on it, and the caller's graph is not to change.
        own = _runnable(source.clone())
        return _graph_subject(name, "", own, None, feeds, shapes, used, inputs, outputs)
    path = Path(source)
    kind = _kind(path)
    size = _size_bytes(path)
    if kind != "graph":
        subject = _SUBJECTS[kind]
        signature = options.get("signature") if kind == "tflite" else None
        given = _feeds_of_file(feeds, path, signature)
        if made is None:
            made = sensible_inputs(path, shapes, signature) if given is None else {}
        if signature:
            # Its own names are known to its engine only, which refuses wrong ones.
            used.update(shapes)
            return SignatureSubject(name, os.fspath(source), size, given, shapes, made, signature=signature)
        if shapes:
            used.update(_port_names(path, subject.own_engine, "inputs"))
            used.update(named_sizes(path, signature))
            shapes = by_inputs(path, shapes, signature)
        for role, names in (("inputs", inputs), ("outputs", outputs)):
            if names is not None:
                _check_names(path, names, role, _port_names(path, subject.own_engine, role))
        return subject(name, os.fspath(source), size, given, shapes, made)
    graph = _runnable(open_model(path, outputs=outputs, **options_for(path, options)))
    return _graph_subject(name, os.fspath(source), graph, size, feeds, shapes, used, inputs, outputs)


def _runnable(graph: Graph) -> Graph:
    """A graph in TensorFlow's ops, where no engine runs it in those of its file."""
    if not graph.vocabulary:
        return graph
    # Rules of other vocabularies are many modules, which few measurements need.
    from thinflow.load.lifted import in_tensorflow

    return in_tensorflow(graph)


def _port_names(path: Path, engine: str, role: str) -> list[str]:
    """Names of a file's inputs or outputs. A child process asks: opening it may crash the engine."""

    def ask() -> list[str]:
        return [port.name.removesuffix(":0") for port in getattr(open_file(path, engine, 1), role)]

    forks = can_fork() and survives_fork(engine)
    return in_child(ask, engine, f"opening {path}") if forks else ask()


def _check_names(path: Path, names: Sequence[str], role: str, known: Sequence[str]) -> None:
    """Refuse names that a file does not have. It is measured with all of its inputs and outputs.

    Raises:
        FeedError: it has no such input or output.
    """
    wrong = next((n for n in names if n.removesuffix(":0") not in known), None)
    if wrong is not None:
        raise FeedError(
            f"the file has no {role[:-1]} '{wrong}'",
            str(path),
            hint=closest(wrong, known) or f"its {role} are {', '.join(known)}",
        )


def _check_options(sources: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Refuse an option that none of the models has a use for.

    Raises:
        ParameterError: there is one.
    """
    paths = [Path(s) for s in sources if not isinstance(s, Graph) and os.path.exists(s)]
    taken = {name for path in paths for name in options_for(path, options)}
    if any(engine_of(path) == TFLiteSubject.own_engine for path in paths):
        taken.add("signature")
    unused = [name for name, value in options.items() if value is not None and name not in taken]
    if unused and paths:
        kinds = {"tags": "a SavedModel", "signature": "a SavedModel or a .tflite file"}
        raise ParameterError(
            f"no model here takes {unused[0]}={options[unused[0]]}",
            hint=f"it goes with {kinds.get(unused[0], 'a graph without its variables')}",
        )


def _size_bytes(path: Path) -> int:
    """Bytes of a file, and of its weights if they are in another, or of all files in a folder."""
    if not path.is_dir():
        return path.stat().st_size + sum(file.stat().st_size for file in weights_beside(path))
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


_SUBJECTS: dict[str, type[FileSubject]] = {
    "tflite": TFLiteSubject,
    "onnx": OnnxSubject,
    "openvino": OpenVinoSubject,
}


def _kind(path: Path) -> str:
    """ "tflite", "onnx", "openvino" or "graph", by content where the content tells."""
    try:
        if not path.exists():
            map_file(path)  # which tells what there is instead
        # Asks now whether it may be read: later errors would come from an engine, in other words.
        path.open("rb").close()
    except IsADirectoryError:
        return "graph"  # the loader knows what to say about folders
    except OSError as error:
        raise FormatError(error.strerror or str(error), str(path), hint="check the path") from error
    own = engine_of(path)
    # An .onnx file that does not begin like one is still taken for one by its name: its engine says what is
    # wrong with it.
    if own in (TFLiteSubject.own_engine, OpenVinoSubject.own_engine):
        return "tflite" if own == TFLiteSubject.own_engine else own
    return "onnx" if path.suffix == ".onnx" or own == OnnxSubject.own_engine else "graph"


def _graph_subject(
    name: str,
    path: str,
    graph: Graph,
    size: int | None,
    feeds: Given | FeedsFor,
    shapes: Shapes,
    used: set[str],
    inputs: Sequence[str] | None,
    outputs: Sequence[str] | None,
) -> GraphSubject:
    declare_interface(graph, inputs, outputs)
    if callable(feeds):
        feeds = feeds(path or name, {v.name: declared_spec(v) for v in graph.inputs})
    known = [v.name.removesuffix(":0") for v in graph.inputs]
    own = {n: s for n, s in (_shapes_of(each_feed(feeds)[0], known) | dict(shapes)).items() if n in known}
    for value in graph.inputs:
        if (asked := own.get(value.name.removesuffix(":0"))) is not None:
            check_rank(value.name, declared_spec(value).shape, asked)
    used.update(known)
    given = {n.removesuffix(":0") for n in own}
    # Sizes that were fed or asked for are nobody's guess.
    unsure = {} if feeds is not None else open_sizes([v for v in graph.inputs if v.name not in given])
    # With the sizes that it will be fed, so that the engine gets a graph without open ones.
    infer_shapes(graph, _fixed(graph.inputs, own))
    return GraphSubject(name, path, graph, size, feeds, unsure)


def _feeds_of_file(feeds: Given | FeedsFor, path: Path, signature: str | None) -> Given:
    """A file's feeds: in its order where it was asked for, since engines call inputs otherwise."""
    if not callable(feeds):
        return feeds
    specs = input_specs(path, signature)
    found = feeds(os.fspath(path), specs)
    if signature or not isinstance(each_feed(found)[0], Mapping):
        return found
    return each_by_position(found, list(specs))


def _shapes_of(feeds: Feeds | None, inputs: Sequence[str]) -> dict[str, Sequence[int | None]]:
    """Input -> the sizes of what is fed; a single array is for a single input, whatever its name."""
    if feeds is not None and not isinstance(feeds, Mapping):
        return dict(zip(inputs, map(np.shape, feeds), strict=False))
    if feeds is not None and len(feeds) == len(inputs) == 1:
        return {next(iter(inputs)): np.shape(next(iter(feeds.values())))}
    return {name.removesuffix(":0"): np.shape(array) for name, array in (feeds or {}).items()}


def _fixed(inputs: Sequence[Value], shapes: Shapes) -> dict[Value, TensorSpec]:
    """Specs with every size known: a converter does best when it knows what it will be run with."""
    specs = override_shapes(inputs, shapes)
    fixed: dict[Value, TensorSpec] = {}
    for value, spec in specs.items():
        if spec.dtype is None:
            spec = TensorSpec(declared_spec(value).dtype, spec.shape)
        fixed[value] = spec
    for value, spec in fitting_specs(inputs, fixed).items():
        fixed[value] = spec if spec.shape is None else TensorSpec(spec.dtype, likely_shape(value, spec))
    return fixed
