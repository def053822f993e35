"""Quantized ONNX programs that take and give codes.

x [float] -> Q -> codes -> ...     ->     x [codes] -> ...
... -> codes -> DQ -> y [float]    ->     ... -> y [codes]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from thinflow.ir.types import FLOAT
from thinflow.lift.grids import Grid
from thinflow.onnx.program import Operator, Program, Tensor, unique_names


def with_integer_ends(program: Program, grids: Mapping[str, Grid]) -> Program:
    """The program whose inputs and outputs of these names are codes of these grids.

    The given one stays as it is; tensors that are not at the ends are shared. O(operators).
    """
    if not grids:
        return program
    ends = _Ends(program, grids)
    return ends.made()


class _Ends:
    """The operators of a program, and what stands for its ends."""

    def __init__(self, program: Program, grids: Mapping[str, Grid]) -> None:
        self.program, self.grids = program, grids
        self.unique = unique_names({t.name for one in program.programs() for t in one.tensors()})
        self.instead: dict[Tensor, Tensor] = {}
        """Tensor -> what its readers read."""
        self.before: list[Operator] = []
        self.behind: list[Operator] = []

    def made(self) -> Program:
        program = self.program
        inputs = [self._input(t) for t in program.inputs]
        operators = [o for o in program.operators if o.outputs[0] not in self.instead]
        writers = {t: o for o in operators for t in o.outputs}
        outputs = [self._output(t, writers) for t in program.outputs]
        renamed = [self._rewired(o) for o in operators]
        everything = self._read([*self.before, *renamed, *self.behind], outputs)
        return replace(program, inputs=inputs, outputs=outputs, operators=everything)

    def _rewired(self, operator: Operator) -> Operator:
        inputs = [None if t is None else self.instead.get(t, t) for t in operator.inputs]
        return replace(operator, inputs=inputs, outputs=[self.instead.get(t, t) for t in operator.outputs])

    @staticmethod
    def _read(operators: list[Operator], outputs: list[Tensor]) -> list[Operator]:
        """The operators without a DequantizeLinear that nobody reads."""
        read = {t for o in operators for t in o.reads()} | set(outputs)
        return [o for o in operators if o.code != "DequantizeLinear" or o.outputs[0] in read]

    def _input(self, tensor: Tensor) -> Tensor:
        grid = self.grids.get(tensor.name)
        if grid is None or tensor.dtype is not FLOAT:
            return tensor
        codes = Tensor(tensor.name, tensor.shape, grid.kind)
        same = [o for o in self.program.operators if o.code == "QuantizeLinear" and o.inputs[0] is tensor]
        # What quantized the input is the input now.
        self.instead.update({o.outputs[0]: codes for o in same if _says(o, grid)})
        numbers = Tensor(self.unique(f"{tensor.name}/float"), tensor.shape, FLOAT)
        self.instead[tensor] = numbers
        self.before.append(Operator("DequantizeLinear", [codes, *self._pair(tensor, grid)], [numbers]))
        return codes

    def _output(self, tensor: Tensor, writers: Mapping[Tensor, Operator]) -> Tensor:
        grid = self.grids.get(tensor.name)
        if grid is None or tensor.dtype is not FLOAT or tensor in self.instead:
            return self.instead.get(tensor, tensor)
        codes = Tensor(tensor.name, tensor.shape, grid.kind)
        self.instead[tensor] = numbers = Tensor(self.unique(f"{tensor.name}/float"), tensor.shape, FLOAT)
        writer = writers.get(tensor)
        source = writer.inputs[0] if writer is not None and writer.code == "DequantizeLinear" else None
        is_free = source is not None and source in writers and source not in self.instead
        if writer is not None and source is not None and is_free and _says(writer, grid):
            self.instead[source] = codes
        else:
            pair = self._pair(tensor, grid)
            self.behind.append(Operator("QuantizeLinear", [numbers, *pair], [codes]))
        return codes

    def _pair(self, tensor: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
        scale, zero = np.array(grid.scale, np.float32), np.array(grid.zero_point, grid.kind.numpy())
        return (
            Tensor(self.unique(f"{tensor.name}/scale"), (), FLOAT, scale),
            Tensor(self.unique(f"{tensor.name}/zero_point"), (), grid.kind, zero),
        )


def _says(operator: Operator, grid: Grid) -> bool:
    """True if a QuantizeLinear or DequantizeLinear goes by a grid."""
    _, scale, zero = operator.inputs
    if scale is None or zero is None or not (scale.is_constant and zero.is_constant):
        return False
    is_scale = np.array_equal(np.asarray(scale.array()), np.float32(grid.scale))
    return zero.dtype is grid.kind and is_scale and np.array_equal(np.asarray(zero.array()), grid.zero_point)
