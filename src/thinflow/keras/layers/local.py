"""Convolutions of Keras 1 and 2 that have a kernel of its own at each place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from thinflow.ir.graph import Value
from thinflow.ir.types import dtype
from thinflow.keras.call import Call
from thinflow.keras.layers.core import gathered
from thinflow.keras.registry import Result, layer
from thinflow.typing import Array


def _local(c: Call, dims: int) -> Value:
    """x [b, ..., inputs] -> y [b, ..., filters]: at each place the window times the kernel of that place."""
    x, filters = c[0], c.integer("filters")
    if c.is_channels_first:
        raise c.refuse("its channels are first")
    if c.text("padding", "valid") != "valid":
        raise c.refuse("its padding is 'same'")
    sizes, strides = c.ints("kernel_size", dims), c.ints("strides", dims, 1)
    lengths = [c.size(x, 1 + n) for n in range(dims)]
    counts = [(n - k) // s + 1 for n, k, s in zip(lengths, sizes, strides, strict=True)]
    if min(counts) < 1:
        raise c.refuse(f"its kernel is larger than its input ({lengths})")
    inputs = c.size(x, -1)
    windows = _windows(lengths, counts, sizes, strides)
    kernel = _kernel(c, windows, inputs, filters, lengths, counts)
    flat = c.reshape(x, (None, lengths[0] * (lengths[1] if dims == 2 else 1), inputs))
    picked = gathered(c, flat, c.const(windows.astype("int32"), "windows"), axis=1)
    rows = c.reshape(picked, (None, len(windows), windows.shape[1] * inputs), "Reshape_1")
    y = c.emit("Einsum", rows, c.const(kernel, "kernel"), equation="bpk,pkf->bpf", N=2, T=dtype("float"))
    y = c.reshape(y, (None, *counts, filters), "Reshape_2")
    if c.flag("use_bias", True):
        y = c.emit("AddV2", y, c.weight("bias", (*counts, filters)))
    return c.activated(y)


def _windows(
    lengths: Sequence[int], counts: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> Array:
    """Number of the place in the result, and in the window -> number of the place in the input."""
    import numpy as np

    flat = np.arange(int(np.prod(lengths))).reshape(lengths)
    places = product(*(range(n) for n in counts))
    cut = [
        flat[tuple(slice(p * s, p * s + k) for p, s, k in zip(at, strides, sizes, strict=True))]
        for at in places
    ]
    return np.stack([window.reshape(-1) for window in cut])


def _kernel(
    c: Call, windows: Array, inputs: int, filters: int, lengths: Sequence[int], counts: Sequence[int]
) -> Array:
    """The kernel [places, window * inputs, filters], out of the three ways in which Keras stores it."""
    import numpy as np

    places, window = windows.shape
    way = c.integer("implementation", 1)
    if way == 1:
        return c.array("kernel", (places, window * inputs, filters))
    if way == 3:  # the numbers alone, by their place in the result
        flat = c.array("kernel", (places * filters * window * inputs,))
        return np.ascontiguousarray(flat.reshape(places, filters, window * inputs).transpose(0, 2, 1))
    # A matrix from all of the input to all of the result, most of it not used.
    whole = c.array("kernel", (*lengths, inputs, *counts, filters))
    whole = whole.reshape(int(np.prod(lengths)), inputs, places, filters)
    return np.stack([whole[windows[p], :, p].reshape(window * inputs, filters) for p in range(places)])


@layer("LocallyConnected1D", weights="kernel bias?use_bias")
def locally_connected_1d(c: Call) -> Result:
    return _local(c, 1)


@layer("LocallyConnected2D", weights="kernel bias?use_bias")
def locally_connected_2d(c: Call) -> Result:
    return _local(c, 2)
