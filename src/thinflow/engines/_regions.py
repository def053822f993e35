"""Graphs run region by region: what an engine can run in the engine, the rest in the interpreter.

An engine that lowers regions to models of its own says which nodes it refuses and how a region becomes a
model; cutting, running, falling back and reporting are here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from thinflow.engines.base import Compiled
from thinflow.engines.partition import Region, partition
from thinflow.errors import EngineUnavailable, FeedError, UnsupportedOp
from thinflow.ir.types import RESOURCE, VARIANT

if TYPE_CHECKING:
    import numpy as np

    from thinflow.interpreter import Plan
    from thinflow.ir.graph import Graph, Node, Value

    Array = np.ndarray[Any, Any]

logger = logging.getLogger(__name__)


class Model(Protocol):
    """A region as the engine runs it."""

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The region's outputs.

        Raises:
            EngineUnavailable, FeedError: the engine refuses; the region goes to the interpreter.
        """
        ...


@dataclass(frozen=True)
class Backend:
    """What an engine adds.

    Attributes:
        name: the engine's name, for the placement.
        unsupported: why it cannot run nodes; those it can are missing.
        lowered: a region as a model. May raise UnsupportedOp or EngineUnavailable.
        unsupported_unit: why it cannot run a loop or branches, given by what goes in and out; "" if it can.
            None if it never can.
        exchanged: whether it can be handed arrays of a type (by name); resources and variants never can.
    """

    name: str
    unsupported: Callable[[Graph, Iterable[Node]], dict[Node, str]]
    lowered: Callable[[Graph, Region, int], Model]
    unsupported_unit: Callable[[Graph, Sequence[Value], Sequence[Value]], str] | None = None
    exchanged: Callable[[str], bool] = lambda _: True


def compile_regions(
    backend: Backend, graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], threads: int
) -> Compiled:
    """The graph cut into regions, each ready to run."""
    from thinflow.analysis.loops import infer_with_loops
    from thinflow.engines._units import divide
    from thinflow.interpreter import Plan

    infer_with_loops(graph, {v: v.spec for v in inputs if v.spec.shape is not None})
    division = divide(Plan(graph, outputs, inputs))
    refused = division.refused(graph, inputs, outputs, backend.unsupported, backend.unsupported_unit)
    for unit in division.units:
        inside = set(unit) if len(unit) > 1 else set()
        read = (why for n in unit if n not in refused and (why := _unreadable(backend, n, inside)))
        why = next(read, "")
        refused |= dict.fromkeys(unit, why) if why else {}
    regions = partition(
        division.nodes, inputs, outputs, refused, units=division.units, constants=division.constants
    )
    pieces = [_Piece(backend, graph, r, threads) for r in regions]
    return _Compiled(backend.name, pieces, inputs, outputs, refused)


def _unreadable(backend: Backend, node: Node, inside: Collection[Node]) -> str:
    """Why the engine cannot be handed an input of the node from outside its unit; empty if it can."""
    for value in node.inputs:
        if value.node.tensor is not None or value.node in inside:
            continue
        if (
            value.dtype is None
            or value.dtype in (RESOURCE, VARIANT)
            or not backend.exchanged(value.dtype.name)
        ):
            return f"its input '{value.name}' is {value.dtype or 'of unknown type'}"
    return ""


class _Piece:
    """One region ready to run.

    A region the engine turns out to refuse, now or for some input, goes to the interpreter for good.
    """

    def __init__(self, backend: Backend, graph: Graph, region: Region, threads: int) -> None:
        self.region = region
        self.refusal = ""
        self._graph = graph
        self._plan: Plan | None = None
        self._model: Model | None = None
        if region.on_engine and region.outputs:
            try:
                self._model = backend.lowered(graph, region, threads)
            except (UnsupportedOp, EngineUnavailable) as error:
                self.refusal = error.message

    @property
    def runs_on_engine(self) -> bool:
        return self._model is not None

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        if self._model is not None:
            try:
                return self._model.run(arrays)
            except (EngineUnavailable, FeedError) as error:
                logger.info("falling back to the interpreter: %s", error.message)
                self.refusal, self._model = error.message, None
        if self._plan is None:
            from thinflow.interpreter import Plan

            self._plan = Plan(self._graph, self.region.outputs, self.region.inputs)
        return self._plan.run(dict(zip(self.region.inputs, arrays, strict=True)))


class _Compiled:
    def __init__(
        self,
        name: str,
        pieces: list[_Piece],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        refused: Mapping[Node, str],
    ) -> None:
        self._name = name
        self._pieces = pieces
        self._inputs = list(inputs)
        self._outputs = list(outputs)
        self._refused = refused
        self._constants = {v: _constant(v) for v in outputs if v.node.tensor is not None}

    @property
    def placement(self) -> dict[str, str]:
        return {
            n.name: self._name if p.runs_on_engine else "reference"
            for p in self._pieces
            for n in p.region.nodes
        }

    @property
    def reasons(self) -> dict[str, str]:
        reasons = {n.name: why for n, why in self._refused.items()}
        for piece in self._pieces:
            if piece.refusal:
                reasons.update((n.name, piece.refusal) for n in piece.region.nodes)
        return reasons

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        values: dict[Value, Array] = dict(zip(self._inputs, inputs, strict=True)) | self._constants
        for piece in self._pieces:
            region = piece.region
            values.update(zip(region.outputs, piece.run([values[v] for v in region.inputs]), strict=True))
        return [values[v] for v in self._outputs]


def _constant(value: Value) -> Array:
    tensor = value.node.tensor
    assert tensor is not None
    return tensor.numpy()
