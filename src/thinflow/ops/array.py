"""Constants, inputs, and what only looks at or rearranges a tensor's axes."""

from __future__ import annotations

import numpy as np

from thinflow.ir.tensor import Tensor
from thinflow.ir.types import INT32, DType, Shape, TensorSpec, shape_text
from thinflow.ops._shapes import (
    LIMIT,
    constant,
    known_list,
    moved,
    normalize_axis,
    product,
    scalar,
    with_elements,
)
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Role, Trait
from thinflow.typing import Array


class _Free(OpDef):
    """Base of ops that compute nothing: at most they move bytes."""

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost()


@op("Const")
class Const(_Free):
    """y = the tensor in the attribute `value`."""

    @staticmethod
    def infer(*, value: Tensor, dtype: DType | None = None) -> TensorSpec:
        spec = TensorSpec(value.dtype, value.shape)
        # Only small integer tensors can be shapes, axes or indices of shapes; weights are not read for this.
        if value.dtype.kind in "iub" and (spec.size or 0) <= LIMIT:
            return with_elements(spec, [int(v) for v in value.numpy().ravel().tolist()])
        return spec

    @staticmethod
    def kernel(*, value: Tensor) -> Array:
        return value.numpy()


@op("ImmutableConst")
class ImmutableConst(_Free):
    """y = a tensor in a memory region that the runtime maps (memmapped packages); it has no kernel."""

    traits = Trait.TYPE_BITS

    @staticmethod
    def infer(*, dtype: DType, shape: Shape) -> TensorSpec:
        return TensorSpec(dtype, shape)


@op("Placeholder", "PlaceholderV2")
class Placeholder(_Free):
    """y = what the caller feeds. A missing `shape` means that nothing is known of it."""

    traits = Trait.PLACEHOLDER | Trait.FED

    @staticmethod
    def infer(*, dtype: DType, shape: Shape = None) -> TensorSpec:
        return TensorSpec(dtype, shape)


@op("Shape")
class ShapeOp(_Free):
    """y = the sizes of x.   x any shape -> y [rank of x], `out_type`."""

    traits = Trait.SHAPE_OF

    @staticmethod
    def infer(x: TensorSpec, *, out_type: DType = INT32) -> TensorSpec:
        return _shape_spec(x, out_type)

    @staticmethod
    def kernel(x: Array, *, out_type: DType = INT32) -> Array:
        return np.array(x.shape, out_type.numpy())


@op("ShapeN")
class ShapeN(_Free):
    """y_i = the sizes of x_i."""

    traits = Trait.SHAPE_OF
    num_outputs = "N"

    @staticmethod
    def infer(*xs: TensorSpec, out_type: DType = INT32) -> tuple[TensorSpec, ...]:
        return tuple(_shape_spec(x, out_type) for x in xs)

    @staticmethod
    def kernel(*xs: Array, out_type: DType = INT32) -> tuple[Array, ...]:
        return tuple(np.array(x.shape, out_type.numpy()) for x in xs)


def _shape_spec(x: TensorSpec, out_type: DType) -> TensorSpec:
    return with_elements(TensorSpec(out_type, (x.rank,)), x.shape)


@op("Size")
class Size(_Free):
    """y = the number of elements of x, a scalar of `out_type`."""

    traits = Trait.SHAPE_OF

    @staticmethod
    def infer(x: TensorSpec, *, out_type: DType = INT32) -> TensorSpec:
        return with_elements(TensorSpec(out_type, ()), None if x.shape is None else (product(x.shape),))

    @staticmethod
    def kernel(x: Array, *, out_type: DType = INT32) -> Array:
        return np.array(x.size, out_type.numpy())


@op("Rank")
class Rank(_Free):
    """y = the number of axes of x, an int32 scalar."""

    traits = Trait.SHAPE_OF

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return with_elements(TensorSpec(INT32, ()), (x.rank,))

    @staticmethod
    def kernel(x: Array) -> Array:
        return np.array(x.ndim, np.int32)


@op("Reshape")
class Reshape(_Free):
    """y = x with other sizes, row-major.   shape [r]: the new sizes; one may be -1, for what remains."""

    roles = (None, Role.SHAPE)

    traits = Trait.RESHAPE | Trait.T_OF_FIRST_INPUT | Trait.LINEAR

    @staticmethod
    def infer(x: TensorSpec, shape: TensorSpec) -> TensorSpec:
        dims = known_list(shape)
        if dims is None:
            return x.with_shape(None)
        require(dims.count(-1) <= 1, f"more than one size is -1 in {list(dims)}")
        require(all(d is None or d >= -1 for d in dims), f"negative size in {list(dims)}")
        result = [None if d == -1 else d for d in dims]
        if x.shape is not None and result.count(None) == 1:
            # An unknown element of `shape` is a hole like -1: if the others are known, the number of elements
            # settles it.
            hole = result.index(None)
            result[hole] = _missing_factor(x.shape, [d for d in result if d is not None])
        target = product(result)
        require(
            None in (x.size, target) or x.size == target,
            f"{shape_text(x.shape)} has {x.size} elements, not the {target} of {shape_text(tuple(result))}",
        )
        return with_elements(x.with_shape(result), x.elements)

    @staticmethod
    def kernel(x: Array, shape: Array) -> Array:
        sizes = [int(d) for d in shape]
        require(sizes.count(-1) <= 1, f"more than one size is -1 in {sizes}")
        if -1 in sizes:
            sizes[sizes.index(-1)] = _missing_factor(x.shape, [d for d in sizes if d != -1]) or 0
        require(
            int(np.prod(sizes, dtype=np.int64)) == x.size,
            f"{shape_text(x.shape)} has {x.size} elements, that does not fit {shape_text(tuple(sizes))}",
        )
        return x.reshape(sizes)


def _missing_factor(shape: tuple[int | None, ...], rest: list[int]) -> int | None:
    """The one missing size of a reshape's result; None while the input's size is unknown."""
    if 0 in rest:
        # Zeros on both sides say nothing: TensorFlow reshapes [0,3] to [-1,0] as [3,0].
        shape, rest = tuple(d for d in shape if d != 0), [d for d in rest if d != 0]
    size = product(shape)
    others = product(rest)
    if size is None or not others:
        return None
    require(size % others == 0, f"{size} elements do not divide into rows of {others}")
    return size // others


@op("ExpandDims")
class ExpandDims(_Free):
    """y = x with a new axis of size 1 at `dim`, which may count from the end of y's axes."""

    traits = Trait.RESHAPE | Trait.T_OF_FIRST_INPUT | Trait.LINEAR

    @staticmethod
    def infer(x: TensorSpec, dim: TensorSpec) -> TensorSpec:
        if x.shape is None:
            return x.with_shape(None)
        axis = scalar(dim)
        if axis is None:
            return x.with_shape((None,) * (len(x.shape) + 1))
        axis = normalize_axis(axis, len(x.shape) + 1)
        return with_elements(x.with_shape((*x.shape[:axis], 1, *x.shape[axis:])), x.elements)

    @staticmethod
    def kernel(x: Array, dim: Array) -> Array:
        require(dim.size == 1, f"dim has shape {list(dim.shape)}, it must be a scalar")
        return np.expand_dims(x, normalize_axis(int(dim.reshape(())), x.ndim + 1))


@op("Squeeze")
class Squeeze(_Free):
    """y = x without its axes of size 1: all of them, or those in `squeeze_dims`."""

    traits = Trait.RESHAPE | Trait.T_OF_FIRST_INPUT | Trait.LINEAR

    @staticmethod
    def infer(x: TensorSpec, *, squeeze_dims: tuple[int, ...] = ()) -> TensorSpec:
        if x.shape is None:
            return x.with_shape(None)
        if squeeze_dims:
            axes = {normalize_axis(a, len(x.shape)) for a in squeeze_dims}
            require(all(x.shape[a] in (1, None) for a in axes), f"cannot squeeze axes {sorted(axes)} of {x}")
        # An unknown size may turn out to be 1, so not even the rank is known.
        elif None in x.shape:
            return x.with_shape(None)
        else:
            axes = {a for a, size in enumerate(x.shape) if size == 1}
        return with_elements(x.with_shape([d for a, d in enumerate(x.shape) if a not in axes]), x.elements)

    @staticmethod
    def kernel(x: Array, *, squeeze_dims: tuple[int, ...] = ()) -> Array:
        axes = {normalize_axis(a, x.ndim) for a in squeeze_dims}
        require(all(x.shape[a] == 1 for a in axes), f"cannot squeeze axes {sorted(axes)} of {list(x.shape)}")
        return np.squeeze(x, axis=tuple(axes) if axes else None)


@op("Transpose")
class Transpose(_Free):
    """y = x with its axes in the order `perm`: axis i of y is axis perm[i] of x."""

    traits = Trait.T_OF_FIRST_INPUT | Trait.LINEAR | Trait.REARRANGES

    @staticmethod
    def infer(x: TensorSpec, perm: TensorSpec) -> TensorSpec:
        rank = x.rank if x.rank is not None else perm.size
        if rank is None:
            return x.with_shape(None)
        shape = x.shape if x.shape is not None else (None,) * rank
        require(perm.size in (None, rank), f"perm has {perm.size} entries for rank {rank}")
        order = known_list(perm) or (None,) * rank
        result = x.with_shape([None if a is None else shape[normalize_axis(a, rank)] for a in order])
        # Object arrays of elements move like real ones.
        return result if (axes := constant(perm)) is None else moved(result, lambda v: v.transpose(axes), x)

    @staticmethod
    def kernel(x: Array, perm: Array) -> Array:
        return np.transpose(x, [int(a) for a in perm])


@op("ConjugateTranspose")
class ConjugateTranspose(_Free):
    """y = the complex conjugate of x, with its axes in the order `perm`."""

    traits = Trait.T_OF_FIRST_INPUT
    infer = staticmethod(Transpose.infer)

    @staticmethod
    def kernel(x: Array, perm: Array) -> Array:
        y = np.transpose(x, [int(a) for a in perm])
        return np.conjugate(y) if y.dtype.kind == "c" else y


@op("InvertPermutation")
class InvertPermutation(OpDef):
    """y[x[i]] = i.   x [n], a permutation of 0..n-1 -> y like x."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        result = x.with_shape(x.shape)
        order = constant(x)
        return result if order is None else with_elements(result, InvertPermutation.kernel(order).tolist())

    @staticmethod
    def kernel(x: Array) -> Array:
        require(x.ndim == 1, f"a permutation is a vector, got shape {list(x.shape)}")
        require(bool((np.sort(x) == np.arange(x.size)).all()), f"{x.tolist()[:20]} is not a permutation")
        y = np.empty_like(x)
        y[x] = np.arange(x.size, dtype=x.dtype)
        return y
