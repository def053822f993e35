"""Blocks of space as batch or channels, and back."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require_nhwc
from thinflow.lower.tflite.program import Tensor


@lower("SpaceToBatchND", to="tflite")
def space_to_batch_nd(b: Builder, node: Node, x: Tensor, block: Tensor, paddings: Tensor) -> Tensor:
    return b.emit("SPACE_TO_BATCH_ND", x, b.index(block), b.index(paddings))


@lower("BatchToSpaceND", to="tflite")
def batch_to_space_nd(b: Builder, node: Node, x: Tensor, block: Tensor, crops: Tensor) -> Tensor:
    return b.emit("BATCH_TO_SPACE_ND", x, b.index(block), b.index(crops))


def _square(b: Builder, block_size: int) -> Tensor:
    return b.const(np.array([block_size] * 2, np.int32), "block")


@lower("SpaceToBatch", to="tflite")
def space_to_batch(b: Builder, node: Node, x: Tensor, paddings: Tensor, *, block_size: int) -> Tensor:
    return b.emit("SPACE_TO_BATCH_ND", x, _square(b, block_size), b.index(paddings))


@lower("BatchToSpace", to="tflite")
def batch_to_space(b: Builder, node: Node, x: Tensor, crops: Tensor, *, block_size: int) -> Tensor:
    return b.emit("BATCH_TO_SPACE_ND", x, _square(b, block_size), b.index(crops))


@lower("SpaceToDepth", "DepthToSpace", to="tflite")
def space_to_depth(
    b: Builder, node: Node, x: Tensor, *, block_size: int, data_format: str = "NHWC"
) -> Tensor:
    require_nhwc(data_format)
    code = "SPACE_TO_DEPTH" if node.op == "SpaceToDepth" else "DEPTH_TO_SPACE"
    return b.emit(code, x, block_size=block_size)
