"""Operands as ONNX holds them."""

from __future__ import annotations

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import DType, dtype
from thinflow.onnx.program import Tensor

_CODES = {"quint8": "uint8", "qint8": "int8", "quint16": "uint16", "qint16": "int16", "qint32": "int32"}


def plain_type(element: DType) -> DType:
    """The type in which ONNX holds a TensorFlow type: codes of quantized numbers are integers."""
    return dtype(_CODES[element.name]) if element.name in _CODES else element


def number(x: Tensor, what: str) -> float:
    """The one element of a constant.

    Raises:
        UnsupportedOp: it is computed while the model runs, or there are several.
    """
    if not x.is_constant or x.array().size != 1:
        raise UnsupportedOp(f"{what} is not one fixed number; ONNX wants it so")
    return float(x.array().reshape(()))
