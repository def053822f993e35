"""LiteRT's recurrent ops, step by step. States begin at zero and stay from run to run, as they do in LiteRT.

Operands and gates: the definitions of LiteRT's schema and kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.analysis.foreign_quant_params import params_of
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32
from thinflow.lift.lifter import Call
from thinflow.lift.rules import lifts
from thinflow.lift.tflite.hybrid import Products
from thinflow.lift.tflite.integer_lstm import integer_lstm
from thinflow.lift.tflite.integer_svdf import integer_svdf
from thinflow.lift.tflite.math import activated
from thinflow.lift.tflite.quantized import is_quantized_recurrent

MOST_STEPS = 2048
"""Every step becomes nodes of its own."""


@lifts("tfl.variable")
def variable(c: Call) -> Value:
    """A tensor that keeps its value between runs; before the first it is zero, or its zero point."""
    spec = c.node.output().spec
    if spec.shape is None or None in spec.shape or spec.dtype is None:
        raise UnsupportedOp("the size of a variable is not known")
    params = params_of(c.node.output())
    # What stands for zero: states begin at the real number 0.
    zero = params.zero_point[0] if params is not None and params.zero_point else 0
    first = c.constant(np.full([n or 0 for n in spec.shape], zero, spec.dtype.numpy()))
    name = f"{c.scope}/{c.node.name}"
    handle = c.emit("LiteRTVariable", first, dtype=spec.dtype, shared_name=name)
    return c.emit("ReadVariableOp", handle, dtype=spec.dtype)


def _sequence(c: Call, x: Value, is_time_major: bool) -> list[Value]:
    """The steps of a sequence, each [batch,inputs].

    Raises:
        UnsupportedOp: their number is not known, or too large.
    """
    shape = x.spec.shape
    count = None if shape is None else shape[0 if is_time_major else 1]
    if count is None or count > MOST_STEPS:
        # Steps are written out, so their number has to be known.
        raise UnsupportedOp(f"it has {'too many' if count else 'an unknown number of'} steps")
    return steps_of(c, x, count, 0 if is_time_major else 1)


def _packed(c: Call, steps: Sequence[Value], is_time_major: bool) -> Value:
    return c.emit("Pack", *steps, N=len(steps), axis=0 if is_time_major else 1)


# --- LSTM ---------------------------------------------------------------------------------------------------


@lifts("tfl.UNIDIRECTIONAL_SEQUENCE_LSTM")
def sequence_lstm(c: Call) -> Value:
    """UNIDIRECTIONAL_SEQUENCE_LSTM: x [time,batch,inputs] or [batch,time,inputs] -> y of the same order."""
    is_time_major = c.flag("time_major")
    if is_quantized_recurrent(c):
        return integer_lstm(c, is_time_major)
    cell = Lstm.read(c, first=1, norms=20)
    xs = _sequence(c, c[0], is_time_major)
    return _packed(c, _kept(c, cell, xs, (18, 19)), is_time_major)


@lifts("tfl.LSTM")
def lstm(c: Call) -> Value | list[Value]:
    """LSTM: one step. The full kernel keeps its state, the basic one takes and gives it."""
    if c.get("kernel_type", "FULL") == "BASIC":
        if is_quantized_recurrent(c):
            raise UnsupportedOp("its basic kernel of eight bits is not known here")
        return _basic_lstm(c)
    if is_quantized_recurrent(c):
        return integer_lstm(c, is_time_major=True)
    return _kept(c, Lstm.read(c, first=1, norms=20), [c[0]], (18, 19))[0]


def _kept(c: Call, cell: Lstm, xs: list[Value], places: tuple[int, int]) -> list[Value]:
    """The outputs of all steps; the states after the last stay in the operands at `places`."""
    made, state = cell.run(xs, *(c.state(p) for p in places))
    c.leave(places[0], made[-1])
    c.leave(places[1], state)
    return made


def _basic_lstm(c: Call) -> list[Value]:
    """x [b,inputs], h [b,units], weights [4*units,inputs+units], bias, c [b,units] -> h, c, joined, gates."""
    if c.get("fused_activation_function", "TANH") != "TANH":
        raise UnsupportedOp("its activation is not a tangent, the only one that the basic kernel has")
    joined = c.emit("ConcatV2", c[0], c[1], c.constant(1), N=2, Tidx=INT32)
    sums = c.emit("MatMul", joined, c[2], transpose_a=False, transpose_b=True)
    gates = c.emit("BiasAdd", sums, c[3], data_format="NHWC")
    # The order of the basic kernel, which is not that of the full one.
    i, new, f, o = split(c, gates, 4, axis=1)
    kept = c.emit("Mul", c.emit("Sigmoid", f), c[4])
    state = c.emit("AddV2", c.emit("Mul", c.emit("Sigmoid", i), c.emit("Tanh", new)), kept)
    y = c.emit("Mul", c.emit("Sigmoid", o), c.emit("Tanh", state))
    # Operands 1 and 4 are the previous output and cell.
    c.leave(1, y)
    c.leave(4, state)
    return [y, state, joined, gates][: max(len(c.node.outputs), 1)]


@lifts("tfl.BIDIRECTIONAL_SEQUENCE_LSTM")
def bidirectional_lstm(c: Call) -> list[Value]:
    """BIDIRECTIONAL_SEQUENCE_LSTM: both directions, side by side or joined along the last axis."""
    if any(c.has(place) for place in range(39, 48)):
        raise UnsupportedOp("it has an auxiliary input")
    is_time_major = c.flag("time_major", default=True)
    xs = _sequence(c, c[0], is_time_major)
    ahead = _kept(c, Lstm.read(c, first=1), xs, (35, 36))
    # The second direction starts at the end; turned back, its outputs stand beside those of the first.
    back = _kept(c, Lstm.read(c, first=18), xs[::-1], (37, 38))[::-1]
    return _both_ways(c, ahead, back, is_time_major)


def _both_ways(c: Call, ahead: list[Value], back: list[Value], is_time_major: bool) -> list[Value]:
    results = [_packed(c, steps, is_time_major) for steps in (ahead, back)]
    # Side by side as two results, or one behind the other in the last axis.
    if not c.get("merge_outputs", False):
        return results
    return [c.emit("ConcatV2", *results, c.constant(2), N=2, Tidx=INT32)]


# --- simple cells -------------------------------------------------------------------------------------------


@dataclass
class _Rnn:
    """h' = act(x W^T + h R^T + b). Weights by the places of their operands."""

    call: Call
    weights: int
    recurrent: int
    bias: Value

    def run(self, xs: Sequence[Value], place: int) -> list[Value]:
        """The outputs of all steps; the last stays in the operand at `place`, from which the first begins."""
        c, made, products = self.call, [], Products(self.call)
        h = c.state(place)
        for x in xs:
            both = c.emit("AddV2", products.of(x, self.weights), products.of(h, self.recurrent))
            h = activated(c, c.emit("BiasAdd", both, self.bias, data_format="NHWC"))
            made.append(h)
        c.leave(place, h)
        return made


@lifts("tfl.RNN")
def rnn(c: Call) -> Value:
    """RNN: one step."""
    return _Rnn(c, 1, 2, c[3]).run([c[0]], 4)[0]


@lifts("tfl.UNIDIRECTIONAL_SEQUENCE_RNN")
def sequence_rnn(c: Call) -> Value:
    """UNIDIRECTIONAL_SEQUENCE_RNN."""
    is_time_major = c.flag("time_major")
    steps = _Rnn(c, 1, 2, c[3]).run(_sequence(c, c[0], is_time_major), 4)
    return _packed(c, steps, is_time_major)


@lifts("tfl.BIDIRECTIONAL_SEQUENCE_RNN")
def bidirectional_rnn(c: Call) -> list[Value]:
    """BIDIRECTIONAL_SEQUENCE_RNN."""
    if any(c.has(place) for place in (9, 10, 11)):
        raise UnsupportedOp("it has an auxiliary input")
    is_time_major = c.flag("time_major")
    xs = _sequence(c, c[0], is_time_major)
    ahead = _Rnn(c, 1, 2, c[3]).run(xs, 4)
    back = _Rnn(c, 5, 6, c[7]).run(xs[::-1], 8)[::-1]
    return _both_ways(c, ahead, back, is_time_major)


@lifts("tfl.SVDF")
def svdf(c: Call) -> Value:
    """SVDF: x [b,inputs], features [filters,inputs], times [filters,memory] -> [b,filters/rank].

    Every filter remembers `memory` of its features, the newest last; y = act(sum of times * memory + bias).
    """
    if is_quantized_recurrent(c):
        return integer_svdf(c)
    filters, memory = c.sizes(2)
    rank = c.get("rank", 1)
    feature = Products(c).of(c[0], 1)
    newest = c.emit("Reshape", feature, c.constant((-1, filters, 1)), Tshape=INT32)
    state = c.emit("Reshape", c.state(4), c.constant((-1, filters, memory)), Tshape=INT32)
    # The oldest falls out in front.
    older = c.emit("Slice", state, c.constant((0, 0, 1)), c.constant((-1, -1, -1)), Index=INT32)
    remembered = c.emit("ConcatV2", older, newest, c.constant(2), N=2, Tidx=INT32)
    c.leave(4, remembered)
    parts = c.emit(
        "Reshape",
        c.emit("Mul", remembered, c[2]),
        # The `rank` filters that make up one unit stand together.
        c.constant((-1, filters // rank, rank * memory)),
        Tshape=INT32,
    )
    y = c.emit("Sum", parts, c.constant((2,)), keep_dims=False, Tidx=INT32)
    if c.has(3):
        y = c.emit("BiasAdd", y, c[3], data_format="NHWC")
    return activated(c, y)


# --- the cell of the full LSTM kernel -----------------------------------------------------------------------
#
# i, f, o = sigmoid(norm(x W^T + h R^T + peephole * c) + b)       g = act(norm(x W^T + h R^T) + b)
# c' = clip(f c + i g)     h' = clip((o act(c')) P^T + p)         without weights of its own, i = 1 - f


_GATES = "ifgo"
# LiteRT's kernels add it to the variance (kNormalizationConstant).
_NORM_EPSILON = 1e-8
# Places of operands from the first weights on.
_PEEPHOLES = {"i": 8, "f": 9, "o": 10}
_BIAS, _PROJECTION = 11, 15


@dataclass
class _Gate:
    """Operands of one gate: places of its weights, and values; None for what it does without."""

    weights: int
    recurrent: int
    bias: Value | None
    peephole: Value | None
    norm: Value | None


@dataclass
class Lstm:
    """The weights of an LSTM: gate -> what belongs to it.

    Attributes:
        gates: by letter; no "i" where the input gate is coupled to the forget gate.
        projection, projection_bias: of the output; None without.
    """

    call: Call
    products: Products
    gates: dict[str, _Gate]
    projection: int | None
    projection_bias: Value | None

    @classmethod
    def read(cls, c: Call, first: int, norms: int | None = None) -> Lstm:
        """The LSTM whose operands begin at place `first`, and its layer norms at `norms`.

        Raises:
            UnsupportedOp: weights in a form of their own.
        """
        # The kernel goes by the shapes: the diagonal of a matrix is stored as a vector.
        c.get("diagonal_recurrent_tensors", False)

        def operand(place: int | None) -> Value | None:
            return c[place] if place is not None and c.has(place) else None

        gates = {}
        for n, letter in enumerate(_GATES):
            if letter == "i" and not c.has(first):
                continue
            peephole = first + _PEEPHOLES[letter] if letter in _PEEPHOLES else None
            gates[letter] = _Gate(
                *(first + n, first + 4 + n),
                bias=operand(first + _BIAS + n),
                peephole=operand(peephole),
                norm=operand(None if norms is None else norms + n),
            )
        ends = first + _PROJECTION, first + _PROJECTION + 1
        projection = ends[0] if c.has(ends[0]) else None
        return cls(c, Products(c), gates, projection, operand(ends[1]))

    def run(self, xs: Sequence[Value], h: Value, state: Value) -> tuple[list[Value], Value]:
        """The outputs [batch,outputs] of all steps and the last cell, from inputs and both states."""
        outputs = []
        for x in xs:
            h, state = self._step(x, h, state)
            outputs.append(h)
        return outputs, state

    def _step(self, x: Value, h: Value, state: Value) -> tuple[Value, Value]:
        c = self.call
        f = c.emit("Sigmoid", self._sum("f", x, h, state))
        if "i" in self.gates:
            i = c.emit("Sigmoid", self._sum("i", x, h, state))
        else:
            # Coupled input and forget gate (CIFG): what is not forgotten is not overwritten.
            i = c.emit("Sub", c.constant(1.0, f), f)
        # The new content has no peephole in LiteRT's definition.
        g = activated(c, self._sum("g", x, h, None))
        state = c.emit("AddV2", c.emit("Mul", f, state), c.emit("Mul", i, g))
        state = self._clipped(state, "cell_clip")
        # Its peephole looks at the new cell; those of the other gates look at the old one.
        o = c.emit("Sigmoid", self._sum("o", x, h, state))
        return self._projected(c.emit("Mul", o, activated(c, state))), state

    def _sum(self, letter: str, x: Value, h: Value, state: Value | None) -> Value:
        """The sum in a gate before its activation. [batch,units]"""
        c, gate = self.call, self.gates[letter]
        total = c.emit("AddV2", self.products.of(x, gate.weights), self._recurrent(h, gate.recurrent))
        if gate.peephole is not None and state is not None:
            total = c.emit("AddV2", total, c.emit("Mul", state, gate.peephole))
        if gate.norm is not None:
            total = c.emit("Mul", _normalized(c, total), gate.norm)
        # The bias comes behind the norm, which would take it out again.
        return total if gate.bias is None else c.emit("AddV2", total, gate.bias)

    def _recurrent(self, h: Value, place: int) -> Value:
        if len(self.call.sizes(place)) != 1:
            return self.products.of(h, place)
        source = self.call.sources[place]
        # LiteRT's kernel takes the bytes of a diagonal for floats, whatever their type is.
        if source is None or source.dtype is not FLOAT:
            raise UnsupportedOp("the diagonals of its recurrent weights are not float")
        return self.call.emit("Mul", h, self.call[place])

    def _projected(self, y: Value) -> Value:
        if self.projection is None:
            return y
        y = self.products.of(y, self.projection)
        if self.projection_bias is not None:
            y = self.call.emit("AddV2", y, self.projection_bias)
        return self._clipped(y, "proj_clip")

    def _clipped(self, x: Value, option: str) -> Value:
        c, limit = self.call, float(self.call.get(option, 0.0))
        # 0 stands for no bound, as in LiteRT's options.
        if limit <= 0:
            return x
        return c.emit("Maximum", c.emit("Minimum", x, c.constant(limit, x)), c.constant(-limit, x))


def _normalized(c: Call, x: Value) -> Value:
    """Every row [units] with mean 0 and deviation 1."""
    axis = c.constant((1,))
    gap = c.emit("Sub", x, c.emit("Mean", x, axis, keep_dims=True, Tidx=INT32))
    spread = c.emit("Mean", c.emit("Square", gap), axis, keep_dims=True, Tidx=INT32)
    return c.emit("Mul", gap, c.emit("Rsqrt", c.emit("AddV2", spread, c.constant(_NORM_EPSILON, x))))


def split(c: Call, x: Value, count: int, axis: int) -> list[Value]:
    """Equal parts along an axis."""
    node = c.many("Split", c.constant(axis), x, num_split=count, T=x.dtype)
    return [node.output(n) for n in range(count)]


def steps_of(c: Call, x: Value, count: int, axis: int) -> list[Value]:
    """The slices along an axis, without it."""
    node = c.many("Unpack", x, num=count, axis=axis)
    return [node.output(n) for n in range(count)]
