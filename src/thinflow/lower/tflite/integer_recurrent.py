"""LSTM and SVDF of eight-bit codes as LiteRT's fused ops, with the scales of the file that they came from.

Their kernels work out fixed-point factors from scales, so the same scales give the same bits. State is kept
in variables; what a run begins with is written into them each time, by operators in front.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT, INT8, DType, dtype
from thinflow.lower.operands import require
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.lstm import after, last_row
from thinflow.lower.tflite.wiring import Match, Rewrite
from thinflow.program import fusion
from thinflow.program.fusion import const, only_if, op, value
from thinflow.tflite.model import Operator, Quantization, Subgraph, Tensor
from thinflow.typing import Array

_INT16 = dtype("int16")
_ARRAYS, _NUMBERS, _ENDS = 7, 5, 5
"""Of a gate: arrays and scales, in the order of the op; scales behind those of the gates."""
_GATES = "ifgo"
_POINT_OF_CELL = 15
"""Bits behind the point of a cell without integer bits."""
_UNKNOWN = "the scales of the file that it came from are not known"


# --- LSTM ---------------------------------------------------------------------------------------------------


@lower("LiteRTIntegerLSTM", to="tflite")
def integer_lstm(
    b: Builder,
    node: Node,
    x: Tensor,
    h: Tensor,
    cell: Tensor,
    *arrays: Tensor,
    gates: str = "ifgo",
    ends: Sequence[int] = (),
    time_major: bool = True,
    scales: Sequence[float] = (),
    zeros: Sequence[int] = (),
) -> tuple[Tensor, ...]:
    """UNIDIRECTIONAL_SEQUENCE_LSTM."""
    require(len(scales) == _NUMBERS * len(gates) + _ENDS and len(zeros) == 4 and len(ends) == 9, _UNKNOWN)
    require(
        len(arrays) == _ARRAYS * len(gates) + 2 and all(a.is_constant for a in arrays),
        "its weights are computed while the model runs",
    )
    s_x, s_h, s_y, s_projection, s_hidden = scales[-_ENDS:]
    z_x, z_h, z_y, z_hidden = zeros
    steps, batch = _sizes(x, h, time_major=time_major)
    operands: list[Tensor | None] = [None] * 24
    operands[0] = _with_grid(b, x, s_x, z_x)
    for n, letter in enumerate(gates):
        own = [np.asarray(a.array()) for a in arrays[_ARRAYS * n : _ARRAYS * (n + 1)]]
        parts = _gate(b, own, scales[_NUMBERS * n : _NUMBERS * (n + 1)], (s_x, z_x, z_h))
        for place, part in zip(_places(letter), parts, strict=True):
            if place is not None:
                operands[place] = part
    projection, bias = (np.asarray(a.array()) for a in arrays[-2:])
    if projection.size:
        # The kernel reads the projection's zero point from the other side; see the lifting rule.
        operands[16] = _const(b, projection, s_projection, "projection")
        whole = _unmoved(bias, projection, -z_hidden)
        operands[17] = _const(b, whole, s_projection * s_hidden, "projection_bias")
    cell_bits, cell_limit, limit = ends[-3:]
    cell_scale = 2.0 ** (cell_bits - _POINT_OF_CELL)
    operands[18] = _variable(b, h, s_h, z_h, INT8)
    operands[19] = kept = _variable(b, cell, cell_scale, 0, _INT16)
    has_norms = any(operands[20:])
    y = b.value(node.output())
    y.shape, y.quantization = (
        (*((steps, batch) if time_major else (batch, steps)), *(h.shape or ())[1:]),
        (_grid(s_y, z_y)),
    )
    options = {
        "fused_activation_function": "TANH",
        # Half a step more: the kernel cuts the bound down to whole steps.
        "cell_clip": (cell_limit + 0.5) * cell_scale if cell_limit > 0 else 0.0,
        "proj_clip": (limit + 0.5) * s_y if limit > 0 else 0.0,
        "time_major": time_major,
    }
    operator = Operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        operands if has_norms else operands[:20],
        [y],
        options,
        origin=node.name,
        intermediates=_intermediates(b, gates, scales, has_norms=has_norms, zero=z_hidden),
    )
    b.operators.append(operator)
    last = last_row(b, y, steps, 0 if time_major else 1)
    last.quantization = _grid(s_h, z_h)
    return y, last, after(b, kept, last)


def _places(letter: str) -> tuple[int | None, ...]:
    """The operands of LiteRT's op for a gate: weights, recurrent weights, bias, peephole, norm."""
    n = _GATES.index(letter)
    return 1 + n, 5 + n, 12 + n, None if letter == "g" else 9 + "ifo".index(letter), 20 + n


def _gate(
    b: Builder, arrays: Sequence[Array], scales: Sequence[float], given: tuple[float, int, int]
) -> tuple[Tensor | None, ...]:
    """What stands at the places of a gate; None for what it does without."""
    weights, recurrent, bias, recurrent_bias, peephole, norm, norm_bias = arrays
    w, r, p, s, _ = scales
    s_x, z_x, z_h = given
    moved = _unmoved(recurrent_bias, recurrent, z_h)
    require(not moved.any(), "its recurrent bias does not follow from its weights")
    # Behind a norm, the bias is in units of its weights with ten bits more.
    own, unit = (norm_bias, s * 2.0**-10) if norm.size else (_unmoved(bias, weights, z_x), s_x * w)
    return (
        _const(b, weights, w, "weights"),
        _const(b, recurrent, r, "recurrent"),
        _const(b, own, unit, "bias"),
        _const(b, peephole, p, "peephole") if peephole.size else None,
        _const(b, norm, s, "norm") if norm.size else None,
    )


def _unmoved(bias: Array, weights: Array, zero: int) -> Array:
    """A bias without the part that makes up for the zero point of what the weights are multiplied with."""
    whole: Array = (bias.astype(np.int64) + zero * weights.astype(np.int64).sum(axis=1)).astype(np.int32)
    return whole


def _sizes(x: Tensor, h: Tensor, *, time_major: bool) -> tuple[int, int]:
    """Steps and batch.

    Raises:
        UnsupportedOp: they are not known, or the state is of another batch.
    """
    shape = x.shape or (None,) * 3
    steps, batch = shape[:2] if time_major else shape[1::-1]
    require(bool(steps), "the number of its steps is not known")
    require(
        batch is not None and h.shape is not None and h.shape[0] == batch,
        "its batch is not that of its state",
    )
    return int(steps or 0), int(batch or 0)


def _intermediates(
    b: Builder, gates: str, scales: Sequence[float], *, has_norms: bool, zero: int
) -> list[Tensor]:
    """Tensors without elements that hold the scales inside: of each gate before its norm, of the output."""
    found = []
    for letter in _GATES:
        tensor = b.own(f"{letter}_sums", (0,), _INT16 if has_norms else FLOAT)
        if has_norms:
            # The kernel reads a scale of a gate that is coupled, too, and does nothing with it.
            own = scales[_NUMBERS * gates.index(letter) + 4] if letter in gates else 1.0
            tensor.quantization = _grid(own, 0)
        found.append(tensor)
    hidden = b.own("hidden", (0,), INT8)
    hidden.quantization = _grid(scales[-1], zero)
    return [*found, hidden]


# --- SVDF ---------------------------------------------------------------------------------------------------


@lower("LiteRTIntegerSVDF", to="tflite")
def integer_svdf(
    b: Builder,
    node: Node,
    x: Tensor,
    features: Tensor,
    times: Tensor,
    bias: Tensor,
    state: Tensor,
    *,
    rank: int = 1,
    zeros: Sequence[int] = (),
    scales: Sequence[float] = (),
) -> tuple[Tensor, ...]:
    """SVDF."""
    require(len(scales) == 5 and len(zeros) == 2, _UNKNOWN)
    constants = features, times, bias
    require(all(t.is_constant for t in constants), "its weights are computed while the model runs")
    s_x, s_features, s_times, s_state, s_y = scales
    fixed = [
        _const(b, np.asarray(t.array()), scale, name)
        for t, scale, name in zip(
            constants, (s_features, s_times, s_state * s_times), ("features", "times", "bias"), strict=True
        )
    ]
    batch = (x.shape or (None,))[0]
    require(batch is not None and state.shape is not None, "its batch is not known")
    kept = _variable(b, state, s_state, 0, _INT16)
    y = b.value(node.output())
    y.shape, y.quantization = (batch, *(bias.shape or ())), _grid(s_y, zeros[1])
    operands: list[Tensor | None] = [_with_grid(b, x, s_x, zeros[0]), *fixed, kept]
    options = {"rank": rank, "fused_activation_function": "RELU"}
    b.operators.append(Operator("SVDF", operands, [y], options, origin=node.name))
    return y, after(b, kept, y)


# --- what both have -----------------------------------------------------------------------------------------


def _grid(scale: float, zero: int) -> Quantization:
    return Quantization(np.array([scale], np.float32), np.array([zero], np.int64))


def _is_grid(given: Quantization | None, scale: float, zero: int) -> bool:
    """True if a tensor has one scale, and it is this one."""
    if given is None or len(given.scale) != 1:
        return False
    own = int(given.zero_point[0]) if len(given.zero_point) else 0
    return bool(np.float32(given.scale[0]) == np.float32(scale)) and own == zero


def _const(b: Builder, array: Array, scale: float, suffix: str) -> Tensor:
    tensor = b.const(array, suffix)
    tensor.quantization = _grid(scale, 0)
    return tensor


def _with_grid(b: Builder, x: Tensor, scale: float, zero: int) -> Tensor:
    """Codes in a tensor that says what they stand for, since the kernel reads it there."""
    if _is_grid(x.quantization, scale, zero):
        return x
    if x.quantization is not None or x.is_constant:
        same = b.own("codes", x.shape, x.dtype)
        sizes = b.ints([n or 0 for n in x.shape or ()], "shape")
        b.operators.append(Operator("RESHAPE", [x, sizes], [same], origin=b.node.name))
        x = same
    x.quantization = _grid(scale, zero)
    return x


def _variable(b: Builder, start: Tensor, scale: float, zero: int, kind: DType) -> Tensor:
    """A variable that has a value at the start of each run. MAXIMUM is never computed ahead."""
    require(start.dtype is kind and start.shape is not None, f"its state is not {kind}")
    variable = b.own("state", start.shape, kind)
    variable.is_variable, variable.quantization = True, _grid(scale, zero)
    b.operators.append(Operator("MAXIMUM", [start, start], [variable], origin=b.node.name))
    return variable


# --- from real numbers to codes, and back -------------------------------------------------------------------


class FuseDequantize(Rewrite):
    """(cast(x) - zero) * scale -> DEQUANTIZE(x), for codes of the op."""

    patterns = (
        op("MUL", op("SUB", op("CAST", value("x"), shared=True), const("zero"), shared=True), const("scale")),
        op("MUL", op("CAST", value("x"), shared=True), const("scale")),
    )

    def replace(self, m: Match) -> None:
        zero = _number(m.array("zero")) if "zero" in m.tensors else 0.0
        only_if(_is_grid(m.tensor("x").quantization, _number(m.array("scale")), int(zero)))
        _become(m, "DEQUANTIZE")


def _clipped(steps: fusion.Step) -> fusion.Step:
    """A pattern of something between two constants."""
    return op("MINIMUM", op("MAXIMUM", steps, const("low"), shared=True), const("high"), shared=True)


class FuseQuantize(Rewrite):
    """cast(clip(round(x / scale) + zero)) -> QUANTIZE(x), for codes of the op.

    QUANTIZE takes halves another way: x has to be on the grid already.
    """

    patterns = tuple(
        head
        for quotient in (
            op("ROUND", op("DIV", value("x"), const("scale"), shared=True), shared=True),
            # Transforms write a product for it.
            op("ROUND", op("MUL", value("x"), const("inverse"), shared=True), shared=True),
        )
        for steps in (op("ADD", quotient, const("zero"), shared=True), quotient)
        for clipped in (_clipped(steps),)
        # LiteRT's CAST to eight bits goes by way of 32.
        for head in (op("CAST", op("CAST", clipped, shared=True)), op("CAST", clipped))
    )

    def replace(self, m: Match) -> None:
        zero = _number(m.array("zero")) if "zero" in m.tensors else 0.0
        codes = m.head.outputs[0]
        grid = codes.quantization
        only_if(grid is not None and m.wiring.producer(m.tensor("x"), "FAKE_QUANT") is not None)
        assert grid is not None
        is_product = "inverse" in m.tensors
        scale = 1 / _number(m.array("inverse")) if is_product else _number(m.array("scale"))
        only_if(abs(scale / float(grid.scale[0]) - 1) < _SLACK and int(grid.zero_point[0]) == zero)
        limits = np.iinfo(codes.dtype.numpy())
        only_if((_number(m.array("low")), _number(m.array("high"))) == (limits.min, limits.max))
        _become(m, "QUANTIZE")


_SLACK = 1e-6
"""Of a scale: what is on a grid of 255 steps stays nearest to its own code."""


def _number(array: Array) -> float:
    """The one number of a constant.

    Raises:
        Refuse: it has several.
    """
    only_if(array.size == 1)
    return float(array.reshape(()))


def _become(m: Match, code: str) -> None:
    m.head.code, m.head.options = code, {}
    for number in range(1, len(m.head.inputs)):
        m.wiring.set_input(m.head, number, None)
    m.wiring.set_input(m.head, 0, m.tensor("x"))
    del m.head.inputs[1:]


_RULES = fusion.by_code(FuseDequantize(), FuseQuantize())


def fuse_crossings(subgraph: Subgraph) -> None:
    """Let codes of recurrent ops be made and read by QUANTIZE and DEQUANTIZE. O(operators)."""
    if any(t.is_variable for o in subgraph.operators for t in o.reads()):
        fusion.fuse(subgraph, _RULES, rounds=1)
