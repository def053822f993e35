"""Groups of nodes of a TensorFlow model and the operators of a .tflite or .onnx file that they became.

Two models of different vocabularies share no nodes, but values: the tensors that keep their names through a
conversion (see `match_tensors`). Between two such values lies, in each model, a group of nodes that compute
the same; what one has more of than the other was fused, folded or put in between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from thinflow.compare.diff.explain import computes_nothing, constant_nodes
from thinflow.compare.inner_values import is_source, match_tensors
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors, runnable


@brief_repr
@dataclass(frozen=True)
class Group:
    """Nodes of the first model and those of the second that compute one value from values both have.

    Attributes:
        value: in the first model.
        a, b: the nodes in running order, without constants and nodes that only pass their input on.
        weights_a, weights_b: constants they read.
    """

    value: Value
    a: tuple[Node, ...]
    b: tuple[Node, ...]
    weights_a: tuple[Node, ...] = ()
    weights_b: tuple[Node, ...] = ()

    @property
    def kinds(self) -> tuple[str, str]:
        """Their ops in words: ("Conv2D + BiasAdd + Relu6", "CONV_2D")."""
        return ops_text(self.a), ops_text(self.b)


@brief_repr
@dataclass
class Crossing:
    """Nodes of two models, grouped by the values that both compute.

    Attributes:
        groups: in the running order of the first model.
        only_a, only_b: computing nodes in no group.
        counts: how many nodes compute in each.
    """

    groups: list[Group] = field(default_factory=list)
    only_a: list[Node] = field(default_factory=list)
    only_b: list[Node] = field(default_factory=list)
    counts: tuple[int, int] = (0, 0)

    @property
    def kinds(self) -> list[tuple[tuple[str, str], int]]:
        """Ops of the first -> ops of the second, and how often; the most frequent first."""
        return Counter(g.kinds for g in self.groups).most_common()


def cross(a: Graph, b: Graph) -> Crossing:
    """Group the nodes of two models by the values that both compute. O(nodes + edges)."""
    shared = match_tensors(a, b)
    sides = _Side(a, shared.pairs), _Side(b, shared.reverse)
    groups = []
    for x, y in shared.pairs.items():
        (xs, weights), (ys, others) = sides[0].group(x), sides[1].group(y)
        if xs or ys:
            groups.append(Group(x, xs, ys, weights, others))
    left = [s.left() for s in sides]
    return Crossing(groups, left[0], left[1], (sides[0].count, sides[1].count))


class _Side:
    """One of the models, its nodes given out group by group."""

    def __init__(self, graph: Graph, shared: Collection[Value]) -> None:
        self.order = {node: n for n, node in enumerate(runnable(graph))}
        self.needed = ancestors([v.node for v in graph.outputs])
        self.shared = set(shared)
        self.fixed = constant_nodes(graph)
        self.given: set[Node] = set()
        self.count = len(self._computing())

    def group(self, value: Value) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        """The nodes that compute a value from shared ones, as far as they are left; constants they read."""
        found: list[Node] = []
        weights: dict[Node, None] = {}
        stack = [value.node]
        while stack:
            node = stack.pop()
            # A node that two values need belongs to the group that comes first in
            # running order, and to no other.
            if node in self.given or node in self.fixed or is_source(node):
                continue
            self.given.add(node)
            found.append(node)
            for read in node.inputs:
                if read.node in self.fixed:
                    weights.update(dict.fromkeys(_stored_in(read.node)))
                # At a shared value another group ends.
                elif read not in self.shared:
                    stack.append(read.node)
        # They were found from the value upward.
        found.sort(key=lambda n: self.order.get(n, 0))
        return tuple(n for n in found if not computes_nothing(n)), tuple(weights)

    def left(self) -> list[Node]:
        return [n for n in self._computing() if n not in self.given]

    def _computing(self) -> list[Node]:
        return [
            n
            for n in self.order
            if n in self.needed and n not in self.fixed and not (is_source(n) or computes_nothing(n))
        ]


def _stored_in(node: Node) -> Iterable[Node]:
    """The constants that a constant expression is made of."""
    return (n for n in ancestors([node]) if n.tensor is not None)


def ops_text(nodes: Sequence[Node]) -> str:
    """Their ops in running order, equal ones counted: "2 Mul + Add"; "nothing" for none."""
    counts = Counter(short_op(n.op) for n in nodes)
    listed = [f"{c} {op}" if c > 1 else op for op, c in counts.items()]
    if len(listed) > _MOST_OPS:
        listed = [*listed[:_MOST_OPS], f"{len(listed) - _MOST_OPS} kinds more"]
    return " + ".join(listed) or "nothing"


_MOST_OPS = 8


def short_op(op: str) -> str:
    """`tfl.CONV_2D` as CONV_2D."""
    for prefix in ("tfl.custom.", "tfl.", "onnx."):
        if op.startswith(prefix):
            return op.removeprefix(prefix)
    return op


def bytes_by_type(graph: Graph, nodes: Iterable[Node] | None = None) -> Mapping[str, tuple[int, int]]:
    """Element type -> (number of constants, their bytes), the heaviest first.

    Args:
        graph: whose constants are counted, those that an output needs.
        nodes: of these only.
    """
    needed = ancestors([v.node for v in graph.outputs]) if nodes is None else set(nodes)
    found: dict[str, tuple[int, int]] = {}
    for node in needed:
        if node.tensor is not None:
            count, size = found.get(str(node.tensor.dtype), (0, 0))
            found[str(node.tensor.dtype)] = count + 1, size + node.tensor.size_bytes
    return dict(sorted(found.items(), key=lambda item: -item[1][1]))
