"""Cost of a run: operations per node, parameters, bytes by type, peak memory of the values between nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from thinflow.analysis import foreign
from thinflow.analysis.call_costs import CallCosts, Turns
from thinflow.analysis.foreign_rules import UNTOLD
from thinflow.errors import ThinflowError
from thinflow.ir.brief import brief_repr
from thinflow.ir.function import ARGUMENT
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ops import registry
from thinflow.ops.registry import Cost
from thinflow.ops.traits import Trait, ops_with

_UNSIZED = "its sizes are not known"


@brief_repr
@dataclass
class GraphCost:
    """Operations of one run.

    Attributes:
        total: over all nodes whose sizes are known.
        by_node: node name -> its cost, for nodes above zero.
        unknown: nodes whose cost cannot be told (unknown sizes or ops), with the reason.
    """

    total: Cost = field(default_factory=Cost)
    by_node: dict[str, Cost] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def unsized(self) -> int:
        """How many nodes have sizes that are not known."""
        return sum(why == _UNSIZED for why in self.unknown.values())

    @property
    def others(self) -> dict[str, str]:
        """Nodes whose cost cannot be told for other reasons, with the reason."""
        return {name: why for name, why in self.unknown.items() if why != _UNSIZED}

    @property
    def layers_are_counted(self) -> bool:
        """False where something is missing, and nothing that multiplies is among what was counted: what is
        left is arithmetic with sizes.
        """
        return not self.unknown or self.total.macs > 0


def graph_cost(graph: Graph, nodes: Sequence[Node] | None = None, *, turns: Turns | None = None) -> GraphCost:
    """Operations per run; needs `infer_shapes` to have set the specs.

    Args:
        graph: the graph.
        nodes: only these (what an output needs); default all.
        turns: tells how often loops turn, so that what nodes call counts as theirs; without it the bodies of
            functions are not looked into.
    """
    # Nothing can be called in a graph without functions, as most are.
    calls = None if turns is None or not graph.functions else CallCosts(graph, _body_cost, turns)
    return _cost(nodes if nodes is not None else graph, calls)


def _body_cost(graph: Graph, calls: CallCosts) -> tuple[Cost, str]:
    found = _cost(graph, calls)
    return found.total, next(iter(found.unknown.values()), "")


def _cost(nodes: Iterable[Node], calls: CallCosts | None) -> GraphCost:
    result = GraphCost()
    for node in nodes:
        given = node.outputs
        if not given or node.tensor is not None or node.op == ARGUMENT:
            continue
        if calls is not None and (called := calls.of(node)) is not None:
            cost, why = called
            if why:
                result.unknown[node.name] = why
            if cost.flops:
                result.by_node[node.name] = cost
                result.total += cost
            continue
        if foreign.is_foreign(node.op):
            _add_foreign(node, result)
            continue
        definition = registry.find(node.op)
        if definition is None:
            result.unknown[node.name] = f"unknown op {node.op}"
            continue
        outputs, inputs = [v.spec for v in given], [v.spec for v in node.inputs]
        # Without a rule it costs an operation per element of its outputs, or none if it passes its input on.
        sized = (*outputs[:1], *inputs) if definition.cost is not None else outputs
        if not all([s.is_static for s in sized]):
            if definition.cost is not None or not definition.has(Trait.PASSES_THROUGH):
                result.unknown[node.name] = _UNSIZED
            continue
        try:
            cost = registry.call_cost(definition, outputs, inputs, node.attrs)
        except (ThinflowError, *registry.RULE_ERRORS):
            result.unknown[node.name] = "its inputs do not fit"
            continue
        if cost.flops:
            result.by_node[node.name] = cost
            result.total += cost
    return result


def _add_foreign(node: Node, result: GraphCost) -> None:
    """The cost of a node of another vocabulary."""
    if not foreign.is_counted(node.op):
        result.unknown[node.name] = f"unknown op {node.op}"
        return
    if node.op in UNTOLD:
        result.unknown[node.name] = UNTOLD[node.op]
        return
    try:
        cost = foreign.cost(node, [v.spec for v in node.outputs], [v.spec for v in node.inputs])
    except registry.RULE_ERRORS:
        result.unknown[node.name] = "its inputs do not fit"
        return
    if cost is None:
        result.unknown[node.name] = _UNSIZED
    elif cost.flops:
        result.by_node[node.name] = cost
        result.total += cost


@brief_repr
@dataclass
class Parameters:
    """Constants of a graph.

    Attributes:
        count: elements of all constants.
        bytes_by_dtype: type name -> bytes as stored in the file.
        largest: (node name, type, shape as text, bytes), biggest first.
        in_functions: elements of the constants in the bodies of functions, which are not among these.
    """

    count: int = 0
    bytes_by_dtype: dict[str, int] = field(default_factory=dict)
    largest: list[tuple[str, str, str, int]] = field(default_factory=list)
    in_functions: int = 0


def parameters(graph: Graph, largest: int = 10) -> Parameters:
    """Count constants without reading them."""
    count = 0
    stored: Counter[str] = Counter()
    sizes: list[tuple[int, str, Node]] = []
    for node in graph:
        tensor = node.tensor
        if tensor is None:
            continue
        count += tensor.size
        size = tensor.storage.stored_bytes
        stored[tensor.dtype.name] += size
        sizes.append((size, node.name, node))
    sizes.sort(key=lambda s: (-s[0], s[1]))
    top = []
    for size, name, node in sizes[:largest]:
        tensor = node.tensor
        assert tensor is not None
        top.append((name, tensor.dtype.name, "[" + ",".join(map(str, tensor.shape)) + "]", size))
    bodies = [node.tensor for function in graph.functions.values() for node in function.graph]
    in_functions = sum(tensor.size for tensor in bodies if tensor is not None)
    return Parameters(count, dict(stored.most_common()), top, in_functions)


# --- peak memory --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Peak:
    """The worst moment of a run.

    Attributes:
        size_bytes: activations alive at once; constants do not count.
        node: name of the node that runs then.
        complete: whether every size was known.
    """

    size_bytes: int
    node: str
    complete: bool


def peak_activations(order: Sequence[Node], outputs: Sequence[Value]) -> Peak:
    """Peak of the activations if nodes run in this order and values are dropped after their last use.

    Pass-through nodes share their input's memory. O(nodes + edges).
    """
    # By name of the op, not by trait: this is asked several times at every node.
    passing = ops_with(Trait.PASSES_THROUGH)
    last_use: dict[Value, int] = {}
    # What nobody reads dies right after the node that makes it, though it takes memory meanwhile.
    for index, node in enumerate(order):
        for value in node.outputs:
            last_use[_owner(value, passing)] = index
        for value in node.inputs:
            last_use[_owner(value, passing)] = index
    for value in outputs:
        # Behind the last node: results outlive the run.
        last_use[_owner(value, passing)] = len(order)
    ends: dict[int, list[Value]] = {}
    for value, index in last_use.items():
        ends.setdefault(index, []).append(value)
    alive = peak = 0
    where, complete = "", True
    for index, node in enumerate(order):
        if node.tensor is None:
            for value in node.outputs:
                if _owner(value, passing) is value and value in last_use:
                    size = value.spec.size_bytes
                    complete &= size is not None
                    alive += size or 0
            # Inputs and outputs of the node at hand are both alive here: what it read last is dropped below.
            if alive > peak:
                peak, where = alive, node.name
        for value in ends.get(index, ()):
            if value.node.tensor is None:
                alive -= value.spec.size_bytes or 0
    return Peak(peak, where, complete)


def _owner(value: Value, passing: Collection[str]) -> Value:
    """The value whose memory this one shares; `passing` are the ops that pass their input on."""
    # Of several outputs only the first passes the input on.
    while value.node.op in passing and value.port == 0 and value.node.inputs:
        value = value.node.inputs[0]
    return value
