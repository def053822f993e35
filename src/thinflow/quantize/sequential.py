"""GPTQ layer after layer, each for the inputs that the layers rounded before it leave.

    minimize |W X - Wq Xq|^2        X of the float network, Xq of the network as it is rounded by then

With D = X - Xq the best real weights are W' = W + W D Xq^T (Xq Xq^T + damping)^-1, and Wq is W' rounded as in
`gptq`, by Xq Xq^T. So a layer makes up for what those before it did (as Li et al., GPTAQ, ICML 2025, do).
Biases take what is left of the means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from thinflow.onnx import program as onnx
from thinflow.program.model import Tensor
from thinflow.quantize.calibrate import watch
from thinflow.quantize.cell_products import cell_products
from thinflow.quantize.gptq import BUDGET, GptqRounding, Solver
from thinflow.quantize.grams import (
    MOST_SAMPLES,
    Layer,
    Reader,
    Some,
    affordable_samples,
    layers_of,
)
from thinflow.quantize.products import Product, products
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.rounding import NEAREST, Grid, Rounding
from thinflow.quantize.runners import Feed, Runner, runner_of
from thinflow.quantize.schemes import quantize_program
from thinflow.quantize.steps import steps_of
from thinflow.quantize.weights import memory_key
from thinflow.tflite import model as tflite
from thinflow.typing import Array, Progress

# Of the power of inputs: variances below are rounding of their sums.
_SUMS = 1e-3

Key = tuple[Any, ...]


@dataclass(eq=False)
class Paired(Layer):
    """Statistics of what a layer reads in a rounded network, and of how far that is from float.

    Attributes:
        crosses: float32 [groups, inputs, inputs] for each part: sums of (x - xq)^T xq.
        lags: float64 [groups, inputs]: sums of x - xq, over all rows.
        counted_lags: the same over the rows in `crosses`.
        wanted: float32 [1, rows, inputs]: x of the rows in `held`.
        is_first: whether it makes up for what its inputs lost; see `steps`.
    """

    crosses: list[Array] = field(default_factory=list, repr=False)
    lags: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    counted_lags: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    wanted: list[Array] = field(default_factory=list, repr=False)
    is_first: bool = True

    @property
    def bytes(self) -> int:
        return 2 * super().bytes

    def begin(self) -> None:
        super().begin()
        self.crosses = [np.zeros_like(gram) for gram in self.grams]
        self.lags, self.counted_lags = np.zeros_like(self.sums), np.zeros_like(self.sums)
        self.wanted = []

    def drop(self) -> None:
        super().drop()
        self.crosses, self.wanted = [], []

    def add_pair(self, rows: Array, wanted: Array) -> None:
        """Count rows [groups, n, inputs] of the rounded network, and the same of the float one."""
        lag = wanted - rows
        self.lags += lag.sum(axis=1, dtype=np.float64)
        judges = self.judges(rows.shape[1])
        if judges.any():
            self.wanted.append(np.ascontiguousarray(wanted[:, judges]))
        self.counted_lags += lag[:, ~judges].sum(axis=1, dtype=np.float64)
        for part, cross in zip(self.parts, self.crosses, strict=True):
            some = lag[:, ~judges][:, :, part].transpose(0, 2, 1)
            cross += some @ np.ascontiguousarray(rows[:, ~judges][:, :, part], np.float32)
        self.add(rows)

    @property
    def lag_means(self) -> Array:
        """float64 [groups, inputs]: means of x - xq; 0 where others make up for it."""
        return self.lags * (self.is_first / max(self.seen, 1))

    @property
    def float_means(self) -> Array:
        """float64 [groups, inputs] of each input in the float network."""
        return self.means + self.lag_means

    def target(self, w: Array, damping: float) -> Array:
        """The real weights, of the shape of `w`, that make up for what the inputs lost.

        Args:
            damping: beside the mean of the diagonal.
        """
        if not self.is_first:
            return np.asarray(w)
        matrix = self.product.matrix(np.asarray(w))
        target = matrix.astype(np.float64)
        for part, gram, cross in zip(self.parts, self.grams, self.crosses, strict=True):
            h, c = (np.asarray(m, np.float64) / max(self.count, 1) for m in (gram, cross))
            power = np.diagonal(h, axis1=1, axis2=2).mean(axis=1)
            if self.is_centred:
                mean, lag = (a[:, part] / max(self.count, 1) for a in (self.counted, self.counted_lags))
                h = h - mean[:, :, None] * mean[:, None, :]
                c = c - lag[:, :, None] * mean[:, None, :]
            size = np.diagonal(h, axis1=1, axis2=2).mean(axis=1)
            # float32 sums of inputs whose mean is far larger than what they vary by hold little of that.
            size = np.maximum(size, _SUMS * power)
            size = np.where(size > 0, size, 1.0) * damping
            h = h + size[:, None, None] * np.eye(h.shape[1])
            try:
                made_up = np.linalg.solve(h, c.transpose(0, 2, 1)).transpose(0, 2, 1)
            except np.linalg.LinAlgError:
                return np.asarray(w)
            target[:, :, part] += matrix[:, :, part] @ made_up
        if not np.isfinite(target).all():
            return np.asarray(w)
        return np.ascontiguousarray(self.product.restored(target.astype(np.float32)))


class _PairedSolver(Solver):
    """Rounds to what makes up for the inputs, and judges by what the float network wants."""

    def __init__(self, layer: Paired) -> None:
        super().__init__(layer)
        self.paired = layer
        self._aims: dict[float, Array] = {}
        rows = np.concatenate(layer.wanted, axis=1) if layer.wanted else np.zeros((1, 0, 0))
        if rows.shape[1] and layer.is_first:
            means = layer.float_means[:, None].astype(np.float32)
            self._wanted = rows - means if layer.is_centred else rows

    def aim(self, w: Array) -> Array:
        if self.damping not in self._aims:
            self._aims[self.damping] = self.paired.target(w, self.damping)
        return self._aims[self.damping]


class SequentialRounding(Rounding):
    """Rounds layers that were looked at one after the other.

    Args:
        waiting: the layers.
        others: rounds all others.
    """

    def __init__(self, waiting: Iterable[Key], others: Rounding = NEAREST) -> None:
        self._others = others
        self.layers: dict[Key, Paired] = {}
        self._waiting = set(waiting)
        self._codes: dict[Key, Array] = {}
        self._grids: dict[Key, Grid] = {}

    def look_at(self, layers: Mapping[Key, Paired]) -> None:
        """Take layers with statistics as the next ones."""
        self.layers.update(layers)
        self._waiting -= layers.keys()

    def codes(self, w: Array, grid: Grid) -> Array:
        layer = self.layers.get(memory_key(w))
        if layer is None or not layer.count:
            return self._others.codes(w, grid)
        key = (memory_key(w), *grid.key)
        if key not in self._codes:
            # A grid that was not asked for while the statistics were there is none of this recipe's.
            self._codes[key] = _PairedSolver(layer).best(w, grid) if layer.grams else NEAREST.codes(w, grid)
        return self._codes[key]

    def clipped(self, w: Array, grid: Grid) -> Grid:
        layer = self.layers.get(memory_key(w))
        if layer is None or not layer.count:
            # Layers behind those that are looked at now are not run.
            return grid if memory_key(w) in self._waiting else self._others.clipped(w, grid)
        key = (memory_key(w), *grid.key)
        if key not in self._grids:
            if not layer.grams:
                return NEAREST.clipped(w, grid)
            self._grids[key] = _PairedSolver(layer).damped(w, grid).clipped(w, grid)
        return self._grids[key]

    def bias(self, w: Array, grid: Grid, bias: Array) -> Array:
        layer = self.layers.get(memory_key(w))
        if layer is None or not layer.count:
            return self._others.bias(w, grid, bias)
        if not layer.is_centred:
            return bias
        real = grid.real(self.codes(w, grid))
        return layer.product.corrected_bias(bias, w, layer.float_means, real, layer.means)


def sequential_rounding(
    program: tflite.Program | onnx.Program,
    recipe: Recipe,
    ranges: Any,
    feeds: Sequence[Feed],
    *,
    threads: int = 1,
    progress: Progress | None = None,
    **choices: Any,
) -> SequentialRounding:
    """A rounding of the program's weights, layer after layer as they run.

    Layers of operators that the recipe keeps float are left out; recurrent ones are rounded by what they read
    in the float network.

    Args:
        ranges: of activations, as for `quantize_program`; so are `choices`.
        feeds: samples; no iterator.

    Raises:
        FeedError: a sample does not fit the inputs, or there are no samples.
        EngineUnavailable: the runtime is missing or cannot run one of the programs.
    """
    trial = replace(recipe, input_type="float32", output_type="float32", columns="off")
    layers = layers_of(p for p in products(program) if not recipe.why_skipped(p.operator))
    some = Some(feeds, min(affordable_samples(program, layers.values()), MOST_SAMPLES))
    cells = layers_of(p for p in cell_products(program, recipe) if not recipe.why_skipped(p.operator))
    result = SequentialRounding(layers, GptqRounding(program, cells, feeds, threads))
    # Two Gram matrices are held for each layer.
    steps = steps_of(program, layers, 2 * len(some), BUDGET / 2)
    for number, step in enumerate(steps):
        made = quantize_program(program, trial, ranges, rounding=result, **choices)
        for layer in result.layers.values():
            layer.drop()
        chosen = {
            key: Paired(there, layers[key].groups, layers[key].inputs, layers[key].parts)
            for key in step.keys
            if (there := layers[key].products_in(made))
        }
        _gather(program, made.program, layers, chosen, some, threads)
        for key, layer in chosen.items():
            layer.is_first = key in step.first
        result.look_at(chosen)
        if progress is not None:
            progress(number + 1, len(steps), "rounding weights")
    # Codes of the last layers come about while their statistics are there.
    quantize_program(program, trial, ranges, rounding=result, **choices)
    for layer in result.layers.values():
        layer.drop()
    return result


class _PairReader(Reader):
    """Shows layers rows of a tensor beside those of the float network."""

    def __init__(self, samples: int, beside: Runner, tensor: Tensor) -> None:
        super().__init__(samples)
        self.beside, self.tensor = beside, tensor

    def show(self, layer: Layer, product: Product, values: Array, chosen: Array) -> None:
        assert isinstance(layer, Paired), "only these are watched here"
        wanted = self.beside.view(self.tensor)
        if wanted.shape == values.shape:
            rows = product.rows(wanted, chosen)
            if np.isfinite(rows).all():
                layer.add_pair(product.rows(values, chosen), rows)


class _Both:
    """Runs a program and a float one beside it."""

    def __init__(self, made: Runner, beside: Runner) -> None:
        self.made, self.beside = made, beside

    def run(self, feed: Feed, where: str) -> None:
        self.beside.run(feed, where)
        self.made.run(feed, where)

    def view(self, tensor: Any) -> Array:
        return self.made.view(tensor)


def _gather(
    program: tflite.Program | onnx.Program,
    made: tflite.Program | onnx.Program,
    layers: Mapping[Key, Layer],
    chosen: Mapping[Key, Paired],
    feeds: Some,
    threads: int,
) -> None:
    """Fill the statistics of layers of a made program, with what the float one holds there."""
    pairs = [
        (after.x, before.x, layer, after)
        for key, layer in chosen.items()
        for before, after in zip(layers[key].products, layer.products, strict=True)
    ]
    if not pairs:
        return
    beside = runner_of(program, [before for _, before, _, _ in pairs], threads)
    watched: dict[Any, _PairReader] = {}
    for layer in chosen.values():
        layer.begin()
    for x, before, layer, product in pairs:
        watched.setdefault(x, _PairReader(len(feeds), beside, before)).readers.append((layer, product))
    runner = _Both(runner_of(made, watched, threads), beside)
    watch(runner, watched, (), feeds, Recipe(), progress=None)
