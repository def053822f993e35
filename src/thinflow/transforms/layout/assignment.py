"""Chooses the order of axes in which each node works, so that the fewest elements have to be moved.

Transposes are taken for what they are, another order in which a value is read. What costs is a value that is
given in one order and read in another. From every such place other ways of working are proposed to the nodes
around, as far as they go; which nodes take them is the smallest cut of a graph. This is repeated until
nothing becomes cheaper.
"""

from __future__ import annotations

import math
from collections import ChainMap, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.rewrite.pattern import constant_tensor
from thinflow.transforms.layout.cut import NO, YES, Choices
from thinflow.transforms.layout.plans import Perm, Plan, inverse
from thinflow.transforms.layout.ways import Way, giving, reading
from thinflow.transforms.shared.constants import side_outputs

Ways = Mapping[Node, Way | None]
"""Node -> its way; nodes without one, or with None, work as they are."""


_AS_IT_IS = Way({}, {}, Plan((), []))
_EACH = 1000
"""The price of a transpose, of which that for its elements is a share."""
_RESHAPE = 1
"""The price of moving axes of size 1."""
_NEVER = 1 << 40


class Turn(NamedTuple):
    """Who is asked first: nodes behind a place, before it, or both; from the first place on or the last."""

    behind: bool
    before: bool
    forwards: bool


_TURNS = (Turn(True, False, True), Turn(False, True, False), Turn(True, True, True), Turn(True, True, False))


class Read(NamedTuple):
    """A node, or the end of the graph if None, that reads a value through transposes."""

    node: Node | None
    place: int
    perm: Perm


@dataclass
class Flow:
    """A value, and all that read it directly or through transposes.

    Attributes:
        value: what is computed.
        price: of moving its elements once.
        larger: whether each of its axes may be larger than 1.
        reads: by nodes, and by names that are asked for.
    """

    value: Value
    price: int
    larger: tuple[bool, ...]
    reads: list[Read] = field(default_factory=list)

    def given(self, ways: Ways) -> Perm:
        """The axes of the value in the order of memory."""
        way = ways.get(self.value.node)
        perm = way.gives.get(self.value.port) if way is not None else None
        return tuple(range(len(self.larger))) if perm is None else inverse(perm)

    def wanted(self, read: Read, ways: Ways) -> Perm:
        """The axes in the order in which a reader wants them."""
        way = ways.get(read.node) if read.node is not None else None
        perm = way.reads.get(read.place) if way is not None else None
        return read.perm if perm is None else tuple(read.perm[axis] for axis in inverse(perm))

    def apart(self, one: Perm, other: Perm) -> int:
        """The price of making one order of another: of a reshape, if only axes of size 1 are elsewhere."""
        if one == other:
            return 0
        return min(self.price, _RESHAPE) if self._key(one) == self._key(other) else self.price

    def cost(self, ways: Ways) -> int:
        """What it takes to give every reader what it wants."""
        given, total = self.given(ways), 0
        # What has been moved once is reshaped for others.
        moved: set[Perm] = set()
        for order in {self.wanted(read, ways) for read in self.reads} - {given}:
            key = self._key(order)
            total += min(self.price, _RESHAPE) if key in moved else self.apart(given, order)
            moved.add(key)
        return total

    def _key(self, order: Iterable[int]) -> Perm:
        return tuple(axis for axis in order if self.larger[axis])


class Assignment:
    """The flows of a graph and the ways of its nodes.

    Attributes:
        flows: of every value that nodes read, but for constants: those can be stored in any order.
        ways: chosen so far.

    Args:
        fixed: nodes that work as they are.
        perm_of: the permutation of a transpose that may go; None for other nodes.
        free: inputs of the graph that may have any order.
    """

    def __init__(
        self,
        graph: Graph,
        fixed: set[Node],
        perm_of: Callable[[Node], Perm | None],
        free: Set[Value] = frozenset(),
    ) -> None:
        self.flows: list[Flow] = []
        self.ways: dict[Node, Way] = {}
        self._fixed, self._perm_of, self._free = fixed, perm_of, free
        self._known: dict[tuple[object, Node, int, Perm], Way | None] = {}
        self._read_by: dict[Node, list[tuple[Flow, Read]]] = {}
        self._given_by: dict[Node, list[Flow]] = {}
        for node in execution_order(graph):
            if node.graph is graph and perm_of(node) is None and constant_tensor(node.output()) is None:
                for value in node.outputs:
                    self._follow(value)
        self._price()

    def improve(self) -> bool:
        """Choose other ways as long as that is cheaper; True if it was."""
        start = cost = self.cost
        # Nodes behind and in front of a place take turns in getting the first word.
        quiet = 0
        while cost and quiet < len(_TURNS):
            found = self._better(_TURNS[quiet])
            after = sum(flow.cost(found) for flow in self.flows)
            quiet = 0 if after < cost else quiet + 1
            if after < cost:
                cost, self.ways = after, found
        return cost < start

    @property
    def cost(self) -> int:
        """The price of all transposes that the ways leave."""
        return sum(flow.cost(self.ways) for flow in self.flows)

    def _follow(self, value: Value) -> None:
        """Add the flow of a value."""
        rank = value.spec.rank
        if rank is None or not (value.uses or value.is_graph_output):
            return
        sizes = value.spec.shape or ()
        flow = Flow(value, 1, tuple(size != 1 for size in sizes))
        flow.reads = list(self._reads(value, tuple(range(rank))))
        self.flows.append(flow)
        self._given_by.setdefault(value.node, []).append(flow)
        for read in flow.reads:
            if read.node is not None:
                self._read_by.setdefault(read.node, []).append((flow, read))

    def _reads(self, value: Value, order: Perm) -> Iterator[Read]:
        """Everything that reads a value whose axes are those of the flow's value in an order."""
        pending = [(value, order)]
        while pending:
            value, order = pending.pop()
            if value.is_graph_output:
                yield Read(None, 0, order)
            for node, index in value.uses:
                perm = self._perm_of(node) if index == 0 else None
                if perm is not None and len(perm) == len(order) and node not in self._fixed:
                    pending.append((node.output(), tuple(order[axis] for axis in perm)))
                else:
                    yield Read(node, index, order)

    def _price(self) -> None:
        """A transpose counts as such, and for the elements it moves: the largest value's count twice."""
        most = max((_count(flow.value) for flow in self.flows), default=1)
        for flow in self.flows:
            flow.price = 0 if flow.value in self._free else _EACH + _EACH * _count(flow.value) // most

    def _better(self, turn: Turn) -> dict[Node, Way]:
        """The cheapest mixture of the ways so far with those that are proposed."""
        proposed = self._proposals(turn)
        new = _together(self.ways, proposed)
        choices = Choices()
        for flow in self.flows:
            if flow.value.node in proposed or any(read.node in proposed for read in flow.reads):
                self._ask(choices, flow, new)
        taken = choices.cheapest()
        return _together(self.ways, {node: way for node, way in proposed.items() if node in taken})

    def _proposals(self, turn: Turn) -> dict[Node, Way | None]:
        """New ways of working: those that save a transpose, and those that nodes around them would need."""
        proposed: dict[Node, Way | None] = {}
        pending: deque[Node] = deque()

        def propose(node: Node | None, way: Callable[[Node], Way | None]) -> None:
            if node is None or node in proposed or node in self._fixed:
                return
            found = way(node)
            if found is not None and found != self.ways.get(node, _AS_IT_IS):
                proposed[node] = None if found == _AS_IT_IS else found
                pending.append(node)

        def behind(flow: Flow, order: Perm) -> None:
            for read in flow.reads:
                propose(read.node, lambda node, read=read: self._reading(node, read, order))  # type: ignore[misc]

        def before(flow: Flow, order: Perm) -> None:
            propose(flow.value.node, lambda node: self._way(giving, node, flow.value.port, inverse(order)))

        for flow, read in self._apart(turn.forwards):
            if turn.behind:
                given = flow.given(self.ways)
                propose(read.node, lambda node: self._reading(node, read, given))  # noqa: B023 - called at once
            if turn.before:
                before(flow, flow.wanted(read, self.ways))
        ways: dict[Node, Way | None] = {**self.ways}
        while pending:
            node = pending.popleft()
            # Not a dict of its own: every node that is asked would copy the ways of all.
            new = ChainMap({node: proposed[node]}, ways)
            for flow, read in self._read_by.get(node, ()):
                before(flow, flow.wanted(read, new))
            for flow in self._given_by.get(node, ()):
                behind(flow, flow.given(new))
        return proposed

    def _apart(self, forwards: bool) -> list[tuple[Flow, Read]]:
        """The places that cost something, in the order of the graph or backwards, the dear ones first."""
        found: list[tuple[int, Flow, Read]] = []
        for flow in self.flows if forwards else reversed(self.flows):
            given = flow.given(self.ways)
            apart = ((flow.apart(given, flow.wanted(read, self.ways)), flow, read) for read in flow.reads)
            found += [place for place in apart if place[0]]
        found.sort(key=lambda place: place[0] == _RESHAPE)
        return [(flow, read) for _, flow, read in found]

    def _reading(self, node: Node, read: Read, order: Perm) -> Way | None:
        """The way in which a node reads a flow's value that lies in an order."""
        perm = inverse(tuple(read.perm.index(axis) for axis in order))
        return self._way(reading, node, read.place, perm)

    def _way(
        self, find: Callable[[Node, int, Perm], Way | None], node: Node, place: int, perm: Perm
    ) -> Way | None:
        """The way that is found for an input or output of a node, once for each."""
        if perm == tuple(range(len(perm))):
            return _AS_IT_IS
        key = (find, node, place, perm)
        if key not in self._known:
            self._known[key] = find(node, place, perm)
        return self._known[key]

    def _ask(self, choices: Choices, flow: Flow, new: Ways) -> None:
        """Let the choices pay for a flow: once for each order that is wanted and not given."""
        given = flow.given(self.ways), flow.given(new)
        # Order -> nodes that want it with their new way; nodes that want it with their old one.
        by_new: dict[Perm, set[Node]] = {}
        by_old: dict[Perm, set[Node]] = {}
        always: set[Perm] = set()
        for read in flow.reads:
            old, other = flow.wanted(read, self.ways), flow.wanted(read, new)
            if read.node is None or old == other:
                always.add(old)
            else:
                by_new.setdefault(other, set()).add(read.node)
                by_old.setdefault(old, set()).add(read.node)
        for order in dict.fromkeys((*always, *by_new, *by_old)):
            prices = flow.apart(given[0], order), flow.apart(given[1], order)
            if order in always:
                choices.cost(YES, flow.value.node, prices[0])
                choices.cost(flow.value.node, NO, prices[1])
            elif prices != (0, 0):
                _pay(choices, flow, order, prices, by_new.get(order, set()), by_old.get(order, set()))


def _pay(
    choices: Choices, flow: Flow, order: Perm, prices: tuple[int, int], by_new: set[Node], by_old: set[Node]
) -> None:
    """Pay once for an order that some nodes want in their new way, and some in their old one.

    Yes is the new way. That what is wanted in the new way is dearer if the node itself takes its new way is
    not to be said by a cut, nor the other way round: then the higher price is paid in any case.

    Args:
        prices: with the old way and with the new way of the node that gives the value.
    """
    node, (old, new) = flow.value.node, prices
    some = (flow.value, order, "new")
    for reader in by_new:
        choices.cost(reader, some, _NEVER)
    if by_new:
        choices.cost(some, NO, new)
        choices.cost(some, node, old - new)
    some = (flow.value, order, "old")
    for reader in by_old:
        choices.cost(some, reader, _NEVER)
    if by_old:
        choices.cost(YES, some, old)
        choices.cost(node, some, new - old)


def _together(ways: Ways, more: Mapping[Node, Way | None]) -> dict[Node, Way]:
    """Ways, some of them changed, or taken back."""
    return {node: way for node, way in {**ways, **more}.items() if way is not None}


def _count(value: Value) -> int:
    """The number of elements, with 1 for each size that is open."""
    return math.prod(1 if size is None else size for size in value.spec.shape or ())


def fixed_nodes(graph: Graph, loops: set[Node]) -> set[Node]:
    """Nodes that cannot work in another way."""
    return {
        node
        for node in graph
        # In a loop new constants would be outside of the frame; what is fed is not computed; and several
        # outputs under names of their own cannot all be given to transposes.
        if node in loops
        or any(v.is_graph_input for v in node.outputs)
        or (node.is_protected and side_outputs(node))
    }
