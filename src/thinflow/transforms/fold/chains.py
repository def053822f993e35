"""Folds factors and addends per channel into the convolution or matrix product that they follow.

    ((conv(x, w) + a) * f + c) ...  ->  conv(x, w * s) + b

What a chain may consist of is told by `pieces`. A chain is folded from its outermost step down, all of it or
nothing. A convolution that several nodes read comes first:

    m1(conv), m2(conv) with equal m1, m2  ->  both readers' readers read m1(conv)
    m1(conv), f(conv)                     ->  m1(conv'), f(conv), only when asked to

The second computes conv twice, so that the factor can be folded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.pattern import constant_node
from thinflow.rewrite.rule import Refuse, Trace
from thinflow.transforms.fold.pieces import Mode, Piece, Pieces, below
from thinflow.transforms.fold.producers import (
    add_bias,
    find_producer,
    put_weights,
    store,
    weights_of,
)
from thinflow.transforms.fold.steps import Step, data_input, is_factor, is_sum, read_step
from thinflow.transforms.shared.constants import awaited_by_constant, is_sole_reader, numbers, side_outputs
from thinflow.transforms.shared.effects import is_stateless
from thinflow.typing import Array

Slot = tuple[Node, int]
"""An input of a node."""


def fold_chains(graph: Graph, trace: Trace, mode: Mode) -> None:
    """Fold every chain the mode asks for, until there is none left."""
    while True:
        # Pieces are looked for anew each time, and say again why some are none.
        trace.forget_left()
        pieces = Pieces(graph, trace, mode)
        folded = 0
        # A head that was folded may have taken nodes of others with it.
        for head in pieces.heads():
            if head.node.graph is not graph or not _is_wanted(head, mode):
                continue
            try:
                Fold(graph, trace, mode, head).apply()
                folded += 1
            except Refuse as refusal:
                trace.leave(refusal.node or head.node, refusal.reason)
        if not folded:
            return


def _is_wanted(head: Piece, mode: Mode) -> bool:
    if mode.only_norms:
        return head.norms > 0
    if head.scales:
        return True
    is_lone_bias = has(head.node.op, Trait.BIAS_ADD) and head.children[0].producer is not None
    # A bias right behind its convolution is already what folding would make of it.
    return mode.normalize_bias and not is_lone_bias


@dataclass
class Target:
    """A producer of a chain and what to do with it: weights * s, then + b.

    Attributes:
        piece: the producer.
        s, b: [C] or [], double precision.
        slot: (node, input) of the node that stays and reads it, None if it becomes the end of the chain.
    """

    piece: Piece
    s: Array
    b: Array
    slot: Slot | None
    weights: Tensor | None = None
    bias: Tensor | None = None


@dataclass
class Fold:
    """One chain on its way into its producers: everything is computed before the first edit."""

    graph: Graph
    trace: Trace
    mode: Mode
    head: Piece
    targets: list[Target] = field(default_factory=list)
    absorbed: list[Piece] = field(default_factory=list)
    kept: list[tuple[Node, Slot | None]] = field(default_factory=list)
    """Nodes between producers and head that stay, each with the slot that reads it."""

    def apply(self) -> None:
        """Fold the chain.

        Raises:
            Refuse: a number does not fit its type, or control edges are in the way. Nothing changes then.
        """
        # Everything that may refuse comes before the first edit below.
        self._push_down()
        self._refuse_tangled_control()
        for target in self.targets:
            self._compute(target)
        self._record()
        constants = [v for p in self.absorbed if p.step is not None for v in p.step.constants]
        top: Value | None = None
        for target in self.targets:
            result = self._rebuild(target, constants)
            if target.slot is None:
                top = result
            else:
                target.slot[0].set_input(target.slot[1], result)
        for node, slot in self.kept:
            if slot is None:
                top = node.output()
            else:
                slot[0].set_input(slot[1], node.output())
        assert top is not None
        self._take_over(top)

    def _push_down(self) -> None:
        """Follow the chain from its head, carrying what comes after each piece: z = y * s + b."""
        stack: list[tuple[Piece, Array, Array, Slot | None]] = [
            (self.head, np.asarray(1.0), np.asarray(0.0), None)
        ]
        while stack:
            piece, s, b, slot = stack.pop()
            if piece.producer is not None:
                self.targets.append(Target(piece, s, b, slot))
            elif piece.step is not None:
                step = piece.step
                self.absorbed.append(piece)
                # With z = y * s + b behind it, y = x * f + a becomes z = x * (f * s) + (a * s + b). In
                # double: only the product of the whole chain is rounded, once, to the type of the weights.
                with np.errstate(all="ignore"):
                    b = b if step.addend is None else step.addend * s + b
                    s = s if step.factor is None else step.factor * s
                stack.append((piece.children[0], s, b, slot))
            elif not piece.stays:
                self.absorbed.append(piece)
                stack.append((piece.children[0], s, b, slot))
            # What joins or moves values keeps its place, and s and b go on to each of its inputs.
            else:
                self.kept.append((piece.node, slot))
                stack.extend(_branches(piece, s, b))
        self.targets.reverse()  # a stack hands them out last first; names are given in input order

    def _refuse_tangled_control(self) -> None:
        """Merging nodes merges what they wait for with who waits for them: that must not close a circle."""
        waiting = [p.node for p in self.absorbed if p.node.control_inputs]
        if not waiting:
            return
        for piece in below(self.head):
            if piece is not self.head and piece.node.control_outputs:
                raise Refuse(
                    f"'{waiting[0].name}' and '{piece.node.name}' both have control edges", self.head.node
                )

    def _compute(self, target: Target) -> None:
        producer = target.piece.producer
        assert producer is not None
        # A chain of additions leaves the weights alone, byte for byte.
        if not (target.s == 1).all():
            scaled = numbers(producer.tensor, producer.node)
            with np.errstate(all="ignore"):
                scaled *= producer.spread(target.s)
            target.weights = store(scaled, producer.tensor, self.head.node)
        # A bias that is zero in the stored type is left out, even where it was not before rounding.
        bias = store(np.broadcast_to(target.b, (producer.channels.count,)), producer.tensor, self.head.node)
        if bias.numpy().astype(np.float64).any():
            target.bias = bias

    def _record(self) -> None:
        names = ", ".join(f"'{t.piece.node.name}'" for t in self.targets[:3]) + (
            ", ..." if len(self.targets) > 3 else ""
        )
        for piece in reversed(self.absorbed):
            if piece.step is not None:
                self.trace.changed(piece.node, f"folded into {names}")

    def _rebuild(self, target: Target, constants: list[Value]) -> Value:
        """Scale the weights of a producer and add its bias; the value that now carries the result."""
        node, producer = target.piece.node, target.piece.producer
        assert producer is not None
        if target.weights is not None:
            put_weights(self.graph, producer, target.weights, self.mode.origin)
        if target.bias is None:
            return node.output()
        reusable = self._bias_constant() if target.slot is None else None
        # The bias stands where it is read: at the end of the chain, or in front of the node that stays.
        before = self.head.node if target.slot is None else target.slot[0]
        site = Site(self.graph, before, self.mode.origin)
        if reusable is not None:
            source = constant_node(reusable)
            assert source is not None
            source.attrs["value"] = target.bias
            bias = reusable
        else:
            bias = site.constant(
                target.bias, f"{node.name}{'_bn_offset' if self._is_single_norm() else '_bias'}"
            )
            bias.node.set_control_inputs(dict.fromkeys(n for v in constants for n in awaited_by_constant(v)))
        return add_bias(site, producer, bias, self._bias_name(target))

    def _is_single_norm(self) -> bool:
        """True if this is what the original tool folded: one batch norm and nothing else."""
        steps = [p for p in self.absorbed if p.step is not None]
        return len(steps) == 1 and self.head.norms == 1

    def _bias_constant(self) -> Value | None:
        """The constant of an absorbed addition that nobody else reads: its name lives on. BiasAdd first."""
        constant: Value | None = None
        for piece in self.absorbed:  # outermost first
            step = piece.step
            if (
                step is None
                or not (has(piece.node.op, Trait.BIAS_ADD) or is_sum(piece.node.op))
                # Of x - c the constant is the negated addend; c - x adds it, and scales by -1.
                or (piece.node.op == "Sub" and not step.scales)
            ):
                continue
            value = step.constants[0]
            is_better = constant is None or not has(constant.uses[0].node.op, Trait.BIAS_ADD)
            is_bias = has(piece.node.op, Trait.BIAS_ADD) or is_better
            if is_bias and is_sole_reader(piece.node, value):
                constant = value
        return constant

    def _bias_name(self, target: Target) -> str:
        if target.slot is None:
            return f"{target.piece.node.name}/BiasAdd"  # gives way to the name of the head
        reader, index = target.slot
        if has(reader.op, Trait.CONCAT):
            return f"{reader.name}_bn_in{index - (reader.op == 'Concat')}"
        return f"{target.piece.node.name}/biasadd"

    def _take_over(self, top: Value) -> None:
        """Give the end of the chain the head's name and readers, and drop what the chain needs no more."""
        graph, head = self.graph, self.head.node
        self._drop_statistics_readers()
        gone = dict.fromkeys(p.node for p in self.absorbed)
        loose = [*gone, *(v.node for n in gone for v in n.inputs)]
        for node in list(gone)[1:]:  # all but the head
            for waiter in node.control_outputs:
                waiter.remove_control_input(node)
                if waiter not in gone:
                    waiter.add_control_input(top.node)
            # Taken off the old node even if nothing takes it over: it is about to go.
            for awaited in node.control_inputs:
                node.remove_control_input(awaited)
                if awaited not in gone and awaited is not top.node:
                    top.node.add_control_input(awaited)
        for awaited in head.control_inputs:
            if awaited in gone:
                head.remove_control_input(awaited)
        # A constant may wait for an Assert or the like: that still has to run.
        constants = [v for p in self.absorbed if p.step is not None for v in p.step.constants]
        for awaited in dict.fromkeys(n for v in constants for n in awaited_by_constant(v)):
            if awaited not in gone and awaited is not top.node and not is_stateless(awaited):
                top.node.add_control_input(awaited)
        graph.replace(head, top.node, ports={v.port: top for v in head.outputs})
        sweep(graph, loose)

    def _drop_statistics_readers(self) -> None:
        """Remove readers of a norm's statistics: were they needed, the norm would not have been folded."""
        stack = [
            u.node
            for p in self.absorbed
            if p.step and p.step.is_norm
            for v in side_outputs(p.node)
            for u in v.uses
        ]
        doomed: set[Node] = set()
        while stack:
            node = stack.pop()
            if node not in doomed:
                doomed.add(node)
                stack.extend(node.readers)
        if doomed:
            self.graph.remove(*doomed)


def _branches(piece: Piece, s: Array, b: Array) -> list[tuple[Piece, Array, Array, Slot | None]]:
    """The pieces under a node that stays, each with its share of s and b."""
    # The old Concat has its axis first.
    offset = 1 if piece.node.op == "Concat" else 0
    slots = [(piece.node, i + offset) for i in range(len(piece.children))]
    if piece.split is None:
        return [(c, s, b, slot) for c, slot in zip(piece.children, slots, strict=True)]
    # Channels of the branches lie one behind the other.
    bounds = np.cumsum(piece.split)[:-1]
    shares = [np.split(np.broadcast_to(v, (piece.channels.count,)), bounds) for v in (s, b)]
    return list(zip(piece.children, *shares, slots, strict=True))


# ---- Producers with several readers: folding needs one reader each


def fold_all(graph: Graph, trace: Trace, mode: Mode, *, duplicate_shared: bool) -> None:
    """Fold every chain, also over shared producers as far as possible, until nothing changes any more."""
    while True:
        before = len(trace.changes)
        merge_equal_readers(graph, trace, mode)
        if duplicate_shared:
            duplicate(graph, trace, mode)
        fold_chains(graph, trace, mode)
        if len(trace.changes) == before:
            return


def merge_equal_readers(graph: Graph, trace: Trace, mode: Mode) -> None:
    """Keep one of a producer's readers where all of them do the same with it."""
    for node, steps in _shared_producers(graph, mode):
        # A reader of another kind would still need the producer as it is.
        if node.is_protected or len(steps) != len(node.output().uses):
            continue
        first, *others = steps
        if not all(_is_same(first, s) and _may_go(s.node) for s in others):
            continue
        for step in others:
            trace.changed(step.node, f"does what '{first.node.name}' does")
            step.node.output().replace_uses(first.node.output())
            loose = [v.node for v in step.node.inputs]
            graph.remove(step.node)
            sweep(graph, loose)


def duplicate(graph: Graph, trace: Trace, mode: Mode) -> None:
    """Give every factor or norm over a shared producer a producer of its own."""
    for node, steps in _shared_producers(graph, mode):
        others_read = len(steps) < len(node.output().uses) or node.is_protected or bool(node.control_outputs)
        # If all readers are factors, the first may keep the producer itself.
        for step in steps if others_read else steps[1:]:
            twin = graph.add(
                node.op,
                node.inputs,
                node.name,
                attrs=node.attrs,
                control_inputs=node.control_inputs,
                device=node.device,
                before=node,
            )
            twin.origin = mode.origin
            step.node.set_input(data_input(step.node), twin.output())
            trace.changed(node, f"duplicated as '{twin.name}' for '{step.node.name}'")


def _shared_producers(graph: Graph, mode: Mode) -> Iterator[tuple[Node, list[Step]]]:
    """Producers that somebody else reads too, with the foldable factors and norms among their readers."""
    for node in list(graph):
        if weights_of(node.op) is None or (len(node.output().uses) < 2 and not node.is_protected):
            continue
        steps = []
        for use in node.output().uses:
            try:
                if _is_reader_wanted(use.node.op, mode) and use.index == data_input(use.node):
                    steps.append(read_step(use.node, use.index, find_producer(node).channels))
            except Refuse:
                continue  # told when the chains are folded
        if steps:
            yield node, steps


def _is_reader_wanted(op: str, mode: Mode) -> bool:
    if mode.norms and has(op, Trait.BATCH_NORM):
        return True
    return not mode.only_norms and is_factor(op)


def _may_go(node: Node) -> bool:
    return not (node.is_protected or node.control_inputs or node.control_outputs or side_outputs(node))


def _is_same(a: Step, b: Step) -> bool:
    return _equal(a.factor, b.factor) and _equal(a.addend, b.addend)


def _equal(a: Array | None, b: Array | None) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))
