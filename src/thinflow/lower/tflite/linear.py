"""Matrix products and bias."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require, shape_of
from thinflow.lower.tflite.program import Tensor


@lower("MatMul", to="tflite")
def matmul(
    b: Builder, node: Node, x: Tensor, w: Tensor, *, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    """Constant weights [in,units] become FULLY_CONNECTED's [units,in]; computed ones a BATCH_MATMUL."""
    shape_of(w, "the second matrix", 2)
    if not w.is_constant:
        return b.emit("BATCH_MATMUL", x, w, adj_x=transpose_a, adj_y=transpose_b)
    if transpose_a:
        x = b.transposed(x, (1, 0))
    return b.emit("FULLY_CONNECTED", x, w if transpose_b else b.transposed(w, (1, 0)), None)


@lower("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", to="tflite")
def batch_matmul(
    b: Builder, node: Node, x: Tensor, y: Tensor, *, adj_x: bool = False, adj_y: bool = False
) -> Tensor:
    """Broadcasts over leading axes. One constant matrix for all is a FULLY_CONNECTED."""
    require(x.dtype is b.result_spec().dtype, "LiteRT's product has the type of its operands")
    if y.is_constant and len(shape_of(y)) == 2 and not adj_x and len(shape_of(x, "x")) >= 2:
        weights = y if adj_y else b.transposed(y, (1, 0))
        return b.emit("FULLY_CONNECTED", x, weights, None, keep_num_dims=True)
    return b.emit("BATCH_MATMUL", x, y, adj_x=adj_x, adj_y=adj_y)


@lower("BiasAdd", "BiasAddV1", to="tflite")
def bias_add(b: Builder, node: Node, x: Tensor, bias: Tensor, *, data_format: str = "NHWC") -> Tensor:
    """One number per channel; fusion moves it into a convolution in front."""
    # [c,1,1] broadcasts against the end of [n,c,h,w].
    if data_format.startswith("NC"):
        rank = len(shape_of(x, "x"))
        require(rank >= 2, "a bias per channel needs a channel axis")
        bias = b.reshaped(bias, (*shape_of(bias, "the bias", 1), *(1,) * (rank - 2)))
    return b.emit("ADD", x, bias)
