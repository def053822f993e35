"""What TensorFlow has several ops for and LiteRT none or one: flattening before dense layers, and PReLU."""

from __future__ import annotations

import numpy as np

from thinflow.lower.tflite.program import Operator, Tensor
from thinflow.lower.tflite.wiring import Wiring, activation, new_constant
from thinflow.program.wiring import with_constant
from thinflow.typing import Array


def drop_flattening(wiring: Wiring, operator: Operator) -> None:
    """fully_connected(reshape(x)) -> fully_connected(x), which flattens all but the last axis by itself."""
    before = wiring.producer(operator.inputs[0])
    weights = operator.inputs[1]
    if before is None or before.code not in ("RESHAPE", "SQUEEZE") or operator.options.get("keep_num_dims"):
        return
    x, flat = before.inputs[0], operator.inputs[0]
    if x is None or flat is None or not x.shape or weights is None or weights.shape is None:
        return
    same_rows = flat.shape is not None and len(flat.shape) == 2 and flat.shape[1] == x.shape[-1]
    if same_rows and x.shape[-1] is not None and x.shape[-1] == weights.shape[1]:
        wiring.set_input(operator, 0, x)


def fuse_prelu(wiring: Wiring, operator: Operator) -> None:
    """relu(x) + a * relu(-x) -> prelu(x, -a), and relu(x) + a * (x - |x|) -> prelu(x, 2 a)."""
    if activation(operator) != "NONE":
        return
    for positive, negative in (operator.inputs, operator.inputs[::-1]):
        relu = wiring.sole_producer(positive, "RELU")
        scaled = wiring.sole_producer(negative, "MUL")
        x = relu.inputs[0] if relu is not None else None
        if x is None or scaled is None or activation(scaled) != "NONE":
            continue
        part, factors = with_constant(scaled)
        slopes = None if factors is None else _slopes(wiring, part, x, factors)
        if slopes is not None and _fits(x, slopes):
            alpha = new_constant(f"{operator.outputs[0].name}/slopes", slopes)
            wiring.become(operator, "PRELU", x)
            wiring.set_input(operator, 1, alpha)
            return


def _slopes(wiring: Wiring, part: Tensor | None, x: Tensor, factors: Array) -> Array | None:
    """The slopes for negative numbers, if `part` is relu(-x) or x - |x|."""
    relu = wiring.sole_producer(part, "RELU")
    negated = wiring.sole_producer(relu.inputs[0], "NEG") if relu is not None else None
    if negated is not None and negated.inputs[0] is x:
        return np.asarray(-factors, factors.dtype)
    apart = wiring.sole_producer(part, "SUB")
    if apart is None or activation(apart) != "NONE" or apart.inputs[0] is not x:
        return None
    size = wiring.sole_producer(apart.inputs[1], "ABS")
    return np.asarray(2 * factors, factors.dtype) if size is not None and size.inputs[0] is x else None


def _fits(x: Tensor, slopes: Array) -> bool:
    """Whether the kernel takes the slopes: no more axes than x, and sizes that are x's or 1."""
    if x.shape is None or slopes.ndim > len(x.shape) or slopes.ndim == 0:
        return False
    tail = x.shape[len(x.shape) - slopes.ndim :]
    return all(n in (1, size) for n, size in zip(slopes.shape, tail, strict=True))
