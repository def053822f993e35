"""Which LiteRT ops compute in int8 and in int16, and what their kernels demand of scales and zero points.

The runtime does not check all of it: an AVERAGE_POOL_2D with two scales runs and is wrong. What stands here
was found by running each kernel, and the tests run each again.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Fixed(NamedTuple):
    """Output parameters that a kernel insists on."""

    scale: float
    zero_point: int


class Weighted(NamedTuple):
    """Input numbers of an op with constant weights, and the weights' dimension with one scale per entry."""

    x: int
    weights: int
    bias: int
    axis: int


class Kernel(NamedTuple):
    """What an int8 kernel asks for. Tensors that are not float32 in the float program are left alone.

    Attributes:
        weighted: for ops with symmetric int8 weights and an int32 bias.
        tied: all float inputs and outputs share scale and zero point.
        fixed: the output's parameters, if the kernel dictates them.
        is_heavy: it multiplies and adds, so integers pay off even between float neighbours.
        options: that its integer form must have.
    """

    weighted: Weighted | None = None
    tied: bool = False
    fixed: Fixed | None = None
    is_heavy: bool = False
    options: tuple[tuple[str, Any], ...] = ()


_FREE = Kernel()
_TIED = Kernel(tied=True)

_GROUPS: dict[str, Kernel] = {
    "CONV_2D FULLY_CONNECTED": Kernel(Weighted(0, 1, 2, 0), is_heavy=True),
    "DEPTHWISE_CONV_2D": Kernel(Weighted(0, 1, 2, 3), is_heavy=True),
    "TRANSPOSE_CONV": Kernel(Weighted(2, 1, 3, 0), is_heavy=True),
    "BATCH_MATMUL": Kernel(is_heavy=True),
    "ADD SUB MUL MEAN SUM": _FREE,
    "RELU RELU6 RELU_N1_TO_1 LEAKY_RELU PRELU ELU HARD_SWISH GELU ABS": _FREE,
    "LESS LESS_EQUAL GREATER GREATER_EQUAL": _FREE,
    "ARG_MAX ARG_MIN": _FREE,
    "AVERAGE_POOL_2D MAX_POOL_2D MAXIMUM MINIMUM REDUCE_MAX REDUCE_MIN RESIZE_BILINEAR": _TIED,
    "CONCATENATION RESHAPE SQUEEZE EXPAND_DIMS TRANSPOSE PAD PADV2 MIRROR_PAD SLICE STRIDED_SLICE SPLIT"
    " SPLIT_V GATHER GATHER_ND PACK UNPACK TILE BROADCAST_TO REVERSE_V2 SPACE_TO_DEPTH DEPTH_TO_SPACE"
    " SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND RESIZE_NEAREST_NEIGHBOR TOPK_V2 SELECT SELECT_V2"
    " DYNAMIC_UPDATE_SLICE": _TIED,
    "LOGISTIC SOFTMAX": Kernel(fixed=Fixed(1 / 256, -128)),
    "TANH L2_NORMALIZATION": Kernel(fixed=Fixed(1 / 128, 0)),
    "LOG_SOFTMAX": Kernel(fixed=Fixed(16 / 256, 127)),
}
KERNELS: dict[str, Kernel] = {code: kernel for codes, kernel in _GROUPS.items() for code in codes.split()}

_INT16_GROUPS: dict[str, Kernel] = {
    **_GROUPS,
    "ADD SUB": Kernel(options=(("pot_scale_int16", False),)),
    "LOGISTIC SOFTMAX TANH": Kernel(fixed=Fixed(1 / 32768, 0)),
}
_NO_INT16 = frozenset(
    (
        *("RELU_N1_TO_1", "ELU", "HARD_SWISH", "PRELU", "ARG_MAX", "ARG_MIN", "SPACE_TO_DEPTH"),
        *("DEPTH_TO_SPACE", "L2_NORMALIZATION", "LOG_SOFTMAX"),
    )
)
INT16_KERNELS: dict[str, Kernel] = {
    code: kernel for codes, kernel in _INT16_GROUPS.items() for code in codes.split() if code not in _NO_INT16
}

READS_ANYTHING = frozenset(("SHAPE", "RANK"))
"""Ops that look at a tensor's sizes only; they read whichever form exists."""

FUSED = {"NONE": None, "RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
"""Fused activations that int8 kernels apply, as the interval they clamp to."""

CLAMPS = frozenset(("RELU", "RELU6", "RELU_N1_TO_1"))
"""Ops that do nothing but what FUSED does."""

COMPARISONS = frozenset(("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"))
"""Ops whose kernels end the process if a scale is 1 or more."""

_WIDE = "its results span more orders of magnitude than 8 bits hold"
_WRONG = "LiteRT's int8 kernel for it ignores scale and zero point"
_NOT_INT8: dict[str, str] = {
    **dict.fromkeys(("RSQRT", "SQRT", "EXP", "LOG", "POW", "DIV", "REDUCE_PROD"), _WIDE),
    "SQUARED_DIFFERENCE": "squares of small differences vanish in 8 bits",
    **dict.fromkeys(("NEG", "SCATTER_ND", "CAST"), _WRONG),
    **dict.fromkeys(("EQUAL", "NOT_EQUAL"), "rounded numbers are equal where the numbers are not"),
}

_NOT_INT16: dict[str, str] = {
    **dict.fromkeys(
        ("RSQRT", "SQRT", "EXP", "LOG", "POW", "DIV", "REDUCE_PROD"), _WIDE.replace("8 bits", "16 bits")
    ),
    "PRELU": "LiteRT's int16 kernel for it ignores scales",
}


def why_not_int8(code: str) -> str:
    """Why an op has no row in KERNELS."""
    return _NOT_INT8.get(code) or f"LiteRT has no int8 kernel for {code}"


def why_not_int16(code: str) -> str:
    """Why an op has no row in INT16_KERNELS."""
    return _NOT_INT16.get(code) or f"LiteRT has no int16 kernel for {code}"
