"""Runs an op as its parts in the interpreter, in LiteRT and in ONNX Runtime, beside its own kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.lower.onnx.harness import Net as OnnxNet
from tests.lower.tflite.harness import Net, compare
from thinflow.decompose import rules
from thinflow.interpreter import Plan
from thinflow.ir.types import TensorSpec, dtype

Arrays = list[Any]


class Constant:
    """An operand that is part of the model."""

    def __init__(self, content, element=np.float32):
        self.array = np.asarray(content, element)


def network(kind, op, operands, attrs, *, open_lead=False):
    """A graph of one node, and the node."""
    net = kind()
    values = []
    for number, operand in enumerate(operands):
        if isinstance(operand, Constant):
            values.append(net.const(operand.array, f"c{number}"))
            continue
        shape = (None, *operand.shape[1:]) if open_lead and operand.ndim else ()
        values.append(net.feed(operand, f"x{number}", shape))
    return net, net.op(op, *values, name="node", **attrs).node


def check_parts(op, operands, attrs=None, *, ports=1, rtol=1e-5, atol=1e-6):
    """The parts, run by the interpreter, give what the kernel gives."""
    net, node = network(Net, op, operands, attrs or {})
    arrays = [o.array if isinstance(o, Constant) else o for o in operands]
    known = {n: o.array for n, o in enumerate(operands) if isinstance(o, Constant)}
    specs = [TensorSpec(dtype(a.dtype), a.shape) for a in arrays]
    parts, _ = rules.decomposition_of(node, specs, known)
    feeds = dict(zip(parts.inputs, arrays, strict=True))
    actual = Plan(parts.graph, list(parts.outputs[:ports]), list(feeds)).run(feeds)
    for found, wanted in zip(actual, net.reference(*(node.output(p) for p in range(ports))), strict=True):
        compare(found, np.asarray(wanted), rtol, atol)


def check_targets(op, operands, attrs=None, *, ports=1, rtol=1e-4, atol=1e-5, opened=True):
    """Both runtimes give what the kernel gives, for a fixed and, if asked for, for an open leading axis."""
    for kind in (Net, OnnxNet):
        for open_lead in (False, True)[: 1 + opened]:
            net, node = network(kind, op, operands, attrs or {}, open_lead=open_lead)
            net.check(*(node.output(p) for p in range(ports)), rtol=rtol, atol=atol)
