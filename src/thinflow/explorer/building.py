"""A graph as the explorer's page shows it."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from thinflow.analysis.cost import parameters
from thinflow.errors import ThinflowError
from thinflow.explorer.blocks import place_fixed, split_scopes
from thinflow.explorer.captions import caption, held_tensor, parameter_count, short_count
from thinflow.explorer.constants import all_values, few_values, first_values, numbers, picture, statistics
from thinflow.explorer.document import Constant, GraphView, NodeKind, ScopeKind, Statistics, Texts
from thinflow.explorer.facts import attribute_texts, documentation, quantization_text, spec_texts
from thinflow.explorer.filters import layout_of
from thinflow.explorer.flattening import Box, Flat, Level, Line, flatten
from thinflow.explorer.folding import MOST_NODES, folded
from thinflow.explorer.roles import input_roles
from thinflow.explorer.start import start_scopes
from thinflow.explorer.tree import Group, Neighbours, fixed_boxes, named_tree
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor
from thinflow.typing import Progress


@dataclass
class Built:
    """A graph in the page, with what overlays and comparisons need to find its nodes.

    Attributes:
        view: what is written.
        boxes: in the order of the columns.
        flat: what was laid flat: the graphs behind the boxes.
        neighbours: who reads whom.
        fixed: constants, variables, and what only hands them on.
        places: name -> place of each box.
    """

    view: GraphView
    boxes: list[Box]
    flat: Flat
    neighbours: Neighbours
    fixed: set[Box]
    places: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places = {box.name: place for place, box in enumerate(self.boxes)}

    @property
    def main(self) -> Graph:
        """The graph itself, without bodies."""
        return self.flat.graphs[0][1]


def build(
    graph: Graph,
    label: str,
    texts: Texts,
    *,
    weights: bool = True,
    values: bool = False,
    variables: Mapping[str, Tensor] | None = None,
    progress: Progress | None = None,
) -> Built:
    """Lay a graph out as columns.

    Args:
        graph: with shapes, inputs and outputs.
        label: of its tab.
        texts: of the page.
        weights: look into constants.
        values: hold all their numbers; else those of small ones.
        variables: values by the names of variables.
        progress: told how far it is.
    """
    flat = folded(graph) if len(graph) > MOST_NODES else flatten(graph)
    neighbours = Neighbours(flat.lines)
    boxes = in_order(flat.boxes, flat.lines)
    fixed = fixed_boxes(boxes, neighbours)
    if len(fixed) == len(boxes):
        # Weights without a graph: nothing else is there to be seen.
        fixed = set()
        for box in boxes:
            box.kind = NodeKind.OP
    root, groups = named_tree(boxes, fixed, neighbours)
    split_scopes(root, neighbours)
    place_fixed(root, [b for b in boxes if b in fixed], neighbours, lambda box: groups.get((), root))
    built = Built(GraphView(label), boxes, flat, neighbours, fixed)
    _fill_scopes(built, root, fixed, texts, variables or {})
    _fill_nodes(built, texts)
    built.view.stored = frozenset(place for place, box in enumerate(boxes) if box in fixed)
    _fill_edges(built)
    _fill_constants(built, texts, weights, values, variables or {}, progress)
    built.view.facts = _facts(graph, built, variables or {})
    return built


def in_order(boxes: Sequence[Box], lines: Sequence[Line]) -> list[Box]:
    """The boxes in topological order, nearest to the given one; those in a cycle last, as they came."""
    places = {box: place for place, box in enumerate(boxes)}
    waiting = [0] * len(boxes)
    readers: list[list[int]] = [[] for _ in boxes]
    for line in lines:
        readers[places[line.source]].append(places[line.target])
        waiting[places[line.target]] += 1
    ready = [place for place, count in enumerate(waiting) if not count]
    order: list[int] = []
    while ready:
        place = heapq.heappop(ready)
        order.append(place)
        for reader in readers[place]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    done = set(order)
    return [boxes[p] for p in (*order, *(p for p in range(len(boxes)) if p not in done))]


def _fill_scopes(
    built: Built, root: Group, fixed: set[Box], texts: Texts, variables: Mapping[str, Tensor]
) -> None:
    view, numbers = built.view, dict[Group, int]()
    pending: list[tuple[Group, int]] = [(root, -1)]
    scope_of: dict[Box, int] = {}
    while pending:
        group, parent = pending.pop()
        number = numbers[group] = len(view.scopes.name)
        view.scopes.name.append(texts.of(group.name))
        view.scopes.parent.append(parent)
        view.scopes.kind.append(group.kind)
        view.scopes.repeats.append(group.repeats)
        view.scopes.caption.append(texts.of(caption(group, fixed, variables)))
        for member in reversed(group.members):
            if isinstance(member, Group):
                pending.append((member, number))
            else:
                scope_of[member] = number
    view.nodes.scope = [scope_of[box] for box in built.boxes]
    _fill_bodies(built)
    view.start = start_scopes(root, numbers, fixed)


def _fill_bodies(built: Built) -> None:
    """Which scopes are the bodies of If, Case and While."""
    calls = [(place, box) for place, box in enumerate(built.boxes) if box.bodies]
    if not calls:
        return
    # A body is where the first of its boxes is: by the paths of calls, whatever became of the names.
    first: dict[tuple[Level, ...], int] = {}
    for place, box in enumerate(built.boxes):
        for depth in range(1, len(box.prefix) + 1):
            first.setdefault(box.prefix[:depth], built.view.nodes.scope[place])
    for place, box in calls:
        scopes = [_body_scope(built.view, first[path], len(path)) for path in box.bodies if path in first]
        built.view.nodes.bodies[place] = scopes


def _body_scope(view: GraphView, scope: int, depth: int) -> int:
    """The scope around a box that is the body of the call at some depth."""
    way: list[int] = []
    while scope >= 0:
        if view.scopes.kind[scope] is ScopeKind.FUNCTION:
            way.append(scope)
        scope = view.scopes.parent[scope]
    # The outermost stands last; scopes that held one scope alone were joined.
    return way[max(len(way) - depth, 0)]


def _fill_nodes(built: Built, texts: Texts) -> None:
    nodes = built.view.nodes
    for place, box in enumerate(built.boxes):
        nodes.name.append(texts.of(box.name))
        op = texts.of(box.op)
        nodes.op.append(op)
        nodes.kind.append(box.kind)
        attributes = attribute_texts(box.node) if box.node is not None else box.about
        nodes.attributes.append([texts.of(text) for pair in attributes for text in pair])
        values = box.node.outputs if box.node is not None else (box.value,) if box.value is not None else ()
        nodes.outputs.append([texts.of(text) for v in values for text in spec_texts(v.spec)])
        words = [quantization_text(v) for v in values]
        if any(words):
            nodes.quantization[place] = [texts.of(word) for word in words]
        if op not in nodes.documentation and box.node is not None:
            address = documentation(box.node.op)
            if address:
                nodes.documentation[op] = address
        if box.node is not None and (roles := input_roles(box.node)):
            nodes.set_roles(place, [texts.of(role) for role in roles])


def _fill_edges(built: Built) -> None:
    places = {box: place for place, box in enumerate(built.boxes)}
    for line in built.flat.lines:
        built.view.edges.add(places[line.source], line.port, places[line.target], line.input)


def _fill_constants(
    built: Built,
    texts: Texts,
    weights: bool,
    values: bool,
    variables: Mapping[str, Tensor],
    progress: Progress | None,
) -> None:
    allowance = all_values() if values else few_values()
    held = [(place, box.node, held_tensor(box, variables)) for place, box in enumerate(built.boxes)]
    tensors = [(p, n, tensor) for p, n, tensor in held if n is not None and tensor is not None]
    for number, (place, node, tensor) in enumerate(tensors):
        if progress is not None:
            progress(number, len(tensors), "looking into weights")
        facts: tuple[Statistics | None, str] = (None, "")
        drawn = held_numbers = None
        if weights:
            try:
                facts = statistics(tensor), first_values(tensor)
                drawn = picture(tensor, layout_of(node))
                held_numbers = numbers(tensor, allowance)
            except ThinflowError as error:
                remark = texts.of(f"its values cannot be read: {error.message}")
                built.view.nodes.remarks.setdefault(place, []).append(remark)
        built.view.constants.append(
            Constant(
                place,
                texts.of(str(tensor.dtype)),
                texts.of(",".join(map(str, tensor.shape))),
                _stored_bytes(tensor),
                facts[0],
                drawn,
                facts[1],
                held_numbers,
            )
        )


def _stored_bytes(tensor: Tensor) -> int:
    return tensor.storage.stored_bytes


def _parameters(built: Built, variables: Mapping[str, Tensor]) -> int:
    """Elements of all constants and variables; bodies count where they are called."""
    if built.flat.is_folded:
        return parameters(built.main, 0).count
    return parameter_count(built.boxes, variables)


def _facts(graph: Graph, built: Built, variables: Mapping[str, Tensor]) -> list[tuple[str, str]]:
    # The page counts the nodes that it has; of a graph with boxes for many it cannot.
    nodes = [("nodes", f"{len(graph):,}")] if built.flat.is_folded else []
    facts = [
        *nodes,
        ("inputs", ", ".join(f"{v.name} {v.spec}" for v in graph.inputs) or "none"),
        ("outputs", ", ".join(f"{v.name} {v.spec}" for v in graph.outputs) or "none"),
        ("parameters", short_count(_parameters(built, variables))),
    ]
    return [*facts, *graph.facts.items()]
