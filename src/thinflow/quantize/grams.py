"""Gram matrices of layers' inputs, from samples: which errors of weights cancel out, and which add up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Any

import numpy as np

from thinflow.onnx import program as onnx
from thinflow.program.model import Tensor
from thinflow.quantize.calibrate import watch
from thinflow.quantize.loop_runner import MOST_TURNS, runner_with_loops
from thinflow.quantize.macs import multiplications
from thinflow.quantize.observers import Watcher
from thinflow.quantize.products import Product
from thinflow.quantize.recipe import Quantized, Recipe
from thinflow.quantize.runners import Feed
from thinflow.quantize.weights import memory_key
from thinflow.tflite import model as tflite
from thinflow.typing import Array, Progress

# Inputs of a layer, at float32 16 MB a matrix. Wider layers get one for each equal part of their inputs, and
# what parts have in common is not seen.
WIDEST = 2048
# Rows to a layer: some for each number that is found, and many enough for narrow layers, few enough for wide.
_ROWS_PER_INPUT, _FEWEST_ROWS, _MOST_ROWS = 4, 2048, 8192
# One row in so many judges what the others made, until there are enough of them.
_HELD_OUT, _ENOUGH = 5, 256
# Multiplications of all runs together, about three seconds of LiteRT's kernels on two cores.
_WORK = 20e9
_FEWEST_SAMPLES, MOST_SAMPLES = 32, 128


@dataclass(eq=False)
class Layer:
    """Weights, the layers that multiply by them, and statistics of what these read.

    Attributes:
        products: all of one form.
        parts: slices of the inputs with a Gram matrix each.
        grams: float32 [groups, inputs, inputs] for each part, sums over `count` rows; empty if not gathered.
        sums: float64 [groups, inputs], over all rows, those held out as well.
        counted: the same over the rows in `grams`. Means of others would leave a part of large means in what
            is to be centred.
        held: float32 [1, rows, inputs] pieces that are in no Gram matrix.
    """

    products: list[Product]
    groups: int
    inputs: int
    parts: list[slice] = field(default_factory=list)
    grams: list[Array] = field(default_factory=list, repr=False)
    sums: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    counted: Array = field(default_factory=lambda: np.zeros(0), repr=False)
    count: int = 0
    seen: int = 0
    held: list[Array] = field(default_factory=list, repr=False)

    @property
    def product(self) -> Product:
        return self.products[0]

    @property
    def is_centred(self) -> bool:
        """True if biases can take what rounding does to the mean of each output channel."""
        return all(p.has_bias for p in self.products)

    @property
    def bytes(self) -> int:
        """Memory of the statistics."""
        square = sum((p.stop - p.start) ** 2 for p in self.parts)
        held = _ENOUGH * self.inputs if self.groups == 1 else 0
        return int(4 * (self.groups * square + held) + 16 * self.groups * self.inputs)

    def products_in(self, made: Quantized[Any]) -> list[Product]:
        """The products with what they read in a quantized program; empty if part of them stayed float."""
        found: list[Product] = []
        for product in self.products:
            new = made.made.get(product.operator)
            if new is None:
                return []
            found.append(replace(product, x=new.inputs[product.operator.inputs.index(product.x)]))
        return found

    def begin(self) -> None:
        """Room for statistics; without `parts`, of the means alone."""
        self.grams = [
            np.zeros((self.groups, p.stop - p.start, p.stop - p.start), np.float32) for p in self.parts
        ]
        self.sums, self.counted = (np.zeros((self.groups, self.inputs)) for _ in range(2))
        self.count = self.seen = 0
        self.held = []

    def drop(self) -> None:
        """Free the matrices; the means stay."""
        self.grams, self.held = [], []

    @property
    def means(self) -> Array:
        """float64 [groups, inputs] of each input."""
        return self.sums / max(self.seen, 1)

    def judges(self, count: int) -> Array:
        """bool [count]: which of the next rows are held out."""
        # Where groups are many, inputs of each are few: nothing can be learnt by heart there.
        if not self.grams or self.groups > 1 or self.seen - self.count >= _ENOUGH:
            return np.zeros(count, bool)
        return np.asarray((self.seen + np.arange(count)) % _HELD_OUT == _HELD_OUT - 1)

    def add(self, rows: Array) -> None:
        """Count rows [groups, n, inputs]."""
        self.sums += rows.sum(axis=1, dtype=np.float64)
        judges = self.judges(rows.shape[1])
        self.seen += rows.shape[1]
        if judges.any():
            self.held.append(np.ascontiguousarray(rows[:, judges]))
            rows = rows[:, ~judges]
        self.count += rows.shape[1]
        self.counted += rows.sum(axis=1, dtype=np.float64)
        for part, gram in zip(self.parts, self.grams, strict=True):
            some = np.ascontiguousarray(rows[:, :, part], np.float32)
            gram += some.transpose(0, 2, 1) @ some


def layers_of(found: Iterable[Product]) -> dict[tuple[Any, ...], Layer]:
    """Products by the memory of their weights; weights that are used in two forms are left out."""
    layers: dict[tuple[Any, ...], Layer] = {}
    mixed = set()
    for product in found:
        w = np.asarray(product.weights.array())
        groups, _, inputs = product.matrix(w).shape
        layer = layers.setdefault(memory_key(w), Layer([], groups, inputs))
        if layer.products and (type(product), groups) != (type(layer.product), layer.groups):
            mixed.add(memory_key(w))
        layer.products.append(product)
    for layer in layers.values():
        count = -(-layer.inputs // WIDEST)
        edges = [layer.inputs * n // count for n in range(count + 1)]
        layer.parts = [slice(*pair) for pair in pairwise(edges)]
    return {key: layer for key, layer in layers.items() if key not in mixed}


class Reader(Watcher):
    """Shows layers some rows of one tensor."""

    def __init__(self, samples: int) -> None:
        self.readers: list[tuple[Layer, Product]] = []
        self.samples = samples
        self.number = 0

    def observe(self, values: Array, low: float, high: float) -> None:
        # The same rows every time, of other places of every sample.
        random = np.random.default_rng(self.number)
        self.number += 1
        for layer, product in self.readers:
            if not product.fits(values):
                continue
            values = real_numbers(values, product.x)
            count = product.count(values)
            share = max(self.samples * len(layer.products), 1)
            wanted = min(max(_ROWS_PER_INPUT * layer.inputs, _FEWEST_ROWS), _MOST_ROWS)
            taken = min(-(-wanted // share), count)
            # One from each of as many equal stretches: evenly spread, and not along one column of a picture.
            chosen = ((np.arange(taken) + random.random(taken)) * count / max(taken, 1)).astype(np.int64)
            self.show(layer, product, values, np.minimum(chosen, count - 1))

    def show(self, layer: Layer, product: Product, values: Array, chosen: Array) -> None:
        """Let a layer count some rows of an input, by number."""
        layer.add(product.rows(values, chosen))


def real_numbers(values: Array, tensor: Tensor) -> Array:
    """The numbers that the codes of a quantized program's tensor stand for."""
    grid = tensor.quantization
    if grid is None or values.dtype.kind != "i":
        return values
    return (values.astype(np.float32) - grid.zero_point.astype(np.float32)) * grid.scale


def gather(
    program: tflite.Program | onnx.Program,
    layers: Sequence[Layer],
    feeds: Iterable[Feed],
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> None:
    """Fill the statistics of layers.

    Raises:
        FeedError: a sample does not fit the inputs, or there are no samples.
        EngineUnavailable: the runtime is missing or cannot run the program.
    """
    samples = len(feeds) if isinstance(feeds, Sized) else MOST_SAMPLES
    watched: dict[Any, Reader] = {}
    for layer in layers:
        layer.begin()
        for product in layer.products:
            watched.setdefault(product.x, Reader(samples)).readers.append((layer, product))
    watch(runner_with_loops(program, watched, threads), watched, (), feeds, Recipe(), progress=progress)


class Some(Iterable[Feed]):
    """Evenly chosen ones of some samples."""

    def __init__(self, feeds: Iterable[Feed], most: int) -> None:
        self.feeds = feeds
        # How many there are is not always known; then they are the first.
        self.count = min(len(feeds), most) if isinstance(feeds, Sized) else most
        self.step = -(-len(feeds) // most) if isinstance(feeds, Sized) else 1

    def __iter__(self) -> Iterator[Feed]:
        return islice(self.feeds, 0, self.count * self.step, max(self.step, 1))

    def __len__(self) -> int:
        return -(-len(self.feeds) // self.step) if isinstance(self.feeds, Sized) and self.step else self.count


def affordable_samples(program: tflite.Program | onnx.Program, layers: Iterable[Layer]) -> int:
    """The number of samples that can be run, by the multiplications of some layers of a program."""
    costs = multiplications(program)
    each = sum(
        product.weights.array().size * MOST_TURNS if product.in_loop else costs.get(product.operator, 0)
        for layer in layers
        for product in layer.products
    )
    return int(min(max(_WORK / max(each, 1), _FEWEST_SAMPLES), MOST_SAMPLES))
