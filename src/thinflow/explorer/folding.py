"""Graphs too large for a page: scopes as one box each, and a note of what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from thinflow.explorer.document import NodeKind
from thinflow.explorer.flattening import Box, Flat, Line, output_boxes, plain_box
from thinflow.ir.graph import Graph, Node

MOST_NODES = 50_000
"""Nodes that a page can hold one by one."""
MOST_BOXES = 5_000
"""Boxes that stand for the scopes of a larger graph."""
_DEEPEST = 12
_SHOWN_OPS = 8


def folded(graph: Graph) -> Flat:
    """Boxes for the scopes of a large graph, as deep as there are few enough; ends stay. O(nodes x depth)."""
    nodes = list(graph)
    home_of = _homes(nodes)
    members: dict[str, list[Node]] = {}
    for number, node in enumerate(nodes):
        home = node.name if node.is_protected else home_of(number, node)
        members.setdefault(home, []).append(node)
    flat = Flat(graphs=[("", graph)], is_folded=True)
    boxes: dict[Node, Box] = {}
    for home, inside in members.items():
        box = plain_box(inside[0]) if len(inside) == 1 else _folded_box(home, inside)
        boxes.update(dict.fromkeys(inside, box))
        flat.boxes.append(box)
    flat.boxes += output_boxes(graph, {box.name for box in flat.boxes})
    flat.lines = _lines(flat.boxes, boxes)
    flat.notes.append(
        f"{len(nodes)} nodes are too many for a page: it shows {len(members)} scopes and single nodes, and "
        "leaves out what is inside of them, weights included; a part of the graph can be cut out with the "
        "transform strip_unused_nodes and looked at by itself"
    )
    return flat


def _homes(nodes: Sequence[Node]) -> Callable[[int, Node], str]:
    """The box of a node: its scope at the deepest level with few enough of them, else a run of neighbours."""
    for level in range(_DEEPEST, 0, -1):
        found: set[str] = set()
        for node in nodes:
            found.add(_scope(node.name, level))
            if len(found) > MOST_BOXES:
                break
        else:
            return lambda _, node: _scope(node.name, level)
    size = -(-len(nodes) // MOST_BOXES)
    return lambda number, _: f"nodes {number // size * size} to {(number // size + 1) * size - 1}"


def _scope(name: str, level: int) -> str:
    parts = name.split("/", level)
    return "/".join(parts[:level]) if len(parts) > level else name


def _folded_box(home: str, inside: Sequence[Node]) -> Box:
    ops = Counter(node.op for node in inside)
    listed = sorted(ops.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN_OPS]
    about = [("nodes", str(len(inside))), *((op, str(count)) for op, count in listed)]
    # A slash at the end, so that it is no node's name.
    return Box(f"{home}/", f"{len(inside)} nodes", NodeKind.OP, about=about)


def _lines(shown: Sequence[Box], boxes: dict[Node, Box]) -> list[Line]:
    """Each pair of boxes once, and control lines only where no data flows."""
    found: dict[tuple[Box, Box], Line] = {}
    for node, box in boxes.items():
        for value in node.inputs:
            source = boxes.get(value.node)
            if source is not None and source is not box:
                found.setdefault((source, box), Line(source, value.port, box, 0))
    for node, box in boxes.items():
        for awaited in node.control_inputs:
            source = boxes.get(awaited)
            if source is not None and source is not box:
                found.setdefault((source, box), Line(source, -1, box, -1))
    ends = [Line(boxes[b.value.node], b.value.port, b, 0) for b in shown if b.value and b.value.node in boxes]
    return [*found.values(), *ends]
