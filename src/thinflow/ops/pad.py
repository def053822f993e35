"""Growing, repeating, cutting and turning round along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._shapes import (
    broadcast,
    constant,
    known_list,
    moved,
    normalize_axis,
    scalar,
    shape_from,
    with_elements,
)
from thinflow.ops.array import _Free
from thinflow.ops.registry import op, require
from thinflow.ops.traits import Role, Trait
from thinflow.typing import Array


@op("Slice")
class Slice(_Free):
    """y = x[begin : begin + size] per axis; a size of -1 means up to the end.   begin, size [rank of x]."""

    traits = Trait.T_OF_FIRST_INPUT | Trait.LINEAR | Trait.REARRANGES

    @staticmethod
    def infer(x: TensorSpec, begin: TensorSpec, size: TensorSpec) -> TensorSpec:
        starts, sizes = known_list(begin), known_list(size)
        # Any of the three tells the rank.
        rank = next((len(v) for v in (x.shape, starts, sizes) if v is not None), None)
        if rank is None:
            return x.with_shape(None)
        shape = x.shape if x.shape is not None else (None,) * rank
        starts, sizes = starts or (None,) * rank, sizes or (None,) * rank
        require(len(starts) == len(sizes) == len(shape), f"begin and size must have {len(shape)} entries")
        dims: list[int | None] = []
        for total, start, count in zip(shape, starts, sizes, strict=True):
            if count == -1:
                count = None if total is None or start is None else total - start
            if count is not None and total is not None:
                require(count >= 0 and (start or 0) + count <= total, f"the slice leaves {x}")
            dims.append(count)
        result = x.with_shape(dims)
        if begin.ints is None or any(d is None for d in dims):
            return result
        index = tuple(slice(b, b + n) for b, n in zip(begin.ints, dims, strict=True) if n is not None)
        return moved(result, lambda v: v[index], x)

    @staticmethod
    def kernel(x: Array, begin: Array, size: Array) -> Array:
        require(begin.shape == size.shape == (x.ndim,), f"begin and size must have {x.ndim} entries")
        index: list[Any] = []
        for total, start, count in zip(x.shape, begin.tolist(), size.tolist(), strict=True):
            stop = total if count == -1 else start + count
            require(0 <= start <= stop <= total, f"slice {start}:{stop} leaves an axis of {total}")
            index.append(slice(start, stop))
        return np.asarray(x[tuple(index)])


@op("Tile")
class Tile(_Free):
    """y = x repeated multiples[i] times along axis i."""

    roles = (None, Role.COUNT)

    traits = Trait.T_OF_FIRST_INPUT | Trait.LINEAR | Trait.REARRANGES

    @staticmethod
    def infer(x: TensorSpec, multiples: TensorSpec) -> TensorSpec:
        times = known_list(multiples)
        rank = x.rank if x.rank is not None else (None if times is None else len(times))
        if rank is None:
            return x.with_shape(None)
        shape = x.shape if x.shape is not None else (None,) * rank
        times = times if times is not None else (None,) * rank
        require(len(times) == rank, f"{len(times)} multiples for rank {rank}")
        # 0 times anything is 0, known or not.
        dims = [
            0 if 0 in (d, n) else (None if d is None or n is None else d * n)
            for d, n in zip(shape, times, strict=True)
        ]
        result = x.with_shape(dims)
        repeats = multiples.ints
        return result if repeats is None else moved(result, lambda v: np.tile(v, repeats), x)

    @staticmethod
    def kernel(x: Array, multiples: Array) -> Array:
        require(multiples.shape == (x.ndim,), f"{multiples.size} multiples for rank {x.ndim}")
        require(bool((multiples >= 0).all()), f"negative multiple in {multiples.tolist()}")
        return np.tile(x, multiples.tolist())


@op("BroadcastTo")
class BroadcastTo(_Free):
    """y = x repeated along its axes of size 1, and new leading ones, up to `shape`."""

    traits = Trait.LINEAR | Trait.REARRANGES

    @staticmethod
    def infer(x: TensorSpec, shape: TensorSpec) -> TensorSpec:
        dims = shape_from(shape)
        if dims is None:
            return x.with_shape(None)
        if x.shape is not None:
            require(len(x.shape) <= len(dims), f"{x} does not broadcast to rank {len(dims)}")
            lead = len(dims) - len(x.shape)
            for size, target in zip(x.shape, dims[lead:], strict=True):
                require(
                    size in (1, None, target) or target is None, f"{x} does not broadcast to {list(dims)}"
                )
            # A size above 1 can only be broadcast to itself.
            known = [
                d if d is not None or s in (1, None) else s for d, s in zip(dims[lead:], x.shape, strict=True)
            ]
            dims = (*dims[:lead], *known)
        result = x.with_shape(dims)
        if not result.is_static:
            return result
        target_shape = tuple(d for d in dims if d is not None)
        return moved(result, lambda v: np.broadcast_to(v, target_shape), x)

    @staticmethod
    def kernel(x: Array, shape: Array) -> Array:
        return np.broadcast_to(x, [int(d) for d in shape])


@op("BroadcastArgs")
class BroadcastArgs(_Free):
    """y = the shape that tensors of shapes a and b broadcast to.   a [r], b [s] -> y [max(r, s)]."""

    traits = Trait.COMMUTATIVE

    @staticmethod
    def infer(a: TensorSpec, b: TensorSpec) -> TensorSpec:
        dims = broadcast(shape_from(a), shape_from(b))
        return a.with_shape((None,)) if dims is None else with_elements(a.with_shape((len(dims),)), dims)

    @staticmethod
    def kernel(a: Array, b: Array) -> Array:
        return np.array(np.broadcast_shapes(tuple(a.tolist()), tuple(b.tolist())), a.dtype)


def _padded(x: TensorSpec, paddings: TensorSpec) -> TensorSpec:
    rank = x.rank
    if rank is None and paddings.shape is not None:
        rank = paddings.shape[0]
    if rank is None:
        return x.with_shape(None)
    require(paddings.size in (None, 2 * rank), f"paddings {paddings} for rank {rank}, [{rank},2] is needed")
    shape = x.shape if x.shape is not None else (None,) * rank
    amounts = known_list(paddings) or (None,) * (2 * rank)
    require(all(a is None or a >= 0 for a in amounts), f"negative padding in {list(amounts)}")
    return x.with_shape(
        [
            None if size is None or before is None or after is None else size + before + after
            for size, before, after in zip(shape, amounts[::2], amounts[1::2], strict=True)
        ]
    )


def _pad(x: Array, paddings: Array, value: Any) -> Array:
    require(paddings.shape == (x.ndim, 2), f"paddings have shape {list(paddings.shape)} for rank {x.ndim}")
    require(bool((paddings >= 0).all()), f"negative padding in {paddings.tolist()}")
    pairs = paddings.tolist()
    # One fill and one copy; np.pad works axis by axis.
    y = np.full([d + b + a for d, (b, a) in zip(x.shape, pairs, strict=True)], value, x.dtype)
    y[tuple(slice(b, b + d) for d, (b, _) in zip(x.shape, pairs, strict=True))] = x
    return y


@op("Pad")
class Pad(_Free):
    """y = x with paddings[i] = (before, after) zeros along axis i.   paddings [rank,2]."""

    traits = Trait.PAD | Trait.T_OF_FIRST_INPUT | Trait.LINEAR

    @staticmethod
    def infer(x: TensorSpec, paddings: TensorSpec) -> TensorSpec:
        result = _padded(x, paddings)
        amounts = constant(paddings)
        return result if amounts is None else moved(result, lambda v: _pad(v, amounts, 0), x)

    @staticmethod
    def kernel(x: Array, paddings: Array) -> Array:
        return _pad(x, paddings, b"" if x.dtype.hasobject else 0)


@op("PadV2")
class PadV2(_Free):
    """Pad with the scalar `value` instead of zeros."""

    traits = Trait.PAD | Trait.T_OF_FIRST_INPUT | Trait.LINEAR

    @staticmethod
    def infer(x: TensorSpec, paddings: TensorSpec, value: TensorSpec) -> TensorSpec:
        result = _padded(x, paddings)
        amounts, fill = constant(paddings), scalar(value)
        return result if amounts is None else moved(result, lambda v: _pad(v, amounts, fill), x)

    @staticmethod
    def kernel(x: Array, paddings: Array, value: Array) -> Array:
        return _pad(x, paddings, value.item() if x.dtype.hasobject else value)


@op("MirrorPad")
class MirrorPad(_Free):
    """Pad with a mirror image: `REFLECT` leaves the edge out of the image, `SYMMETRIC` repeats it."""

    traits = Trait.T_OF_FIRST_INPUT | Trait.LINEAR | Trait.REARRANGES

    @staticmethod
    def infer(x: TensorSpec, paddings: TensorSpec, *, mode: str) -> TensorSpec:
        return _padded(x, paddings)

    @staticmethod
    def kernel(x: Array, paddings: Array, *, mode: str) -> Array:
        require(
            paddings.shape == (x.ndim, 2), f"paddings have shape {list(paddings.shape)} for rank {x.ndim}"
        )
        edge = 1 if mode == "REFLECT" else 0
        for size, pair in zip(x.shape, paddings.tolist(), strict=True):
            require(
                all(0 <= p <= size - edge for p in pair),
                f"padding {pair} exceeds the image of an axis of {size}",
            )
        # numpy refuses to mirror what is empty; there is nothing to mirror, but the sizes grow.
        mode = ("reflect" if edge else "symmetric") if x.size else "constant"
        padded: Array = np.pad(x, paddings.tolist(), mode=mode)  # type: ignore[call-overload]
        return padded


@op("Reverse")
class Reverse(_Free):
    """y = x turned round along every axis whose entry in `dims` is true.   dims [rank], bool."""

    traits = Trait.LINEAR | Trait.REARRANGES

    @staticmethod
    def infer(x: TensorSpec, dims: TensorSpec) -> TensorSpec:
        result = x.with_shape(x.shape)
        which = dims.ints
        return (
            result if which is None else moved(result, lambda v: Reverse.kernel(v, np.array(which, bool)), x)
        )

    @staticmethod
    def kernel(x: Array, dims: Array) -> Array:
        require(dims.shape == (x.ndim,), f"dims has {dims.size} entries for rank {x.ndim}")
        return np.flip(x, tuple(np.flatnonzero(dims)))


@op("ReverseV2")
class ReverseV2(_Free):
    """y = x turned round along the axes listed in `axis`."""

    traits = Trait.LINEAR | Trait.REARRANGES

    @staticmethod
    def infer(x: TensorSpec, axis: TensorSpec) -> TensorSpec:
        result = x.with_shape(x.shape)
        axes = constant(axis)
        return result if axes is None else moved(result, lambda v: ReverseV2.kernel(v, axes), x)

    @staticmethod
    def kernel(x: Array, axis: Array) -> Array:
        axes = [normalize_axis(int(a), x.ndim) for a in axis]
        require(len(set(axes)) == len(axes), f"an axis appears twice in {axis.tolist()}")
        return np.flip(x, tuple(axes))


@op("ReverseSequence")
class ReverseSequence(_Free):
    """y = x with the first lengths[b] places along `seq_dim` turned round, for each b along `batch_dim`."""

    @staticmethod
    def infer(x: TensorSpec, seq_lengths: TensorSpec, *, seq_dim: int, batch_dim: int = 0) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, seq_lengths: Array, *, seq_dim: int, batch_dim: int = 0) -> Array:
        seq, batch = normalize_axis(seq_dim, x.ndim), normalize_axis(batch_dim, x.ndim)
        require(seq != batch, "seq_dim and batch_dim are the same axis")
        require(
            seq_lengths.shape == (x.shape[batch],),
            f"{seq_lengths.size} lengths for a batch of {x.shape[batch]}",
        )
        steps = x.shape[seq]
        lengths = seq_lengths.astype(np.int64)
        require(bool(((lengths >= 0) & (lengths <= steps)).all()), f"a length is outside 0..{steps}")
        y: Array = x.copy()
        source, target = np.moveaxis(x, (batch, seq), (0, 1)), np.moveaxis(y, (batch, seq), (0, 1))
        for b, length in enumerate(lengths):
            target[b, :length] = source[b, :length][::-1]
        return y


@op("Roll")
class Roll(_Free):
    """y = x shifted along axes, round and round; shifts of one axis add up."""

    traits = Trait.LINEAR

    @staticmethod
    def infer(x: TensorSpec, shift: TensorSpec, axis: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, shift: Array, axis: Array) -> Array:
        require(shift.shape == axis.shape, "shift and axis must have the same length")
        axes = [normalize_axis(int(a), x.ndim) for a in axis.ravel()]
        return np.roll(x, [int(s) for s in shift.ravel()], axes) if axes else x
