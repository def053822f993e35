"""ONNX's DepthToSpace and SpaceToDepth, which are TensorFlow's on pictures with channels last."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import channels_first, channels_last, rank, text
from thinflow.lift.rules import lifts


def _channels_are_outer(c: Call) -> bool:
    """True if the depth is channels by block (mode CRD), not block by channels (DCR).

    Raises:
        UnsupportedOp: it says something else.
    """
    mode = text(c, "mode", "DCR")
    if mode not in {"DCR", "CRD"}:
        raise UnsupportedOp(f"its mode is '{mode}'")
    return mode == "CRD"


def _pictures(c: Call) -> tuple[Value, int]:
    """The operand with its channels last, and the side of a block."""
    if rank(c) != 4:
        raise UnsupportedOp(f"its operand has {rank(c)} dimensions, not 4")
    side = int(c.get("blocksize", 0))
    if side < 1:
        raise UnsupportedOp(f"its blocks have the side {side}")
    return channels_last(c, c[0], 4), side


def _regrouped(c: Call, x: Value, groups: int) -> Value:
    """Channels last, [..., groups * n], as n groups of so many: the other order of both parts of a depth."""
    depth = None if x.spec.shape is None else x.spec.shape[-1]
    if depth is None:
        raise UnsupportedOp("the number of its channels is not known")
    order = np.arange(depth, dtype=np.int32).reshape(groups, -1).T.reshape(-1)
    if (np.diff(order) == 1).all():
        return x
    return c.emit("GatherV2", x, c.constant(order), c.constant(3), batch_dims=0)


@lifts("onnx.DepthToSpace")
def _depth_to_space(c: Call) -> Value:
    """TensorFlow's depth is block by channels."""
    x, side = _pictures(c)
    if side == 1:
        return c.emit("Identity", c[0])
    depth = None if x.spec.shape is None else x.spec.shape[3]
    if _channels_are_outer(c):
        x = _regrouped(c, x, (depth or 0) // side**2)
    return channels_first(c, c.emit("DepthToSpace", x, block_size=side, data_format="NHWC"), 4)


@lifts("onnx.SpaceToDepth")
def _space_to_depth(c: Call) -> Value:
    x, side = _pictures(c)
    if side == 1:
        return c.emit("Identity", c[0])
    y = c.emit("SpaceToDepth", x, block_size=side, data_format="NHWC")
    if _channels_are_outer(c):
        y = _regrouped(c, y, side**2)
    return channels_first(c, y, 4)
