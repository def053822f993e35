"""LiteRT's operators that are ops of TensorFlow by another name; lowering and lifting go by them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto


class Kind(Enum):
    """Operands that an operator and its counterpart take."""

    UNARY = auto()
    """One operand."""
    BINARY = auto()
    """Two operands, which broadcast."""
    REDUCTION = auto()
    """An operand and its axes; `keep_dims`."""
    UNSORTED_SEGMENTS = auto()
    """Rows, the segment of each, and the number of segments."""
    SAME_OPERANDS = auto()
    """All operands in the same order, and no options; lowering has rules of its own for these."""
    STABLEHLO = auto()
    """Operators of StableHLO that are elementwise; files may hold them, and none is written."""


# Operator -> ops of the same meaning, a blank between them; it is read as the first. A kernel that takes
# fewer types than the op refuses the others by itself, see `lower/tflite/kernels.py`.
_OPS: Mapping[Kind, Mapping[str, str]] = {
    Kind.UNARY: {
        "ABS": "Abs",
        "CEIL": "Ceil",
        "COS": "Cos",
        "ELU": "Elu",
        "EXP": "Exp",
        "FLOOR": "Floor",
        "LOG": "Log",
        "LOGICAL_NOT": "LogicalNot",
        "LOGISTIC": "Sigmoid",
        "LOG_SOFTMAX": "LogSoftmax",
        "NEG": "Neg",
        # All three take halves to even.
        "ROUND": "Round Rint",
        "SIGN": "Sign",
        "SIN": "Sin",
        "SQRT": "Sqrt",
        "TANH": "Tanh",
    },
    Kind.BINARY: {
        "ADD": "AddV2 Add",
        "BITWISE_XOR": "BitwiseXor",
        # Of integers, DIV is cut off towards zero, as TruncateDiv is.
        "DIV": "RealDiv Div TruncateDiv",
        "EQUAL": "Equal",
        "FLOOR_MOD": "FloorMod",
        "GREATER": "Greater",
        "GREATER_EQUAL": "GreaterEqual",
        "LESS": "Less",
        "LESS_EQUAL": "LessEqual",
        "LOGICAL_AND": "LogicalAnd",
        "LOGICAL_OR": "LogicalOr",
        "MAXIMUM": "Maximum",
        "MINIMUM": "Minimum",
        "MUL": "Mul",
        "NOT_EQUAL": "NotEqual",
        "RIGHT_SHIFT": "RightShift",
        "SQUARED_DIFFERENCE": "SquaredDifference",
        "SUB": "Sub",
    },
    Kind.REDUCTION: {
        "MEAN": "Mean",
        "REDUCE_ALL": "All",
        "REDUCE_ANY": "Any",
        "REDUCE_MAX": "Max",
        "REDUCE_MIN": "Min",
        "REDUCE_PROD": "Prod",
        "SUM": "Sum",
    },
    Kind.UNSORTED_SEGMENTS: {
        "UNSORTED_SEGMENT_MAX": "UnsortedSegmentMax",
        "UNSORTED_SEGMENT_MIN": "UnsortedSegmentMin",
        "UNSORTED_SEGMENT_PROD": "UnsortedSegmentProd",
        "UNSORTED_SEGMENT_SUM": "UnsortedSegmentSum",
    },
    Kind.SAME_OPERANDS: {
        "BATCH_TO_SPACE_ND": "BatchToSpaceND",
        "BROADCAST_ARGS": "BroadcastArgs",
        "BROADCAST_TO": "BroadcastTo",
        "EXPAND_DIMS": "ExpandDims",
        "FILL": "Fill",
        "GATHER_ND": "GatherNd",
        "MATRIX_DIAG": "MatrixDiag",
        "PAD": "Pad",
        "PADV2": "PadV2",
        "RANGE": "Range",
        "RANK": "Rank",
        "RELU": "Relu",
        "RELU6": "Relu6",
        "REVERSE_V2": "ReverseV2",
        "RSQRT": "Rsqrt",
        "SCATTER_ND": "ScatterNd",
        "SEGMENT_SUM": "SegmentSum",
        "SELECT": "Select",
        "SELECT_V2": "SelectV2",
        "SLICE": "Slice",
        "SPACE_TO_BATCH_ND": "SpaceToBatchND",
        "SPARSE_TO_DENSE": "SparseToDense",
        "SQUARE": "Square",
        "TILE": "Tile",
        "TRANSPOSE": "Transpose",
        "WHERE": "Where",
        "ZEROS_LIKE": "ZerosLike",
    },
    Kind.STABLEHLO: {
        "STABLEHLO_ABS": "Abs",
        "STABLEHLO_ADD": "AddV2",
        "STABLEHLO_COSINE": "Cos",
        "STABLEHLO_EXPONENTIAL": "Exp",
        "STABLEHLO_FLOOR": "Floor",
        "STABLEHLO_LOG": "Log",
        "STABLEHLO_LOGISTIC": "Sigmoid",
        "STABLEHLO_MAXIMUM": "Maximum",
        "STABLEHLO_MINIMUM": "Minimum",
        "STABLEHLO_MULTIPLY": "Mul",
        "STABLEHLO_NEGATE": "Neg",
        "STABLEHLO_POWER": "Pow",
        # Both cut off towards zero.
        "STABLEHLO_REMAINDER": "TruncateMod",
        "STABLEHLO_RSQRT": "Rsqrt",
        "STABLEHLO_SHIFT_LEFT": "LeftShift",
        "STABLEHLO_SUBTRACT": "Sub",
        "STABLEHLO_TANH": "Tanh",
    },
}


def same_in_tensorflow(kind: Kind) -> dict[str, str]:
    """Operator -> the op of TensorFlow that it is read as, of one kind."""
    return {code: ops.split()[0] for code, ops in _OPS[kind].items()}


def same_in_tflite(kind: Kind) -> Mapping[str, str]:
    """Op of TensorFlow -> the operator of the same meaning, of one kind."""
    return {op: code for code, ops in _OPS[kind].items() for op in ops.split()}
