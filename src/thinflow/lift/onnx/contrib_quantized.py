"""ONNX Runtime's own quantized ops: operands become real numbers, results are quantized again.

Those that quantize what they read by its range while the model runs give real numbers.
"""

from __future__ import annotations

import numpy as np

from thinflow.decompose.terms import Term
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.contrib import by_rule, by_rule_channels_last
from thinflow.lift.onnx.formulas import Formula, reshaped, sizes_of
from thinflow.lift.onnx.math import matmul
from thinflow.lift.onnx.quantized import eight_bit_grid, real, rounded
from thinflow.lift.onnx.recurrent import lstm
from thinflow.lift.onnx.sizes import wrapped
from thinflow.lift.onnx.values import channels_first, channels_last, integers, like, rank
from thinflow.lift.rules import lifts

_FIRST_ALONG_ONE_AXIS = 13
"""The version of ONNX's op set from which on Softmax goes along one axis."""


@lifts("onnx.com.microsoft.QLinearLeakyRelu")
def _leaky(c: Call) -> Value:
    return rounded(c, c.emit("LeakyRelu", real(c, 0, 1, 2), alpha=c.get("alpha", 0.01)), 3, 4)


@lifts("onnx.com.microsoft.QLinearAveragePool", ignores=("pads",))
def _average_pool(c: Call) -> Value:
    x, count, is_last = real(c, 0, 1, 2), rank(c), c.flag("channels_last")
    (y,) = by_rule(c, "AveragePool", channels_first(c, x, count) if is_last else x)
    return rounded(c, channels_last(c, y, count) if is_last else y, 3, 4)


@lifts("onnx.com.microsoft.QLinearConv", ignores=("kernel_shape", "pads"))
def _conv(c: Call) -> Value:
    rest = [c[n] if c.has(n) else None for n in range(1, len(c.xs))]
    if c.flag("channels_last"):
        return by_rule_channels_last(c, "QLinearConv", *rest)
    return by_rule(c, "QLinearConv", c[0], *rest)[0]


@lifts("onnx.com.microsoft.QLinearSoftmax")
def _softmax(c: Call) -> Value:
    """QLinearSoftmax: with the meaning of the op set that its own option names."""
    version = int(c.get("opset", _FIRST_ALONG_ONE_AXIS))
    (y,) = by_rule(c, "Softmax", real(c, 0, 1, 2), version=version)
    return rounded(c, y, 3, 4)


@lifts("onnx.com.microsoft.QLinearReduceMean")
def _mean(c: Call) -> Value:
    axes = c.get("axes") or tuple(range(rank(c)))
    is_kept = c.flag("keepdims", default=True)
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
    a, b = _requantized(Formula(c).operand(0)).value, real(c, 1, 2, 3, axis=-1)
    return _biased(c, matmul(c, a, b, (rank(c), rank(c, 1))), 4)


def _requantized(x: Term) -> Term:
    """x as eight bits over its range and 0 tell it."""
    scale, zero = eight_bit_grid(x)
    return (((x / scale).apply("Round") + zero).clip(0.0, 255.0) - zero) * scale


@lifts("onnx.com.microsoft.DynamicQuantizeLSTM")
def _dynamic_lstm(c: Call) -> list[Value]:
    """DynamicQuantizeLSTM: the sequence as a whole and the state of each step are quantized by their range.

    So does ONNX Runtime on one thread; on several, each row of a batch has a range of its own.

    W [directions,inputs,4 units] and R [directions,units,4 units] are turned as those of LSTM are not; their
    scales and zero points are one or one per column for each direction.
    """
    body = Formula(c)
    weights = [
        c.constant(np.ascontiguousarray(_real_columns(c, x, scale, scale + 1).transpose(0, 2, 1)))
        for x, scale in ((1, 8), (2, 10))
    ]
    rest = [c[n] if c.has(n) else None for n in range(3, 8)]
    inner = Call(c.lifter, c.node, [_requantized(body.operand(0)).value, *weights, *rest])
    results = lstm(inner, _requantized)
    c.read_options |= inner.read_options
    return results


def _real_columns(c: Call, place: int, scale: int, zero: int) -> np.ndarray:
    """Real weights [directions,rows,columns]."""
    w, factor = c.known(place).astype(np.float32), c.known(scale)
    shift = c.known(zero) if c.has(zero) else np.zeros_like(factor)
    sides = (w.shape[0], 1, -1)
    if w.ndim != 3 or any(p.size not in (len(w), len(w) * w.shape[2]) for p in (factor, shift)):
        raise UnsupportedOp("the scales of its weights are neither one nor one per column")
    return (w - shift.astype(np.float32).reshape(sides)) * factor.astype(np.float32).reshape(sides)


@lifts("onnx.com.microsoft.GatherBlockQuantized")
def _gather_blocks(c: Call) -> Value:
    """GatherBlockQuantized: rows of a table of few bits, with a scale and a zero point for each block.

    Codes of bytes are packed along the last axis, the first in the low bits.
    """
    bits, block = int(c.get("bits", 4)), int(c.get("block_size", 128))
    stored, scales = c.known(0), c.known(2)
    is_packed, kind = stored.dtype == np.uint8, c[2].dtype
    if (is_packed and bits not in (2, 4, 8)) or c[0].dtype is None or c[0].dtype.is_floating or kind is None:
        raise UnsupportedOp(f"its codes are {bits} bits in {c[0].dtype}")

    def unpacked(x: np.ndarray) -> np.ndarray:
        return _unpacked(x, bits) if is_packed else x.astype(np.int8)

    codes = unpacked(stored)
    rows, split = (int(c.get(f"{name}_axis", usual)) for name, usual in (("gather", 0), ("quantize", 1)))
    rows, split = rows % codes.ndim, split % codes.ndim
    blocks = codes.shape[split] // max(block, 1)
    if rows == split or scales.shape != (*codes.shape[:split], blocks, *codes.shape[split + 1 :]):
        raise UnsupportedOp(f"its scales are not those of blocks of {block} of the rows that it takes")
    zeros = np.full(scales.shape, 1 << (bits - 1) if is_packed else 0, codes.dtype)
    if c.has(3):
        zeros = unpacked(c.known(3))[..., : scales.shape[-1]]
    # The elements of a block get an axis of their own, along which its scale is one number.
    sides = (*codes.shape[:split], blocks, block, *codes.shape[split + 1 :])
    tables = codes.reshape(sides), *(np.expand_dims(x, split + 1) for x in (scales, zeros))
    body = Formula(c)
    places = body.term(wrapped(c, c[1], codes.shape[rows]))
    x, scale, zero = (
        body.term(c.constant(np.ascontiguousarray(t))).gather(places, rows + (rows > split)) for t in tables
    )
    wanted = sizes_of(places)
    y = (x.cast(kind) - zero.cast(kind)) * scale
    return reshaped(y, [*codes.shape[:rows], *wanted, *codes.shape[rows + 1 :]]).value


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
    packed = c.known(1)
    if packed.size * 8 != units * blocks * block * bits:
        raise UnsupportedOp(f"its weights are not {units} rows of {blocks} blocks of {block}")
    stored = _unpacked(packed.reshape(units, -1), bits)
    codes = stored.reshape(units, blocks, block).astype(np.float32)
    scales = c.known(2).reshape(units, blocks, 1)
    # Without zero points the middle of the codes stands for 0.
    zeros: np.ndarray = np.full((units, blocks), 1 << (bits - 1), np.float32)
    if c.has(3):
        given = c.known(3).reshape(units, -1)
        zeros = _unpacked(given, bits)[:, :blocks] if given.dtype == np.uint8 else given
    weights = (codes - zeros[..., None].astype(np.float32)) * scales.astype(np.float32)
    # The last block of a row is filled up.
    matrix = weights.reshape(units, -1)[:, :width].T
    w = c.constant(np.ascontiguousarray(matrix.astype(scales.dtype)))
    return _biased(c, matmul(c, c[0], w, (rank(c), 2)), 5)


def _unpacked(stored: np.ndarray, bits: int) -> np.ndarray:
    """Numbers of a few bits, several of which share a byte of the last axis."""
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    return ((stored[..., None] >> shifts) & ((1 << bits) - 1)).reshape(*stored.shape[:-1], -1)
