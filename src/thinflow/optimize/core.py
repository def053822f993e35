"""The core: the subgraph that is offloaded to one model, with the prologue and epilogue around it.

A model for phones starts where the numbers start: decoding a WAV file or a JPEG is the app's business, and so
is what a detector does with its boxes. The core is the heaviest region LiteRT can run whole; before and after
it the interpreter runs, so that the whole graph can still be judged on real files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from thinflow.analysis.cost import graph_cost
from thinflow.analysis.interface import is_heavy
from thinflow.analysis.shapes import declared_spec, infer_with_loops
from thinflow.analysis.tables import fixed_tables
from thinflow.engines._units import Division, UnsupportedUnit, divide
from thinflow.engines.partition import Region, partition
from thinflow.errors import UnsupportedOp
from thinflow.interpreter import Plan
from thinflow.ir.brief import brief_repr
from thinflow.ir.function import mentioned
from thinflow.ir.graph import Graph, Node, Value, library_of
from thinflow.ir.interface import State, states_of, without_states
from thinflow.ir.types import BFLOAT16, HALF, STRING, TensorSpec
from thinflow.lower.building import MISFIT
from thinflow.lower.operands import WIDENING
from thinflow.lower.tflite.convert import unsupported, unsupported_unit
from thinflow.lower.tflite.quantized_context import inner_values
from thinflow.ops.traits import Trait, has
from thinflow.synthetic import concrete_shape, fitting_specs
from thinflow.typing import Array

_CONTRADICTION = "its sizes contradict each other: give others with --shape, or export it again"
# Nobody knows before the run how often a loop turns. Any number above a few makes the body of a loop heavier
# than the nodes around it, which is all that weighing regions needs.
_ITERATIONS = 10
"""The number of iterations that a loop is taken to run."""
_PRODUCTS = frozenset({"MatMul"})
"""Also what a classifier at the end of a loop does, so that it does not make the rest the work of a model."""


@brief_repr
@dataclass
class Core:
    """A graph cut into what runs before, inside and after the LiteRT model.

    Attributes:
        graph: the graph that was cut.
        inputs, outputs: what goes into the LiteRT model and comes out of it.
        nodes: what the model holds.
        outside: node -> why it is not in the model; empty when everything is.
        runtime: what the model is for.
    """

    graph: Graph
    inputs: list[Value]
    outputs: list[Value]
    nodes: list[Node]
    outside: dict[Node, str]
    runtime: str = "LiteRT"

    def __post_init__(self) -> None:
        fed = self.graph.inputs
        ahead = [v for v in self.inputs if v not in fed]
        # Plans are made once: `before` and `after` are called for each sample.
        self._before = Plan(self.graph, ahead, fed) if ahead else None
        self._ahead = ahead
        # What the end needs from elsewhere: results of the core, fed inputs, and values made before the core.
        self._is_whole = all(v in self.outputs for v in self.graph.outputs)
        self._after = None if self._is_whole else Plan(self.graph, self.graph.outputs, [*self.outputs, *fed])

    @property
    def states(self) -> list[State]:
        """The states of the graph that the model has a part in."""
        known = {*self.inputs, *self.outputs}
        return [s for s in states_of(self.graph) if s.input in known or s.output in known]

    @property
    def fed(self) -> list[Value]:
        """The inputs that the app feeds: those that are no states."""
        return without_states(self.graph, self.inputs)

    @property
    def given(self) -> list[Value]:
        """The outputs that the app gets."""
        return without_states(self.graph, self.outputs)

    def before(self, feed: Mapping[Value, Array]) -> list[Array]:
        """The core's inputs for a feed of the whole graph."""
        made = dict(feed)
        if self._before is not None:
            made.update(zip(self._ahead, self._before.run(dict(feed)), strict=True))
        return [made[v] for v in self.inputs]

    def after(self, results: Sequence[Array], feed: Mapping[Value, Array]) -> list[Array]:
        """The whole graph's outputs from the core's."""
        made = dict(zip(self.outputs, results, strict=True))
        if self._after is None:
            return [made[v] for v in self.graph.outputs]
        return self._after.run({**feed, **made})


def whole_with_texts(graph: Graph, find: Callable[..., Core]) -> Core:
    """The core, text included where that makes it the whole graph; else what handles text is for the app.

    Args:
        find: as `find_core`, but for the graph.
    """
    # Tried with text only where there is some; and text in a part is no good, as the app would have to feed
    # words to a part.
    if any(map(_handles_text, graph)):
        try:
            core = find(graph, texts=True)
        except UnsupportedOp:
            return find(graph)
        if set(core.inputs) <= set(graph.inputs) and set(graph.outputs) <= set(core.outputs):
            return core
    return find(graph)


Unsupported = Callable[..., dict[Node, str]]
BESIDE = "it stands before or after a node that"
"""The beginning of the reason that is no node's own."""


def find_core(
    graph: Graph,
    unsupported: Unsupported = unsupported,
    runtime: str = "LiteRT",
    unsupported_unit: UnsupportedUnit | None = None,
    *,
    one_sample: bool = True,
    texts: bool = False,
) -> Core:
    """The heaviest region that a runtime can run as one model. Shape inference must have run.

    Loops and branches are part of it if the runtime's form can hold them.

    Args:
        graph: with inputs and outputs set.
        unsupported: why the runtime's form cannot hold nodes, as `lower.tflite.convert.unsupported` says it.
        runtime: its name, for messages.
        unsupported_unit: the same for a loop or branches, by what goes in and out; default: as LiteRT if
            that is the runtime, else none is supported.
        texts: whether the model may take and give strings; if not, what handles text stays outside.

    Raises:
        UnsupportedOp: it can run nothing that computes; names the first reason.
    """
    # Only LiteRT's rules for loops are known here; a maker of other models brings its own.
    if runtime == "LiteRT" and unsupported_unit is None:
        unsupported_unit = _unit_unsupported_by_litert
    division, together = _divided(graph, runtime)
    declared = {v: v.spec for v in graph.inputs}
    # Loops keep shapes from turn to turn, which takes a known batch to see; it is opened again below.
    if together and one_sample:
        infer_with_loops(graph, {v: _one_sample(spec) for v, spec in declared.items()})
    refused = division.refused(
        graph, graph.inputs, graph.outputs, partial(unsupported, specs={}), unsupported_unit
    )
    if not texts:
        refused |= {n: "it handles text, which is for the app" for n in division.nodes if _handles_text(n)}
        refused |= {n: "it lays out words, which are for the app" for n in _laying_out_words(division.nodes)}
    core = _heaviest_region(graph, division, refused, runtime)
    # A model of what is around the loop would be small, valid and useless.
    if (lost := _lost_loop(division.nodes, refused, core.nodes, together)) is not None:
        raise _loop_error(graph, lost, refused[lost], runtime)
    if together and one_sample:
        infer_with_loops(graph, declared)
    # Constants go wherever they are read.
    inside = {*core.nodes, *division.constants}
    reason = f"{BESIDE} {runtime} cannot run"
    outside = {n: refused.get(n, reason) for n in division.nodes if n.tensor is None and n not in inside}
    # A constant output is nobody's work, but the file has to hand it out.
    given = [v for v in graph.outputs if v.node.tensor is not None and (texts or v.dtype is not STRING)]
    inputs = _ordered(core.inputs, graph.inputs)
    outputs = _ordered([*core.outputs, *given], graph.outputs)
    return Core(graph, inputs, outputs, core.nodes, outside, runtime)


def _divided(graph: Graph, runtime: str) -> tuple[Division, set[Node]]:
    """The graph in units that run as one each; and the nodes of those units that have more than one."""
    plan = Plan(graph, graph.outputs, graph.inputs)
    division = divide(plan)
    together = {n for unit in division.units if len(unit) > 1 for n in unit}
    inner = inner_values(graph) if runtime == "LiteRT" else ()
    return _with_fixed_tables(divide(plan, inner) if inner else division, graph), together


def _with_fixed_tables(division: Division, graph: Graph) -> Division:
    """Tables whose content is known are constants: whoever looks something up knows what they hold."""
    tables = fixed_tables(graph)
    if not tables:
        return division
    units = [left for unit in division.units if (left := [n for n in unit if n not in tables])]
    constants = [*division.constants, *(n for n in division.nodes if n in tables)]
    return replace(division, units=units, constants=constants)


def _heaviest_region(graph: Graph, division: Division, refused: dict[Node, str], runtime: str) -> Region:
    """The region with the most work of those a runtime can run.

    Raises:
        UnsupportedOp: there is none.
    """
    cut, _ = partition(
        division.nodes,
        graph.inputs,
        graph.outputs,
        refused,
        units=division.units,
        constants=division.constants,
    )
    regions = [r for r in cut if r.on_engine and r.outputs]
    if not regions:
        node, why = next(iter(refused.items()), (None, "there is nothing to compute"))
        raise UnsupportedOp(
            f"no part of the graph can become a model for {runtime}: {why}",
            node.where if node is not None else "",
            hint=narrow_advice(refused)
            or (_CONTRADICTION if why.startswith(MISFIT) else "")
            or "`thinflow inspect MODEL` shows its ops; the reference engine still runs it",
        )
    # Nodes count as well, so that regions without any known work do not tie at 0.
    weights = [graph_cost(graph, r.nodes).total.flops + sum(map(_node_count, r.nodes)) for r in regions]
    # The first of equally heavy ones, in running order.
    return regions[int(np.argmax(weights))]


def _loop_error(graph: Graph, lost: Node, why: str, runtime: str) -> UnsupportedOp:
    """The error where the work is done in a loop or branches that the runtime cannot hold."""
    advice = f"{known}; " if (known := shape_advice(graph.inputs)) else ""
    return UnsupportedOp(
        f"the work of this model is done inside a loop that {runtime} models cannot hold: {why}",
        lost.where,
        hint=advice + _loop_advice(lost),
    )


def narrow_advice(nodes: Iterable[Node]) -> str:
    """Advice if nodes compute in half precision or bfloat16; "" if none does."""
    values = (v for n in nodes for v in (*n.inputs, *n.outputs))
    return WIDENING if any(v.dtype in (HALF, BFLOAT16) for v in values) else ""


def shape_advice(inputs: Sequence[Value]) -> str:
    """Advice to fix sizes beyond the batch that inputs leave open, so that more is converted; "" if none."""
    specs, fitting = {v: declared_spec(v) for v in inputs}, fitting_specs(inputs)
    sizes = [
        f"--shape {v.name}={','.join(map(str, concrete_shape(fitting.get(v, spec))))}"
        for v, spec in specs.items()
        if spec.shape and None in spec.shape[1:]
    ]
    return f"if its sizes are known, fix them, such as {' '.join(sizes)}" if sizes else ""


def _loop_advice(lost: Node) -> str:
    if not calls_inside(lost):
        return "`thinflow transform -t raise_control_flow` makes a While of it, or says why it cannot"
    return (
        "`thinflow run` runs it; for a TensorFlow without functions `lower_control_flow` writes it as frames"
    )


def _node_count(node: Node) -> int:
    """The number of nodes that run for a node, about: those in a loop in every iteration."""
    return 1 + len(calls_inside(node)) * (_ITERATIONS if has(node.op, Trait.WHILE) else 1)


def _lost_loop(
    nodes: Sequence[Node], refused: Mapping[Node, str], core: Sequence[Node], together: Collection[Node]
) -> Node | None:
    """A loop or a branching that is refused and does the work, so that no model without it is of use."""
    missing: list[Node] = []
    # A core with real work of its own stands without the loop; one of matrix products alone may be just the
    # classifier behind.
    if not any(is_heavy(n.op) and n.op not in _PRODUCTS for n in core):
        missing += [n for n in nodes if n in together and n in refused]
    contained = [m for n in core for m in (n, *calls_inside(n))]
    if not any(is_heavy(n.op) for n in contained):
        calls = [(n, calls_inside(n)) for n in nodes if n in refused]
        missing += [
            n for n, inside in calls if len(inside) > len(contained) and any(is_heavy(m.op) for m in inside)
        ]
    return next((n for n in missing if calls_inside(n)), missing[0] if missing else None)


def calls_inside(node: Node) -> list[Node]:
    """The nodes of the functions that a node calls, directly or through others; those of each once."""
    library = library_of(node)
    found: list[Node] = []
    seen: set[str] = set()
    stack = [node]
    while stack:
        for name in mentioned(stack.pop()):
            if name in library and name not in seen:
                seen.add(name)
                found += library[name].graph
                # Each function once, however often it is called:
                # functions may call each other, and in circles.
                stack += library[name].graph
    return found


def _unit_unsupported_by_litert(graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value]) -> str:
    return unsupported_unit(graph, inputs, outputs, specs={})


def _one_sample(spec: TensorSpec) -> TensorSpec:
    """A spec with a batch of one where the batch is all that is open."""
    if spec.shape and spec.shape[0] is None and None not in spec.shape[1:]:
        return spec.with_shape((1, *spec.shape[1:]))
    return spec


def _handles_text(node: Node) -> bool:
    return any(value.dtype is STRING for value in (*node.inputs, *node.outputs))


def _laying_out_words(nodes: Sequence[Node]) -> list[Node]:
    """Nodes that make one tensor of the words that text was split into: an app feeds that, not parts.

    Args:
        nodes: in an order in which they can run.
    """
    of_text: set[Node] = set()
    for node in nodes:
        if _handles_text(node) or any(v.node in of_text for v in node.inputs):
            of_text.add(node)
    found = (n for n in nodes if n in of_text and n.op == "RaggedTensorToTensor")
    return [n for n in found if (kind := n.output().dtype) is not None and kind.is_integer]


def _ordered(values: Sequence[Value], wanted: Sequence[Value]) -> list[Value]:
    """Those the graph itself has come first and in its order, since programs count on positions."""
    found = set(values)
    first = [v for v in wanted if v in found]
    return first + [v for v in values if v not in first]
