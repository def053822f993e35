"""A graph of one op, to be lowered to ONNX."""

from __future__ import annotations

from tests.lower.builders import Constant
from tests.lower.onnx.harness import Net
from thinflow.ops import registry


def build(op, operands, attrs, unknown="", opset=18, kind=Net):
    net = kind()
    net.opset = opset
    inputs = []
    for k, operand in enumerate(operands):
        if isinstance(operand, Constant):
            inputs.append(net.const(operand.array, f"c{k}"))
            continue
        sizes = operand.shape
        shape = {"batch": (None, *sizes[1:])[: len(sizes)], "sizes": (None,) * len(sizes), "rank": None}
        inputs.append(net.feed(operand, f"x{k}", shape=shape.get(unknown, sizes)))
    flags = ("align_corners", "half_pixel_centers")
    return net, net.graph.add(
        op, inputs, "y", attrs={k: bool(v) if k in flags else v for k, v in attrs.items()}
    )


def outputs_of(node):
    """Every output that the op has."""
    definition = registry.get(node.op)
    count = definition.num_outputs
    return [node.output(p) for p in range(count if isinstance(count, int) else node.get(count))]
