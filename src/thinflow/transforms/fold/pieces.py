"""Pieces: the nodes that a chain of factors and addends runs through on its way back to a convolution.

Every such node gets a `Piece`: the producer at the bottom, steps (see `steps`), pass-through ops,
BatchToSpaceND, and concatenations, whose branches are pieces themselves. Pieces are made in execution order,
one per node, so a chain of any length costs O(length).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors, execution_order
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.pattern import constant_tensor
from thinflow.rewrite.rule import Refuse, Trace
from thinflow.transforms.fold.producers import Channels, Producer, find_producer, weights_of
from thinflow.transforms.fold.steps import Step, data_input, is_factor, is_step, read_step
from thinflow.transforms.shared.constants import side_outputs


@dataclass(frozen=True)
class Mode:
    """The kinds of chain that a transform wants folded.

    Attributes:
        origin: the transform's name.
        norms: fold batch-norm ops on the way.
        only_norms: fold only chains with a batch norm in them.
        normalize_bias: turn a lone addition into a BiasAdd.
    """

    origin: str
    norms: bool
    only_norms: bool = False
    normalize_bias: bool = False


@dataclass(frozen=True, eq=False)
class Piece:
    """A node that a chain may run through.

    Attributes:
        node: the op.
        channels: of its output.
        children: the pieces it reads, none for a producer.
        producer: what it is, if a producer.
        step: what it is, if a step.
        scales: whether it or a piece below multiplies.
        norms: batch norms among it and the pieces below.
        split: the channels of each branch, for a concatenation along channels.
    """

    node: Node
    channels: Channels
    children: tuple[Piece, ...] = ()
    producer: Producer | None = None
    step: Step | None = None
    scales: bool = False
    norms: int = 0
    split: tuple[int, ...] | None = None

    @property
    def stays(self) -> bool:
        """True if the node is still there after folding."""
        return self.step is None and not has(self.node.op, Trait.IDENTITY)


class Pieces:
    """The pieces of a graph as it is now, and the reasons why some nodes are none."""

    def __init__(self, graph: Graph, trace: Trace, mode: Mode) -> None:
        self.graph = graph
        self.trace = trace
        self.mode = mode
        # Readers that no output needs do not count: training leaves them behind.
        outside = [v.node for v in (*graph.inputs, *graph.outputs)]
        self.needed = ancestors(outside) if graph.outputs else set(graph)
        self.pieces: dict[Node, Piece] = {}
        self.blocked: dict[Node, str] = {}
        """Nodes that lead back to a producer which cannot be folded into, and why."""
        # Producers come before their readers, so that a piece finds those below it.
        self.order = execution_order(graph)
        for node in self.order:
            self._look_at(node)

    def heads(self) -> Iterator[Piece]:
        """The outermost step of every chain, later chains first."""
        covered: set[Node] = set()
        # From the outputs: the first step met is the outermost, and its whole chain is done with.
        for node in reversed(self.order):
            piece = self.pieces.get(node)
            if piece is not None and piece.step is not None and node not in covered:
                covered.update(p.node for p in below(piece))
                yield piece

    def _look_at(self, node: Node) -> None:
        op = node.op
        try:
            if weights_of(op) is not None:
                producer = find_producer(node)
                self.pieces[node] = Piece(node, producer.channels, producer=producer)
            elif is_step(op) or (self.mode.norms and has(op, Trait.BATCH_NORM)):
                self._look_at_step(node)
            elif has(op, Trait.IDENTITY) and node.inputs:
                child = self._child(node.inputs[0], node)
                if child is not None:
                    self.pieces[node] = Piece(
                        node, child.channels, (child,), scales=child.scales, norms=child.norms
                    )
            elif op == "BatchToSpaceND" and len(node.inputs) == 3:
                self._look_at_batch_to_space(node)
            elif has(op, Trait.CONCAT) and len(node.inputs) > 2:
                self._look_at_concat(node)
        except Refuse as refusal:
            if self._reports(node):
                self.trace.leave(node, refusal.reason)
            else:
                inherited = any(self.blocked.get(v.node) == refusal.reason for v in node.inputs)
                # Told once, by the node that stands in between; those behind it hand the reason on.
                prefix = f"'{node.name}' ({op}) stands in between: " if is_step(op) and not inherited else ""
                self.blocked[node] = prefix + refusal.reason

    def _reports(self, node: Node) -> bool:
        """True if leaving this node alone is worth a word: it is what the transform is there for."""
        return has(node.op, Trait.BATCH_NORM) or (is_factor(node.op) and not self.mode.only_norms)

    def _child(self, value: Value, reader: Node) -> Piece | None:
        """The piece that makes a value; None if there is none.

        Raises:
            Refuse: there is one, and it cannot be changed for `reader` alone.
        """
        node = value.node
        if value.port != 0:
            return None
        if node in self.blocked:
            raise Refuse(self.blocked[node])
        piece = self.pieces.get(node)
        if piece is None:
            return None
        if node.is_protected:
            role = "an output" if any(v.is_graph_output for v in node.outputs) else "an input"
            raise Refuse(f"'{node.name}' is asked for as {role}")
        for use in value.uses:
            if use.node is not reader:
                raise Refuse(f"'{node.name}' is also used by '{use.node.name}'")
        if len(value.uses) > 1:
            raise Refuse(f"'{node.name}' is read twice by '{reader.name}'")
        return piece

    def _look_at_step(self, node: Node) -> None:
        if not node.inputs:
            return
        x = data_input(node) if is_step(node.op) else 0
        child = self._child(node.inputs[x], node)
        if child is None:
            # A factor on the right of a division has no form y = x * f + a.
            if (
                has(node.op, Trait.DIVIDE)
                and len(node.inputs) == 2
                and self._child(node.inputs[1], node) is not None
            ):
                raise Refuse("it divides by the convolution")
            if has(node.op, Trait.BATCH_NORM):
                source = node.inputs[0].node
                raise Refuse(f"its input comes from '{source.name}' ({source.op}), not from a convolution")
            return
        step = read_step(node, x, child.channels)
        if step.is_norm:
            self._refuse_used_statistics(node)
        self.pieces[node] = Piece(
            node,
            child.channels,
            (child,),
            None,
            step,
            child.scales or step.scales,
            child.norms + step.is_norm,
        )

    def _refuse_used_statistics(self, node: Node) -> None:
        for value in side_outputs(node):
            for use in value.uses:
                if use.node in self.needed:
                    raise Refuse(f"its output {value.port} is used by '{use.node.name}'", node)
            if value.is_graph_output:
                raise Refuse(f"its output {value.port} is asked for", node)

    def _look_at_batch_to_space(self, node: Node) -> None:
        child = self._child(node.inputs[0], node)
        block = constant_tensor(node.inputs[1])
        if child is None:
            return
        if block is None or constant_tensor(node.inputs[2]) is None:
            raise Refuse(f"the block or crops of '{node.name}' are not constant")
        # Blocks move along axes 1 and on, which are height and width only if channels come last.
        if child.channels.first or child.channels.rank is None or block.size > child.channels.rank - 2:
            raise Refuse(f"'{node.name}' moves channels")
        self.pieces[node] = Piece(node, child.channels, (child,), scales=child.scales, norms=child.norms)

    def _look_at_concat(self, node: Node) -> None:
        values, axis_value = (
            (node.inputs[:-1], node.inputs[-1])
            if node.op == "ConcatV2"
            else (node.inputs[1:], node.inputs[0])
        )
        children = []
        strangers = []
        for value in values:
            child = self._child(value, node)
            if child is None:
                strangers.append(value.node)
            else:
                children.append(child)
        if not children:
            return
        if strangers:
            source = f"'{strangers[0].name}' ({strangers[0].op})"
            raise Refuse(f"a branch of '{node.name}' comes from {source}, not from a convolution")
        first = children[0].channels
        if any((c.channels.first, c.channels.rank) != (first.first, first.rank) for c in children):
            raise Refuse(f"the branches of '{node.name}' differ in data_format")
        along_channels = self._is_channel_axis(axis_value, node, first)
        counts = tuple(c.channels.count for c in children)
        # Along another axis all branches have the same channels, and share s and b.
        if not along_channels and len(set(counts)) > 1:
            raise Refuse(f"the branches of '{node.name}' have {', '.join(map(str, counts))} channels")
        total = Channels(sum(counts) if along_channels else counts[0], first.first, first.rank)
        self.pieces[node] = Piece(
            node,
            total,
            tuple(children),
            scales=any(c.scales for c in children),
            norms=sum(c.norms for c in children),
            split=counts if along_channels else None,
        )

    def _is_channel_axis(self, value: Value, node: Node, channels: Channels) -> bool:
        tensor = constant_tensor(value)
        if tensor is None or tensor.size != 1 or not tensor.dtype.is_integer:
            raise Refuse(f"the axis of '{node.name}' is not constant")
        axis = int(tensor.numpy().reshape(()))
        # Only from the back can the channels be told when the rank is not known.
        if channels.rank is None:
            if axis >= 0:
                raise Refuse(f"whether axis {axis} of '{node.name}' holds the channels cannot be told")
            return axis == -1
        if not -channels.rank <= axis < channels.rank:
            raise Refuse(f"axis {axis} of '{node.name}' does not exist")
        return axis % channels.rank == (1 if channels.first else channels.rank - 1)


def below(piece: Piece) -> Iterator[Piece]:
    """The piece and all below it, outermost first."""
    stack = [piece]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(top.children)
