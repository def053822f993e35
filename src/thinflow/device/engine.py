"""A device as an engine: whatever runs models by a session runs them there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory

from thinflow.analysis.shapes import infer_with_loops
from thinflow.bench.targets import GraphSubject
from thinflow.device.base import Connection, Device, Job
from thinflow.device.shipping import sealed, write_whole
from thinflow.engines import joined
from thinflow.engines._files import ModelFile, file_content, signature_to_run
from thinflow.engines.litert import Model
from thinflow.errors import EngineUnavailable
from thinflow.formats.files import map_file
from thinflow.ir.graph import Graph, Value
from thinflow.tflite.model import signature_subgraph
from thinflow.tflite.reader import read_program
from thinflow.typing import Array, Progress


class DeviceEngine:
    """LiteRT on a device that is connected; see `engines.base.Engine`.

    Args:
        device: which one.
        connection: to it.
        folder: on this machine, for the files that are made of graphs.
        in_a_row: refuse models whose answers depend on the runs before where the device starts anew each
            time.
    """

    FILES_OF = "litert"

    def __init__(self, device: Device, connection: Connection, folder: Path, in_a_row: bool = False) -> None:
        self.device, self.connection = device, connection
        self.name = f"litert on {device.name}"
        self._folder, self._numbers, self._in_a_row = folder, count(), in_a_row

    def available(self) -> str | None:
        """None: it is connected."""
        return None

    @property
    def threads(self) -> int:
        """How many models run with there."""
        return next(iter(self.device.settings.threads), 1)

    def open_file(self, path: str, threads: int, signature: str | None = None) -> ModelFile:
        """A .tflite file on the device; its inputs and outputs are what LiteRT on this machine says.

        Raises:
            EngineUnavailable: it is not for devices.
        """
        content = file_content(path)
        if not isinstance(content, str):
            raise sealed(path)
        here = Model(content, settled=None)
        _require_main(path, signature or signature_to_run(path))
        if here.keeps_state and self._in_a_row and not self.connection.keeps_state:
            raise EngineUnavailable(
                "each of its answers depends on those before, and this device starts anew for each",
                path,
                hint="take a device of the kind ssh",
            )
        there = ModelThere(self.connection, path, self.threads, here.keeps_state)
        return ModelFile(path, self.name, there, here.input_ports, here.output_ports, here.signature_names)

    def compile(
        self, graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], *, threads: int = 1
    ) -> GraphThere:
        """A graph as a .tflite file there.

        Raises:
            EngineUnavailable: not all of it can be said so.
        """
        path = self._folder / f"{next(self._numbers)}.tflite"
        # The session's graph stays as it is, whatever is fed and fetched.
        whole = graph.clone()
        whole.inputs, whole.outputs = _in(whole, inputs), _in(whole, outputs)
        infer_with_loops(whole, {v: v.spec for v in whole.inputs if v.spec.shape is not None})
        name = Path(graph.path).name if graph.path else "the graph"
        fed = write_whole(GraphSubject(name, "", whole, None, None), path)
        places = {value.name: place for place, value in enumerate(inputs)}
        there = ModelThere(self.connection, str(path), self.threads, keeps_state=False)
        return GraphThere(there, [places[n] for n in fed], [v.node.name for v in outputs], self.name)


def _require_main(path: str, key: str | None) -> None:
    """Refuse a signature that is not of the graph that a file runs by itself.

    Raises:
        EngineUnavailable: it is of another one.
    """
    if key is None:
        return
    program = read_program(map_file(path, unpack=False), losses=[])
    entry = program.signatures.get(key)
    if entry is None or signature_subgraph(key, entry, program.subgraphs):
        raise EngineUnavailable(
            f"devices run the main graph of a file, and '{key}' is none of its signatures",
            path,
            hint="make a file of that graph alone, or leave --signature out",
        )


def _in(graph: Graph, values: Sequence[Value]) -> list[Value]:
    return [graph.value(v.name) for v in values]


class ModelThere:
    """A .tflite file on a device, sent there when it is first run; see `engines._files.Model`.

    Args:
        path: of the file on this machine.
        keeps_state: it has variables, which keep their values from run to run.
    """

    def __init__(self, connection: Connection, path: str, threads: int, keeps_state: bool) -> None:
        self._connection, self._path, self._threads = connection, path, threads
        self.keeps_state = keeps_state and connection.keeps_state
        self._job: Job | None = None

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs."""
        (found,) = self.run_each([inputs])
        return found

    def run_each(self, feeds: Iterable[Sequence[Array]]) -> Iterator[list[Array]]:
        """The outputs for one feed after the other; several are on their way at once."""
        waiting = iter(feeds)
        first = next(waiting, None)
        if first is None:
            return
        if self._job is None:
            self._job = Job(Path(self._path).name, self._path, self._threads, tuple(first))
            self._connection.open(self._job)
            # It was run once to see that it does, which counts for nothing.
            self.restart()
        yield from self._connection.answers(self._job, chain([first], waiting))

    def restart(self) -> None:
        """Forget what the last run left."""
        if self._job is not None:
            self._connection.restart(self._job)


class GraphThere:
    """A graph that a device runs as a file; see `engines.base.Compiled`.

    Args:
        model: that file.
        order: for each of its inputs the place of that input among those of the graph.
        nodes: that are asked for.
        engine: name of what runs it.
    """

    def __init__(self, model: ModelThere, order: Sequence[int], nodes: Sequence[str], engine: str) -> None:
        self._model, self._order = model, order
        self.placement = dict.fromkeys(nodes, engine)
        self.reasons: dict[str, str] = {}

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs."""
        return self._model.run([inputs[place] for place in self._order])

    def run_each(self, feeds: Iterable[Sequence[Array]]) -> Iterator[list[Array]]:
        """The outputs for one feed after the other."""
        return self._model.run_each([inputs[place] for place in self._order] for inputs in feeds)


@contextmanager
def engine_on(
    device: Device, progress: Progress | None = None, *, in_a_row: bool = False
) -> Iterator[DeviceEngine]:
    """A device as an engine that sessions find by its name, as long as this lasts.

    Args:
        in_a_row: see `DeviceEngine`.

    Raises:
        EngineUnavailable: nobody is there, or it cannot run models.
    """
    with TemporaryDirectory(prefix="thinflow-") as folder, device.connect(progress) as connection:
        engine = DeviceEngine(device, connection, Path(folder), in_a_row)
        with joined(engine):
            yield engine
