"""Functions of pictures."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32
from thinflow.keras.call import Call
from thinflow.keras.layers.convolution import convolved, depthwise_convolved
from thinflow.keras.layers.preprocessing import resized_pictures
from thinflow.keras.layers.reshaping import resized
from thinflow.keras.operations.arrays import number, numbers
from thinflow.keras.operations.elementwise import first, tensor
from thinflow.keras.registry import Result, Rule, operation
from thinflow.typing import Array

Rest: TypeAlias = Callable[[Value], Value]


@operation("Resize", "image.resize", ignores=("fill_value",))
def resize(c: Call) -> Result:
    """Another height and width."""
    c.read |= {"images"}
    sizes = numbers(c, "size", 1)
    method = str(c.argument("method", 2, c.get("interpolation", "bilinear")))
    if sizes is None or len(sizes) != 2 or method not in ("nearest", "bilinear", "bicubic"):
        raise c.refuse(f"it resizes to {sizes} by '{method}'")
    if c.generation < 3:
        return resized(c, first(c), c.const(sizes, "resize/size"), method)
    x, back = _pictures(c)
    return back(resized_pictures(c, x, sizes, method))


@operation("compat.v1.image.resize_bilinear", "compat.v1.image.resize_nearest_neighbor")
def old_resize(c: Call) -> Result:
    """As TensorFlow 1 did it: corners may be aligned, and centres need not be at halves."""
    c.read |= {"images"}
    op = (
        "ResizeBilinear"
        if str(c.layer.options.get("function")).endswith("bilinear")
        else "ResizeNearestNeighbor"
    )
    sizes = numbers(c, "size", 1) or []
    flags = {key: bool(c.argument(key, 9)) for key in ("align_corners", "half_pixel_centers")}
    return c.emit(op, first(c), c.const(sizes, "resize/size"), name="resize", **flags)


def _moved(op: str) -> Rule:
    def rule(c: Call) -> Value:
        if c.argument("data_format", 2, c.get("data_format", "NHWC")) not in ("NHWC", "channels_last", None):
            raise c.refuse("its channels are first")
        return c.emit(op, first(c), block_size=number(c, "block_size", 1), data_format="NHWC")

    return rule


operation("nn.depth_to_space", "DepthToSpace")(_moved("DepthToSpace"))
operation("nn.space_to_depth", "SpaceToDepth")(_moved("SpaceToDepth"))


def _colours(op: str) -> Rule:
    def rule(c: Call) -> Value:
        c.read.add("images")
        if c.is_channels_first:
            raise c.refuse("its channels are first")
        return c.emit(op, c[0])

    return rule


operation("RGBToHSV")(_colours("RGBToHSV"))
operation("HSVToRGB")(_colours("HSVToRGB"))


@operation("RGBToGrayscale")
def grayscale(c: Call) -> Result:
    """What an eye sees of the three colours."""
    c.read.add("images")
    if c.is_channels_first:
        raise c.refuse("its channels are first")
    # tf.image's weights, those of ITU-R BT.601 to four places: together they are 0.9999.
    return c.reduce("Sum", c.emit("Mul", c[0], np.array([0.2989, 0.587, 0.114], np.float32)), [-1], True)


# --- parts and filters --------------------------------------------------------------------------------------


def _pictures(c: Call, name: str = "images", place: int = 0) -> tuple[Value, Rest]:
    """Pictures [batch, height, width, channels], and what makes the result as the input is."""
    x, is_first = tensor(c, name, place), c.is_channels_first
    is_one = c.rank(x) == 3
    if c.rank(x) not in (3, 4):
        raise c.refuse(f"its input has {c.rank(x)} axes")
    x = c.expand(x, 0) if is_one else x
    x = c.transpose(x, (0, 2, 3, 1)) if is_first else x

    def back(y: Value) -> Value:
        y = c.transpose(y, (0, 3, 1, 2), "transpose_1") if is_first else y
        return c.squeeze(y, 0) if is_one else y

    return x, back


@operation("ExtractPatches")
def patches(c: Call) -> Result:
    """Parts of one size, each in a row, as a convolution that copies."""
    sizes = c.ints("size")
    sizes = sizes * 2 if len(sizes) == 1 else sizes
    dims = len(sizes)
    steps = sizes if c.get("strides") is None else c.ints("strides", dims)
    dilations, padding = c.ints("dilation_rate", dims, 1), c.choice("padding", "valid", "same").upper()
    x, is_first = tensor(c, "images", 0), c.is_channels_first
    is_one = c.rank(x) == dims + 1
    x = c.expand(x, 0) if is_one else x
    x = c.transpose(x, (0, *range(2, dims + 2), 1)) if is_first else x
    count = math.prod(sizes) * c.size(x, -1)
    kernel = np.eye(count, dtype=c.type_of(x).numpy()).reshape(*sizes, -1, count)
    y = convolved(c, x, kernel, steps, padding, dilations)
    y = c.transpose(y, (0, dims + 1, *range(1, dims + 1)), "transpose_1") if is_first else y
    return c.squeeze(y, 0) if is_one else y


@operation("Unfold")
def unfolded(c: Call) -> Result:
    """Windows as columns, by channel.   [b, c, h, w] -> [b, c * window, windows]"""
    x = c.transpose(first(c), (0, 2, 3, 1))
    size, step, rate = c.ints("kernel_size", 2), c.ints("stride", 2, 1), c.ints("dilation", 2, 1)
    around = c.ints("padding", 2, 0)
    channels = c.size(x, -1)
    x = c.pad(x, [[0, 0], *([n, n] for n in around), [0, 0]])
    kinds: dict[str, Any] = {"ksizes": (1, *size, 1), "strides": (1, *step, 1), "rates": (1, *rate, 1)}
    y = c.emit("ExtractImagePatches", x, padding="VALID", **kinds)
    places = c.size(y, 1) * c.size(y, 2)
    y = c.shaped(y, [c.dim(y, 0), places, math.prod(size), channels])
    return c.shaped(c.transpose(y, (0, 3, 2, 1)), [c.dim(y, 0), channels * math.prod(size), places])


@operation("Fold")
def folded(c: Call) -> Result:
    """Columns of windows put back, and what overlaps added up.   [b, c * window, windows] -> [b, c, h, w]

    A transposed convolution whose kernel copies each row to its channel and place.
    """
    x = first(c)
    size, step, rate = c.ints("kernel_size", 2), c.ints("stride", 2, 1), c.ints("dilation", 2, 1)
    around, wanted = c.ints("padding", 2, 0), c.ints("output_size", 2)
    whole = [n + 2 * p for n, p in zip(wanted, around, strict=True)]
    spread = [(k - 1) * d + 1 for k, d in zip(size, rate, strict=True)]
    counts = [(n - k) // s + 1 for n, k, s in zip(whole, spread, step, strict=True)]
    channels = c.size(x, 1) // math.prod(size)
    columns = c.transpose(x, (0, 2, 1))
    columns = c.shaped(columns, [c.dim(x, 0), *counts, channels * math.prod(size)])
    copies = np.eye(channels * math.prod(size), dtype=c.type_of(x).numpy())
    copies = copies.reshape(channels, *size, -1).transpose(1, 2, 0, 3)
    kernel = np.zeros((*spread, *copies.shape[2:]), copies.dtype)
    kernel[:: rate[0], :: rate[1]] = copies
    y = c.emit(
        "Conv2DBackpropInput",
        c.sizes_vector([c.dim(x, 0), *whole, channels]),
        c.const(kernel, "kernel"),
        columns,
        T=c.type_of(x),
        strides=(1, *step, 1),
        padding="VALID",
        data_format="NHWC",
    )
    ends = [p + n for p, n in zip(around, wanted, strict=True)]
    return c.transpose(c.sliced(y, [0, *around], [None, *ends]), (0, 3, 1, 2))


def _sides(c: Call, what: str, sizes: tuple[int, int], sign: int) -> list[list[int]]:
    """How much is put around height and width, or taken away; one side may be left to a target."""
    found = []
    names = (("top", "bottom", "height"), ("left", "right", "width"))
    for (*sides, target), size in zip(names, sizes, strict=True):
        given = [c.get(f"{side}_{what}") for side in sides]
        wanted = c.get(f"target_{target}")
        amounts = [n if isinstance(n, int) else None for n in given]
        if isinstance(wanted, int) and None in amounts:
            rest = sign * (wanted - size) - sum(n for n in amounts if n is not None)
            amounts = [rest if n is None else n for n in amounts]
        known = [n for n in amounts if n is not None and n >= 0]
        if len(known) != 2:
            raise c.refuse(f"its {what} along its {target} is {given}, towards {wanted}")
        found.append(known)
    return found


@operation("PadImages")
def pad_images(c: Call) -> Result:
    x, back = _pictures(c)
    around = _sides(c, "padding", (c.size(x, 1), c.size(x, 2)), 1)
    return back(c.pad(x, [[0, 0], *around, [0, 0]]))


@operation("CropImages")
def crop_images(c: Call) -> Result:
    x, back = _pictures(c)
    sizes = c.size(x, 1), c.size(x, 2)
    off = _sides(c, "cropping", sizes, -1)
    ends = [size - after for size, (_, after) in zip(sizes, off, strict=True)]
    return back(c.sliced(x, [0, *(before for before, _ in off)], [None, *ends]))


def _filtered(c: Call, x: Value, kernel: Array, padding: str) -> Value:
    """Each channel by the same kernels.   kernel [rows, columns, kernels]"""
    many = np.repeat(kernel[:, :, None].astype(c.type_of(x).numpy()), c.size(x, -1), axis=2)
    return depthwise_convolved(c, x, many, (1, 1), padding, (1, 1))


@operation("GaussianBlur")
def gaussian_blur(c: Call) -> Result:
    sizes, sigmas = c.ints("kernel_size", 2, 3), c.get("sigma", [1.0, 1.0])
    pair = sigmas if isinstance(sigmas, list) else [sigmas, sigmas]
    x, back = _pictures(c)
    if len(pair) != 2 or any(not isinstance(n, int | float) for n in pair) or c.type_of(x) is not FLOAT:
        raise c.refuse(f"its sigma is {str(sigmas)[:40]}, and its input of the type {c.type_of(x).name}")
    one, two = (_bell(n, sigma) for n, sigma in zip(sizes, pair, strict=True))
    # As Keras takes it, whose product has the axes the other way round.
    kernel = np.outer(two, one).reshape(*sizes, 1)
    return back(_filtered(c, x, kernel, "SAME"))


def _bell(size: int, sigma: float) -> Array:
    """A normal distribution over places, of which all together are 1."""
    heights = np.exp(-0.5 * ((np.arange(size) - (size - 1) / 2) / sigma) ** 2)
    return np.asarray(heights / heights.sum())


@operation("SSIM")
def structural_similarity(c: Call) -> Result:
    """How alike two pictures are, from the means, variances and covariances in windows.   -> [b]"""
    # Wang et al., Image quality assessment (2004): the window, and k1 and k2 against 0 / 0 where all is flat.
    size, sigma, most = c.integer("filter_size", 11), c.number("filter_sigma", 1.5), c.number("max_val", 1.0)
    least, less = ((c.number(key, n) * most) ** 2 for key, n in (("k1", 0.01), ("k2", 0.03)))
    kind = c.type_of(tensor(c, "image1", 0))
    is_one = c.rank(tensor(c, "image1", 0)) == 3
    x, y = (c.cast(_pictures(c, name, n)[0], FLOAT) for n, name in enumerate(("image1", "image2")))
    bell = _bell(size, sigma)
    kernel = np.outer(bell, bell)[:, :, None]

    def mean(v: Value) -> Value:
        return _filtered(c, v, kernel, "VALID")

    one, two = mean(x), mean(y)
    squares, product = [c.emit("Square", v) for v in (one, two)], c.emit("Mul", one, two)
    spread = [c.emit("Sub", mean(c.emit("Square", v)), m) for v, m in zip((x, y), squares, strict=True)]
    common = c.emit("Sub", mean(c.emit("Mul", x, y)), product)
    above = [c.emit("AddV2", c.emit("Mul", v, 2.0), n) for v, n in ((product, least), (common, less))]
    below = [c.emit("AddV2", c.emit("AddV2", *pair), n) for pair, n in ((squares, least), (spread, less))]
    ratio = c.emit("RealDiv", c.emit("Mul", *above), c.emit("Mul", *below))
    result = c.cast(c.reduce("Mean", ratio, [1, 2, 3]), kind)
    return c.squeeze(result, 0) if is_one else result


@operation("SobelEdges")
def sobel_edges(c: Call) -> Result:
    """Edges downwards and to the right, along a new last axis."""
    is_first = c.is_channels_first
    x = tensor(c, "images", 0)
    x = c.transpose(x, (0, 2, 3, 1)) if is_first else x
    around = c.const([[0, 0], [1, 1], [1, 1], [0, 0]], "paddings")
    x = c.emit("MirrorPad", x, around, mode="REFLECT", Tpaddings=INT32)
    down = np.outer([-1, 0, 1], [1, 2, 1])
    y = _filtered(c, x, np.stack([down, down.T], axis=-1), "VALID")
    y = c.shaped(y, [*(c.dim(y, n) for n in range(3)), c.size(y, 3) // 2, 2])
    return c.transpose(y, (0, 3, 1, 2, 4)) if is_first else y


@operation("AffineTransform")
def affine_transform(c: Call) -> Result:
    """Each pixel from where eight numbers say."""
    x, back = _pictures(c)
    moves = c.cast(tensor(c, "transform", 1), FLOAT)
    moves = c.expand(moves, 0) if c.rank(moves) == 1 else moves
    sizes = c.const([c.size(x, 1), c.size(x, 2)], "size")
    kinds: dict[str, Any] = {
        "interpolation": c.choice("interpolation", "bilinear", "nearest").upper(),
        "fill_mode": c.choice("fill_mode", "constant", "nearest", "wrap", "reflect").upper(),
        "T": None, "dtype": c.type_of(x),
    }  # fmt: skip
    fill = np.float32(c.number("fill_value", 0.0))
    return back(c.emit("ImageProjectiveTransformV3", x, moves, sizes, c.const(np.asarray(fill)), **kinds))


@operation("PerspectiveTransform")
def perspective_transform(c: Call) -> Result:
    """Each pixel from where four corners and what becomes of them say."""
    x, back = _pictures(c)
    starts, ends = (
        c.cast(c.literal(c.argument(name, n)), FLOAT)
        for n, name in enumerate(("start_points", "end_points"), start=1)
    )
    starts, ends = (c.expand(v, 0) if c.rank(v) == 2 else v for v in (starts, ends))
    moves = _homography(c, starts, ends)
    sizes = c.const([c.size(x, 1), c.size(x, 2)], "size")
    kinds: dict[str, Any] = {
        "interpolation": c.choice("interpolation", "bilinear", "nearest").upper(),
        "fill_mode": "CONSTANT", "T": None, "dtype": c.type_of(x),
    }  # fmt: skip
    fill = np.float32(c.number("fill_value", 0.0))
    return back(c.emit("ImageProjectiveTransformV3", x, moves, sizes, c.const(np.asarray(fill)), **kinds))


def _homography(c: Call, starts: Value, ends: Value) -> Value:
    """The eight numbers that take the ends [b, 4, 2] to the starts: two equations a corner.   -> [b, 8]"""
    ones = c.emit("OnesLike", c.sliced(ends, [0, 0, 0], [None, None, 1]))
    line = c.concat([ends, ones], 2)
    nothing = c.emit("ZerosLike", line)
    halves = []
    for n in range(2):
        target = c.sliced(starts, [0, 0, n], [None, None, n + 1])
        own = [line, nothing] if n == 0 else [nothing, line]
        halves.append(c.concat([*own, c.emit("Neg", c.emit("Mul", ends, target))], 2))
    batch = c.dim(starts, 0)
    rows = c.shaped(c.emit("Pack", *halves, N=2, axis=2, name="stack"), [batch, 8, 8])
    solved = c.emit("MatrixSolve", rows, c.shaped(starts, [batch, 8, 1]), adjoint=False)
    return c.squeeze(solved, 2)


@operation("nn.local_response_normalization")
def lrn(c: Call) -> Result:
    numbers_of = {"bias": 1.0, "alpha": 1.0, "beta": 0.5}
    given = {key: c.argument(key, 9, value) for key, value in numbers_of.items()}
    radius = c.argument("depth_radius", 1, 5)
    x = first(c)
    if not isinstance(radius, int) or c.type_of(x) is not FLOAT:
        raise c.refuse(f"its radius is {radius}")
    attrs: dict[str, Any] = {k: float(v) for k, v in given.items() if isinstance(v, int | float)}
    return c.emit("LRN", x, depth_radius=radius, **attrs)
