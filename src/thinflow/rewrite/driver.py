"""Runs a pattern-based transform over a graph until nothing changes."""

from __future__ import annotations

from typing import ClassVar

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import match_order
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.pattern import Match, Miss, NodePattern, match
from thinflow.rewrite.rule import Refuse, Transform
from thinflow.rewrite.trace import Trace

NEAR_MISS_DEPTH = 1
"""A try that matched at least this many nodes below the head is told as a near miss."""


class Rewrite(Transform):
    """A local transform: a pattern, what speaks against it, and what to put in its place.

    The driver refuses when a node inside the match has a reader outside or is asked for by name; it gives the
    replacement
    the name, position, control edges and readers of the head, and sweeps what nobody uses any more.
    """

    pattern: ClassVar[NodePattern]

    def check(self, m: Match) -> None:
        """Raise Refuse(reason, node) if this match must stay. Changes nothing."""

    def build(self, m: Match, site: Site) -> Value:
        """Build the replacement at the site and return its value. Raise Refuse before the first edit only."""
        raise NotImplementedError

    def describe(self, m: Match) -> str:
        """What was done, for the ledger."""
        return "replaced"

    def apply(self, graph: Graph, trace: Trace) -> None:
        while True:
            trace.forget_left()
            before = len(trace.changes)
            for head in match_order(graph):
                if head.graph is graph and head.op in self.pattern.ops:
                    self._try(graph, head, trace)
            if len(trace.changes) == before:
                return

    def _try(self, graph: Graph, head: Node, trace: Trace) -> None:
        found = match(self.pattern, head)
        if isinstance(found, Miss):
            if found.depth > NEAR_MISS_DEPTH and found.reason:
                trace.leave(head, found.reason)
            return
        try:
            refuse_shared(graph, found)
            self.check(found)
            what = self.describe(found)
            replacement = self.build(found, Site(graph, head, self.name))
        except Refuse as refusal:
            trace.leave(refusal.node or head, refusal.reason)
            return
        trace.changed(head, what)
        loose = [n for n in found.claimed if n is not head] + [
            v.node for n in found.claimed for v in n.inputs
        ]
        graph.replace(head, replacement.node)
        sweep(graph, loose)


def refuse_shared(graph: Graph, m: Match) -> None:
    """Refuse if a node inside the match is also used outside of it."""
    inside = set(m.claimed)
    for node in m.claimed[1:]:
        if node.is_protected:
            raise Refuse(f"'{node.name}' is asked for by name", node)
        for reader in node.readers:
            if reader not in inside:
                raise Refuse(f"'{node.name}' is also used by '{reader.name}'", node)
    for value in m.head.outputs:
        if value.port > 0 and (value.uses or value.is_graph_output):
            raise Refuse(f"output {value.port} of '{m.head.name}' is used", m.head)
