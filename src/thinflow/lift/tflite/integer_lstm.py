"""LiteRT's LSTM of eight bits: the factors between its scales, as its kernel works them out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.analysis.foreign_quant_params import TensorParams, params_of
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT8, INT32, DType, dtype
from thinflow.lift.grids import Grid, operand_codes, result_codes
from thinflow.lift.lifter import Call
from thinflow.ops._fixed_point import quantized_multiplier
from thinflow.typing import Array

_INT16 = dtype("int16")
# Places of operands as in LiteRT's definition; in each group: input, forget, cell and output gate.
_X, _H, _CELL = 0, 18, 19
_WEIGHTS, _RECURRENT, _PEEPHOLES, _BIASES, _NORMS = 1, 5, 9, 12, 20
_PROJECTION, _PROJECTION_BIAS = 16, 17
_GATES = "ifgo"
_WITH_PEEPHOLES = "ifo"
_INSIDE = 5
"""Grids inside: of each gate before its layer norm, and of the output before its projection."""
# Without a layer norm the sums of gates are int16 with 12 bits behind the point (Q3.12).
_GATE_SCALE = np.float32(2**-12)
_LEAST_VARIANCE = 10000
"""Of a layer norm, in units of its scale: keeps the kernel's sums within their bits."""
_MOST_CELL_BITS = 6


def integer_lstm(c: Call, is_time_major: bool) -> Value:
    """A quantized LSTM; x [time,batch,inputs] or [batch,time,inputs] or one step [batch,inputs].

    Raises:
        UnsupportedOp: it is not of the kind with gates of 16 bits.
    """
    scales, zeros = c.get("intermediate_scales", ()), c.get("intermediate_zero_points", ())
    if c[_X].dtype is not INT8 or len(scales) != _INSIDE or c[_CELL].dtype is not _INT16:
        raise UnsupportedOp("its kernel of eight bits is not the one with gates of 16 bits")
    # Diagonals are stored as vectors in the place of matrices.
    if c.get("diagonal_recurrent_tensors", False):
        raise UnsupportedOp("its recurrent weights are diagonals")
    if c.get("fused_activation_function", "TANH") != "TANH":
        raise UnsupportedOp("its kernel of eight bits knows no activation but the tangent")
    return _Reader(c, tuple(map(np.float32, scales)), zeros).emitted(is_time_major)


class _Reader:
    """The arrays and factors of one op."""

    def __init__(self, c: Call, inside: Sequence[np.float32], zeros: Sequence[int]) -> None:
        self.c, self.inside, self.zeros = c, inside, zeros
        # What a projection reads is kept from the other side of zero; measured against LiteRT 2.3.
        self.hidden_zero = -zeros[_INSIDE - 1] if c.has(_PROJECTION) else zeros[_INSIDE - 1]
        self.has_norms = c.has(_NORMS + 1)
        # Layer norms want the sums of gates with scales of their own; the last is the hidden output's.
        if 0 in (self.inside if self.has_norms else self.inside[_INSIDE - 1 :]):
            raise UnsupportedOp("the scales inside it are not known")
        if self._outputs() != self._units() and c.has(_PEEPHOLES + 1):
            raise UnsupportedOp(
                "it has peepholes and fewer outputs than units, which LiteRT's kernel mixes up"
            )
        # Without weights the input gate is coupled to the forget gate: i = 1 - f.
        self.gates = _GATES if c.has(_WEIGHTS) else _GATES[1:]
        self.cell_power = self._power(_CELL)

    def _units(self) -> int:
        return self.c.sizes(_WEIGHTS + 1)[0]

    def _outputs(self) -> int:
        return self.c.sizes(_RECURRENT + 1)[-1]

    def emitted(self, is_time_major: bool) -> Value:
        c = self.c
        x = operand_codes(c, c[_X], Grid(float(self._scale(_X)), self._zero(_X), INT8))
        shape = c[_X].spec.shape
        if shape is None:
            raise UnsupportedOp("the size of its input is not known")
        # One step has no axis of time.
        is_step = len(shape) == 2
        x = c.emit("ExpandDims", x, c.constant(0)) if is_step else x
        arrays = [c.constant(a) for letter in self.gates for a in self._arrays(letter)]
        arrays += [c.constant(a) for a in self._projection()]
        node = c.many(
            "LiteRTIntegerLSTM",
            *(x, c.state(_H), c.state(_CELL), *arrays),
            gates=self.gates,
            factors=tuple(n for letter in self.gates for n in self._factors(letter)),
            ends=self._ends(),
            time_major=is_step or is_time_major,
            scales=self._scales(),
            zeros=(self._zero(_X), self._zero(_H), _zero_of(self._output()), self.zeros[_INSIDE - 1]),
        )
        c.leave(_H, node.output(1))
        c.leave(_CELL, node.output(2))
        (y,) = c.lifter.after_effects([node.output(0)])
        y = c.emit("Squeeze", y, squeeze_dims=(0,)) if is_step else y
        return result_codes(c, y, Grid(float(self._output_scale()), _zero_of(self._output()), INT8))

    def _scales(self) -> tuple[float, ...]:
        """The scales as the file has them; 0 for what is absent.

        Of each gate those of input weights, recurrent weights, peephole, norm and the sums before the norm;
        then of x, h, y, projection, and what the projection reads.
        """
        found: list[float] = []
        for letter in self.gates:
            n = _GATES.index(letter)
            peephole = _PEEPHOLES + _WITH_PEEPHOLES.find(letter)
            has_peephole = letter in _WITH_PEEPHOLES and self.c.has(peephole)
            found += [float(self._scale(_WEIGHTS + n)), float(self._scale(_RECURRENT + n))]
            found += [float(self._scale(peephole)) if has_peephole else 0.0]
            found += [float(self._scale(_NORMS + n)) if self.has_norms else 0.0, float(self.inside[n])]
        projection = float(self._scale(_PROJECTION)) if self.c.has(_PROJECTION) else 0.0
        ends = self._scale(_X), self._scale(_H), self._output_scale(), projection, self.inside[_INSIDE - 1]
        return (*found, *(float(end) for end in ends))

    # --- what the file says ---------------------------------------------------------------------------------

    def _params(self, place: int) -> TensorParams:
        source = self.c.sources[place] if place < len(self.c.sources) else None
        params = None if source is None else params_of(source)
        if params is None or params.is_per_channel:
            raise UnsupportedOp(f"its operand {place} has not one scale")
        return params

    def _scale(self, place: int) -> np.float32:
        result: np.float32 = np.float32(self._params(place).scale[0])
        return result

    def _zero(self, place: int) -> int:
        return _zero_of(self._params(place))

    def _power(self, place: int) -> int:
        """The exponent of a scale that is a power of two."""
        # The kernel's own test (CheckedLog2) allows the same 1e-3.
        exact = math.log2(self._scale(place))
        # The converter chooses such scales for cells that samples left near 0; the kernel then leaves the
        # tangent out, and what stands in its memory is taken for it.
        if round(exact) < -15:
            raise UnsupportedOp(
                f"the scale of its cell is 2^{round(exact)}, of which LiteRT's kernel knows no tangent: what "
                "the file answers does not follow from its input; convert the float model again, with "
                "samples that move the cell by more than 0.5, or without (dynamic range)"
            )
        if abs(exact - round(exact)) >= 1e-3 or not -15 <= round(exact) <= _MOST_CELL_BITS - 15:
            raise UnsupportedOp("the scale of its cell is no power of two, or too large")
        return round(exact)

    def _stored(self, place: int, kind: DType, rank: int) -> Array:
        """A constant operand as it is stored; empty where it is absent."""
        if not self.c.has(place):
            return np.zeros((0,) * rank, kind.numpy())
        array = self.c.known(place)
        if self.c[place].dtype is not kind or array.ndim != rank:
            raise UnsupportedOp(f"its operand {place} is not {kind.name} of {rank} dimensions")
        return array

    # --- what the kernel makes of it ------------------------------------------------------------------------

    def _arrays(self, letter: str) -> tuple[Array, ...]:
        n = _GATES.index(letter)
        weights = self._stored(_WEIGHTS + n, INT8, 2)
        recurrent = self._stored(_RECURRENT + n, INT8, 2)
        bias = self._stored(_BIASES + n, INT32, 1)
        norm = self._stored(_NORMS + n, _INT16, 1)
        # With a layer norm the bias is added behind it, so it must not get into the sums.
        own = np.zeros_like(bias) if self.has_norms else bias
        return (
            # sum(w * (x - zero)) = sum(w * x) - zero * sum(w), of which the last part goes into the bias.
            *(weights, recurrent, _moved(own, weights, self._zero(_X))),
            _moved(np.zeros_like(bias), recurrent, self._zero(_H)),
            *(self._peephole(letter), norm, bias if self.has_norms else bias[:0]),
        )

    def _peephole(self, letter: str) -> Array:
        if letter not in _WITH_PEEPHOLES:
            return np.zeros(0, np.int16)
        return self._stored(_PEEPHOLES + _WITH_PEEPHOLES.index(letter), _INT16, 1)

    def _projection(self) -> tuple[Array, Array]:
        weights = self._stored(_PROJECTION, INT8, 2)
        bias = self._stored(_PROJECTION_BIAS, INT32, 1)
        # Even without a bias there is the zero point to make up for.
        bias = bias if bias.size else np.zeros(len(weights), np.int32)
        return weights, _moved(bias, weights, self.hidden_zero)

    def _factors(self, letter: str) -> tuple[int, ...]:
        n = _GATES.index(letter)
        inside = self.inside[n] if self.has_norms else _GATE_SCALE
        pairs = [
            self._scale(_WEIGHTS + n) * self._scale(_X) / inside,
            self._scale(_RECURRENT + n) * self._scale(_H) / inside,
        ]
        peephole = _PEEPHOLES + _WITH_PEEPHOLES.find(letter)
        has_peephole = letter in _WITH_PEEPHOLES and self.c.has(peephole)
        # In double before it is rounded, since the kernel's power of two is one.
        cell = np.float64(2.0**self.cell_power)
        pairs.append(np.float32(cell * self._scale(peephole) / inside) if has_peephole else np.float32(1))
        norm = self._scale(_NORMS + n) if self.has_norms else np.float32(1)
        # Each factor as the kernel has it: a 31-bit multiplier and a shift.
        numbers = [m for f in (*pairs, norm) for m in quantized_multiplier(float(f))]
        return (*numbers, max(1, int(np.float32(_LEAST_VARIANCE) * norm)))

    def _ends(self) -> tuple[int, ...]:
        hidden = self.inside[_INSIDE - 1]
        # Output gate and tangent of the cell have 15 bits behind the point each, so their product has 30.
        factor = np.float32(2.0**-15 / np.float64(hidden) * 2.0**-15)
        has_projection = self.c.has(_PROJECTION)
        projection = self._scale(_PROJECTION) * hidden / self._scale(_H) if has_projection else np.float32(1)
        return (
            *quantized_multiplier(float(factor)),
            self.hidden_zero,
            *quantized_multiplier(float(projection)),
            self._zero(_H),
            # Bits of the cell before the point: int16 has 15 beside the sign.
            self.cell_power + 15,
            self._limit("cell_clip", self._scale(_CELL), 1 << 15),
            self._limit("proj_clip", self._output_scale(), 1 << 7),
        )

    def _output(self) -> TensorParams:
        params = params_of(self.c.node.output())
        if params is None or params.is_per_channel:
            raise UnsupportedOp("its result has not one scale")
        return params

    def _output_scale(self) -> np.float32:
        result: np.float32 = np.float32(self._output().scale[0])
        return result

    def _limit(self, option: str, scale: np.float32, most: int) -> int:
        """A quantized bound; 0 for none."""
        limit = np.float32(self.c.get(option, 0.0))
        return int(np.clip(limit / scale, -most, most - 1)) if limit > 0 else 0


def _zero_of(params: TensorParams) -> int:
    return params.zero_point[0] if params.zero_point else 0


def _moved(bias: Array, weights: Array, zero: int) -> Array:
    """A bias that takes in the zero point of what the weights are multiplied with."""
    if not weights.size:
        return bias
    # Summed in 64 bits: a product of the sum and the zero point may pass 32 on the way.
    result: Array = (bias.astype(np.int64) - zero * weights.astype(np.int64).sum(axis=1)).astype(np.int32)
    return result
