"""Targets of measurements: graphs, .tflite and .onnx files, each made ready to run on an engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np

from thinflow import engines
from thinflow.bench.inputs import (
    Feeds,
    Given,
    Made,
    Shapes,
    as_declared,
    as_input,
    by_position,
    described,
    each_feed,
    made_up_arrays,
)
from thinflow.engines._files import FilePort, ModelFile, open_file, runs_files_of
from thinflow.engines._temporary_files import mapped, release_pages
from thinflow.engines.base import Compiled, Feed
from thinflow.engines.litert import Model
from thinflow.errors import EngineUnavailable, GraphError, ThinflowError
from thinflow.formats.packed_bytes import content_of
from thinflow.ir.graph import Graph
from thinflow.ir.types import TensorSpec
from thinflow.synthetic import (
    concrete_shape,
    explain_open_sizes,
    fitting_specs,
    naming_open_sizes,
    synthetic_array,
)
from thinflow.typing import Array

# Fixed, so that all engines, and the next run of a command, are fed the same numbers.
_SEED = 0
_COPIES = "includes copying inputs and outputs"


class Runner(Protocol):
    """A model ready to run.

    Attributes:
        note: what a reader of the numbers should know; may be empty.
        eight_bit: some of its tensors are quantized to eight bits, even if it computes in float.
        feeds_apart: `feed` does the copying. If not, `invoke` includes the copies.
        samples: how many there are to be fed in turns.
    """

    note: str
    eight_bit: bool
    feeds_apart: bool
    samples: int

    def feed(self, turn: int = 0) -> None:
        """Copy the inputs to where the engine reads them; before each `invoke`, which may overwrite them.

        Args:
            turn: number of the run, which says whose turn it is among the samples.
        """
        ...

    def invoke(self) -> object:
        """Compute the outputs once."""
        ...


class Subject(Protocol):
    """A model to measure, under a name; the path is empty for a Graph.

    Attributes:
        own_engine: what "auto" stands for.
        assumed: input -> sizes that were made up for it, since the model leaves them open.
        feeds: what it is to be fed.
        fed: the first arrays that it was made ready with, in the order of its inputs.
    """

    name: str
    path: str
    size_bytes: int | None
    feeds: Given
    fed: Sequence[Array]
    own_engine: ClassVar[str]

    @property
    def assumed(self) -> Mapping[str, tuple[int, ...]]: ...

    def prepare(self, engine: str, threads: int) -> Runner:
        """The model on an engine.

        Raises:
            EngineUnavailable: the engine is missing or does not run this kind of model.
        """
        ...


class LiteRTRunner:
    """A LiteRT model; feeding and invoking are separate."""

    feeds_apart = True

    def __init__(self, model: Model, samples: Sequence[Sequence[Array]], note: str = "") -> None:
        self.note, self.samples = note, len(samples)
        self._interpreter = model.interpreter
        places = [d["index"] for d in model.interpreter.get_input_details()]
        self._inputs = [list(zip(places, arrays, strict=True)) for arrays in samples]
        model.run(samples[0])  # brings the tensors to the size of the arrays
        # With a scale: uint8 alone may be pixels or indices.
        self.eight_bit = any(
            d["dtype"] in (np.int8, np.uint8) and d["quantization_parameters"]["scales"].size
            for d in model.interpreter.get_tensor_details()
        )
        # The bound function itself: a method around it would be timed with it.
        self.invoke = model.interpreter.invoke

    def feed(self, turn: int = 0) -> None:
        for index, array in self._inputs[turn % self.samples]:
            self._interpreter.set_tensor(index, array)


class CompiledRunner:
    """A graph that only runs as a whole: the timed part copies inputs and outputs too.

    Args:
        unsure: inputs whose sizes are made up; see `synthetic.open_sizes`.
    """

    feeds_apart = False
    eight_bit = False

    def __init__(
        self,
        compiled: Compiled,
        samples: Sequence[Sequence[Array]],
        note: str = "",
        unsure: Mapping[str, TensorSpec] | None = None,
    ) -> None:
        self._compiled, self._samples, self._arrays = compiled, samples, samples[0]
        self._unsure = unsure or {}
        self.note, self.samples = note, len(samples)

    def feed(self, turn: int = 0) -> None:
        """Nothing but to say which: `invoke` copies them."""
        self._arrays = self._samples[turn % self.samples]

    def invoke(self) -> object:
        try:
            return self._compiled.run(self._arrays)
        except ThinflowError as error:
            explained = explain_open_sizes(error, self._unsure)
            if explained is None:
                raise
            raise explained from error


@dataclass
class GraphSubject:
    """A graph with its inputs and outputs chosen and its shapes known."""

    name: str
    path: str
    graph: Graph
    size_bytes: int | None
    feeds: Given
    unsure: Mapping[str, TensorSpec] = field(default_factory=dict)
    """Inputs whose sizes are made up; see `synthetic.open_sizes`."""
    fed: Sequence[Array] = field(default=(), init=False)
    own_engine: ClassVar[str] = "litert"

    @property
    def assumed(self) -> dict[str, tuple[int, ...]]:
        """Input -> sizes that were made up for it."""
        # As `synthetic_array` settles them, when the arrays are made.
        fitting = fitting_specs(self.graph.inputs)
        sizes = {v.name: fitting[v] for v in self.graph.inputs if v in fitting}
        return {name: concrete_shape(sizes.get(name, spec)) for name, spec in self.unsure.items()}

    def prepare(self, engine: str, threads: int) -> Runner:
        with naming_open_sizes(self.unsure):
            return self._prepared(engine, threads)

    def _prepared(self, engine: str, threads: int) -> Runner:
        samples = self.samples()
        self.fed = samples[0]
        if not self.graph.outputs:
            raise GraphError(
                "the graph has no outputs to compute", self.name, hint="name them with outputs=[...]"
            )
        found = engines.find(engine)
        if engine == "litert" and (model := self._whole_in_litert(threads)) is not None:
            return LiteRTRunner(model, samples)
        compiled = found.compile(self.graph, self.graph.inputs, self.graph.outputs, threads=threads)
        return CompiledRunner(compiled, samples, _placement_note(compiled, engine), self.unsure)

    def samples(self) -> list[list[Array]]:
        """The arrays of each sample, one per input, in order."""
        return [self._arrays(feeds) for feeds in each_feed(self.feeds)]

    def arrays(self) -> list[Array]:
        """Those of the first sample."""
        return self._arrays(each_feed(self.feeds)[0])

    def _arrays(self, feeds: Feeds | None) -> list[Array]:
        rng = np.random.default_rng(_SEED)
        wanted = [v.name for v in self.graph.inputs]
        given = by_position(feeds, wanted)
        fitting = fitting_specs(self.graph.inputs) if given is None else {}
        return [
            synthetic_array(v, rng, fitting.get(v)) if given is None else as_declared(given[i], v)
            for i, v in enumerate(self.graph.inputs)
        ]

    def _whole_in_litert(self, threads: int) -> Model | None:
        """The graph as one LiteRT model, which tells feeding from invoking; None if nodes are left over."""
        from thinflow.interpreter import Plan
        from thinflow.lower.tflite.convert import lower_graph, unsupported
        from thinflow.tflite.runtime import multiplies_matrices
        from thinflow.tflite.writer import write_program

        graph = self.graph
        nodes = [n for n in Plan(graph, graph.outputs, graph.inputs).nodes if n.tensor is None]
        if not nodes or unsupported(graph, nodes, specs={}):
            return None
        unit = multiplies_matrices()
        lowered = lower_graph(graph, graph.inputs, graph.outputs, specs={}, matrix_unit=unit)
        # An input that nothing reads is gone, and arrays would go to the wrong places.
        if len(lowered.inputs) != len(graph.inputs):
            return None
        write = partial(write_program, lowered.program)
        del lowered
        with mapped(write, ".tflite") as content:
            del write  # the weights are in the file now
            release_pages(graph)
            return Model(content, threads=threads)


@dataclass
class FileSubject:
    """A file of a runtime, run by that runtime as it is, or by the interpreter."""

    name: str
    path: str
    size_bytes: int | None
    feeds: Given
    shapes: Shapes
    made: Made = field(default_factory=dict)
    """For inputs that not any numbers will do for; see `sensible_inputs`."""
    assumed: dict[str, tuple[int, ...]] = field(default_factory=dict, init=False)
    fed: Sequence[Array] = field(default=(), init=False)
    own_engine: ClassVar[str]
    suffix: ClassVar[str]

    def prepare(self, engine: str, threads: int) -> Runner:
        if engine == "reference":
            return _in_reference(self, threads)
        if engine != self.own_engine and runs_files_of(engine) == self.own_engine:
            return self._run_by_ports(open_file(self.path, engine, threads))
        _require_own(engine, self.own_engine, self.suffix)
        return self._opened(threads)

    def _opened(self, threads: int) -> Runner:
        """In its own engine."""
        raise NotImplementedError

    def _run_by_ports(self, file: ModelFile, note: str = _COPIES) -> CompiledRunner:
        """A file that an engine has opened as a runner, with one array for each of its inputs."""
        return CompiledRunner(file.compile(file.inputs, file.outputs), self.samples(file.inputs), note)

    def samples(self, ports: Sequence[FilePort]) -> list[list[Array]]:
        """The arrays of each sample, one per input, in order."""
        samples = _samples(ports, self)
        self.fed = samples[0]
        if self.feeds is None:
            self.assumed = _assumed({p.name: p.spec.shape or () for p in ports}, self.shapes, samples[0])
        return samples


@dataclass
class TFLiteSubject(FileSubject):
    """A .tflite file, run by LiteRT as it is."""

    own_engine: ClassVar[str] = "litert"
    suffix: ClassVar[str] = ".tflite"

    def _opened(self, threads: int) -> Runner:
        # Allocated with the file's own sizes; the first run brings them to those of the arrays.
        model = Model(content_of(self.path), threads=threads)
        details = model.interpreter.get_input_details()
        samples = self.samples_for(details)
        self.fed = samples[0]
        if self.feeds is None:
            open_sizes = {d["name"]: [None if n < 0 else n for n in d["shape_signature"]] for d in details}
            self.assumed = _assumed(open_sizes, self.shapes, samples[0])
        return LiteRTRunner(model, samples)

    def samples_for(self, details: Sequence[Mapping[str, Any]]) -> list[list[Array]]:
        """The arrays of each sample, for inputs as LiteRT describes them."""
        names = [d["name"] for d in details]
        found = [by_position(feeds, names) for feeds in each_feed(self.feeds)]
        return [
            made_up_arrays(details, self.shapes, self.made)
            if given is None
            else [as_input(x, detail) for x, detail in zip(given, details, strict=True)]
            for given in found
        ]


@dataclass
class OnnxSubject(FileSubject):
    """An .onnx file, run by ONNX Runtime as it is."""

    own_engine: ClassVar[str] = "onnxruntime"
    suffix: ClassVar[str] = ".onnx"

    def _opened(self, threads: int) -> Runner:
        return self._run_by_ports(open_file(self.path, self.own_engine, threads))


@dataclass
class OpenVinoSubject(FileSubject):
    """An .xml file, run by OpenVINO as it is."""

    own_engine: ClassVar[str] = "openvino"
    suffix: ClassVar[str] = ".xml"

    def _opened(self, threads: int) -> Runner:
        return self._run_by_ports(open_file(self.path, self.own_engine, threads))


@dataclass
class SignatureSubject(FileSubject):
    """One signature of a .tflite file, run by LiteRT."""

    signature: str = ""
    own_engine: ClassVar[str] = "litert"
    suffix: ClassVar[str] = ".tflite"

    def prepare(self, engine: str, threads: int) -> Runner:
        # The interpreter would run the file's main graph, whatever the signature.
        _require_own(engine, self.own_engine, self.suffix)
        return self._opened(threads)

    def _opened(self, threads: int) -> Runner:
        file = open_file(self.path, self.own_engine, threads, self.signature)
        return self._run_by_ports(file, f"{_COPIES}; {self.signature}")


def _assumed(
    known: Mapping[str, Sequence[int | None]], asked: Shapes, arrays: Sequence[Array]
) -> dict[str, tuple[int, ...]]:
    """Input -> what it was fed, for those that leave more than the batch open and were given no sizes."""
    return {
        name: array.shape
        for (name, sizes), array in zip(known.items(), arrays, strict=True)
        # An open batch is the usual case, and 1 needs no word.
        if None in sizes[1:] and name.removesuffix(":0") not in asked
    }


def _samples(ports: Sequence[FilePort], subject: Subject) -> list[list[Array]]:
    """The arrays of each sample for the inputs of a file, in their order."""
    shapes, made = getattr(subject, "shapes", {}), getattr(subject, "made", {})
    return [_arrays(ports, feeds, shapes, made) for feeds in each_feed(subject.feeds)]


def _arrays(ports: Sequence[FilePort], feeds: Feeds | None, shapes: Shapes, made: Made) -> list[Array]:
    given = by_position(feeds, [p.name for p in ports])
    if given is not None:
        checks = [Feed(p.name, p.spec) for p in ports]
        return [check.array(np.asarray(x)) for check, x in zip(checks, given, strict=True)]
    return made_up_arrays([described(port) for port in ports], shapes, made)


def lifted(subject: Subject) -> tuple[Graph, list[list[Array]]]:
    """The model of a file in TensorFlow's ops, and the arrays of each sample that it is fed.

    Raises:
        ThinflowError: it has an op that cannot be said so.
    """
    from thinflow.engines.session import Session

    graph = Session(subject.path, "reference").graph
    assert graph is not None, "the interpreter runs graphs"
    ports = [FilePort(v.name, v.spec) for v in graph.inputs]
    return graph, _samples(ports, subject)


def _in_reference(subject: Subject, threads: int) -> Runner:
    """A file's model, run by the interpreter."""
    graph, samples = lifted(subject)
    subject.fed = samples[0]
    compiled = engines.find("reference").compile(graph, graph.inputs, graph.outputs, threads=threads)
    return CompiledRunner(compiled, samples, _COPIES)


def _require_own(engine: str, own: str, suffix: str) -> None:
    if engine != own:
        article = "an" if suffix == ".onnx" else "a"
        raise EngineUnavailable(
            f"{article} {suffix} file runs on the engine '{own}' only",
            hint="convert it for other engines, and give both files: thinflow convert",
        )
    engines.find(engine)


def heeds_threads(engine: str) -> bool:
    """True if an engine keeps to a number of threads; if not, it is measured once."""
    from thinflow.engines._threads import blas

    return engine != "reference" or blas().is_controllable


def _placement_note(compiled: Compiled, engine: str) -> str:
    # Numbers of a graph that ran in parts are not those of the engine: the reader has to know.
    left = [name for name, where in compiled.placement.items() if where != engine]
    if not left:
        return _COPIES
    count = f"{len(left)} of {len(compiled.placement)}"
    return f"includes copying; {count} nodes ran in the interpreter, {_main_reason(compiled, left)}"


def _main_reason(compiled: Compiled, left: Sequence[str]) -> str:
    """The reason for which most of the nodes were left, and the first of them; reasons that differ in names
    and numbers count as one."""
    kinds: dict[str, list[str]] = {}
    for name in left:
        if why := compiled.reasons.get(name, ""):
            kinds.setdefault(re.sub(r"'[^']*'|\d+", "", why), []).append(name)
    first = max(kinds.values(), key=len)[0] if kinds else left[0]
    reason = f" ({compiled.reasons[first]})" if kinds else ""
    return f"such as '{first}'{reason}"
