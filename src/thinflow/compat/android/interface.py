"""The interface that Android applications use to run a model, for testing their logic off the device.

The names and rules are those of TensorFlowInferenceInterface; the element type of an array takes the place of
Java's overloads.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from thinflow.compat.android.before import CallsBefore
from thinflow.compat.android.inputs import (
    Port,
    Source,
    copied,
    copy_into,
    graph_of,
    parsed,
    spelled,
    type_name,
)
from thinflow.errors import FeedError, GraphError, ParameterError, ThinflowError
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import STRING, dtype, shape_text

if TYPE_CHECKING:
    from typing_extensions import Self

    from thinflow.analysis.node_stats import NodeStats
    from thinflow.engines.session import Session
    from thinflow.interpreter import Plan
    from thinflow.typing import Array, ArrayLike

    Buffer = TypeVar("Buffer", Array, bytearray, memoryview)

logger = logging.getLogger(__name__)

# The types for which Java's `feed` has an overload; text goes through `feedString`.
_FEEDABLE = ("float", "int32", "int64", "double", "uint8", "bool", "string")


class InferenceInterface(CallsBefore):
    """A model that is fed, run, and fetched from, one call each.

        inference = InferenceInterface("file:///android_asset/model.pb", assets="app/assets")
        inference.feed("input", pixels, 1, 224, 224, 3)
        inference.run(["softmax"])
        scores = np.zeros(1001, np.float32)
        inference.fetch("softmax", scores)

    Names are NAME or NAME:INDEX. Not for use from several threads at once. The methods also have the names
    they have in Java, `feedString`, `graphOperation` and `getStatString`. Without a model, it takes one by
    the older `initializeTensorFlow`; see `CallsBefore`.

    Args:
        model: the path of a GraphDef, an open file with one, which is read to its end and not closed, its
            bytes, or a Graph, which is used as it is; None: see above.
        assets: the folder that stands for the application's assets. A path that starts with
            "file:///android_asset/" is looked for there only, any other there first.
        engine: what runs the model; see `Session`.
        threads: how many the engine may use.

    Raises:
        FormatError: there is no such file, or it is no GraphDef.
        GraphError: the graph is broken.
    """

    _session: Session | None
    _feeds: list[tuple[Port, Array]]
    _fetched: dict[Port, Array]
    _plans: dict[Any, Plan]
    _state: Any
    _stats: NodeStats | None

    def __init__(
        self,
        model: Source | None = None,
        *,
        assets: str | os.PathLike[str] | None = None,
        engine: str = "auto",
        threads: int = 1,
    ) -> None:
        self._engine, self._threads = engine, threads
        self._where = ""
        self.close()
        if model is not None:
            self._load(model, assets)

    def __repr__(self) -> str:
        return f"InferenceInterface({self._where or 'no model'})"

    def _load(self, model: Source, assets: str | os.PathLike[str] | None) -> None:
        from thinflow.engines.session import Session

        begin = time.perf_counter()
        self.close()
        graph = graph_of(model, assets)
        self._session = Session(graph, self._engine, self._threads)
        self._where, self._graph = graph.path or "the model", graph
        logger.info("loaded %s in %.0f ms", self._where, 1000 * (time.perf_counter() - begin))

    def feed(self, name: str, values: ArrayLike, *dims: int | Sequence[int]) -> None:
        """Give an input its values for the next run. They are copied.

        Args:
            name: of the input.
            values: a float32, int32, int64, float64, uint8, int8 (taken as uint8) or bool array; bytes are
                uint8. A list takes the type that the graph declares. Strings go through `feed_string`.
            dims: the shape, size by size or as one sequence; default: the array's own.

        Raises:
            FeedError: the number of values is not the product of `dims`, or the type is another one. A name
                that does not exist shows in `run`.
        """
        import numpy as np

        self._open()
        try:
            array = copied(values, lambda: self._declared(name))
        except ValueError as error:  # lists of different lengths, text for numbers
            raise FeedError(f"'{name}' cannot be fed: {error}", hint="feed a numpy array") from error
        if array.dtype == np.int8:  # Java has no unsigned bytes
            array = array.view(np.uint8)
        if array.dtype.kind in "OSU" or type_name(array) not in _FEEDABLE:
            raise FeedError(
                f"'{name}' cannot be fed with {array.dtype}",
                hint="use feed_string"
                if array.dtype.kind in "OSU"
                else f"convert it to one of {', '.join(_FEEDABLE[:-1])}",
            )
        # `feed(name, x, 1, 224, 224, 3)` as in Java, or the shape in one piece as in Python.
        sizes: Sequence[Any] = dims[0] if len(dims) == 1 and isinstance(dims[0], Sequence) else dims
        shape = tuple(int(n) for n in sizes) if dims else array.shape
        if any(d < 0 for d in shape) or math.prod(shape) != array.size:
            raise FeedError(
                f"'{name}' was given {array.size} values for the shape {shape_text(shape)}",
                hint=f"that shape takes {math.prod(shape)}"
                if min(shape, default=0) >= 0
                else "sizes are not negative",
            )
        self._feeds.append((parsed(name), array.reshape(shape)))

    def feed_string(self, name: str, values: bytes | str | Sequence[bytes | str]) -> None:
        """Give an input one string (a scalar) or several (a vector) for the next run."""
        from thinflow.ir.tensor import Tensor

        self._open()
        one = isinstance(values, bytes | str)
        try:
            tensor = Tensor.from_array(values if one else list(values), STRING)
        except ParameterError as error:
            raise FeedError(error.problem, f"'{name}'", error.hint) from error
        self._feeds.append((parsed(name), tensor.numpy()))

    def run(
        self, output_names: Sequence[str], enable_stats: bool = False, targets: Sequence[str] = ()
    ) -> None:
        """Compute outputs for `fetch`. What was fed is used up, also if the run fails.

        Args:
            output_names: what to compute.
            enable_stats: also measure every node for `get_stat_string`. The interpreter runs the graph then,
                since other engines do not tell nodes apart.
            targets: names of nodes to run as well, for their effects; the interpreter runs them.

        Raises:
            GraphError: an unknown name.
            FeedError: an input is missing, fed twice, or of another type or shape.
            NodeError: a node failed.
        """
        session = self._open()
        # Taken out first, so that what was fed is used up even if the run fails.
        feeds, self._feeds, self._fetched = self._feeds, [], {}
        wanted = [output_names] if isinstance(output_names, str) else list(output_names)
        try:
            ports = [parsed(name) for name in wanted]
            values = [self._value(port) for port in ports]
            fed = self._fed(feeds)
            nodes = [self.graph_operation(name) for name in targets]
            if not values and not nodes:
                raise GraphError(
                    "there is nothing to compute", self._where, hint="name an output or a target"
                )
            if enable_stats or nodes:
                results = self._interpreted(values, nodes, fed, enable_stats)
            else:
                results = session.run(values, fed)
        except ThinflowError as error:
            logger.error(
                "failed to run %s with inputs %s and outputs %s: %s",
                self._where,
                [spelled(port) for port, _ in feeds],
                wanted,
                error.message,
            )
            raise
        # From behind, so that of an output asked for twice the first result stays.
        self._fetched = dict(zip(reversed(ports), reversed(results), strict=True))

    @overload
    def fetch(self, name: str, out: None = None) -> Array: ...

    @overload
    def fetch(self, name: str, out: Buffer) -> Buffer: ...

    def fetch(
        self, name: str, out: Array | bytearray | memoryview | None = None
    ) -> Array | bytearray | memoryview:
        """An output of the last run, copied.

        Args:
            name: as given to `run`, with or without ":0".
            out: where to put it, in row-major order: a writable array of the same type, or one of single
                bytes (a bytearray too), which gets the bytes as they are. It may be larger; the rest stays.

        Returns:
            `out`, or a new array of the output's shape.

        Raises:
            GraphError: the last run did not compute it.
            ParameterError: `out` is too small or of another type.
        """
        self._open()
        found = self._fetched.get(parsed(name))
        if found is None:
            ready = ", ".join(spelled(port) for port in self._fetched)
            raise GraphError(
                f"'{name}' was not computed by the last run",
                self._where,
                hint=f"it computed {ready}" if ready else "name it in run([...])",
            )
        if out is None:
            result: Array = found.copy()
            return result
        copy_into(out, found, name)
        return out

    def graph(self) -> Graph:
        """The graph."""
        self._open()
        return self._graph

    def graph_operation(self, name: str) -> Node:
        """The node of that name; `.output(i).shape` is the shape of an output.

        Raises:
            GraphError: there is none.
        """
        self._open()
        try:
            return self._graph.node(name)
        except GraphError as error:
            raise GraphError(
                f"there is no operation '{name}'",
                self._where,
                hint=error.hint or "`thinflow inspect MODEL` lists them",
            ) from error

    def get_stat_string(self) -> str:
        """The ten slowest nodes, sums by op and a summary; empty if no run has measured."""
        self._open()
        if self._stats is None:
            return ""
        top = self._stats.by_time("Top 10 CPU", 10)
        return top + self._stats.by_type() + self._stats.short_summary()

    def close(self) -> None:
        """Let go of the model; only `close` and `initializeTensorFlow` may be called afterwards."""
        self._session = None
        self._feeds, self._fetched, self._plans = [], {}, {}
        self._state = self._stats = None
        # `_where` stays: by it a closed interface is told from one that never had a model.
        self._graph = Graph()

    get_stats = getStatString = get_stat_string
    graphOperation = graph_operation
    feedString = feed_string

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- inside -------------------------------------------------------------------------------------------

    def _open(self) -> Session:
        if self._session is None and not self._where:
            raise GraphError("the interface has no model yet", hint="initializeTensorFlow(assets, model)")
        if self._session is None:
            raise GraphError(f"the interface to {self._where} is closed", hint="make a new one")
        return self._session

    def _value(self, port: Port) -> Value:
        name, index = port
        try:
            if index < 0:
                raise GraphError(f"there is no output {index}")
            return self._graph.node(name).output(index)
        except GraphError as error:
            raise GraphError(
                f"cannot find '{spelled(port)}': {error.problem}", self._where, error.hint
            ) from error

    def _declared(self, name: str) -> Any:
        """The numpy type of an input, if the graph tells."""
        from thinflow.analysis.shapes import declared_spec

        try:
            found = declared_spec(self._value(parsed(name))).dtype
        except GraphError:
            return None
        return found.numpy() if found is not None and found.numpy_name else None

    def _fed(self, feeds: Sequence[tuple[Port, Array]]) -> dict[Value, Array]:
        from thinflow.analysis.shapes import declared_spec
        from thinflow.engines.base import Feed

        fed: dict[Value, Array] = {}
        for port, array in feeds:
            value = self._value(port)
            if value in fed:
                raise FeedError(f"'{value.name}' was fed twice", self._where, hint="feed each input once")
            spec = declared_spec(value)
            found = STRING if array.dtype.hasobject else dtype(array.dtype)
            if spec.dtype is not None and found is not spec.dtype:
                raise FeedError(
                    f"'{value.name}' takes {spec.dtype}, it was fed {found}",
                    self._where,
                    hint="feed an array of that type",
                )
            fed[value] = Feed(value.name, spec).array(array)
        return fed

    def _interpreted(
        self, values: list[Value], nodes: list[Node], fed: dict[Value, Array], measured: bool
    ) -> list[Array]:
        """The outputs by the interpreter, which can run targets and tells what each node took."""
        from thinflow.analysis.node_stats import NodeStats, RunSteps
        from thinflow.interpreter import Plan
        from thinflow.interpreter.calls import State, sharing

        # One state for all plans: variables keep their values from run to run, whatever is fetched.
        self._state = self._state or State()
        key = tuple(values), tuple(nodes), tuple(fed)
        if key not in self._plans:
            with sharing(self._state):
                self._plans[key] = Plan(self._graph, values, list(fed), targets=nodes)
        plan = self._plans[key]
        if not measured:
            return plan.run(fed)
        steps = RunSteps()
        results = plan.run(fed, steps.observe)
        if self._stats is None:
            self._stats = NodeStats()
        self._stats.add_run(steps.taken)
        return results
