"""Recurrent layers written out step by step, as TF1's static_rnn, Keras and hand-written models have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import FLOAT, INT32


@dataclass
class Network:
    """A graph with the ops that unrolled layers are made of; names are numbered as in TF1."""

    graph: Graph = field(default_factory=Graph)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def add(self, op: str, *inputs: Value, **attrs: object) -> Value:
        typed = {"T": FLOAT, **attrs}
        return self.graph.add(op, inputs, f"rnn/{op.lower()}", attrs=typed).output()  # type: ignore[arg-type]

    def ints(self, *numbers: int) -> Value:
        return self.graph.constant(np.array(numbers, np.int32), "rnn/ints")

    def axis(self, number: int) -> Value:
        return self.graph.constant(np.int32(number), "rnn/axis")

    def weights(self, *shape: int) -> Value:
        numbers = self.random.normal(0, 0.4, shape).astype(np.float32)
        return self.graph.constant(numbers, "rnn/weights")

    def sequence(self, *shape: int | None) -> Value:
        node = self.graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr(shape)})
        return node.output()

    def zeros(self, x: Value, units: int) -> Value:
        """A state [batch, units] like a step [batch, ...]."""
        sizes = self.add("Shape", x, out_type=INT32)
        batch = self.add(
            "StridedSlice", sizes, self.ints(0), self.ints(1), self.ints(1), T=INT32, Index=INT32
        )
        shape = self.add("ConcatV2", batch, self.ints(units), self.axis(0), T=INT32, N=2, Tidx=INT32)
        return self.add("Fill", shape, self.graph.constant(np.float32(0), "rnn/zero"), index_type=INT32)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        return self.add("ConcatV2", *values, self.axis(axis), N=len(values), Tidx=INT32)

    def split(self, x: Value, count: int, axis: int) -> list[Value]:
        first = self.add("Split", self.axis(axis), x, num_split=count)
        return [first.node.output(n) for n in range(count)]

    def pieces(self, x: Value, steps: int, form: str) -> list[Value]:
        """The steps of x [batch, steps, inputs], or [steps, batch, inputs] for the last form."""
        if form == "unpack":
            first = self.add("Unpack", x, num=steps, axis=1)
            return [first.node.output(n) for n in range(steps)]
        if form == "split":
            return [self.add("Squeeze", p, squeeze_dims=(1,)) for p in self.split(x, steps, 1)]
        if form == "slices":
            return [
                self.add(
                    "StridedSlice", x, self.ints(0, n, 0), self.ints(0, n + 1, 0), self.ints(1, 1, 1),
                    Index=INT32, begin_mask=5, end_mask=5, shrink_axis_mask=2,
                )
                for n in range(steps)
            ]  # fmt: skip
        # As a matrix [steps * batch, inputs], which TF1 models split into blocks.
        rows = self.add("Transpose", x, self.ints(1, 0, 2), Tperm=INT32)
        matrix = self.add("Reshape", rows, self.ints(-1, (x.shape or (None,))[-1] or 3), Tshape=INT32)
        return self.split(matrix, steps, 0)

    # --- cells: the states before -> those after, the output first ----------------------------------------

    def cell(self, kind: str, inputs: int, units: int) -> tuple[Sequence[Value], int]:
        """Weights of a cell, and how many states it has."""
        gates = {"lstm": 4, "gru": 2, "simple": 1, "keras": 4}[kind]
        if kind == "keras":
            shapes = [(inputs, 4 * units), (units, 4 * units), (4 * units,)]
        else:
            shapes = [(inputs + units, gates * units), (gates * units,)]
        if kind == "gru":
            shapes += [(inputs + units, units), (units,)]
        return [self.weights(*s) for s in shapes], 2 if kind in ("lstm", "keras") else 1

    def step(self, kind: str, weights: Sequence[Value], x: Value, states: Sequence[Value]) -> list[Value]:
        if kind == "gru":
            return [self._gru(weights, x, states[0])]
        h = states[0]
        if kind == "keras":
            total = self.add("AddV2", self.add("MatMul", x, weights[0]), self.add("MatMul", h, weights[1]))
        else:
            total = self.add("MatMul", self.concat([x, h], 1), weights[0])
        total = self.add("BiasAdd", total, weights[-1])
        if kind == "simple":
            return [self.add("Tanh", total)]
        i, g, f, o = self.split(total, 4, 1)
        f = self.add("AddV2", f, self.graph.constant(np.float32(1), "rnn/one"))
        kept = self.add("Mul", states[1], self.add("Sigmoid", f))
        c = self.add("AddV2", kept, self.add("Mul", self.add("Sigmoid", i), self.add("Tanh", g)))
        return [self.add("Mul", self.add("Tanh", c), self.add("Sigmoid", o)), c]

    def _gru(self, weights: Sequence[Value], x: Value, h: Value) -> Value:
        gates, gates_bias, candidate, bias = weights
        total = self.add("BiasAdd", self.add("MatMul", self.concat([x, h], 1), gates), gates_bias)
        r, u = self.split(self.add("Sigmoid", total), 2, 1)
        reset = self.concat([x, self.add("Mul", r, h)], 1)
        c = self.add("Tanh", self.add("BiasAdd", self.add("MatMul", reset, candidate), bias))
        rest = self.add("Sub", self.graph.constant(np.float32(1), "rnn/one"), u)
        return self.add("AddV2", self.add("Mul", u, h), self.add("Mul", rest, c))

    def layer(self, kind: str, xs: Sequence[Value], inputs: int, units: int) -> list[Value]:
        """The outputs of all steps."""
        weights, count = self.cell(kind, inputs, units)
        states = [self.zeros(xs[0], units) for _ in range(count)]
        outputs = []
        for x in xs:
            states = self.step(kind, weights, x, states)
            outputs.append(states[0])
        return outputs

    def finished(self, *outputs: Value) -> Graph:
        self.graph.inputs = [self.graph.node("x").output()]
        self.graph.outputs = list(outputs)
        return self.graph
