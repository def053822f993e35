"""The files of a SavedModel: the nodes that name them name them where they lie now."""

from __future__ import annotations

import os

import numpy as np

from thinflow.formats.metagraph import MetaGraph
from thinflow.ir.graph import Graph, Node, Value

_NAMING = frozenset({"Const", "Placeholder", "PlaceholderWithDefault"})


def place_assets(meta: MetaGraph) -> None:
    """Replace the nodes that name a file of the model by constants with its whole path. Edits the graph.

    A relative one would be looked for from the model's folder, and again when the program has gone elsewhere.

    Raises:
        FormatError: a file would lie outside the model's folder.
    """
    for name, path in meta.assets():
        node = meta.graph.find(name)
        if node is None or node.op not in _NAMING:
            continue
        text = np.array(os.path.abspath(path).encode("utf-8", "surrogateescape"), object)
        constant = meta.graph.constant(text, name, before=node)
        constant.node.origin = "freeze"
        meta.graph.replace(node, constant.node)
        _pass_through_variables(meta.graph, constant)


def _pass_through_variables(graph: Graph, path: Value) -> None:
    """TensorFlow 2 keeps a path in a variable, filled when the model is loaded: read the path itself."""
    for assign in path.readers:
        if assign.op != "AssignVariableOp" or assign.inputs[1] is not path:
            continue
        for read in _reads(assign.inputs[0]):
            attrs = {"T": read.attrs["dtype"]}
            passed = graph.add("Identity", [path], name=read.name, attrs=attrs, before=read)
            passed.origin = "freeze"
            graph.replace(read, passed)


def _reads(handle: Value) -> list[Node]:
    return [n for n in handle.readers if n.op == "ReadVariableOp" and "dtype" in n.attrs]
