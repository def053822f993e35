"""Regions of a graph that an engine runs, if moving values there pays; the interpreter runs the rest.

Nodes get a level: it goes up by one whenever a path enters the engine's side from the other one, beginning
with the first. Engine nodes of one level form one region, and such a region is convex: a path that leaves it
comes back on a higher level only. There are as few regions as the path that changes sides most often asks
for. What nobody needs before a later region joins that one. Each value crosses a border once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from thinflow.errors import ThinflowError
from thinflow.ir.function import mentioned
from thinflow.ir.graph import Graph, Node, Value, library_of
from thinflow.ir.order import NEXT_ITERATIONS
from thinflow.ir.types import TensorSpec
from thinflow.lower.tflite.quantized_context import takes_quantized
from thinflow.ops import registry
from thinflow.ops.traits import Trait

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
                # Entering the engine costs a level, leaving it none: no path that leaves a region returns to
                # it.
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


# --- regions that pay ---------------------------------------------------------------------------------------
#
# A region that an engine runs costs a call of the engine, and a copy of every value that goes in or out. What
# it saves is the interpreter's time for its nodes. Both are estimated, from the sizes of the values and the
# arithmetic of the nodes; the rates are rounded measurements of LiteRT and numpy on one x86 core, and it is
# only their ratios that matter: six small element-wise nodes pay, four do not, and one convolution of a
# picture does.

CALL_SECONDS = 10e-6
"""Of calling the engine once."""
VALUE_SECONDS = 1e-6
"""Of handing over one value, whatever its size."""
COPIED_BYTES_PER_SECOND = 5e9
NODE_SECONDS = 2.5e-6
"""Of one node in the interpreter, whatever its size."""
TOUCHED_BYTES_PER_SECOND = 4e9
"""Read and written by the interpreter."""
FLOPS_PER_SECOND = 5e9
"""Of the interpreter; those of an engine are left out, being many times faster."""

EXACT_FLOPS = 1e5
"""Eight-bit arithmetic, in the whole graph, that takes the interpreter less than a tenth of a millisecond."""


def too_small(region: Region) -> str:
    """The reason to let the interpreter run a region; "" if the engine pays."""
    if any(_turns_or_calls(n) for n in region.nodes):
        return ""  # how much it does is not known, but seldom little
    moved = [*region.inputs, *region.outputs]
    copied = sum(map(_bytes, moved))
    border = CALL_SECONDS + VALUE_SECONDS * len(moved) + copied / COPIED_BYTES_PER_SECOND
    if sum(map(_seconds, region.nodes)) > border:
        return ""
    count = len(region.nodes)
    nodes = "this cheap node" if count == 1 else f"these {count} cheap nodes"
    return f"moving {len(moved)} values to the engine and back ({copied} bytes) costs more than {nodes}"


def _turns_or_calls(node: Node) -> bool:
    """True if a node is part of a loop, or runs a function."""
    functions = library_of(node)
    calls = bool(functions) and any(name in functions for name in mentioned(node))
    return calls or node.op in NEXT_ITERATIONS


def _seconds(node: Node) -> float:
    """The interpreter's time for a node; one that only passes its input on takes none."""
    definition = registry.find(node.op)
    if definition is None or definition.has(Trait.PASSES_THROUGH):
        return 0.0
    touched = sum(map(_bytes, (*node.inputs, *node.outputs))) / TOUCHED_BYTES_PER_SECOND
    return NODE_SECONDS + touched + flops(node, definition) / FLOPS_PER_SECOND


def flops(node: Node, definition: type[registry.OpDef]) -> float:
    """Arithmetic of a node, open sizes taken for 1; endless where not even the rank is known."""
    if definition.cost is None:
        return 0.0
    inputs, outputs = list(_settled(node.inputs)), list(_settled(node.outputs))
    # Taken for heavy: an engine that gets too much loses microseconds, the interpreter might lose seconds.
    if not all(s.is_static for s in (*inputs, *outputs[:1])):
        return float("inf")
    try:
        return float(registry.call_cost(definition, outputs, inputs, node.attrs).flops)
    except (ThinflowError, *registry.RULE_ERRORS):
        return 0.0


def _settled(values: Iterable[Value]) -> Iterable[TensorSpec]:
    for value in values:
        shape = value.spec.shape
        # 1 for an open size makes an estimate a lower bound of what the interpreter would take.
        yield value.spec if shape is None else replace(value.spec, shape=tuple(d or 1 for d in shape))


def _bytes(value: Value) -> int:
    """Size of a value in memory, open sizes taken for 1; 0 where nothing is known."""
    (spec,) = _settled([value])
    return spec.size_bytes or 0


def better_exact(graph: Graph) -> dict[Node, str]:
    """The eight-bit ops of a graph that does little arithmetic with them, with the reason; else nothing.

    LiteRT's kernels round some results to a neighbour of TensorFlow's. The interpreter does not, and is fast
    enough where there is little to compute. Shapes have to be inferred. O(nodes).
    """
    nodes = [node for node in graph if takes_quantized(node.op)]
    total = 0.0
    for node in nodes:
        total += flops(node, registry.get(node.op))
        if total > EXACT_FLOPS:
            return {}
    why = (
        "with so little eight-bit arithmetic the interpreter does, and its codes are TensorFlow's to the last"
    )
    return dict.fromkeys(nodes, why)
