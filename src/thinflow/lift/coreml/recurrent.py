"""MIL's LSTM, which is ONNX's with its gates in another order."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.lift.coreml.rules import mil, word
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.delegated import onnx_results
from thinflow.typing import Array

_TO_ONNX = (0, 2, 1, 3)
"""Gates as ONNX orders them, by their places in MIL's order: input, forget, output, cell."""
_ACTIVATIONS = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}
_USUAL = {"recurrent_activation": "sigmoid", "cell_activation": "tanh", "activation": "tanh"}


@mil("lstm")
def _lstm(c: Call) -> list[Value]:
    """x [steps, batch, size]; states [batch, hidden]."""
    if word(c, "direction", "forward") != "forward":
        raise UnsupportedOp(f"its direction is '{word(c, 'direction')[:20]}'")
    functions = [_ACTIVATIONS.get(word(c, option, usual), "") for option, usual in _USUAL.items()]
    if "" in functions:
        raise UnsupportedOp("its activations are others than sigmoid, tanh and relu")
    w, r = c.known(3), c.known(4)
    rows = r.shape[0]
    if w.ndim != 2 or r.ndim != 2 or rows != 4 * r.shape[1] or w.shape[0] != rows:
        raise UnsupportedOp("its weights have sizes that do not fit together")
    bias = c.known(5) if c.has(5) else np.zeros(rows, w.dtype)

    def ordered(of_mil: Array) -> Array:
        gates = of_mil.reshape(4, -1, *of_mil.shape[1:])[list(_TO_ONNX)]
        return np.ascontiguousarray(gates.reshape(1, *of_mil.shape))

    both = np.concatenate([ordered(bias), np.zeros((1, rows), bias.dtype)], 1)
    states = [c.emit("ExpandDims", c[place], c.constant(0)) for place in (1, 2)]
    operands = [c[0], *(c.constant(ordered(a)) for a in (w, r)), c.constant(both), None, *states]
    if c.has(6):
        # Input, forget, output here; input, output, forget in ONNX's order.
        looks = c.known(6).reshape(3, -1)[[0, 2, 1]]
        operands.append(c.constant(np.ascontiguousarray(looks.reshape(1, -1))))
    options = {"hidden_size": r.shape[1], "activations": tuple(f.encode() for f in functions)}
    every, h, cell = onnx_results(c, "LSTM", operands, options, count=3)
    last, state = (c.emit("Squeeze", v, squeeze_dims=(0,)) for v in (h, cell))
    if c.flag("output_sequence"):
        return [c.emit("Squeeze", every, squeeze_dims=(1,)), last, state]
    return [h, last, state]
