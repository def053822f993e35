"""Plain C, compiled by this machine's compiler: what microcontrollers run, run here.

Compiled networks are kept in the user's cache, so that each is compiled once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from thinflow.engines._c_library import Library, compiler
from thinflow.engines._c_processor import processors_here
from thinflow.engines._files import FilePort, ModelFile
from thinflow.errors import EngineUnavailable, FeedError, UnsupportedOp
from thinflow.ir.types import TensorSpec
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Trace

if TYPE_CHECKING:
    from thinflow.engines.base import Compiled
    from thinflow.engines.partition import Region
    from thinflow.ir.graph import Graph, Node, Value
    from thinflow.tflite.model import Program, Tensor
    from thinflow.typing import Array

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

        graph, inputs, outputs = _without_idle_dropout(graph, inputs, outputs)
        return compile_regions(Backend("c", _unsupported, _lowered), graph, inputs, outputs, threads)


def _without_idle_dropout(
    graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value]
) -> tuple[Graph, Sequence[Value], Sequence[Value]]:
    """A copy without dropout that keeps everything, and the same inputs and outputs of it.

    C has no random numbers without seeds. For their sake alone the interpreter would run in the midst of each
    run, which takes many times as long as a small network.
    """
    from thinflow.transforms.training import RemoveDropout

    are_random = any(has(node.op, Trait.RANDOM_UNIFORM) for node in graph)
    # Values on the way that are fed might be those of the dropout.
    if not are_random or any(v.node.inputs for v in inputs):
        return graph, inputs, outputs
    copy = graph.clone()
    # What is asked for by name stays.
    copy.inputs, copy.outputs = ([copy.value(v.name) for v in some] for some in (inputs, outputs))
    trace = Trace()
    RemoveDropout().run(copy, trace)
    if not trace.changes:
        return graph, inputs, outputs
    return copy, copy.inputs, copy.outputs


def open_file(path: str, threads: int) -> ModelFile:
    """A .tflite file as C; what its batch leaves open is 1.

    Raises:
        EngineUnavailable: C has no form of it.
    """
    from thinflow.formats.packed_bytes import bytes_of
    from thinflow.tflite.reader import read_program

    content = bytes_of(path)
    # As the file has them: a rate of sound among them is no input of the C.
    given = read_program(content).subgraphs[0].inputs
    # Sizes that are open inside of the file cannot be given here: `convert --shape` can.
    try:
        model = _AtRates(content)
    except UnsupportedOp as error:
        raise EngineUnavailable(error.problem, path, hint=error.hint) from error
    made = model.library.network
    fed = iter(made.block.inputs)
    inputs = [t if number in model.rates else next(fed) for number, t in enumerate(given)]
    outputs = [_port(t, is_counted=t in made.counts) for t in made.outputs]
    return ModelFile(path, "c", model, [*map(_port, inputs)], outputs)


class _AtRates:
    """A .tflite file's network, made anew when sound of another rate comes in: filters are made for one.

    Attributes:
        rates: which inputs tell the rate.
        library: for the rate that came last.
    """

    def __init__(self, content: bytes | memoryview) -> None:
        from thinflow.lower.c.sound import SAMPLE_RATE, rate_inputs
        from thinflow.tflite.reader import read_program

        self._content = content
        block = read_program(content).subgraphs[0]
        self.rates = [block.inputs.index(t) for t in rate_inputs(block)]
        self._rate = SAMPLE_RATE
        self.library = self._made()

    def _made(self) -> Library:
        from thinflow.lower.c.sound import know_rate
        from thinflow.tflite.reader import read_program

        program = read_program(self._content)
        know_rate(program, self._rate)
        return _library(program)

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """All outputs, in the order of the file."""
        rates = [int(inputs[number].reshape(-1)[0]) for number in self.rates]
        if any(rate != rates[0] for rate in rates):
            raise FeedError(
                f"sound of several rates at once, {rates}: the C has filters for one",
                hint="resample all of it to one rate and feed that, or run the model with --engine litert",
            )
        if rates and rates[0] != self._rate:
            self._rate = rates[0]
            self.library = self._made()
        return self.library.run([x for number, x in enumerate(inputs) if number not in self.rates])

    @property
    def keeps_state(self) -> bool:
        """True if a run leaves something for the next."""
        return self.library.keeps_state

    def restart(self) -> None:
        """Forget what runs left in states."""
        self.library.restart()


def _port(tensor: Tensor, *, is_counted: bool = False) -> FilePort:
    # Scales per channel belong to weights, which are no ports.
    q = tensor.quantization
    grid = (float(q.scale[0]), int(q.zero_point[0])) if q is not None and len(q.scale) == 1 else None
    shape = (None, *(tensor.shape or ())[1:]) if is_counted else tensor.shape
    return FilePort(tensor.name, TensorSpec(tensor.dtype, shape), grid)


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
