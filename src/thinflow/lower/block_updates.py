"""Updates of a block: as many elements along every axis as the new ones have, from a place maybe computed.

x[b0 : b0 + n0, b1 : b1 + n1, ...] = value      value [n0, n1, ...]
"""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node, Value

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def is_block_update(node: Node) -> bool:
    """True if a TensorStridedSliceUpdate replaces a block of the size of its value; O(rank)."""
    x, begin, end, strides, value = node.inputs[:5]
    steps = strides.node.tensor
    if x.shape is None or value.shape is None or len(x.shape) != len(value.shape) or steps is None:
        return False
    is_plain = not any(node.get(mask, 0) for mask in _MASKS)
    return is_plain and bool((np.asarray(steps.numpy()) == 1).all()) and _is_behind(begin, end, value)


def _is_behind(begin: Value, end: Value, value: Value) -> bool:
    """True if an end is known to be the begin and the sizes of a value."""
    if begin.node.tensor is not None and end.node.tensor is not None:
        size = end.node.tensor.numpy().astype(np.int64) - begin.node.tensor.numpy()
        return value.shape is not None and tuple(size.tolist()) == value.shape
    sizes = [v for v in end.node.inputs if v is not begin]
    if end.node.op not in ("AddV2", "Add") or len(sizes) != 1 or begin not in end.node.inputs:
        return False
    known = sizes[0].node.tensor
    if known is not None:
        return tuple(known.numpy().tolist()) == value.shape
    return sizes[0].node.op == "Shape" and sizes[0].node.inputs[0] is value
