"""Recurrent layers as matrix products: those in the bodies of loops, and operators that hold a whole cell.

A cell multiplies what it reads of a sequence, and its own state of the step before. An operator of a cell
gives that state for all steps, so that both are seen from outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from thinflow.onnx import program as onnx
from thinflow.quantize.integer_lstm import CODE, STATE_MATRICES, float_matrices
from thinflow.quantize.kernels import is_float
from thinflow.quantize.loop_runner import looped_bodies
from thinflow.quantize.products import Dense, Product, products_in_loop
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.small_weights import split_bodies, splits_products
from thinflow.tflite import model as tflite
from thinflow.typing import Array


def cell_products(program: tflite.Program | onnx.Program, recipe: Recipe) -> Iterator[Product]:
    """Products of recurrent layers with constant weights, as the recipe's scheme stores these."""
    if isinstance(program, onnx.Program):
        for cell in program.operators:
            if "hidden_size" in cell.options:
                yield from _of_onnx(cell)
        return
    bodies = split_bodies(program) if splits_products(recipe) else program.subgraphs[1:]
    for number in looped_bodies(program):
        yield from products_in_loop(bodies[number - 1])
    for operator in program.subgraphs[0].operators:
        yield from _of_lstm(operator)


def _of_lstm(operator: tflite.Operator) -> Iterator[Product]:
    """Those of LiteRT's LSTM."""
    if operator.code != CODE or operator.inputs[0] is None:
        return
    x, y = operator.inputs[0], operator.outputs[0]
    for number, w in float_matrices(operator).items():
        read = y if number in STATE_MATRICES else x
        if w.shape is not None and read.shape is not None and w.shape[1:] == tuple(read.shape[-1:]):
            yield Dense(operator, read, w, False)


@dataclass(frozen=True, eq=False)
class Gates(Product):
    """All gates of ONNX's recurrent op, for its input [steps,batch,inputs] or its state; groups are its
    directions. Where a gate reads of the state what another one lets through, it is taken for all of it.
    """

    def matrix(self, w: Array) -> Array:
        return w

    def restored(self, matrix: Array) -> Array:
        return matrix

    def count(self, values: Array) -> int:
        directions: int = values.shape[1] if values.ndim == 4 else 1
        return values.size // int(values.shape[-1] * directions)

    def rows(self, values: Array, chosen: Array) -> Array:
        directions, _, columns = self.sizes
        if values.ndim == 3:
            rows = values.reshape(1, -1, columns)[:, chosen]
            return np.broadcast_to(rows, (directions, *rows.shape[1:]))
        # [steps, directions, batch, state]
        states: Array = np.moveaxis(values, 1, 0).reshape(directions, -1, columns)[:, chosen]
        return states


def _of_onnx(cell: onnx.Operator) -> Iterator[Product]:
    x, *matrices = cell.inputs[:3]
    y = cell.outputs[0] if cell.outputs else None
    for read, w in zip((x, y), matrices, strict=False):
        if read is None or not read.name or w is None or not w.is_constant or not is_float(w):
            continue
        # Batches that come first are another order of dimensions.
        if w.array().ndim == 3 and not cell.options.get("layout"):
            yield Gates(cell, read, w, False)
