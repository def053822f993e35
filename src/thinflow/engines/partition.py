"""Cuts a graph into regions that an engine runs and the rest that the interpreter runs.

Nodes get a level: it goes up by one whenever a path enters the engine's side from the other one. Engine nodes
of one level
form one region, and such a region is convex: a path that leaves it comes back on a higher level only. So
regions are as
large as they can be for that choice, and each value crosses a border once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from thinflow.ir.graph import Node, Value


@dataclass(eq=False)
class Region:
    """Nodes that one side runs together.

    Attributes:
        on_engine: the engine runs it, else the interpreter.
        nodes: in execution order.
        inputs: values it needs from outside, constants excluded.
        outputs: values it makes that others need.
    """

    on_engine: bool
    nodes: list[Node] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)


def partition(
    order: Sequence[Node],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    refused: Mapping[Node, str],
    worthwhile: Callable[[Sequence[Node]], bool] = lambda _: True,
) -> list[Region]:
    """Regions in an order in which they can run.

    Args:
        order: the nodes to run, sorted; constants may be among them and belong to whoever reads them.
        inputs: values that are fed.
        outputs: values wanted at the end.
        refused: nodes the engine cannot run.
        worthwhile: whether a region is big enough for the engine; if not, the interpreter runs it.
    """
    running = [n for n in order if n.tensor is None]
    excluded = set(refused)
    while True:
        regions = _regions(running, inputs, excluded)
        small = [r for r in regions if r.on_engine and not worthwhile(r.nodes)]
        if not small:
            break
        excluded.update(n for r in small for n in r.nodes)
    _connect(regions, inputs, outputs)
    return regions


def _regions(running: Sequence[Node], inputs: Sequence[Value], excluded: set[Node]) -> list[Region]:
    fed = set(inputs)
    among = set(running)
    level: dict[Node, int] = {}
    by_level: dict[tuple[int, bool], Region] = {}
    for node in running:
        on_engine = node not in excluded
        own = 0
        producers = [v.node for v in node.inputs if v not in fed] + list(node.control_inputs)
        for producer in producers:
            if producer in among:
                own = max(own, level[producer] + (on_engine and producer in excluded))
        level[node] = own
        by_level.setdefault((own, on_engine), Region(on_engine)).nodes.append(node)
    # Engine nodes of level k read interpreter nodes of lower levels only; interpreter nodes of level k may
    # read them.
    return [by_level[key] for key in sorted(by_level, key=lambda k: (k[0], not k[1]))]


def _connect(regions: Sequence[Region], inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
    fed, wanted = set(inputs), set(outputs)
    home = {node: region for region in regions for node in region.nodes}
    for region in regions:
        needed: dict[Value, None] = {}
        made: dict[Value, None] = {}
        for node in region.nodes:
            for value in node.inputs:
                if value in fed or (value.node.tensor is None and home.get(value.node) is not region):
                    needed[value] = None
            for value in node.outputs:
                if value not in fed and (
                    value in wanted or any(home.get(r, region) is not region for r in value.readers)
                ):
                    made[value] = None
        region.inputs, region.outputs = list(needed), list(made)
