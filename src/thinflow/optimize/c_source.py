"""The way of a model into C: of a .tflite file operator by operator, of others by TensorFlow's ops.

What was read from another quantized file, such as an .onnx, becomes a .tflite of the same scales on the way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from thinflow.analysis.shapes import infer_shapes
from thinflow.analysis.training_mode import switch_notes
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.formats.packed_bytes import bytes_of
from thinflow.formats.tflite import is_of_first_graph
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.vocabulary import LITERT
from thinflow.lift.nodes import compiled_for
from thinflow.load.fitting_sizes import sizes_to_try
from thinflow.load.frozen import (
    AUTO,
    FREEZE,
    INPUTS,
    kept_else_frozen,
    opening_notes,
    require_frozen,
    source_notes,
)
from thinflow.load.graphs import Source, load, require_outputs
from thinflow.load.lifted import default_signature, give_sizes
from thinflow.load.sources import open_model
from thinflow.lower.c.convert import Network, network
from thinflow.lower.c.options import Options
from thinflow.lower.c.settle import OpenSizes
from thinflow.lower.c.sound import know_rate
from thinflow.lower.c.target import program_of
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.kept_grids import KeptConverter, bits_of
from thinflow.optimize.litert import LiteRTMaker
from thinflow.optimize.sound_input import loaded_for_device, rate_notes
from thinflow.tflite.model import Program
from thinflow.tflite.reader import read_program
from thinflow.typing import Shapes

_PARTS = ("inputs", "outputs", "signature")
"""Names of a part of a file that is not the file itself."""

T = TypeVar("T")


@dataclass(frozen=True)
class CSource:
    """A model as what becomes C.

    Attributes:
        graph: of LiteRT's operators if it is a .tflite file itself, else of TensorFlow's.
        sample_rate: hertz, where the model takes it as an input.
        notes: what to tell of how it was opened.
        path: of its file; "" for none.
        content: of a .tflite file with the scales of another quantized one.
    """

    graph: Graph
    sample_rate: int | None
    notes: tuple[str, ...]
    path: str
    content: bytes = b""

    @property
    def is_file_itself(self) -> bool:
        return self.graph.vocabulary == LITERT.name

    def program(self) -> Program:
        """The program, anew: what becomes C is changed on the way."""
        if not self.content:
            return program_of(self.graph, self.sample_rate)
        program = read_program(self.content)
        know_rate(program, self.sample_rate)
        return program


def c_source(
    source: Source,
    shapes: Shapes | None,
    names: dict[str, Any],
    sample_rate: int | None,
    make: Callable[[CSource], T],
    *,
    verify: bool = False,
) -> tuple[CSource, T]:
    """The model by the way that C takes it, and what is made of it.

    A .tflite file of floats goes by TensorFlow's ops if C has no form of what it holds: constants are folded
    there.

    Args:
        source: path or Graph.
        shapes, names: how to open it, as for `load`.
        sample_rate: hertz, where the model takes it as an input.
        make: makes it.
        verify: whether a .tflite that is made on the way is run beside the model.

    Raises:
        PartialModel: LiteRT can hold only a part of a quantized file.
        UnsupportedOp: C has no form of some operators, either way; or sizes are open, and the hint has some
            that would do.
    """
    try:
        return _source(source, shapes, names, sample_rate, make, verify)
    except OpenSizes as error:
        flags = (
            f"--shape {name}={','.join(map(str, sizes))}"
            for name, sizes in _fitting(source, shapes, names, sample_rate).items()
        )
        if text := " ".join(flags):
            hint = f"give them, for example: {text}"
            raise UnsupportedOp(error.problem, error.where, hint) from error
        raise


def _fitting(source: Source, shapes: Shapes | None, names: dict[str, Any], sample_rate: int | None) -> Shapes:
    """The first sizes for what is open with which there is a network in C; nothing if there are none."""
    given = dict(shapes or {})

    def make(way: CSource) -> Network:
        return network(way.program(), Options())

    for tried in sizes_to_try(_with_open_sizes(source, given, names)):
        try:
            _, made = _source(source, given | tried, names, sample_rate, make, False)
        except ThinflowError:
            continue
        # Windows that reach over all of it leave nothing to answer.
        if all(t.size_bytes for t in made.outputs):
            return tried
    return {}


def _with_open_sizes(source: Source, shapes: Shapes, names: dict[str, Any]) -> Graph:
    """A graph whose inputs tell what is open; of a file as a whole its own, in which sizes have names."""
    graph = source if isinstance(source, Graph) else open_model(source)
    if not graph.vocabulary or any(names.get(part) for part in _PARTS):
        return load(source, shapes=shapes, **names)
    graph = graph.clone()
    infer_shapes(graph)
    give_sizes(graph, shapes)
    return graph


def _source(
    source: Source,
    shapes: Shapes | None,
    names: dict[str, Any],
    sample_rate: int | None,
    make: Callable[[CSource], T],
    verify: bool,
) -> tuple[CSource, T]:
    graph = source if isinstance(source, Graph) else open_model(source)
    path = str(graph.path or "")
    is_whole = graph.vocabulary == LITERT.name and not shapes and not any(names.get(part) for part in _PARTS)
    # The operators of the file keep their state themselves.
    is_whole = is_whole and names.get("state") not in (FREEZE, INPUTS)
    # What is in a processor's own form is told of on the other way.
    is_whole = is_whole and not any(map(compiled_for, graph))
    if is_whole and _begins_with_default(graph):
        program = program_of(graph, sample_rate)
        notes = rate_notes(graph, program, sample_rate)
        way = CSource(graph, sample_rate, tuple(notes), path)
        try:
            return way, make(way)
        except UnsupportedOp:
            # With its integers said as floats it would be another model, and not exact.
            if any(t.quantization is not None for t in program.subgraphs[0].outputs):
                raise

    def opened(state: str) -> tuple[Graph, list[str]]:
        loaded, settings, told = loaded_for_device(source, shapes, names | {"state": state}, sample_rate)
        return loaded, [*told, *switch_notes(settings)]

    def made(loaded: Graph, told: list[str]) -> tuple[CSource, T]:
        return _by_graph(loaded, shapes, told, path, sample_rate, make, verify)

    return kept_else_frozen(source, names.get("state", AUTO), opened, made, UnsupportedOp)[-1]


def _by_graph(
    loaded: Graph,
    shapes: Shapes | None,
    told: list[str],
    path: str,
    sample_rate: int | None,
    make: Callable[[CSource], T],
    verify: bool,
) -> tuple[CSource, T]:
    """The way of a graph of TensorFlow's ops.

    Args:
        told: of how it was opened.
        path: of its file.
    """
    # What was given holds for whoever infers shapes anew.
    if shapes:
        _declare(loaded)
    require_outputs(loaded)
    told = [*told, *source_notes(loaded), *opening_notes(loaded)]
    if bits_of(loaded, LiteRTMaker()) is not None:
        content, notes = _kept(loaded, verify)
        way = CSource(loaded, sample_rate, (*told, *notes), path, content)
        return way, make(way)
    # What only training needs goes first, as on the way to every runtime.
    ready = float_graph(loaded, verify=False, runtime="litert").graph
    require_frozen(ready)
    way = CSource(ready, sample_rate, tuple(told), path)
    return way, make(way)


def _begins_with_default(graph: Graph) -> bool:
    """True if the graph that runs when no signature is named is the first of its .tflite file.

    Raises:
        GraphError: the file has several signatures, and none is the default.
    """
    key = default_signature(graph)
    return key is None or is_of_first_graph(bytes_of(graph.path), key)


def _declare(graph: Graph) -> None:
    """Let inputs say the shapes that were given: whoever infers them anew goes by what they say."""
    for value in graph.inputs:
        if value.node.op.startswith("Placeholder") and value.spec.shape is not None:
            value.node.attrs["shape"] = ShapeAttr(value.spec.shape)


def _kept(graph: Graph, verify: bool) -> tuple[bytes, list[str]]:
    """A .tflite file of a graph with the scales that it was read with, and what to tell of it."""
    with tempfile.TemporaryDirectory(prefix="thinflow-c-") as folder:
        path = Path(folder, "model.tflite")
        made = KeptConverter(LiteRTMaker(), graph, str(path), strict=True, verify=verify).convert()
        return path.read_bytes(), [f"in its own scales: {made.proof}" if verify else "in its own scales"]
