"""Weights of an ONNX program as integers of eight or four bits, while activations stay float.

x, w [float] -> Conv     ->     Mul(Cast(w [int4]), scales) -> Conv(x, w [float])

Scales are per output channel, or per block of so many inputs of a channel. `onnx_unpacking` says what makes
floats of the integers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.errors import ParameterError
from thinflow.ir.types import FLOAT
from thinflow.onnx.program import DEFAULT_OPSET, Operator, Program, Tensor, unique_names
from thinflow.quantize.kernels import is_float
from thinflow.quantize.kernels.onnx import INT8_KERNELS as KERNELS
from thinflow.quantize.onnx_unpacking import is_for_kernel, unpacking
from thinflow.quantize.recipe import Decision, Quantized, Recipe
from thinflow.quantize.rounding import Grid, Rounding, weight_grid
from thinflow.quantize.small_weights import FEWEST, four_bit_layers
from thinflow.quantize.weights import memory_key

INT4_OPSET = 21
"""The first with int4 and with blocks."""


def least_opset(recipe: Recipe) -> int:
    """The opset that a recipe's model is written in unless another is asked for."""
    return INT4_OPSET if recipe.scheme == "int4_weights" else DEFAULT_OPSET


def store_integers(program: Program, recipe: Recipe, rounding: Rounding) -> Quantized[Program]:
    """The program with integer weights; the given one stays as it is.

    Layers in the bodies of loops and branches stay float, as do those of few weights.

    Raises:
        ParameterError: four bits in a program of an opset that does not have them.
    """
    if recipe.scheme == "int4_weights" and program.opset < INT4_OPSET:
        raise ParameterError(
            f"opset {program.opset} has no weights of four bits", hint=f"write opset {INT4_OPSET}"
        )
    return _Rewriter(program, recipe, rounding).result


class _Rewriter:
    def __init__(self, program: Program, recipe: Recipe, rounding: Rounding) -> None:
        self.recipe, self.rounding = recipe, rounding
        self.result = Quantized(replace(program, operators=[]))
        self.unique: Callable[[str], str] = unique_names(
            {t.name for one in program.programs() for t in one.tensors()}
        )
        self._readers = program.consumers()
        # With the arrays of weights: while one is held, no other can come to lie where it does.
        self._wide: dict[tuple[Any, ...], tuple[Tensor, Grid, Any]] = {}
        self._biases: dict[tuple[Any, ...], Tensor] = {}
        layers = [o for o in program.operators if _weights(o) is not None]
        is_small = recipe.scheme == "int4_weights"
        self._four = frozenset(four_bit_layers(layers, recipe)) if is_small else frozenset()
        for operator in program.operators:
            self._add(operator)

    def _add(self, operator: Operator) -> None:
        w = _weights(operator)
        why = "" if w is None else self.recipe.why_skipped(operator) or _why_not(w)
        new = operator
        if w is not None and not why:
            wide, grid = self._stored(w, operator)
            stand_ins = {w: wide, **self._bias(operator, w, grid)}
            inputs = [stand_ins.get(t, t) if t is not None else None for t in operator.inputs]
            new = self.result.made[operator] = replace(operator, inputs=inputs)
        self.result.program.operators.append(new)
        if why:
            self.result.float_operators.append((new, why))

    def _stored(self, w: Tensor, operator: Operator) -> tuple[Tensor, Grid]:
        """The floats that the weights' integers stand for, and the grid that these are of."""
        data = w.array()
        axis = KERNELS.weight_axis(operator) if self.recipe.per_channel else None
        bits = 4 if operator in self._four else 8
        keeps_codes = is_for_kernel(operator, data, bits, self._readers)
        key = (*memory_key(data), axis, bits, keeps_codes)
        if key not in self._wide:
            block = _blocks(operator, data, axis, self.recipe.block_size) if bits == 4 else None
            grid = weight_grid(data, axis, bits, self.rounding, block)
            self._wide[key] = self._unpacked(w, grid, keeps_codes), grid, data
        wide, grid, _ = self._wide[key]
        return wide, grid

    def _unpacked(self, w: Tensor, grid: Grid, keeps_codes: bool) -> Tensor:
        data = w.array()
        codes = self.rounding.codes(data, grid)
        operators, stored, wide = unpacking(w.name, codes, grid, self.unique, keeps_codes=keeps_codes)
        self.result.program.operators += operators
        limits = float(data.min()), float(data.max())
        reason = f"weights: {stored.dtype.name}, symmetric, {grid.how}"
        scales = grid.scales.reshape(-1)
        self.result.decisions.append(Decision(stored.name, scales, 0, limits, "weights", reason))
        return wide

    def _bias(self, operator: Operator, w: Tensor, grid: Grid) -> dict[Tensor, Tensor]:
        """The bias that goes with rounded weights, by that which was there."""
        b = KERNELS.bias(operator)
        if b is None or not b.is_constant or not is_float(b):
            return {}
        data, old = w.array(), b.array()
        new = self.rounding.bias(data, grid, old)
        if new is old:
            return {}
        key = (*memory_key(data), *memory_key(old))
        if key not in self._biases:
            self._biases[key] = self._constant(b.name, new.astype(np.float32), FLOAT)
        return {b: self._biases[key]}

    def _constant(self, name: str, array: Any, element: Any) -> Tensor:
        return Tensor(self.unique(name), tuple(array.shape), element, array)


def _weights(operator: Operator) -> Tensor | None:
    w: Tensor | None = KERNELS.weights(operator)
    return w if w is not None and is_float(w) else None


def _why_not(w: Tensor) -> str:
    """The reason for which weights stay float; empty if there is none."""
    data = w.array()
    if data.size < FEWEST:
        return f"its weights are {data.size}, and below {FEWEST} that is not worth it"
    return "" if np.isfinite(data).all() else f"constant '{w.name}' has values that are not finite"


def _blocks(operator: Operator, data: Any, axis: int | None, size: int) -> tuple[int, int] | None:
    """Axis and size of blocks along a channel's inputs; None where there is no whole number of them."""
    if not size or axis is None or operator.code not in ("Conv", "MatMul", "Gemm") or data.ndim < 2:
        return None
    # Of a convolution's [outputs, inputs, picture...], and of a matrix the other one.
    along = 1 if operator.code == "Conv" else data.ndim - 2 if axis % data.ndim == data.ndim - 1 else 1
    return (along, size) if data.shape[along] >= size and data.shape[along] % size == 0 else None
