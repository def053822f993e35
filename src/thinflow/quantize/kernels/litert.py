"""LiteRT ops that compute in int8 and in int16, and what their kernels demand of scales and zero points.

The runtime does not check all of it: an AVERAGE_POOL_2D with two scales runs and is wrong. What stands here
was found by running each kernel, and the tests run each again.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from thinflow.ir.types import INT8, INT32, INT64, dtype
from thinflow.quantize.kernels import (
    Arithmetic,
    Cost,
    Fixed,
    Kernel,
    Kernels,
    Operator,
    Weighted,
    elements,
    input_at,
    is_float,
    table_of,
)
from thinflow.tflite import schema
from thinflow.tflite.model import Tensor

# XNNPACK and the builtin kernels add int8 products in 32 bits.
EIGHT = Arithmetic(INT8, INT32, -128, 127, False, largest_bias=2**31 - 1)

# LiteRT multiplies a 48-bit sum by a 16-bit factor and shifts it left by at most 7 bits; a bias of 2^46
# leaves room for the products.
SIXTEEN = Arithmetic(dtype("int16"), INT64, -32767, 32767, True, largest_bias=2**46)

# Input and output have scales of their own, and the kernel rescales between them.
_FREE = Kernel()
# The kernel compares, averages or copies quantized values, so they have to mean the same on both sides.
_SAME = Kernel(same_scale=True)

# Costs: `python -m benchmarks int8_kernels` on an x86 processor with AVX-512 VNNI. Where integers cost many
# times more, XNNPACK has no kernel for them, and LiteRT's own takes element by element.
_LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"
_ROWS: dict[str, Kernel] = {
    # Weights are OHWI and OI, 1HWC for depthwise layers. TRANSPOSE_CONV takes the output's sizes first, then
    # weights, x and bias.
    "CONV_2D FULLY_CONNECTED": Kernel(Weighted(0, 1, 2, 0), is_heavy=True),
    "DEPTHWISE_CONV_2D": Kernel(Weighted(0, 1, 2, 3), is_heavy=True),
    "TRANSPOSE_CONV": Kernel(Weighted(2, 1, 3, 0), is_heavy=True),
    # XNNPACK multiplies batches if the second ones have a zero point of 0; LiteRT's own kernel, which takes
    # any, is 8 to 40 times slower than that. The cost is that of a product of two numbers.
    "BATCH_MATMUL": Kernel(is_heavy=True, centred=(1,), cost=Cost(0.5, 0.4)),
    "MUL MEAN SUM": _FREE,
    # ADD and SUB shift operands by 20 bits before they rescale them to a common unit, those of int16 by 15.
    "ADD SUB": Kernel(sum_bits=20, cost=Cost(1.7, 2.9)),
    # What is cut off where makes it up to ten times that.
    "RELU RELU6 RELU_N1_TO_1": Kernel(is_clamp=True, cost=Cost(1.6, 60)),
    "HARD_SWISH": Kernel(cost=Cost(1.5, 68)),
    "ABS": Kernel(cost=Cost(1.6, 54)),
    "PRELU": Kernel(cost=Cost(2.5, 75)),
    "GELU": Kernel(cost=Cost(5.5, 6)),
    "ELU": Kernel(cost=Cost(4.8, 2)),
    "LEAKY_RELU": _FREE,
    # From one grid to another.
    "FAKE_QUANT": Kernel(code="QUANTIZE"),
    # The comparing kernels end the process if a scale is 1 or more.
    "LESS LESS_EQUAL GREATER GREATER_EQUAL": Kernel(scale_limit=1.0, cost=Cost(2.2, 37)),
    "ARG_MAX ARG_MIN": _FREE,
    "AVERAGE_POOL_2D": Kernel(same_scale=True, averages=True, cost=Cost(1.7, 17)),
    "RESIZE_BILINEAR": Kernel(same_scale=True, averages=True),
    "MAX_POOL_2D MAXIMUM MINIMUM REDUCE_MAX REDUCE_MIN": _SAME,
    "PADV2": Kernel(same_scale=True, cost=Cost(3.6, 8)),
    "CONCATENATION RESHAPE SQUEEZE EXPAND_DIMS TRANSPOSE PAD MIRROR_PAD SLICE STRIDED_SLICE SPLIT"
    " SPLIT_V GATHER GATHER_ND PACK UNPACK TILE BROADCAST_TO REVERSE_V2 SPACE_TO_DEPTH DEPTH_TO_SPACE"
    " SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND RESIZE_NEAREST_NEIGHBOR TOPK_V2 SELECT SELECT_V2"
    " DYNAMIC_UPDATE_SLICE": _SAME,
    # Fixed by the specification of 8-bit quantization in TFLite: 0..1, -1..1 and -16..0 in 256 steps.
    "LOGISTIC": Kernel(fixed=Fixed(1 / 256, -128), cost=Cost(3.7, 2)),
    "SOFTMAX": Kernel(fixed=Fixed(1 / 256, -128), cost=Cost(16, 42)),
    "TANH": Kernel(fixed=Fixed(1 / 128, 0), cost=Cost(4, 2)),
    "L2_NORMALIZATION": Kernel(fixed=Fixed(1 / 128, 0), cost=Cost(12, 95)),
    "LOG_SOFTMAX": Kernel(fixed=Fixed(16 / 256, 127)),
    # Its matrices, states and what is inside have forms of their own, see `integer_lstm`.
    _LSTM: Kernel(is_heavy=True, data=(0,), has_matrices=True),
}
_INT16_ROWS: dict[str, Kernel] = {
    **_ROWS,
    # The schema's default is true, which asks for scales that are powers of two.
    "ADD SUB": Kernel(options=(("pot_scale_int16", False),), sum_bits=15),
    # -1..1 with 15 bits behind the point (Q0.15).
    "LOGISTIC SOFTMAX TANH": Kernel(fixed=Fixed(1 / 32768, 0)),
}
_NO_INT16 = frozenset(
    (
        *("FAKE_QUANT", "RELU_N1_TO_1", "ELU", "HARD_SWISH", "PRELU", "ARG_MAX", "ARG_MIN", "SPACE_TO_DEPTH"),
        *("DEPTH_TO_SPACE", "L2_NORMALIZATION", "LOG_SOFTMAX", _LSTM),
    )
)

CLAMPS = {"RELU": (0.0, math.inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
"""Activations, fused or on their own, that do nothing but clamp, and the limits."""

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
    _LSTM: "LiteRT's integer LSTM has inputs of eight bits",
}


class LiteRTKernels(Kernels):
    """LiteRT's integer kernels in one arithmetic."""

    def why_form(self, operator: Operator) -> str:
        tensors: list[Any] = [t for t in (*operator.inputs, *operator.outputs) if t is not None]
        if operator.code == _LSTM:
            return ""  # `integer_lstm` looks at it
        if (
            operator.code == "FAKE_QUANT"
            and operator.options["num_bits"] != 8 * self.arithmetic.activation.itemsize
        ):
            return f"it rounds to {operator.options['num_bits']} bits"
        if any(t.is_variable for t in tensors):
            return "it reads or writes state that stays float"
        if schema.SUBGRAPH_OPTIONS & operator.options.keys():
            return "it calls another subgraph"
        fused = _fused(operator)
        if fused != "NONE" and fused not in CLAMPS:
            return f"LiteRT's {self.name} kernels cannot fuse {fused}"
        weighted = self.table[operator.code].weighted
        if weighted is not None:
            weights = input_at(operator, weighted.weights)
            if weights is not None and weights.is_constant and not is_float(weights):
                return f"its weights are {weights.dtype}"
        return ""

    def work(self, operator: Operator) -> float:
        if operator.code != "BATCH_MATMUL":
            return super().work(operator)
        x, y = operator.inputs[0], operator.outputs[0]
        inner = -2 if operator.options.get("adj_x") else -1
        return elements(y) * ((x.shape[inner] or 1) if x is not None and x.shape else 1)

    def clamp(self, operator: Operator) -> tuple[float, float] | None:
        return CLAMPS.get(operator.code if operator.code in CLAMPS else _fused(operator))

    def why_missing(self, operator: Operator) -> str:
        custom: str = getattr(operator, "custom_code", "")
        return f"custom op {custom}" if custom else self.why_not(operator.code)


def _fused(operator: Operator) -> str:
    return str(operator.options.get("fused_activation_function", "NONE"))


_SHARED: dict[str, Any] = {
    "reads_sizes": frozenset(("SHAPE", "RANK")),
    "decides": frozenset(("SOFTMAX", "LOG_SOFTMAX", "ARG_MAX", "ARG_MIN", "TOPK_V2")),
    "reciprocal_root": "RSQRT",
    "scalings": frozenset(("MUL", "ADD", "SUB", "DIV", "RESHAPE")),
}

# 1 - sigmoid(8) is 3.4e-4 and 1 - tanh(4) is 6.7e-4, both less than a tenth of the output's scale.
# XNNPACK refuses to run a model whose s_x * s_w / s_y is 256 or more.
INT8_KERNELS = LiteRTKernels(
    arithmetic=EIGHT,
    table=table_of(_ROWS),
    refusals=_NOT_INT8,
    missing="LiteRT has no int8 kernel for {}",
    saturates={"LOGISTIC": 8.0, "TANH": 4.0},
    largest_factor=256.0,
    slower="LiteRT's int8 kernel for it is {} times slower than float",
    **_SHARED,
)

# 1 - sigmoid(10.5) and 1 - tanh(5.6) are 2.8e-5, just below the output's scale of 1/32768.
# 128 is the factor that a left shift by 7 bits makes, the largest of the 48-bit requantization.
INT16_KERNELS = LiteRTKernels(
    arithmetic=SIXTEEN,
    table={code: kernel for code, kernel in table_of(_INT16_ROWS).items() if code not in _NO_INT16},
    refusals=_NOT_INT16,
    missing="LiteRT has no int16 kernel for {}",
    saturates={"LOGISTIC": 10.5, "TANH": 5.6},
    largest_factor=128.0,
    **_SHARED,
)

BY_SCHEME: dict[str, LiteRTKernels] = {"int8": INT8_KERNELS, "int16x8": INT16_KERNELS}
"""Kernels of schemes that compute in integers; those that only store weights smaller have none."""

_WEIGHTS = {
    **{c: (k.weighted.weights, k.weighted.axis) for c, k in INT8_KERNELS.table.items() if k.weighted},
    # DHWIO, and DHWOI for the transposed one, as in TensorFlow.
    "CONV_3D": (1, 4),
    "CONV_3D_TRANSPOSE": (1, 3),
    "EMBEDDING_LOOKUP": (1, 0),
    "GATHER": (0, 0),
}
"""Float op -> input number of its weights, dimension of the output channels (rows, for a table)."""


class Weights(NamedTuple):
    """Constant weights of an operator: input number, tensor, dimension with one scale per entry."""

    number: int
    tensor: Tensor
    axis: int


def weights_of(operator: Operator) -> Weights | None:
    """The constant weights of an operator; None for operators without."""
    if operator.code == "BATCH_MATMUL":
        # Output channels are the columns of y; transposed, they are its rows.
        number, axis = 1, -2 if operator.options.get("adj_y") else -1
    elif operator.code in _WEIGHTS:
        number, axis = _WEIGHTS[operator.code]
    else:
        return None
    tensor = operator.inputs[number] if number < len(operator.inputs) else None
    if tensor is None or not tensor.is_constant or tensor.shape is None or not tensor.shape:
        return None
    return Weights(number, tensor, axis % len(tensor.shape))
