"""Grids: the real numbers that the codes of a file's quantized values stand for.

    real = scale * (code - zero_point)

A lifted graph computes with real numbers. It runs as the file does if every result is rounded to codes, and
every operand comes from codes. As a model to work on, it says the same by one FakeQuant for each value:
lowering and quantizing know those, and a file written from them has the scales of the first one. Codes are
then found only at the graph's ends, and where an op takes them as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from thinflow.analysis.foreign_quant_params import moves_codes
from thinflow.errors import ThinflowError
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import FLOAT, DType, dtype
from thinflow.lift.lifter import Call, Lifter
from thinflow.ops.traits import Trait, has
from thinflow.typing import Array

MARK = "_grid"
"""The attribute of a FakeQuant that a file's codes became: their type."""


@dataclass(frozen=True)
class Grid:
    """Scale and zero point of a value, one each, and the type of its codes."""

    scale: float
    zero_point: int
    kind: DType

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest code."""
        bits = _BITS.get(self.kind.name)
        if bits is not None:
            # Held in eight bits, of which `iinfo` would tell the range.
            return (
                (0, (1 << bits) - 1) if self.kind.name[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
            )
        info = np.iinfo(self.kind.numpy())
        return int(info.min), int(info.max)

    @property
    def bits(self) -> int:
        low, high = self.limits
        return (high - low).bit_length()

    @property
    def ends(self) -> tuple[float, float]:
        """The real numbers of both limits; exact, as scales have 24 bits and codes 16."""
        low, high = self.limits
        return self.scale * (low - self.zero_point), self.scale * (high - self.zero_point)

    @property
    def is_range(self) -> bool:
        """True if a range says the same: 0 is in it, and no number of it overflows."""
        low, high = self.limits
        ends = self.ends
        is_finite = all(abs(end) < float(np.finfo(np.float32).max) for end in ends) and ends[0] < ends[1]
        # Runtimes' arithmetic of sixteen bits has 0 in the middle.
        is_usual = self.bits <= 8 or (self.kind.name == "int16" and self.zero_point == 0)
        return low <= self.zero_point <= high and math.isfinite(self.scale) and is_finite and is_usual

    def is_like(self, other: Grid) -> bool:
        """True if codes mean the same on both."""
        # A scale that was taken from the ends of a range may be a last bit off.
        same = math.isclose(self.scale, other.scale, rel_tol=1e-6)
        return same and (self.zero_point, self.kind) == (other.zero_point, other.kind)

    def codes_of(self, numbers: Array) -> Array:
        """The codes nearest to real numbers, ties to even; copies."""
        steps = np.rint(numbers.astype(np.float64) / self.scale) + self.zero_point
        return np.asarray(np.clip(steps, *self.limits).astype(self.kind.numpy()))


_BITS = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}


def grid_of(node: Node) -> Grid | None:
    """The grid that a marked FakeQuant says; None if it says none."""
    mark = node.attrs_view.get(MARK)
    if not has(node.op, Trait.FAKE_QUANT) or not isinstance(mark, bytes | str) or len(node.inputs) != 1:
        return None
    try:
        kind = dtype(mark if isinstance(mark, str) else mark.decode("ascii", "replace"))
    except ThinflowError:
        return None
    low, high = node.get("min", -6.0), node.get("max", 6.0)
    least, most = Grid(1.0, 0, kind).limits
    # In double both ends are exact products; from a file they come as float32, a last bit off.
    scale = float(np.float32((high - low) / (most - least)))
    if not scale > 0:
        return None
    return Grid(scale, int(np.clip(np.rint(least - low / scale), least, most)), kind)


def codes(call: Call, y: Value, grid: Grid) -> Value:
    """The codes of real numbers; what is out of range is cut off."""
    made = spelled_codes(call, y, _number(call, grid.scale), _zero(call, grid), grid)
    if keeps(call, y, grid):
        # Beside the codes, not before them: a FakeQuant takes halves up.
        call.lifter.behind[made] = on_grid(call, y, grid)
    return made


def keeps(call: Call, y: Value, grid: Grid) -> bool:
    """True if a value's grid is to be said by a FakeQuant, and can be."""
    return call.lifter.keeps_grids and y.dtype is FLOAT and grid.is_range


def on_grid(call: Call, y: Value, grid: Grid) -> Value:
    """Real numbers rounded to those that codes stand for."""
    low, high = grid.ends
    return call.emit(
        "FakeQuantWithMinMaxArgs",
        y,
        T=None,
        min=low,
        max=high,
        num_bits=grid.bits,
        narrow_range=False,
        **{MARK: grid.kind.name.encode()},
    )


def spelled_codes(call: Call, y: Value, scale: Value, zero: Value | None, grid: Grid) -> Value:
    """clip(round(y / scale) + zero), as the type of the codes."""
    # TensorFlow's Round takes halves to even, as ONNX wants it; LiteRT's kernels take them away from zero or
    # up: hence a difference of one.
    steps = call.emit("Round", call.emit("RealDiv", y, scale))
    if zero is not None:
        # Behind the rounding: with an odd zero point, halves would otherwise go the other way.
        steps = call.emit("AddV2", steps, zero)
    low, high = (_number(call, n) for n in grid.limits)
    bounded = call.emit("Minimum", call.emit("Maximum", steps, low), high)
    return call.emit("Cast", bounded, SrcT=FLOAT, DstT=grid.kind)


def real(call: Call, x: Value, grid: Grid) -> Value:
    """The real numbers of codes; those that they were made of, where that is known."""
    known = call.lifter.behind.get(x)
    own = None if known is None else grid_of(known.node)
    # Codes may be read on another grid than they were made on, which gives them another meaning.
    if known is not None and (own is None or own.is_like(grid)):
        return known
    numbers = _spelled_real(call, x, grid)
    if known is None and keeps(call, numbers, grid):
        # Once for all readers; it rounds nothing, and says what the numbers are.
        call.lifter.behind[x] = numbers = on_grid(call, numbers, grid)
    return numbers


def _spelled_real(call: Call, x: Value, grid: Grid) -> Value:
    """(x - zero) * scale."""
    wide = call.emit("Cast", x, SrcT=x.dtype, DstT=FLOAT)
    return call.emit("Mul", call.emit("Sub", wide, _zero(call, grid)), _number(call, grid.scale))


def operand_codes(call: Call, x: Value, grid: Grid) -> Value:
    """Codes for an op that computes with them. Where grids are kept they are made of real numbers that say
    theirs, so that these can be fed, or computed by other ops.
    """
    if not (call.lifter.keeps_grids and grid.is_range):
        return x
    # Exact: numbers on a grid are nearest to the codes that they came from.
    numbers = real(call, x, grid)
    return spelled_codes(call, numbers, _number(call, grid.scale), _zero(call, grid), grid)


def result_codes(call: Call, y: Value, grid: Grid) -> Value:
    """The codes that an op gave, with the real numbers behind them, where grids are kept."""
    if not (call.lifter.keeps_grids and grid.is_range):
        return y
    return codes(call, _spelled_real(call, y, grid), grid)


def _number(call: Call, number: float) -> Value:
    return call.constant(np.array(number, np.float32))


def _zero(call: Call, grid: Grid) -> Value:
    return _number(call, grid.zero_point)


_PAD = "onnx.Pad"


def moved(call: Call) -> Grid | None:
    """The grid of what an op of ONNX moves as codes; from here on it moves the real numbers behind them."""
    if not call.lifter.keeps_grids or not moves_codes(call.node.op) or not call.xs:
        return None
    known = None if call.xs[0] is None else call.lifter.behind.get(call.xs[0])
    grid = None if known is None else grid_of(known.node)
    if grid is None:
        return None
    others = call.xs[1:]
    if call.node.op == _PAD:
        # What stands in the border is a code as well, 0 where none is given.
        fill = others[1] if len(others) > 1 else None
        tensor = None if fill is None else fill.node.tensor
        if fill is not None and tensor is None:
            return None
        code = 0 if tensor is None else int(tensor.numpy().reshape(()))
        number = _number(call, np.float32(grid.scale) * (code - grid.zero_point))
        others = [*others[:1], number, *others[2:]]
    call.xs = [known, *others]
    return grid


def sweep_codes(lifter: Lifter) -> None:
    """Take out codes that nobody reads; the real numbers behind them get their name. O(codes)."""
    graph = lifter.graph
    for made, rounded in lifter.behind.items():
        # Codes that codes were made of may be gone with these.
        is_here = made.node.graph is graph and rounded.node.graph is graph
        chain = _chain(made, rounded.node.inputs[0]) if is_here and made not in graph.outputs else []
        if not chain:
            continue
        name, constants = (
            made.node.name,
            [v.node for n in chain for v in n.inputs if v.node.tensor is not None],
        )
        for node in chain:
            graph.remove(node)
        graph.remove(*(n for n in dict.fromkeys(constants) if not any(v.uses for v in n.outputs)))
        graph.rename(rounded.node, name)


def _chain(made: Value, numbers: Value) -> list[Node]:
    """The nodes between real numbers and their codes, last first; none if somebody reads one of them, or if
    the codes come from elsewhere.
    """
    chain: list[Node] = []
    value = made
    while value is not numbers:
        if len(value.uses) != (1 if chain else 0) or not value.node.inputs or value.node.control_outputs:
            return []
        chain.append(value.node)
        value = value.node.inputs[0]
    return chain
