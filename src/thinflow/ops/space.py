"""Moving blocks between the batch, the image plane and the channels; patches."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import Shape, TensorSpec
from thinflow.ops._shapes import known_list, product, rank_of, same_padding, window_output
from thinflow.ops.array import _Free
from thinflow.ops.registry import op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array

Dim = int | None


def _space_to_batch(x: Array, block: list[int], paddings: list[list[int]]) -> Array:
    count = len(block)
    require(x.ndim > count, f"x has rank {x.ndim}, {count} blocks need {count + 1}")
    require(all(b >= 1 for b in block), f"block sizes {block} must be positive")
    require(all(p >= 0 for pair in paddings for p in pair), f"negative padding in {paddings}")
    rest = x.ndim - 1 - count
    padded = np.zeros(
        [
            x.shape[0],
            *(d + a + b for d, (a, b) in zip(x.shape[1:], paddings, strict=False)),
            *x.shape[1 + count :],
        ],
        x.dtype,
    )
    inside = (slice(None), *(slice(a, a + d) for d, (a, _) in zip(x.shape[1:], paddings, strict=False)))
    padded[inside] = x
    split = [x.shape[0]]
    for size, b in zip(padded.shape[1:], block, strict=False):
        require(size % b == 0, f"a padded axis of {size} does not divide into blocks of {b}")
        split += [size // b, b]
    # [n, d1/b1, b1, d2/b2, b2, ...] with the block places moved in front of the batch.
    blocks = padded.reshape(*split, *x.shape[1 + count :])
    order = [
        *range(2, 2 * count + 1, 2),
        0,
        *range(1, 2 * count, 2),
        *range(2 * count + 1, 2 * count + 1 + rest),
    ]
    sizes = [x.shape[0] * int(np.prod(block, dtype=np.int64)), *split[1::2], *x.shape[1 + count :]]
    return np.reshape(np.transpose(blocks, order), sizes)


def _batch_to_space(x: Array, block: list[int], crops: list[list[int]]) -> Array:
    count = len(block)
    require(x.ndim > count, f"x has rank {x.ndim}, {count} blocks need {count + 1}")
    require(all(b >= 1 for b in block), f"block sizes {block} must be positive")
    total = int(np.prod(block, dtype=np.int64))
    require(x.shape[0] % total == 0, f"a batch of {x.shape[0]} does not divide by {total}")
    require(all(c >= 0 for pair in crops for c in pair), f"negative crop in {crops}")
    batch, rest = x.shape[0] // total, x.shape[1 + count :]
    # The block places are the slow part of the batch: [b1, b2, ..., n, d1, d2, ...].
    blocks = x.reshape(*block, batch, *x.shape[1:])
    order = [count]
    for axis in range(count):
        order += [count + 1 + axis, axis]
    order += range(2 * count + 1, blocks.ndim)
    sizes = [d * b for d, b in zip(x.shape[1:], block, strict=False)]
    y = blocks.transpose(order).reshape(batch, *sizes, *rest)
    for size, (before, after) in zip(sizes, crops, strict=True):
        require(before + after <= size, f"crops {before} and {after} exceed an axis of {size}")
    kept = (slice(None), *(slice(a, size - b) for size, (a, b) in zip(sizes, crops, strict=True)))
    return np.asarray(y[kept])


def _moved_shape(shape: Shape, block: TensorSpec, pairs: TensorSpec, to_batch: bool) -> Shape:
    """Result shape of the four batch ops: space shrinks or grows by the blocks, the batch the other way."""
    if shape is None or block.size is None:
        return None
    count = block.size
    blocks = known_list(block) or (None,) * count
    amounts = known_list(pairs) or (None,) * (2 * count)
    require(len(shape) > count, f"x has rank {len(shape)}, {count} blocks need {count + 1}")
    require(len(amounts) == 2 * count, f"{len(amounts)} margins for {count} blocks")
    dims: list[Dim] = []
    for size, b, before, after in zip(shape[1:], blocks, amounts[::2], amounts[1::2], strict=False):
        if size is None or b is None or before is None or after is None:
            dims.append(None)
        elif to_batch:
            require(
                (size + before + after) % b == 0,
                f"a padded axis of {size + before + after} does not divide by {b}",
            )
            dims.append((size + before + after) // b)
        else:
            dims.append(size * b - before - after)
    total = product(blocks)
    batch = shape[0]
    if batch is not None and total is not None:
        require(to_batch or batch % total == 0, f"a batch of {batch} does not divide by {total}")
        batch = batch * total if to_batch else batch // total
    else:
        batch = None
    return (batch, *dims, *shape[1 + count :])


def _square(block_size: int) -> TensorSpec:
    return TensorSpec(shape=(2,), elements=(block_size, block_size))


@op("SpaceToBatchND")
class SpaceToBatchND(_Free):
    """y = the zero-padded space of x cut into blocks, whose places become batches.

    x [n, d_i, rest], block_shape [m], paddings [m,2]
    -> y [n * prod(block), (d_i + paddings_i) / block_i, rest].
    """

    @staticmethod
    def infer(x: TensorSpec, block_shape: TensorSpec, paddings: TensorSpec) -> TensorSpec:
        return x.with_shape(_moved_shape(x.shape, block_shape, paddings, True))

    @staticmethod
    def kernel(x: Array, block_shape: Array, paddings: Array) -> Array:
        return _space_to_batch(x, block_shape.tolist(), paddings.tolist())


@op("BatchToSpaceND")
class BatchToSpaceND(_Free):
    """The inverse of SpaceToBatchND, with crops [m,2] where that pads."""

    @staticmethod
    def infer(x: TensorSpec, block_shape: TensorSpec, crops: TensorSpec) -> TensorSpec:
        return x.with_shape(_moved_shape(x.shape, block_shape, crops, False))

    @staticmethod
    def kernel(x: Array, block_shape: Array, crops: Array) -> Array:
        return _batch_to_space(x, block_shape.tolist(), crops.tolist())


@op("SpaceToBatch")
class SpaceToBatch(_Free):
    """SpaceToBatchND of images [n,h,w,c] with one `block_size` for both axes."""

    @staticmethod
    def infer(x: TensorSpec, paddings: TensorSpec, *, block_size: int) -> TensorSpec:
        return x.with_shape(_moved_shape(rank_of(x, 4, "x"), _square(block_size), paddings, True))

    @staticmethod
    def kernel(x: Array, paddings: Array, *, block_size: int) -> Array:
        return _space_to_batch(x, [block_size, block_size], paddings.tolist())


@op("BatchToSpace")
class BatchToSpace(_Free):
    """BatchToSpaceND of images [n,h,w,c] with one `block_size` for both axes."""

    @staticmethod
    def infer(x: TensorSpec, crops: TensorSpec, *, block_size: int) -> TensorSpec:
        return x.with_shape(_moved_shape(rank_of(x, 4, "x"), _square(block_size), crops, False))

    @staticmethod
    def kernel(x: Array, crops: Array, *, block_size: int) -> Array:
        return _batch_to_space(x, [block_size, block_size], crops.tolist())


def _depth_spec(x: TensorSpec, data_format: str, resize: Any) -> TensorSpec:
    """The spec with (h, w, c) changed by `resize`; NCHW_VECT_C [n, c/4, h, w, 4] counts all its channels."""
    packed = data_format == "NCHW_VECT_C"
    dims = rank_of(x, 5 if packed else 4, "x")
    if data_format == "NHWC":
        n, h, w, c = dims
        return x.with_shape((n, *resize(h, w, c)))
    n, c, h, w = dims[:4]
    h, w, c = resize(h, w, None if c is None else c * (4 if packed else 1))
    return x.with_shape((n, None if c is None else c // 4, h, w, 4) if packed else (n, c, h, w))


def _as_nhwc(x: Array, data_format: str) -> Array:
    if data_format == "NHWC":
        return x
    if data_format == "NCHW_VECT_C":
        n, c, h, w, _ = x.shape
        return np.reshape(np.transpose(x, (0, 2, 3, 1, 4)), (n, h, w, c * 4))
    return np.transpose(x, (0, 2, 3, 1))


def _from_nhwc(y: Array, data_format: str) -> Array:
    if data_format == "NHWC":
        return y
    if data_format == "NCHW_VECT_C":
        n, h, w, c = y.shape
        return np.transpose(np.reshape(y, (n, h, w, c // 4, 4)), (0, 3, 1, 2, 4))
    return np.transpose(y, (0, 3, 1, 2))


@op("SpaceToDepth")
class SpaceToDepth(_Free):
    """y = each block of b by b places as channels, row by row.   x [n,h,w,c] -> y [n, h/b, w/b, b*b*c]."""

    traits = Trait.TAKES_IMAGES | Trait.T_OF_FIRST_INPUT | Trait.REARRANGES

    @staticmethod
    def infer(x: TensorSpec, *, block_size: int, data_format: str = "NHWC") -> TensorSpec:
        def resize(h: Dim, w: Dim, c: Dim) -> tuple[Dim, ...]:
            for size in (h, w):
                require(
                    size is None or size % block_size == 0,
                    f"{size} does not divide by the block {block_size}",
                )
            plane = [None if d is None else d // block_size for d in (h, w)]
            return (*plane, None if c is None else c * block_size**2)

        return _depth_spec(x, data_format, resize)

    @staticmethod
    def kernel(x: Array, *, block_size: int, data_format: str = "NHWC") -> Array:
        b = block_size
        image = _as_nhwc(x, data_format)
        n, h, w, c = image.shape
        require(h % b == 0 and w % b == 0, f"an image of {h} by {w} does not divide into blocks of {b}")
        # Row and column within the block go in front of the channels.
        blocks = image.reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5)
        return _from_nhwc(blocks.reshape(n, h // b, w // b, b * b * c), data_format)


@op("DepthToSpace")
class DepthToSpace(_Free):
    """The inverse of SpaceToDepth.   x [n,h,w,b*b*c] -> y [n, h*b, w*b, c]."""

    traits = Trait.TAKES_IMAGES | Trait.T_OF_FIRST_INPUT | Trait.REARRANGES

    @staticmethod
    def infer(x: TensorSpec, *, block_size: int, data_format: str = "NHWC") -> TensorSpec:
        def resize(h: Dim, w: Dim, c: Dim) -> tuple[Dim, ...]:
            require(c is None or c % block_size**2 == 0, f"{c} channels do not divide by {block_size**2}")
            plane = [None if d is None else d * block_size for d in (h, w)]
            return (*plane, None if c is None else c // block_size**2)

        return _depth_spec(x, data_format, resize)

    @staticmethod
    def kernel(x: Array, *, block_size: int, data_format: str = "NHWC") -> Array:
        b = block_size
        image = _as_nhwc(x, data_format)
        n, h, w, c = image.shape
        require(c % (b * b) == 0, f"{c} channels do not divide by {b * b}")
        # The same order of axes takes them back: it is its own inverse.
        blocks = image.reshape(n, h, w, b, b, c // (b * b)).transpose(0, 1, 3, 2, 4, 5)
        return _from_nhwc(blocks.reshape(n, h * b, w * b, c // (b * b)), data_format)


@op("ExtractImagePatches")
class ExtractImagePatches(_Free):
    """y[n,i,j] = the kh by kw patch at (i, j) * strides, flattened; it takes every `rates`-th pixel.

    x [n,h,w,c] -> y [n, rows, columns, kh*kw*c]; zeros beyond the edge.
    """

    @staticmethod
    def infer(
        x: TensorSpec,
        *,
        ksizes: tuple[int, ...],
        strides: tuple[int, ...],
        rates: tuple[int, ...],
        padding: str,
    ) -> TensorSpec:
        n, h, w, c = rank_of(x, 4, "x")
        rows, columns = (
            window_output(size, ksizes[a], strides[a], padding, rates[a]) for a, size in ((1, h), (2, w))
        )
        return x.with_shape((n, rows, columns, None if c is None else ksizes[1] * ksizes[2] * c))

    @staticmethod
    def kernel(
        x: Array, *, ksizes: tuple[int, ...], strides: tuple[int, ...], rates: tuple[int, ...], padding: str
    ) -> Array:
        n, h, w, c = x.shape
        plane = []
        for axis, size in ((1, h), (2, w)):
            count = window_output(size, ksizes[axis], strides[axis], padding, rates[axis]) or 0
            before = (
                same_padding(size, ksizes[axis], strides[axis], rates[axis])[0] if padding == "SAME" else 0
            )
            # places[i, k]: where pixel k of patch i lies along this axis, out of range beyond the edge
            plane.append(
                np.arange(count)[:, None] * strides[axis] + np.arange(ksizes[axis]) * rates[axis] - before
            )
        rows, columns = plane
        inside = ((rows >= 0) & (rows < h))[:, None, :, None] & ((columns >= 0) & (columns < w))[
            None, :, None, :
        ]
        # Clipping needs a pixel to clip to.
        if not x.size:
            return np.zeros((n, len(rows), len(columns), ksizes[1] * ksizes[2] * c), x.dtype)
        # Places beyond the edge read any pixel, which is then replaced by 0: one gather, no padded copy.
        found = x[:, rows.clip(0, h - 1)[:, None, :, None], columns.clip(0, w - 1)[None, :, None, :], :]
        patches = np.where(inside[..., None], found, np.zeros((), x.dtype))
        return patches.reshape(n, len(rows), len(columns), ksizes[1] * ksizes[2] * c)
