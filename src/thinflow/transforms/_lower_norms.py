"""Spell out batch norms that no convolution can take.

    norm(x)  ->  x * scale + offset

Each becomes one Mul and one AddV2.
"""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, DType
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.rule import Refuse
from thinflow.rewrite.trace import Trace
from thinflow.transforms._norms import NORMS, Norm, read_norm
from thinflow.transforms._producers import store
from thinflow.transforms._sources import awaited_by_constant, side_outputs
from thinflow.typing import Array


def lower_norms(graph: Graph, trace: Trace, origin: str) -> None:
    """Turn every inference norm with constant parameters into a Mul and an AddV2."""
    lowered: set[str] = set()
    told = {entry.node for entry in trace.left}
    for node in list(graph):
        if node.op not in NORMS or node.graph is not graph:
            continue
        try:
            norm = read_norm(node)
            for value in side_outputs(node):
                raise Refuse(f"its output {value.port} is used", node)
            lowered.add(node.name)
            _lower(graph, norm, trace, origin)
        except Refuse as refusal:
            if node.name not in told:
                trace.leave(node, refusal.reason)
    trace.left = [entry for entry in trace.left if entry.node not in lowered]


def _lower(graph: Graph, norm: Norm, trace: Trace, origin: str) -> None:
    node = norm.node
    element = node.attrs.get("T")
    element = element if isinstance(element, DType) else FLOAT
    like = Tensor.from_array(np.zeros((), element.numpy()), element)
    scale, offset = (store(_shaped(norm, v), like, node) for v in (norm.scale, norm.offset))
    trace.changed(node, "turned into a Mul and an AddV2")
    site = Site(graph, node, origin)
    loose = [v.node for v in norm.parameters]
    awaited = list(dict.fromkeys(n for v in norm.parameters for n in awaited_by_constant(v)))

    def constant(tensor: Tensor, name: str) -> Value:
        value = site.constant(tensor, f"{node.name}/{name}")
        value.node.set_control_inputs(awaited)
        return value

    attrs = {"T": element}
    factor, addend = constant(scale, "scale"), constant(offset, "offset")
    product = site.add(
        "Mul", node.inputs[0], factor, name=f"{node.name}/mul", attrs=attrs, device=node.device
    )
    total = site.add("AddV2", product, addend, name=f"{node.name}/add", attrs=attrs, device=node.device)
    graph.replace(node, total.node, ports={v.port: total for v in node.outputs})
    sweep(graph, loose)


def _shaped(norm: Norm, vector: Array) -> Array:
    """[C] for channels last, [C,1,1] or [C,1,1,1] for channels first."""
    if not norm.channels_first:
        return vector
    return vector.reshape(-1, *[1] * (len(_layout(norm.node)) - 2))


def _layout(node: Node) -> str:
    return str(node.get("data_format", "NHWC"))
