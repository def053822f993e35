"""Quantized tensors in TensorFlow's ops: to real numbers before an op, quantized again behind it.

x [quantized] -> scale * (x - zero_point)        y [real] -> clip(round(y / scale) + zero_point)
"""

from __future__ import annotations

from thinflow.analysis.foreign_quant_params import TensorParams, params_of
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import DType, dtype
from thinflow.lift.grids import Grid, codes, real
from thinflow.lift.lifter import Call

# Types whose integers stand for real numbers wherever a scale is stated; int32 does so as a bias, and where
# it is rescaled.
_QUANTIZED = frozenset(map(dtype, ("int8", "uint8", "int16", "int4")))
_SUMS = frozenset(map(dtype, ("int32", "int64")))
"""Types of biases: with the scale of the products that they are added to."""
_RESCALE = "tfl.QUANTIZE"
"""The op that takes codes of int32 apart from biases: it gives them another scale."""
_BIASED = {"tfl.CONV_2D": 2, "tfl.DEPTHWISE_CONV_2D": 2, "tfl.FULLY_CONNECTED": 2, "tfl.TRANSPOSE_CONV": 3}
"""Op -> the operand that is its bias."""
_FACTORS = {"tfl.TRANSPOSE_CONV": (2, 1)}
"""Op -> the operands whose scales the bias goes by; (0, 1) for the others."""
_RAW = frozenset(
    {
        *("tfl.CAST", "tfl.BITCAST", "tfl.SHAPE", "tfl.RANK", "tfl.WHILE", "tfl.IF", "tfl.CALL"),
        *("tfl.CALL_ONCE", "tfl.ASSIGN_VARIABLE", "tfl.READ_VARIABLE"),
    }
)
"""Ops that take quantized values as they are."""


def dequantized_operands(call: Call) -> list[Value | None]:
    """The operands as real numbers, where the file says that their integers stand for such."""
    # Some ops move quantized values as they are, and recurrent kernels round at every step, which real
    # numbers would not.
    if not call.node.op.startswith("tfl.") or call.node.op in _RAW or is_quantized_recurrent(call):
        return call.xs
    ends = enumerate(zip(call.sources, call.xs, strict=True))
    return [x if v is None or x is None else _real(call, n, v, x) for n, (v, x) in ends]


_RECURRENT = frozenset({"tfl.UNIDIRECTIONAL_SEQUENCE_LSTM", "tfl.LSTM", "tfl.SVDF"})


def is_quantized_recurrent(call: Call) -> bool:
    """True if a recurrent op computes with quantized values: what it rounds comes back at the next step, so
    that real numbers in its place would lead astray.
    """
    return call.node.op in _RECURRENT and _has_quantized_input(call)


def _real(call: Call, place: int, source: Value, x: Value) -> Value:
    params = params_of(source)
    if source.dtype in _SUMS:
        # Other tensors of int32 are indices or sizes.
        if call.node.op == _RESCALE:
            pass
        elif _BIASED.get(call.node.op) != place or not _has_quantized_input(call):
            return x
        else:
            params = params or _params_of_products(call)
    if params is None or source.dtype is None or source.dtype not in _QUANTIZED | _SUMS:
        return x
    tensor = source.node.tensor
    # At once, and then a scale per channel is no obstacle.
    if tensor is not None:
        return call.constant(params.real(tensor.numpy()))
    if params.is_per_channel:
        raise UnsupportedOp(f"its operand {place} is computed and has several scales")
    return real(call, x, _grid(params, source.dtype))


def _has_quantized_input(call: Call) -> bool:
    first = call.sources[_FACTORS.get(call.node.op, (0, 1))[0]]
    return first is not None and first.dtype in _QUANTIZED


def _params_of_products(call: Call) -> TensorParams | None:
    """The parameters of a bias whose own are not stated: scale of the input times scale of the weights."""
    places = _FACTORS.get(call.node.op, (0, 1))
    params = [params_of(v) if (v := call.sources[p]) is not None else None for p in places]
    if params[0] is None or params[1] is None:
        return None
    # The bias is added to the products without rescaling, so it has their scale and zero point 0.
    return TensorParams(tuple(params[0].scale[0] * s for s in params[1].scale), (0,), 0)


def rounded_results(call: Call, results: list[Value]) -> list[Value]:
    """The results with the quantization parameters that the file states for them."""
    if not call.node.op.startswith("tfl.") or call.node.op in _RAW:
        return results
    return [_quantized(call, y, call.node.output(n)) for n, y in enumerate(results)]


def _quantized(call: Call, y: Value, target: Value) -> Value:
    params, kind = params_of(target), target.dtype
    if call.node.op == _RESCALE and kind in _SUMS:
        # Real numbers of float32 cannot say the greatest of them.
        raise UnsupportedOp(f"it makes codes of {kind}")
    # A result that has the quantized type already was moved, not computed.
    if params is None or kind is None or kind not in _QUANTIZED or y.dtype is kind:
        return y
    if params.is_per_channel:
        raise UnsupportedOp("its result has several scales")
    return codes(call, y, _grid(params, kind))


def _grid(params: TensorParams, kind: DType) -> Grid:
    """The grid of a value with one scale."""
    return Grid(params.scale[0], params.zero_point[0] if params.zero_point else 0, kind)
