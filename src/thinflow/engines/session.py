"""Running a model by names: the session."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from thinflow.engines import find
from thinflow.engines._open_model import open_for_engine
from thinflow.engines._threads import side_by_side
from thinflow.engines.base import Compiled, Feed, Port
from thinflow.errors import (
    FeedError,
    GraphError,
    ParameterError,
    closest,
)
from thinflow.ir.notebook import table_html
from thinflow.ir.types import TensorSpec
from thinflow.ops.traits import Trait, has

if TYPE_CHECKING:
    from thinflow.engines._autotune import Known
    from thinflow.engines._measured import EngineChoice
    from thinflow.ir.graph import Graph, Value
    from thinflow.ir.interface import State
    from thinflow.typing import Array, ArrayLike

    Feeds = Mapping[str, ArrayLike] | Mapping[Value, ArrayLike] | Mapping[str | Value, ArrayLike]

logger = logging.getLogger(__name__)


class Session:
    """A model ready to run.

        session = Session(graph, engine="auto", threads=1)
        y, = session.run(["softmax"], {"input": x})

    Names go with or without ":0". Each choice of fetches and feeds is prepared once and kept; from then on a
    run costs a few microseconds more than the engine itself.

    Args:
        graph: a Graph, which must not change while the session is in use, or the path of a model. A .tflite
            or .onnx file is run as it is, and so is the graph read from one: its own inputs are fed and its
            own outputs fetched. engine="reference" computes it with the interpreter, as a second opinion.
        engine: "auto" runs a file in its own engine, or in the interpreter where that refuses the file. For
            a graph it takes LiteRT if it is installed, which leaves to the reference what it cannot run, else
            the reference. Eight-bit graphs that measure their ranges go to ONNX Runtime, if that is there.
            Or an engine's name.
        threads: how many the engine may use.
        measure: for "auto": the first run tries every engine on what it is fed, in turns, and keeps the
            fastest of those that answer as the reference does; `choice` tells what came of each. That takes
            a second or some runs of each, the slow reference included, and is done once in a process for the
            same model, sizes and threads.
        cache: for "auto": a file that keeps what `measure` found of a graph, so that it is not measured
            again. A choice holds for the same nodes, input sizes, threads, versions and kind of machine.
        inter_op_threads: how many nodes that do not need one another may run at once. Only ONNX Runtime can;
            the others run node by node whatever the number, as TensorFlow's guides advise for phones.
        max_iterations: how often a loop may turn in the interpreter before it is taken to be endless; default
            a million. An engine that runs a loop whole does not count its turns.
        signature: of a .tflite file, which signature to run; its inputs and outputs have the names that it
            gives them.

    Attributes:
        graph: the graph; None for a file that is run as it is.
        is_lifted: whether the graph was made from a .tflite or .onnx file, for the interpreter.
        refusal: why the interpreter runs a file that its own engine refuses; "" if nothing was refused.
        codes: name -> scale and zero point of values in such a graph whose integers stand for real numbers.
        path: of the file that is run as it is; "" for a graph.
        signature: of that file, the one that runs; None if none was named.
        engine: the engine's name; with `measure`, the one to start from until the first run has decided.
        choice: with `measure`, which engine was chosen, by how much, and why each of the others was not;
            None until the first run, and where nothing was measured.

    Raises:
        EngineUnavailable: the engine is not installed, or does not run such files.
        FormatError: the path does not lead to a model.
    """

    def __init__(
        self,
        graph: Graph | str | os.PathLike[str],
        engine: str = "auto",
        threads: int = 1,
        *,
        measure: bool = False,
        cache: str | os.PathLike[str] | None = None,
        inter_op_threads: int = 1,
        max_iterations: int | None = None,
        signature: str | None = None,
    ) -> None:
        fewest = min(threads, inter_op_threads)
        if fewest < 1:
            raise FeedError(f"{fewest} threads cannot run anything", hint="give 1 or more")
        if max_iterations is not None and max_iterations < 1:
            raise ParameterError(
                f"a loop cannot have {max_iterations} iterations at most", hint="give 1 or more"
            )
        self._max_iterations = max_iterations
        self._path = os.fspath(graph) if isinstance(graph, str | os.PathLike) else graph.path
        if engine != "auto" and (measure or cache is not None):
            raise ParameterError(
                f"there is nothing to measure with engine='{engine}'", hint="leave the engine at 'auto'"
            )
        self.threads = threads
        self.inter_op_threads = inter_op_threads
        self._undecided = measure or cache is not None
        self._cache = cache
        self.choice: EngineChoice | None = None
        self._source = graph
        self._calls: dict[Any, _Call] = {}
        self._compiled: dict[tuple[tuple[Any, ...], tuple[Any, ...]], Compiled] = {}
        self._last: Compiled | None = None
        self._state: Any = None
        self._held: dict[Value, Array] = {}
        opened = open_for_engine(graph, engine, threads, inter_op_threads, signature)
        self.graph, self._file = opened.graph, opened.file
        self.is_lifted, self.refusal, self.codes = opened.is_lifted, opened.refusal, opened.codes
        self.path, self.signature = "", signature
        if self._file is not None:
            self.path, self.engine = self._file.path, self._file.engine
            return
        # A graph is lifted where the interpreter was asked for, or the file's own engine refused it.
        engine = "reference" if self.is_lifted else engine
        self._held = _stored(self._graph)
        self.engine = _default_engine(self._graph) if engine == "auto" else engine
        self._engine = find(self.engine)

    def __repr__(self) -> str:
        return f"Session({self._path or 'graph'}, engine={self.engine!r}, threads={self.threads})"

    def _repr_html_(self) -> str:
        ports = [("input", *item) for item in self.inputs.items()]
        ports += [("output", *item) for item in self.outputs.items()]
        return table_html(repr(self), ports, ("", "name", "type and shape"))

    @property
    def inputs(self) -> dict[str, TensorSpec]:
        """Name -> type and shape of what the model takes."""
        ports: Iterable[Port] = self._file.inputs if self._file is not None else self._fed
        return {p.name: p.spec for p in ports}

    @property
    def outputs(self) -> dict[str, TensorSpec]:
        """Name -> type and shape of what the model gives."""
        ports: Iterable[Port] = self._file.outputs if self._file is not None else self._given
        return {p.name: p.spec for p in ports}

    @property
    def grids(self) -> dict[str, tuple[float, int]]:
        """Scale and zero point of the inputs and outputs of a file whose integers stand for real numbers."""
        if self._file is None:
            return {n: g for n, g in self.codes.items() if n in self.inputs or n in self.outputs}
        ports = [*self._file.inputs, *self._file.outputs]
        return {p.name: p.grid for p in ports if p.grid is not None}

    @property
    def aliases(self) -> Mapping[str, str]:
        """Other names of inputs and outputs, such as a signature's -> their names."""
        return self._file.aliases() if self._file is not None else self._graph.aliases

    def spec(self, name: str) -> TensorSpec:
        """Type and shape of what can be fed under a name.

        Raises:
            GraphError: there is no such value; the closest is offered.
        """
        from thinflow.analysis.shapes import declared_spec

        return declared_spec(self._port(name, "feed"))

    def run(
        self,
        fetches: Sequence[str | Value] | str | None = None,
        feeds: Feeds | None = None,
    ) -> list[Array]:
        """Compute values.

        Args:
            fetches: names (or values) to compute; default the model's outputs.
            feeds: name (or value) -> array or anything `numpy.asarray` takes. An array of the right type is
                handed to the engine as it is; LiteRT copies it once to its own memory.

        Returns:
            One array per fetch, which belongs to the caller: a later run does not change it. LiteRT's results
            are copied once for that. A constant, or a value that is fed and fetched, is not copied.

        Raises:
            GraphError: an unknown name; the closest is offered.
            FeedError: a feed is missing or has the wrong type or shape.
        """
        if feeds is None:
            feeds = {}
        call = self._call(fetches, feeds)
        self._last = call.compiled
        arrays = [f.array(x) for f, x in zip(call.feeds, feeds.values(), strict=True)]
        if self._max_iterations is None and not call.states:
            return call.compiled.run(arrays)
        # States go in behind what the caller feeds, in the order in which `_finished` takes them out.
        arrays += [self._held[s.input] for s in call.states]
        if self._max_iterations is None:
            return self._finished(call, call.compiled.run(arrays))
        from thinflow.control_flow.frames import at_most_iterations

        with at_most_iterations(self._max_iterations):
            return self._finished(call, call.compiled.run(arrays))

    def run_each(
        self, fetches: Sequence[str | Value] | str | None, feeds: Iterable[Feeds]
    ) -> Iterator[list[Array]]:
        """Compute values for one feed after the other, as `run` does.

        The same inputs are fed each time. An engine that is far away, such as a device, is given several
        feeds at once; which of them are held in memory is up to it.

        Args:
            fetches: as for `run`.
            feeds: as for `run`, taken as they are needed.
        """
        waiting = iter(feeds)
        first = next(waiting, None)
        if first is None:
            return
        everything = chain([first], waiting)
        call = self._call(fetches, first)
        together = getattr(call.compiled, "run_each", None)
        # What a run leaves goes into the next one, so that each waits for the one before.
        if together is None or call.states:
            for feed in everything:
                yield self.run(fetches, feed)
            return
        self._last = call.compiled
        yield from together(
            [f.array(x) for f, x in zip(call.feeds, feed.values(), strict=True)] for feed in everything
        )

    def _finished(self, call: _Call, results: list[Array]) -> list[Array]:
        """The fetched part of a run's results; the states that it leaves are kept."""
        count = len(results) - len(call.states)
        for state, left in zip(call.states, results[count:], strict=True):
            self._held[state.input] = left
        return results[:count]

    def _call(self, fetches: Sequence[str | Value] | str | None, feeds: Mapping[Any, Any]) -> _Call:
        # Names in the caller's order: whatever else depends on them was prepared once, and a run only looks
        # it up.
        key = (fetches if fetches is None or isinstance(fetches, str) else tuple(fetches), *feeds)
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = self._prepared(fetches, feeds)
        return call

    def _prepared(self, fetches: Sequence[str | Value] | str | None, feeds: Mapping[Any, Any]) -> _Call:
        if self._undecided and self._file is not None:
            self._decide_file(fetches, feeds)
        wanted = [self._port(f, "fetch") for f in self._fetches(fetches)]
        fed: dict[Any, Any] = {}
        for name, given in feeds.items():
            port = self._port(name, "feed")
            if port in fed:
                raise FeedError(
                    f"'{port.name}' is fed twice", hint="give each input once, with or without ':0'"
                )
            fed[port] = given
        from thinflow.analysis.shapes import declared_spec

        checks = [Feed(p.name, declared_spec(p)) for p in fed]
        arrays = [check.array(given) for check, given in zip(checks, fed.values(), strict=True)]
        states = self._states_of_run(fed)
        if self._undecided:
            held = [self._held[s.input] for s in states]
            self._decide([*fed, *(s.input for s in states)], wanted, [*arrays, *held])
        ends = [*fed, *(s.input for s in states)], [*wanted, *(s.output for s in states)]
        return _Call(self.compiled(*ends), checks, states)

    def _states_of_run(self, fed: Mapping[Any, Any]) -> list[State]:
        """The states that a run begins with and leaves: all, if it is fed what the model takes."""
        if not self._held or any(v not in fed for v in self._fed):
            return []
        from thinflow.ir.interface import states_of

        # A run that is fed elsewhere computes a part of the graph, which is no step of the model.
        return [s for s in states_of(self._graph) if s.input not in fed]

    def compiled(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Compiled:
        """The prepared form for these inputs and outputs; made on first use."""
        key = tuple(inputs), tuple(outputs)
        if key not in self._compiled:
            self._compiled[key] = (
                self._file.compile(inputs, outputs)
                if self._file is not None
                else self._prepared_graph(inputs, outputs)
            )
        return self._compiled[key]

    def _prepared_graph(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Compiled:
        """The graph for these inputs and outputs; all share the session's variables, tables and queues."""
        from thinflow.interpreter.calls import State, sharing

        if self._state is None:
            self._state = State()
        with sharing(self._state), side_by_side(self.inter_op_threads):
            return self._engine.compile(self._graph, inputs, outputs, threads=self.threads)

    def _decide(self, inputs: list[Any], outputs: list[Any], arrays: list[Array]) -> None:
        """Choose the engine, by what the file of choices or this process knows, or else by trying all."""
        from thinflow.engines import _autotune as autotune

        self._undecided = False
        if why := autotune.why_unmeasurable(self._graph, outputs):
            logger.warning("nothing was measured: %s; %s runs it", why, self.engine)
            return
        key = autotune.key_of(self._graph, inputs, outputs, arrays, self.threads)
        if self._cache is not None and (name := autotune.remembered(self._cache, key)) is not None:
            self.engine, self._engine = name, find(name)
            return
        known = self._known()
        self.choice = known.find(key)
        compiled = None
        if self.choice is None:
            with side_by_side(self.inter_op_threads):
                self.choice, compiled = autotune.fastest(self._graph, inputs, outputs, arrays, self.threads)
            known.note(key, self.choice)
        name = self.choice.engine
        if self._cache is not None:
            autotune.remember(self._cache, key, name)
        self.engine, self._engine = name, find(name)
        # The fastest is ready already; to make it so again would take its time twice. But what it may have
        # kept of the runs that were timed is none of the session's.
        if compiled is not None and not any(has(node.op, Trait.RESOURCE) for node in self._graph):
            self._compiled[tuple(inputs), tuple(outputs)] = compiled

    def _known(self) -> Known:
        """What this process knows of the model."""
        from thinflow.engines._autotune import Known

        if isinstance(self._source, str | os.PathLike):
            return Known(None, os.fspath(self._source))
        return Known(self._source)

    def _decide_file(self, fetches: Sequence[str | Value] | str | None, feeds: Mapping[Any, Any]) -> None:
        """Choose the engine of a file: its own, others that run it as it is, or one that runs its graph."""
        from thinflow.analysis.precision import RUNTIMES_TOLERANCE
        from thinflow.engines import _autotune as autotune
        from thinflow.engines._measured import choose

        self._undecided = False
        if self.keeps_state:
            logger.warning("nothing was measured: a run leaves state behind; %s runs it", self.engine)
            return
        ports = [self._port(name, "feed") for name in feeds]
        checks = [Feed(p.name, p.spec) for p in ports]
        pairs = zip(ports, checks, feeds.values(), strict=True)
        arrays = {port.name: check.array(given) for port, check, given in pairs}
        wanted = [self._port(f, "fetch").name for f in self._fetches(fetches)]
        known, key = self._known(), autotune.key_of_file(arrays, wanted, self.threads)
        self.choice = known.find(key)
        if self.choice is not None and self.choice.engine == self.engine:
            return
        own = self.engine

        def session_of(name: str) -> Session:
            if name == own:
                return self
            # What runs no such file gets the graph that is read from it.
            return Session(self._source, name, self.threads, signature=self.signature)

        def tolerance(judge: Session | None) -> float:
            if judge is None or judge.graph is None:
                return RUNTIMES_TOLERANCE
            return autotune.tolerance_of(judge.graph, judge.graph, has_codes=bool(judge.codes))

        if self.choice is None:
            self.choice, chosen = choose(
                [own, *(n for n in autotune.usable_engines() if n != own)],
                session_of,
                lambda session: session.run(wanted, arrays),
                tolerance=tolerance,
                threads=self.threads,
            )
            known.note(key, self.choice)
        else:
            chosen = session_of(self.choice.engine)
        if chosen is not self:
            for name in ("graph", "_file", "is_lifted", "refusal", "codes", "path", "engine", "_engine"):
                if hasattr(chosen, name):
                    setattr(self, name, getattr(chosen, name))
            self._held, self._compiled, self._calls = chosen._held, chosen._compiled, {}

    def restart(self) -> None:
        """Let the next run begin as the first one did, with the states that the model was saved with.

        LiteRT's recurrent ops and variables go on from what the last run left, in the interpreter too, and so
        does a graph that was opened with its state.
        """
        if self.graph is not None:
            self._held = _stored(self.graph)
        if self._state is not None:
            kept = self._state.resources
            for key in [k for k in kept if isinstance(k, tuple) and k[0] == "LiteRTVariable"]:
                del kept[key]
        if self._file is not None:
            self._file.restart()

    @property
    def placement(self) -> dict[str, str]:
        """Node name -> engine that runs it, for the last run (or for the graph's own inputs and outputs)."""
        return self._reported().placement

    @property
    def reasons(self) -> dict[str, str]:
        """Node name -> why the engine left it to the reference interpreter, for the last run."""
        reported = self._reported()
        return dict.fromkeys(reported.placement, self.refusal) if self.refusal else reported.reasons

    @property
    def placement_reasons(self) -> dict[str, str]:
        """As `reasons`."""
        return self.reasons

    @property
    def held(self) -> Mapping[Value, Array]:
        """The states with which the next run of a graph begins: the input of each state -> its value."""
        return self._held

    @property
    def keeps_state(self) -> bool:
        """True if a run leaves something for the next in variables of the model."""
        if self._file is not None:
            return bool(getattr(self._file.model, "keeps_state", False))
        return bool(self._held) or any(n.op == "LiteRTVariable" for n in self._graph)

    @property
    def _fed(self) -> list[Value]:
        """The graph's inputs that are no states."""
        return _without_states(self._graph, self._graph.inputs)

    @property
    def _given(self) -> list[Value]:
        """The graph's outputs that are no states."""
        return _without_states(self._graph, self._graph.outputs)

    def _reported(self) -> Compiled:
        own = self._file if self._file is not None else self._graph
        return self._last or self.compiled(own.inputs, own.outputs)

    @property
    def _graph(self) -> Graph:
        assert self.graph is not None, "files have no graph"
        return self.graph

    def _fetches(self, fetches: Sequence[str | Value] | str | None) -> Sequence[Any]:
        if fetches is None:
            if self._file is not None:
                return self._file.outputs
            if not self._graph.outputs:
                raise GraphError("nothing to compute: the graph has no outputs", hint="name what to fetch")
            return self._given
        return [fetches] if isinstance(fetches, str) else fetches

    def _port(self, name: Any, role: str) -> Any:
        if self._file is not None:
            return self._file.find(getattr(name, "name", name), role)
        if not isinstance(name, str):
            return name
        try:
            return self._graph.value(name)
        except GraphError as error:
            known = self._graph.inputs if role == "feed" else self._graph.outputs
            near = closest(name, [v.name for v in known])
            own = f"the graph's {role}s are {', '.join(v.name for v in known)}" if known else error.hint
            raise GraphError(f"cannot {role} '{name}': {error.problem}", hint=near or own) from error


class _Call:
    """One choice of fetches and feeds, ready to run."""

    __slots__ = ("compiled", "feeds", "states")

    def __init__(self, compiled: Compiled, feeds: list[Feed], states: Sequence[State] = ()) -> None:
        self.compiled = compiled
        self.feeds = feeds
        self.states = states


def _without_states(graph: Graph, values: Sequence[Value]) -> list[Value]:
    if not graph.states:
        return list(values)
    from thinflow.ir.interface import without_states

    return without_states(graph, values)


def _stored(graph: Graph) -> dict[Value, Array]:
    """Initial values of the states of a graph."""
    if not graph.states:
        return {}
    from thinflow.ir.interface import states_of

    return {s.input: s.first for s in states_of(graph)}


def _default_engine(graph: Graph) -> str:
    """The first that is installed; what LiteRT would leave to the reference in good part goes elsewhere."""
    from thinflow.engines._autotune import measures_ranges, usable_engines

    if measures_ranges(graph) and usable_engines(["onnxruntime"]):
        return "onnxruntime"
    return "litert" if usable_engines(["litert"]) else "reference"
