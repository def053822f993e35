"""Element types and ranks that LiteRT's kernels take, as tried out; types are those without quantization.

Small integers have kernels for many ops, but arithmetic on them means quantized numbers, so it is not listed:
rules that emit it know what they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import BFLOAT16, HALF, shape_text
from thinflow.lower.operands import WIDENING
from thinflow.tflite import schema
from thinflow.tflite.model import Tensor

_COPIED = "float half int8 uint8 int16 uint16 int32 uint32 int64 bool double complex64"
_MOST = "float half int8 uint8 int16 int32 int64 bool"
_FEW = "float int8 uint8 int32 int64"

# Types of the operand that decides, by op. Ops that are not listed take any type a tensor can have.
_TYPES = {
    "float": """EXP LOG SQRT RSQRT SQUARE SIN COS FLOOR CEIL ROUND RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1
        TANH LOGISTIC
        ELU HARD_SWISH LEAKY_RELU PRELU GELU SOFTMAX LOG_SOFTMAX L2_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION
        RESIZE_BILINEAR BATCH_MATMUL FULLY_CONNECTED CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV CONV_3D
        CONV_3D_TRANSPOSE MAX_POOL_2D AVERAGE_POOL_2D L2_POOL_2D RFFT2D FAKE_QUANT NON_MAX_SUPPRESSION_V4
        NON_MAX_SUPPRESSION_V5 BUCKETIZE ERF""",
    "float int32": "ABS DIV FLOOR_DIV POW SQUARED_DIFFERENCE ADD_N SEGMENT_SUM UNSORTED_SEGMENT_SUM"
    " UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN",
    "float double": "ATAN2",
    "float int32 double": "SIGN",
    "float int32 int64": "NEG ADD SUB MUL FLOOR_MOD CUMSUM ZEROS_LIKE RANGE MEAN SUM REDUCE_PROD"
    " LESS LESS_EQUAL GREATER GREATER_EQUAL",
    "float int32 int64 bool string": "EQUAL NOT_EQUAL",
    "bool": "LOGICAL_NOT LOGICAL_AND LOGICAL_OR REDUCE_ANY REDUCE_ALL",
    "int8 uint8 int16 uint16 int32 uint32": "BITWISE_XOR RIGHT_SHIFT",
    "float int8 uint8 int32 uint32 int64 bool": "WHERE",
    "float int8 uint8 int32 bool": "ARG_MAX ARG_MIN",
    "float int8 uint8 int16 int32 uint32 int64": "PACK",
    "float half int8 uint8 int16 int32 bool": "UNPACK",
    "float half int8 uint8 int16 int32 uint32 int64 bool": "CONCATENATION",
    "float uint8 int16 int32 int64": "REVERSE_SEQUENCE",
    _FEW: "SPACE_TO_DEPTH DEPTH_TO_SPACE SPARSE_TO_DENSE",
    f"{_FEW} bool": "SCATTER_ND ONE_HOT",
    _MOST: "GATHER PAD PADV2 REVERSE_V2",
    f"{_MOST} string": "GATHER_ND",
    _COPIED: "TRANSPOSE MIRROR_PAD SELECT SELECT_V2 BROADCAST_TO SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND",
    "float int8 uint8 int16 int32 int64": "MATRIX_DIAG MATRIX_SET_DIAG MAXIMUM MINIMUM REDUCE_MAX"
    " REDUCE_MIN TOPK_V2"
    " UNIQUE SPLIT SPLIT_V",
    f"{_COPIED} string": "SLICE STRIDED_SLICE TILE FILL",
    "float half int8 uint8 int16 uint16 int32 uint32 bool": "RESIZE_NEAREST_NEIGHBOR",
    "complex64": "REAL IMAG COMPLEX_ABS",
}

# The operand whose type decides, where it is not the first input.
_DECIDING = {"SPLIT": 1, "FILL": 1, "ONE_HOT": 2, "SCATTER_ND": 1, "SPARSE_TO_DENSE": 2,
             "SELECT": 1, "SELECT_V2": 1, "TRANSPOSE_CONV": 2, "CONV_3D_TRANSPOSE": 2}  # fmt: skip

_BROADCASTING = frozenset(
    """ADD SUB MUL DIV FLOOR_DIV FLOOR_MOD MAXIMUM MINIMUM POW SQUARED_DIFFERENCE EQUAL NOT_EQUAL LESS
    LESS_EQUAL GREATER GREATER_EQUAL LOGICAL_AND LOGICAL_OR BITWISE_XOR RIGHT_SHIFT
    SELECT_V2""".split()  # noqa: SIM905
)
_MAX_BROADCAST_RANK = 6
_RANKS = {
    **dict.fromkeys(("PAD", "PADV2", "BATCH_MATMUL"), (0, 5)),
    **dict.fromkeys(("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"), (3, 4)),
    **dict.fromkeys(
        ("CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE",
         "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "LOCAL_RESPONSE_NORMALIZATION"), (4, 4)
    ),
    "TRANSPOSE": (0, 6),
    "UNIQUE": (1, 1),
}  # fmt: skip


@cache
def types_of(code: str) -> tuple[str, ...]:
    """The element types a kernel takes; empty if it takes any."""
    return next((tuple(types.split()) for types, codes in _TYPES.items() if code in codes.split()), ())


def _widening(tensor: Tensor) -> str:
    return WIDENING if tensor.dtype in (HALF, BFLOAT16) else ""


def check(code: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor]) -> None:
    """Refuse what LiteRT has no kernel for.

    Raises:
        UnsupportedOp: a type or rank that no kernel takes.
    """
    for tensor in (*inputs, *outputs):
        if tensor is not None and schema.tensor_type(tensor.dtype) is None:
            raise UnsupportedOp(f"TFLite has no type {tensor.dtype}", hint=_widening(tensor))
    place = _DECIDING.get(code, 0)
    operand = inputs[place] if place < len(inputs) else None
    if operand is None:
        return
    # Quantized tensors have kernels of their own; rules that make them know which.
    types = types_of(code) if operand.quantization is None else ()
    if types and operand.dtype.name not in types:
        problem = f"LiteRT has no {code} for {operand.dtype}, only for {', '.join(types)}"
        raise UnsupportedOp(problem, hint=_widening(operand))
    # The condition of SELECT_V2 is bool beside operands of any type.
    kinds = {str(t.dtype) for t in inputs[code == "SELECT_V2" :] if t is not None}
    if code in _BROADCASTING and len(kinds) > 1:
        raise UnsupportedOp(f"LiteRT's {code} takes operands of one type, not {' and '.join(sorted(kinds))}")
    ranks = [len(t.shape) for t in inputs if t is not None and t.shape is not None]
    low, high = _RANKS.get(code, (0, 8))
    if operand.shape is not None and not low <= len(operand.shape) <= high:
        wanted = str(low) if low == high else f"{low} to {high}"
        raise UnsupportedOp(f"LiteRT's {code} takes rank {wanted}, not {shape_text(operand.shape)}")
    if (
        code in _BROADCASTING
        # Operands of one shape run through without broadcasting, whatever their rank.
        and max(ranks, default=0) > _MAX_BROADCAST_RANK
        and len({t.shape for t in inputs if t}) > 1
    ):
        raise UnsupportedOp(f"LiteRT's {code} broadcasts up to rank {_MAX_BROADCAST_RANK}")
