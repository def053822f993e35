"""Graphs of TensorFlow's eight-bit ops, to be lowered to ONNX."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tests.lower.onnx.harness import run_onnx
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import QINT32, QUINT8
from thinflow.lower.onnx.convert import lower_graph

WIDE = {"T1": QUINT8, "T2": QUINT8, "Toutput": QINT32}


def three(node):
    return [node.output(p) for p in range(3)]


def fed(net, shape, low, high, name="x", T=QUINT8, seed=0):
    """Codes that are fed, and a constant range."""
    limits = np.iinfo(T.numpy())
    codes = np.random.default_rng(seed).integers(limits.min, limits.max, shape, T.numpy(), endpoint=True)
    value = net.feed(codes, name)
    value.node.attrs["dtype"] = T
    return [value, net.const(np.float32(low), f"{name}_low"), net.const(np.float32(high), f"{name}_high")]


def stored(net, shape, low, high, name="w", T=QUINT8, seed=1):
    """Constant codes and range."""
    limits = np.iinfo(T.numpy())
    codes = np.random.default_rng(seed).integers(limits.min, limits.max, shape, T.numpy(), endpoint=True)
    value = net.graph.constant(Tensor.from_array(codes, T), name)
    return [value, net.const(np.float32(low), f"{name}_low"), net.const(np.float32(high), f"{name}_high")]


def two(net, op, x, y, **attrs):
    return three(net.op(op, x[0], y[0], *x[1:], *y[1:], name=op, **attrs).node)


def used_range(net, wide):
    """The range that 32-bit sums really use."""
    measuring = net.op("RequantizationRange", *wide, name=f"range_{wide[0].node.name}", Tinput=QINT32).node
    return [float(end) for end in net.reference(measuring.output(0), measuring.output(1))]


def narrowed(net, wide, ends, T=QUINT8, name="narrow"):
    return three(net.op("Requantize", *wide, *ends, name=name, Tinput=QINT32, out_type=T).node)


def frozen(net, wide, part=1.0, T=QUINT8, name="narrow"):
    """Codes of a constant range: a part of what the sums use."""
    low, high = used_range(net, wide)
    ends = np.float32(low * part), np.float32(max(high, 0.01) * part)
    return narrowed(net, wide, ends, T, name)


def measured(net, wide, T=QUINT8, name="narrow"):
    node = net.op("RequantizationRange", *wide, name=f"{name}_range", Tinput=QINT32).node
    return narrowed(net, wide, [node.output(0), node.output(1)], T, name)


def reals(net, codes, name="reals"):
    return net.op("Dequantize", *codes, name=name, T=QUINT8, mode="MIN_FIRST")


def lowered(net, *outputs, extended=True):
    return lower_graph(net.graph, list(net.feeds), list(outputs), opset=20, extended=extended)


def operators(net, *outputs, extended=True):
    return Counter(
        o.code.removeprefix("com.microsoft.")
        for o in lowered(net, *outputs, extended=extended).program.operators
    )


def run(net, *outputs, extended=True):
    found = run_onnx(lowered(net, *outputs, extended=extended), {v.name: a for v, a in net.feeds.items()})
    return [found[v.name] for v in outputs]


def check_measured(net, result, extended=True):
    """Codes of a measured range are within one of the reference, and so are the ends of the range."""
    found, *ends = run(net, *result, extended=extended)
    wanted, *wanted_ends = net.reference(*result)
    assert int(np.abs(found.astype(int) - wanted.astype(int)).max(initial=0)) <= 1
    step = float(wanted_ends[1] - wanted_ends[0]) / 255
    np.testing.assert_allclose(ends, wanted_ends, rtol=1e-6, atol=step)


CLAMPS = {None: None, "QuantizedRelu": None, "QuantizedRelu6": None}


def clamped(net, wide, clamp):
    """A Relu in front of the way back to eight bits."""
    if clamp is None:
        return wide
    return three(net.op(clamp, *wide, name=clamp, Tinput=QINT32, out_type=QINT32).node)
