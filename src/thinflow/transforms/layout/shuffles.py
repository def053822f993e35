"""Shuffles of channels that the convolutions behind them can do without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from thinflow.ir.attrs import Attr
from thinflow.ir.disjoint_sets import DisjointSets
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import INT32
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import sweep
from thinflow.rewrite.pattern import constant_tensor
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.layout.selections import Channels, Selections, channel_count
from thinflow.transforms.shared.effects import in_loops
from thinflow.transforms.shared.identities import known_shapes

_MOST_PARTS = 32
"""Of what a convolution reads: slices cost about as much as an op, whatever their size."""
Run = tuple[Value, int, int]
"""Channels of a value that lie together: from a number to below another."""


@transform("absorb_shuffles")
@dataclass(frozen=True)
class AbsorbShuffles(Transform):
    """Let convolutions read shuffled channels in the order in which they lie.

    conv(shuffle(concat(a, b)), w)  ->  conv(concat(a, b), w with its rows moved)

    Joins, splits and shuffles of channels only say which ones a convolution reads. Where all that reads them
    is a convolution, or comes to one through depthwise convolutions, biases, pools and functions of elements,
    each reads what it needs from where it was computed, and its weights have the order of that. So the blocks
    of a ShuffleNet v2 keep no shuffle. Sizes have to be known but for the batch, and channels come last.
    """

    tolerance = 1e-5  # sums run in another order

    def apply(self, graph: Graph, trace: Trace) -> None:
        if not any(node.op == "Transpose" for node in graph):
            return
        known_shapes(graph)
        found = Selections(execution_order(graph))
        loops = in_loops(graph)
        for nodes in _regions(found):
            shuffles = [n for n in nodes if n in found.shuffles]
            try:
                if any(n in loops for n in nodes):
                    raise Refuse("it is in a loop")
                readers = list(_readers(found, nodes))
                _require_fewer_copies(found, nodes, readers)
            except Refuse as refusal:
                for node in shuffles:
                    trace.leave(node, refusal.reason)
                continue
            for node in shuffles:
                trace.changed(node, f"the weights of {len(readers)} layers behind it have its order")
            made: dict[tuple[Run, ...], Value] = {}
            for reader in readers:
                _rewrite(graph, reader, made, self.name)
            sweep(graph, nodes)


@dataclass
class _Reader:
    """A convolution that reads chosen channels, perhaps through ops that keep them apart.

    Attributes:
        first: the node that reads the value, the convolution itself or an op on the way.
        channels: what it reads.
        on_way: inputs with a number for each channel: node, number of the input, axis.
        layer: the convolution.
    """

    first: Node
    channels: Channels
    layer: Node
    on_way: list[tuple[Node, int, int]] = field(default_factory=list)

    @property
    def order(self) -> list[int]:
        """The places of the channels, in the order in which they lie."""
        places = {value: n for n, value in enumerate(dict.fromkeys(v for v, _ in self.channels))}
        lying = [(places[value], number) for value, number in self.channels]
        return sorted(range(len(lying)), key=lying.__getitem__)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The same, as what lies together."""
        runs: list[Run] = []
        for place in self.order:
            value, number = self.channels[place]
            if runs and runs[-1][0] is value and runs[-1][2] == number:
                runs[-1] = (value, runs[-1][1], number + 1)
            else:
                runs.append((value, number, number + 1))
        return tuple(runs)


def _regions(found: Selections) -> list[list[Node]]:
    """Nodes that choose from one another, with a shuffle among them."""
    sets = DisjointSets(found.nodes)
    for node, sources in found.nodes.items():
        sets.join([node, *(v.node for v in sources if v in found.chosen)])
    return [nodes for nodes in sets.sets() if not found.shuffles.isdisjoint(nodes)]


def _readers(found: Selections, nodes: Sequence[Node]) -> Iterator[_Reader]:
    """The convolutions behind nodes that choose.

    Raises:
        Refuse: something else reads what they choose.
    """
    inside = set(nodes)
    for node in nodes:
        # Values that are chosen for another choice alone need no form of their own.
        for value in (v for v in node.outputs if v in found.chosen):
            if value.is_graph_output:
                raise Refuse(f"'{value.name}' is an output of the graph")
            for use in value.uses:
                if use.node in inside or _leads_inside(use.node, inside):
                    continue
                yield _reader(use.node, use.index, found.of(value))


def _leads_inside(node: Node, inside: set[Node]) -> bool:
    """True for the first two of the three nodes of a shuffle."""
    steps = [node]
    while len(steps) < 3 and len(steps[-1].readers) == 1:
        steps.append(steps[-1].readers[0])
    return len(steps) == 3 and steps[2] in inside and steps[1].op == "Transpose"


def _reader(node: Node, index: int, channels: Channels) -> _Reader:
    first = node
    # Inputs with a number for each channel, until the convolution is there.
    on_way: list[tuple[Node, int, int]] = []
    while True:
        if index:
            raise Refuse(f"'{node.name}' ({node.op}) reads the channels as its input {index}")
        if node.get("data_format", "NHWC") != "NHWC":
            raise Refuse(f"'{node.name}' ({node.op}) has its channels first")
        weights = constant_tensor(node.inputs[1]) if len(node.inputs) > 1 else None
        if node.op == "Conv2D" and weights is not None and weights.shape[2] == len(channels):
            return _Reader(first, channels, node, [*on_way, (node, 1, 2)])
        if node.op == "Conv2D" and weights is not None:
            raise Refuse(f"'{node.name}' (Conv2D) reads the channels in groups")
        if node.op == "DepthwiseConv2dNative" and weights is not None and weights.shape[3] == 1:
            on_way.append((node, 1, 2))
        elif node.op == "BiasAdd" and weights is not None:
            on_way.append((node, 1, 0))
        elif not _keeps_apart(node):
            raise Refuse(f"'{node.name}' ({node.op}) reads the channels in their order")
        value = node.output()
        if len(value.uses) != 1 or value.is_graph_output or node.control_outputs or node.control_inputs:
            raise Refuse(f"'{value.name}' is read by several, or asked for")
        node, index = value.uses[0]


def _keeps_apart(node: Node) -> bool:
    """True if an op does the same to all channels, each by itself."""
    if len(node.inputs) == 1 and has(node.op, Trait.POOL):
        return [*node.get("ksize", ())][-1:] == [1] and len(node.outputs) == 1
    if len(node.inputs) == 1:
        return has(node.op, Trait.ELEMENTWISE)
    if not has(node.op, Trait.PAD):
        return False
    # What is filled in is one number for all channels.
    borders = constant_tensor(node.inputs[1])
    return borders is not None and not borders.numpy()[-1].any()


def _require_fewer_copies(found: Selections, nodes: Sequence[Node], readers: Sequence[_Reader]) -> None:
    """Refuse what would move more channels than now, or in too many pieces.

    Raises:
        Refuse: it would.
    """
    # A shuffle, a join, and each part of a split moves its channels once.
    now = sum(channel_count(v) or 0 for n in nodes for v in n.outputs if v in found.chosen)
    runs = {reader.runs for reader in readers}
    if max((len(r) for r in runs), default=0) > _MOST_PARTS:
        raise Refuse(f"a layer would read more than {_MOST_PARTS} slices")
    then = 0
    for parts in runs:
        then += sum(stop - start for v, start, stop in parts if (start, stop) != (0, channel_count(v)))
        then += sum(stop - start for _, start, stop in parts) if len(parts) > 1 else 0
    if then > now:
        raise Refuse(f"slices and joins in its place would move {then} channels, and {now} are moved now")


def _rewrite(graph: Graph, reader: _Reader, made: dict[tuple[Run, ...], Value], origin: str) -> None:
    runs, order = reader.runs, reader.order
    if runs not in made:
        made[runs] = _joined(graph, [_sliced(graph, run, reader, origin) for run in runs], reader, origin)
    reader.first.set_input(0, made[runs])
    # Weights that stay as they are may go on being shared.
    if order == list(range(len(order))):
        return
    for node, number, axis in reader.on_way:
        tensor = constant_tensor(node.inputs[number])
        assert tensor is not None
        moved = Tensor.from_array(np.ascontiguousarray(np.take(tensor.numpy(), order, axis)), tensor.dtype)
        # A new one: others may read the old one in its order.
        value = graph.constant(moved, f"{node.name}/moved", before=node)
        value.node.origin = origin
        node.set_input(number, value)


def _ints(graph: Graph, numbers: Sequence[int] | int, reader: _Reader, origin: str) -> Value:
    value = graph.constant(np.asarray(numbers, np.int32), f"{reader.layer.name}/places", before=reader.first)
    value.node.origin = origin
    return value


def _sliced(graph: Graph, run: Run, reader: _Reader, origin: str) -> Value:
    value, start, stop = run
    shape, dtype = value.spec.shape, value.dtype
    # Its channels could not have been told otherwise.
    assert shape is not None
    assert dtype is not None
    if (start, stop) == (0, shape[-1]):
        return value
    begin, sizes = [0] * len(shape), [-1] * len(shape)
    begin[-1], sizes[-1] = start, stop - start
    places = [_ints(graph, numbers, reader, origin) for numbers in (begin, sizes)]
    attrs: dict[str, Attr] = {"T": dtype, "Index": INT32}
    name = f"{reader.layer.name}/channels"
    node = graph.add("Slice", [value, *places], name, attrs=attrs, before=reader.first)
    node.origin = origin
    return _described(node, value, stop - start)


def _joined(graph: Graph, parts: Sequence[Value], reader: _Reader, origin: str) -> Value:
    if len(parts) == 1:
        return parts[0]
    shape, dtype = parts[0].spec.shape, parts[0].dtype
    assert shape is not None
    assert dtype is not None
    axis = _ints(graph, len(shape) - 1, reader, origin)
    attrs: dict[str, Attr] = {"T": dtype, "Tidx": INT32, "N": len(parts)}
    name = f"{reader.layer.name}/channels"
    node = graph.add("ConcatV2", [*parts, axis], name, attrs=attrs, before=reader.first)
    node.origin = origin
    return _described(node, parts[0], len(reader.channels))


def _described(node: Node, like: Value, channels: int) -> Value:
    value, shape = node.output(), like.spec.shape
    assert shape is not None
    value.spec = like.spec.with_shape((*shape[:-1], channels))
    return value
