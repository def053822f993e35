"""Runs a pattern-based transform over a graph until nothing changes."""

from __future__ import annotations

from typing import ClassVar

from thinflow.ir.garbage import paused_gc
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import match_order
from thinflow.rewrite.colocation import drop_lost_classes
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.pattern import Match, Miss, NodePattern, match, required
from thinflow.rewrite.rule import Refuse, Transform
from thinflow.rewrite.trace import Trace

NEAR_MISS_DEPTH = 1
"""A try that matched more nodes than this is told as a near miss."""


class Rewrite(Transform):
    """A local transform: a pattern, what speaks against it, and what to put in its place.

    The driver refuses when a node inside the match has a reader outside or is asked for by name. It gives the
    replacement the name, position, device and readers of the head and the control edges of the whole match,
    and sweeps what nobody uses any more. Only the head's output 0 may be used.
    """

    pattern: ClassVar[NodePattern]
    until_fixpoint: ClassVar[bool] = True
    """Whether to search again after a pass that changed something. False for a pattern that matches what the
    transform builds."""

    def check(self, m: Match) -> None:
        """Raise Refuse(reason, node) if this match must stay. Changes nothing."""

    def build(self, m: Match, site: Site) -> Value:
        """Build the replacement at the site and return its value: output 0 of a node made there, or a value
        that is there already. Raise Refuse before the first edit only.
        """
        raise NotImplementedError

    def describe(self, m: Match) -> str:
        """What was done, for the ledger."""
        return "replaced"

    def why_nothing(self, graph: Graph) -> str:
        present = {node.op for node in graph}
        for wanted in required(self.pattern):
            if "*" not in wanted and not wanted & present:
                return f"the graph has no {' or '.join(sorted(wanted))}"
        inner = next((p for p in self.pattern.inputs or () if isinstance(p, NodePattern)), None)
        head = " or ".join(sorted(self.pattern.ops))
        if inner is None or "*" in inner.ops:
            return super().why_nothing(graph)
        return f"no {head} reads a {' or '.join(sorted(inner.ops))} the way it should"

    def apply(self, graph: Graph, trace: Trace) -> None:
        names = {node.name for node in graph}
        while True:
            trace.forget_left()
            before = len(trace.changes)
            with paused_gc():
                for head in match_order(graph):
                    if head.graph is graph and self.pattern.accepts(head.op):
                        self._try(graph, head, trace)
            if len(trace.changes) == before or not self.until_fixpoint:
                break
        drop_lost_classes(graph, names)

    def _try(self, graph: Graph, head: Node, trace: Trace) -> None:
        found = match(self.pattern, head)
        if isinstance(found, Miss):
            if found.depth > NEAR_MISS_DEPTH:
                trace.leave(head, found.reason)
            return
        site = Site(graph, head, self.name)
        try:
            refuse_shared(found)
            self.check(found)
            what = self.describe(found)
            replacement = self.build(found, site)
            if replacement.node not in site.made and head.is_protected:
                raise Refuse(f"'{head.name}' is asked for by name", head)
        except Refuse as refusal:
            trace.leave(refusal.node or head, refusal.reason)
            return
        trace.changed(head, what)
        loose = [*found.claimed[1:], *(v.node for n in found.claimed for v in n.inputs)]
        _hand_over_control(found)
        if replacement.node in site.made:
            graph.replace(head, replacement.node)
        else:
            graph.bypass(head, {0: replacement})
        sweep(graph, loose)


def refuse_shared(m: Match) -> None:
    """Refuse if a node inside the match is also used outside of it, or the head is more than its output 0.

    Nodes that merely wait for a node inside do not count: they will wait for what the match reads.
    """
    inside = set(m.claimed)
    for node in m.claimed[1:]:
        if node.is_protected:
            raise Refuse(f"'{node.name}' is asked for by name", node)
        for reader in (use.node for value in node.outputs for use in value.uses):
            if reader not in inside:
                raise Refuse(f"'{node.name}' is also used by '{reader.name}'", node)
    if m.head.output().is_graph_input:
        raise Refuse(f"'{m.head.name}' is an input of the graph", m.head)
    for value in m.head.outputs:
        if value.port > 0 and (value.uses or value.is_graph_output):
            raise Refuse(f"output {value.port} of '{m.head.name}' is used", m.head)


def _hand_over_control(m: Match) -> None:
    """What nodes inside the match wait for, the head waits for from now on; who waits for them, waits for
    what they read from outside. Neither can close a circle: each waited for that before.
    """
    inside = set(m.claimed)
    needs: dict[Node, dict[Node, None]] = {}
    for node in reversed(m.claimed):  # readers come before what they read
        sources = dict.fromkeys([*(v.node for v in node.inputs), *node.control_inputs])
        needs[node] = {}
        for source in sources:
            if source in inside:
                needs[node].update(needs.get(source, {}))
            elif source.tensor is None or source.control_inputs:  # nobody has to wait for a constant
                needs[node][source] = None
        if node is m.head:
            continue
        for awaited in node.control_inputs:
            if awaited not in inside:
                m.head.add_control_input(awaited)
        for waiter in node.control_outputs:
            waiter.remove_control_input(node)
            if waiter not in inside:
                for awaited in needs[node]:
                    waiter.add_control_input(awaited)
