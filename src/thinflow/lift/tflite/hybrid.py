"""Products of float rows with eight-bit weights, as LiteRT's hybrid kernels compute them.

The rows are quantized first, each with a scale of its own, so that the product is one of whole numbers.

Symmetric: q = round(x * 127 / max |x|).   Asymmetric: q - zero on the 255 steps from min(x, 0) to max(x, 0).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from thinflow.analysis.foreign_quant_params import params_of
from thinflow.ir.graph import Value
from thinflow.ir.types import DOUBLE, FLOAT, INT8, INT32
from thinflow.lift.lifter import Call

# Symmetric values leave out -128, so that both sides are alike; asymmetric ones use all 256.
_MOST = 127
_LEAST = -128
_STEPS = _MOST - _LEAST
_EXACT = 1 << 24
"""Up to here float32 holds every whole number."""


@dataclass
class Products:
    """The products of one op with its weights.

    Attributes:
        call: the op; what quantized weights stand for is in its operands.
    """

    call: Call
    _weights: dict[int, tuple[Value, float] | None] = field(default_factory=dict)
    _rows: dict[Value, tuple[Value, Value]] = field(default_factory=dict)

    def of(self, x: Value, place: int) -> Value:
        """x times the transposed weights at a place.   x [batch,n], weights [units,n] -> [batch,units]."""
        c = self.call
        if place not in self._weights:
            self._weights[place] = self._quantized_weights(place)
        weights = self._weights[place]
        # The hybrid kernel is for float rows only; without quantized weights it is a product like any other.
        if weights is None or x.dtype is not FLOAT:
            return c.emit("MatMul", x, c[place], transpose_a=False, transpose_b=True)
        integers, scale = weights
        if x not in self._rows:
            self._rows[x] = self._quantized(x)
        steps, size = self._rows[x]
        whole = self._whole(steps, integers)
        # The two scales are multiplied first, as in the kernel: the sums times one and then the other would
        # round differently.
        return c.emit("Mul", whole, c.emit("Mul", size, c.constant(scale, size)))

    def _whole(self, steps: Value, integers: Value) -> Value:
        """The product of whole numbers, rounded to float32 once; LiteRT sums in 32 bits."""
        c = self.call
        if ((integers.spec.shape or (0,))[-1] or 0) * _STEPS * _MOST <= _EXACT:
            return c.emit("MatMul", steps, integers, transpose_a=False, transpose_b=True)
        wide = [c.emit("Cast", v, SrcT=FLOAT, DstT=DOUBLE) for v in (steps, integers)]
        sums = c.emit("MatMul", *wide, transpose_a=False, transpose_b=True)
        return c.emit("Cast", sums, SrcT=DOUBLE, DstT=FLOAT)

    def _quantized_weights(self, place: int) -> tuple[Value, float] | None:
        """Weights as whole numbers in float, and their scale; None unless they have one scale."""
        self.call.read_operands.add(place)
        source = self.call.sources[place]
        params = None if source is None else params_of(source)
        if source is None or params is None or source.dtype is not INT8 or source.node.tensor is None:
            return None
        # Other weights are multiplied as the real numbers that they stand for.
        if params.is_per_channel or any(params.zero_point):
            return None
        return self.call.constant(source.node.tensor.numpy().astype(np.float32)), float(params.scale[0])

    def _quantized(self, x: Value) -> tuple[Value, Value]:
        """Whole steps from zero [batch,n] and the size of a step [batch,1], both float."""
        if self.call.get("asymmetric_quantize_inputs", False):
            return self._asymmetric(x)
        c = self.call
        largest = self._over("Max", c.emit("Abs", x))
        # A row of zeros has no step; with any step it is quantized to zeros.
        is_zero = c.emit("Equal", largest, c.constant(0.0, x))
        safe = c.emit("SelectV2", is_zero, c.constant(1.0, x), largest)
        # Times 127 / size, not divided by size / 127: the kernel multiplies, and the two round differently.
        steps = _away(c, c.emit("Mul", x, c.emit("RealDiv", c.constant(float(_MOST), x), safe)))
        return self._between(steps, -_MOST), c.emit("RealDiv", safe, c.constant(float(_MOST), x))

    def _asymmetric(self, x: Value) -> tuple[Value, Value]:
        """The parameters are computed in double, as the kernel does."""
        c = self.call
        wide = c.emit("Cast", x, SrcT=FLOAT, DstT=DOUBLE)
        # Zero has to be quantized exactly, so the range is widened to hold it.
        nothing = c.constant(0.0, wide)
        low = c.emit("Minimum", self._over("Min", wide), nothing)
        high = c.emit("Maximum", self._over("Max", wide), nothing)
        span = c.emit("Sub", high, low)
        is_zero = c.emit("Equal", span, nothing)
        step = c.emit("RealDiv", span, c.constant(float(_STEPS), wide))
        scale = c.emit("SelectV2", is_zero, c.constant(1.0, wide), step)
        below, above = (c.emit("RealDiv", end, scale) for end in (low, high))
        # From the end that is nearer to zero when quantized, which rounds less.
        least, most = c.constant(float(_LEAST), wide), c.constant(float(_MOST), wide)
        errors = [
            c.emit("AddV2", c.emit("Abs", n), c.emit("Abs", end))
            for n, end in ((least, below), (most, above))
        ]
        is_nearer = c.emit("Less", *errors)
        exact = c.emit("SelectV2", is_nearer, c.emit("Sub", least, below), c.emit("Sub", most, above))
        # Rounded to a whole number, so that 0 is quantized exactly.
        zero = c.emit("Minimum", c.emit("Maximum", _away(c, exact), least), most)
        zero = c.emit("SelectV2", is_zero, nothing, zero)
        # The kernel hands both on as float32, and quantizes with the rounded scale.
        size, offset = (c.emit("Cast", v, SrcT=DOUBLE, DstT=FLOAT) for v in (scale, zero))
        inverse = c.emit("RealDiv", c.constant(1.0, x), size)
        quantized = self._between(_away(c, c.emit("AddV2", offset, c.emit("Mul", x, inverse))), _LEAST)
        return c.emit("Sub", quantized, offset), size

    def _over(self, op: str, x: Value) -> Value:
        """The largest or smallest element of each row.   [batch,n] -> [batch,1]."""
        return self.call.emit(op, x, self.call.constant((1,)), keep_dims=True, Tidx=INT32)

    def _between(self, x: Value, least: int) -> Value:
        c = self.call
        return c.emit(
            "Minimum", c.emit("Maximum", x, c.constant(float(least), x)), c.constant(float(_MOST), x)
        )


def _away(c: Call, x: Value) -> Value:
    """The nearest whole number, halves away from zero."""
    # TensorFlow's Round takes halves to even; LiteRT's kernels round as C's `round` does.
    size = c.emit("Floor", c.emit("AddV2", c.emit("Abs", x), c.constant(0.5, x)))
    return c.emit("Mul", size, c.emit("Sign", x))
