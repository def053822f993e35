"""Rounding of weights one input at a time, each making up for what those before it did to the output.

    minimize |R (w - s q)|^2 over integers q,  R^T R = X^T X + damping

by rounding the last entry first, and then each to where it cancels most of the errors so far (Frantar et al.,
GPTQ, ICLR 2023; in lattice terms Babai's nearest plane). Layers with a bias are spared the mean of the
error, which the bias takes back: there X is centred.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from thinflow.onnx import program as onnx
from thinflow.quantize.cell_products import cell_products
from thinflow.quantize.grams import Layer, Some, affordable_samples, gather, layers_of
from thinflow.quantize.products import products
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.rounding import NEAREST, Grid, Rounding
from thinflow.quantize.runners import Feed
from thinflow.quantize.weights import memory_key
from thinflow.tflite import model as tflite
from thinflow.typing import Array, Progress

BUDGET = 200_000_000
"""Bytes of statistics that are held at a time; more layers need another walk through the samples."""
# Of the mean of the diagonal. Keeps what few samples do not show from being taken for free.
_DAMPING = 0.01
# Where rows are few beside inputs, more of it may be better, which rows that were held out tell. With 490
# inputs and 160 rows 0.01 costs the autoencoder of `benchmarks/ptq` 7 dB at four bits.
_DAMPINGS, _MANY_ROWS = (_DAMPING, 0.1, 1.0), 8
# Columns that are made up for one by one before the others are, by one product.
_BLOCK = 64
# Scales that few bits may have beside their largest weight.
_FACTORS = np.linspace(1.0, 0.5, 11)


def gptq_rounding(
    program: tflite.Program | onnx.Program,
    recipe: Recipe,
    feeds: Iterable[Feed],
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> GptqRounding:
    """A rounding of the program's weights by what samples show of the layers' inputs.

    Layers of operators that the recipe keeps float are left out.

    Args:
        feeds: samples; no iterator. Some hundred are looked at, fewer of large programs.

    Raises:
        FeedError: a sample does not fit the inputs, or there are no samples.
        EngineUnavailable: the runtime is missing or cannot run the program.
    """
    found = [*products(program), *cell_products(program, recipe)]
    layers = layers_of(p for p in found if not recipe.why_skipped(p.operator))
    return GptqRounding(program, layers, feeds, threads, progress)


class GptqRounding(Rounding):
    """Rounds the weights of some layers of a program; others to the nearest.

    Attributes:
        notes: what was not rounded so, or not as well as it could be.
    """

    def __init__(
        self,
        program: tflite.Program | onnx.Program,
        layers: dict[tuple[Any, ...], Layer],
        feeds: Iterable[Feed],
        threads: int = 1,
        progress: Progress | None = None,
    ) -> None:
        self.program, self.layers = program, layers
        self.feeds = Some(feeds, affordable_samples(program, layers.values()))
        self.threads, self.progress = threads, progress
        self.notes: list[str] = []
        self._codes: dict[tuple[Any, ...], Array] = {}
        self._grids: dict[tuple[Any, ...], Grid] = {}
        self._order = list(layers.values())
        # Before anything is asked: samples that do not fit are refused here.
        if self._order:
            self._gather(self._order[0])

    def codes(self, w: Array, grid: Grid) -> Array:
        layer = self.layers.get(memory_key(w))
        if layer is None:
            return NEAREST.codes(w, grid)
        key = (*memory_key(w), *grid.key)
        if key not in self._codes:
            self._codes[key] = Solver(layer).best(w, grid) if self._fill(layer) else NEAREST.codes(w, grid)
        return self._codes[key]

    def bias(self, w: Array, grid: Grid, bias: Array) -> Array:
        layer = self.layers.get(memory_key(w))
        if layer is None or not layer.is_centred:
            return bias
        real = grid.real(self.codes(w, grid))
        return layer.product.corrected_bias(bias, w, layer.means, real, layer.means)

    def clipped(self, w: Array, grid: Grid) -> Grid:
        layer = self.layers.get(memory_key(w))
        if layer is None or not self._fill(layer):
            return NEAREST.clipped(w, grid)
        key = (*memory_key(w), *grid.key)
        if key not in self._grids:
            self._grids[key] = Solver(layer).damped(w, grid).clipped(w, grid)
        return self._grids[key]

    def _fill(self, layer: Layer) -> bool:
        """See to it that a layer has its statistics; False if samples showed nothing of it."""
        if not layer.grams:
            self._gather(layer)
        return layer.count > 0

    def _gather(self, first: Layer) -> None:
        """Statistics of a layer and of those that follow it, as many as may be held."""
        for layer in self._order:
            layer.drop()
        chosen = list(_within(self._order[self._order.index(first) :], BUDGET))
        gather(self.program, chosen, self.feeds, threads=self.threads, progress=self.progress)
        for layer in chosen:
            if len(layer.parts) > 1:
                name = layer.product.weights.name
                note = f"'{name}' has {layer.inputs} inputs, which are rounded in {len(layer.parts)} parts"
                self.notes += [note] if note not in self.notes else []


def _within(layers: list[Layer], budget: int) -> Iterator[Layer]:
    """Layers from the first on, until memory is used up; the first in any case."""
    left = budget
    for number, layer in enumerate(layers):
        left -= layer.bytes
        if number and left < 0:
            return
        yield layer


class Solver:
    """Rounds weights of one layer by its Gram matrices, and judges roundings."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        w = layer.product.weights.array()
        self.shape = layer.product.matrix(w).shape
        self.damping = _DAMPING
        self._factors: dict[float, list[tuple[Array, Array]]] = {}
        self._held: Array | None = None
        rows = np.concatenate(layer.held, axis=1) if layer.held else np.zeros((1, 0, 0))
        if rows.shape[1]:
            means = layer.means[:, None].astype(np.float32)
            self._held = rows - means if layer.is_centred else rows
        # What the same rows are without rounding.
        self._wanted = self._held

    def gram(self, part: slice) -> Array:
        """float64 [groups, inputs, inputs], mean over rows; centred where a bias takes the mean."""
        layer = self.layer
        gram = layer.grams[layer.parts.index(part)].astype(np.float64) / layer.count
        if layer.is_centred:
            mean = layer.counted[:, part] / layer.count
            gram -= mean[:, :, None] * mean[:, None, :]
        return gram

    def best(self, w: Array, grid: Grid) -> Array:
        """int8 codes of the weights' shape: the nearest, unless others do less to the output."""
        nearest = NEAREST.codes(w, grid)
        codes = self.damped(w, grid).codes(w, grid)
        before, after = (self.judged(w, c, grid) for c in (nearest, codes))
        # Written so that an error that is no number keeps the nearest.
        return codes if after < before else nearest

    def damped(self, w: Array, grid: Grid) -> Solver:
        """Itself, with the damping that suits rows which were held out."""
        if self._held is not None and self.layer.count < _MANY_ROWS * self.layer.inputs:
            errors = {}
            for self.damping in _DAMPINGS:
                errors[self.damping] = self.judged(w, self.codes(w, grid), grid)
            self.damping = min(errors, key=errors.__getitem__)
        return self

    def aim(self, w: Array) -> Array:
        """The real numbers, of the weights' shape, that codes shall come near."""
        return w

    def judged(self, w: Array, codes: Array, grid: Grid) -> float:
        """The mean square of what rounding does to the output, by held out rows if there are any."""
        if self._held is None:
            return float(self.errors(self.aim(w), codes, grid).sum())
        matrix = self.layer.product.matrix
        wanted = self._wanted @ matrix(w).transpose(0, 2, 1)
        made = self._held @ matrix(grid.real(codes).astype(np.float32)).transpose(0, 2, 1)
        return float(np.square(wanted - made, dtype=np.float64).mean(axis=1).sum())

    def codes(self, w: Array, grid: Grid) -> Array:
        """int8 codes of the weights' shape."""
        product = self.layer.product
        matrix = product.matrix(self.aim(w)).astype(np.float32)
        # One step for all inputs, unless these are in blocks.
        wide = grid.block is not None
        scales = product.matrix(np.broadcast_to(grid.along(w.ndim), w.shape)).astype(np.float32)
        scales = scales if wide else scales[:, :, :1]
        if self.damping not in self._factors:
            grams = map(self.gram, self.layer.parts)
            self._factors[self.damping] = [_factor(gram, self.damping) for gram in grams]
        found = []
        for part, (order, factors) in zip(self.layer.parts, self._factors[self.damping], strict=True):
            # [groups, inputs, outputs]: what is made up for at a time lies together.
            w = np.take_along_axis(matrix[:, :, part].transpose(0, 2, 1), order[:, :, None], axis=1)
            step = (scales[:, :, part] if wide else scales).transpose(0, 2, 1)
            step = np.take_along_axis(step, order[:, :, None], axis=1) if wide else step
            back = np.empty(w.shape, np.int8)
            np.put_along_axis(back, order[:, :, None], _successive(w, step, grid, factors), axis=1)
            found.append(back.transpose(0, 2, 1))
        return np.ascontiguousarray(product.restored(np.concatenate(found, axis=2)))

    def clipped(self, w: Array, grid: Grid) -> Grid:
        """The grid whose channels may be finer and leave out their largest weights."""
        if grid.block is not None:
            # So few weights have a scale that what they are says more than what they do.
            return NEAREST.clipped(w, grid)
        others = None if grid.axis is None else tuple(n for n in range(w.ndim) if n != grid.axis)
        best, found = np.full(grid.scales.shape, np.inf), grid.scales.copy()
        aim = self.aim(w)
        for factor in _FACTORS:
            tried = grid._replace(scales=(grid.scales * factor).astype(np.float32))
            errors = self.errors(aim, self.codes(w, tried), tried)
            each = self.layer.product.restored(np.broadcast_to(errors[:, :, None], self.shape))
            error = np.atleast_1d(each.sum(axis=others))
            # From the widest on, and only what is better replaces it: ties keep what clips least.
            is_better = error < best
            found[is_better], best[is_better] = tried.scales[is_better], error[is_better]
        return grid._replace(scales=found)

    def errors(self, w: Array, codes: Array, grid: Grid) -> Array:
        """float64 [groups, outputs] mean squares of what rounding does to the output, by all other rows."""
        error = self.layer.product.matrix(w - grid.real(codes))
        total = np.zeros(self.shape[:2])
        for part in self.layer.parts:
            some = error[:, :, part]
            total += ((some @ self.gram(part)) * some).sum(axis=2)
        return total


def _factor(gram: Array, part: float) -> tuple[Array, Array]:
    """Order of inputs [groups, inputs], and in it factors [groups, inputs, inputs] of errors to make up for.

    The loudest inputs come last, and are rounded first: what is left to make up for then is small.

    Args:
        part: damping beside the mean of the diagonal.
    """
    diagonal = np.diagonal(gram, axis1=1, axis2=2)
    order = np.argsort(diagonal, axis=1, kind="stable")
    gram = np.take_along_axis(gram, order[:, :, None], axis=1)
    gram = np.take_along_axis(gram, order[:, None, :], axis=2)
    size = diagonal.mean(axis=1)
    # An input that is always 0 (a dead channel, say) is nothing but damping: its weights become the nearest.
    damping = np.where(size > 0, size, 1.0) * part
    step = np.arange(gram.shape[1])
    lower = np.broadcast_to(np.eye(len(step)), gram.shape)
    is_finite = bool(np.isfinite(gram).all())
    gram = gram if is_finite else lower.copy()
    for _ in range(8):
        gram[:, step, step] += damping[:, None] if is_finite else 0
        try:
            lower = np.linalg.cholesky(gram)
            break
        except np.linalg.LinAlgError:
            # float32 sums of inputs with a large mean: more of it until it holds.
            damping = damping * 10
    factors = lower / np.diagonal(lower, axis1=1, axis2=2)[:, None, :]
    return order, factors.astype(np.float32)


def _successive(w: Array, step: Array, grid: Grid, factors: Array) -> Array:
    """int8 [groups, inputs, outputs] codes of weights, rounded from the last input to the first.

    Args:
        step: [groups, inputs, outputs], or [groups, 1, outputs] for all inputs.
    """
    # With a zero point it is the file's own grid of 256 steps; without, kernels rely on -128 not being used.
    low, high = (-128, 127) if grid.zero_point else (-grid.limit, grid.limit)
    error, codes = np.zeros_like(w), np.zeros(w.shape, np.int8)
    for end in range(w.shape[1], 0, -_BLOCK):
        start = max(end - _BLOCK, 0)
        wanted = w[:, start:end].copy()
        if end < w.shape[1]:
            wanted += factors[:, end:, start:end].transpose(0, 2, 1) @ error[:, end:]
        for n in range(end - 1, start - 1, -1):
            one = step[:, n if step.shape[1] > 1 else 0]
            code = np.clip(np.rint(wanted[:, n - start] / one) + grid.zero_point, low, high)
            codes[:, n] = code
            # Of the weight itself, not of what was wanted in its place: the factors take whole errors.
            error[:, n] = w[:, n] - (code - grid.zero_point) * one
            wanted[:, : n - start] += factors[:, n, start:n, None] * error[:, n, None]
    return codes
