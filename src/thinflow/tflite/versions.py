"""Op versions: the oldest runtime that can run an operator."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from thinflow.tflite import schema
from thinflow.tflite.options import stored

if TYPE_CHECKING:
    from thinflow.tflite.model import Operator, Tensor


def op_version(operator: Operator) -> int:
    """The lowest version of a builtin op that covers the operator's types, ranks and options."""
    inputs, options, code = operator.inputs, operator.options, operator.code
    # BROADCAST_TO never had a version 1.
    versions = [2 if code == "BROADCAST_TO" else 1]
    for rule in type_rules().get(code, ()):
        operand = _operand(operator, rule.operand)
        if operand is not None:
            name = schema.storage_name(operand.dtype)
            # An int16 that carries a quantization is for another kernel than one that is a plain integer.
            quantized = rule.by_type.get(f"{name}q") if operand.quantization is not None else None
            versions.append(quantized or rule.by_type.get(name, 1))
    for name, version in OPTION_VERSIONS.get(code, {}).items():
        fields = {f.name: f for f in schema.option_fields(schema.options_of(code))}
        # An option with its default is not in the file, so that old runtimes see nothing new.
        if name in options and stored(fields[name], options[name], operator) != fields[name].default:
            versions.append(version)
    shapes = [() if t is None or t.shape is None else t.shape for t in inputs]
    ranks = [len(shape) for shape in shapes]
    versions += [v for rank, v in RANK_VERSIONS.get(code, ()) if ranks and ranks[0] >= rank]
    if code in BROADCAST_VERSIONS and len(set(shapes[:2])) > 1 and max(ranks) > 4:
        versions.append(BROADCAST_VERSIONS[code])
    if code in HYBRID_VERSIONS:
        versions.append(_hybrid_version(operator, HYBRID_VERSIONS[code]))
    special = _SPECIAL_VERSIONS.get(code)
    if special is not None:
        versions.append(special(operator, shapes))
    return max(versions)


def _operand(operator: Operator, number: int) -> Tensor | None:
    side: list[Tensor | None] | list[Tensor] = operator.outputs if number < 0 else operator.inputs
    number = 0 if number < 0 else number
    return side[number] if number < len(side) else None


def _hybrid_version(operator: Operator, hybrid: Hybrid) -> int:
    x, w = _operand(operator, 0), _operand(operator, hybrid.weights)
    if x is None or w is None or x.dtype.name != "float" or schema.storage_name(w.dtype) != "int8":
        return 1
    if w.quantization is not None and w.quantization.is_per_channel:
        return max(hybrid.plain, hybrid.per_channel)
    return hybrid.asymmetric if operator.options.get("asymmetric_quantize_inputs") else hybrid.plain


def _int16_sum(operator: Operator, power_of_two: int, otherwise: int) -> int:
    x = _operand(operator, 0)
    if x is None or schema.storage_name(x.dtype) != "int16":
        return 1
    return power_of_two if operator.options.get("pot_scale_int16", True) else otherwise


def _mul_rescale(operator: Operator, shapes: list[Any]) -> int:
    parts = [_operand(operator, 0), _operand(operator, 1), _operand(operator, -1)]
    scales = [
        float(t.quantization.scale[0]) for t in parts if t and t.quantization and len(t.quantization.scale)
    ]
    if len(scales) < 3 or 0 in scales or parts[0] is None or parts[0].dtype.itemsize != 1:
        return 1
    # Older kernels requantize by factors below 1 only.
    return 3 if scales[0] * scales[1] / scales[2] >= 1 else 1


def _per_channel(number: int, version: int, types: tuple[str, ...]) -> Callable[[Operator, list[Any]], int]:
    def of(operator: Operator, shapes: list[Any]) -> int:
        x = _operand(operator, number)
        wide = x is not None and x.quantization is not None and x.quantization.is_per_channel
        return (
            version if x is not None and wide and (not types or schema.storage_name(x.dtype) in types) else 1
        )

    return of


def _grouped(operator: Operator, shapes: list[Any]) -> int:
    known = len(shapes) > 1 and len(shapes[0]) == 4 and len(shapes[1]) == 4
    # Groups: the weights have fewer input channels than x.
    return 6 if known and None not in (shapes[0][3], shapes[1][3]) and shapes[0][3] != shapes[1][3] else 1


def _not_4d(operator: Operator, shapes: list[Any]) -> int:
    x = _operand(operator, 0)
    return 3 if x is not None and x.shape is not None and len(x.shape) != 4 else 1


# What the tables cannot say.
_SPECIAL_VERSIONS: dict[str, Callable[[Operator, list[Any]], int]] = {
    "ADD": lambda o, s: _int16_sum(o, 1, 3),
    "SUB": lambda o, s: _int16_sum(o, 1, 5),
    "MUL": _mul_rescale,
    "CONV_2D": _grouped,
    "FULLY_CONNECTED": lambda o, s: 6 if len(o.inputs) == 2 else 1,
    "TRANSPOSE_CONV": lambda o, s: 3 if len(o.inputs) == 4 and o.inputs[3] is not None else 1,
    "DEQUANTIZE": _per_channel(0, 5, ("int8",)),
    "QUANTIZE": _per_channel(-1, 3, ()),
    "EMBEDDING_LOOKUP": _per_channel(1, 4, ()),
    "SPACE_TO_BATCH_ND": _not_4d,
    "BATCH_TO_SPACE_ND": _not_4d,
    "SELECT": lambda o, s: 3 if any(len(shape) == 5 for shape in s) else 1,
    "WHERE": lambda o, s: (
        1 if o.inputs and o.inputs[0] is not None and o.inputs[0].dtype.name == "bool" else 2
    ),
}


# --- tables -------------------------------------------------------------------------------------------------
#
# Versions of ops that features ask for, as tables: element types, options, ranks, int8 weights.
#
# Kernels accept every version below theirs, so the highest that applies wins.


class VersionRule(NamedTuple):
    """Op versions that the element types of one operand ask for."""

    operand: int  # input number; -1 is the first output
    by_type: dict[str, int]  # "int16q" is an int16 that carries a quantization


# Ops from one list share a rule.
_TYPE_RULES = """
0 ABS: int8=2 uint8=2 int16q=3 int16=4 int32=5
0 ADD: int8=2 int16q=1 int64=4 int16=5
0 ARG_MAX ARG_MIN: int8=2 bool=3
0 AVERAGE_POOL_2D MAX_POOL_2D RELU6 TANH LOGISTIC SOFTMAX MEAN MIRROR_PAD: int8=2 int16=3
0 REDUCE_MAX REDUCE_MIN RSQRT: int8=2 int16=3
0 BATCH_MATMUL LESS GREATER_EQUAL TOPK_V2: int8=2 int16=3
1 TOPK_V2: int16=3
0 BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR: int8=2 int16=4
0 BROADCAST_TO: int8=3 int16=3
0 CAST: uint32=2 int8=3 uint16=4 double=5 half=5 int4=6 bfloat16=7 int2=8 uint4=8
-1 CAST: uint32=2 int8=3 uint16=4 double=5 half=5 bfloat16=7 int2=8 uint4=8
0 CONCATENATION: int8=2 int16=3 uint32=4 int4=5
0 CONV_2D: int8=3 int16=4
1 CONV_2D: int4=7
0 DEPTHWISE_CONV_2D: int8=3 int16=5
1 DEPTHWISE_CONV_2D: int4=7
0 DEQUANTIZE: int8=2 int16=3 half=3 int4=6 int2=7 uint4=8
2 DYNAMIC_UPDATE_SLICE: int64=2
0 DYNAMIC_UPDATE_SLICE: half=3 int16=4 int4=5 bfloat16=6
1 EMBEDDING_LOOKUP: int4=4 int2=5
0 EQUAL: int8=2 string=3 int16=5
0 NOT_EQUAL: int8=2 string=3 int16=4
0 EXP LOG SQRT REDUCE_PROD: int8=2 int16=2
1 FILL: bool=2 string=2 int8=3 int16=3 half=4
0 FLOOR_DIV: float=2 int8=3 int16=3
0 FLOOR_MOD: int8=2 int16=2
0 FULLY_CONNECTED: int8=4 int16=7
1 FULLY_CONNECTED: int4=10 int2=14
0 GATHER: int8=2 bool=3 int16=4 int4=7
1 GATHER: int16=6
0 GATHER_ND: string=2 int16=3 bool=5
1 GATHER_ND: int16=4
0 GELU: int8=2 uint8=2
-1 L2_NORMALIZATION: int8=2
0 LEAKY_RELU: int16=2
0 MAXIMUM MINIMUM: int8=2 int16=4
0 MUL: int8=2 int16q=4 int64=5 complex64=6 int16=7 uint32=7
0 PACK: int8=2 int16=3 uint32=4
0 PAD PADV2: int8=2 int16=3 bool=5
0 QUANTIZE: uint4=5 int4=4
-1 QUANTIZE: int16=2 int4=4 uint4=5
0 RANGE: int64=2
0 RELU: int8=2 uint8=2 int16=3
0 REVERSE_V2: bool=2 int8=3
0 SELECT: int8=2 uint32=4
0 SELECT_V2: uint32=2
0 SIGN: int32=2
0 SLICE: int8=2 string=3 int16=4 uint32=6 int4=7
0 SPACE_TO_DEPTH DEPTH_TO_SPACE SPLIT_V SUM LOG_SOFTMAX GREATER LESS_EQUAL SQUARED_DIFFERENCE: int8=2
2 SPARSE_TO_DENSE: int64=2 int8=3 uint8=3
1 SPLIT: int8=2 int32=3 int16=4
0 SQUEEZE: string=2
0 STRIDED_SLICE: int8=2 bool=3 string=5 uint32=7
0 SUB: int8=2 int64=4
0 SVDF: int8=3
0 TILE: string=2 int8=3
0 TRANSPOSE: int8=2 bool=3 int16=5 int4=7
1 TRANSPOSE_CONV: int8=2
0 UNPACK: int8=2 uint8=2 bool=3 int16=4
"""

# Option values other than the default that need a version.
OPTION_VERSIONS = {
    "FAKE_QUANT": {"narrow_range": 2},
    "FULLY_CONNECTED": {"weights_format": 2, "keep_num_dims": 5, "quantized_bias_type": 11},
    "CONV_2D": {"quantized_bias_type": 8},
    "DEPTHWISE_CONV_2D": {"dilation_w_factor": 2, "dilation_h_factor": 2},
    "GATHER": {"batch_dims": 5},
    "LSTM": {"kernel_type": 2},
    "RESIZE_BILINEAR": {"half_pixel_centers": 3},
    "RESIZE_NEAREST_NEIGHBOR": {"half_pixel_centers": 3, "align_corners": 3},
    "STRIDED_SLICE": {"ellipsis_mask": 6, "new_axis_mask": 6, "offset": 8},
    "TRANSPOSE_CONV": {"fused_activation_function": 4, "quantized_bias_type": 5},
    "UNIDIRECTIONAL_SEQUENCE_LSTM": {"diagonal_recurrent_tensors": 4},
}

# op -> (first rank, version) pairs for the first operand's rank.
RANK_VERSIONS = {
    "TRANSPOSE": ((5, 4), (6, 6)),
    "SLICE": ((5, 5),),
    "STRIDED_SLICE": ((5, 4),),
    "PAD": ((5, 4),),
    "PADV2": ((5, 4),),
}
# Binary ops: version for two different shapes of which one has more than four dimensions.
BROADCAST_VERSIONS = {"MAXIMUM": 3, "MINIMUM": 3, "SUB": 3, "DIV": 2}


class Hybrid(NamedTuple):
    """Versions for float activations with int8 weights: plain, asymmetric inputs, scales per channel."""

    weights: int  # input number
    plain: int
    asymmetric: int
    per_channel: int


HYBRID_VERSIONS = {
    "CONV_2D": Hybrid(1, 2, 2, 5),
    "DEPTHWISE_CONV_2D": Hybrid(1, 4, 4, 6),
    "FULLY_CONNECTED": Hybrid(1, 3, 9, 12),
    "BATCH_MATMUL": Hybrid(1, 1, 4, 1),
    "SVDF": Hybrid(1, 2, 4, 2),
    "RNN": Hybrid(1, 2, 3, 2),
    "UNIDIRECTIONAL_SEQUENCE_RNN": Hybrid(1, 2, 3, 2),
    "BIDIRECTIONAL_SEQUENCE_RNN": Hybrid(1, 2, 3, 2),
    "BIDIRECTIONAL_SEQUENCE_LSTM": Hybrid(1, 2, 3, 2),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Hybrid(2, 2, 3, 2),
    "LSTM": Hybrid(2, 3, 4, 3),
}


@cache
def type_rules() -> dict[str, list[VersionRule]]:
    """The version rules of every op that has some."""
    rules: dict[str, list[VersionRule]] = {}
    for line in _TYPE_RULES.strip().splitlines():
        ops, _, versions = line.partition(":")
        operand, *names = ops.split()
        by_type = {name: int(v) for name, _, v in (word.partition("=") for word in versions.split())}
        for name in names:
            rules.setdefault(name, []).append(VersionRule(int(operand), by_type))
    return rules
