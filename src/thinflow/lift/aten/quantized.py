"""PyTorch's quantized programs: ops between codes and real numbers around layers of real numbers.

They are ONNX's QuantizeLinear and DequantizeLinear, whose rules keep scales for whoever writes eight bits.
"""

from __future__ import annotations

import numpy as np

from thinflow.decompose.terms import Term
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32, UINT8, DType, dtype
from thinflow.lift.aten.arguments import Arguments, aten

_OPS = "quantized_decomposed"


def _kind(a: Arguments, codes: DType | None) -> DType:
    """The type of the codes, whose range the file states beside it.

    Raises:
        UnsupportedOp: the codes are no integers.
    """
    kind = a.kind("dtype") or codes
    if kind is None or kind.kind not in "iu" or kind.numpy().itemsize > 4:
        raise UnsupportedOp(f"its codes are {kind}")
    return kind


def _parameters(a: Arguments, kind: DType) -> tuple[Value, Value, int]:
    """Scale and zero point as ONNX takes them, and the axis that they lie along."""
    if "per_channel" in a.call.node.op:
        end = "s" if a.call.node.op.startswith(f"aten.{_OPS}.") else ""
        return a.cast(a.tensor(f"scale{end}"), FLOAT), _zero(a, f"zero_point{end}", kind), a.axis("axis")
    if a.is_tensor("scale"):
        scale = a.cast(_unwidened(a.tensor("scale")), FLOAT)
        return _single(a, scale), _single(a, _zero(a, "zero_point", kind)), 0
    scale = a.call.constant(np.array(a.number("scale"), np.float32))
    return scale, a.call.constant(np.asarray(a.integer("zero_point"), kind.numpy())), 0


def _single(a: Arguments, value: Value) -> Value:
    """One element as a scalar: a vector would be a scale for each channel."""
    return a.emit("Reshape", value, a.integers(())) if value.spec.rank else value


def _unwidened(value: Value) -> Value:
    """A scale as it was computed: PyTorch states it in float64, which phones do not compute in."""
    node = value.node
    return node.inputs[0] if node.op == "Cast" and node.inputs[0].dtype is FLOAT else value


def _zero(a: Arguments, name: str, kind: DType) -> Value:
    if not a.has(name):
        return a.call.constant(np.zeros((), kind.numpy()))
    value = a.tensor(name)
    content = a.call.content(value)
    # A constant of the codes' own type is what other rules look for.
    return a.cast(value, kind) if content is None else a.call.constant(content.astype(kind.numpy()))


def _quantize(a: Arguments) -> Value:
    kind = _kind(a, None)
    a.ignore("eps")
    if kind is INT32:
        raise UnsupportedOp("it makes codes of 32 bits", hint="quantize weights and biases before exporting")
    return _codes(a, kind)


def _codes(a: Arguments, kind: DType) -> Value:
    scale, zero, axis = _parameters(a, kind)
    low, high = a.integer("quant_min"), a.integer("quant_max")
    x, step, shift = (a.call.content(v) for v in (a.x, scale, zero))
    if x is not None and step is not None and shift is not None:
        # PyTorch multiplies by 1 / scale: the largest weights often lie between two codes, where that counts.
        sides = [-1 if n == axis else 1 for n in range(x.ndim)] if step.size > 1 else [1] * x.ndim
        inverse = (np.float32(1) / step.astype(np.float32)).reshape(sides)
        known = np.rint(x.astype(np.float32) * inverse) + shift.astype(np.float32).reshape(sides)
        return a.call.constant(known.clip(low, high).astype(kind.numpy()))
    codes = a.onnx("QuantizeLinear", a.x, scale, zero, axis=axis)
    whole = np.iinfo(kind.numpy())
    if (low, high) == (whole.min, whole.max):
        return codes
    # A range of its own, as -127 to 127: what lies beyond is cut off.
    ends = [a.call.constant(np.asarray(n, kind.numpy())) for n in (low, high)]
    return a.emit("Minimum", a.emit("Maximum", codes, ends[0]), ends[1])


def _dequantize(a: Arguments) -> Value:
    kind = _kind(a, a.x.dtype)
    if a.x.dtype is not kind:
        raise UnsupportedOp(f"its codes are {a.x.dtype}, and it states {kind}")
    scale, zero, axis = _parameters(a, kind)
    a.ignore("quant_min", "quant_max", "out_dtype")
    return a.onnx("DequantizeLinear", a.x, scale, zero, axis=axis)


def _chosen(a: Arguments) -> list[Value]:
    """Scale and zero point of the range that holds x and 0, each [1]: of layers that quantize as they run."""
    x, kind = a.body.term(a.cast(a.x, FLOAT)), _kind(a, None)
    low, high = a.integer("quant_min"), a.integer("quant_max")
    every = range(len(x.shape))
    least, most = x.reduced("Min", *every).minimum(0.0), x.reduced("Max", *every).maximum(0.0)
    span: Term = most - least
    if is_symmetric := "symmetric" in a.call.node.op:
        span = most.maximum(-least) * 2.0
    scale = (span / float(high - low)).maximum(a.number("eps"))
    # Around a middle, uint8 has it at 128, whatever the range.
    zero = scale.of(128.0 if kind is UINT8 else 0.0)
    if not is_symmetric:
        zero = (low - (least / scale).apply("Round")).clip(float(low), float(high))
    return [scale.reshape([1]).value, zero.reshape([1]).value]


_CODES = ("uint8", "int8", "int16")


def _rounded(a: Arguments) -> list[Value]:
    """Codes and back, as a network has them that was trained to be quantized."""
    low, high = a.integer("quant_min"), a.integer("quant_max")
    fits = (k for k in map(dtype, _CODES) if (i := np.iinfo(k.numpy())).min <= low and high <= i.max)
    kind = next(fits, None)
    if kind is None:
        raise UnsupportedOp(f"its codes go from {low} to {high}")
    if a.has("fake_quant_enabled") and not a.flag("fake_quant_enabled"):
        return [a.emit("Identity", a.x)]
    scale, zero, axis = _parameters(a, kind)
    return [a.onnx("DequantizeLinear", _codes(a, kind), scale, zero, axis=axis)]


for _form in ("tensor_affine", "channel_affine"):
    aten(f"fake_quantize_per_{_form}", f"fake_quantize_per_{_form}_cachemask")(_rounded)
aten("fake_quantize_per_tensor_affine.tensor_qparams")(_rounded)
aten("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")(_rounded)
aten(f"{_OPS}.choose_qparams.tensor", f"{_OPS}.choose_qparams_symmetric.tensor")(_chosen)
aten(*(f"{_OPS}.quantize_per_{form}" for form in ("tensor", "tensor.tensor", "tensor.tensor2", "channel")))(
    _quantize
)
aten(*(f"{_OPS}.dequantize_per_{form}" for form in ("tensor", "tensor.tensor", "tensor.tensor2", "channel")))(
    _dequantize
)
