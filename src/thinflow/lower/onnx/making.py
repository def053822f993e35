"""Tensors made of sizes and numbers, and arithmetic on shapes."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import DOUBLE, INT64
from thinflow.lower.onnx.builder import Builder, ints, number, require, shape_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor


@lower("Empty", to="onnx")
def empty(b: Builder, node: Node, sizes: Tensor) -> Tensor:
    """Zeros, also where TensorFlow promises nothing."""
    known = b.result_spec()
    require(known.dtype is not None, "its type is not known")
    assert known.dtype is not None
    return b.result(b.filled(b.index(sizes), 0, b.plain(known.dtype), shape=known.shape))


@lower("LinSpace", to="onnx")
def lin_space(b: Builder, node: Node, start: Tensor, stop: Tensor, count: Tensor) -> Tensor:
    """The last number is `stop` itself, whatever rounding makes of the steps."""
    n = int(number(count, "the number of steps"))
    require(0 < n <= 1 << 22, f"{n} steps")
    first, last = Term(b, b.reshaped(start, ())), Term(b, b.reshaped(stop, ()))
    if n == 1:
        return b.result(first.reshaped(1).tensor)
    places = np.arange(n)
    y = (last - first) / float(n - 1) * places.astype(start.dtype.numpy()) + first
    return b.result(choose(Term(b, b.const(places == n - 1, "last")), last, y).tensor)


@lower("BroadcastArgs", to="onnx")
def broadcast_args(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """The sizes that two shapes broadcast to: 1 gives way to the other, also to 0."""
    ranks = [shape_of(t, "a shape", 1)[0] for t in (x, y)]
    require(None not in ranks, "the rank of a shape is not known")
    rank = max(n or 0 for n in ranks)
    both = []
    for shape, own in zip((x, y), ranks, strict=True):
        ones = b.ints([1] * (rank - (own or 0)), "ones")
        both.append(Term(b, b.joined(ones, b.index(shape)) if own != rank else b.index(shape)))
    return b.result(b.cast(choose(both[0].equals(1), both[1], both[0]).tensor, x.dtype))


@lower("ConcatOffset", to="onnx")
def concat_offset(b: Builder, node: Node, axis: Tensor, *shapes: Tensor) -> tuple[Tensor, ...]:
    """The start of each part: the sizes before it, along the one axis."""
    rank = shape_of(shapes[0], "a shape", 1)[0]
    require(rank is not None, "the rank is not known")
    place = ints(axis, "the axis")[0] % (rank or 1)
    along = b.const(np.arange(rank or 0) == place, "along")
    offset = Term(b, b.ints([0] * (rank or 0), "zeros"))
    results = []
    for port, shape in enumerate(shapes):
        results.append(b.typed(choose(Term(b, along), offset, 0).tensor, port))
        offset = offset + b.index(shape)
    return tuple(results)


@lower("DataFormatDimMap", to="onnx")
def dim_map(
    b: Builder, node: Node, x: Tensor, *, src_format: str = "NHWC", dst_format: str = "NCHW"
) -> Tensor:
    rank = len(src_format)
    require(sorted(src_format) == sorted(dst_format), f"{src_format} and {dst_format} differ")
    table = Term(b, b.ints([dst_format.index(c) for c in src_format], "axes"))
    places = Term(b, b.index(x)).apply("Mod", rank)
    return b.result(b.cast(table.gathered(places.tensor).tensor, x.dtype))


@lower("DataFormatVecPermute", to="onnx")
def vec_permute(
    b: Builder, node: Node, x: Tensor, *, src_format: str = "NHWC", dst_format: str = "NCHW"
) -> Tensor:
    rows = shape_of(x, "x")[0]
    if rows == len(src_format) - 2:
        src_format, dst_format = (f.replace("N", "").replace("C", "") for f in (src_format, dst_format))
    require(rows == len(src_format) and sorted(src_format) == sorted(dst_format), "x has other axes")
    return b.result(Term(b, x).gathered(np.array([src_format.index(c) for c in dst_format])).tensor)


@lower("ParallelConcat", to="onnx")
def parallel_concat(b: Builder, node: Node, *xs: Tensor) -> Tensor:
    return b.emit("Concat", *xs, axis=0)


def seed_of(seed: int, seed2: int) -> float | None:
    """ONNX's one seed for TensorFlow's two; None if it is to be a new one every time."""
    return float((seed * 31 + seed2) % 2**24) if seed or seed2 else None


@lower("RandomUniformInt", to="onnx")
def random_int(
    b: Builder, node: Node, sizes: Tensor, low: Tensor, high: Tensor, *, seed: int = 0, seed2: int = 0
) -> Tensor:
    """Other numbers of the same distribution, as TensorFlow itself promises no more."""
    like = b.filled(b.index(sizes), 0, DOUBLE, shape=b.result_spec().shape)
    drawn = Term(b, b.step("RandomUniformLike", like, low=0.0, high=1.0, seed=seed_of(seed, seed2)))
    least, most = (Term(b, b.cast(t, like.dtype)) for t in (low, high))
    # Rounding may give `most` itself, which is excluded.
    y = (drawn * (most - least) + least).floor().least(most - 1)
    return b.result(b.cast(y.tensor, low.dtype))


@lower("Multinomial", to="onnx")
def multinomial(
    b: Builder, node: Node, logits: Tensor, count: Tensor, *, seed: int = 0, seed2: int = 0
) -> Tensor:
    """Classes drawn by their probabilities: the largest of logits with noise of Gumbel's distribution."""
    rows, classes = shape_of(logits, "the logits", 2)
    n = int(number(count, "the number of samples"))
    require(n > 0 and classes is not None, "the number of samples or classes is not known")
    sizes = b.sizes_of(logits)
    first, last = (b.sliced(sizes, [k], [k + 1], [0], shape=(1,)) for k in (0, 1))
    like = b.filled(b.joined(first, b.ints([n]), last), 0, logits.dtype, shape=(rows, n, classes))
    # Not from 0 on: its logarithm is infinite. 1e-20 is a normal float32.
    drawn = Term(b, b.step("RandomUniformLike", like, low=1e-20, high=1.0, seed=seed_of(seed, seed2)))
    # -log(-log(u)) of a uniform u has Gumbel's distribution.
    noisy = Term(b, b.unsqueezed(logits, [1])) - (-drawn.apply("Log")).apply("Log")
    best = b.step("ArgMax", noisy.tensor, shape=(rows, n), element=INT64, axis=2, keepdims=0)
    return b.typed(best)
