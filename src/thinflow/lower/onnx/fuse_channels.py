"""A factor and an addend per channel as one operator.

    add(mul(x, f), a)  ->  BatchNormalization(x, f, a, mean 0, variance 1)      x [n,c,...], f and a [c,1,...]

It reads and writes x once instead of twice. Norms in front of an activation look so, as no convolution before
them takes the factor in.
"""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import DOUBLE, FLOAT
from thinflow.lower.onnx.wiring import Wiring, new_constant
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.program.wiring import with_constant
from thinflow.typing import Array

_FOLDED = ("Conv", "ConvTranspose", "DequantizeLinear")
"""What run-time optimizers fold the two into, one by one, or look for right before them."""


def fuse_channels(program: Program) -> None:
    """Join every such pair that nobody looks into. O(operators)."""
    wiring = Wiring(program)
    for operator in list(program.operators):
        if operator.code == "Add":
            _fuse(wiring, operator)
    wiring.finish()


def _fuse(wiring: Wiring, operator: Operator) -> None:
    product, addend = with_constant(operator)
    before = wiring.sole_producer(product, "Mul")
    if before is None or addend is None:
        return
    x, factor = with_constant(before)
    if x is None or factor is None or x.dtype not in (FLOAT, DOUBLE) or x.shape is None or len(x.shape) < 3:
        return
    readers = wiring.readers(operator.outputs[0])
    scale, offset = _per_channel(x, factor), _per_channel(x, addend)
    if wiring.producer(x, *_FOLDED) or any(r.code == "QuantizeLinear" for r in readers):
        return
    if scale is None or offset is None:
        return
    rows = {"scale": scale, "offset": offset, "mean": np.zeros_like(scale), "variance": np.ones_like(scale)}
    name = operator.outputs[0].name
    wiring.remove(before)
    operator.code, operator.options = "BatchNormalization", {"epsilon": 0.0}
    wiring.set_inputs(operator, [x, *(new_constant(f"{name}/{n}", row, x.dtype) for n, row in rows.items())])


def _per_channel(x: Tensor, array: Array) -> Array | None:
    """The numbers of an operand that differs along axis 1 alone, [c]; None if it is another one."""
    rank = len(x.shape or ())
    sizes = (1,) * (rank - array.ndim) + array.shape
    count = x.shape[1] if x.shape is not None else None
    if count is None or len(sizes) != rank or any(n != 1 for axis, n in enumerate(sizes) if axis != 1):
        return None
    return np.ascontiguousarray(array.reshape(-1)) if sizes[1] == count else None
