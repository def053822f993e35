"""Cuts a graph into regions that an engine runs and the rest that the interpreter runs.

Nodes get a level: it goes up by one whenever a path enters the engine's side from the other one, beginning
with the first. Engine nodes of one level form one region, and such a region is convex: a path that leaves it
comes back on a higher level only. There are as few regions as the path that changes sides most often asks
for. What nobody needs before a later region joins that one. Each value crosses a border once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from thinflow.ir.graph import Node, Value

Unit = Sequence[Node]


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
    too_small: Callable[[Region], str] = lambda _: "",
    *,
    units: Sequence[Unit] = (),
    constants: Collection[Node] = (),
    alone: Collection[Node] = (),
) -> tuple[list[Region], dict[Node, str]]:
    """Regions in an order in which they can run; and why the interpreter runs nodes that the engine could.

    Args:
        order: the nodes to run, sorted; constants may be among them and belong to whoever reads them.
        inputs: values that are fed.
        outputs: values wanted at the end.
        refused: nodes the engine cannot run.
        too_small: why a region does not pay, so that the interpreter runs it; "" if it does.
        units: the nodes as groups that have to stay in one region, sorted; default: each by itself.
        constants: further nodes that belong to whoever reads them.
        alone: nodes whose units get a region of their own where the interpreter runs them.
    """
    fixed = {n for n in order if n.tensor is not None} | set(constants)
    groups = units or [[n] for n in order]
    running = [kept for unit in groups if (kept := [n for n in unit if n not in fixed])]
    excluded, left = set(refused), dict[Node, str]()
    while True:
        regions = _regions(running, inputs, excluded, set(alone))
        _connect(regions, inputs, outputs, fixed)
        small = {n: why for r in regions if r.on_engine and (why := too_small(r)) for n in r.nodes}
        # What goes to the interpreter may split a region in two or leave its neighbour too small: once more.
        # Nodes only ever leave the engine, so it ends.
        if not small:
            return regions, left
        excluded.update(small)
        left |= small


def _regions(
    running: Sequence[Unit], inputs: Sequence[Value], excluded: set[Node], alone: set[Node]
) -> list[Region]:
    links = _Links(running, set(inputs))
    level = _earliest(links, excluded)
    _join_later_ones(links, excluded, level)
    by_level: dict[tuple[int, bool], list[Region]] = {}
    for number, unit in enumerate(running):
        on_engine = unit[0] not in excluded
        regions = by_level.setdefault((level[number], on_engine), [Region(on_engine)])
        if not on_engine and unit[0] in alone:
            # An empty one behind it takes what follows; if nothing does, it is dropped below.
            regions += [Region(on_engine, list(unit)), Region(on_engine)]
        else:
            regions[-1].nodes.extend(unit)
    # Engine nodes of level k read interpreter nodes of lower levels only; interpreter nodes of level k may
    # read them.
    ordered = sorted(by_level, key=lambda k: (k[0], not k[1]))
    return [region for key in ordered for region in by_level[key] if region.nodes]


class _Links:
    """Dependences of units on others, by number. O(nodes + edges).

    Attributes:
        before, after: unit -> those it needs, and those that need it.
    """

    def __init__(self, units: Sequence[Unit], fed: set[Value]) -> None:
        self.units = units
        number = {n: i for i, unit in enumerate(units) for n in unit}
        self.before: list[set[int]] = []
        self.after: list[set[int]] = [set() for _ in units]
        for own, unit in enumerate(units):
            producers = [v.node for n in unit for v in n.inputs if v not in fed]
            producers += [p for n in unit for p in n.control_inputs]
            self.before.append({number[p] for p in producers if p in number} - {own})
            for other in self.before[-1]:
                self.after[other].add(own)


def _earliest(links: _Links, excluded: set[Node]) -> list[int]:
    """The lowest level that each unit may have."""
    level: list[int] = []
    # In running order, so that what a unit needs has its level already.
    for own, unit in enumerate(links.units):
        on_engine = unit[0] not in excluded
        # 0 is what the interpreter runs before any engine; engine nodes begin with level 1.
        lowest = int(on_engine)
        for other in links.before[own]:
            if other < own:  # what is damaged may read what comes later
                lowest = max(lowest, level[other] + (on_engine and links.units[other][0] in excluded))
        level.append(lowest)
    return level


def _join_later_ones(links: _Links, excluded: set[Node], level: list[int]) -> None:
    """Raise what hangs together on the engine's side and is read there on higher levels only.

    The last ones first, so that what they join is where it stays.
    """
    for part in sorted(_hanging_together(links, excluded, level), key=lambda p: -level[p[0]]):
        inside = set(part)
        readers = {r for i in part for r in links.after[i]} - inside
        soonest = min((level[r] for r in readers), default=0)
        joins = any(level[r] == soonest and links.units[r][0] not in excluded for r in readers)
        if joins and soonest > level[part[0]]:
            for i in part:
                level[i] = soonest


def _hanging_together(links: _Links, excluded: set[Node], level: Sequence[int]) -> Iterable[list[int]]:
    """The engine's units in groups that values connect within one level."""
    seen = {i for i, unit in enumerate(links.units) if unit[0] in excluded}
    for start in range(len(links.units)):
        if start in seen:
            continue
        part, stack = [], [start]
        seen.add(start)
        while stack:
            part.append(own := stack.pop())
            near = (links.before[own] | links.after[own]) - seen
            found = [i for i in near if level[i] == level[start]]
            seen.update(found)
            stack += found
        yield part


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
                # A value that is fed comes from outside, even if the node that would make it is here.
                if value in fed or (value.node not in fixed and home.get(value.node) is not region):
                    needed[value] = None
            for value in node.outputs:
                if value not in fed and (
                    value in wanted or any(home.get(r, region) is not region for r in value.readers)
                ):
                    made[value] = None
        region.inputs, region.outputs = list(needed), list(made)
