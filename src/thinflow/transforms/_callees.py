"""Which functions call which: those whose calls never end, and those that nothing calls."""

from __future__ import annotations

from collections.abc import Callable

from thinflow.errors import ThinflowError
from thinflow.ir.function import Selection, mentioned, reachable
from thinflow.ir.graph import Graph
from thinflow.rewrite.trace import Trace


def endless(roots: set[str], callees_of: Callable[[str], set[str]]) -> set[str]:
    """The functions whose calls never end: what is left once all are gone that call none of the rest.

    Args:
        roots: functions that are called; they and what they call are looked at.
        callees_of: what a function calls; one that cannot be read calls nothing, that is told elsewhere.
    """
    callees: dict[str, set[str]] = {}
    stack = set(roots)
    while stack:
        name = stack.pop()
        if name not in callees:
            try:
                callees[name] = callees_of(name)
            except ThinflowError:
                callees[name] = set()
            stack |= callees[name]
    callers: dict[str, list[str]] = {}
    for name, called in callees.items():
        for other in called:
            callers.setdefault(other, []).append(name)
    left = {name: len(called) for name, called in callees.items()}
    done = [name for name, count in left.items() if not count]
    while done:
        name = done.pop()
        del left[name]
        for caller in callers.get(name, ()):
            left[caller] -= 1
            if not left[caller]:
                done.append(caller)
    return set(left)


def mentioned_in(body: Graph) -> set[str]:
    """The functions of the library that a graph mentions itself."""
    return {name for node in body for name in mentioned(node) if name in body.functions}


def prune(graph: Graph, trace: Trace) -> None:
    """Drop the functions that nothing calls any more, and say so."""
    try:
        needed = reachable(graph)
    except ThinflowError as error:
        trace.notes.append(f"the function library stays whole: {error.message}")
        return
    unused = len(graph.functions) - len(needed)
    if unused:
        graph.functions = Selection(graph.functions, needed)
        trace.notes.append(f"{unused} functions that nothing calls were dropped, {len(needed)} are left")
