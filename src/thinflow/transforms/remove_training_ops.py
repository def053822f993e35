"""Take out what a graph carries along from training and that does nothing when it is used.

    relu(x, ^assert)                               ->  relu(x)            checks, prints and summaries too
    switch(x, false), merge(a, b)                  ->  x, a               the branch that never runs goes
    if(false, x; then_branch=f, else_branch=g)     ->  partitioned_call(x; f=g)
    placeholder_with_default(false)                ->  false              unless it is an input of the graph
    dequeue(queue); enqueue(queue, x)              ->  x                  with one node that fills the queue

A condition is constant if it is a constant or the default of a placeholder that nobody feeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.colocation import drop_lost_classes
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.pattern import Match, any_value, node
from thinflow.rewrite.rule import Refuse, Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.flow.constant_branches import resolve_calls, resolve_switches


@transform("remove_training_ops")
@dataclass(frozen=True)
class RemoveTrainingOps(Transform):
    """Remove training ops; each kind can be kept.

    Attributes:
        asserts: remove Assert and CheckNumerics. A wrong input is not told any more.
        prints: remove Print.
        summaries: remove summaries.
        defaults: let placeholders with a default that are no inputs be that default.
        branches: follow conditions that are constant.
        queues: read what the only one who fills a queue puts in.
    """

    asserts: bool = True
    prints: bool = True
    summaries: bool = True
    defaults: bool = True
    branches: bool = True
    queues: bool = True

    def apply(self, graph: Graph, trace: Trace) -> None:
        names = {node.name for node in graph}
        # Queues and conditions first: what they leave dead need not be looked at by the rest.
        if self.queues:
            empty_queues(graph, trace)
        if self.defaults:
            TakeDefaults().apply(graph, trace)
        if self.branches:
            resolve_switches(graph, trace, self.name)
            resolve_calls(graph, trace)
        if self.asserts:
            remove_ops(graph, ASSERTS, "a check", trace)
        if self.prints:
            remove_ops(graph, PRINTS, "a print", trace)
        if self.summaries:
            remove_ops(graph, SUMMARIES, "a summary", trace)
        drop_lost_classes(graph, names)


ASSERTS = frozenset({"Assert", "CheckNumerics", "CheckNumericsV2", "DebugNumericSummary"})
PRINTS = frozenset({"Print", "PrintV2", "StringFormat"})
SUMMARIES = frozenset(
    {
        *("ScalarSummary", "HistogramSummary", "ImageSummary", "AudioSummary", "AudioSummaryV2"),
        *("TensorSummary", "TensorSummaryV2", "MergeSummary", "WriteSummary", "WriteScalarSummary"),
        *("WriteHistogramSummary", "WriteImageSummary", "WriteAudioSummary", "WriteGraphSummary"),
        *("SummaryWriter", "CreateSummaryFileWriter", "FlushSummaryWriter", "CloseSummaryWriter"),
    }
)
_QUEUES = frozenset({"FIFOQueue", "FIFOQueueV2", "PaddingFIFOQueue", "PaddingFIFOQueueV2"})
_COUNTS = frozenset({"QueueSize", "QueueSizeV2", "QueueClose", "QueueCloseV2"})


def remove_ops(graph: Graph, ops: frozenset[str], what: str, trace: Trace) -> None:
    """Take nodes out that only look at values: readers read the value, nobody waits, and then they go."""
    for looker in list(graph):
        if looker.graph is not graph or looker.op not in ops:
            continue
        if looker.is_protected:
            trace.leave(looker, "it is asked for by name")
        # Print and CheckNumerics hand on their input; Assert has no result.
        elif has(looker.op, Trait.PASSES_THROUGH) and looker.inputs:
            trace.changed(looker, f"{what}; its readers read '{looker.inputs[0].name}'")
            sources = [v.node for v in looker.inputs]
            graph.bypass(looker, {0: looker.inputs[0]})
            sweep(graph, sources)
        else:
            _forget(graph, looker, what, trace)


def _forget(graph: Graph, node: Node, what: str, trace: Trace) -> None:
    """Let nobody wait for a node any more, and remove it if nobody reads it."""
    gone = not any(v.uses for v in node.outputs)
    if not gone and not node.control_outputs:
        return
    trace.changed(node, what if gone else f"{what}; nobody waits for it any more")
    for waiter in node.control_outputs:
        waiter.remove_control_input(node)
    if gone:
        sweep(graph, [node])


class TakeDefaults(Rewrite):
    """Let every placeholder with a default that is no input of the graph be its default."""

    in_file_order = True
    until_fixpoint = False
    pattern: ClassVar = node("PlaceholderWithDefault", any_value("default"), name="placeholder")

    def check(self, m: Match) -> None:
        if m.placeholder.is_protected:
            role = "input" if m.placeholder.output().is_graph_input else "output"
            raise Refuse(f"it is an {role} of the graph")

    def describe(self, m: Match) -> str:
        return f"nobody feeds it; its readers read '{m.default.name}'"

    def build(self, m: Match, site: Site) -> Value:
        default: Value = m.default
        return default


def empty_queues(graph: Graph, trace: Trace) -> None:
    """Let who takes from a queue read what the only one who fills it puts in, element by element."""
    for queue in list(graph):
        if queue.graph is not graph or queue.op not in _QUEUES:
            continue
        users = queue.output().readers
        fills = [n for n in users if has(n.op, Trait.ENQUEUE)]
        takes = [n for n in users if has(n.op, Trait.DEQUEUE)]
        reason = _kept(queue, users, fills, takes)
        if reason is not None:
            trace.leave(queue, reason)
            continue
        # Input 0 is the queue; output i of a dequeue is component i of what was put in.
        values: dict[int, Value] = dict(enumerate(fills[0].inputs[1:]))
        for take in takes:
            trace.changed(take, f"reads what '{fills[0].name}' puts into '{queue.name}'")
            graph.bypass(take, values)
        # Closing and counting make sense only with the queue.
        for useless in (*(n for n in users if n not in takes), queue):
            trace.changed(useless, "belongs to a queue that is not needed any more")
            for waiter in useless.control_outputs:
                waiter.remove_control_input(useless)
        graph.remove(*(n for n in users if n not in takes), queue)


def _kept(queue: Node, users: tuple[Node, ...], fills: list[Node], takes: list[Node]) -> str | None:
    """Why a queue has to stay."""
    strange = [n for n in users if not has(n.op, Trait.ENQUEUE | Trait.DEQUEUE) and n.op not in _COUNTS]
    if strange:
        return f"'{strange[0].name}' ({strange[0].op}) uses the queue"
    # With two who fill it, the order in which they run decides what comes out next.
    if len(fills) != 1 or not takes:
        return f"{len(fills)} nodes put single elements in and {len(takes)} take them out, not 1 and 1"
    named = next((n for n in (*users, queue) if n.is_protected), None)
    if named is not None:
        return f"'{named.name}' is asked for by name"
    counted = next((n for n in users if n.op in _COUNTS and any(v.uses for v in n.outputs)), None)
    if counted is not None:
        return f"'{counted.name}' is read"
    return None
