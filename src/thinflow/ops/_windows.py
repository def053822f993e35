"""Sliding windows over spatial axes: layouts, padding, shifted views. Shared by convolutions and pools.

Inside the kernels every tensor is channels-last, [n, *spatial, c]; other layouts are views of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._shapes import Dim, rank_of, same_padding, window_output
from thinflow.ops.registry import require
from thinflow.typing import Array

Pads = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Layout:
    """Places of the axes in a data format.

    Attributes:
        rank: axes of the tensor, 4 or 5.
        channel: the channel axis.
    """

    rank: int
    channel: int

    @property
    def spatial(self) -> tuple[int, ...]:
        return tuple(a for a in range(1, self.rank) if a != self.channel)

    @property
    def order(self) -> tuple[int, ...]:
        """Axes in the order batch, spatial, channel."""
        return (0, *self.spatial, self.channel)

    def last(self, x: Array) -> Array:
        """The tensor with its channels last; a view."""
        view: Array = x.transpose(self.order)
        return view

    def restore(self, x: Array) -> Array:
        """The inverse of `last`; a view."""
        # argsort of a permutation is its inverse.
        view: Array = x.transpose(np.argsort(self.order))
        return view

    def place(self, batch: Dim, spatial: Sequence[Dim], channels: Dim) -> tuple[Dim, ...]:
        """A shape in this layout from its parts."""
        dims: list[Dim] = [batch, *spatial]
        dims.insert(self.channel, channels)
        return tuple(dims)


def layout(data_format: str, rank: int = 4) -> Layout:
    """The layout of NHWC, NCHW, NDHWC or NCDHW."""
    require(len(data_format) == rank, f"data_format is {data_format}, one of {rank} letters is needed")
    require(data_format.startswith("N") and "C" in data_format, f"data_format {data_format} is not supported")
    return Layout(rank, data_format.index("C"))


@dataclass(frozen=True)
class Window:
    """A sliding window along the spatial axes of one op, all tuples in spatial order.

    Attributes:
        explicit: zeros before and after each axis; used when padding is EXPLICIT.
    """

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: str
    explicit: Pads = ()

    def pads(self, sizes: Sequence[int]) -> Pads:
        """Padding before and after each axis. Under VALID there is none."""
        if self.padding == "EXPLICIT":
            return self.explicit
        if self.padding == "VALID":
            return ((0, 0),) * len(self.size)
        axes = zip(sizes, self.size, self.strides, self.dilations, strict=True)
        return tuple(same_padding(n, k, s, d) for n, k, s, d in axes)

    def output(self, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        """Number of window positions along each axis."""
        explicit = self.explicit or ((0, 0),) * len(self.size)
        axes = zip(sizes, self.size, self.strides, self.dilations, explicit, strict=True)
        return tuple(window_output(n, k, s, self.padding, d, e) for n, k, s, d, e in axes)

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """As `output`, for known sizes."""
        return tuple(d for d in self.output(sizes) if d is not None)

    def taps(self) -> Iterator[tuple[int, ...]]:
        """Every position inside the window."""
        return iter(np.ndindex(*self.size))


def window(
    where: Layout,
    size: Sequence[int],
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int] = (),
    explicit_paddings: Sequence[int] = (),
) -> Window:
    """A Window from an op's attributes.

    Args:
        size: extent along the spatial axes only.
        strides, dilations: one per axis of the tensor, as the attributes have them; no dilations means 1.
        explicit_paddings: before and after for every axis of the tensor.
    """
    dilations = dilations or (1,) * where.rank
    require(len(strides) == where.rank, f"strides has {len(strides)} values, {where.rank} are needed")
    require(len(dilations) == where.rank, f"dilations has {len(dilations)} values, {where.rank} are needed")
    require(all(s > 0 for s in (*strides, *dilations)), "strides and dilations must be positive")
    for name, values in (("strides", strides), ("dilations", dilations)):
        require(values[0] == 1 and values[where.channel] == 1, f"{name} along batch and channels must be 1")
    require(padding in {"SAME", "VALID", "EXPLICIT"}, f"padding {padding} is not known")
    explicit: Pads = ()
    if padding == "EXPLICIT":
        require(len(explicit_paddings) == 2 * where.rank, f"explicit_paddings needs {2 * where.rank} values")
        require(min(explicit_paddings) >= 0, "explicit_paddings must not be negative")
        explicit = tuple((explicit_paddings[2 * a], explicit_paddings[2 * a + 1]) for a in where.spatial)
    return Window(
        tuple(size),
        tuple(strides[a] for a in where.spatial),
        tuple(dilations[a] for a in where.spatial),
        padding,
        explicit,
    )


def split_dims(spec: TensorSpec, where: Layout, what: str) -> tuple[Dim, tuple[Dim, ...], Dim]:
    """Batch, spatial sizes and channels of a spec."""
    dims = rank_of(spec, where.rank, what)
    return dims[0], tuple(dims[a] for a in where.spatial), dims[where.channel]


def pad(x: Array, pads: Pads, value: Any = 0) -> Array:
    """[n, *spatial, c] with a border around the spatial axes; the input itself when there is none to add."""
    if not any(before or after for before, after in pads):
        return x
    shape = (x.shape[0], *(n + b + a for n, (b, a) in zip(x.shape[1:-1], pads, strict=True)), x.shape[-1])
    padded = np.full(shape, value, x.dtype)
    inside = (slice(b, b + n) for n, (b, _) in zip(x.shape[1:-1], pads, strict=True))
    padded[tuple([slice(None), *inside])] = x
    return padded


def shifted(x: Array, win: Window, tap: Sequence[int], out: Sequence[int]) -> Array:
    """Inputs that one position of the window sees at every output, [n, *out, c]; a view of the padded x."""
    axes = zip(tap, win.dilations, win.strides, out, strict=True)
    # The stop is one past the last element, so that views of all taps have the same size; without output it
    # would be negative, which Python counts from the end.
    seen = (slice(t * d, t * d + (o - 1) * s + 1, s) if o else slice(0, 0) for t, d, s, o in axes)
    return x[tuple([slice(None), *seen])]


def lowest(dtype: np.dtype[Any]) -> Any:
    """The most negative finite value of a type."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    # bfloat16: numpy's own finfo does not know it.
    if dtype.itemsize == 2 and dtype != np.float16:
        import ml_dtypes

        return ml_dtypes.finfo(dtype).min  # type: ignore[no-untyped-call]
    return np.finfo(dtype).min
