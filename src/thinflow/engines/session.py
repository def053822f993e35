"""Running a graph by names: the session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thinflow.analysis.shapes import port_count
from thinflow.engines import find
from thinflow.engines.base import Compiled
from thinflow.errors import EngineUnavailable, FeedError, GraphError, closest
from thinflow.ir.check import find_problems
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import STRING, TensorSpec, shape_text

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_AMBIGUOUS = frozenset({"duplicate name", "port"})
"""Problems after which nobody can say what the graph computes; others show when the part concerned runs."""


class Session:
    """A graph ready to run.

        session = Session(graph, engine="auto", threads=1)
        y, = session.run(["softmax"], {"input": x})

    Names go with or without ":0". Each choice of fetches and feeds is prepared once and kept.

    Args:
        graph: must not change while the session is in use.
        engine: "auto" takes LiteRT where it can run the heavy part, else the reference; or an engine's name.
        threads: how many the engine may use.

    Raises:
        EngineUnavailable: the engine is not installed.
    """

    def __init__(self, graph: Graph, engine: str = "auto", threads: int = 1) -> None:
        if threads < 1:
            raise FeedError(f"{threads} threads cannot run anything", hint="give 1 or more")
        broken = next((p for p in find_problems(graph, port_count) if p.kind in _AMBIGUOUS), None)
        if broken is not None:
            raise GraphError(
                f"the graph is broken: {broken}",
                graph.path,
                hint="`thinflow inspect MODEL` lists everything wrong",
            )
        self.graph = graph
        self.threads = threads
        self.engine = _best_engine() if engine == "auto" else engine
        self._engine = find(self.engine)
        self._compiled: dict[tuple[tuple[Value, ...], tuple[Value, ...]], Compiled] = {}
        self._last: Compiled | None = None

    def run(
        self,
        fetches: Sequence[str | Value] | str | None = None,
        feeds: Mapping[Any, Any] | None = None,
    ) -> list[Array]:
        """Compute values.

        Args:
            fetches: names (or values) to compute; default the graph's outputs.
            feeds: name (or value) -> array or anything `numpy.asarray` takes.

        Returns:
            One array per fetch, owned by the caller.

        Raises:
            GraphError: an unknown name; the closest is offered.
            FeedError: a feed is missing or has the wrong type or shape.
        """
        wanted = [self._value(f, "fetch") for f in self._fetches(fetches)]
        fed = {self._value(name, "feed"): array for name, array in (feeds or {}).items()}
        arrays = [_as_fed(value, array) for value, array in fed.items()]
        compiled = self.compiled(list(fed), wanted)
        self._last = compiled
        return compiled.run(arrays)

    def compiled(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Compiled:
        """The prepared form for these inputs and outputs; made on first use."""
        key = tuple(inputs), tuple(outputs)
        if key not in self._compiled:
            self._compiled[key] = self._engine.compile(self.graph, inputs, outputs, threads=self.threads)
        return self._compiled[key]

    @property
    def placement(self) -> dict[str, str]:
        """Node name -> engine that runs it, for the last run (or for the graph's own inputs and outputs)."""
        return self._reported().placement

    @property
    def reasons(self) -> dict[str, str]:
        """Node name -> why the engine left it to the reference interpreter."""
        return self._reported().reasons

    def _reported(self) -> Compiled:
        return self._last or self.compiled(self.graph.inputs, self.graph.outputs)

    def _fetches(self, fetches: Sequence[str | Value] | str | None) -> Sequence[str | Value]:
        if fetches is None:
            if not self.graph.outputs:
                raise GraphError("nothing to compute: the graph has no outputs", hint="name what to fetch")
            return self.graph.outputs
        return [fetches] if isinstance(fetches, str) else fetches

    def _value(self, name: str | Value, role: str) -> Value:
        if isinstance(name, Value):
            return name
        try:
            return self.graph.value(name)
        except GraphError as error:
            known = self.graph.inputs if role == "feed" else self.graph.outputs
            near = closest(name, [v.name for v in known])
            own = f"the graph's {role}s are {', '.join(v.name for v in known)}" if known else error.hint
            raise GraphError(f"cannot {role} '{name}': {error.problem}", hint=near or own) from error


def _best_engine() -> str:
    try:
        find("litert")
    except EngineUnavailable:
        return "reference"
    return "litert"


def _as_fed(value: Value, array: Any) -> Array:
    """The array a feed stands for, checked against what the graph declares.

    Raises:
        FeedError: another type that cannot be cast without loss of kind, another rank or another size.
    """
    import numpy as np

    from thinflow.ir.tensor import Tensor

    spec = value.spec if value.spec.dtype is not None else _declared(value)
    if spec.dtype is STRING or (spec.dtype is None and isinstance(array, (bytes, str))):
        return Tensor.from_array(array, STRING).numpy()
    found = np.asarray(array)
    if spec.dtype is not None and spec.dtype.numpy_name:
        wanted = spec.dtype.numpy()
        if found.dtype != wanted:
            if not np.can_cast(found.dtype, wanted, "same_kind") and not (
                found.dtype.kind in "iu" and wanted.kind in "iuf"
            ):
                raise FeedError(
                    f"'{value.name}' takes {spec.dtype}, not {found.dtype}",
                    hint=f"convert it: x.astype('{wanted}')",
                )
            found = found.astype(wanted)
    if spec.shape is not None:
        fits = len(spec.shape) == found.ndim and all(
            d in (None, n) for d, n in zip(spec.shape, found.shape, strict=True)
        )
        if not fits:
            raise FeedError(
                f"'{value.name}' has shape {shape_text(spec.shape)}, "
                f"the array fed has {shape_text(found.shape)}",
                hint="reshape the array, or load the graph with another input shape",
            )
    return found


def _declared(value: Value) -> TensorSpec:
    """Type and shape a placeholder declares, if shape inference has not run."""
    element, shape = value.node.get("dtype"), value.node.get("shape")
    if value.node.op not in {"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"}:
        return TensorSpec()
    return TensorSpec(element, shape if isinstance(shape, tuple) else None)
