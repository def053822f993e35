"""Graphs run region by region: what an engine can run in the engine, the rest in the interpreter.

An engine that lowers regions to models of its own says which nodes it refuses and how a region becomes a
model; cutting, running, falling back and reporting are here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from thinflow.engines._threads import blas, inter_op_threads, side_by_side
from thinflow.engines.base import Compiled
from thinflow.engines.partition import Region
from thinflow.errors import EngineUnavailable, FeedError, UnsupportedOp
from thinflow.ir.types import RESOURCE, VARIANT
from thinflow.ops._state import dereferenced
from thinflow.ops.traits import Trait, has

if TYPE_CHECKING:
    from thinflow.engines._bodies import Branches, Pieces
    from thinflow.engines._units import Division
    from thinflow.interpreter import Plan
    from thinflow.ir.graph import Graph, Node, Value

Array: TypeAlias = np.ndarray[Any, Any]
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
    """The part of running by regions that differs by engine.

    Attributes:
        name: the engine's name, for the placement.
        unsupported: why it cannot run nodes; those it can are missing.
        lowered: a region as a model. May raise UnsupportedOp or EngineUnavailable.
        unsupported_unit: why it cannot run a loop or branches, given by what goes in and out; "" if it can.
            None if it never can.
        exchanged: whether it can be handed arrays of a type (by name); resources and variants never can.
        inner: values that it computes with and cannot hand out, so that their readers have to be there, too.
        culprits: why it refuses nodes of a region that turned out to be refused; the graph is then cut anew,
            without them.
    """

    name: str
    unsupported: Callable[[Graph, Iterable[Node]], dict[Node, str]]
    lowered: Callable[[Graph, Region, int], Model]
    unsupported_unit: Callable[[Graph, Sequence[Value], Sequence[Value]], str] | None = None
    exchanged: Callable[[str], bool] = lambda _: True
    inner: Callable[[Graph], Collection[Value]] = lambda _: ()
    culprits: Callable[[Graph, Region], Mapping[Node, str]] = lambda *_: {}


def compile_regions(
    backend: Backend, graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value], threads: int
) -> Compiled:
    """The graph cut into regions, each ready to run."""
    from thinflow.engines._bodies import Pieces

    at_once = inter_op_threads()

    def cut(part: Graph, fed: Sequence[Value], wanted: Sequence[Value], pieces: Pieces) -> _Compiled:
        # A context variable does not last from preparing to running, hence the number from then.
        with side_by_side(at_once):  # a body is cut when it first runs
            return _cut(backend, part, fed, wanted, threads, pieces, is_body=True)

    return _cut(backend, graph, inputs, outputs, threads, Pieces(backend.name, graph.functions, cut))


def _cut(
    backend: Backend,
    graph: Graph,
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    threads: int,
    bodies: Pieces,
    *,
    is_body: bool = False,
) -> _Compiled:
    """One graph, or one body of those that it calls, cut into regions."""
    from thinflow.analysis.shapes import infer_with_loops
    from thinflow.engines import partition
    from thinflow.engines._units import divide
    from thinflow.interpreter import Plan

    # Engines ask for shapes, and a loop's follow from what goes round in it.
    infer_with_loops(graph, {v: v.spec for v in inputs if v.spec.shape is not None})
    division = divide(Plan(graph, outputs, inputs), backend.inner(graph))
    refused = division.refused(graph, inputs, outputs, backend.unsupported, backend.unsupported_unit)
    refused |= {n: "it prints, which no engine does" for n in division.nodes if n.op == "Print"}
    for unit in division.units:
        # Values within a unit never cross a border, so their types do not matter.
        inside = set(unit) if len(unit) > 1 else set()
        read = (why for n in unit if n not in refused and (why := _unreadable(backend, n, inside)))
        why = next(read, "")
        refused |= dict.fromkeys(unit, why) if why else {}
    while True:
        # A graph that the engine runs whole has no border that could be saved; a body always has.
        too_small = partition.too_small if refused or is_body else lambda _: ""
        regions, left = partition.partition(
            division.nodes,
            inputs,
            outputs,
            refused,
            too_small,
            units=division.units,
            constants=division.constants,
            alone=division.branchings,
        )
        pieces = [_Piece(backend, graph, r, threads, bodies) for r in regions]
        found = _culprits(backend, graph, pieces, division)
        if not found:
            break
        # At least one node fewer is left to the engine, so it ends.
        refused |= found
    for piece in pieces:
        branching = division.branchings.get(piece.region.nodes[0])
        if branching is not None and not piece.region.on_engine:
            piece.take_branches(bodies.branches(graph, branching, division.constants))
    return _Compiled(backend.name, pieces, inputs, outputs, refused | left, bodies, threads)


def _culprits(
    backend: Backend, graph: Graph, pieces: Iterable[_Piece], division: Division
) -> dict[Node, str]:
    """The nodes for whose sake the engine refused whole regions, with the units that they are in."""
    found = {n: why for p in pieces if p.refusal for n, why in backend.culprits(graph, p.region).items()}
    if not found:
        return {}
    unit_of = {node: unit for unit in division.units for node in unit}
    return {n: why for node, why in found.items() for n in unit_of.get(node, [node])}


def _unreadable(backend: Backend, node: Node, inside: Collection[Node]) -> str:
    """The reason against handing the engine an input of the node from outside its unit; empty if none."""
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

    def __init__(self, backend: Backend, graph: Graph, region: Region, threads: int, bodies: Pieces) -> None:
        self.region = region
        self.refusal = ""
        self._bodies = bodies
        self._graph = graph
        self._plan: Plan | None = None
        self._model: Model | None = None
        self._branches: Branches | None = None
        self._reads_variables = any(map(_is_reference, region.inputs))
        # A region without outputs computes nothing that anybody reads; it runs for its effects, in the
        # interpreter.
        if region.on_engine and region.outputs:
            try:
                self._model = backend.lowered(graph, region, threads)
            except (UnsupportedOp, EngineUnavailable) as error:
                self.refusal = error.message

    def take_branches(self, branches: Branches | None) -> None:
        """Let this run the region, which is a branching, where it can."""
        if branches is None or not set(branches.inputs) <= set(self.region.inputs):
            return
        if set(self.region.outputs) <= set(branches.outputs):
            self._branches = branches

    @property
    def runs_on_engine(self) -> bool:
        return self._model is not None

    def run_on_engine(self, arrays: Sequence[Any]) -> list[Array] | None:
        """What the engine computes; None if the region is not on it, or not any more."""
        if self._model is None:
            return None
        try:
            return self._model.run([dereferenced(a) for a in arrays] if self._reads_variables else arrays)
        except (EngineUnavailable, FeedError) as error:
            logger.info("falling back to the interpreter: %s", error.message)
            # For good: a model that failed may be in any state, and trying in vain would cost in every run.
            self.refusal, self._model = error.message, None
            return None

    def run(self, arrays: Sequence[Any]) -> Sequence[Any]:
        if (computed := self.run_on_engine(arrays)) is not None:
            return computed
        if self._branches is not None:
            values = dict(zip(self.region.inputs, arrays, strict=True))
            results = self._branches.compute([values[v] for v in self._branches.inputs])
            if results is not None:
                made = dict(zip(self._branches.outputs, results, strict=True))
                return [made[v] for v in self.region.outputs]
        if self._plan is None:
            from thinflow.interpreter import Plan

            self._plan = Plan(
                self._graph,
                self.region.outputs,
                self.region.inputs,
                # A plan runs what its outputs need: an Assert that only another region waits for would be
                # left out.
                targets=_waited_for(self.region),
                within=frozenset(self.region.nodes),
                bodies=self._bodies.bodies,
                loop_runners=self._bodies.loop_runner,
            )
        return self._plan.compute(arrays)


def _waited_for(region: Region) -> list[Node]:
    """The nodes of a region that only nodes of other regions wait for, such as an Assert."""
    inside = set(region.nodes)
    read = {v.node for v in region.outputs}
    return [
        node
        for node in region.nodes
        if node not in read
        and node.control_outputs
        and not inside.intersection(node.control_outputs)
        and not any(reader in inside for value in node.outputs for reader in value.readers)
    ]


class _Compiled:
    def __init__(
        self,
        name: str,
        pieces: list[_Piece],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        refused: Mapping[Node, str],
        bodies: Pieces,
        threads: int,
    ) -> None:
        self._name = name
        self._threads = threads
        self._bodies = bodies
        self.pieces = pieces
        """The regions, ready to run, in running order."""
        self._inputs = list(inputs)
        self._outputs = list(outputs)
        self._refused = refused
        self._constants = {v: _constant(v) for v in outputs if v.node.tensor is not None}
        # One region that takes what is fed and gives what is wanted needs no book of values, which takes
        # microseconds.
        ends = [(p.region.inputs, p.region.outputs) for p in pieces]
        self._whole = pieces[0] if ends == [(self._inputs, self._outputs)] else None

    @property
    def placement(self) -> dict[str, str]:
        """With the nodes of bodies that the engine has run so far."""
        here = {
            n.name: self._name if p.runs_on_engine else "reference"
            for p in self.pieces
            for n in p.region.nodes
        }
        return here | self._bodies.placement

    @property
    def reasons(self) -> dict[str, str]:
        reasons = {n.name: why for n, why in self._refused.items()}
        for piece in self.pieces:
            if piece.refusal:
                reasons.update((n.name, piece.refusal) for n in piece.region.nodes)
        on_engine = self._bodies.placement
        reasons |= self._bodies.reasons
        return {name: why for name, why in reasons.items() if name not in on_engine}

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        if self._whole is not None and (whole := self._whole.run_on_engine(inputs)) is not None:
            return whole
        from thinflow.interpreter import as_array

        # To set the number of threads takes locks and calls, which a run of microseconds would feel.
        if all(piece.runs_on_engine for piece in self.pieces):
            computed = self.compute(inputs)
        else:  # the interpreter's matrix products keep to the number of threads, too
            with blas().limited(self._threads):
                computed = self.compute(inputs)
        results = zip(self._outputs, computed, strict=True)
        return [r if type(r) is np.ndarray else as_array(v, r) for v, r in results]

    def compute(self, inputs: Sequence[Any]) -> list[Any]:
        """As `run`; what is no array comes as it is, and may go in."""
        values: dict[Value, Any] = dict(zip(self._inputs, inputs, strict=True)) | self._constants
        for piece in self.pieces:
            region = piece.region
            values.update(zip(region.outputs, piece.run([values[v] for v in region.inputs]), strict=True))
        return [values[v] for v in self._outputs]


def _is_reference(value: Value) -> bool:
    return has(value.node.op, Trait.GIVES_REFERENCE)


def _constant(value: Value) -> Array:
    tensor = value.node.tensor
    assert tensor is not None
    return tensor.numpy()
