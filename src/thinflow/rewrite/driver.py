"""Runs a pattern-based transform over a graph until nothing changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from thinflow.ir.graph import Graph, Node, Value, paused_gc
from thinflow.ir.ledger import Entry
from thinflow.ir.order import match_order
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.pattern import HeadPattern, Match, Miss, NodePattern, match, required
from thinflow.rewrite.rule import Refuse, Trace, Transform

NEAR_MISS_DEPTH = 1
"""A try that matched more nodes than this is told as a near miss."""


class Rewrite(Transform):
    """A local transform: a pattern, what speaks against it, and what to put in its place.

    The driver refuses when a node inside the match has a reader outside or is asked for by name. It gives the
    replacement the name, position, device and readers of the head and the control edges of the whole match,
    and sweeps what nobody uses any more.
    """

    pattern: ClassVar[HeadPattern]
    """The pattern to look for. Where it depends on options, a property."""
    until_fixpoint: ClassVar[bool] = True
    """True to search again after a pass that changed something. False for a pattern that matches what the
    transform builds, and for one whose check is dear and never becomes true by another match's change."""
    in_file_order: ClassVar[bool] = False
    """True if heads are tried as they stand in the file, instead of in the Graph Transform Tool's order,
    which decides which of two overlapping matches wins."""
    outputs: ClassVar[int] = 1
    """The number of outputs that the replacement stands for; the others must not be used. 0 for a head that
    stays and is edited in place: `build` returns None then."""
    near_misses: ClassVar[bool] = True
    """True to tell of tries that matched more than the head. False for patterns whose inner nodes are
    common by themselves."""

    def prepare(self, graph: Graph, trace: Trace) -> Mapping[str, object]:
        """Facts that are needed before the first match, such as shapes; every match binds what it returns."""
        return {}

    def check(self, m: Match) -> None:
        """Raise Refuse(reason, node) if this match must stay. Only reads; may bind what `build` needs."""

    def build(self, m: Match, site: Site) -> Value | Sequence[Value] | None:
        """Build the replacement at the site and return its value: output 0 of a node made there, or a value
        that is there already; one for each of `outputs`; or None after editing the head in place. Raise
        Refuse before the first edit only.
        """
        raise NotImplementedError

    def describe(self, m: Match) -> str:
        """The change in words, for the ledger. Asked before the first edit."""
        return "replaced"

    def why_nothing(self, graph: Graph) -> str:
        if not isinstance(self.pattern, NodePattern):
            return super().why_nothing(graph)
        present = {node.op for node in graph}
        for ops in required(self.pattern):
            if "*" not in ops and not ops & present:
                return f"the graph has no {' or '.join(sorted(ops))}"
        inner = next((p for p in self.pattern.inputs or () if isinstance(p, NodePattern)), None)
        head = " or ".join(sorted(self.pattern.ops))
        if inner is None or "*" in inner.ops:
            return super().why_nothing(graph)
        return f"no {head} reads a {' or '.join(sorted(inner.ops))} the way it should"

    def apply(self, graph: Graph, trace: Trace) -> None:
        earlier = len(trace.left)
        pattern = self.pattern
        facts = self.prepare(graph, trace)
        while True:
            # Each pass meets the refusals that still hold once more; older ones may be out of date.
            trace.forget_left(earlier)
            before = len(trace.changes)
            with paused_gc():
                # A list of this moment: matches that are replaced take nodes away and make new ones.
                for head in list(graph) if self.in_file_order else match_order(graph):
                    # An earlier match of this pass may have taken the head away.
                    if head.graph is graph and pattern.accepts(head.op):
                        self._try(graph, head, match(pattern, head, facts), trace)
            if len(trace.changes) == before or not self.until_fixpoint:
                break

    def _try(self, graph: Graph, head: Node, result: Match | Miss, trace: Trace) -> None:
        if isinstance(result, Miss):
            if self.near_misses and result.depth > NEAR_MISS_DEPTH:
                trace.leave(head, result.reason)
            return
        site = Site(graph, head, self.name)
        try:
            # Cheap and general reasons first; nothing may be edited before the last of them.
            refuse_shared_inside(result)
            self.check(result)
            if self.outputs:
                refuse_used_head(head, self.outputs)
            done = Entry(head.name, head.op, self.describe(result))
            # What may be left without readers, looked up now: `build` changes the edges.
            loose = [*result.claimed[1:], *(v.node for n in result.claimed for v in n.inputs)]
            built = self.build(result, site)
            if built is not None:
                self._replace(graph, result, [built] if isinstance(built, Value) else built, site)
        except Refuse as refusal:
            trace.leave(refusal.node or head, refusal.reason)
            return
        trace.changes.append(done)
        sweep(graph, loose)

    def _replace(self, graph: Graph, m: Match, values: Sequence[Value], site: Site) -> None:
        head, top = m.head, values[0].node
        # The node of a value that is there already has a name of its own, which others may know.
        if top not in site.made and head.is_protected:
            raise Refuse(f"'{head.name}' is asked for by name", head)
        _hand_over_control(m)
        if top in site.made:
            graph.replace(head, top, dict(enumerate(values)) if len(values) > 1 else None)
        # The value is another node's, which keeps its name and place.
        else:
            graph.bypass(head, dict(enumerate(values)))


def refuse_shared_inside(m: Match) -> None:
    """Refuse if a node inside the match is also used outside of it.

    Nodes that merely wait for a node inside do not count: they will wait for what the match reads.
    """
    inside = set(m.claimed)
    for node in m.claimed[1:]:
        if node.is_protected:
            raise Refuse(f"'{node.name}' is asked for by name", node)
        # Data readers only: see above.
        for reader in (use.node for value in node.outputs for use in value.uses):
            if reader not in inside:
                raise Refuse(f"'{node.name}' is also used by '{reader.name}'", node)


def refuse_used_head(head: Node, outputs: int) -> None:
    """Refuse if the head is an input of the graph, or used at more than its first outputs."""
    if head.output().is_graph_input:
        raise Refuse(f"'{head.name}' is an input of the graph", head)
    for value in head.outputs:
        # Outputs that were only looked at by shape inference exist, too, hence the look at their readers.
        if value.port >= outputs and (value.uses or value.is_graph_output):
            raise Refuse(f"output {value.port} of '{head.name}' is used", head)


def _hand_over_control(m: Match) -> None:
    """Let the head wait for what nodes inside the match wait for, and who waits for them for what they read
    from outside. Neither can close a circle: each waited for that before.
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
