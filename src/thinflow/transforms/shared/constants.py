"""The constants behind values: finding them, changing them, making them."""

from __future__ import annotations

import numpy as np

from thinflow.errors import ThinflowError
from thinflow.ir.graph import Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.rewrite.rule import Refuse
from thinflow.typing import Array


def numbers(tensor: Tensor, node: Node) -> Array:
    """A copy of the elements in double precision.

    Raises:
        Refuse: the constant is damaged; `node` is the one that wanted it.
    """
    try:
        return tensor.numpy().astype(np.float64)
    except ThinflowError as error:
        raise Refuse(f"a constant cannot be read: {error.problem}", node) from error


def is_sole_reader(reader: Node, value: Value) -> bool:
    """True if a constant may be changed in place: only `reader` reads it, once, and nobody asked for it.

    Nodes that merely wait for it do not count.
    """
    while True:
        # Pass-through ops on the way count, too: whoever reads one of them reads the constant.
        if len(value.uses) != 1 or value.uses[0].node is not reader or value.node.is_protected:
            return False
        reader = value.node
        if reader.tensor is not None:
            return True
        value = reader.inputs[0]


def side_outputs(node: Node) -> list[Value]:
    """The outputs that are used or asked for, but for output 0."""
    return [v for v in node.outputs if v.port > 0 and (v.uses or v.is_graph_output)]


def awaited_by_constant(value: Value) -> list[Node]:
    """The nodes that a constant and the pass-through ops behind it wait for, as a substitute must, too."""
    nodes: dict[Node, None] = {}
    while True:
        nodes.update(dict.fromkeys(value.node.control_inputs))
        if value.node.tensor is not None or not value.node.inputs:
            return list(nodes)
        value = value.node.inputs[0]


def become_constant(node: Node, tensor: Tensor, origin: str) -> None:
    """Turn a node into a Const in place: name, position, readers and control edges stay."""
    node.attrs.clear()
    node.attrs.update({"dtype": tensor.dtype, "value": tensor})
    node.op = "Const"
    node.source = None  # nothing of the old record describes the constant
    node.origin = origin
    node.set_inputs(())


# 2**-126.
SMALLEST_NORMAL = np.float32(1.1754944e-38)
"""The smallest positive float32 with full precision."""


def other_than_floating(node: Node) -> str | None:
    """The reason why a node is no constant of floating-point numbers; None if it is one."""
    tensor = node.tensor
    return None if tensor is not None and tensor.dtype.is_floating else "it holds no floating-point numbers"


def is_finite(values: Array) -> bool:
    """True if no element is infinite or NaN."""
    if values.dtype.kind != "f":  # bfloat16 and the like, which numpy does not know as floats
        values = values.astype(np.float32)
    return bool(np.isfinite(values).all())


def all_equal(values: Array) -> bool:
    """True if every element has the bits of the first, so that 0.0 and -0.0 differ."""
    if values.size < 2:
        return True
    # Most weights differ within a corner: all of them would first be put in order, if they are transposed.
    corner = values[(slice(2),) * values.ndim]
    if corner.size < values.size and not all_equal(corner):
        return False
    flat = values.reshape(-1)
    # numpy has unsigned integers of up to 8 bytes; complex numbers of 16 are compared as they are.
    bits = flat.view(np.dtype(f"u{values.dtype.itemsize}")) if values.dtype.itemsize <= 8 else flat
    return bool((bits == bits[0]).all())


def stored_once(tensor: Tensor) -> Tensor:
    """The same tensor, as one value repeated if all its elements are equal, which takes no space in the
    file.
    """
    values = tensor.numpy()
    if tensor.is_splat or values.size < 2 or not all_equal(values):
        return tensor
    return Tensor.from_array(np.broadcast_to(values.reshape(-1)[0], values.shape), tensor.dtype)
