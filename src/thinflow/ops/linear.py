"""Matrix products, biases, and sums of products in index notation."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT, DType, TensorSpec
from thinflow.ops import _special
from thinflow.ops._numeric import like, pick, quiet, widen
from thinflow.ops._shapes import Dim, broadcast, merge, rank_of
from thinflow.ops.registry import Cost, OpDef, Weights, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


def _matmul_dims(
    a: tuple[int | None, ...], b: tuple[int | None, ...], transpose_a: bool, transpose_b: bool
) -> tuple[int | None, int | None]:
    m, k = a[::-1] if transpose_a else a
    k_of_b, n = b[::-1] if transpose_b else b
    require(k == k_of_b or None in (k, k_of_b), f"inner sizes differ: {k} and {k_of_b}")
    return m, n


def _product(a: Array, b: Array) -> Array:
    """a @ b in the type of a; narrow floats accumulate in float32, as TensorFlow's CPU kernels do."""
    if a.dtype.itemsize == 2 and a.dtype.kind not in "iu":
        return like(np.matmul(a.astype(np.float32), b.astype(np.float32)), a)
    return np.asarray(np.matmul(a, b))


@op("MatMul")
class MatMul(OpDef):
    """y = a @ b.   a [m,k] ([k,m] if transpose_a), b [k,n] ([n,k] if transpose_b) -> y [m,n]."""

    traits = Trait.MATMUL | Trait.T_OF_FIRST_INPUT
    weights = Weights(1, 0, (1,), 0, 2, 2)

    @staticmethod
    def infer(
        a: TensorSpec, b: TensorSpec, *, transpose_a: bool = False, transpose_b: bool = False
    ) -> TensorSpec:
        return a.with_shape(_matmul_dims(rank_of(a, 2, "a"), rank_of(b, 2, "b"), transpose_a, transpose_b))

    @staticmethod
    def kernel(a: Array, b: Array, *, transpose_a: bool = False, transpose_b: bool = False) -> Array:
        return _product(a.T if transpose_a else a, b.T if transpose_b else b)

    @staticmethod
    def cost(y: TensorSpec, a: TensorSpec, b: TensorSpec, *, transpose_a: bool = False) -> Cost:
        assert a.shape is not None
        assert y.size is not None
        macs = y.size * (a.shape[0 if transpose_a else 1] or 0)
        return Cost(flops=2 * macs, macs=macs)


@op("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
class BatchMatMul(OpDef):
    """y = a @ b per matrix.

    a [..., m,k], b [..., k,n] -> y [..., m,n]; leading axes broadcast; adj_* conjugate-transposes.

    V3 takes two types and sums in a third, Tout: int8 by int8 gives int32.
    """

    traits = Trait.MATMUL | Trait.T_OF_FIRST_INPUT
    weights = Weights(1, 0, (1,), 0, 2, None)

    @staticmethod
    def infer(
        a: TensorSpec, b: TensorSpec, *, adj_x: bool = False, adj_y: bool = False, Tout: DType | None = None
    ) -> TensorSpec:
        element = a.dtype if Tout is None else Tout
        if a.shape is None or b.shape is None:
            return TensorSpec(element)
        require(len(a.shape) >= 2 and len(b.shape) >= 2, f"both sides need rank 2 or more, got {a} and {b}")
        lead = broadcast(a.shape[:-2], b.shape[:-2])
        assert lead is not None
        return TensorSpec(element, lead + _matmul_dims(a.shape[-2:], b.shape[-2:], adj_x, adj_y))

    @staticmethod
    def kernel(
        a: Array, b: Array, *, adj_x: bool = False, adj_y: bool = False, Tout: DType | None = None
    ) -> Array:
        # Widened before the product: sums of int8 products need the room of Tout.
        if Tout is not None:
            a, b = a.astype(Tout.numpy(), copy=False), b.astype(Tout.numpy(), copy=False)
        return _product(_adjoint(a) if adj_x else a, _adjoint(b) if adj_y else b)

    @staticmethod
    def cost(y: TensorSpec, a: TensorSpec, b: TensorSpec, *, adj_x: bool = False) -> Cost:
        assert a.shape is not None
        assert y.size is not None
        macs = y.size * (a.shape[-2 if adj_x else -1] or 0)
        return Cost(flops=2 * macs, macs=macs)


def _adjoint(x: Array) -> Array:
    swapped = np.swapaxes(x, -1, -2)
    return swapped.conj() if x.dtype.kind == "c" else swapped


@op("BiasAdd", "BiasAddV1")
class BiasAdd(OpDef):
    """y = x + bias, along the channel axis.

    x [n,...,c] (NHWC) or [n,c,...] (NCHW), bias [c] -> y like x.
    """

    traits = Trait.BIAS_ADD | Trait.T_OF_FIRST_INPUT

    @staticmethod
    def infer(x: TensorSpec, bias: TensorSpec, *, data_format: str = "NHWC") -> TensorSpec:
        (channels,) = rank_of(bias, 1, "bias")
        if x.shape is not None:
            size = x.shape[_channel_axis(len(x.shape), data_format)]
            require(
                None in (size, channels) or size == channels,
                f"bias has {channels} values for {size} channels",
            )
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, bias: Array, *, data_format: str = "NHWC") -> Array:
        axis = _channel_axis(x.ndim, data_format)
        return x + bias.reshape((-1,) + (1,) * (x.ndim - 1 - axis))


def _channel_axis(rank: int, data_format: str) -> int:
    require(rank >= 2, f"x has rank {rank}, at least 2 is needed")
    # NCHW and NCDHW alike.
    return 1 if data_format.startswith("NC") else rank - 1


@op("SparseMatMul")
class SparseMatMul(OpDef):
    """y = a @ b in float, for matrices with many zeros; a and b may be bfloat16.   Shapes as for MatMul."""

    @staticmethod
    def infer(
        a: TensorSpec, b: TensorSpec, *, transpose_a: bool = False, transpose_b: bool = False
    ) -> TensorSpec:
        return TensorSpec(FLOAT, MatMul.infer(a, b, transpose_a=transpose_a, transpose_b=transpose_b).shape)

    @staticmethod
    def kernel(a: Array, b: Array, *, transpose_a: bool = False, transpose_b: bool = False) -> Array:
        return MatMul.kernel(widen(a), widen(b), transpose_a=transpose_a, transpose_b=transpose_b)

    @staticmethod
    def cost(y: TensorSpec, a: TensorSpec, b: TensorSpec, *, transpose_a: bool = False) -> Cost:
        return MatMul.cost(y, a, b, transpose_a=transpose_a)


@op("_FusedMatMul")
class FusedMatMul(OpDef):
    """y = activation(a @ b + bias).   bias [n]; fused_ops is BiasAdd alone or followed by one activation."""

    @staticmethod
    def infer(
        a: TensorSpec, b: TensorSpec, *extra: TensorSpec, transpose_a: bool = False, transpose_b: bool = False
    ) -> TensorSpec:
        y = MatMul.infer(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
        assert y.shape is not None
        if extra:
            # For its check only: the product's columns have their sizes from b already.
            merge(y.shape[1:], rank_of(extra[0], 1, "the bias"))
        return y

    @staticmethod
    @quiet
    def kernel(
        a: Array, b: Array, *extra: Array, transpose_a: bool = False, transpose_b: bool = False,
        fused_ops: tuple[str, ...] = (), leakyrelu_alpha: float = 0.2,
    ) -> Array:  # fmt: skip
        y = MatMul.kernel(widen(a), widen(b), transpose_a=transpose_a, transpose_b=transpose_b)
        for name in fused_ops:
            y = y + widen(extra[0]) if name == "BiasAdd" else fused_activation(name, y, leakyrelu_alpha)
        return like(y, a)

    @staticmethod
    def cost(
        y: TensorSpec, a: TensorSpec, b: TensorSpec, *extra: TensorSpec, transpose_a: bool = False
    ) -> Cost:
        return MatMul.cost(y, a, b, transpose_a=transpose_a) + Cost(flops=len(extra) * (y.size or 0))


def fused_activation(name: str, x: Array, leakyrelu_alpha: float = 0.2) -> Array:
    """The activation that TensorFlow's optimizer names in the `fused_ops` of a kernel. x: float or double.

    Raises:
        UnsupportedOp: no such activation.
    """
    if name == "Relu":
        return np.maximum(x, 0)
    if name == "Relu6":
        return np.clip(x, 0, 6)
    if name == "Elu":
        return np.where(x < 0, np.expm1(np.minimum(x, 0)), x)
    if name == "LeakyRelu":
        return np.where(x > 0, x, x * x.dtype.type(leakyrelu_alpha))
    if name == "Tanh":
        return np.tanh(x)
    if name == "Sigmoid":
        return np.asarray(1 / (1 + np.exp(-x)))
    if name == "GeluExact":
        return like(0.5 * x * (1 + _special.erf(x / np.sqrt(2.0))), x)
    # D. Hendrycks and K. Gimpel's approximation of the one above, "Gaussian error linear units", 2016.
    if name == "GeluApproximate":
        return like(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))), x)
    raise UnsupportedOp(
        f"'{name}' in fused_ops is not known", hint="load the graph as it was before TensorFlow fused it"
    )


@op("Cross")
class Cross(OpDef):
    """z = vector product of each pair of 3-vectors.   x, y [..., 3] of one shape."""

    @staticmethod
    def infer(x: TensorSpec, y: TensorSpec) -> TensorSpec:
        shape = merge(x.shape, y.shape)
        require(shape is None or (len(shape) > 0 and shape[-1] in (3, None)), "the last dimension must be 3")
        return TensorSpec(pick(x, y), shape if shape is None else (*shape[:-1], 3))

    @staticmethod
    @quiet
    def kernel(x: Array, y: Array) -> Array:
        require(x.shape == y.shape and x.shape[-1:] == (3,), "x and y must have one shape that ends in 3")
        (x0, x1, x2), (y0, y1, y2) = np.moveaxis(widen(x), -1, 0), np.moveaxis(widen(y), -1, 0)
        return like(np.stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], axis=-1), x)

    @staticmethod
    def cost(z: TensorSpec, x: TensorSpec, y: TensorSpec) -> Cost:
        return Cost(flops=3 * (z.size or 0))


# ---- Sums of products in index notation.


@dataclass(frozen=True)
class _Equation:
    """`ab...,bc->ac...` taken apart; "..." is the letter "." here."""

    inputs: tuple[str, ...]
    output: str

    @classmethod
    def parse(cls, text: str) -> _Equation:
        require("." not in text.replace("...", ""), f"the equation '{text}' has a stray dot")
        left, arrow, right = text.replace(" ", "").replace("...", ".").partition("->")
        inputs = tuple(left.split(","))
        if not arrow:  # numpy's rule: what occurs once, in alphabetical order
            seen = Counter(c for term in inputs for c in term)
            right = ("." if "." in seen else "") + "".join(
                sorted(c for c, n in seen.items() if n == 1 and c != ".")
            )
        for term in (*inputs, right):
            good = all(c.isalpha() or c == "." for c in term) and term.count(".") <= 1
            require(good, f"the equation '{text}' is malformed at '{term}'")
        for letter in right:
            require(
                letter == "." or any(letter in t for t in inputs), f"'{letter}' of '{text}' is in no input"
            )
        return cls(inputs, right)

    def sizes(self, *specs: TensorSpec) -> tuple[dict[str, Dim], tuple[Dim, ...]] | None:
        """Size of each letter, and the broadcast sizes of "..."; None if an unknown rank hides the latter."""
        require(len(specs) == len(self.inputs), f"{len(specs)} tensors for {len(self.inputs)} terms")
        letters: dict[str, Dim] = {}
        rest: tuple[Dim, ...] | None = ()
        for term, spec in zip(self.inputs, specs, strict=True):
            # Letters of an unknown tensor may still be known from others, but what its "..." hides is not.
            if spec.shape is None:
                letters.update({c: letters.get(c) for c in term})
                rest = None if "." in term else rest
                continue
            extra = len(spec.shape) - len(term.replace(".", ""))
            require(extra == 0 or (extra > 0 and "." in term), f"{spec} does not fit the term '{term}'")
            before = term.partition(".")[0]
            middle = spec.shape[len(before) : len(before) + extra]
            named = spec.shape[: len(before)] + spec.shape[len(before) + extra :]
            for letter, size in zip(term.replace(".", ""), named, strict=True):
                letters[letter] = (merge((letters.get(letter),), (size,)) or (None,))[0]
            if rest is not None:
                rest = broadcast(rest, middle)
        return None if rest is None else (letters, rest)


@op("Einsum")
class Einsum(OpDef):
    """y = products of the inputs' elements, summed over the letters that `equation` does not keep.

    "ij,jk->ik" is a matrix product; "..." stands for leading axes that broadcast; a letter twice in an input
    walks its diagonal, twice in the output fills one.
    """

    weights = Weights(1, 0, (), 0, 0, None)  # which axes, and how many, its equation tells

    @staticmethod
    def infer(*xs: TensorSpec, equation: str) -> TensorSpec:
        parsed = _Equation.parse(equation)
        found = parsed.sizes(*xs)
        if found is None:
            return TensorSpec(pick(*xs), None)
        letters, rest = found
        shape: list[Dim] = []
        for letter in parsed.output:
            shape.extend(rest if letter == "." else (letters[letter],))
        return TensorSpec(pick(*xs), tuple(shape))

    @staticmethod
    @quiet
    def kernel(*xs: Array, equation: str) -> Array:
        parsed = _Equation.parse(equation)
        # numpy would broadcast letters of size 1, which TensorFlow refuses.
        parsed.sizes(*(TensorSpec(FLOAT, x.shape) for x in xs))
        once = "".join(dict.fromkeys(parsed.output))
        text = f"{','.join(parsed.inputs)}->{once}".replace(".", "...")
        # numpy takes repeated letters in inputs but not in the output: those are put on the diagonal below.
        y = np.einsum(text, *(widen(x) for x in xs), optimize=len(xs) > 1)
        if once != parsed.output:
            y = _on_diagonal(np.asarray(y), once, parsed.output)
        return like(y, xs[0])

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec, equation: str) -> Cost:
        parsed = _Equation.parse(equation)
        found = parsed.sizes(*xs)
        assert found is not None
        steps = math.prod(d or 0 for d in (*found[0].values(), *found[1]))
        return Cost(flops=2 * steps, macs=steps) if len(xs) > 1 else Cost(flops=steps)


def _on_diagonal(y: Array, once: str, output: str) -> Array:
    """y with axes `once`, on the diagonals that the repeated letters of `output` describe; 0 elsewhere."""
    extra = y.ndim - len(once.replace(".", ""))
    place: dict[str, tuple[int, ...]] = {}
    axis = 0
    for letter in once:
        width = extra if letter == "." else 1
        place[letter] = tuple(range(axis, axis + width))
        axis += width
    axes = [a for letter in output for a in place[letter]]
    # Element (i, ...) of y goes where every repeated letter has the same index.
    grid = np.ogrid[tuple(slice(n) for n in y.shape)]
    result = np.zeros([y.shape[a] for a in axes], y.dtype)
    result[tuple(grid[a] for a in axes)] = y
    return result
