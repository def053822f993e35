"""Graphs and node data in the JSON of Model Explorer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thinflow.explorer.document import Constant, Document, GraphView, NodeKind, Overlay

_COLOURS = ("#ffffff", "#e8710a")
"""From little to much."""

Json = dict[str, Any]


def collection(document: Document) -> Json:
    """All graphs of a page as one collection: `{"label", "graphs"}`."""
    strings = document.texts.strings
    graphs = [_graph(view, strings, number) for number, view in enumerate(document.graphs)]
    return {"label": document.title, "graphs": graphs, "graphSorting": "name_asc"}


def graph_id(view: GraphView, number: int) -> str:
    """The name of a graph in its collection, unlike that of any other."""
    return f"{view.label} ({number + 1})" if number else view.label


def node_data(document: Document) -> Iterator[tuple[str, Json]]:
    """For each overlay of amounts its id and its data, a graph each."""
    strings = document.texts.strings
    found: dict[str, Json] = {}
    for number, view in enumerate(document.graphs):
        names = [strings[name] for name in view.nodes.name]
        for overlay in view.overlays:
            if not overlay.categories:
                found.setdefault(overlay.id, {})[graph_id(view, number)] = _data(overlay, names)
    yield from found.items()


def _data(overlay: Overlay, names: Sequence[str]) -> Json:
    results = {n: {"value": v} for n, v in zip(names, overlay.values, strict=True) if v is not None}
    # Where little is bad, little is what is to be seen.
    colours = _COLOURS[::-1] if overlay.worse == "low" else _COLOURS
    gradient = [{"stop": stop, "bgColor": colour} for stop, colour in enumerate(colours)]
    unit = f" ({overlay.unit})" if overlay.unit else ""
    return {"name": f"{overlay.label}{unit}", "results": results, "gradient": gradient}


def _graph(view: GraphView, strings: Sequence[str], number: int) -> Json:
    spaces = _namespaces(view, strings)
    constants = {constant.node: constant for constant in view.constants}
    incoming: dict[int, list[Json]] = {}
    edges = view.edges
    names = [strings[name] for name in view.nodes.name]
    labels, hidden = _labels(view, strings)
    for source, port, target, place in zip(edges.source, edges.port, edges.target, edges.input, strict=True):
        # Control edges pass nothing on; Model Explorer has no such kind.
        if port >= 0:
            ends = {"sourceNodeOutputId": str(port), "targetNodeInputId": str(place)}
            incoming.setdefault(target, []).append({"sourceNodeId": names[source], **ends})
    nodes = [
        {
            "id": names[at],
            "label": labels[at],
            "namespace": spaces[view.nodes.scope[at]],
            "subgraphIds": [],
            "attrs": _attributes(view, strings, at, constants.get(at)),
            "incomingEdges": incoming.get(at, []),
            "outputsMetadata": list(_outputs(view, strings, at)),
            "inputsMetadata": list(_inputs(view, strings, at)),
        }
        for at in range(len(names))
    ]
    captions = {space: strings[view.scopes.caption[at]] for at, space in enumerate(spaces) if space}
    groups = {space: {"content": caption} for space, caption in captions.items() if caption}
    found = {"id": graph_id(view, number), "nodes": nodes, "groupNodeAttributes": groups}
    return found | {"nodeLabelsToHide": hidden}


def _labels(view: GraphView, strings: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands on each node, and which of that Model Explorer folds into its readers.

    By itself it hides constants and reads of variables: of a SavedModel a row of variables stays, of a graph
    of TensorFlow 1 a row of identities, of weights alone nothing. Where there is nothing else, nodes have
    names for labels and all are shown.
    """
    nodes = view.nodes
    ops, names = ([strings[text] for text in column] for column in (nodes.op, nodes.name))
    short = [name.rpartition("/")[2] or name for name in names]
    if set(ops) <= {"Const"}:
        return short, []
    stored = view.stored
    seen = {op for at, op in enumerate(ops) if at not in stored}
    labels = [
        # Outputs have no op that says anything; one that computes elsewhere may not be hidden by its name.
        short[at] if kind is NodeKind.OUTPUT else f"{op} of a constant" if at in stored and op in seen else op
        for at, (op, kind) in enumerate(zip(ops, nodes.kind, strict=True))
    ]
    return labels, sorted({labels[at] for at in stored} | {"Const", "ReadVariableOp"})


def _namespaces(view: GraphView, strings: Sequence[str]) -> list[str]:
    """The path of each scope; a slash inside of a name separates, there as here."""
    found: list[str] = []
    # Parents stand before their children.
    for name, parent in zip(view.scopes.name, view.scopes.parent, strict=True):
        outer = found[parent] if parent >= 0 else ""
        found.append("/".join(filter(None, (outer, strings[name]))))
    return found


def _attributes(
    view: GraphView, strings: Sequence[str], at: int, constant: Constant | None
) -> list[Mapping[str, str]]:
    flat = [strings[text] for text in view.nodes.attributes[at]]
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    pairs += [("remark", strings[text]) for text in view.nodes.remarks.get(at, ())]
    words = [strings[text] for text in view.nodes.quantization.get(at, ())]
    pairs += [("quantization", word) for word in words if word]
    if constant is not None:
        # Model Explorer shows what has this key beside the input that reads the constant.
        pairs += [("bytes", str(constant.size_bytes)), ("__value", constant.values)]
        if (s := constant.statistics) is not None:
            pairs += [(k, f"{v:.6g}") for k, v in _ends(s.minimum, s.maximum, s.mean) if v is not None]
            pairs += [("zeros", f"{s.zeros:.1%}"), ("NaN or infinite", str(s.non_finite))]
    return [{"key": key, "value": value} for key, value in pairs]


def _ends(low: float | None, high: float | None, mean: float | None) -> list[tuple[str, float | None]]:
    return [("min", low), ("max", high), ("mean", mean)]


def _inputs(view: GraphView, strings: Sequence[str], at: int) -> Iterator[Json]:
    for place, role in enumerate(view.nodes.roles_at(at)):
        # By this key Model Explorer names the inputs of a node.
        yield {"id": str(place), "attrs": [{"key": "__tensor_tag", "value": strings[role]}]}


def _outputs(view: GraphView, strings: Sequence[str], at: int) -> Iterator[Json]:
    flat = [strings[text] for text in view.nodes.outputs[at]]
    for port, (dtype, shape) in enumerate(zip(flat[::2], flat[1::2], strict=True)):
        sizes = "unknown rank" if shape == "*" else f"[{shape}]"
        # By this key Model Explorer writes shapes at edges.
        text = f"{dtype or 'unknown type'} {sizes}"
        yield {"id": str(port), "attrs": [{"key": "tensor_shape", "value": text}]}
