"""ONNX operators of recurrent cells: as steps in the body of a loop, and as weights of LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from thinflow.ir.types import BOOL, FLOAT
from thinflow.lower.cell_sums import FUNCTIONS, NoCell, Step
from thinflow.lower.cells import Cell, Gate
from thinflow.lower.onnx.builder import Builder
from thinflow.onnx.operators import Trait, has
from thinflow.onnx.program import Operator, Tensor

# The iteration compared with the lengths (below: lengths with the iteration) -> whether a true result says
# that the sequence goes on.
_BEFORE = {"Less": True, "GreaterOrEqual": False}
_BEHIND = {"Greater": True, "LessOrEqual": False}
_SUMS = {"Add": "add", "Sub": "subtract", "Mul": "multiply"}


def onnx_name(function: str) -> str:
    """ONNX's operator for a function of a cell: HardSigmoid for hard_sigmoid."""
    return "".join(word.title() for word in function.split("_"))


_FUNCTIONS = {onnx_name(function): function for function in FUNCTIONS}


@dataclass(frozen=True)
class Condition:
    """The condition under which a sequence goes on in an iteration; equal ones say the same.

    Attributes:
        lengths: [batch]: as long as the iteration's number is below; None if a mask says it.
        mask: bool [steps,batch] or [steps,batch,1]: where it is true; None if lengths say it.
        holds: whether it is so, or the contrary.
    """

    lengths: Tensor | None = None
    mask: Tensor | None = None
    holds: bool = True

    def positive(self) -> Condition:
        return replace(self, holds=True)


def _is_view(operator: Operator) -> bool:
    """True if it gives what it reads, in another type or shape at most."""
    return operator.code in ("Cast", "Identity") or has(operator.code, Trait.RESHAPE)


class OnnxSteps:
    """The operators of a loop's body, asked backwards.

    Args:
        arguments: its variables.
        counters: those of them that count the iterations.
    """

    def __init__(
        self, operators: Sequence[Operator], arguments: Collection[Tensor], counters: Collection[Tensor]
    ) -> None:
        self._makers = {t: o for o in operators for t in o.outputs}
        self._arguments, self._counters = arguments, counters

    def width(self, tensor: Tensor) -> int:
        width = (tensor.shape or (None,))[-1]
        if width is None:
            raise NoCell(f"the size of '{tensor.name}' is not known")
        return width

    def maker(self, tensor: Tensor | None) -> Operator | None:
        return self._makers.get(tensor) if tensor is not None else None

    def is_outer(self, tensor: Tensor) -> bool:
        """True if a tensor is the same in every iteration."""
        return tensor.is_constant or (tensor not in self._makers and tensor not in self._arguments)

    def is_iteration(self, tensor: Tensor | None) -> bool:
        """True if a tensor is the number of the iteration, in whatever type and shape."""
        maker = self.maker(tensor)
        while maker is not None and _is_view(maker):
            tensor = maker.inputs[0]
            maker = self.maker(tensor)
        return tensor in self._counters

    def row(self, tensor: Tensor) -> Tensor | None:
        """The sequence of which a tensor is the item of this iteration."""
        maker = self.maker(tensor)
        if maker is None or maker.code != "Gather" or maker.options.get("axis", 0):
            return None
        sequence, index = maker.inputs[:2]
        is_row = sequence is not None and self.is_outer(sequence) and self.is_iteration(index)
        return sequence if is_row else None

    def condition(self, tensor: Tensor | None) -> Condition:
        """The condition that decides for each sequence of the batch whether it goes on.

        Raises:
            NoCell: something else decides.
        """
        holds = True
        while (maker := self.maker(tensor)) is not None and (
            _is_view(maker) or maker.code in ("Not", "Tile", "Expand")
        ):
            holds ^= maker.code == "Not"
            before = maker.inputs[0]
            if before is None or before.dtype is not BOOL or not _is_column(before, maker.code):
                raise NoCell("a condition is computed")
            tensor = before
        mask = self.row(tensor) if tensor is not None else None
        if mask is not None:
            if len(mask.shape or ()) == 2 or (len(mask.shape or ()) == 3 and (mask.shape or ())[2] == 1):
                return Condition(mask=mask, holds=holds)
            raise NoCell("a mask differs between units")
        left, right = maker.inputs[:2] if maker is not None and len(maker.inputs) == 2 else (None, None)
        for codes, number, lengths in ((_BEFORE, left, right), (_BEHIND, right, left)):
            if (
                maker is not None
                and maker.code in codes
                and self.is_iteration(number)
                and self._is_lengths(lengths)
            ):
                return Condition(lengths=lengths, holds=holds == codes[maker.code])
        raise NoCell("a condition is computed")

    def _is_lengths(self, tensor: Tensor | None) -> bool:
        return tensor is not None and self.is_outer(tensor) and len(tensor.shape or ()) == 1

    def step(self, tensor: Tensor) -> Step:
        if tensor.is_constant:
            return Step("constant", array=np.asarray(tensor.array()))
        if tensor in self._arguments:
            return Step("state", (tensor,))
        maker = self.maker(tensor)
        if maker is None:
            raise NoCell(f"'{tensor.name}' comes from outside of the loop")
        sequence = self.row(tensor)
        if sequence is not None:
            return Step("row", (sequence,))
        if tensor.dtype is not FLOAT:
            raise NoCell(f"'{tensor.name}' is {tensor.dtype}")
        return self._made(maker, tensor)

    def _made(self, o: Operator, tensor: Tensor) -> Step:
        inputs = tuple(t for t in o.inputs if t is not None)
        if o.code in _FUNCTIONS:
            return Step(_FUNCTIONS[o.code], inputs)
        if o.code in _SUMS:
            return Step(_SUMS[o.code], inputs)
        if o.code in ("Identity", "Dropout"):
            return Step("same", inputs[:1])
        if o.code == "MatMul" and inputs[1].is_constant and inputs[1].array().ndim == 2:
            return Step("product", inputs[:1], array=inputs[1].array())
        if o.code == "Div" and inputs[1].is_constant:
            # Division by a constant as the product with its reciprocal: off by one rounding, and foldable
            # into weights.
            inverse = Tensor("", inputs[1].shape, FLOAT, np.float32(1) / np.asarray(inputs[1].array()))
            return Step("multiply", (inputs[0], inverse))
        if o.code == "Concat" and o.options.get("axis") in (-1, len(tensor.shape or ()) - 1):
            return Step("join", inputs)
        if o.code == "Clip" and len(inputs) == 3 and all(t.is_constant for t in inputs[1:]):
            return Step("clip", inputs[:1], tuple(float(t.array().reshape(())) for t in inputs[1:]))
        if o.code == "Where":
            live, yes, no = inputs
            condition = self.condition(live)
            return Step("choose", (condition.positive(), *((yes, no) if condition.holds else (no, yes))))
        if o.code in ("Split", "Slice"):
            return Step("cut", inputs[:1], _cut(o, tensor))
        raise NoCell(f"{o.code} is no part of a cell")


def _is_column(before: Tensor, code: str) -> bool:
    """True if an operator that keeps or repeats elements can only repeat them along the units."""
    sizes = before.shape or ()
    return code in ("Not", "Identity") or len(sizes) == 1 or (len(sizes) == 2 and sizes[1] == 1)


def _cut(o: Operator, tensor: Tensor) -> tuple[int, int]:
    """The columns that an operator takes of a matrix."""
    whole, *places = (t for t in o.inputs if t is not None)
    rank, width = len(whole.shape or ()), (whole.shape or (None,))[-1]
    if rank != 2 or width is None or not all(t.is_constant for t in places):
        raise NoCell("its gates are cut in another way")
    if o.code == "Split":
        sizes = places[0].array().tolist() if places else [width // len(o.outputs)] * len(o.outputs)
        axis, at = o.options.get("axis", 0), o.outputs.index(tensor)
        start, stop = sum(sizes[:at]), sum(sizes[: at + 1])
    else:
        starts, ends, axes, *steps = (t.array().tolist() for t in places)
        if len(starts) != 1 or (steps and steps[0] != [1]):
            raise NoCell("its gates are cut in another way")
        axis = axes[0]
        start, stop = (min(n + width if n < 0 else n, width) for n in (starts[0], ends[0]))
    if axis not in (1, -1) or not 0 <= start < stop <= width:
        raise NoCell("its gates are cut in another way")
    return start, stop


# ---- Weights and attributes of ONNX's LSTM, GRU and RNN.


# ONNX's order of gates in W, R and B, where g is what ONNX calls c (LSTM) or h (GRU).
_ORDER = {"LSTM": "iofg", "GRU": "zrg", "RNN": "g"}
# ONNX's defaults, in its order f, g, h: gates, new values, and what bends an LSTM's state on its way out.
_USUAL = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}


def weights_of(b: Builder, cell: Cell) -> list[Tensor | None]:
    """W [1,gates * units,inputs], R, B, and P for peepholes, each None where it is all zeros but W and R."""
    gates = [cell.gates[letter] for letter in _ORDER[cell.kind]]

    def const(rows: Sequence[np.ndarray], name: str) -> Tensor:
        return b.const(np.ascontiguousarray(np.concatenate(rows)[None], np.float32), name)

    w = const([_beside(gate, cell) for gate in gates], "W")
    r = const([gate.h for gate in gates], "R")
    # B is the input's biases, then the recurrent ones; only a GRU that resets late tells them apart.
    biases = [gate.bias for gate in gates] + [gate.late_bias for gate in gates]
    bias = const(biases, "B") if any(np.any(v) for v in biases) else None
    if all(gate.peephole is None for gate in gates):
        return [w, r, bias]
    # P is in another order than W, and has nothing for g.
    peepholes = [cell.gates[letter].peephole for letter in "iof"]
    zeros = np.zeros(cell.units, np.float32)
    return [w, r, bias, const([zeros if p is None else p for p in peepholes], "P")]


def _beside(gate: Gate, cell: Cell) -> np.ndarray:
    """The weights of what a gate reads besides h, side by side. [units,inputs]"""
    zeros = [np.zeros((cell.units, s.width), np.float32) for s in cell.sources]
    return np.concatenate([gate.x.get(s, z) for s, z in zip(cell.sources, zeros, strict=True)], axis=1)


def functions_of(cell: Cell) -> dict[str, object]:
    """The attributes that say which functions bend the sums; none for the usual ones."""
    gates = {"LSTM": ["i", "g"], "GRU": ["z", "g"], "RNN": ["g"]}[cell.kind]
    functions = [cell.gates[letter].function for letter in gates]
    functions += [cell.finish] if cell.finish else []
    if functions == _USUAL[cell.kind]:
        return {}
    hard = functions.count("hard_sigmoid")
    slopes: dict[str, object] = {"activation_alpha": [1.0] * hard, "activation_beta": [0.0] * hard}
    return {"activations": [onnx_name(f) for f in functions], **(slopes if hard else {})}
