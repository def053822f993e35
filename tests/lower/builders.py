"""Operands and attributes to test ops with."""

from __future__ import annotations

import zlib

import numpy as np


def floats(*shape, low=-2.0, high=2.0):
    rng = np.random.default_rng(zlib.crc32(repr(shape).encode()))
    return rng.uniform(low, high, shape).astype(np.float32)


def integers(*shape, low=-5, high=6, element=np.int32):
    rng = np.random.default_rng(zlib.crc32(repr(shape).encode()))
    return rng.integers(low, high, shape).astype(element)


def booleans(*shape):
    return integers(*shape, low=0, high=2).astype(bool)


I32, I64 = np.int32, np.int64


class Constant:
    """An operand that is a constant of the graph, not fed."""

    def __init__(self, array, element=None):
        self.array = np.asarray(array, element)


def vector(*values):
    return Constant(list(values), I32)


def conv_attrs(**more):
    return {"strides": [1, 1, 1, 1], "padding": "SAME", **more}


BOXES = np.float32([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [0, 2.05, 1, 3.05]])
SCORES = np.float32([0.9, 0.8, 0.7, 0.95])


def port_count(node):
    counts = {"Unpack": node.get("num"), "Split": node.get("num_split"), "SplitV": node.get("num_split")}
    counts["DynamicPartition"] = node.get("num_partitions")
    return counts.get(node.op) or (2 if node.op in ("TopKV2", "Unique") else 1)


def converted(operand, element):
    if isinstance(operand, Constant):
        return Constant(converted(operand.array, element))
    if operand.dtype != np.float32:
        return operand
    return (np.abs(operand) * 2 + 1 if element.kind in "ui" else operand).astype(element)


def convolved_over_time(net):
    """As Keras and TensorFlow 1 write it: an axis is put in, the bias is added after it is gone."""
    x = net.op("ExpandDims", net.feed(floats(2, 9, 4)), np.int32(1))
    y = net.op("Conv2D", x, floats(1, 3, 4, 5), strides=[1, 1, 1, 1], padding="SAME")
    return net.op("Relu", net.op("BiasAdd", net.op("Squeeze", y, squeeze_dims=[1]), floats(5)))
