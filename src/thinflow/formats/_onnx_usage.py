"""How the ends of an ONNX graph are used, from the metadata of its file and its classifiers."""

from __future__ import annotations

from typing import Any

from thinflow.ir.graph import Graph
from thinflow.ir.usage import Usage, Words

_CLASSES = "classlabels_strings"
_MOST_BACK = 4
"""Steps from an output to the classifier: scores are normalized and put into maps."""


def usage_of(message: Any, graph: Graph) -> Usage:
    """What an .onnx file's metadata and the classes of its classifiers say of the ends of a graph."""
    from thinflow.onnx.metadata import End, read_usage

    classes = _classes(message.graph)
    if not message.metadata_props and not classes:
        return Usage()

    def own(name: str) -> str:
        plain = name.removesuffix(":0")
        return graph.aliases.get(plain, plain)

    kinds = {own(i.name): i.type.denotation for i in message.graph.input}
    inputs, outputs = (
        [End(v.name, v.shape, kinds.get(v.name, "")) for v in side] for side in (graph.inputs, graph.outputs)
    )
    props = {p.key: p.value for p in message.metadata_props}
    return read_usage(props, inputs, outputs, {own(name): words for name, words in classes.items()})


def _classes(message: Any) -> dict[str, Words]:
    """Output -> the names of the classes that an operator for classical machine learning gives its scores."""
    if not any(node.domain == "ai.onnx.ml" for node in message.node):
        return {}
    makers = {name: node for node in message.node for name in node.output if name}
    found = {}
    for info in message.output:
        name = info.name
        for _ in range(_MOST_BACK):
            node = makers.get(name)
            if node is None:
                break
            labels = next((a.strings for a in node.attribute if a.name == _CLASSES and a.strings), None)
            # The first of two outputs of a classifier is the label itself.
            if labels is not None and (len(node.output) < 2 or node.output[1] == name):
                words = tuple(label.decode("utf-8", "replace") for label in labels)
                found[info.name] = Words(f"{node.op_type}", words)
            if labels is not None or not node.input:
                break
            name = node.input[0]
    return found
