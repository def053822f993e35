"""What nodes cost: operations, bytes of what they compute, bytes of the weights they read."""

from __future__ import annotations

from thinflow.analysis.cost import graph_cost
from thinflow.explorer.building import Built
from thinflow.explorer.document import NodeKind, Overlay
from thinflow.ir.graph import Value

_BATCH = " A batch whose size is open counts as one sample."
_BRANCHES = " Of branches each counts, of a loop one round."
_NONE = (NodeKind.CONSTANT, NodeKind.INPUT, NodeKind.OUTPUT, NodeKind.VARIABLE)


def cost_overlays(built: Built, assumed: str = "") -> list[Overlay]:
    """FLOPs, activations and weights of each node; those of which nothing is known are left out.

    Sizes are assumed for open batches, in the graphs behind the boxes: ask for types and shapes before.
    `assumed` is a sentence on sizes other than the batch's.
    """
    found = [_flops(built, assumed), _activations(built, assumed), _weights(built)]
    return [o for o in found if any(o.values)]


def _flops(built: Built, assumed: str) -> Overlay:
    known: dict[str, int] = {}
    free: set[str] = set()
    for prefix, graph in built.flat.graphs:
        cost = graph_cost(graph)
        known |= {f"{prefix}{name}": one.flops for name, one in cost.by_node.items()}
        free |= {f"{prefix}{n.name}" for n in graph if n.name not in cost.unknown}
    values = [
        None if box.kind in _NONE else known.get(box.name, 0 if box.name in free else None)
        for box in built.boxes
    ]
    about = f"Operations of one run, from shapes: a multiplication with its addition counts two.{_BATCH}"
    about += assumed + _BRANCHES
    return Overlay("flops", "FLOPs", about, values, unit="FLOPs", worse="high", adds=True)


def _activations(built: Built, assumed: str) -> Overlay:
    values = [
        None if box.kind in _NONE or box.node is None else _size(box.node.outputs) for box in built.boxes
    ]
    about = f"Bytes of what the node computes, constants not counted.{_BATCH}{assumed}{_BRANCHES}"
    return Overlay("bytes", "activations", about, values, unit="bytes", worse="high", adds=True)


def _size(outputs: tuple[Value, ...]) -> int | None:
    sizes = [v.spec.size_bytes for v in outputs]
    known = [s for s in sizes if s is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _weights(built: Built) -> Overlay:
    # A constant counts once, for the first that reads it, or reads what hands it on.
    totals: dict[int, int] = {}
    for constant in built.view.constants:
        box, reader = built.boxes[constant.node], None
        seen = {box}
        while box in built.fixed:
            reader = next(iter(built.neighbours.readers.get(box, ())), None)
            if reader is None or reader in seen:
                break
            seen.add(reader)
            box = reader
        if reader is not None and box not in built.fixed:
            totals[built.places[box.name]] = totals.get(built.places[box.name], 0) + constant.size_bytes
    values = [totals.get(place) for place in range(len(built.boxes))]
    about = "Bytes of the constants that the node reads, as the file holds them; a shared one counts once."
    return Overlay("weights", "weights", about, values, unit="bytes", worse="high", adds=True)
