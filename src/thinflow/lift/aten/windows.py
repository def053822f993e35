"""ATen's convolutions and pools, which are ONNX's by other names of their arguments."""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Value
from thinflow.ir.types import INT64
from thinflow.lift.aten.arguments import Arguments, aten
from thinflow.lift.onnx.formulas import product, reshaped, sizes_of


def _each(a: Arguments, name: str, count: int, default: int | None) -> tuple[int, ...]:
    """A number for each axis; a single one is for all."""
    found = a.ints(name, () if default is None else (default,))
    found = found * count if len(found) == 1 else found
    if len(found) != count:
        raise UnsupportedOp(f"its argument '{name}' has {len(found)} numbers for {count} axes")
    return tuple(found)


def _batched(a: Arguments, count: int) -> tuple[Value, bool]:
    """The operand with a batch, and whether it got one: ATen's windows go over single pictures as well."""
    if a.rank == count + 2:
        return a.x, False
    if a.rank != count + 1:
        raise UnsupportedOp(f"its window goes over {count} axes, its operand has {a.rank}")
    return a.emit("ExpandDims", a.x, a.call.constant(0)), True


def _single(a: Arguments, y: Value, is_single: bool) -> Value:
    return a.emit("Squeeze", y, squeeze_dims=(0,)) if is_single else y


def _windows(a: Arguments, count: int) -> dict[str, Attr]:
    return {"strides": _each(a, "stride", count, 1), "dilations": _each(a, "dilation", count, 1)}


def _kernel(a: Arguments) -> tuple[int, ...]:
    shape = a.tensor("weight").spec.shape
    if shape is None or None in shape or len(shape) < 3:
        raise UnsupportedOp("the sizes of its weights are not known")
    return tuple(n or 0 for n in shape[2:])


def _conv(a: Arguments) -> Value:
    kernel = _kernel(a)
    count, options = len(kernel), _windows(a, len(kernel))
    mode = a.text("padding") if a.call.node.op.endswith(".padding") else ""
    if mode:
        pads = _named_pads(mode, kernel, options["dilations"])
    else:
        before = _each(a, "padding", count, 0)
        pads = (*before, *before)
    x, is_single = _batched(a, count)
    y = a.onnx(
        "Conv", x, a.tensor("weight"), a.maybe("bias"), pads=pads, group=a.integer("groups", 1), **options
    )
    return _single(a, y, is_single)


def _named_pads(mode: str, kernel: tuple[int, ...], dilations: Attr) -> tuple[int, ...]:
    if mode == "valid":
        return (0,) * (2 * len(kernel))
    if mode != "same":
        raise UnsupportedOp(f"it pads by '{mode[:40]}'")
    assert isinstance(dilations, tuple)
    total = [(k - 1) * int(str(d)) for k, d in zip(kernel, dilations, strict=True)]
    # Of an odd number the one left over goes behind.
    return (*(n // 2 for n in total), *(n - n // 2 for n in total))


aten("conv1d", "conv2d", "conv3d", "conv1d.padding", "conv2d.padding", "conv3d.padding")(_conv)


def _transposed(a: Arguments) -> Value:
    kernel = _kernel(a)
    count = len(kernel)
    before, options = _each(a, "padding", count, 0), _windows(a, count)
    more = _each(a, "output_padding", count, 0)
    x, is_single = _batched(a, count)
    y = a.onnx(
        "ConvTranspose", x, a.tensor("weight"), a.maybe("bias"),
        pads=(*before, *before), group=a.integer("groups", 1), output_padding=more, **options,
    )  # fmt: skip
    return _single(a, y, is_single)


aten("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")(_transposed)


@aten("convolution", "_convolution", ignores=("benchmark", "deterministic", "cudnn_enabled", "allow_tf32"))
def _convolution(a: Arguments) -> Value:
    if a.flag("transposed"):
        return _transposed(a)
    if any(a.ints("output_padding", ())):
        raise UnsupportedOp("it pads its output, which only transposed convolutions do")
    return _conv(a)


# --- pools --------------------------------------------------------------------------------------------------


def _pool_windows(a: Arguments, count: int) -> dict[str, Attr]:
    kernel = _each(a, "kernel_size", count, None)
    # Without steps, an empty list, windows stand side by side.
    strides = _each(a, "stride", count, None) if a.has("stride") and a.ints("stride", ()) else kernel
    before = _each(a, "padding", count, 0)
    if any(2 * p > k for p, k in zip(before, kernel, strict=True)):
        raise UnsupportedOp("its padding is more than half of its window")
    return {
        "kernel_shape": kernel,
        "strides": strides,
        "pads": (*before, *before),
        "ceil_mode": int(a.flag("ceil_mode")),
    }


def _pool(a: Arguments, count: int, op: str, **options: Attr) -> Value:
    x, is_single = _batched(a, count)
    return _single(a, a.onnx(op, x, **_pool_windows(a, count), **options), is_single)


def _max_pool(count: int) -> None:
    @aten(f"max_pool{count}d")
    def rule(a: Arguments) -> Value:
        return _pool(a, count, "MaxPool", dilations=_each(a, "dilation", count, 1))

    @aten(f"max_pool{count}d_with_indices")
    def both(a: Arguments) -> list[Value]:
        options = _pool_windows(a, count) | {"dilations": _each(a, "dilation", count, 1)}
        x, is_single = _batched(a, count)
        if not a.is_read(1):
            # Nobody reads the places, and the values alone are one op.
            return [_single(a, a.onnx("MaxPool", x, **options), is_single)]
        y, places = a.onnx_results("MaxPool", x, count=2, **options)
        return [_single(a, y, is_single), _within(a, places, x, count, is_single)]


def _within(a: Arguments, places: Value, x: Value, count: int, is_single: bool) -> Value:
    """Places in each channel's own plane: ONNX counts through the whole tensor."""
    plane = a.body.term(x)
    sizes = [plane.static_size(n, "the size of its picture") for n in range(2, count + 2)]
    inner = a.emit("FloorMod", places, a.integers(int(np.prod(sizes))))
    return _single(a, inner, is_single)


def _average_pool(count: int) -> None:
    @aten(f"avg_pool{count}d")
    def rule(a: Arguments) -> Value:
        if not a.dtype.is_floating:
            raise UnsupportedOp("it rounds means of whole numbers", hint="let it be given real numbers")
        # On in PyTorch where nothing is said, off in ONNX.
        counts_pads = a.flag("count_include_pad", True)
        if not a.has("divisor_override"):
            return _pool(a, count, "AveragePool", count_include_pad=int(counts_pads))
        if a.flag("ceil_mode"):
            raise UnsupportedOp("it divides by a number of its own, and its last windows are cut")
        # The mean over whole windows, as a sum divided by another number.
        factor = math.prod(_each(a, "kernel_size", count, None)) / a.integer("divisor_override")
        return (a.body.term(_pool(a, count, "AveragePool", count_include_pad=1)) * factor).value


def _adaptive_pool(count: int, kind: str, op: str) -> None:
    @aten(f"{kind}{count}d")
    def rule(a: Arguments) -> Value | list[Value]:
        wanted = a.ints("output_size")
        wanted = wanted * count if len(wanted) == 1 else wanted
        if len(wanted) != count:
            raise UnsupportedOp(f"its output_size has {len(wanted)} numbers")
        axes = list(range(a.rank - count, a.rank))
        if set(wanted) == {1}:
            y = a.emit(
                "Mean" if op == "AveragePool" else "Max", a.x, a.integers(axes), keep_dims=True, Tidx=INT64
            )
        else:
            y = _evenly(a, axes, wanted, op)
        if kind.startswith("adaptive_max") and a.is_read(1):
            raise UnsupportedOp("the places of its maxima are read")
        return [y]


def _evenly(a: Arguments, axes: list[int], wanted: list[int], op: str) -> Value:
    """Windows from floor(i * n / k) to ceil((i + 1) * n / k): equal ones are a pool."""
    x = a.body.term(a.x)
    sizes = [x.static_size(axis, "the size of its picture") for axis in axes]
    if min(wanted) < 1:
        raise UnsupportedOp(f"its output_size is {wanted}")
    if all(n % k == 0 for n, k in zip(sizes, wanted, strict=True)):
        steps = tuple(n // k for n, k in zip(sizes, wanted, strict=True))
        picture, is_single = _batched(a, len(axes))
        return _single(a, a.onnx(op, picture, kernel_shape=steps, strides=steps), is_single)
    for axis, n, k in zip(axes, sizes, wanted, strict=True):
        if n == k:
            continue
        if k > _MOST_WINDOWS:
            raise UnsupportedOp(f"it has {k} windows along an axis")
        parts = []
        for i in range(k):
            window = x.cut(axis, i * n // k, -(-(i + 1) * n // k))
            parts.append(window.reduced("Mean" if op == "AveragePool" else "Max", axis, keep=True).value)
        x = a.body.term(a.emit("ConcatV2", *parts, a.call.constant(axis)))
    return x.value


_MOST_WINDOWS = 64
for _count in (1, 2, 3):
    _max_pool(_count)
    _average_pool(_count)
    _adaptive_pool(_count, "adaptive_avg_pool", "AveragePool")
    _adaptive_pool(_count, "adaptive_max_pool", "MaxPool")
for _count in (2, 3):
    _adaptive_pool(_count, "_adaptive_avg_pool", "AveragePool")


# --- blocks -------------------------------------------------------------------------------------------------


@aten("pixel_shuffle")
def _pixel_shuffle(a: Arguments) -> Value:
    side = a.integer("upscale_factor")
    if a.rank == 4:
        return a.onnx("DepthToSpace", a.x, blocksize=side, mode=b"CRD")
    # ONNX's has four axes: [..., c * side * side, h, w] -> [..., c, h, side, w, side]
    x = a.term()
    *outer, depth, height, width = sizes_of(x)
    if side < 1 or not isinstance(depth, int) or depth % side**2:
        raise UnsupportedOp(f"it makes blocks of the side {side} of {depth} channels")
    count, before = depth // side**2, len(outer)
    apart = reshaped(x, [*outer, count, side, side, height, width])
    y = apart.transpose([*range(before), *(before + n for n in (0, 3, 1, 4, 2))])
    return reshaped(y, [*outer, count, product([height, side]), product([width, side])]).value


@aten("pixel_unshuffle")
def _pixel_unshuffle(a: Arguments) -> Value:
    return a.onnx("SpaceToDepth", a.x, blocksize=a.integer("downscale_factor"), mode=b"CRD")


@aten("channel_shuffle")
def _channel_shuffle(a: Arguments) -> Value:
    """Channels [groups, n] become [n, groups]."""
    x, groups = a.body.term(a.x), a.integer("groups")
    depth = x.static_size(1, "the number of its channels")
    if groups < 1 or depth % groups:
        raise UnsupportedOp(f"it has {groups} groups of {depth} channels")
    sizes = sizes_of(x)
    apart = reshaped(x, [sizes[0], groups, depth // groups, *sizes[2:]])
    order = (0, 2, 1, *range(3, a.rank + 1))
    return reshaped(apart.transpose(order), sizes).value
