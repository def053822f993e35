"""Answers of a graph in the interpreter, computed ahead while others wait for the answers of a runtime."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from queue import SimpleQueue
from typing import TypeVar

from thinflow.bench.machine import usable_cores
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Value
from thinflow.ops.traits import Trait, has
from thinflow.typing import Array

F = TypeVar("F")

# Beyond that a plan in each thread takes more memory than the waiting is worth.
MOST_THREADS = 4


def answers_ahead(
    graph: Graph,
    outputs: Sequence[Value],
    inputs: Sequence[Value],
    feeds: Iterable[tuple[F, Mapping[Value, Array] | None]],
) -> Iterator[tuple[F, list[Array]]]:
    """What comes with each feed, and the outputs for it; in the order of the feeds, and nothing for None.

    One thread, one run after the other, where a run may leave something for the next.

    Raises:
        FeedError, NodeError: see `Plan.run`; with the sample that it concerns.
    """
    threads = 1 if _leaves_something(graph) else min(usable_cores(), MOST_THREADS)
    idle: SimpleQueue[Plan] = SimpleQueue()
    for _ in range(threads):
        idle.put(Plan(graph, outputs, inputs))

    def run(feed: Mapping[Value, Array] | None) -> list[Array]:
        if feed is None:
            return []
        plan = idle.get()
        try:
            return plan.run(feed)
        finally:
            idle.put(plan)

    pool = ThreadPoolExecutor(threads)
    waiting: deque[tuple[F, Future[list[Array]]]] = deque()
    try:
        for comes, feed in feeds:
            waiting.append((comes, pool.submit(copy_context().run, run, feed)))
            if len(waiting) > threads:
                first, answer = waiting.popleft()
                yield first, answer.result()
        while waiting:
            first, answer = waiting.popleft()
            yield first, answer.result()
    finally:
        pool.shutdown(cancel_futures=True)


_LASTING = Trait.STATEFUL | Trait.RESOURCE | Trait.GIVES_REFERENCE


def _leaves_something(graph: Graph) -> bool:
    nodes = (n for some in (graph, *(f.graph for f in graph.functions.values())) for n in some)
    return bool(graph.states) or any(has(n.op, _LASTING) for n in nodes)
