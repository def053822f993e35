"""Weights and attributes of ONNX's LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.lower.cells import Cell, Gate
from thinflow.lower.onnx.builder import Builder
from thinflow.onnx.program import Tensor

# ONNX's order of gates in W, R and B, where g is what ONNX calls c (LSTM) or h (GRU).
_ORDER = {"LSTM": "iofg", "GRU": "zrg", "RNN": "g"}
# ONNX's defaults, in its order f, g, h: gates, new values, and what bends an LSTM's state on its way out.
_USUAL = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}


def onnx_name(function: str) -> str:
    """ONNX's operator for a function of a cell: HardSigmoid for hard_sigmoid."""
    return "".join(word.title() for word in function.split("_"))


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
