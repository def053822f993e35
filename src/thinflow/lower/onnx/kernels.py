"""Element types that ONNX Runtime's CPU kernels take; types are TensorFlow's names."""

from __future__ import annotations

from functools import cache

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import DType, dtype

# Types of the operand that decides, by op. Ops that are not listed take any type a tensor can have. Newer
# releases take more; these are what releases of the last years have in common.
_TYPES = {
    "float": """Acos Acosh Asin Asinh Atan Atanh AveragePool Conv ConvTranspose Cosh Elu Erf LRN LeakyRelu
        Selu Sinh Softplus Softsign Tan NonMaxSuppression""",
    "float double": """BatchNormalization Ceil Floor Round Cos Sin Exp Log Sqrt Reciprocal Sigmoid Tanh
        Softmax LogSoftmax Gemm IsInf IsNaN SpaceToDepth DepthToSpace""",
    "float double int8 uint8": "MaxPool",
    "float double int32 int64": """Add Sub Mul Less LessOrEqual Greater GreaterOrEqual Pow MatMul CumSum
        Einsum ReduceSum ReduceMean ReduceProd ReduceL2 TopK""",
    # Not int32: the lowest number divided by -1 ends the process.
    "float double int64": "Div Mod",
    "float double int32 int64 bool": "Equal",
    "float double int32 int64 int8 uint8": "ArgMax ArgMin ReduceMax ReduceMin",
    "float double int32 int64 uint32 uint64": "Max Min",
    "float double int32 int64 int8 int16": "Neg",
    "float double int32 int64 int8 uint8 uint32 uint64 int16 uint16": "Abs Sign BitwiseAnd BitwiseOr"
    " BitwiseXor BitwiseNot",
    "float double int32 int64 uint8 string": "Where",
    "float double int32 int64 int8 uint8 uint32 uint64": "Clip",
    "float double int32 int64 int8 uint8 uint32 uint64 bool": "Pad",
    "float double int32": "Relu",
    "float double int64 int8": "Unique",
    "float int32 uint8": "Resize",
    "bool": "And Or Xor Not",
    "string": "StringConcat RegexFullMatch",
    "bool float int32 int64 uint8": "NonZero",
    "float double int32 int64 int16": "Range",
}

DECIDING = {"Where": 1}
"""The operand whose type decides, where it is not the first input."""

_NO_HALF = frozenset({"IsInf"})
"""Ops that by ONNX's own definition do not take half."""

_WIDER = {
    "half": ("float",),
    "bool": ("uint8", "int32"),
    "int8": ("int32", "int64"),
    "uint8": ("int32", "int64"),
    "int16": ("int32", "int64"),
    "uint16": ("int32", "int64"),
    "uint32": ("int64",),
    "int32": ("int64",),
}  # fmt: skip
"""Types that hold every value of a type, so that computing in them and wrapping around gives the same."""

_ARITHMETIC = """Add Sub Mul Div Mod Max Min Pow Less LessOrEqual Greater GreaterOrEqual Equal MatMul Gemm
    Conv ConvTranspose Concat BatchNormalization Einsum And Or Xor BitwiseAnd BitwiseOr BitwiseXor"""
ONE_TYPE = dict.fromkeys(_ARITHMETIC.split(), 0) | {"Where": 1}
"""Ops whose operands must have one type, from which operand on."""

SINCE = {"BitwiseAnd": 18, "BitwiseOr": 18, "BitwiseXor": 18, "BitwiseNot": 18, "Gelu": 20,
         "StringConcat": 20, "RegexFullMatch": 20}  # fmt: skip
"""The first opset that has an op, where it is not below 17."""


@cache
def types_of(code: str) -> tuple[str, ...]:
    """The element types a kernel takes; empty if it takes any."""
    return next((tuple(types.split()) for types, codes in _TYPES.items() if code in codes.split()), ())


@cache
def fitting(code: str, element: DType) -> DType:
    """The type to run an op in: the operand's own, or a wider one.

    Raises:
        UnsupportedOp: there is none.
    """
    types = types_of(code)
    # ONNX Runtime itself runs half in float where it has no kernel.
    half_is_float = element.name == "half" and "float" in types and code not in _NO_HALF
    if not types or element.name in types or half_is_float:
        return element
    for wider in _WIDER.get(element.name, ()):
        if wider in types:
            return dtype(wider)
    raise UnsupportedOp(f"ONNX Runtime has no {code} for {element}, only for {', '.join(types)}")


def combining(element: DType) -> DType:
    """The type to combine rows in that meet in one place of a ScatterND, which takes no half there.

    Raises:
        UnsupportedOp: there is none.
    """
    return dtype("float") if element.name == "half" else fitting("Add", element)
