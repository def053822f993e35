"""LSTM layers as Keras writes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.loops import entered, while_loop
from tests.lower.builders import floats
from tests.lower.tflite.harness import Net
from thinflow.ir.types import FLOAT


@dataclass
class Layer:
    """How a loop of LSTM cells is written down; the defaults are TensorFlow 1's BasicLSTMCell."""

    steps: int = 4
    batch: int = 2
    inputs: int = 3
    units: int = 5
    order: str = "igfo"
    forget_bias: float = 1.0
    is_joined: bool = True  # one product of [x, h], or two
    is_cut: bool = False  # gates by StridedSlice, or by Split
    peephole: bool = False
    clip: float = 0.0
    outputs: int = 0  # of a projection
    first_state: bool = False  # fed, or zero
    open_batch: bool = False
    filling: float = 0.0  # what the first state is filled with, where the batch is open
    is_counted: bool = False  # what is read has as many rows as are counted when the model runs
    gate: str = "Sigmoid"
    late_peephole: str = "o"

    def build(self, *, batch_first=False):
        """The net, the outputs of all steps, the last h and the last c."""
        self.net = net = Net()
        size = self.outputs or self.units
        shape = (self.batch, self.steps) if batch_first else (self.steps, self.batch)
        batch = None if self.open_batch else self.batch
        sizes = (self.steps, batch, self.inputs) if not batch_first else (batch, self.steps, self.inputs)
        x = net.feed(floats(*shape, self.inputs), "x", sizes)
        if batch_first:
            x = net.op("Transpose", x, np.int32([1, 0, 2]), name="turned")
        rows = net.op("StridedSlice", net.op("Shape", x), *np.int32([[1], [2], [1]]), shrink_axis_mask=1)
        if self.is_counted:
            x = net.op("GatherV2", x, net.op("Range", np.int32(0), rows, np.int32(1)), np.int32(1))
        states = [np.zeros((self.batch, n), np.float32) for n in (size, self.units)]
        if self.open_batch and not self.first_state:
            states = [
                net.op("Fill", net.op("Pack", rows, np.int32(n)), np.float32(self.filling))
                for n in (size, self.units)
            ]
        if self.first_state:
            states = [
                net.feed(floats(*s.shape), f"start{n}", (batch, s.shape[1])) for n, s in enumerate(states)
            ]
        kinds = {"dtype": FLOAT}
        source = net.op("TensorArrayV3", np.int32(self.steps), name="source", **kinds)
        target = net.op("TensorArrayV3", np.int32(self.steps), name="target", **kinds)
        read = net.op(
            "TensorArrayScatterV3",
            source,
            np.arange(self.steps, dtype=np.int32),
            x,
            source.node.output(1),
            T=FLOAT,
        )
        inside = [entered(net.graph, "rnn", v) for v in (source, read, target)]

        def body(v):
            step = net.op("TensorArrayReadV3", inside[0], v[0], inside[1], dtype=FLOAT)
            h, c = self.cell(step, v[2], v[3])
            kept = net.op("TensorArrayWriteV3", inside[2], v[0], h, v[1], T=FLOAT)
            return [net.op("AddV2", v[0], np.int32(1)), kept, h, c]

        values = [s if hasattr(s, "node") else net.const(s, "zero") for s in states]
        start = [net.const(np.int32(0), "t"), target.node.output(1), *values]
        last = while_loop(net.graph, "rnn", start, lambda v: net.op("Less", v[0], np.int32(self.steps)), body)
        order = np.arange(self.steps, dtype=np.int32)
        rows = net.op("TensorArrayGatherV3", target, order, last[1], dtype=FLOAT, name="rows")
        if batch_first:
            rows = net.op("Transpose", rows, np.int32([1, 0, 2]), name="rows_turned")
        return rows, net.op("Identity", last[2], name="h"), net.op("Identity", last[3], name="c")

    def cell(self, x, h, c):
        net, units = self.net, self.units
        size = self.outputs or units
        kernel, bias = floats(self.inputs + size, 4 * units), floats(4 * units, low=-0.5, high=0.5)
        if self.is_joined:
            z = net.op("MatMul", net.op("ConcatV2", x, h, np.int32(1)), kernel)
        else:
            z = net.op(
                "AddV2",
                net.op("MatMul", x, kernel[: self.inputs]),
                net.op("MatMul", h, kernel[self.inputs :]),
            )
        z = net.op("BiasAdd", z, bias)
        gates = dict(zip(self.order, self.cut(z), strict=True))
        gates["f"] = net.op("AddV2", gates["f"], np.float32(self.forget_bias))
        if self.peephole:
            for gate in "if":
                gates[gate] = net.op("AddV2", gates[gate], net.op("Mul", c, floats(units) * 0.7))
        kept = net.op("Mul", c, net.op(self.gate, gates["f"]))
        new = net.op("AddV2", kept, net.op("Mul", net.op(self.gate, gates["i"]), net.op("Tanh", gates["g"])))
        if self.clip:
            new = net.op("Maximum", net.op("Minimum", new, np.float32(self.clip)), np.float32(-self.clip))
        if self.peephole:
            seen = new if self.late_peephole == "o" else c
            gates["o"] = net.op("AddV2", gates["o"], net.op("Mul", floats(units, low=-1.0), seen))
        h = net.op("Mul", net.op(self.gate, gates["o"]), net.op("Tanh", new))
        if self.outputs:
            h = net.op("MatMul", h, floats(units, self.outputs))
        return h, new

    def cut(self, z):
        net, units = self.net, self.units
        if not self.is_cut:
            node = net.op("Split", np.int32(1), z, num_split=4).node
            return [node.output(n) for n in range(4)]
        attrs = {"begin_mask": 1, "end_mask": 1}
        return [
            net.op(
                "StridedSlice",
                z,
                np.int32([0, n * units]),
                np.int32([0, (n + 1) * units]),
                np.int32([1, 1]),
                **attrs,
            )
            for n in range(4)
        ]
