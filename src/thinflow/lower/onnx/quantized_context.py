"""Quantized tensors as ONNX's own quantized ops take them: values, scale and zero point.

Rules for quantized ops note here what their results are, besides what computes them bit for bit:

- of 8-bit values, the scale and the zero point (`QuantizedTensor`), so that readers can use integer kernels;
- of 32-bit accumulators, how to get them as 8-bit or real values (`Accumulators`). A Requantize then emits
  one of these and leaves the 32-bit result unread, so that it is removed.

Values made this way are within one of TensorFlow's, which rounds halves in another direction and divides some
ranges from their lower end. A range that is measured in each run is widened to hold 0. Small tensors, and
what `bit_for_bit` encloses, are not made this way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from thinflow.analysis.quant_params import QuantParams
from thinflow.ir.types import FLOAT, INT8, INT32, QINT8, UINT8, DType
from thinflow.lower.onnx.builder import Builder
from thinflow.lower.onnx.quantization_formulas import is_same, known_parameters
from thinflow.lower.onnx.terms import Term
from thinflow.lower.quantized.accumulators import RequantTarget, steps_from_low_end
from thinflow.onnx.program import Tensor
from thinflow.ops._quantized import is_native
from thinflow.typing import Array

# From a signed value to the unsigned one that stands for the same real value.
_HALF = 128
FEWEST = 64
"""Elements below which values are computed as TensorFlow does: exact, and too few to take any time."""
_NARROWEST = 1e-30
"""Keeps the width of a measured range above 0: its scale is still a normal float32."""
_LARGEST_LEAST = 1e-6
"""Up to this a constant is a floor under a measured end, to keep the range from being empty."""


Join: TypeAlias = "Callable[[Array, TargetTensors, float], Tensor | None]"
"""Emits a layer with a bias behind it, given how far that may be off TensorFlow's sums, real value; None if
the requantization in between cannot be left out."""


@dataclass(frozen=True)
class QuantizedTensor:
    """A quantized tensor: (values - zero_point) * scale.

    Attributes:
        values: uint8 (of signed ones: 128 more); int8 for weights.
        scale: float [].
        zero_point: [], of the values' type.
        low, high: the ends of the range as the graph hands them on.
        is_measured: whether the ends are those of sums made here, which are not TensorFlow's to the last bit.
        join: makes a bias behind these values part of the layer that they are requantized from.
        reals: emits what was rounded to these values, where that was computed to measure their range.
    """

    values: Tensor
    scale: Tensor
    zero_point: Tensor
    low: Tensor
    high: Tensor
    is_measured: bool = False
    join: Join | None = None
    reals: Callable[[], Tensor] | None = None

    @property
    def known_scale(self) -> float | None:
        """The scale, if it is known."""
        return float(self.scale.array()) if self.scale.is_constant else None


@dataclass(frozen=True)
class TargetTensors:
    """Quantization parameters of a result: (values - zero_point) * scale.

    Attributes:
        shift: what to add to the real values before they are rounded.
        clamped: whether values below the zero point become that afterwards.
        top: what is above becomes this afterwards.
    """

    scale: Tensor
    zero_point: Tensor
    shift: float = 0.0
    clamped: bool = False
    top: float = math.inf

    @property
    def fixed(self) -> RequantTarget:
        """The same in numbers, which are constants."""
        low = 0.0 if self.clamped else -math.inf
        scale, zero_point = float(self.scale.array()), int(self.zero_point.array())
        return RequantTarget(scale, zero_point, self.shift, low, self.top)


@dataclass(frozen=True)
class Accumulators:
    """The other forms of 32-bit sums.

    Attributes:
        low, high: the ends of the range as the graph hands them on.
        narrow: emits the sums as uint8 values.
        reals: emits the sums as float.
        ends: emits the least and the greatest of the sums as float [], where that is cheaper.
        clamped: whether what is below 0 is 0.
        top: what is above is this.
        join: gives a requantized tensor its `join`.
    """

    low: Tensor
    high: Tensor
    narrow: Callable[[TargetTensors], Tensor]
    reals: Callable[[], Tensor]
    ends: Callable[[], tuple[Tensor, Tensor]] | None = None
    clamped: bool = False
    top: float = math.inf
    join: Callable[[TargetTensors], Join] | None = None


_exactly: ContextVar[bool] = ContextVar("bit_for_bit", default=False)


@contextmanager
def bit_for_bit() -> Iterator[None]:
    """Within the block quantized ops are lowered to what gives TensorFlow's values, however slow."""
    token = _exactly.set(True)
    try:
        yield
    finally:
        _exactly.reset(token)


def is_exact(q: Tensor) -> bool:
    """True if values have to be TensorFlow's, all of them: where they are few, that takes no time."""
    is_small = q.shape is not None and math.prod(n or 1 for n in q.shape) < FEWEST
    return is_small or _exactly.get() or is_native()


# --- notes --------------------------------------------------------------------------------------------------


def note_quantized(b: Builder, q: Tensor, params: QuantizedTensor) -> Tensor:
    """Note the parameters of quantized values; returns the values."""
    b.notes["coded", q] = params
    return q


def note_accumulators(b: Builder, q: Tensor, sums: Accumulators) -> Tensor:
    """Remember how to get 32-bit sums in another form; returns them."""
    b.notes["wide", q] = sums
    return q


def note_measured(b: Builder, q: Tensor, least: Tensor, most: Tensor) -> None:
    """Remember that two tensors are the ends of the range that some sums use."""
    b.notes["least", least] = q
    b.notes["most", most] = q


def quantized_of(b: Builder, q: Tensor, low: Tensor, high: Tensor) -> QuantizedTensor | None:
    """The parameters of values with this range; None if 0 may not be exact by them."""
    found = b.notes.get(("coded", q))
    if found is not None and is_same(found.low, low) and is_same(found.high, high):
        params: QuantizedTensor = found
        return params
    known = known_parameters(low, high, q.dtype)
    if known is None or not known.holds_zero:
        return None
    is_signed = q.dtype is INT8
    values = _unsigned(b, q) if is_signed else q
    scale, zero = _constants(b, known, _HALF if is_signed else 0)
    b.notes["coded", q] = QuantizedTensor(values, scale, zero, low, high)
    return QuantizedTensor(values, scale, zero, low, high)


def _unsigned(b: Builder, q: Tensor) -> Tensor:
    """int8 values as uint8 ones, 128 more."""
    if q.is_constant:
        # int16 holds int8 values and 128 more.
        return b.const((q.array().astype(np.int16) + _HALF).astype(np.uint8), "codes")
    return b.cast((Term(b, b.cast(q, INT32)) + _HALF).tensor, UINT8)


def weights_of(b: Builder, w: Tensor, low: Tensor, high: Tensor) -> QuantizedTensor | None:
    """As `quantized_of`, constants made signed: products of unsigned with signed values are the fastest."""
    found = b.notes.get(("weights", w))
    if found is None:
        found = quantized_of(b, w, low, high)
        if found is None or not found.values.is_constant or not found.zero_point.is_constant:
            return None if found is None else in_own_type(b, w, found)
        values, zero = (
            b.const((t.array().astype(np.int16) - _HALF).astype(np.int8), "weights", INT8)
            for t in (found.values, found.zero_point)
        )
        found = replace(found, values=values, zero_point=zero)
        b.notes["weights", w] = found
    weights: QuantizedTensor = found
    return weights if is_same(weights.low, low) and is_same(weights.high, high) else None


def in_own_type(b: Builder, q: Tensor, params: QuantizedTensor) -> QuantizedTensor:
    """The same with the values in their own type, signed ones too."""
    zero = params.zero_point
    if q.dtype is INT8:
        zero = b.cast((Term(b, b.cast(zero, INT32)) - _HALF).tensor, INT8)
    return replace(params, values=q, zero_point=zero)


def accumulators_of(b: Builder, q: Tensor, low: Tensor, high: Tensor) -> Accumulators | None:
    """The other forms of 32-bit sums with this range, if they are known."""
    found: Accumulators | None = None if is_exact(q) else b.notes.get(("wide", q))
    is_its = found is not None and is_same(found.low, low) and is_same(found.high, high)
    return found if is_its else None


def target_over(b: Builder, low: Term, high: Term) -> TargetTensors:
    """uint8 values over a range that holds 0, known or not."""
    known = known_parameters(low.tensor, high.tensor, UINT8)
    if known is not None and known.holds_zero:
        return TargetTensors(*_constants(b, known))
    # A range known only when the model runs is divided there; it has been widened to hold 0.
    scale = (high - low) / 255.0
    return TargetTensors(scale.tensor, b.cast((-low / scale).rounded().tensor, UINT8))


def _constants(b: Builder, known: QuantParams, shift: int = 0) -> tuple[Tensor, Tensor]:
    return (
        b.const(np.float32(known.scale), "scale"),
        b.const(np.array(known.zero_point + shift, np.uint8), "zero"),
    )


# --- small steps --------------------------------------------------------------------------------------------


def dequantized(b: Builder, x: QuantizedTensor) -> Tensor:
    """Values as float."""
    inputs, shape = (x.values, x.scale, x.zero_point), x.values.shape
    return b.step("DequantizeLinear", *inputs, shape=shape, element=FLOAT, suffix="reals")


def constant_reals(x: QuantizedTensor) -> Array | None:
    """The real values of a constant, float64; None for others."""
    if not (x.values.is_constant and x.scale.is_constant and x.zero_point.is_constant):
        return None
    centred = x.values.array().astype(np.float64) - float(x.zero_point.array())
    return np.asarray(centred * float(x.scale.array()))


def real_values_of(b: Builder, x: QuantizedTensor) -> Tensor:
    """Real values as float: what was rounded if that is there, which is half a step closer."""
    return dequantized(b, x) if x.reals is None else x.reals()


def quantized(b: Builder, x: Tensor, to: TargetTensors | QuantizedTensor) -> Tensor:
    """Float as uint8 values."""
    return b.step("QuantizeLinear", x, to.scale, to.zero_point, shape=x.shape, element=UINT8, suffix="codes")


def scaled(b: Builder, q: Tensor, *units: Tensor) -> Tensor:
    """32-bit sums as float, each one being worth the product of some numbers."""
    unit = Term(b, units[0])
    for other in units[1:]:
        unit = unit * other
    return b.step("Mul", b.cast(q, FLOAT), unit.tensor, shape=q.shape)


def as_signed(b: Builder, values: Tensor) -> Tensor:
    """uint8 values as the int8 ones they stand for."""
    return b.cast((Term(b, b.cast(values, INT32)) - _HALF).tensor, INT8)


# --- from 32 bits to eight ----------------------------------------------------------------------------------


def requantized(
    b: Builder, q: Tensor, sums: Accumulators, low: Tensor, high: Tensor, out_type: DType
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Sums requantized to a range, and the ends of that; None if they have to be computed bit for bit.

    Args:
        low, high: constants, or what `note_measured` was told of q.
    """
    is_signed = out_type is QINT8
    if low.is_constant and high.is_constant:
        known = known_parameters(low, high, INT8 if is_signed else UINT8)
        if known is None or not known.holds_zero or known.low > 0:
            return None
        params = _frozen(b, sums, known, low, high)
    elif b.notes.get(("least", low)) is q and _is_measured(b, q, high):
        params = dynamic(b, sums)
    else:
        return None
    values = b.result(as_signed(b, params.values) if is_signed else params.values)
    return note_quantized(b, values, params), b.result(params.low, 1), b.result(params.high, 2)


def _is_measured(b: Builder, q: Tensor, high: Tensor) -> bool:
    """True if an end is the greatest value, or a tiny constant if that is less."""
    found = b.producer(high, "Max")
    if found is not None:
        rest = [t for t in found.inputs if t is not None and t.is_constant]
        moving = [t for t in found.inputs if t is not None and not t.is_constant]
        if len(moving) != 1 or any(not (abs(t.array()) <= _LARGEST_LEAST).all() for t in rest):
            return False
        high = moving[0]
    return b.notes.get(("most", high)) is q


def _frozen(b: Builder, sums: Accumulators, known: QuantParams, low: Tensor, high: Tensor) -> QuantizedTensor:
    shift = _HALF if known.dtype is QINT8 else 0
    scale, zero = _constants(b, known, shift)
    # Unsigned values divide the range from its lower end, signed ones from 0.
    from_end = 0.0 if shift else steps_from_low_end(known) * known.scale
    to = TargetTensors(scale, zero, from_end, sums.clamped, sums.top)
    # Behind a clamp a bias cannot become part of the layer: it would be added before.
    is_clamped = sums.clamped or sums.top < math.inf
    join = None if is_clamped or sums.join is None else sums.join(to)
    return QuantizedTensor(clamped_to(b, sums.narrow(to), to), scale, zero, low, high, join=join)


def clamped_to(b: Builder, values: Tensor, to: TargetTensors) -> Tensor:
    """uint8 values with constant parameters, clamped as the target is."""
    fixed = to.fixed
    least = fixed.zero_point if to.clamped else 0
    # A limit beyond the range's own end changes nothing: saturation has been there before.
    most = min(255.0, fixed.zero_point + fixed.high / fixed.scale)
    if least <= 0 and round(most) >= 255:
        return values
    ends = [b.const(np.array(n, np.uint8), "end") for n in (least, max(round(most), 0))]
    return b.step("Clip", values, *ends, shape=values.shape)


def dynamic(b: Builder, sums: Accumulators) -> QuantizedTensor:
    """Sums requantized to the range that they use."""
    if sums.ends is not None:
        low, high = _zero_between(b, sums, *sums.ends())
        to = target_over(b, low, high)
        return QuantizedTensor(
            sums.narrow(to), to.scale, to.zero_point, low.tensor, high.tensor, is_measured=True
        )
    x = sums.reals()
    if sums.clamped:
        return _from_zero(b, x, sums.top)
    values, scale, zero = dynamically_quantized(b, x)
    code = Term(b, b.cast(zero, FLOAT))
    # The op widens the range and rounds its zero point: these are the ends that its values span.
    ends = (-code * scale).tensor, ((255.0 - code) * scale).tensor
    return QuantizedTensor(values, scale, zero, *ends, is_measured=True, reals=lambda: x)


def _from_zero(b: Builder, x: Tensor, top: float) -> QuantizedTensor:
    """As `dynamic`, of real values clamped to 0 ... `top`: the parameters do that."""
    most = Term(b, b.step("ReduceMax", x, shape=(), keepdims=0)).most(_NARROWEST)
    high = most.least(top) if top < math.inf else most
    low, zero = b.const(np.float32(0), "least"), b.const(np.array(0, np.uint8), "zero")
    to = TargetTensors((high / 255.0).tensor, zero)

    def clamped() -> Tensor:
        if top == math.inf:
            return b.step("Relu", x)
        return b.step("Clip", x, *(b.const(np.float32(n), "end") for n in (0, top)), shape=x.shape)

    return QuantizedTensor(
        quantized(b, x, to), to.scale, zero, low, high.tensor, is_measured=True, reals=cache(clamped)
    )


def _zero_between(b: Builder, sums: Accumulators, least: Tensor, most: Tensor) -> tuple[Term, Term]:
    """The range of what is left of sums, with 0 in it and a width above 0."""
    low = Term(b, b.const(np.float32(0), "least")) if sums.clamped else Term(b, least).least(0)
    high = Term(b, most).most(_NARROWEST)
    return low, high.least(sums.top) if sums.top < math.inf else high


def dynamically_quantized(b: Builder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Real values quantized to the range that they use with 0: uint8 values, scale [] and zero point []."""
    values, scale, zero = b.step_ports(
        "DynamicQuantizeLinear", x, shapes=[x.shape, (), ()], elements=[UINT8, FLOAT, UINT8], suffix="codes"
    )
    return values, scale, zero


def with_parameters(b: Builder, values: Tensor, params: QuantizedTensor | None, **changes: Any) -> Tensor:
    """Note that values have the parameters of others; returns them."""
    if params is not None:
        note_quantized(
            b, values, replace(params, **{"values": values, "join": None, "reals": None, **changes})
        )
    return values
