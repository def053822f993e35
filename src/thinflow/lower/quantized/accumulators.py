"""Plan of a quantized layer: what its 32-bit accumulators hold, and how they are requantized.

A layer with constant weights adds up products of quantized inputs and weights. Which of the following ops
become part of it is decided here, and so are its bias and where it saturates; targets write the operators.
TensorFlow requantizes between a layer and the bias behind it. Joining both leaves one rounding out, which
moves a result by half a step of the scale in between, and it has to saturate where that would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from thinflow.analysis.quant_params import QuantParams
from thinflow.ir.types import FLOAT
from thinflow.lower.quantized.int8_weights import Int8Weights
from thinflow.ops._quantized import codes_of
from thinflow.typing import Array

# Shares of the one step that a result may be off, see TOLERANCE.
NEGLIGIBLE = 0.05
"""Steps that a real value may be off with nothing done: one result in twenty becomes its neighbour."""
MAX_BLUR = 0.6
"""Steps that roundings in joined ops may amount to: half of one where both have the same scale, which is the
usual case, and a tenth for scales that are nearly the same."""
COARSEST_OPERAND = 256.0
"""Steps of the result that a step of an operand may be: XNNPACK's sums of int8 tensors take no greater ratio
of scales than 2**8."""
_SATURATION_SLACK = 0.5
"""Steps by which a joined op may saturate elsewhere: rounding takes them away."""


@dataclass(frozen=True)
class RequantTarget:
    """Quantization parameters of a result, counted as unsigned 8-bit values: (value - zero_point) * scale.

    Attributes:
        zero_point: 0 to 255, also of results that are stored signed.
        shift: real value to add before rounding.
        low, high: real values that an activation clamps to.
    """

    scale: float
    zero_point: int
    shift: float = 0.0
    low: float = -np.inf
    high: float = np.inf

    @classmethod
    def of(cls, params: QuantParams, steps: float = 0.0) -> RequantTarget:
        """The target for known quantization parameters; `steps` of its scale are added before rounding."""
        lowest = codes_of(params.dtype.numpy()).low
        return cls(params.scale, params.zero_point - lowest, steps * params.scale)

    @property
    def ends(self) -> tuple[float, float]:
        """The real values of the lowest and the highest quantized value."""
        # 255 for signed values, too: zero points are counted from the lowest value, so both types look alike
        # here.
        return -self.zero_point * self.scale, (255 - self.zero_point) * self.scale

    @property
    def clamped_ends(self) -> tuple[float, float]:
        """The least and the greatest real value that a result can have."""
        least, most = self.ends
        return max(least, self.low), min(most, self.high)

    def values(self, reals: Array) -> Array:
        """Real values, quantized: uint8."""
        # Halves go to the even value, as in QuantizeLinear.
        found = np.clip(np.rint((reals + self.shift) / self.scale + self.zero_point), 0, 255)
        return np.asarray(found.astype(np.uint8))


def steps_from_low_end(params: QuantParams) -> float:
    """Steps by which TensorFlow's values, counted from the range's low end, lie above those counted from 0.

    Requantize divides an unsigned range from its low end, and its readers take the zero point, a rounded
    number, for 0: so this is -0.5 to 0.5.
    """
    return -params.low / params.scale - params.zero_point


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerPlan:
    """The sums of a layer with constant weights.

    Attributes:
        weights: float64 [taps,c,m], in units of `unit`, 0 being 0.
        unit: the real value that a weight of 1 stands for.
        is_real: whether weights are real values, which are yet to be quantized; `unit` is 1 then.
        input_scale, input_zero: of the input, whose zero point is 0 to 255.
        bias: real values [m] or one for all.
        reach: the real values [m] or one for all between which sums saturate in no op that was joined.
        blur: how far TensorFlow's sums may lie beside these: its roundings in ops that were joined.
    """

    weights: Array
    input_scale: float
    input_zero: int
    unit: float = 1.0
    is_real: bool = False
    bias: Any = 0.0
    reach: tuple[Any, Any] = (-np.inf, np.inf)
    blur: float = 0.0

    @property
    def scale(self) -> float:
        """The real value that a sum of 1 stands for."""
        return self.input_scale * self.unit

    @property
    def columns(self) -> Array:
        """The weights of each channel of the result, [taps c,m]."""
        return self.weights.reshape(-1, self.weights.shape[-1])

    def requantized(self, to: RequantTarget) -> LayerPlan:
        """These sums after a requantization that is left out: only what it saturates is not the same.

        Where earlier ones saturate does not matter: what was faithful to `to` saturates there no earlier.
        """
        # From here on sums contain the shift, as they do where that requantization saturates.
        bias = np.asarray(self.bias) + to.shift
        # The rounding that is left out moved values by up to half a step of its own scale.
        return replace(self, bias=bias, reach=to.ends, blur=self.blur + to.scale / 2)

    def plus(self, bias: Array, blur: float = 0.0) -> LayerPlan:
        """The sums and real values, [m] or one for all."""
        least, most = self.reach
        # The sums saturate before the bias is added: behind it that is at another real value in each channel.
        reach = (least + bias, most + bias)
        return replace(self, bias=np.asarray(self.bias) + bias, reach=reach, blur=self.blur + blur)

    def early_saturation(self, to: RequantTarget) -> dict[str, Array]:
        """ "low", "high" -> where joined ops would have saturated before the result does, if that shows."""
        bottom, top = to.clamped_ends
        # Behind a clamp or a narrower range what saturated before is cut off anyway.
        least, most = (np.asarray(end, np.float64) for end in self.reach)
        found = {}
        if (least > bottom + _SATURATION_SLACK * to.scale).any():
            found["low"] = least
        if (most < top - _SATURATION_SLACK * to.scale).any():
            found["high"] = most
        return found

    def is_faithful(self, to: RequantTarget) -> bool:
        """True if results are within one step of TensorFlow's, whatever was joined."""
        # Two ways in which a sum without the rounding in between differs: by that rounding, and by its
        # saturation.
        return self.blur <= MAX_BLUR * to.scale and not self.early_saturation(to)

    def whole_bias(self, weights: Int8Weights, to: RequantTarget) -> Array:
        """The bias of int8 weights, in units of their sums: whole float64 [m]."""
        # Real values in sums of the weights as given, then in sums of int8 values with their channel's scale.
        bias = ((np.asarray(self.bias) + to.shift) / self.scale + weights.shift) / weights.scales
        return np.asarray(np.rint(np.broadcast_to(bias, self.weights.shape[-1:])))


# ---- Float layers between quantized values, found in the operators that were emitted for them.
#
# `quantize_nodes` leaves some layers in float, depthwise convolutions above all. Where both their input and
# their result have known quantization parameters, nothing but their weights has to be rounded.


_FAR = 64
"""Operators back to look for the one in front: a layer and what follows it are a dozen at most, and a look
over all of them for each result would take quadratic time."""


class _Operator(Protocol):
    code: str

    @property
    def inputs(self) -> Sequence[Any]: ...

    @property
    def outputs(self) -> Sequence[Any]: ...


Op = TypeVar("Op", bound=_Operator)


def recent_producer(operators: Sequence[Op], x: object) -> Op | None:
    """The operator that makes a tensor, if it was emitted lately."""
    return next((o for o in operators[: -_FAR - 1 : -1] if x in o.outputs), None)


def before_bias(operators: Sequence[Op], operator: Op | None, add: str) -> tuple[Op | None, Array]:
    """The operator behind which a bias is added, and the bias [m] or []; `operator` itself if none is.

    Args:
        operators: as emitted.
        operator: the last one.
        add: code of an addition.
    """
    if operator is None or operator.code != add:
        return operator, np.zeros(())
    left, right = operator.inputs
    # Additions commute, and graphs have the bias on either side.
    value, addend = (left, right) if _is_vector(right) else (right, left)
    # An addition of two tensors is no bias: there is no layer to requantize then.
    return (recent_producer(operators, value), reals(addend)) if _is_vector(addend) else (None, np.zeros(()))


def _is_vector(x: Any) -> bool:
    """True for a float constant with one number per channel, or one for all."""
    if x is None or not x.is_constant or x.dtype is not FLOAT:
        return False
    # Leading axes of size 1 broadcast as none do.
    return all(n == 1 for n in np.asarray(x.array()).shape[:-1])


def reals(x: Any) -> Array:
    """The numbers of a constant, float64 [n]."""
    return np.asarray(x.array()).astype(np.float64).reshape(-1)
