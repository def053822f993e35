"""ONNX's LSTM, GRU and RNN as loops over their steps.

The loop is of the form that the targets know a recurrent layer by: it gathers a step from the sequence, joins
it with what was given before, multiplies both at once, and keeps a row for each step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.decompose.loops import while_loop
from thinflow.decompose.terms import Term, concat, stack, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32, TensorSpec
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula, ranked, reshaped, size
from thinflow.lift.onnx.values import text
from thinflow.lift.rules import lifts

Function = Callable[[Term], Term]
Step = Callable[..., list[Term]]
"""From a step of the sequence, the states and what else is fixed to the next states, the output first."""


# --- activations --------------------------------------------------------------------------------------------


def _affine(x: Term, alpha: float, beta: float) -> Term:
    return x * alpha + beta


def _scaled_tanh(x: Term, alpha: float, beta: float) -> Term:
    return (x * beta).apply("Tanh") * alpha


def _hard_sigmoid(x: Term, alpha: float, beta: float) -> Term:
    return (x * alpha + beta).clip(0.0, 1.0)


def _leaky(x: Term, alpha: float, _: float) -> Term:
    return x.apply("LeakyRelu", alpha=alpha)


def _thresholded(x: Term, alpha: float, _: float) -> Term:
    return where(x > alpha, x, 0.0)


def _elu(x: Term, alpha: float, _: float) -> Term:
    if alpha == 1:
        return x.apply("Elu")
    return x.maximum(0.0) + x.minimum(0.0).apply("Expm1") * alpha


@dataclass(frozen=True)
class _Bent:
    """An activation with parameters.

    Attributes:
        formula: of x, alpha and beta.
        alpha, beta: what holds where the op does not say; None if it has to, "" if it has no such parameter.
    """

    formula: Callable[[Term, float, float], Term]
    alpha: float | str | None = ""
    beta: float | str | None = ""


def _plain(op: str) -> _Bent:
    return _Bent(lambda x, _, __: x.apply(op))


# ONNX's table of activations; the numbers are what it calls their defaults.
_FORMULAS: Mapping[str, _Bent] = {
    **{op.lower(): _plain(op) for op in ("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")},
    "affine": _Bent(_affine, None, None),
    "leakyrelu": _Bent(_leaky, 0.01),
    "thresholdedrelu": _Bent(_thresholded, 1.0),
    "scaledtanh": _Bent(_scaled_tanh, None, None),
    "hardsigmoid": _Bent(_hard_sigmoid, 0.2, 0.5),
    "elu": _Bent(_elu, 1.0),
}


def _functions(c: Call, usual: Sequence[str], directions: int) -> list[list[Function]]:
    """The activations of each direction. Parameters go in order to those that have one."""
    names = [n.decode() if isinstance(n, bytes) else str(n) for n in c.get("activations", ())]
    names = names or [*usual] * directions
    if len(names) != len(usual) * directions:
        raise UnsupportedOp(f"it has {len(names)} activations, {len(usual) * directions} are needed")
    alphas, betas = (list(c.get(f"activation_{p}", ())) for p in ("alpha", "beta"))

    def parameter(rest: list[float], default: float | str | None, name: str, what: str) -> float:
        if default == "":
            return 0.0
        if rest:
            return float(rest.pop(0))
        if default is None:
            raise UnsupportedOp(f"its activation {name} lacks its {what}")
        return float(default)

    functions: list[Function] = []
    for name in names:
        bent = _FORMULAS.get(name.lower())
        if bent is None:
            raise UnsupportedOp(f"its activation {name!r} is not known here")
        alpha = parameter(alphas, bent.alpha, name, "alpha")
        beta = parameter(betas, bent.beta, name, "beta")
        functions.append(lambda x, f=bent.formula, a=alpha, b=beta: f(x, a, b))  # type: ignore[misc]
    count = len(usual)
    return [functions[n * count : (n + 1) * count] for n in range(directions)]


# --- weights ------------------------------------------------------------------------------------------------


def _picked(x: Term, number: int) -> Term:
    """One direction's part of weights or states."""
    if x.known is not None:
        return x.body.constant(x.known[number], x.dtype)
    return x.at(0, number)


def _turned(x: Term) -> Term:
    """A matrix transposed; of a constant at once."""
    return x.body.constant(x.known.T, x.dtype) if x.known is not None else x.transpose((1, 0))


def _joined(parts: Sequence[Term], axis: int) -> Term:
    """Terms one behind the other; of constants at once."""
    arrays = [p.known for p in parts if p.known is not None]
    if len(arrays) == len(parts):
        return parts[0].body.constant(np.concatenate(arrays, axis), parts[0].dtype)
    return concat(parts, axis)


def _rows(x: Term, start: int, stop: int) -> Term:
    """Some units of a matrix [units, inputs] or vector [units]."""
    return x.body.constant(x.known[start:stop], x.dtype) if x.known is not None else x.cut(0, start, stop)


def _total(a: Term, b: Term) -> Term:
    if a.known is not None and b.known is not None:
        return a.body.constant(a.known + b.known, a.dtype)
    return a + b


def _beside(ways: Sequence[Term], axis: int) -> Term:
    """What the directions give on an axis of their own."""
    return stack(ways, axis) if len(ways) > 1 else ways[0].expand_dims(axis)


@dataclass
class _Layer:
    """What the three ops have in common.

    Attributes:
        x: the sequence [steps,batch,inputs].
        weights, recurrent, bias: of all directions; the bias holds that of W and that of R, or is None.
        lengths: of the sequences of the batch, int32; None for the whole.
        units, directions: how many.
        clip: bound of what goes into an activation; 0 for none.
    """

    c: Call
    body: Formula
    x: Term
    weights: Term
    recurrent: Term
    bias: Term | None
    lengths: Term | None
    units: int
    directions: int
    clip: float
    is_batch_first: bool

    @classmethod
    def read(cls, c: Call) -> _Layer:
        """The layer of a call.

        Raises:
            UnsupportedOp: it has no such direction, or its sizes are not known.
        """
        body = Formula(c)
        word = text(c, "direction", "forward")
        if word not in ("forward", "reverse", "bidirectional"):
            raise UnsupportedOp(f"its direction {word!r} is not known here")
        is_batch_first = c.flag("layout")
        x, weights, recurrent = (body.term(c[n]) for n in range(3))
        x = ranked(x, (None, None, weights.shape[2]))
        width = weights.shape[2]
        if width is not None and len(x.shape) == 3 and x.shape[2] is None:
            # A computed reshape hides it, and targets know a layer by its weights.
            x = reshaped(x, [size(x, 0), size(x, 1), width])
        directions = 2 if word == "bidirectional" else 1
        units = recurrent.static_size(2, "the number of its units")
        if recurrent.shape[0] not in (None, directions) or c.get("hidden_size", units) != units:
            raise UnsupportedOp("its weights do not have the sizes that it states")
        bias = body.term(c[3]) if c.has(3) else None
        lengths = body.term(c[4]).cast(INT32) if c.has(4) else None
        if len(x.shape) != 3:
            raise UnsupportedOp("its sequence does not have three dimensions")
        # Step by step is what the loop reads.
        x = x.transpose((1, 0, 2)) if is_batch_first else x
        clip = float(c.get("clip", 0.0))
        # The states of a reversed layer begin at the end; see `run`.
        return cls(c, body, x, weights, recurrent, bias, lengths, units, directions, clip, is_batch_first)

    def is_reversed(self, direction: int) -> bool:
        return direction == 1 or text(self.c, "direction", "forward") == "reverse"

    def first(self, place: int, direction: int) -> Term:
        """A state [batch,units] before the first step; zeros if it is not given."""
        if self.c.has(place):
            given = ranked(self.body.term(self.c[place]), (None, None, self.units))
            if self.is_batch_first:
                given = given.transpose((1, 0, 2))
            return _picked(given, direction)
        batch = self.x.shape[1]
        if batch is not None:
            return self.body.constant(np.zeros((batch, self.units)), self.x.dtype)
        units = self.body.constant([self.units], INT32)
        sizes = concat([self.x.sizes().cut(0, 1, 2), units], 0)
        zero = self.body.constant(0, self.x.dtype)
        return self.body.add("Fill", [sizes.value, zero.value], T=self.x.dtype, index_type=INT32)[0]

    def matrices(self, direction: int, gates: Sequence[int]) -> tuple[Term, Term]:
        """Weights [inputs+units, gates*units] of x and h side by side, and the bias, for some gates."""
        w, r = (_picked(m, direction) for m in (self.weights, self.recurrent))
        parts = [_joined([_turned(m) for m in self._of(m, gates)], 1) for m in (w, r)]
        return _joined(parts, 0), _total(self.biases(direction, gates, 0), self.biases(direction, gates, 1))

    def _of(self, x: Term, gates: Sequence[int]) -> list[Term]:
        return [_rows(x, g * self.units, (g + 1) * self.units) for g in gates]

    def biases(self, direction: int, gates: Sequence[int], half: int) -> Term:
        """The bias of W (half 0) or R (1) for some gates."""
        if self.bias is None:
            return self.body.constant(np.zeros(len(gates) * self.units), self.x.dtype)
        own = _picked(self.bias, direction)
        count = self.weights.static_size(1, "the size of its weights") // self.units
        # All of W's biases stand in front of all of R's.
        return _joined(self._of(own, [half * count + g for g in gates]), 0)

    def clipped(self, x: Term) -> Term:
        return x.clip(-self.clip, self.clip) if self.clip > 0 else x

    def run(self, cell: Step, direction: int, first: Sequence[Term], fixed: Sequence[Term]) -> list[Term]:
        """The outputs of all steps [steps,batch,units], and the last states."""
        is_reversed = self.is_reversed(direction)
        x = self._reversed(self.x) if is_reversed else self.x
        steps = x.shape[0]
        constants = {n: t.known for n, t in enumerate(fixed) if t.known is not None}
        outer = [x, *(t for n, t in enumerate(fixed) if n not in constants)]
        if self.lengths is not None:
            outer.append(self.lengths)

        def step(time: Term, *operands: Term) -> tuple[list[Term], list[Term]]:
            states, given = list(operands[: len(first)]), list(operands[len(first) :])
            sequence = given.pop(0)
            lengths = given.pop() if self.lengths is not None else None
            body = time.body
            weights = [
                body.constant(constants[n], t.dtype) if n in constants else given.pop(0)
                for n, t in enumerate(fixed)
            ]
            after = cell(sequence.gather(time), *states, *weights)
            if lengths is None:
                return after, [after[0]]
            # Behind its end a sequence gives zeros, and its states stay.
            is_live = (time < lengths).expand_dims(1)
            zeros = body.constant(np.zeros((1, self.units)), self.x.dtype)
            kept = [where(is_live, new, old) for new, old in zip(after, states, strict=True)]
            return kept, [where(is_live, after[0], zeros)]

        times: int | Term = steps if steps is not None else x.sizes().at(0, 0)
        row = TensorSpec(x.dtype, (x.shape[1], self.units))
        last, rows, _ = while_loop(times, step, list(first), outer, [row])
        left = [self._of_any(state, start) for state, start in zip(last, first, strict=True)]
        return [self._reversed(rows[0]) if is_reversed else rows[0], *left]

    def _of_any(self, state: Term, start: Term) -> Term:
        """The last states; zeros for a sequence of no steps, wherever it started: ONNX Runtime has it so."""
        if self.lengths is None or (start.known is not None and not start.known.any()):
            return state
        has_steps = (self.body.constant(0, INT32) < self.lengths).expand_dims(1)
        return where(has_steps, state, self.body.constant(np.zeros((1, self.units)), self.x.dtype))

    def _reversed(self, x: Term) -> Term:
        """The steps in the opposite order, each sequence within its length."""
        if self.lengths is None:
            return x.reverse(0)
        return self.body.add(
            "ReverseSequence", [x.value, self.lengths.value], T=x.dtype, Tlen=INT32, seq_dim=0, batch_dim=1
        )[0]

    def results(self, ways: Sequence[Sequence[Term]]) -> list[Value]:
        """Y, Y_h and what else the directions give, in ONNX's order of axes."""
        order = (1, 0, 2)
        y = _beside([way[0] for way in ways], 1)
        # [steps,directions,batch,units], or with the batch in front [batch,steps,directions,units].
        results = [y.transpose((2, 0, 1, 3)) if self.is_batch_first else y]
        for n in range(1, len(ways[0])):
            last = _beside([way[n] for way in ways], 0)
            results.append(last.transpose(order) if self.is_batch_first else last)
        return [t.value for t in results]


# --- the three ----------------------------------------------------------------------------------------------


def _product(x: Term, h: Term, w: Term, bias: Term) -> Term:
    return concat([x, h], 1).apply("MatMul", w).apply("BiasAdd", bias)


@lifts("onnx.LSTM")
def _lstm(c: Call) -> list[Value]:
    return lstm(c)


def lstm(c: Call, seen: Function = lambda h: h) -> list[Value]:
    """LSTM: i, o, f, c in this order in the file; peepholes i, o, f.

    Args:
        c: the op.
        seen: what the product with the recurrent weights takes for the output of the last step.
    """
    layer = _Layer.read(c)
    is_coupled = c.flag("input_forget")
    peepholes = layer.body.term(c[7]) if c.has(7) else None
    ways = []
    functions = _functions(c, ("Sigmoid", "Tanh", "Tanh"), layer.directions)
    for direction, (gate, new, out) in enumerate(functions):
        w, bias = layer.matrices(direction, (0, 2, 1, 3))
        fixed = [w, bias]
        if peepholes is not None:
            own = _picked(peepholes, direction)
            fixed += [_rows(own, n * layer.units, (n + 1) * layer.units) for n in range(3)]

        def cell(
            x: Term, h: Term, state: Term, w: Term, bias: Term, *look: Term,
            gate: Function = gate, new: Function = new, out: Function = out,
        ) -> list[Term]:  # fmt: skip
            i, f, o, g = _product(x, seen(h), w, bias).split(4, 1)
            if look:
                i, f = i + state * look[0], f + state * look[2]
            i = gate(layer.clipped(i))
            f = 1.0 - i if is_coupled else gate(layer.clipped(f))
            state = f * state + i * new(layer.clipped(g))
            # The output gate looks at the new state.
            o = gate(layer.clipped(o + state * look[1] if look else o))
            return [o * out(state), state]

        first = [layer.first(5, direction), layer.first(6, direction)]
        ways.append(layer.run(cell, direction, first, fixed))
    return layer.results(ways)


@lifts("onnx.GRU")
def gru(c: Call) -> list[Value]:
    """GRU: z, r, h in this order in the file; the reset gate in front of the product, or behind it."""
    layer = _Layer.read(c)
    is_late = c.flag("linear_before_reset")
    ways = []
    for direction, (gate, new) in enumerate(_functions(c, ("Sigmoid", "Tanh"), layer.directions)):
        fixed = [*layer.matrices(direction, (0, 1))]
        w, bias = layer.matrices(direction, (2,))
        if is_late:
            inputs = layer.weights.static_size(2, "the number of its inputs")
            fixed += [_rows(w, 0, inputs), layer.biases(direction, (2,), 0)]
            fixed += [_rows(w, inputs, inputs + layer.units), layer.biases(direction, (2,), 1)]
        else:
            fixed += [w, bias]

        def cell(
            x: Term, h: Term, w: Term, bias: Term, *own: Term, gate: Function = gate, new: Function = new
        ) -> list[Term]:
            z, r = (gate(layer.clipped(t)) for t in _product(x, h, w, bias).split(2, 1))
            if is_late:
                read = x.apply("MatMul", own[0]).apply("BiasAdd", own[1])
                total = read + r * h.apply("MatMul", own[2]).apply("BiasAdd", own[3])
            else:
                total = _product(x, r * h, own[0], own[1])
            return [z * h + (1.0 - z) * new(layer.clipped(total))]

        ways.append(layer.run(cell, direction, [layer.first(5, direction)], fixed))
    return layer.results(ways)


@lifts("onnx.RNN")
def rnn(c: Call) -> list[Value]:
    """RNN: h' = f(W x + R h + b)."""
    layer = _Layer.read(c)
    ways = []
    for direction, (bend,) in enumerate(_functions(c, ("Tanh",), layer.directions)):

        def cell(x: Term, h: Term, w: Term, bias: Term, bend: Function = bend) -> list[Term]:
            return [bend(layer.clipped(_product(x, h, w, bias)))]

        fixed = layer.matrices(direction, (0,))
        ways.append(layer.run(cell, direction, [layer.first(5, direction)], fixed))
    return layer.results(ways)
