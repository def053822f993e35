"""Float layers between two eight-bit grids: integer ones, where that is within one code.

`quantize_nodes` leaves some layers in float, depthwise convolutions above all. Where both their input and
their result are codes on known grids, nothing but their weights has to be rounded. ONNX Runtime would do that
too, with one scale for all channels and whatever it costs: a layer that has to stay in float is kept from it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, UINT8
from thinflow.lower.onnx.borders import border_of_zeros
from thinflow.lower.onnx.builder import TO_CHANNELS_FIRST, TO_CHANNELS_LAST, Builder
from thinflow.lower.onnx.eight_bit import Coded, Target, encoded, limited
from thinflow.lower.onnx.eight_bit_layers import Products
from thinflow.lower.onnx.integers import Conv
from thinflow.onnx.program import Operator, Tensor
from thinflow.typing import Array

_FAR = 64
"""Operators back to look for the one in front."""
_LAYERS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
_FUSED = ("Add", "Clip", "Relu", "Reshape", "Transpose")
_LOWEST = float(np.finfo(np.float32).min)


def between(b: Builder, x: Tensor, to: Target) -> tuple[Tensor, Products | None]:
    """Reals as codes of a known grid, and the layer that was rounded to them if there is one.

    Args:
        x: float, perhaps the result of a layer of codes turned into floats.
    """
    found = _layer(b, x)
    if found is not None:
        layer, clamp = found
        wanted = replace(to, clamped=clamp is not None, top=np.inf if clamp is None else clamp)
        codes = layer.narrow(b, wanted)
        if codes is not None:
            return limited(b, codes, wanted), layer.rounded(to) if clamp is None else None
    if _ends_a_layer(b, x):  # a Max that changes nothing: ONNX Runtime does not know what to make of it
        x = b.step("Max", x, b.const(np.float32(_LOWEST), "lowest"), shape=x.shape)
    return encoded(b, x, to), None


def _ends_a_layer(b: Builder, x: Tensor | None) -> bool:
    """Whether reals are the result of a layer with weights, or of what is fused with one."""
    operator = _producer(b, x)
    while operator is not None and operator.code in _FUSED:
        operator = _producer(b, operator.inputs[0])
    return operator is not None and operator.code in _LAYERS


def _layer(b: Builder, x: Tensor) -> tuple[Products, float | None] | None:
    """The layer that makes reals from codes, and what they are clamped to: codes, Conv, Add and a clamp."""
    operator, clamp, bias = _producer(b, x), None, np.zeros(())
    if operator is not None and operator.code in ("Relu", "Clip"):
        clamp = _top(operator)
        operator = None if clamp is None else _producer(b, operator.inputs[0])
    if operator is not None and operator.code == "Add":
        left, right = operator.inputs
        value, addend = (left, right) if _is_vector(right) else (right, left)
        if not _is_vector(addend):
            return None
        bias, operator = _numbers(addend), _producer(b, value)
    if operator is None or tuple(operator.options.get("perm", ())) != TO_CHANNELS_LAST[4]:
        return None
    conv = _producer(b, operator.inputs[0])
    layer = None if conv is None or conv.code != "Conv" else _of_codes(b, conv, operator.outputs[0])
    if layer is None or bias.size not in (1, layer.columns.shape[1]):
        return None
    return replace(layer, bias=bias), clamp


def _of_codes(b: Builder, operator: Operator, y: Tensor) -> Products | None:
    """A float convolution of codes, without anything behind it. y: its result [n,oh,ow,k]."""
    weights = operator.inputs[1]
    found = _source(b, operator.inputs[0])
    if found is None or weights is None or not weights.is_constant or len(operator.inputs) > 2:
        return None
    x, border = found
    filters = weights.array().astype(np.float64)
    options = dict(operator.options)
    groups = options.get("group", 1)
    is_plain = groups == 1 or (groups == filters.shape[0] and filters.shape[1] == 1)
    if not is_plain or "auto_pad" in options or not np.isfinite(filters).all():
        return None
    if None in (*(x.codes.shape or (None,))[1:], *(y.shape or (None,))[1:]):
        return None
    own = options.get("pads", (0, 0, 0, 0))
    options["pads"] = tuple(a + c for a, c in zip(own, border, strict=True))
    conv = Conv(x.codes, options, y.shape or ())
    order = (2, 3, 1, 0) if groups == 1 else (2, 3, 0, 1)
    return Products(conv, x, filters.transpose(order), 1.0)


def _source(b: Builder, x: Tensor | None) -> tuple[Coded, tuple[int, ...]] | None:
    """The codes that reals in channels-first order come from, and the border of zeros put around them."""
    operator = _producer(b, x)
    border: tuple[int, ...] = (0, 0, 0, 0)
    if operator is None or tuple(operator.options.get("perm", ())) != TO_CHANNELS_FIRST[4]:
        return None
    operator = _producer(b, operator.inputs[0])
    if operator is not None and operator.code == "Pad":
        found = border_of_zeros(operator)
        operator = None if found is None else _producer(b, operator.inputs[0])
        border = found or border
    if operator is None or operator.code != "DequantizeLinear":
        return None
    codes, scale, zero = operator.inputs
    if codes is None or scale is None or zero is None or codes.dtype is not UINT8 or codes.is_constant:
        return None
    if not (scale.is_constant and zero.is_constant) or scale.shape != ():
        return None
    return Coded(codes, scale, zero, scale, scale), border


def _producer(b: Builder, x: Tensor | None) -> Operator | None:
    """The operator that makes a tensor, if it was emitted lately."""
    return next((o for o in b.operators[: -_FAR - 1 : -1] if x in o.outputs), None)


def _top(clamp: Operator) -> float | None:
    """The most that a clamp from 0 leaves; None if it is another clamp."""
    if clamp.code == "Relu":
        return float("inf")
    ends: list[Any] = [None if t is None or not t.is_constant else t.array() for t in clamp.inputs[1:]]
    if len(ends) != 2 or ends[0] is None or ends[1] is None or float(ends[0]) != 0:
        return None
    return float(ends[1])


def _is_vector(x: Tensor | None) -> bool:
    """Whether a tensor is a float constant with one number per channel, or one for all."""
    if x is None or not x.is_constant or x.dtype is not FLOAT:
        return False
    return all(n == 1 for n in x.array().shape[:-1])


def _numbers(x: Tensor | None) -> Array:
    assert x is not None
    return np.asarray(x.array(), np.float64).reshape(-1)
