"""An LSTM of LiteRT, with all that its full kernel may have.

i, f, o = sigmoid(norm(x W^T + h R^T + peephole * c) + b)       g = act(norm(x W^T + h R^T) + b)
c' = clip(f c + i g)     h' = clip((o act(c')) P^T + p)         without weights of its own, i = 1 - f
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32
from thinflow.lift.dynamic import Products
from thinflow.lift.lifter import Call
from thinflow.lift.windows import activated

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
        if c.get("diagonal_recurrent_tensors", False):
            raise UnsupportedOp("its recurrent weights are diagonals")

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
        made = []
        for x in xs:
            h, state = self._step(x, h, state)
            made.append(h)
        return made, state

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
        total = c.emit("AddV2", self.products.of(x, gate.weights), self.products.of(h, gate.recurrent))
        if gate.peephole is not None and state is not None:
            total = c.emit("AddV2", total, c.emit("Mul", state, gate.peephole))
        if gate.norm is not None:
            total = c.emit("Mul", _normalized(c, total), gate.norm)
        # The bias comes behind the norm, which would take it out again.
        return total if gate.bias is None else c.emit("AddV2", total, gate.bias)

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
