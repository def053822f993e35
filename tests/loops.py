"""Builds while loops the way TensorFlow 1 does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from thinflow.ir.graph import Graph, Value


def while_loop(
    graph: Graph,
    name: str,
    initial: Sequence[Value],
    condition: Callable[[list[Value]], Value],
    body: Callable[[list[Value]], Sequence[Value]],
) -> list[Value]:
    """What the variables are once `condition` gives false for them; `body` gives their next values."""
    enters = [graph.add("Enter", [v], f"{name}/Enter", attrs={"frame_name": name}) for v in initial]
    merges = [graph.add("Merge", [e, e], f"{name}/Merge") for e in enters]
    merged = [m.output() for m in merges]
    going_on = graph.add("LoopCond", [condition(merged)], f"{name}/LoopCond")
    switches = [graph.add("Switch", [m, going_on], f"{name}/Switch") for m in merged]
    inside = [graph.add("Identity", [s.output(1)], f"{name}/Identity").output() for s in switches]
    for merge, following in zip(merges, body(inside), strict=True):
        merge.set_input(1, graph.add("NextIteration", [following], f"{name}/NextIteration").output())
    return [graph.add("Exit", [s], f"{name}/Exit").output() for s in switches]


def entered(graph: Graph, frame: str, value: Value) -> Value:
    """A value from outside that stays the same in every turn."""
    attrs = {"frame_name": frame, "is_constant": True}
    return graph.add("Enter", [value], f"{frame}/Enter", attrs=attrs).output()
