"""ONNX Runtime's own quantized ops: operands become real numbers, results are quantized again.

Those that quantize what they read by its range while the model runs give real numbers.
"""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.contrib import by_rule
from thinflow.lift.onnx.formulas import Formula
from thinflow.lift.onnx.math import matmul
from thinflow.lift.onnx.quantized import dynamically_quantized, real, rounded
from thinflow.lift.onnx.values import bounded, integers, like, rank, typed
from thinflow.lift.rules import lifts

_FIRST_ALONG_ONE_AXIS = 13
"""The version of ONNX's op set from which on Softmax goes along one axis."""


@lifts("onnx.com.microsoft.QLinearLeakyRelu")
def _leaky(c: Call) -> Value:
    return rounded(c, c.emit("LeakyRelu", real(c, 0, 1, 2), alpha=c.get("alpha", 0.01)), 3, 4)


@lifts("onnx.com.microsoft.QLinearAveragePool", ignores=("pads",))
def _average_pool(c: Call) -> Value:
    if c.get("channels_last", 0):
        raise UnsupportedOp("its channels come last")
    (y,) = by_rule(c, "AveragePool", real(c, 0, 1, 2))
    return rounded(c, y, 3, 4)


@lifts("onnx.com.microsoft.QLinearSoftmax")
def _softmax(c: Call) -> Value:
    """QLinearSoftmax: with the meaning of the op set that its own option names."""
    version = int(c.get("opset", _FIRST_ALONG_ONE_AXIS))
    (y,) = by_rule(c, "Softmax", real(c, 0, 1, 2), version=version)
    return rounded(c, y, 3, 4)


@lifts("onnx.com.microsoft.QLinearReduceMean")
def _mean(c: Call) -> Value:
    axes = c.get("axes") or tuple(range(rank(c)))
    is_kept = bool(c.get("keepdims", 1))
    y = c.emit("Mean", real(c, 0, 1, 2), integers(c, tuple(axes)), keep_dims=is_kept, Tidx=INT64)
    return rounded(c, y, 3, 4)


@lifts("onnx.com.microsoft.QLinearWhere")
def _where(c: Call) -> Value:
    x, y = real(c, 1, 2, 3), real(c, 4, 5, 6)
    return rounded(c, c.emit("SelectV2", c[0], x, y, T=FLOAT), 7, 8)


@lifts("onnx.com.microsoft.QGemm")
def _gemm(c: Call) -> Value:
    """QGemm: alpha * a @ b + c, whose scale is that of the products; real numbers without a scale of y."""
    turned = [bool(c.get(option, 0)) for option in ("transA", "transB")]
    # Scales of b are those of its columns, which are rows where it is turned.
    a, b = real(c, 0, 1, 2), real(c, 3, 4, 5, axis=0 if turned[1] else 1)
    y = c.emit("MatMul", a, b, transpose_a=turned[0], transpose_b=turned[1])
    if c.has(6):
        body = Formula(c)
        products = body.operand(1).reshape(()) * body.operand(4)
        y = (body.term(y) + body.operand(6).cast(FLOAT) * products).value
    alpha = float(c.get("alpha", 1.0))
    y = y if alpha == 1 else c.emit("Mul", y, like(c, alpha, y))
    return rounded(c, y, 7, 8) if c.has(7) else y


def _biased(c: Call, y: Value, place: int) -> Value:
    return c.emit("AddV2", y, c[place]) if c.has(place) else y


@lifts("onnx.com.microsoft.MatMulIntegerToFloat")
def _matmul_to_float(c: Call) -> Value:
    a, b = real(c, 0, 2, 4, axis=-2), real(c, 1, 3, 5, axis=-1)
    return _biased(c, matmul(c, a, b, (rank(c), rank(c, 1))), 6)


@lifts("onnx.com.microsoft.DynamicQuantizeMatMul")
def _dynamic_matmul(c: Call) -> Value:
    """DynamicQuantizeMatMul: a is quantized by its range while the model runs."""
    codes, scale, zero = dynamically_quantized(c)
    steps = c.emit("Sub", typed(c, codes, FLOAT), typed(c, zero, FLOAT))
    a, b = c.emit("Mul", steps, scale), real(c, 1, 2, 3, axis=-1)
    return _biased(c, matmul(c, a, b, (rank(c), rank(c, 1))), 4)


@lifts("onnx.com.microsoft.MatMulNBits", ignores=("accuracy_level",))
def _matmul_by_blocks(c: Call) -> Value:
    """MatMulNBits: a @ w^T with weights of a few bits, and a scale and a zero point for each block of a row.

    Weights [n,blocks,bytes], the first of a byte in its low bits; zero points are packed likewise.
    """
    bits, width, units = (int(c.get(name, usual)) for name, usual in (("bits", 4), ("K", 0), ("N", 0)))
    block = int(c.get("block_size", 0))
    if bits not in (2, 4, 8) or block < 1 or width < 1 or units < 1 or c.get("weight_prepacked", 0):
        raise UnsupportedOp(f"its weights have {bits} bits in blocks of {block}")
    if c.has(4):
        raise UnsupportedOp("its columns are in groups of their own")
    blocks = -(-width // block)
    bounded(units * blocks * block)
    stored = _unpacked(c.known(1).reshape(units, -1), bits)[:, : blocks * block]
    codes = stored.reshape(units, blocks, block).astype(np.float32)
    scales = c.known(2).reshape(units, blocks, 1)
    zeros: np.ndarray = np.full((units, blocks), 1 << (bits - 1), np.float32)
    if c.has(3):
        given = c.known(3)
        packed = given.dtype == np.uint8
        zeros = (_unpacked(given.reshape(units, -1), bits)[:, :blocks] if packed else given).reshape(
            units, -1
        )
    weights = (codes - zeros[..., None].astype(np.float32)) * scales.astype(np.float32)
    matrix = weights.reshape(units, -1)[:, :width].T
    w = c.constant(np.ascontiguousarray(matrix.astype(scales.dtype)))
    return _biased(c, matmul(c, c[0], w, (rank(c), 2)), 5)


def _unpacked(stored: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of a few bits [rows, *], several of which share a byte."""
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    return ((stored[..., None] >> shifts) & ((1 << bits) - 1)).reshape(len(stored), -1)
