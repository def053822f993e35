"""Ranges that eight-bit ops can work with: RequantizationRange may measure one below zero, or an empty one.

    QuantizedRelu(Requantize(x, range(x)))  ->  r = QuantizedRelu(x); Requantize(r, range(r))
    QuantizedAdd(Requantize(x, range(x)), ...)  ->  the same with Maximum(upper end of range(x), 1e-30)

A Relu over a range without the zero gives the top of the range, a convolution pads with what is not zero,
sums and products refuse an empty range. Where a Relu is the only reader of a 32-bit result it goes in front
of the Requantize, which also leaves all eight bits for what passes it.
"""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Graph, Node
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, QINT8, QINT32, QUINT8
from thinflow.rewrite.edits import Site, sweep
from thinflow.transforms.quantized.values import constant, has_loops, ports
from thinflow.transforms.shared.constants import stored_once

_CLAMPS = frozenset({"QuantizedRelu", "QuantizedRelu6"})
_PASS_RANGE_ON = frozenset(
    {
        "QuantizedAvgPool",
        "QuantizedConcat",
        "QuantizedMaxPool",
        "QuantizedReshape",
        "QuantizedResizeBilinear",
    }
)

_NEED_WIDTH = frozenset({"QuantizedAdd", "QuantizedMatMul", "QuantizedMul"})
_FEW = 64  # values, of which all may be equal
_LEAST = 1e-30
"""Wide enough for 255 steps that are no subnormal numbers, which kernels take for 0."""


def measuring(requantize: Node) -> Node | None:
    """The RequantizationRange that gives a Requantize its range; None if it does not have one to itself."""
    if requantize.op != "Requantize" or len(requantize.inputs) != 5:
        return None
    found = requantize.inputs[3].node
    is_whole = requantize.inputs[3:] == (found.output(0), found.output(1))
    if found.op != "RequantizationRange" or not is_whole or found.inputs != requantize.inputs[:3]:
        return None
    return found


def clamp_first(graph: Graph) -> None:
    """Move each QuantizedRelu in front of the Requantize that only it reads."""
    for relu in graph:
        if relu.op not in _CLAMPS or len(relu.inputs) != 3:
            continue
        requantize = relu.inputs[0].node
        found = measuring(requantize)
        if found is None or relu.inputs != ports(requantize):
            continue
        loose_ends = (relu, requantize, found)
        if any(n.is_protected or n.control_inputs or n.control_outputs for n in loose_ends):
            continue
        if requantize.readers == (relu,) and found.readers == (requantize,):
            _swap(relu, requantize, found)


def _swap(relu: Node, requantize: Node, found: Node) -> None:
    wide = requantize.inputs[:3]
    for value, narrow in zip(ports(relu), ports(requantize), strict=True):
        value.replace_uses(narrow)
    relu.set_inputs(wide)
    relu.attrs.update({"Tinput": QINT32, "out_type": QINT32})
    found.set_inputs(ports(relu))
    requantize.set_inputs([*ports(relu), found.output(0), found.output(1)])


def widen_ranges(graph: Graph, origin: str) -> None:
    """Let measured ranges reach beyond zero where an op needs it."""
    in_loops = has_loops(graph)
    for node in graph:
        found = measuring(node)
        if found is None or not _is_wanted(node, found.inputs[0].node.op in _CLAMPS, _may_be_uniform(node)):
            continue
        site = Site(graph, node, origin)
        near = (found,) if in_loops else ()
        least = constant(site, np.array(_LEAST, np.float32), f"{found.name}/least", near)
        high = site.add("Maximum", found.output(1), least, name=f"{found.name}/max", attrs={"T": FLOAT})
        high.node.device = node.device
        node.set_input(4, high)


def _may_be_uniform(requantize: Node) -> bool:
    """Whether all values may well be the same: there are few, or one channel of perhaps one colour."""
    spec = requantize.output().spec
    return not spec.shape or spec.shape[-1] in (1, None) or (spec.size or 0) <= _FEW


def _is_wanted(requantize: Node, is_clamped: bool, is_uniform: bool) -> bool:
    """Whether codes reach an op that needs a range around zero. O(nodes that pass the range on).

    A range of zeros only is measured as a little more, so it is values below zero that can be trouble.

    Args:
        is_clamped: nothing is below zero.
        is_uniform: the measured range may be empty.
    """
    stack, seen = [requantize], {requantize}
    while stack:
        for use in stack.pop().output().uses:
            reader = use.node
            pads = reader.op == "QuantizedConv2D" and use.index == 0 and reader.get("padding") == "SAME"
            if (pads or reader.op in _CLAMPS) and not is_clamped:
                return True
            if reader.op in _NEED_WIDTH and is_uniform and not is_clamped:
                return True
            if reader.op in _PASS_RANGE_ON and reader not in seen:
                seen.add(reader)
                stack.append(reader)
    return False


_TYPE_OF_CODES = {"Requantize": "out_type", "QuantizeV2": "T"}
_OFFSET = 128


def sign_biases(graph: Graph, origin: str) -> None:
    """Let every QuantizedBiasAdd of a constant read signed codes, where it alone reads them."""
    for node in graph:
        if node.op != "QuantizedBiasAdd" or len(node.inputs) != 6 or node.get("T1") is not QUINT8:
            continue
        source, bias = node.inputs[0].node, node.inputs[1]
        tensor = bias.node.tensor
        if not _is_only_for(source, node) or tensor is None or tensor.dtype is not QUINT8:
            continue
        source.attrs[_TYPE_OF_CODES[source.op]] = QINT8
        node.attrs.update({"T1": QINT8, "T2": QINT8})
        codes = (tensor.numpy().astype(np.int16) - _OFFSET).astype(np.int8)
        site = Site(graph, node, origin)
        signed = stored_once(Tensor.from_array(codes, QINT8))
        node.set_input(1, constant(site, signed, f"{bias.node.name}/signed", bias.node.control_inputs))
        sweep(graph, [bias.node])


def _is_only_for(source: Node, reader: Node) -> bool:
    """Whether codes are made by an op that can make signed ones as well, for one reader."""
    codes, low, high = reader.inputs[0], *reader.inputs[2:4]
    is_plain = source.op == "Requantize" or source.get("mode") == "MIN_FIRST"
    if source.op not in _TYPE_OF_CODES or not is_plain or source.is_protected:
        return False
    return (codes, low, high) == ports(source) and source.readers == (reader,)
