"""Programs in uint8."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import INT8
from thinflow.quantize.recipe import Quantized
from thinflow.quantize.unsigned import as_unsigned
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes


def test_a_constant_without_axes_is_an_array_still() -> None:
    grid = Quantization(np.float32([0.5]), np.int64([-128]))
    x, y = (Tensor(n, (2,), INT8, quantization=grid) for n in "xy")
    one = Tensor("one", (), INT8, np.array(-126, np.int8), quantization=grid)
    program = Program([Subgraph([x], [y], [Operator("ADD", [x, one], [y], {})])])
    made = read_program(to_bytes(as_unsigned(Quantized(program, [], [])).program))
    (add,) = made.subgraphs[0].operators
    assert add.inputs[1] is not None
    assert add.inputs[1].array() == 2
