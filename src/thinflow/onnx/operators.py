"""Facts about ONNX's operators: traits, counterparts in TensorFlow, first opset, types of kernels.

A line for operators that are alike; one that is not listed has no trait and takes any type. Types are
TensorFlow's names, and those of ONNX Runtime's CPU kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from functools import cache
from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import DType, dtype
from thinflow.typing import Array


class Trait(Flag):
    """A property of an operator; `|` makes "any of these"."""

    UNARY = auto()
    """A function of one number."""
    BINARY = auto()
    """A function of two numbers, which broadcast as TensorFlow's do."""
    REDUCTION = auto()
    """Makes one number of all along some axes."""
    ELEMENTWISE = auto()
    """Each element of the output is made of the elements at its place in the operands, which broadcast."""
    FIRST_ONLY = auto()
    """Elementwise in the first operand alone; the others are numbers for all of it."""
    ONE_TYPE = auto()
    """All operands must have one type, from the one on that decides."""
    GIVES_BOOL = auto()
    """The result is bool, whatever the operands are."""
    RESHAPE = auto()
    """Changes sizes, and keeps the order of elements."""
    PRODUCT = auto()
    """A matrix product or convolution, with weights."""
    MOVES = auto()
    """Copies, counts or converts elements, and computes with none; or holds other operators."""
    PLACED = auto()
    """Operand 1 says which elements are read or written, or into which shape they go."""
    NO_HALF = auto()
    """Does not take half by ONNX's own definition."""


_NONE = Trait(0)


@dataclass(frozen=True)
class Facts:
    """Facts known of an operator.

    Attributes:
        traits: its properties.
        types: element types of ONNX Runtime's kernels for the operand that decides; empty for any. Newer
            releases take more; these are what releases of the last years have in common.
        deciding: the operand whose type decides.
        tensorflow: TensorFlow's ops of the same meaning; it is read as the first of them.
        since: the first opset that has it, where that is above 17.
        exact: numpy's function that gives the same bits, if there is one.
        exact_for: "any" type; "floats" where integers are divided or rounded in another way.
    """

    traits: Trait = _NONE
    types: tuple[str, ...] = ()
    deciding: int = 0
    tensorflow: tuple[str, ...] = ()
    since: int = 0
    exact: Callable[..., Array] | None = None
    exact_for: str = "any"


_facts: dict[str, Facts] = {}
_UNKNOWN = Facts()
_WIDER = {
    "half": ("float",),
    "bool": ("uint8", "int32"),
    "int8": ("int32", "int64"),
    "uint8": ("int32", "int64"),
    "int16": ("int32", "int64"),
    "uint16": ("int32", "int64"),
    "uint32": ("int64",),
    "int32": ("int64",),
}
"""Types that hold every value of a type, so that computing in them and wrapping around gives the same."""


def facts_of(code: str) -> Facts:
    """Facts known of an operator; ONNX Runtime's own have their domain before their name."""
    return _facts.get(code, _UNKNOWN)


def has(code: str, traits: Trait) -> bool:
    """True if an operator has any of these traits."""
    return bool(facts_of(code).traits & traits)


def operators_with(traits: Trait) -> frozenset[str]:
    """All operators that have any of these traits."""
    return frozenset(code for code, facts in _facts.items() if facts.traits & traits)


def same_in_tensorflow(kind: Trait) -> Mapping[str, str]:
    """Operator -> the op of TensorFlow that it is read as, of one kind."""
    return {
        code: facts.tensorflow[0]
        for code, facts in _facts.items()
        if facts.traits & kind and facts.tensorflow
    }


def same_in_onnx(kind: Trait) -> Mapping[str, str]:
    """Op of TensorFlow -> the operator of the same meaning, of one kind."""
    return {op: code for code, facts in _facts.items() if facts.traits & kind for op in facts.tensorflow}


@cache
def fitting(code: str, element: DType) -> DType:
    """The type to run an operator in: the operand's own, or a wider one.

    Raises:
        UnsupportedOp: there is none.
    """
    types = facts_of(code).types
    # ONNX Runtime itself runs half in float where it has no kernel.
    half_is_float = element.name == "half" and "float" in types and not has(code, Trait.NO_HALF)
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


def _define(
    codes: str, traits: Trait = _NONE, types: str = "", *, tensorflow: str = "", **facts: Any
) -> None:
    """Note what operators have in common.

    Args:
        codes, types, tensorflow: names, a blank between them; "=" is the operator's own.
    """
    for code in codes.split():
        names = tuple(code if name == "=" else name for name in tensorflow.split())
        assert code not in _facts, f"{code} is defined twice"
        _facts[code] = Facts(traits, tuple(types.split()), tensorflow=names, **facts)


_FLOATS = "float double"
_NUMBERS = f"{_FLOATS} int32 int64"
_INTEGERS = "int32 int64 int8 uint8 uint32 uint64 int16 uint16"

# --- functions of one number -------------------------------------------------------------------------------

_FUNCTION = Trait.UNARY | Trait.ELEMENTWISE
_define(
    "Acos Acosh Asin Asinh Atan Atanh Cosh Elu Erf Sinh Softplus Softsign Tan",
    _FUNCTION,
    "float",
    tensorflow="=",
)
_define("Cos Exp Log Sigmoid Sin Sqrt Tanh", _FUNCTION, _FLOATS, tensorflow="=")
_define("Ceil", _FUNCTION, _FLOATS, tensorflow="=", exact=np.ceil, exact_for="floats")
_define("Floor", _FUNCTION, _FLOATS, tensorflow="=", exact=np.floor, exact_for="floats")
# Both of TensorFlow's round halves to even, as ONNX's does.
_define("Round", _FUNCTION, _FLOATS, tensorflow="Round Rint", exact=np.rint, exact_for="floats")
_define("Reciprocal", _FUNCTION, _FLOATS, tensorflow="Reciprocal Inv")
_define("Abs", _FUNCTION, f"{_FLOATS} {_INTEGERS}", tensorflow="=", exact=np.absolute)
_define("Sign", _FUNCTION, f"{_FLOATS} {_INTEGERS}", tensorflow="=", exact=np.sign, exact_for="floats")
_define("Neg", _FUNCTION, f"{_NUMBERS} int8 int16", tensorflow="=", exact=np.negative)
_define("Not", _FUNCTION | Trait.GIVES_BOOL, "bool", tensorflow="LogicalNot", exact=np.logical_not)
_define("IsNaN", _FUNCTION | Trait.GIVES_BOOL, _FLOATS, tensorflow="IsNan")
_define("IsInf", _FUNCTION | Trait.GIVES_BOOL | Trait.NO_HALF, _FLOATS, tensorflow="=")
_define("BitwiseNot", _FUNCTION, f"{_FLOATS} {_INTEGERS}", tensorflow="Invert", since=18)
_define("LeakyRelu Selu", Trait.ELEMENTWISE, "float")
_define("Relu", Trait.ELEMENTWISE, f"{_FLOATS} int32")
_define("Gelu", since=20)
_define("BitShift FakeQuant HardSigmoid", Trait.ELEMENTWISE)
_define("Cast Identity", Trait.ELEMENTWISE | Trait.MOVES)
_define("Clip", Trait.ELEMENTWISE | Trait.FIRST_ONLY, f"{_NUMBERS} int8 uint8 uint32 uint64")
_define("DequantizeLinear QuantizeLinear", Trait.ELEMENTWISE | Trait.FIRST_ONLY | Trait.MOVES)

# --- functions of several ----------------------------------------------------------------------------------

_OPERATION = Trait.BINARY | Trait.ELEMENTWISE | Trait.ONE_TYPE
_COMPARISON = _OPERATION | Trait.GIVES_BOOL
_define("Add", _OPERATION, _NUMBERS, tensorflow="AddV2 Add", exact=np.add)
_define("Sub", _OPERATION, _NUMBERS, tensorflow="=", exact=np.subtract)
_define("Mul", _OPERATION, _NUMBERS, tensorflow="=", exact=np.multiply)
_define("BitwiseAnd BitwiseOr BitwiseXor", _OPERATION, f"{_FLOATS} {_INTEGERS}", tensorflow="=", since=18)
_define("Equal", _COMPARISON, f"{_NUMBERS} bool", tensorflow="=", exact=np.equal)
_define("Less", _COMPARISON, _NUMBERS, tensorflow="=", exact=np.less)
_define("LessOrEqual", _COMPARISON, _NUMBERS, tensorflow="LessEqual", exact=np.less_equal)
_define("Greater", _COMPARISON, _NUMBERS, tensorflow="=", exact=np.greater)
_define("GreaterOrEqual", _COMPARISON, _NUMBERS, tensorflow="GreaterEqual", exact=np.greater_equal)
_define("And", _COMPARISON, "bool", tensorflow="LogicalAnd", exact=np.logical_and)
_define("Or", _COMPARISON, "bool", tensorflow="LogicalOr", exact=np.logical_or)
_define("Xor", _COMPARISON, "bool")
# Not int32: the lowest number divided by -1 ends the process.
_define("Div", Trait.ELEMENTWISE | Trait.ONE_TYPE, f"{_FLOATS} int64", exact=np.divide, exact_for="floats")
_define("Mod", Trait.ELEMENTWISE | Trait.ONE_TYPE, f"{_FLOATS} int64")
_define("Pow", Trait.ELEMENTWISE | Trait.ONE_TYPE, _NUMBERS)
_define("Max", Trait.ELEMENTWISE | Trait.ONE_TYPE, f"{_NUMBERS} uint32 uint64", exact=np.maximum)
_define("Min", Trait.ELEMENTWISE | Trait.ONE_TYPE, f"{_NUMBERS} uint32 uint64", exact=np.minimum)
# The condition is bool in any case: the type of what is chosen from decides.
_CHOICE = Trait.ELEMENTWISE | Trait.ONE_TYPE | Trait.MOVES
_define("Where", _CHOICE, f"{_NUMBERS} uint8 string", deciding=1, exact=np.where)
_define("com.microsoft.QLinearAdd com.microsoft.QLinearMul", Trait.ELEMENTWISE)
_define("StringConcat", types="string", since=20)
_define("RegexFullMatch", Trait.GIVES_BOOL, "string", since=20)

# --- along axes --------------------------------------------------------------------------------------------

_define("ReduceMean", Trait.REDUCTION, _NUMBERS, tensorflow="Mean")
_define("ReduceSum", Trait.REDUCTION, _NUMBERS, tensorflow="Sum")
_define("ReduceProd", Trait.REDUCTION, _NUMBERS, tensorflow="Prod")
_define("ReduceMax", Trait.REDUCTION, f"{_NUMBERS} int8 uint8", tensorflow="Max")
_define("ReduceMin", Trait.REDUCTION, f"{_NUMBERS} int8 uint8", tensorflow="Min")
_define("ReduceL2", Trait.REDUCTION, _NUMBERS, tensorflow="EuclideanNorm")
_define("ArgMax ArgMin", types=f"{_NUMBERS} int8 uint8")
_define("CumSum TopK", types=_NUMBERS)
_define("LogSoftmax Softmax", types=_FLOATS)

# --- layers ------------------------------------------------------------------------------------------------

_define("Conv ConvTranspose", Trait.PRODUCT | Trait.ONE_TYPE, "float")
_define("MatMul", Trait.PRODUCT | Trait.ONE_TYPE, _NUMBERS)
_define("Gemm", Trait.PRODUCT | Trait.ONE_TYPE, _FLOATS)
_define("Einsum", Trait.ONE_TYPE, _NUMBERS)
_define("BatchNormalization", Trait.ONE_TYPE, _FLOATS)
_define("AveragePool LRN NonMaxSuppression", types="float")
_define("MaxPool", types=f"{_FLOATS} int8 uint8")

# --- movement of data --------------------------------------------------------------------------------------

_define("Reshape", Trait.RESHAPE | Trait.MOVES | Trait.PLACED)
_define("Squeeze Unsqueeze", Trait.RESHAPE | Trait.MOVES)
_define("Concat", Trait.ONE_TYPE | Trait.MOVES)
_define("DepthToSpace SpaceToDepth", Trait.MOVES, _FLOATS)
_define("Gather GatherElements GatherND ScatterElements ScatterND", Trait.MOVES | Trait.PLACED)
_define(
    "Compress ConstantOfShape Expand Flatten OneHot ReverseSequence Slice Split Tile Transpose", Trait.MOVES
)
_define("If Loop Shape Size", Trait.MOVES)
_define("NonZero", Trait.MOVES, "bool float int32 int64 uint8")
_define("Pad", Trait.MOVES, f"{_NUMBERS} int8 uint8 uint32 uint64 bool")
_define("Range", types=f"{_NUMBERS} int16")
_define("Resize", types="float int32 uint8")
_define("Unique", types=f"{_FLOATS} int64 int8")
