"""Indivisible groups of nodes, which have to run in one place: loops, branches, users of one array or list.

Whoever runs a loop runs all of it, and an array that one side has made is of no use to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from thinflow.control_flow.steps import Branching, Step, constant_nodes, gathered, nodes_of
from thinflow.interpreter import Plan
from thinflow.ir.disjoint_sets import DisjointSets
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import VARIANT
from thinflow.ops.traits import Trait, has

Unsupported = Callable[[Graph, Iterable[Node]], dict[Node, str]]
UnsupportedUnit = Callable[[Graph, Sequence[Value], Sequence[Value]], str]

_CARRIES = Trait.IDENTITY | Trait.ENTER | Trait.MERGE | Trait.SWITCH | Trait.NEXT_ITERATION | Trait.EXIT
"""Hands an array or list on as it is."""


@dataclass
class Division:
    """A graph's nodes as units that run in one place.

    Attributes:
        units: in an order in which they can run; most are a single node.
        constants: nodes that are computed from constants alone. They are in no unit: whoever reads them
            computes them. Empty in a graph without loops, branches and arrays.
        branchings: first node of a unit -> the branching of TF1 that it is, and nothing else.
    """

    units: list[list[Node]]
    constants: list[Node] = field(default_factory=list)
    branchings: dict[Node, Branching] = field(default_factory=dict)

    @property
    def nodes(self) -> list[Node]:
        """Every node, constants included."""
        return [*self.constants, *(n for unit in self.units for n in unit)]

    def refused(
        self,
        graph: Graph,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        unsupported: Unsupported,
        unsupported_unit: UnsupportedUnit | None,
    ) -> dict[Node, str]:
        """Node -> why an engine does not run it: itself, or the unit it is in."""
        singles = [unit[0] for unit in self.units if len(unit) == 1 and unit[0].tensor is None]
        found = unsupported(graph, singles)
        among = set(self.nodes)
        for unit in self.units:
            if len(unit) > 1:
                why = "it is part of a loop, or of what handles an array"
                if unsupported_unit is not None:
                    why = unsupported_unit(graph, *_border(unit, among, outputs, inputs))
                found |= dict.fromkeys(unit, why) if why else {}
        return found


def divide(plan: Plan, inner: Collection[Value] = ()) -> Division:
    """The nodes of a plan in units. O(nodes + edges).

    Args:
        inner: values that cannot leave the place where they are made.
    """
    steps = gathered(plan.steps)
    groups = [nodes_of(step) for step in steps]
    together: DisjointSets[Node] = DisjointSets(n for group in groups for n in group)
    for group in groups:
        together.join(group)
    _join_arrays(together)
    # Such a value never leaves the engine, so the engine has to run all of its readers or none.
    for value in inner:
        together.join([n for n in (value.node, *value.readers) if n in together])
    # Most graphs have no loops, branches and arrays, and need no sorting of groups.
    if all(together.is_alone(n) for n in together):
        return Division([[n] for n in plan.nodes])
    wanted = {v.node for v in plan.outputs}
    found = constant_nodes(n for group in groups for n in group)
    # A constant that is read on both sides would tie them together; computed twice, it ties nothing.
    constants = [n for n in found if n not in wanted and together.is_alone(n)]
    units = _sorted(together, set(constants))
    return Division(units, constants, _branchings(units, steps, set(constants)))


def _branchings(
    units: Sequence[Sequence[Node]], steps: Sequence[Step], constants: set[Node]
) -> dict[Node, Branching]:
    by_nodes = {frozenset(nodes_of(s)) - constants: s for s in steps if isinstance(s, Branching)}
    found = ((unit[0], by_nodes.get(frozenset(unit))) for unit in units)
    return {node: branching for node, branching in found if branching is not None}


def _join_arrays(together: DisjointSets[Node]) -> None:
    """Put all that touch one array or list together."""
    stack = [v for n in list(together) for v in n.outputs if _is_array(v)]
    seen = set(stack)
    while stack:
        value = stack.pop()
        readers = [r for r in value.readers if r in together]
        together.join([value.node, *readers] if value.node in together else readers)
        for reader in readers:
            if has(reader.op, _CARRIES):
                # A Merge gives the number of its branch beside the value, which is a plain tensor.
                passed = [v for v in reader.outputs if v not in seen and v.dtype == value.dtype]
                seen.update(passed)
                stack += passed


def _is_array(value: Value) -> bool:
    # Its other outputs (sizes, what is read) are plain tensors, and bind nobody.
    if value.node.op.startswith("TensorArray"):
        return has(value.node.op, Trait.TENSOR_ARRAY | Trait.TENSOR_ARRAY_WRITE)
    return value.dtype is VARIANT


def _sorted(together: DisjointSets[Node], constants: set[Node]) -> list[list[Node]]:
    """Groups in an order in which they can run; those that need each other are one unit."""
    members: dict[Node, list[Node]] = {}
    for node in together:
        if node not in constants:
            members.setdefault(together.find(node), []).append(node)
    before: dict[Node, list[Node]] = {}
    for root, nodes in members.items():
        producers = [p for n in nodes for p in (*(v.node for v in n.inputs), *n.control_inputs)]
        roots = dict.fromkeys(together.find(p) for p in producers if p in together and p not in constants)
        before[root] = [r for r in roots if r is not root]
    return [[n for root in component for n in members[root]] for component in _components(before)]


def _components(before: Mapping[Node, Sequence[Node]]) -> Iterator[list[Node]]:
    """Nodes that need each other, each set behind those it needs.

    Tarjan's strongly connected components, without recursion.

    Args:
        before: node -> those it needs.
    """
    number: dict[Node, int] = {}
    low: dict[Node, int] = {}
    open_: dict[Node, None] = {}
    for start in before:
        if start in number:
            continue
        stack = [(start, iter(before[start]))]
        number[start] = low[start] = len(number)
        open_[start] = None
        while stack:
            node, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                stack.pop()
                if stack:
                    above = stack[-1][0]
                    low[above] = min(low[above], low[node])
                # Nothing above it on the stack leads further back: the component is whole.
                if low[node] == number[node]:
                    yield _closed(open_, node)
            elif following not in number:
                number[following] = low[following] = len(number)
                open_[following] = None
                stack.append((following, iter(before[following])))
            # Only what is on the stack can be in the same component; what was closed before is another one.
            elif following in open_:
                low[node] = min(low[node], number[following])


def _closed(open_: dict[Node, None], first: Node) -> list[Node]:
    """Take the nodes from the first one on, in their order."""
    component: list[Node] = []
    while not component or component[-1] is not first:
        component.append(open_.popitem()[0])
    return component[::-1]


def _border(
    unit: Sequence[Node], among: set[Node], wanted: Sequence[Value], fed: Sequence[Value]
) -> tuple[list[Value], list[Value]]:
    """Values that a unit reads from outside, and those that others read of it."""
    inside = set(unit)
    read = dict.fromkeys(v for n in unit for v in n.inputs if v.node not in inside or v in fed)
    made = dict.fromkeys(
        v
        for n in unit
        for v in n.outputs
        if v in wanted or any(r in among and r not in inside for r in v.readers)
    )
    return list(read), list(made)
