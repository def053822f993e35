"""Matching nodes of two graphs, whatever they are called.

Nodes are numbered by what they compute, from the inputs downward, and by what becomes of them, from the
outputs upward; equal numbers in both graphs make a pair. What was changed in between is paired by name, then
by its place beside nodes that are matched already. Linear in nodes and edges, but for sorting readers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

from thinflow.compare.match_io import Match
from thinflow.ir.attrs import attr_key
from thinflow.ir.graph import Graph, Node, Value, paused_gc
from thinflow.ir.order import runnable
from thinflow.ir.tensor import Tensor
from thinflow.ops.traits import commutes

REACH = 4
"""Limit of changed nodes in a row that are stepped over to find the next pair."""

Keys = Mapping[Node, int]
Intern = Callable[[Hashable], int]


def match_nodes(a: Graph, b: Graph) -> Match[Node]:
    """The matching nodes of two graphs. Reads every constant once. O(nodes + edges)."""
    # Many small tuples that stay, none in a cycle: the collector would walk them again and again for nothing.
    with paused_gc():
        return _paired(a, b)


def _paired(a: Graph, b: Graph) -> Match[Node]:
    table: dict[Hashable, int] = {}

    def intern(key: Hashable) -> int:
        return table.setdefault(key, len(table))

    sides = _Side(a), _Side(b)
    _name_ends(*sides)
    down = [s.downward(intern, _content) for s in sides]
    up = [s.upward(intern) for s in sides]
    match = Match[Node]()
    # The surest evidence first: each step pairs only what those before it left open.
    _pair_namesakes(match, *sides, lambda x, y: down[0].get(x) == down[1][y] or up[0].get(x) == up[1][y])
    # Equal from above and from below: such nodes are interchangeable, or one and the same.
    both = [{n: intern(("both", d[n], u[n])) for n in d} for d, u in zip(down, up, strict=True)]
    _pair_equals(match, *both, alike=True)
    _pair_equals(match, *down, alike=True)
    # Taken before the looser steps, whose pairs are no longer known to compute the same.
    match.equal = {x for x, y in match.pairs.items() if down[0].get(x) == down[1].get(y)}
    _pair_equals(match, *up, alike=False)
    _pair_namesakes(match, *sides, lambda x, y: True)
    # Equal graphs are done by now.
    if len(match.pairs) < min(len(a), len(b)):
        # By the form of constants instead of their content, for weights that were changed.
        _pair_equals(match, *(s.downward(intern, _form) for s in sides), alike=False)
        _pair_neighbours(match, a)
        _pair_renamed_ops(match, a, b)
        # Again, from the pairs that came since.
        _pair_neighbours(match, a)
    return match


def _content(tensor: Tensor) -> Hashable:
    return tensor.fingerprint()


def _form(tensor: Tensor) -> Hashable:
    return str(tensor.dtype), tensor.shape


class _Side:
    """One graph with what is computed of it once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.order = runnable(graph)
        self.ends: dict[Node, Hashable] = {}
        self.starts: dict[Node, Hashable] = {}
        self._attrs: dict[Node, Hashable] = {}

    def attrs(self, node: Node) -> Hashable:
        """The attributes that make a difference, hashable."""
        found = self._attrs.get(node)
        if found is None:
            keys = sorted(k for k in node.attrs if not k.startswith("_"))
            if node.tensor is not None:
                found = _form(node.tensor)
            else:
                found = tuple((k, attr_key(node.attrs[k])) for k in keys)
            self._attrs[node] = found
        return found

    def downward(self, intern: Intern, constant: Callable[[Tensor], Hashable]) -> Keys:
        """Numbers by what leads to a node; equal ones compute the same from the same inputs."""
        found: dict[Node, int] = {}
        for node in self.order:
            found[node] = intern(self._cause(node, found, constant))
        return found

    def _cause(self, node: Node, found: Keys, constant: Callable[[Tensor], Hashable]) -> Hashable:
        if node in self.starts:
            return "input", self.starts[node]
        if node.tensor is not None:
            return "constant", constant(node.tensor)
        # -1 for a node in a loop that has no number yet.
        inputs = [(found.get(v.node, -1), v.port) for v in node.inputs]
        if commutes(node.op, node.attrs_view.get("T")):
            inputs.sort()
        # A NoOp is told from another by what it waits for.
        if not inputs and node.control_inputs:
            return "waits", node.op, tuple(sorted(found.get(n, -1) for n in node.control_inputs))
        return "node", node.op, self.attrs(node), tuple(inputs)

    def upward(self, intern: Intern) -> Keys:
        """Numbers by where a node's results go, up to the outputs."""
        found: dict[Node, int] = {}
        for node in reversed(self.order):
            # Sorted: the order in which a graph lists readers is an accident of its file.
            uses = [(v.port, found.get(u.node, -1), u.index) for v in node.outputs for u in v.uses]
            key = "up", node.op, self.attrs(node), self.ends.get(node), tuple(sorted(uses))
            found[node] = intern(key)
        return found


def _name_ends(a: _Side, b: _Side) -> None:
    """Give inputs and outputs keys that both graphs share: their names, or their positions if none agree."""
    for one, other, x, y in (
        (a.starts, b.starts, a.graph.inputs, b.graph.inputs),
        (a.ends, b.ends, a.graph.outputs, b.graph.outputs),
    ):
        # Positions count among those whose names are not shared.
        shared = {v.name for v in x} & {v.name for v in y}
        for keys, values in ((one, x), (other, y)):
            rest = [v for v in values if v.name not in shared]
            keys.update((v.node, v.name) for v in values if v.name in shared)
            for position, value in enumerate(rest):
                keys.setdefault(value.node, position)


def _pair_namesakes(match: Match[Node], a: _Side, b: _Side, agree: Callable[[Node, Node], bool]) -> None:
    known = set(b.order)
    for x in a.order:
        y = b.graph.find(x.name)
        if y is not None and y in known and x.op == y.op and match.is_open(x, y) and agree(x, y):
            match.add(x, y)


def _pair_equals(match: Match[Node], a: Keys, b: Keys, *, alike: bool) -> None:
    """Pair nodes of one number.

    Args:
        match: gets the pairs.
        a, b: numbers.
        alike: whether nodes of one number may stand for each other, so that any of them will do.
    """
    there = _groups(b, match.reverse)
    for number, xs in _groups(a, match.pairs).items():
        ys = there.get(number, [])
        # Nodes that merely have the same readers are paired in order only if there are as many of them.
        if alike or len(xs) == len(ys):
            for x, y in zip(xs, ys, strict=False):
                match.add(x, y)


def _groups(keys: Keys, taken: Mapping[Node, Node]) -> dict[int, list[Node]]:
    groups: dict[int, list[Node]] = {}
    for node, number in keys.items():
        if node not in taken:
            groups.setdefault(number, []).append(node)
    return groups


def _pair_neighbours(match: Match[Node], a: Graph) -> None:
    """Pair what stands beside pairs: the producers of one input, the only readers of one kind."""
    queue = deque(_border(match, a))
    while queue:
        x, y = queue.popleft()
        for one, other in (*_producers(x, y), *_readers(x, y, match)):
            found = _next_alike(one, other, match)
            if found is not None:
                match.add(*found)
                queue.append(found)


def _border(match: Match[Node], a: Graph) -> list[tuple[Node, Node]]:
    """The pairs that have an unmatched node beside them."""
    beside: dict[Node, None] = {}
    for node in a:
        if node not in match.pairs:
            beside.update((v.node, None) for v in node.inputs)
            beside.update((use.node, None) for v in node.outputs for use in v.uses)
    return [(x, match.pairs[x]) for x in beside if x in match.pairs]


def _producers(x: Node, y: Node) -> Iterator[tuple[list[Node], list[Node]]]:
    if len(x.inputs) == len(y.inputs):
        for v, w in zip(x.inputs, y.inputs, strict=True):
            if v.port == w.port:
                yield _chain(v.node, _first_producer), _chain(w.node, _first_producer)


def _readers(x: Node, y: Node, match: Match[Node]) -> Iterator[tuple[list[Node], list[Node]]]:
    """Readers of a kind of which there is one each, and the two chains of what is left."""
    ours, theirs = _open_readers(x, match.pairs), _open_readers(y, match.reverse)
    for kind, nodes in ours.items():
        others = theirs.get(kind, ())
        if len(nodes) == 1 == len(others):
            yield [nodes[0]], [others[0]]
    left, right = (list(dict.fromkeys(n for ns in g.values() for n in ns)) for g in (ours, theirs))
    if len(left) == 1 == len(right):
        yield _chain(left[0], _only_reader), _chain(right[0], _only_reader)
    elif len(left) == 1 or len(right) == 1:  # something was put in, or taken out, between paired nodes
        for one in left:
            for other in right:
                yield _chain(one, _only_reader), _chain(other, _only_reader)


def _open_readers(node: Node, taken: Mapping[Node, Node]) -> dict[tuple[str, int, int], list[Node]]:
    found: dict[tuple[str, int, int], list[Node]] = {}
    for value in node.outputs:
        for use in value.uses:
            if use.node not in taken:
                found.setdefault((use.node.op, use.index, value.port), []).append(use.node)
    return found


def _chain(node: Node, step: Callable[[Node], Node | None]) -> list[Node]:
    chain = [node]
    while len(chain) <= REACH:
        following = step(chain[-1])
        if following is None:
            break
        chain.append(following)
    return chain


def _first_producer(node: Node) -> Node | None:
    return node.inputs[0].node if node.inputs else None


def _only_reader(node: Node) -> Node | None:
    readers = node.readers
    return readers[0] if len(readers) == 1 else None


def _next_alike(ours: list[Node], theirs: list[Node], match: Match[Node]) -> tuple[Node, Node] | None:
    """The nearest two of one op in two chains without a pair before them."""
    ours, theirs = list(_open_part(ours, match.pairs)), list(_open_part(theirs, match.reverse))
    # By the sum of steps over both chains, so that as little as possible is stepped over.
    places = sorted(
        ((i, j) for i in range(len(ours)) for j in range(len(theirs))), key=lambda p: (sum(p), p[0])
    )
    for i, j in places:
        x, y = ours[i], theirs[j]
        # Sources that are only reached by steps have nothing in common but their op.
        if x.op == y.op and (sum((i, j)) == 0 or x.inputs):
            return x, y
    return None


def _open_part(chain: Iterable[Node], taken: Mapping[Node, Node]) -> Iterator[Node]:
    for node in chain:
        if node in taken or node.graph is None:
            return
        yield node


def _pair_renamed_ops(match: Match[Node], a: Graph, b: Graph) -> None:
    """Pair what has another op now: a namesake that reads a matching input, or what reads all of them."""
    by_inputs: dict[tuple[tuple[Node, int], ...], list[Node]] = {}
    for y in b:
        if y not in match.reverse and y.inputs:
            by_inputs.setdefault(tuple((v.node, v.port) for v in y.inputs), []).append(y)
    for x in a:
        if x in match.pairs or not x.inputs:
            continue
        matches = [match.value(v) for v in x.inputs]
        namesake = b.find(x.name)
        if namesake is not None and _share_input(matches, namesake):
            candidates = [namesake]
        else:
            candidates = by_inputs.get(tuple((v.node, v.port) for v in matches if v is not None), [])
        if len(candidates) == 1 and match.is_open(x, candidates[0]) and not _is_rest(x, candidates[0]):
            match.add(x, candidates[0])


def _is_rest(x: Node, y: Node) -> bool:
    """True if the second is what folding left of a batch norm: its offset, under its name."""
    return ("BatchNorm" in x.op) != ("BatchNorm" in y.op)


def _share_input(matches: list[Value | None], node: Node) -> bool:
    return any(v is w for v, w in zip(matches, node.inputs, strict=False))
