"""Convolutions with several readers: folding needs one reader each.

    m1(conv), m2(conv) with equal m1, m2  ->  both readers' readers read m1(conv)
    m1(conv), f(conv)                     ->  m1(conv'), f(conv), only when asked to

The second computes conv twice, so that the factor can be folded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thinflow.ir.graph import Graph, Node
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import sweep
from thinflow.rewrite.rule import Refuse, Trace
from thinflow.transforms.fold.chains import fold_chains
from thinflow.transforms.fold.pieces import Mode
from thinflow.transforms.fold.producers import find_producer, weights_of
from thinflow.transforms.fold.steps import Channels, Step, data_input, is_factor, read_step
from thinflow.transforms.shared.constants import side_outputs
from thinflow.typing import Array


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
                if _is_wanted(use.node.op, mode) and use.index == data_input(use.node):
                    producer = find_producer(node)
                    channels = Channels(producer.channels, producer.channels_first, producer.kind.output_rank)
                    steps.append(read_step(use.node, use.index, channels))
            except Refuse:
                continue  # told when the chains are folded
        if steps:
            yield node, steps


def _is_wanted(op: str, mode: Mode) -> bool:
    if mode.norms and has(op, Trait.BATCH_NORM):
        return True
    return not mode.only_norms and is_factor(op)


def _may_go(node: Node) -> bool:
    return not (node.is_protected or node.control_inputs or node.control_outputs or side_outputs(node))


def _is_same(a: Step, b: Step) -> bool:
    return _equal(a.factor, b.factor) and _equal(a.addend, b.addend)


def _equal(a: Array | None, b: Array | None) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))
