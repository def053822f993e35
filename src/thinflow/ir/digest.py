"""Digests of graphs: whether two are the same model."""

from __future__ import annotations

import hashlib

from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor


def graph_digest(graph: Graph) -> str:
    """32 hexadecimal digits that depend on nodes, edges and weights, and not on the order in which nodes are
    stored.

    Attributes besides tensors do not count: tools write shapes and devices into them and mean the same model.
    """
    digest = hashlib.blake2b(digest_size=16)
    for node in sorted(graph, key=lambda n: n.name):
        edges = (node.name, node.op, *(value.name for value in node.inputs if value is not None))
        digest.update("\0".join(edges).encode("utf-8", "surrogatepass") + b"\n")
        for _, value in sorted(node.attrs_view.items(), key=lambda pair: pair[0]):
            if isinstance(value, Tensor):
                digest.update(value.fingerprint())
    for end in (*graph.inputs, *graph.outputs):
        digest.update(end.name.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
