"""Plain C, compiled by this machine's compiler: what microcontrollers run, run here.

Compiled networks are kept in the user's cache, so that each is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from thinflow.engines._c_library import Library, compiler
from thinflow.engines._c_processor import processors_here
from thinflow.engines._files import FilePort, ModelFile
from thinflow.errors import EngineUnavailable, UnsupportedOp
from thinflow.ir.types import TensorSpec

if TYPE_CHECKING:
    from thinflow.engines.base import Compiled
    from thinflow.engines.partition import Region
    from thinflow.ir.graph import Graph, Node, Value
    from thinflow.tflite.model import Program, Tensor

FILES_OF = "litert"
"""The engine whose files this one runs as they are, too."""


class C:
    """Regions as C, the rest in the interpreter."""

    name = "c"

    def available(self) -> str | None:
        if compiler() is None:
            return "there is no C compiler (install gcc or clang, or name one in the environment: CC=...)"
        return None

    def compile(
        self, graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], *, threads: int = 1
    ) -> Compiled:
        from thinflow.engines._regions import Backend, compile_regions

        return compile_regions(Backend("c", _unsupported, _lowered), graph, inputs, outputs, threads)


def open_file(path: str, threads: int) -> ModelFile:
    """A .tflite file as C; what its batch leaves open is 1.

    Raises:
        EngineUnavailable: C has no form of it.
    """
    from thinflow.formats.packed_bytes import bytes_of
    from thinflow.tflite.reader import read_program

    program = read_program(bytes_of(path))
    # Sizes that are open inside of the file cannot be given here: `convert --shape` can.
    try:
        library = _library(program)
    except UnsupportedOp as error:
        raise EngineUnavailable(error.problem, path, hint=error.hint) from error
    block = library.network.block
    return ModelFile(path, "c", library, [*map(_port, block.inputs)], [*map(_port, block.outputs)])


def _port(tensor: Tensor) -> FilePort:
    # Scales per channel belong to weights, which are no ports.
    q = tensor.quantization
    grid = (float(q.scale[0]), int(q.zero_point[0])) if q is not None and len(q.scale) == 1 else None
    return FilePort(tensor.name, TensorSpec(tensor.dtype, tensor.shape), grid)


def _library(program: Program) -> Library:
    from thinflow.lower.c.convert import network
    from thinflow.lower.c.options import Options
    from thinflow.lower.c.write import Writer

    made = network(program, Options(cpu=processors_here()[0]))
    return Library(made, Writer(made, "network").files(), "network")


def _unsupported(graph: Graph, nodes: Iterable[Node]) -> dict[Node, str]:
    """Nodes that LiteRT's ops do not express, and those whose operators C has no form of."""
    from thinflow.lower.c.convert import refused_nodes
    from thinflow.lower.tflite.convert import unsupported

    # What LiteRT does not have needs no second look.
    nodes = list(nodes)
    found = unsupported(graph, nodes, specs={})
    return found | refused_nodes(graph, [n for n in nodes if n not in found])


def _lowered(graph: Graph, region: Region, threads: int) -> Library:
    from thinflow.lower.tflite.convert import lower_graph

    try:
        return _library(lower_graph(graph, region.inputs, region.outputs, specs={}).program)
    except UnsupportedOp as error:
        raise EngineUnavailable(error.problem, hint=error.hint) from error


ENGINE = C()
