"""What a lowering knows of eight-bit codes, and how they stand in a LiteRT program.

Every quantized tensor is int8 inside of a program, whatever its type in the graph: accelerated kernels are
many times faster for int8 than for uint8. Codes of quint8 are moved by 128, and so is their zero point, which
changes no real. Where such values enter or leave the program they are uint8, as the graph says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from thinflow.analysis.grids import Grid, known_grids, operands
from thinflow.analysis.grids import grid as make_grid
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import INT8
from thinflow.lower.operands import require
from thinflow.lower.tflite.program import Operator, Quantization, Tensor
from thinflow.ops._quantized import codes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from thinflow.lower.tflite.builder import Builder

FREEZE = "freeze_requantization_ranges"
_HINT = (
    "run typical inputs, then the transform 'freeze_requantization_ranges' with the ranges they showed, by "
    "which the answers change a little: docs/quantization.md"
)

READERS = frozenset(
    """QuantizedConv2D QuantizedMatMul QuantizedBiasAdd QuantizedAdd QuantizedMul QuantizedRelu QuantizedRelu6
    QuantizedMaxPool QuantizedAvgPool QuantizedReshape QuantizedConcat QuantizedResizeBilinear QuantizeV2
    Requantize RequantizationRange QuantizeDownAndShrinkRange Dequantize""".split()  # noqa: SIM905
)
"""Ops whose rules take codes as they stand in the program."""


@dataclass
class Coding:
    """Of one run.

    Attributes:
        grids: graph -> the grids of its values, found when first asked for.
        signed: tensor of uint8 codes -> the same in int8.
        unsigned: the other way around.
        sums: tensor of codes -> the `Sums` it was rounded from, and the `Landing`.
        floats: codes in float, and a form of reals -> these reals.
    """

    grids: dict[Graph, Mapping[Value, Grid]] = field(default_factory=dict)
    signed: dict[Tensor, Tensor] = field(default_factory=dict)
    unsigned: dict[Tensor, Tensor] = field(default_factory=dict)
    sums: dict[Tensor, tuple[Any, Any]] = field(default_factory=dict)
    floats: dict[tuple[Tensor, str], Tensor] = field(default_factory=dict)

    def grid(self, value: Value) -> Grid | None:
        """The reals that a value's codes stand for; None if that is not known before the model runs."""
        graph = value.node.graph
        if graph is None:
            return None
        if graph not in self.grids:
            self.grids[graph] = known_grids(graph)
        return self.grids[graph].get(value)

    def keep(self, operators: Iterable[Operator]) -> None:
        """Forget what operators made that are gone."""
        if not (self.signed or self.unsigned or self.sums or self.floats):
            return
        written = {t for operator in operators for t in operator.outputs}
        self.signed = {x: y for x, y in self.signed.items() if y in written}
        self.unsigned = {x: y for x, y in self.unsigned.items() if y in written}
        self.sums = {x: y for x, y in self.sums.items() if x in written}
        self.floats = {x: y for x, y in self.floats.items() if y in written}


def grid_of(b: Builder, value: Value, reader: Node | None = None) -> Grid:
    """The grid of a value whose range is known and holds 0.

    Args:
        b: knows the graph.
        value: codes.
        reader: who reads them: stored codes may be shared by nodes that give them different ranges.

    Raises:
        UnsupportedOp: the range is not known, or does not hold 0.
    """
    grid = b.coding.grid(value) or (None if reader is None else _stored_grid(value, reader))
    if grid is None:
        raise not_fixed(value)
    require(
        grid.holds_zero,
        f"the range of '{value.name}', {grid.low:.6g} to {grid.high:.6g}, does not hold 0",
        hint="integer kernels need a code for 0; give the layer a range that holds it",
    )
    return grid


def _stored_grid(value: Value, reader: Node) -> Grid | None:
    """The grid that a node gives stored codes by constants."""
    codes = value.node.tensor
    for place in operands(reader) if codes is not None else ():
        ends = [reader.inputs[i].node.tensor for i in (place.low, place.high)]
        if reader.inputs[place.codes] is value and codes is not None and None not in ends:
            low, high = (float(np.asarray(end.numpy()).reshape(-1)[0]) for end in ends if end is not None)
            return make_grid(low, high, codes.dtype)
    return None


def not_fixed(value: Value) -> UnsupportedOp:
    """The refusal of codes whose range is measured while the model runs."""
    return UnsupportedOp(
        f"the range of '{value.name}' is found anew in every run, and LiteRT's integer kernels need it fixed:"
        f" see the transform '{FREEZE}'",
        hint=_HINT,
    )


def quantization(grid: Grid) -> Quantization:
    """How int8 codes stand for the reals of a grid."""
    zero = grid.zero_point - 128 - codes_of(grid.dtype.numpy()).low
    return Quantization(np.array([grid.scale], np.float32), np.array([zero], np.int64))


def zero_of(x: Tensor) -> int:
    """The int8 code of 0."""
    assert x.quantization is not None
    return int(x.quantization.zero_point[0])


def landed(b: Builder, grid: Grid) -> Tensor:
    """A new int8 tensor for the codes that the current node makes."""
    y = b.value(b.node.output(), element=INT8)
    y.quantization = quantization(grid)
    return y


def own_codes(b: Builder, suffix: str, shape: tuple[int | None, ...] | None, like: Tensor) -> Tensor:
    """A new int8 tensor on the way, on the grid of another one."""
    y = b.own(suffix, shape, INT8)
    y.quantization = like.quantization
    return y


def as_int8(b: Builder, x: Tensor, grid: Grid) -> Tensor:
    """Codes on a grid as an int8 tensor that says so."""
    if x.is_constant:
        return _constant(b, x, grid)
    if x.dtype is INT8 or x.dtype.name == "qint8":
        x.dtype, x.quantization = INT8, x.quantization or quantization(grid)  # stored alike
        return x
    found = b.coding.signed.get(x)
    if found is None:
        signed = quantization(grid)
        x.quantization = Quantization(signed.scale, signed.zero_point + 128)
        found = b.own("int8", x.shape, INT8)
        found.quantization = signed
        b.append("QUANTIZE", [x], [found], {})
        b.coding.signed[x] = found
    return found


def centred(x: Tensor, grid: Grid) -> np.ndarray:
    """Constant codes less the code of 0, int16."""
    return np.asarray(x.array()).astype(np.int16) - np.int16(grid.zero_point)


def _constant(b: Builder, x: Tensor, grid: Grid) -> Tensor:
    codes = np.asarray(x.array()).astype(np.int16) - (128 + codes_of(grid.dtype.numpy()).low)
    y = b.const(codes.astype(np.int8), "codes", INT8)
    y.quantization = quantization(grid)
    return y


def stored(b: Builder, value: Value, x: Any) -> Any:
    """What stands for a value, in the value's own type: for ops that know nothing of codes, and as a result.

    Raises:
        UnsupportedOp: it is nothing that can be stored.
    """
    if not isinstance(x, Tensor):
        return x.stored(b, value) if hasattr(x, "stored") else x
    spec = b.spec(value).dtype
    grid = b.coding.grid(value) if x.dtype.is_quantized and x.quantization is None else None
    if grid is not None and grid.holds_zero and not x.is_constant:
        signed = quantization(grid)
        x.quantization = Quantization(signed.scale, signed.zero_point + 128 * (x.dtype.name == "quint8"))
    if x.dtype is not INT8 or spec is None or spec.name not in ("quint8", "uint8"):
        return x
    found = b.coding.unsigned.get(x)
    if found is None:
        found = b.own("uint8", x.shape, spec)
        q = x.quantization or Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))
        found.quantization = Quantization(q.scale, q.zero_point + 128)
        b.append("QUANTIZE", [x], [found], {})
        b.coding.unsigned[x] = found
    return found


def is_coded(operator: Operator) -> bool:
    """Whether an operator reads or writes codes."""
    return any(t is not None and t.quantization is not None for t in (*operator.inputs, *operator.outputs))


__all__ = [
    "READERS",
    "Coding",
    "as_int8",
    "centred",
    "grid_of",
    "is_coded",
    "landed",
    "not_fixed",
    "own_codes",
    "quantization",
    "stored",
    "zero_of",
]
