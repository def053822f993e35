"""Shapes, the order of axes, and tensors made of sizes and numbers."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import DOUBLE, FLOAT, INT32, INT64, DType, dtype
from thinflow.lower.onnx.builder import Builder, ints, number, require, shape_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.onnx.protos import ELEMENT_TYPES

_MOST = 1 << 22
"""Elements of a constant that is made here and is in no file."""


@lower("Reshape", to="onnx")
def reshape(b: Builder, node: Node, x: Tensor, shape: Tensor) -> Tensor:
    """With fixed sizes where they are known, even if computed by the model."""
    result = b.result_spec().shape
    # -1 cannot be worked out beside a size of 0: any number would do.
    if result is not None and result.count(None) <= 1 and not (None in result and 0 in result):
        return b.result(b.reshaped(x, result))
    wanted = b.elements(shape)
    sizes = None if wanted is None else [-1 if n is None else n for n in wanted]
    if sizes is not None and sizes.count(-1) <= 1:
        return b.emit("Reshape", x, b.ints(sizes, "shape"), **b.keep_zeros(sizes))
    # Sizes that are known only when it runs may be 0, which must not mean "as before".
    return b.emit("Reshape", x, b.index(shape), allowzero=1)


@lower("ExpandDims", to="onnx")
def expand_dims(b: Builder, node: Node, x: Tensor, dim: Tensor) -> Tensor:
    (axis,) = ints(dim, "the axis")
    return b.result(b.unsqueezed(x, [axis]))


@lower("Squeeze", to="onnx")
def squeeze(b: Builder, node: Node, x: Tensor, *, squeeze_dims: tuple[int, ...] = ()) -> Tensor:
    """Without a list of axes, all of size 1 go."""
    if squeeze_dims:
        return b.result(b.squeezed(x, squeeze_dims))
    if x.shape is not None and None not in x.shape:
        return b.result(b.squeezed(x, [a for a, n in enumerate(x.shape) if n == 1]))
    return b.emit("Squeeze", x)


@lower("Transpose", to="onnx")
def transpose(b: Builder, node: Node, x: Tensor, perm: Tensor) -> Tensor:
    order = ints(perm, "the order of axes")
    order = tuple(a % len(order) for a in order)
    require(sorted(order) == list(range(len(order))), f"{list(order)} is no order of axes")
    require(x.shape is None or len(x.shape) == len(order), "the order of axes has another rank than x")
    return b.result(b.transposed(x, order))


@lower("Shape", to="onnx")
def shape(b: Builder, node: Node, x: Tensor, *, out_type: DType = INT32) -> Tensor:
    return b.result(b.cast(b.sizes_of(x), out_type))


@lower("ShapeN", to="onnx")
def shape_n(b: Builder, node: Node, *xs: Tensor, out_type: DType = INT32) -> tuple[Tensor, ...]:
    return tuple(b.result(b.cast(b.sizes_of(x), out_type), port) for port, x in enumerate(xs))


@lower("Size", to="onnx")
def size(b: Builder, node: Node, x: Tensor, *, out_type: DType = INT32) -> Tensor:
    return b.cast(b.step("Size", x, shape=(), element=INT64), out_type)


@lower("Rank", to="onnx")
def rank(b: Builder, node: Node, x: Tensor) -> Tensor:
    if x.shape is not None:
        return b.const(np.int32(len(x.shape)), "rank")
    shape = b.step("Shape", x, shape=(None,), element=INT64)
    return b.cast(b.step("Size", shape, shape=(), element=INT64), INT32)


@lower("Cast", to="onnx")
def cast(b: Builder, node: Node, x: Tensor) -> Tensor:
    """Fractions are cut off; what is not zero is true."""
    target = b.result_spec().dtype or dtype(node.get("DstT"))
    if target is x.dtype:
        return x
    return b.emit("Cast", x, to=ELEMENT_TYPES.get(target.name, 0))


@lower("IdentityN", to="onnx")
def identity_n(b: Builder, node: Node, *xs: Tensor) -> tuple[Tensor, ...]:
    return xs


@lower("Tile", to="onnx")
def tile(b: Builder, node: Node, x: Tensor, multiples: Tensor) -> Tensor:
    return b.emit("Tile", x, b.index(multiples))


@lower("BroadcastTo", to="onnx")
def broadcast_to(b: Builder, node: Node, x: Tensor, shape: Tensor) -> Tensor:
    return b.emit("Expand", x, b.index(shape))


@lower("Fill", to="onnx")
def fill(b: Builder, node: Node, dims: Tensor, value: Tensor) -> Tensor:
    if value.is_constant:
        sizes = b.index(dims)
        return b.result(b.filled(sizes, value.array().reshape(()), value.dtype, shape=b.result_spec().shape))
    return b.emit("Expand", value, b.index(dims))


@lower("ZerosLike", "OnesLike", to="onnx")
def zeros_like(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.result(b.filled(b.sizes_of(x), node.op == "OnesLike", x.dtype, shape=x.shape))


@lower("RandomUniform", "RandomStandardNormal", to="onnx")
def random(b: Builder, node: Node, shape: Tensor, *, seed: int = 0, seed2: int = 0) -> Tensor:
    """Other numbers of the same distribution, as TensorFlow itself promises no more."""
    element = b.result_spec().dtype or FLOAT
    require(element in (FLOAT, DOUBLE), f"ONNX Runtime draws no {element}")
    like = b.filled(b.index(shape), 0, element, shape=b.result_spec().shape)
    drawn = seed_of(seed, seed2)
    if node.op == "RandomUniform":
        return b.emit("RandomUniformLike", like, like=like, low=0.0, high=1.0, seed=drawn)
    return b.emit("RandomNormalLike", like, like=like, mean=0.0, scale=1.0, seed=drawn)


@lower("Range", to="onnx")
def range_(b: Builder, node: Node, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    return b.emit("Range", start, limit, delta)


@lower("OneHot", to="onnx")
def one_hot(
    b: Builder, node: Node, indices: Tensor, depth: Tensor, on: Tensor, off: Tensor, *, axis: int = -1
) -> Tensor:
    """A comparison of the indices with 0, 1, ...: to ONNX's own op a negative index counts from the end."""
    count = int(number(depth, "the depth"))
    require(count <= _MOST, f"a depth of {count} is too large")
    rank = len(shape_of(indices, "the indices"))
    place = axis % (rank + 1)
    classes = np.arange(count, dtype=np.int64).reshape([-1 if a == place else 1 for a in range(rank + 1)])
    is_on = b.step("Equal", b.unsqueezed(b.index(indices), [place]), b.const(classes, "classes"))
    return b.emit("Where", is_on, on, off, like=on)


# ---- Tensors made of sizes and numbers, and arithmetic on shapes.


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


@lower("ParallelConcat", to="onnx")
def parallel_concat(b: Builder, node: Node, *xs: Tensor) -> Tensor:
    return b.emit("Concat", *xs, axis=0)


def seed_of(seed: int, seed2: int) -> float | None:
    """ONNX's one seed for TensorFlow's two; None where each run is to draw other numbers, as for two of 0."""
    # ONNX's seed is a float32: whole numbers below 2**24 are exact.
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
