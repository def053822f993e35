"""The steps of an unrolled recurrence, laid side by side: nodes that do the same in each step are a lane.

    step 0        step 1        step 2
    MatMul    ->  MatMul    ->  MatMul        the chain that it starts from: they share their weights
    Tanh          Tanh          Tanh          a lane; what it gives at one step, the next one reads

Lanes are found backwards, from what the nodes of one read, in all steps at once. What they read is the same
in all steps, made in the same step, made in the step before, or another value of outside in each step: if
every input of every lane is one of these, a loop over the lanes computes what the steps do.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from thinflow.ir.attrs import attr_key
from thinflow.ir.graph import Node, Value
from thinflow.ir.order import ancestors
from thinflow.ops._defaults import defaults_of
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.recurrence.pieces import sequence_of
from thinflow.transforms.shared.effects import is_stateless

_DEEPEST = 200
"""Lanes one behind the other; a longer step is refused rather than followed by recursion."""
_MOST_TRIES = 5_000
"""Lanes tried for one layer, those given up again included."""


@dataclass(eq=False)
class Lane:
    """Nodes that do the same, one for each step; the last step may lack it, as nobody needs it there.

    Attributes:
        sources: what they read, by input.
    """

    nodes: list[Node]
    sources: list[Source] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Fixed:
    """The same value in every step."""

    value: Value


@dataclass(frozen=True, eq=False)
class Inner:
    """An output of a lane, of the same step."""

    lane: Lane
    port: int


@dataclass(frozen=True, eq=False)
class Carried:
    """An output of a lane, of the step before; `first` at the first step."""

    lane: Lane
    port: int
    first: Value


@dataclass(frozen=True, eq=False)
class Stepped:
    """Another value of outside in each step."""

    values: list[Value]


Source: TypeAlias = Fixed | Inner | Carried | Stepped


def identity(value: Value) -> Hashable:
    """Equal for values that are the same: through Identity, and of constants with the same bits."""
    while has(value.node.op, Trait.IDENTITY) and value.node.inputs and not value.node.control_inputs:
        value = value.node.inputs[0]
    tensor = value.node.tensor
    return value if tensor is None or value.node.control_inputs else tensor.fingerprint()


def outline(node: Node) -> Hashable:
    """Equal for nodes that compute the same of the same inputs."""
    defaults = defaults_of(node.op) or {}
    attrs = frozenset(
        (name, attr_key(value))
        for name, value in node.attrs_view.items()
        # Those in front are hints; what only spells out a default says nothing.
        if not name.startswith("_") and not (name in defaults and attr_key(defaults[name]) == attr_key(value))
    )
    return node.op, node.device, len(node.inputs), attrs


class Steps:
    """The lanes of a layer.

    Args:
        chain: nodes of equal weights, one for each step, each of which needs the one before.

    Attributes:
        lanes: all of them; what one reads of the same step may stand behind it.

    Raises:
        Refuse: the steps differ, or need something that a loop cannot give them.
    """

    def __init__(self, chain: Sequence[Node]) -> None:
        self.count = len(chain)
        self.lanes: list[Lane] = []
        self._place: dict[Node, tuple[Lane, int]] = {}
        self._after = _descendants(chain[0])
        self._staying: set[Node] = set()
        self._outlines: dict[Node, Hashable] = {}
        self._tries = self._depth = 0
        seeds = self._add(list(chain))
        self._fill(seeds)
        self._complete()
        self._check()

    # --- what a loop needs to know ------------------------------------------------------------------------

    @property
    def inside(self) -> set[Node]:
        """The nodes that a loop stands for."""
        return self._place.keys() - self._staying

    def sources(self) -> Iterator[Source]:
        return (source for lane in self.lanes for source in lane.sources)

    def in_order(self) -> list[Lane]:
        """Each lane behind those that it reads in the same step."""
        done: dict[Lane, None] = {}
        pending = list(self.lanes)
        while pending:
            ready = [
                lane for lane in pending if all(s.lane in done for s in lane.sources if isinstance(s, Inner))
            ]
            if not ready:
                raise Refuse("what its steps compute goes round in a circle", pending[0].nodes[0])
            done.update(dict.fromkeys(ready))
            pending = [lane for lane in pending if lane not in done]
        return list(done)

    # --- growing ------------------------------------------------------------------------------------------

    def _add(self, nodes: list[Node]) -> Lane:
        """A new lane of nodes that are alike.

        Raises:
            Refuse: they are not, or a loop cannot hold them.
        """
        self._tries += 1
        first = nodes[0]
        if self._tries > _MOST_TRIES:
            raise Refuse("its steps are too involved to tell what they have in common", first)
        if len(set(nodes)) < len(nodes) or any(n in self._place for n in nodes):
            raise Refuse(f"'{first.name}' belongs to several steps", first)
        if not first.inputs or not is_stateless(first) or has(first.op, Trait.PLACEHOLDER):
            raise Refuse(f"'{first.name}' ({first.op}) cannot go into a loop", first)
        for node in nodes[1:]:
            if self._outline(node) != self._outline(first):
                raise Refuse(f"'{node.name}' is not what '{first.name}' is in another step", node)
        lane = Lane(nodes)
        # At once, though its sources are not known: the way back through a state leads to it.
        self.lanes.append(lane)
        self._place.update({node: (lane, n) for n, node in enumerate(nodes)})
        return lane

    def _outline(self, node: Node) -> Hashable:
        if node not in self._outlines:
            self._outlines[node] = outline(node)
        return self._outlines[node]

    def _fill(self, lane: Lane) -> None:
        """Find what a lane reads, and the lanes behind that."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Refuse("one step alone is too deep", lane.nodes[0])
        for number in range(len(lane.nodes[0].inputs)):
            lane.sources.append(self._source([node.inputs[number] for node in lane.nodes]))
        self._depth -= 1

    def _source(self, values: list[Value]) -> Source:
        if len({identity(v) for v in values}) == 1:
            return Fixed(values[0])
        known = self._known(values)
        if known is not None:
            return known
        # What depends on the first product is made inside; it cannot be handed in as well.
        late = [v.node in self._after for v in values]
        if not any(late) and sequence_of(values) is not None:
            return Stepped(values)
        if not (all(late) or all(late[1:]) or not any(late)):
            raise Refuse(f"'{values[0].name}' is read by one step, but others read nothing like it")
        is_state = late[1] and not late[0]
        # The same node of each step, back to where the first step reads something else: a state's start.
        found = self._tried(values, 0)
        if isinstance(found, Refuse) and is_state:
            found = self._tried(values, 1)
        if not isinstance(found, Refuse):
            return found
        if any(late):
            raise found
        _refuse_unless_stackable(values)
        return Stepped(values)

    def _known(self, values: Sequence[Value]) -> Source | None:
        """What reads a lane that there is already: in the same step, or in the one before."""
        port = values[1].port
        lane, place = self._place.get(values[1].node, (None, 0))
        if lane is None or place not in (0, 1) or any(v.port != port for v in values[1:]):
            return None
        shift = 1 - place
        nodes = [v.node for v in values[shift:]]
        # The last step of a lane may not be known yet; `_complete` looks for it.
        if nodes[: len(lane.nodes)] != lane.nodes[: len(nodes)] or len(nodes) > len(lane.nodes) + 1:
            return None
        if shift:
            return Carried(lane, port, values[0]) if len(nodes) <= len(lane.nodes) else None
        return Inner(lane, port) if values[0].port == port else None

    def _tried(self, values: list[Value], shift: int) -> Source | Refuse:
        """A new lane of the producers, one step late if `shift` is 1; the reason against it otherwise."""
        port, lanes, depth = values[shift].port, len(self.lanes), self._depth
        try:
            if any(v.port != port for v in values[shift:]):
                raise Refuse(f"'{values[shift].name}' is another output in another step", values[shift].node)
            lane = self._add([v.node for v in values[shift:]])
            self._fill(lane)
        except Refuse as refusal:
            # All that was added on the way is forgotten, so that another reading starts from the same lanes.
            for lane in self.lanes[lanes:]:
                for node in lane.nodes:
                    del self._place[node]
            del self.lanes[lanes:]
            self._depth = depth
            return refusal
        return Carried(lane, port, values[0]) if shift else Inner(lane, port)

    # --- the last step ------------------------------------------------------------------------------------

    def _complete(self) -> None:
        """Find the last step of lanes that were met one step late, and check what is read there."""
        while any(len(lane.nodes) < self.count and self._extended(lane) for lane in self.lanes):
            pass
        for lane in self.lanes:
            node = lane.nodes[-1]
            if len(lane.nodes) == self.count and not self._fits(lane, node, {}):
                raise Refuse(f"'{node.name}' of the last step reads something else", node)

    def _extended(self, lane: Lane) -> bool:
        """Give a lane its node of the last step, and one to those that this reads; whether there is one."""
        # Only who reads what the last step is known to give: anything else alike may belong elsewhere.
        candidates = dict.fromkeys(n for s in lane.sources for v in self._at_end(s) for n in v.readers)
        for node in candidates:
            found: dict[Lane, Node] = {}
            if self._matches(lane, node, found):
                for other, last in found.items():
                    self._append(other, last)
                return True
        return False

    def _append(self, lane: Lane, node: Node) -> None:
        lane.nodes.append(node)
        self._place[node] = (lane, self.count - 1)
        for source, value in zip(lane.sources, node.inputs, strict=True):
            if isinstance(source, Stepped):
                source.values.append(value)

    def _at_end(self, source: Source) -> list[Value]:
        """What is read of a lane in the last step, if that is known."""
        if isinstance(source, Inner) and len(source.lane.nodes) == self.count:
            return [source.lane.nodes[-1].output(source.port)]
        if isinstance(source, Carried):
            return [source.lane.nodes[self.count - 2].output(source.port)]
        return []

    def _matches(self, lane: Lane, node: Node, found: dict[Lane, Node]) -> bool:
        """True if a node may be a lane's in the last step; it and those it reads are put into `found`."""
        if node in self._place or self._outline(node) != self._outline(lane.nodes[0]):
            return False
        found[lane] = node
        return self._fits(lane, node, found)

    def _fits(self, lane: Lane, node: Node, found: dict[Lane, Node]) -> bool:
        """True if a node reads in the last step what a lane reads."""
        for source, value in zip(lane.sources, node.inputs, strict=True):
            if isinstance(source, Fixed):
                good = identity(source.value) == identity(value)
            elif isinstance(source, Stepped):
                good = value.node not in self._after
            elif isinstance(source, Inner) and source.lane in found:
                good = found[source.lane].output(source.port) is value
            elif known := self._at_end(source):
                good = known == [value]
            else:
                good = value.port == source.port and self._matches(source.lane, value.node, found)
            if not good:
                return False
        return True

    # --- whether a loop may stand for them ----------------------------------------------------------------

    def _check(self) -> None:
        first = self.lanes[0].nodes[0]
        if not any(isinstance(s, Carried) for s in self.sources()):
            raise Refuse("no step reads what the one before gave", first)
        outside: list[Value] = []
        for lane in self.lanes:
            for source in lane.sources:
                if isinstance(source, Stepped):
                    if len(source.values) < self.count:
                        raise Refuse("its last step is another", lane.nodes[-1])
                    outside += source.values
                elif not isinstance(source, Inner):
                    outside.append(source.value if isinstance(source, Fixed) else source.first)
                if isinstance(source, Carried):
                    _refuse_unless_alike(source)
        needed = ancestors([v.node for v in outside]) & self._place.keys()
        circle = needed & self._after
        if circle:
            # The same one each time, whatever order the set has.
            node = min(circle, key=lambda n: n.name)
            raise Refuse(f"its steps need '{node.name}' in yet another way", node)
        # Computed ahead of all steps, as sizes of a first state are: it stays, and is in the loop as well.
        self._staying = needed
        for node in self._place:
            if node.control_inputs or node.control_outputs:
                raise Refuse(f"'{node.name}' waits for other nodes, or others for it", node)
            if any(v.is_graph_input for v in node.outputs):
                raise Refuse(f"'{node.name}' is fed from outside", node)


def _descendants(node: Node) -> set[Node]:
    """The node and all that depend on it."""
    found = {node}
    pending = [node]
    while pending:
        for reader in (*(current := pending.pop()).readers, *current.control_outputs):
            if reader not in found:
                found.add(reader)
                pending.append(reader)
    return found


def _refuse_unless_alike(state: Carried) -> None:
    """Refuse a state whose type or shape is not the same before and after a step."""
    before, after = state.first.spec, state.lane.nodes[0].output(state.port).spec
    node = state.lane.nodes[0]
    if before.shape is None or after.shape is None or None in (before.dtype, after.dtype):
        raise Refuse(f"the type or the rank of the state '{node.name}' is not known", node)
    if before.dtype is not after.dtype or not fits(before.shape, after.shape):
        raise Refuse(f"the state '{node.name}' does not begin with the shape that it has later", node)


def fits(a: Sequence[int | None], b: Sequence[int | None]) -> bool:
    """True if two shapes may be the same."""
    return len(a) == len(b) and all(None in (m, n) or m == n for m, n in zip(a, b, strict=True))


def _refuse_unless_stackable(values: Sequence[Value]) -> None:
    """Refuse values of outside that are no row of equal tensors."""
    first = values[0]
    shapes = [v.spec.shape for v in values]
    if first.dtype is None or None in shapes or any(v.dtype is not first.dtype for v in values):
        raise Refuse(f"the type or the rank of '{first.name}' is not known", first.node)
    if any(not fits(shapes[0] or (), s or ()) for s in shapes):
        raise Refuse(f"'{first.name}' has another shape in another step", first.node)
    # Sizes, axes and places that change would no longer be known before the loop runs.
    if any(v.node.tensor is not None and first.dtype.kind in "iu" for v in values):
        raise Refuse(f"the number '{first.name}' changes from step to step", first.node)
    if len({identity(v) for v in values[1:]}) == 1:
        raise Refuse(f"only the first step reads '{first.name}'", first.node)
