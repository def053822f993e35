"""What can be measured: graphs and .tflite files, each made ready to run on an engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from thinflow import engines
from thinflow.analysis.interface import guess_interface
from thinflow.analysis.shapes import infer_shapes
from thinflow.engines._mapped import mapped, release_pages
from thinflow.engines.base import Compiled
from thinflow.engines.litert import Model
from thinflow.errors import EngineUnavailable, FeedError, FormatError, GraphError
from thinflow.formats import load as load_file
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import TensorSpec
from thinflow.synthetic import concrete_shape, declared_spec, override_shapes, synthetic_array

Array = np.ndarray[Any, Any]
Shapes = Mapping[str, Sequence[int | None]]
Feeds = Mapping[str, Any]

ANY_THREADS = frozenset({"reference"})
"""Engines that do not heed a number of threads; they are measured once."""
_SEED = 0


class Runner(Protocol):
    """A model ready to run.

    Attributes:
        note: what a reader of the numbers should know; may be empty.
        eight_bit: some of its tensors are int8.
        feeds_apart: `feed` does the copying. If not, `invoke` includes the copies.
    """

    note: str
    eight_bit: bool
    feeds_apart: bool

    def feed(self) -> None:
        """Copy the inputs to where the engine reads them; before each `invoke`, which may overwrite them."""
        ...

    def invoke(self) -> object:
        """Compute the outputs once."""
        ...


class Subject(Protocol):
    """A model to measure, under a name; the path is empty for a Graph."""

    name: str
    path: str
    size_bytes: int | None

    def prepare(self, engine: str, threads: int) -> Runner:
        """The model on an engine.

        Raises:
            EngineUnavailable: the engine is missing or does not run this kind of model.
        """
        ...


class LiteRTRunner:
    """A LiteRT model; feeding and invoking are separate."""

    feeds_apart = True

    def __init__(self, model: Model, arrays: Sequence[Array], note: str = "") -> None:
        self.note = note
        self._interpreter = model.interpreter
        self._inputs = [
            (d["index"], a) for d, a in zip(model.interpreter.get_input_details(), arrays, strict=True)
        ]
        model.run(arrays)  # brings the tensors to the size of the arrays
        self.eight_bit = any(d["dtype"] is np.int8 for d in model.interpreter.get_tensor_details())
        self.invoke = model.interpreter.invoke

    def feed(self) -> None:
        for index, array in self._inputs:
            self._interpreter.set_tensor(index, array)


class CompiledRunner:
    """A graph that only runs as a whole: the timed part copies inputs and outputs too."""

    feeds_apart = False
    eight_bit = False

    def __init__(self, compiled: Compiled, arrays: Sequence[Array], note: str = "") -> None:
        self._compiled, self._arrays = compiled, arrays
        self.note = note

    def feed(self) -> None:
        """Nothing: `invoke` does it."""

    def invoke(self) -> object:
        return self._compiled.run(self._arrays)


@dataclass
class GraphSubject:
    """A graph with its inputs and outputs chosen and its shapes known."""

    name: str
    path: str
    graph: Graph
    size_bytes: int | None
    feeds: Feeds | None

    def prepare(self, engine: str, threads: int) -> Runner:
        arrays = self.arrays()
        if not self.graph.outputs:
            raise GraphError(
                "the graph has no outputs to compute", self.name, hint="name them with outputs=[...]"
            )
        found = engines.find(engine)
        if engine == "litert" and (model := self._whole_in_litert(threads)) is not None:
            return LiteRTRunner(model, arrays)
        compiled = found.compile(self.graph, self.graph.inputs, self.graph.outputs, threads=threads)
        return CompiledRunner(compiled, arrays, _placement_note(compiled, engine))

    def arrays(self) -> list[Array]:
        """One array per input, in order."""
        rng = np.random.default_rng(_SEED)
        wanted = [v.name for v in self.graph.inputs]
        given = _by_position(self.feeds, wanted)
        return [
            synthetic_array(v, rng) if given is None else _as_declared(given[i], v)
            for i, v in enumerate(self.graph.inputs)
        ]

    def _whole_in_litert(self, threads: int) -> Model | None:
        """The graph as one LiteRT model, which tells feeding from invoking; None if nodes are left over."""
        from thinflow.interpreter import Plan
        from thinflow.lower.tflite.convert import lower_graph, unsupported
        from thinflow.lower.tflite.program import write_program

        graph = self.graph
        nodes = [n for n in Plan(graph, graph.outputs, graph.inputs).nodes if n.tensor is None]
        if not nodes or unsupported(graph, nodes):
            return None
        lowered = lower_graph(graph, graph.inputs, graph.outputs)
        if len(lowered.inputs) != len(graph.inputs):
            return None
        write = partial(write_program, lowered.program)
        del lowered
        with mapped(write, ".tflite") as content:
            del write  # the weights are in the file now
            release_pages(graph)
            return Model(content, threads=threads)


@dataclass
class TFLiteSubject:
    """A .tflite file, run by LiteRT as it is."""

    name: str
    path: str
    size_bytes: int | None
    feeds: Feeds | None
    shapes: Shapes

    def prepare(self, engine: str, threads: int) -> Runner:
        if engine != "litert":
            raise EngineUnavailable(
                "a .tflite file runs on the engine 'litert' only", hint="give the .pb for other engines"
            )
        engines.find(engine)
        model = Model(self.path, threads=threads)
        details = model.interpreter.get_input_details()
        given = _by_position(self.feeds, model.input_names)
        rng = np.random.default_rng(_SEED)
        arrays = [
            _as_input(given[i], detail) if given is not None else _made_up(detail, self.shapes, rng)
            for i, detail in enumerate(details)
        ]
        return LiteRTRunner(model, arrays)


def open_subjects(
    sources: Mapping[str, Any] | Sequence[Any] | Any,
    *,
    feeds: Feeds | None = None,
    shapes: Shapes | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
) -> list[Subject]:
    """Subjects from paths and Graphs, each with a name of its own.

    Args:
        sources: one path or Graph, several, or name -> path or Graph.
        feeds: input name -> array, for all of them; made up if None.
        shapes: input name -> shape, for those that have such an input.
        inputs, outputs: names of the graphs' inputs and outputs; default: declared, else guessed.

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
    used: set[str] = set()
    subjects = [_open(name, source, feeds, wanted, used, inputs, outputs) for name, source in named]
    if unused := set(wanted) - used:
        raise FeedError(
            f"no model has an input '{min(unused)}'", hint="thinflow inspect MODEL lists a model's inputs"
        )
    return subjects


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
    feeds: Feeds | None,
    shapes: Shapes,
    used: set[str],
    inputs: Sequence[str] | None,
    outputs: Sequence[str] | None,
) -> Subject:
    if isinstance(source, Graph):
        return _graph_subject(name, "", source.clone(), None, feeds, shapes, used, inputs, outputs)
    path = Path(source)
    kind = _kind(path)
    size = path.stat().st_size
    if kind == "tflite":
        details = Model(str(path)).interpreter.get_input_details()
        used.update({d["name"].removesuffix(":0") for d in details} & set(shapes))
        return TFLiteSubject(name, os.fspath(source), size, feeds, shapes)
    if kind == "onnx":
        raise EngineUnavailable(
            f"{path}: .onnx files cannot be measured yet", hint="give the .pb or .tflite of the model"
        )
    return _graph_subject(
        name, os.fspath(source), load_file(path), size, feeds, shapes, used, inputs, outputs
    )


def _kind(path: Path) -> str:
    """ "tflite", "onnx" or "graph", by content where the content tells."""
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except IsADirectoryError:
        return "graph"  # the loader knows what to say about folders
    except OSError as error:
        raise FormatError(error.strerror or str(error), str(path), hint="check the path") from error
    if head[4:8] == b"TFL3":
        return "tflite"
    return "onnx" if path.suffix == ".onnx" else "graph"


def _graph_subject(
    name: str,
    path: str,
    graph: Graph,
    size: int | None,
    feeds: Feeds | None,
    shapes: Shapes,
    used: set[str],
    inputs: Sequence[str] | None,
    outputs: Sequence[str] | None,
) -> GraphSubject:
    infer_shapes(graph)
    if inputs is not None:
        graph.inputs = [graph.value(n) for n in inputs]
    if outputs is not None:
        graph.outputs = [graph.value(n) for n in outputs]
    if not graph.inputs or not graph.outputs:
        guess = guess_interface(graph)
        graph.inputs = graph.inputs or guess.chosen_inputs
        graph.outputs = graph.outputs or guess.chosen_outputs
    own = {n: s for n, s in shapes.items() if n in {v.name.removesuffix(":0") for v in graph.inputs}}
    used.update(own)
    infer_shapes(graph, _fixed(graph.inputs, own))
    return GraphSubject(name, path, graph, size, feeds)


def _fixed(inputs: Sequence[Value], shapes: Shapes) -> dict[Value, TensorSpec]:
    """Specs with every size known: a converter does best when it knows what it will be run with."""
    specs = override_shapes(inputs, shapes)
    fixed: dict[Value, TensorSpec] = {}
    for value, spec in specs.items():
        if spec.dtype is None:
            spec = TensorSpec(declared_spec(value).dtype, spec.shape)
        fixed[value] = spec if spec.shape is None else TensorSpec(spec.dtype, concrete_shape(spec))
    return fixed


def _by_position(feeds: Feeds | None, wanted: Sequence[str]) -> list[Array] | None:
    """Feeds in the order of a model's inputs; a single one goes to a single input whatever their names."""
    if feeds is None:
        return None
    named = {str(k).removesuffix(":0"): v for k, v in feeds.items()}
    if len(named) == len(wanted) == 1:
        return list(named.values())
    missing = [n for n in wanted if n.removesuffix(":0") not in named]
    if missing:
        raise FeedError(f"nothing is fed to '{missing[0]}'", hint=f"the inputs are {', '.join(wanted)}")
    return [named[n.removesuffix(":0")] for n in wanted]


def _as_declared(array: Any, value: Value) -> Array:
    found = np.asarray(array)
    element = declared_spec(value).dtype
    if element is None or not element.numpy_name:
        return found
    return np.ascontiguousarray(found, element.numpy())


def _as_input(array: Any, detail: Mapping[str, Any]) -> Array:
    """The array in the type of a .tflite input, quantized as the model says if that is eight-bit."""
    found = np.asarray(array)
    wanted = np.dtype(detail["dtype"])
    scale, zero_point = detail["quantization"]
    if found.dtype.kind == "f" and wanted.kind in "iu" and scale:
        limits = np.iinfo(wanted)
        found = np.clip(np.round(found / scale) + zero_point, limits.min, limits.max)
    return np.ascontiguousarray(found, wanted)


def _made_up(detail: Mapping[str, Any], shapes: Shapes, rng: np.random.Generator) -> Array:
    asked = shapes.get(detail["name"].removesuffix(":0"))
    shape = (
        tuple(1 if n is None else n for n in asked) if asked is not None else tuple(map(int, detail["shape"]))
    )
    wanted = np.dtype(detail["dtype"])
    if wanted.kind == "f":
        return rng.uniform(-1, 1, shape).astype(wanted)
    if wanted.kind == "b":
        return rng.random(shape) < 0.5
    if wanted.kind not in "iu":
        raise FeedError(
            f"no input can be made up for '{detail['name']}' of type {wanted}", hint="pass feeds of your own"
        )
    top = 256 if wanted.itemsize == 1 else 4
    return (rng.integers(0, top, shape) - (128 if wanted == np.int8 else 0)).astype(wanted)


def _placement_note(compiled: Compiled, engine: str) -> str:
    left = [name for name, where in compiled.placement.items() if where != engine]
    if not left:
        return "includes copying inputs and outputs"
    total = len(compiled.placement)
    return f"includes copying; {len(left)} of {total} nodes ran in the interpreter, first '{left[0]}'"
