"""Cuts a graph into regions that an engine runs and the rest that the interpreter runs.

Nodes get a level: it goes up by one whenever a path enters the engine's side from the other one. Engine nodes
of one level
form one region, and such a region is convex: a path that leaves it comes back on a higher level only. So
regions are as
large as they can be for that choice, and each value crosses a border once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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
    *,
    units: Sequence[Sequence[Node]] = (),
    constants: Collection[Node] = (),
) -> list[Region]:
    """Regions in an order in which they can run.

    Args:
        order: the nodes to run, sorted; constants may be among them and belong to whoever reads them.
        inputs: values that are fed.
        outputs: values wanted at the end.
        refused: nodes the engine cannot run.
        worthwhile: whether a region is big enough for the engine; if not, the interpreter runs it.
        units: the nodes as groups that have to stay in one region, sorted; default: each by itself.
        constants: further nodes that belong to whoever reads them.
    """
    fixed = {n for n in order if n.tensor is not None} | set(constants)
    groups = units or [[n] for n in order]
    running = [kept for unit in groups if (kept := [n for n in unit if n not in fixed])]
    excluded = set(refused)
    while True:
        regions = _regions(running, inputs, excluded)
        small = [r for r in regions if r.on_engine and not worthwhile(r.nodes)]
        if not small:
            break
        excluded.update(n for r in small for n in r.nodes)
    _connect(regions, inputs, outputs, fixed)
    return regions


def _regions(running: Sequence[Sequence[Node]], inputs: Sequence[Value], excluded: set[Node]) -> list[Region]:
    fed = set(inputs)
    among = {n for unit in running for n in unit}
    level: dict[Node, int] = {}
    by_level: dict[tuple[int, bool], Region] = {}
    for unit in running:
        on_engine = unit[0] not in excluded
        own = 0
        for node in unit:
            producers = [v.node for v in node.inputs if v not in fed] + list(node.control_inputs)
            for producer in producers:
                if producer in among and producer in level:  # else it is in the unit itself
                    own = max(own, level[producer] + (on_engine and producer in excluded))
        level.update(dict.fromkeys(unit, own))
        by_level.setdefault((own, on_engine), Region(on_engine)).nodes.extend(unit)
    # Engine nodes of level k read interpreter nodes of lower levels only; interpreter nodes of level k may
    # read them.
    return [by_level[key] for key in sorted(by_level, key=lambda k: (k[0], not k[1]))]


def _connect(
    regions: Sequence[Region], inputs: Sequence[Value], outputs: Sequence[Value], fixed: set[Node]
) -> None:
    fed, wanted = set(inputs), set(outputs)
    home = {node: region for region in regions for node in region.nodes}
    for region in regions:
        needed: dict[Value, None] = {}
        made: dict[Value, None] = {}
        for node in region.nodes:
            for value in node.inputs:
                if value in fed or (value.node not in fixed and home.get(value.node) is not region):
                    needed[value] = None
            for value in node.outputs:
                if value not in fed and (
                    value in wanted or any(home.get(r, region) is not region for r in value.readers)
                ):
                    made[value] = None
        region.inputs, region.outputs = list(needed), list(made)
