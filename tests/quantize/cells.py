"""A recurrent cell in a loop."""

from __future__ import annotations

import numpy as np

from tests.quantize.programs import INT
from thinflow.ir.types import BOOL, FLOAT
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor

UNITS, INPUTS, STEPS = 96, 32, 6


def cell() -> Program:
    """h = tanh(W [30 x, h] + b), over and over."""
    rng = np.random.default_rng(3)

    def tensors(suffix: str) -> list[Tensor]:
        return [
            Tensor(f"i{suffix}", (), INT),
            Tensor(f"x{suffix}", (1, INPUTS), FLOAT),
            Tensor(f"h{suffix}", (1, UNITS), FLOAT),
        ]

    def number(value: int) -> Tensor:
        return Tensor(f"number{value}", (), INT, np.array(value, np.int32))

    scale = np.where(np.arange(INPUTS + UNITS) < INPUTS, 0.01, 0.2)
    weights = (rng.standard_normal((UNITS, INPUTS + UNITS)) * scale).astype(np.float32)
    w = Tensor("w", weights.shape, FLOAT, weights)
    bias = Tensor("b", (UNITS,), FLOAT, rng.standard_normal(UNITS).astype(np.float32))
    results, inside, before = tensors("_out"), tensors("_in"), tensors("_cond")
    more = Tensor("more", (), BOOL)
    condition = Subgraph(before, [more], [Operator("LESS", [before[0], number(STEPS)], [more])], name="cond")
    again, both = Tensor("again", (), INT), Tensor("both", (1, INPUTS + UNITS), FLOAT)
    product, h = Tensor("product", (1, UNITS), FLOAT), Tensor("h_again", (1, UNITS), FLOAT)
    joint = {"axis": 1, "fused_activation_function": "NONE"}
    body = Subgraph(
        inside,
        [again, inside[1], h],
        [
            Operator("ADD", [inside[0], number(1)], [again]),
            Operator("CONCATENATION", [inside[1], inside[2]], [both], joint),
            Operator("FULLY_CONNECTED", [both, w, bias], [product]),
            Operator("TANH", [product], [h]),
        ],
        name="body",
    )
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    x, zeros = (
        Tensor("x", (1, INPUTS), FLOAT),
        Tensor("zeros", (1, UNITS), FLOAT, np.zeros((1, UNITS), np.float32)),
    )
    main = Subgraph([x], [results[2]], [Operator("WHILE", [number(0), x, zeros], results, options)])
    return Program([main, condition, body])
