"""Recognises an LSTM in the body of a loop, whatever it was written as.

The body is looked at after its ops have been lowered, where TensorArrays and TensorLists, split and joined
kernels, BasicLSTMCell, LSTMCell and Keras layers all look alike: sums of matrix products, sigmoids, tanhs and
two products. What counts is what the gates compute:

    i, f, o = sigmoid(W x + R h + p * c + b)     g = tanh(W x + R h + b)
    c' = clip(f * c + i * g)     h' = P (o * tanh(c'))     (o looks at c', the others at c)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT, INT32
from thinflow.lower.tflite.wiring import activation
from thinflow.tflite.model import Operator, Tensor
from thinflow.typing import Array

_SUMMING = ("FULLY_CONNECTED", "ADD", "SPLIT", "STRIDED_SLICE", "SLICE", "MUL", "RESHAPE")


@dataclass
class Gate:
    """The sum that goes into the nonlinearity of a gate.

    Attributes:
        bias: [units], or a number.
        products: source -> matrix [units, size of the source].
        peepholes: cell state -> its factors [units].
    """

    bias: Array
    products: dict[Tensor, Array] = field(default_factory=dict)
    peepholes: dict[Tensor, Array] = field(default_factory=dict)

    def rows(self, start: int, stop: int) -> Gate:
        """Some of its units."""
        bias = self.bias[start:stop] if self.bias.ndim else self.bias
        return Gate(
            bias,
            {s: m[start:stop] for s, m in self.products.items()},
            {s: p[start:stop] for s, p in self.peepholes.items()},
        )

    def plus(self, other: Gate) -> Gate:
        """Both added up."""
        return Gate(
            self.bias + other.bias,
            _joined(self.products, other.products),
            _joined(self.peepholes, other.peepholes),
        )


def _joined(a: Mapping[Tensor, Array], b: Mapping[Tensor, Array]) -> dict[Tensor, Array]:
    return {**a, **{s: a[s] + m if s in a else m for s, m in b.items()}}


@dataclass
class Cell:
    """An LSTM in a loop; its variables are given by number.

    Attributes:
        counter, state, output: t, c and h.
        gates: "i", "f", "o" and "g".
        x: what is read of the sequence at each step.
        clip: limit of c, 0 for none.
        projection: [outputs, units] or None.
    """

    counter: int
    state: int
    output: int
    gates: dict[str, Gate]
    x: Tensor
    sequence: Tensor
    clip: float
    projection: Array | None
    result: Tensor


def _refuse(why: str) -> UnsupportedOp:
    return UnsupportedOp(f"not an LSTM that LiteRT has: {why}")


class LoopBody:
    """The operators of a loop's body, asked backwards.

    Args:
        arguments, results: of the body, None for what is no tensor.
        fixed: which of them never change.
        starts: constants that variables start with.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        arguments: Sequence[Tensor | None],
        results: Sequence[Tensor | None],
        fixed: Sequence[bool],
        starts: Sequence[Tensor | None],
    ) -> None:
        self._makers = {t: o for o in operators for t in o.outputs}
        self.arguments, self.results, self._starts = arguments, results, starts
        self._fixed = fixed
        self.changing = [
            n for n, keep in enumerate(fixed) if not keep and None not in (arguments[n], results[n])
        ]

    def made(self, tensor: Tensor | None, *codes: str) -> Operator | None:
        """The producer of a tensor, if it is one of these ops."""
        operator = self._makers.get(tensor) if tensor is not None else None
        good = operator is not None and operator.code in codes and activation(operator) == "NONE"
        return operator if good else None

    def operands(self, tensor: Tensor | None, code: str) -> list[Tensor]:
        """The operands of a tensor's producer; empty if that is another op."""
        operator = self.made(tensor, code)
        return [t for t in operator.inputs if t is not None] if operator is not None else []

    # --- the whole ----------------------------------------------------------------------------------------

    def cell(self) -> Cell:
        """The LSTM.

        Raises:
            UnsupportedOp: there is none, or one that the fused op cannot express.
        """
        counter = self._counter()
        # Variables have no names that tell: each is tried for c, and for that one each for h.
        for state in self.changing:
            found = self._new_state(state)
            if found is None:
                continue
            raw, clip = found
            for output in self.changing:
                hidden, projection = self._projected(self.results[output])
                parts = self.operands(hidden, "MUL")
                opened = self._pair(parts, "LOGISTIC", "TANH")
                if opened is not None and opened[1] is self.results[state]:
                    return self._assembled(counter, state, output, raw, clip, opened[0], projection)
        raise _refuse("no variable is f * c + i * g")

    def _counter(self) -> int:
        for n in self.changing:
            own, start = self.arguments[n], self._starts[n]
            parts = self.operands(self.results[n], "ADD")
            others = [t for t in parts if t is not own]
            # `t + t` has no other operand.
            if own is None or own.dtype is not INT32 or start is None or len(parts) != 2 or len(others) != 1:
                continue
            if others[0].is_constant and _number(others[0]) == 1 and _number(start) == 0:
                return n
        raise _refuse("nothing counts its steps")

    def _new_state(self, number: int) -> tuple[tuple[Tensor, Tensor, Tensor], float] | None:
        """The inputs of f, i and g, and the limit of c, if a variable is a cell state."""
        total, clip = self._unclipped(self.results[number])
        own = self.arguments[number]
        terms = [self.operands(t, "MUL") for t in self.operands(total, "ADD")]
        for forgotten, added in (terms, terms[::-1]) if len(terms) == 2 else ():
            rest = [t for t in forgotten if t is not own]
            chance = self.operands(rest[0], "LOGISTIC") if len(forgotten) == 2 and len(rest) == 1 else []
            pair = self._pair(added, "LOGISTIC", "TANH")
            if chance and pair is not None:
                return (chance[0], *pair), clip
        return None

    def _unclipped(self, tensor: Tensor | None) -> tuple[Tensor | None, float]:
        """The c of max(min(c, k), -k), in either order, and k; 0 without a limit."""
        for outer, inner in (("MAXIMUM", "MINIMUM"), ("MINIMUM", "MAXIMUM")):
            first = _with_number(self.operands(tensor, outer))
            second = _with_number(self.operands(first[0], inner)) if first else None
            if first and second:
                # MINIMUM has the upper limit.
                k = first[1] if outer == "MINIMUM" else second[1]
                if k > 0 and first[1] == -second[1]:
                    return second[0], k
        return tensor, 0.0

    def _pair(self, parts: Sequence[Tensor], first: str, second: str) -> tuple[Tensor, Tensor] | None:
        """The arguments of the functions that two factors are, in the order asked for."""
        for a, b in (parts, parts[::-1]) if len(parts) == 2 else ():
            left, right = self.operands(a, first), self.operands(b, second)
            if left and right:
                return left[0], right[0]
        return None

    def _projected(self, tensor: Tensor | None) -> tuple[Tensor | None, Array | None]:
        """The operand of a projection, and its matrix [outputs, units]."""
        operator = self.made(tensor, "FULLY_CONNECTED")
        if operator is None or operator.inputs[1] is None or not operator.inputs[1].is_constant:
            return tensor, None
        bias = operator.inputs[2] if len(operator.inputs) > 2 else None
        if bias is not None or self.made(operator.inputs[0], "MUL") is None:
            return tensor, None
        return operator.inputs[0], np.asarray(operator.inputs[1].array())

    def _assembled(
        self,
        counter: int,
        state: int,
        output: int,
        raw: tuple[Tensor, Tensor, Tensor],
        clip: float,
        opened: Tensor,
        projection: Array | None,
    ) -> Cell:
        reading = {n: self.arguments[n] for n in (counter, state, output)}
        sums = _Sums(self, reading[counter], reading[output], {reading[state], self.results[state]})
        gates = {name: sums.of(t) for name, t in zip("figo", (*raw, opened), strict=True)}
        if sums.x is None or sums.sequence is None:
            raise _refuse("it reads no sequence")
        for name, gate in gates.items():
            seen = self.results[state] if name == "o" else reading[state]
            # The op's output gate looks at the new state, the others at the old one, and g at none.
            if any(source is not seen for source in gate.peepholes) or (name == "g" and gate.peepholes):
                raise _refuse(f"gate {name} looks at another cell state")
        hidden = self.results[output]
        assert hidden is not None
        return Cell(counter, state, output, gates, sums.x, sums.sequence, clip, projection, hidden)

    def is_fixed(self, tensor: Tensor) -> bool:
        """True for an argument that no iteration changes."""
        return any(keep and a is tensor for keep, a in zip(self._fixed, self.arguments, strict=True))

    # --- the rest -----------------------------------------------------------------------------------------

    def kept(self, number: int, cell: Cell) -> str:
        """The way a variable collects h: "all" or "last"; "" if it does something else."""
        result, own = self.results[number], self.arguments[number]
        if result is None:
            return ""
        if self._is_row(result, cell):
            return "last"
        update = self.operands(result, "DYNAMIC_UPDATE_SLICE")
        if len(update) != 3 or update[0] is not own or not self._is_row(update[1], cell):
            return ""
        place = self.operands(update[2], "PACK")
        is_here = bool(place) and place[0] is self.arguments[cell.counter]
        return "all" if is_here and all(t.is_constant and not _number(t) for t in place[1:]) else ""

    def _is_row(self, tensor: Tensor, cell: Cell) -> bool:
        """True if a tensor is h' with an axis in front."""
        read = self.operands(tensor, "RESHAPE") or self.operands(tensor, "EXPAND_DIMS")
        return bool(read) and read[0] is cell.result


class _Sums:
    """Reads sums of matrix products.

    Attributes:
        x: the step of the sequence they read, once one is found.
        sequence: where it comes from.
    """

    def __init__(
        self, body: LoopBody, counter: Tensor | None, output: Tensor | None, states: set[Tensor | None]
    ) -> None:
        self._body, self._counter, self._output, self._states = body, counter, output, states
        self._known: dict[Tensor, Gate] = {}
        self.x: Tensor | None = None
        self.sequence: Tensor | None = None

    def of(self, tensor: Tensor) -> Gate:
        """The terms whose sum a tensor is."""
        # Four gates are often pieces of one sum, which is read once.
        if tensor not in self._known:
            self._known[tensor] = self._read(tensor)
        return self._known[tensor]

    def _read(self, tensor: Tensor) -> Gate:
        operator = self._body.made(tensor, *_SUMMING)
        if tensor.is_constant:
            array = np.asarray(tensor.array())
            if array.size > 1 and array.size != array.shape[-1]:
                raise _refuse("a bias differs between the sequences of a batch")
            return Gate(array.reshape(()) if array.size == 1 else array.reshape(-1))
        if operator is None:
            raise _refuse(f"'{tensor.name}' is no sum of matrix products")
        inputs = [t for t in operator.inputs if t is not None]
        if operator.code == "ADD":
            return self.of(inputs[0]).plus(self.of(inputs[1]))
        if operator.code == "FULLY_CONNECTED":
            return self._product(inputs)
        if operator.code == "MUL":
            return self._peephole(inputs)
        if operator.code == "RESHAPE" and _is_row_vector(inputs[0]) and _is_row_vector(tensor):
            return self.of(inputs[0])
        if operator.code == "RESHAPE":
            raise _refuse(f"'{tensor.name}' is reshaped")
        # Gates cut from one sum: the same rows of its bias and of each of its matrices [units, inputs].
        start, stop = _cut(operator, tensor)
        return self.of(inputs[1] if operator.code == "SPLIT" else inputs[0]).rows(start, stop)

    def _product(self, inputs: Sequence[Tensor]) -> Gate:
        x, weights, *bias = inputs
        if not weights.is_constant or not all(t.is_constant for t in bias):
            raise _refuse("its weights are computed")
        matrix = np.asarray(weights.array())
        gate = Gate(np.asarray(bias[0].array()) if bias else np.zeros((), np.float32))
        at = 0
        # A product of [x, h] is the sum of two with the columns of the matrix that belong to each.
        for source in self._sources(x):
            width = (source.shape or (None,))[-1]
            if width is None:
                raise _refuse("the size of what it reads is not known")
            gate = gate.plus(Gate(np.zeros((), np.float32), {source: matrix[:, at : at + width]}))
            at += width
        return gate

    def _sources(self, tensor: Tensor) -> list[Tensor]:
        """The pieces side by side that make up a tensor: x and h."""
        joined = self._body.made(tensor, "CONCATENATION")
        if joined is not None and joined.options.get("axis") in (1, -1):
            return [s for t in joined.inputs if t is not None for s in self._sources(t)]
        if tensor is self._output:
            return [tensor]
        read = self._body.made(tensor, "GATHER")
        sequence, index = read.inputs[:2] if read is not None else (None, None)
        plain = read is not None and not read.options.get("axis") and not read.options.get("batch_dims")
        if sequence is None or not plain or index is not self._counter or not self._body.is_fixed(sequence):
            raise _refuse(f"it reads '{tensor.name}', which is neither the sequence nor its own output")
        if self.sequence not in (None, sequence):
            raise _refuse("it reads two sequences")
        self.x, self.sequence = self.x or tensor, sequence
        return [self.x]

    def _peephole(self, inputs: Sequence[Tensor]) -> Gate:
        for state, factors in (inputs, inputs[::-1]):
            if state in self._states and factors.is_constant:
                array = np.asarray(factors.array()).reshape(-1)
                width = (state.shape or (None,))[-1]
                if array.size in (1, width) and width is not None:
                    return Gate(np.zeros((), np.float32), {}, {state: np.broadcast_to(array, width)})
        raise _refuse("a product in a gate is no peephole")


def _is_row_vector(tensor: Tensor) -> bool:
    """True if only its last axis is longer than 1: batches of one are squeezed at times."""
    return bool(tensor.shape) and all(n == 1 for n in (tensor.shape or ())[:-1])


def _number(tensor: Tensor) -> float:
    """The element of a constant that has one; else NaN."""
    array = np.asarray(tensor.array())
    return float(array.reshape(())) if array.size == 1 else float("nan")


def _with_number(parts: Sequence[Tensor]) -> tuple[Tensor, float] | None:
    """A tensor and the number it is combined with."""
    for x, k in (parts, parts[::-1]) if len(parts) == 2 else ():
        if k.is_constant and not x.is_constant and k.dtype is FLOAT:
            return x, _number(k)
    return None


def _cut(operator: Operator, tensor: Tensor) -> tuple[int, int]:
    """The columns that an operator takes of a matrix.

    Raises:
        UnsupportedOp: it does something else.
    """
    inputs = [t for t in operator.inputs if t is not None]
    if operator.code == "SPLIT":
        axis, whole = inputs
        size = (whole.shape or (None,))[-1]
        if size is None or _number(axis) not in (-1, len(whole.shape or ()) - 1):
            raise _refuse("it is split along another axis")
        width = size // len(operator.outputs)
        at = operator.outputs.index(tensor) * width
        return at, at + width
    whole, *places = inputs
    if len(whole.shape or ()) != 2 or not all(t.is_constant for t in places):
        raise _refuse("its gates are cut in another way")
    begin, end = (np.asarray(t.array()).reshape(-1).tolist() for t in places[:2])
    size = (whole.shape or (0, 0))[1] or 0
    options = operator.options
    plain = not any(options.get(k) for k in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask"))
    if operator.code == "SLICE":
        all_rows = begin[0] == 0 and end[0] in (-1, (whole.shape or (0,))[0])
        # SLICE has sizes where STRIDED_SLICE has ends; -1 is all that is left.
        start, stop = begin[1], size if end[1] == -1 else begin[1] + end[1]
    else:
        # Bit n of a mask: the bound of axis n is ignored.
        masks = int(options.get("begin_mask", 0)), int(options.get("end_mask", 0))
        plain = plain and np.asarray(places[2].array()).reshape(-1).tolist() == [1, 1]
        rows = (whole.shape or (0,))[0]
        all_rows = bool(masks[0] & 1 or begin[0] == 0) and bool(
            masks[1] & 1 or (rows is not None and end[0] >= rows)
        )
        start, stop = (0 if masks[0] & 2 else begin[1]), (size if masks[1] & 2 else end[1])
        start, stop = (n + size if n < 0 else n for n in (start, min(stop, size)))
    if not plain or not all_rows or not 0 <= start < stop <= size:
        raise _refuse("its gates are cut in another way")
    return int(start), int(stop)
