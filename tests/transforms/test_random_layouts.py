"""Random channels-first networks, full of transposes and of arithmetic that does nothing, as graphs and as
the bodies of functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.support import apply, assert_same_numbers, to_bytes
from thinflow.analysis.shapes import port_count
from thinflow.formats import graphdef
from thinflow.ir.attrs import FunctionAttr, ShapeAttr
from thinflow.ir.check import find_problems
from thinflow.ir.function import ARGUMENT, Function
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import FLOAT, INT32
from thinflow.transforms import resolve

SHAPE = (2, 4, 6, 6)
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
TRANSFORMS = ("to_nhwc", "cancel_transposes", "cancel_transposes(push=false)", "simplify_arithmetic")
TRANSFORMS += ("simplify_shapes", "fold_constants", "merge_duplicate_nodes", "fold_batch_norms", "float")
KINDS = ("conv", "deep", "bias", "norm", "pool", "relu", "add", "join", "scale", "there", "neutral")
KINDS += ("twice", "reshape", "pad", "mean", "softmax", "shuffle", "dense", "attention", "excite", "stack")
KINDS += ("gather", "sums", "groups", "sizes", "lines")


class Builder:
    """Adds one piece after the other to a graph; every value is [2,4,6,6], channels first."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self.graph = graph
        self.random = np.random.default_rng(seed)

    def op(self, kind: str, *inputs: Value, **attrs: Any) -> Value:
        return self.graph.add(kind, inputs, attrs={"T": FLOAT, **attrs}).output()

    def const(self, numbers: Any, kind: type = np.float32) -> Value:
        return self.graph.constant(np.asarray(numbers, kind))

    def weights(self, *shape: int) -> Value:
        return self.const(self.random.standard_normal(shape) * 0.4)

    def moved(self, x: Value, perm: tuple[int, ...]) -> Value:
        return self.op("Transpose", x, self.const(perm, np.int32), Tperm=INT32)

    def piece(self, kind: str, x: Value, y: Value) -> Value:
        picture = {"data_format": "NCHW", "strides": (1, 1, 1, 1), "padding": "SAME"}
        if kind == "conv":
            return self.op("Conv2D", x, self.weights(3, 1, 4, 4), **picture)
        if kind == "deep":
            return self.op("DepthwiseConv2dNative", x, self.weights(3, 3, 4, 1), **picture)
        if kind == "pool":
            return self.op("MaxPool", x, ksize=(1, 1, 2, 3), **picture)
        if kind == "bias":
            return self.op("BiasAdd", x, self.weights(4), data_format="NCHW")
        if kind == "norm":
            parts = [self.const(np.abs(self.random.standard_normal(4)) + 0.5) for _ in range(4)]
            attrs = {"U": FLOAT, "is_training": False, "epsilon": 1e-3, "data_format": "NCHW"}
            return self.op("FusedBatchNormV3", x, *parts, **attrs)
        return self.arithmetic(kind, x, y)

    def arithmetic(self, kind: str, x: Value, y: Value) -> Value:
        if kind == "add":
            return self.op("AddV2", x, y)
        if kind == "scale":
            return self.op("Mul", self.op("Mul", x, self.weights(4, 1, 1)), self.const(0.5))
        if kind == "neutral":
            return self.op("AddV2", self.op("Mul", self.const(1.0), x), self.const(np.zeros((6, 6))))
        if kind == "twice":
            return self.op("Neg", self.op("Neg", self.op("Relu", self.op("Relu", x))))
        if kind == "relu":
            return self.op("Relu", x)
        return self.shaped(kind, x, y)

    def shaped(self, kind: str, x: Value, y: Value) -> Value:
        if kind == "there":
            return self.moved(self.op("Softmax", self.moved(x, LAST)), FIRST)
        if kind == "softmax":
            return self.op("Softmax", x)
        if kind == "reshape":
            flat = self.op("Reshape", x, self.const([2, -1], np.int32), Tshape=INT32)
            return self.op("Reshape", flat, self.const(SHAPE, np.int32), Tshape=INT32)
        if kind == "mean":
            axes = self.const([-1, 2], np.int32)
            return self.op("Mul", x, self.op("Mean", x, axes, keep_dims=True, Tidx=INT32))
        if kind == "join":
            axis = self.const(1, np.int32)
            both = self.op("ConcatV2", x, y, axis, N=2, Tidx=INT32)
            return self.graph.add("Split", [axis, both], attrs={"T": FLOAT, "num_split": 2}).output(1)
        if kind != "pad":
            return self.viewed(kind, x, y)
        pads = self.const([[0, 0], [0, 0], [1, 2], [0, 3]], np.int32)
        padded = self.op("Pad", x, pads, Tpaddings=INT32)
        begin, size = self.const([0, 0, 1, 3], np.int32), self.const([-1, 4, 6, 6], np.int32)
        return self.op("Slice", padded, begin, size, Index=INT32)

    def reshaped(self, x: Value, *sizes: int) -> Value:
        return self.op("Reshape", x, self.const(sizes, np.int32), Tshape=INT32)

    def viewed(self, kind: str, x: Value, y: Value) -> Value:
        """Pieces in which pictures are something else for a while: groups, rows, matrices, stacks."""
        if kind == "shuffle":
            parts = self.moved(self.reshaped(x, 2, 2, 2, 6, 6), (0, 2, 1, 3, 4))
            return self.reshaped(parts, *SHAPE)
        if kind == "dense":
            rows = self.op("MatMul", self.op("Relu", self.reshaped(x, 2, -1)), self.weights(144, 144))
            return self.reshaped(self.op("BiasAdd", rows, self.weights(144)), *SHAPE)
        if kind == "attention":
            pixels, keys = self.moved(self.reshaped(x, 2, 4, 36), (0, 2, 1)), self.reshaped(y, 2, 4, 36)
            share = self.op("Softmax", self.op("BatchMatMulV2", pixels, keys))
            return self.reshaped(self.op("BatchMatMulV2", keys, self.moved(share, (0, 2, 1))), *SHAPE)
        if kind == "groups":
            groups = self.reshaped(x, 2, 2, 72)
            mean = self.op("Mean", groups, self.const([2], np.int32), keep_dims=True, Tidx=INT32)
            return self.reshaped(self.op("Sub", groups, mean), *SHAPE)
        if kind == "lines":
            lines = self.moved(self.reshaped(x, 2, 4, 36), (0, 2, 1))
            return self.reshaped(self.moved(self.op("Softmax", lines), (0, 2, 1)), *SHAPE)
        return self.indexed(kind, x, y)

    def indexed(self, kind: str, x: Value, y: Value) -> Value:
        """Pieces that name axes, drop them and make them."""
        if kind == "excite":
            mean = self.op("Mean", x, self.const([2, 3], np.int32), keep_dims=False, Tidx=INT32)
            gates = self.op("Sigmoid", self.op("MatMul", mean, self.weights(4, 4)))
            for axis in (2, -1):
                gates = self.op("ExpandDims", gates, self.const(axis, np.int32), Tdim=INT32)
            return self.op("Mul", x, gates)
        if kind == "stack":
            both = self.op("Pack", x, y, N=2, axis=2)
            masks = {"begin_mask": 27, "end_mask": 27, "shrink_axis_mask": 4, "Index": INT32}
            begin, end, step = (self.const([0, 0, n, 0, 0], np.int32) for n in (1, 2, 1))
            step = self.const([1] * 5, np.int32)
            return self.op("StridedSlice", both, begin, end, step, **masks)
        if kind == "gather":
            places = self.const([2, 0, 3, 3], np.int32)
            types = {"Tparams": FLOAT, "Tindices": INT32, "Taxis": INT32, "batch_dims": 0}
            return self.graph.add("GatherV2", [x, places, self.const(1, np.int32)], attrs=types).output()
        if kind == "sums":
            return self.op("Cumsum", self.op("Mul", x, self.const(0.1)), self.const(-3, np.int32), Tidx=INT32)
        sizes = self.graph.add("Shape", [x], attrs={"T": FLOAT, "out_type": INT32}).output()
        return self.op("Reshape", self.op("Relu", y), sizes, Tshape=INT32)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr(SHAPE)})
    values = fill(graph, x.output(), draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=9)), draw)
    graph.inputs = [x.output()]
    graph.outputs = draw(st.lists(st.sampled_from(values[1:]), min_size=1, max_size=2, unique=True))
    return graph


def fill(graph: Graph, x: Value, kinds: list[str], draw: st.DrawFn) -> list[Value]:
    builder = Builder(graph, draw(st.integers(0, 3)))
    values = [x]
    for kind in kinds:
        values.append(builder.piece(kind, draw(st.sampled_from(values[-3:])), draw(st.sampled_from(values))))
    return values


@st.composite
def calls(draw: st.DrawFn) -> Graph:
    """A graph that only calls a function."""
    body = Graph()
    argument = body.add(ARGUMENT, name="x", attrs={"T": FLOAT, "index": 0}).output()
    values = fill(body, argument, draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6)), draw)
    result = values[-1]
    graph = Graph()
    graph.functions = {"body": Function("body", body, [argument], [result], [], [FLOAT], [FLOAT])}
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr(SHAPE)})
    attrs = {"Tin": (FLOAT,), "Tout": (FLOAT,), "f": FunctionAttr("body")}
    call = graph.add("PartitionedCall", [x], "call", attrs=attrs)
    y = graph.add("Neg", [call], "y", attrs={"T": FLOAT})
    graph.inputs, graph.outputs = [x.output()], [y.output()]
    return graph


def saved(graph: Graph) -> Graph:
    after = graphdef.from_bytes(to_bytes(graph))
    after.inputs = [after.value(v.name) for v in graph.inputs]
    after.outputs = [after.value(v.name) for v in graph.outputs]
    return after


def tolerance(pipeline: str) -> float:
    return 2 * sum(step.transform.tolerance for step in resolve(pipeline))


@settings(max_examples=60)
@given(graphs(), st.lists(st.sampled_from(TRANSFORMS), min_size=1, max_size=3))
def test_networks_compute_the_same(graph: Graph, pipeline: list[str]) -> None:
    text = " ".join(pipeline)
    after = apply(graph, text).graph
    assert find_problems(after, port_count) == []
    assert_same_numbers(graph, after, tolerance(text))
    assert to_bytes(apply(graph, text).graph) == to_bytes(after)


@settings(max_examples=60)
@given(graphs(), st.sampled_from(TRANSFORMS))
def test_a_second_run_changes_nothing(graph: Graph, call: str) -> None:
    first = apply(graph, call).graph
    again = apply(first, call)
    assert again.changes == 0, [str(e) for s in again.steps for e in s.trace.changes]
    assert to_bytes(again.graph) == to_bytes(first)


@settings(max_examples=40)
@given(calls(), st.sampled_from([name for name in TRANSFORMS if "float" not in name]))
def test_functions_compute_the_same(graph: Graph, name: str) -> None:
    call = f"{name.removesuffix(')')}, functions=true)" if name.endswith(")") else f"{name}(functions=true)"
    after = saved(apply(graph, call).graph)
    assert_same_numbers(graph, after, tolerance(call))
    again = apply(after, call)
    assert again.changes == 0, [str(e) for s in again.steps for e in s.trace.changes]


@settings(max_examples=20)
@given(graphs())
def test_no_channels_first_op_is_left(graph: Graph) -> None:
    after = apply(graph, "to_nhwc").graph
    assert [n.name for n in after if n.get("data_format") == "NCHW"] == []
