"""Graphs of TensorFlow's eight-bit ops: values with their ranges, products, requantization."""

from __future__ import annotations

import numpy as np

from tests.lower.tflite.harness import run_litert
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import QINT32, QUINT8
from thinflow.lower.tflite.convert import lower_graph

WIDE = {"T1": QUINT8, "T2": QUINT8, "Toutput": QINT32}


def three(node):
    return [node.output(p) for p in range(3)]


def random_codes(shape, T, seed):
    limits = np.iinfo(T.numpy())
    return np.random.default_rng(seed).integers(limits.min, limits.max, shape, T.numpy(), endpoint=True)


def fed(net, shape, low, high, name="x", T=QUINT8, seed=0):
    """Codes that are fed, and a constant range."""
    value = net.feed(random_codes(shape, T, seed), name)
    value.node.attrs["dtype"] = T
    return [value, net.const(np.float32(low), f"{name}_low"), net.const(np.float32(high), f"{name}_high")]


def stored(net, shape, low, high, name="w", T=QUINT8, seed=1):
    """Constant codes and range."""
    value = net.graph.constant(Tensor.from_array(random_codes(shape, T, seed), T), name)
    return [value, net.const(np.float32(low), f"{name}_low"), net.const(np.float32(high), f"{name}_high")]


def two(net, op, x, y, **attrs):
    return three(net.op(op, x[0], y[0], *x[1:], *y[1:], name=op, **attrs).node)


def one(net, op, x, *more, **attrs):
    return three(net.op(op, x[0], *more, *x[1:], name=op, **attrs).node)


def narrowed(net, wide, low, high, T=QUINT8, name="narrow"):
    ends = np.float32(low), np.float32(high)
    return three(net.op("Requantize", *wide, *ends, name=name, Tinput=QINT32, out_type=T).node)


def frozen(net, wide, part=1.0, T=QUINT8, name="narrow"):
    """Codes of a constant range: a part of what the sums use."""
    measuring = net.op("RequantizationRange", *wide, name=f"{name}_measured", Tinput=QINT32).node
    low, high = (float(end) for end in net.reference(measuring.output(0), measuring.output(1)))
    return narrowed(net, wide, low * part, max(high, 0.01) * part, T, name)


def measured(net, wide, T=QUINT8, name="narrow"):
    node = net.op("RequantizationRange", *wide, name=f"{name}_range", Tinput=QINT32).node
    return three(net.op("Requantize", *wide, *(node.output(p) for p in (0, 1)), name=name, out_type=T).node)


def reals(net, codes, T=QUINT8):
    return net.op("Dequantize", *codes, name="reals", T=T, mode="MIN_FIRST")


def operators(net, *outputs):
    lowered = lower_graph(net.graph, list(net.feeds), list(outputs))
    return lowered, [o.code for o in lowered.program.subgraphs[0].operators]


def within(net, codes, allowed=1):
    """LiteRT's codes beside the reference's; the operators, and the most codes one is off."""
    lowered, found = operators(net, codes[0])
    result = run_litert(lowered, {v.name: a for v, a in net.feeds.items()})[codes[0].name]
    (expected,) = net.reference(codes[0])
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    off = int(np.abs(result.astype(int) - expected.astype(int)).max(initial=0))
    assert off <= allowed
    return found, off
