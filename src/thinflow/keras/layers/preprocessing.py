"""Layers that prepare numbers and pictures: scaling, normalizing, resizing, bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32, dtype
from thinflow.keras.call import Call
from thinflow.keras.config import LayerConfig
from thinflow.keras.layers.cells import listed_layers
from thinflow.keras.layers.reshaping import resized
from thinflow.keras.registry import Inside, Result, Slot, layer

_EPSILON = 1e-7
"""Keras's smallest divisor (`keras.config.epsilon()`)."""


def floats(c: Call, x: Value) -> Value:
    """A tensor in the type of floats that the layer computes in."""
    return c.cast(x, c.compute)


@layer("Rescaling", masks="pass")
def rescaling(c: Call) -> Result:
    """x * scale + offset; each a number, or one for each channel."""
    x = floats(c, c[0])
    scale, offset = (np.asarray(c.get(name, value)) for name, value in (("scale", 1.0), ("offset", 0.0)))
    y = c.emit("Mul", x, c.const(scale, "scale", like=x))
    return y if not offset.any() else c.emit("AddV2", y, c.const(offset, "offset", like=x))


def _normalization_slots(config: LayerConfig, inside: Inside) -> list[Slot]:
    # Given numbers are in the config; those that were learnt from data are variables.
    if config.options.get("mean") is not None:
        return []
    return [Slot(name, False) for name in ("mean", "variance", "count")]


@layer("Normalization", weights=_normalization_slots, masks="pass")
def normalization(c: Call) -> Result:
    """(x - mean) / sqrt(variance) over all but some axes, or back."""
    x = floats(c, c[0])
    rank = c.rank(x)
    given = c.get("axis", -1)
    axes = [c.axis(n, rank) for n in ([] if given is None else c.ints("axis", default=-1))]
    shape = [c.size(x, n) if n in axes else 1 for n in range(rank)]
    parts = []
    for name in ("mean", "variance"):
        stated = c.get(name)
        array = c.array(name) if stated is None else np.asarray(stated, c.compute.numpy())
        parts.append(np.broadcast_to(array.reshape(shape) if array.size > 1 else array, shape))
    mean, variance = parts
    deviation = np.maximum(np.sqrt(variance), _EPSILON)
    if c.flag("invert"):
        return c.emit("AddV2", c.emit("Mul", x, c.const(deviation, "deviation", like=x)), mean)
    centred = c.emit("Sub", x, c.const(mean, "mean", like=x))
    return c.emit("RealDiv", centred, c.const(deviation, "deviation", like=x))


# --- pictures -----------------------------------------------------------------------------------------------


def _resized(c: Call, x: Value, size: Sequence[int], method: str, is_smooth: bool = False) -> Value:
    """Pictures [batch, height, width, channels] of another size, by the centres of pixels."""
    if is_smooth and method != "nearest":
        return _smoothed(c, x, size, method)
    y = resized(c, x, c.const(list(size), "size"), method)
    y.spec = y.spec.with_shape((c.shape(x)[0], *size, c.shape(x)[3]))
    return y


def _smoothed(c: Call, x: Value, size: Sequence[int], method: str) -> Value:
    """The same, where a pixel of a smaller picture is a mean of all that it covers."""
    scale = [new / c.size(x, 1 + n, "the size of its pictures") for n, new in enumerate(size)]
    factors = [c.const(np.asarray(v, np.float32), name) for v, name in ((scale, "scale"), ([0, 0], "shift"))]
    kind = {"bilinear": "triangle", "bicubic": "keyscubic"}[method]
    y = c.emit(
        "ScaleAndTranslate", x, c.const(list(size), "size"), *factors, kernel_type=kind, antialias=True
    )
    return y if c.type_of(x).itemsize == 4 else c.cast(y, c.type_of(x))


def resized_pictures(c: Call, x: Value, size: Sequence[int], method: str) -> Value:
    """Pictures [batch, height, width, channels] of another size, as options say.

    They may be cut or filled up first, and be smoothed. Whole numbers are rounded to such again by Keras 3.
    """
    given = c.type_of(x)
    x = x if given.is_floating else c.cast(x, FLOAT)
    if c.flag("crop_to_aspect_ratio"):
        x = _in_proportion(c, x, size)
    elif c.flag("pad_to_aspect_ratio"):
        x = _filled_up(c, x, size)
    if c.get("fill_mode") not in (None, "constant"):
        raise c.refuse(f"its fill_mode is '{c.get('fill_mode')}'")
    y = _resized(c, x, size, method, c.flag("antialias"))
    if given.is_floating or c.generation < 3:
        return y
    ends = np.iinfo(given.numpy())
    y = c.emit("Minimum", c.emit("Maximum", c.emit("Round", y), float(ends.min)), float(ends.max))
    return c.cast(y, given)


def _filled_up(c: Call, x: Value, size: Sequence[int]) -> Value:
    """In the middle of the smallest picture of the proportions of a size, of which the rest is one value."""
    height, width = (c.size(x, n, "the size of its pictures") for n in (1, 2))
    rows = max(height, int(float(width * size[0]) / size[1]))
    columns = max(width, int(float(height * size[1]) / size[0]))
    # Of an odd rest Keras leaves the last line away.
    top, left = (rows - height) // 2, (columns - width) // 2
    value = c.number("fill_value", 0.0)
    if not top and not left:
        return x
    around = c.const([[0, 0], [top, top], [left, left], [0, 0]], "paddings")
    return c.emit("PadV2", x, around, c.const(value, like=x), Tpaddings=INT32)


def _batched(c: Call, takes_integers: bool = False) -> tuple[Value, bool]:
    """Pictures with channels last and a batch, and whether they had one."""
    x = c[0]
    if not c.type_of(x).is_floating and not takes_integers:
        if c.generation > 2:
            raise c.refuse("its input is of integers", "cast it to float32 in Keras first")
        x = floats(c, x)
    has_batch = c.rank(x) == 4
    if not has_batch:
        x = c.expand(x, 0)
    return (c.transpose(x, (0, 2, 3, 1)) if c.is_channels_first else x), has_batch


def _returned(c: Call, y: Value, has_batch: bool) -> Value:
    y = c.transpose(y, (0, 3, 1, 2)) if c.is_channels_first else y
    return y if has_batch else c.squeeze(y, 0)


def _in_proportion(c: Call, x: Value, size: Sequence[int]) -> Value:
    """The largest middle part of the proportions of a size."""
    height, width = (c.size(x, n, "the size of its pictures") for n in (1, 2))
    # Cut off behind a division of floats, as Keras does it: rounding otherwise would move the cut by a pixel.
    rows = min(height, int(float(width * size[0]) / size[1]))
    columns = min(width, int(float(height * size[1]) / size[0]))
    return _cut(c, x, (int(float(height - rows) / 2), int(float(width - columns) / 2)), (rows, columns))


def _cut(c: Call, x: Value, start: Sequence[int], size: Sequence[int]) -> Value:
    if tuple(size) == tuple(c.shape(x)[1:3]):
        return x
    return c.sliced(x, [0, *start], [None, start[0] + size[0], start[1] + size[1]])


@layer("Resizing", ignores=("fill_value", "training", "bounding_box_format"))
def resizing(c: Call) -> Result:
    size = (c.integer("height"), c.integer("width"))
    x, has_batch = _batched(c, takes_integers=True)
    method = c.choice("interpolation", "bilinear", "nearest", "bicubic")
    return _returned(c, resized_pictures(c, x, size, method), has_batch)


@layer("CenterCrop", ignores=("training",))
def center_crop(c: Call) -> Result:
    """The middle of pictures; of smaller ones the largest part of those proportions, resized."""
    return _middle(c)


@layer("RandomCrop", ignores=("seed", "training"))
def random_crop(c: Call) -> Result:
    """Where nothing is trained, the largest part of those proportions, resized."""
    size = (c.integer("height"), c.integer("width"))
    x, has_batch = _batched(c)
    return _returned(c, _resized(c, _in_proportion(c, x, size), size, "bilinear"), has_batch)


def _middle(c: Call) -> Value:
    size = (c.integer("height"), c.integer("width"))
    x, has_batch = _batched(c)
    height, width = (c.size(x, n, "the size of its pictures") for n in (1, 2))
    if height < size[0] or width < size[1]:
        y = _resized(c, _in_proportion(c, x, size), size, "bilinear")
    else:
        y = _cut(c, x, ((height - size[0]) // 2, (width - size[1]) // 2), size)
    return _returned(c, y, has_batch)


_AUGMENTING = (
    *("AugMix", "AutoContrastRandom", "CutMix", "MixUp", "RandAugment", "RandomBrightness"),
    *("RandomColorDegeneration", "RandomColorJitter", "RandomContrast", "RandomElasticTransform"),
    *("RandomErasing", "RandomFlip", "RandomGaussianBlur", "RandomGrayscale", "RandomHeight", "RandomHue"),
    *("RandomInvert", "RandomPerspective", "RandomPosterization", "RandomRotation", "RandomSaturation"),
    *("RandomSharpness", "RandomShear", "RandomTranslation", "RandomWidth", "RandomZoom"),
    *("Equalization", "Solarization"),
)


@layer(*_AUGMENTING, masks="pass", ignores=("training",))
def augmentation(c: Call) -> Result:
    """Pictures as they are: only training changes them."""
    c.read |= set(c.layer.options)
    return c.unchanged() if c.type_of(c[0]) is c.compute else floats(c, c[0])


# --- bins and categories ------------------------------------------------------------------------------------


_OF_BOXES = ("training", "max_number", "fill_value", "bounding_box_format", "data_format")


@layer("MaxNumBoundingBoxes", ignores=_OF_BOXES)
def max_num_bounding_boxes(c: Call) -> Result:
    """Pictures as they are; boxes beside them would be cut or filled up."""
    if len(c.xs) != 1:
        raise c.refuse("it is called with boxes beside its pictures")
    return floats(c, c[0])


@layer("AutoContrast", ignores=("training", "bounding_box_format", "data_format"))
def auto_contrast(c: Call) -> Result:
    """Each channel stretched so that it fills the range of values; one of one value stays."""
    x, rank = floats(c, c[0]), c.rank(c[0])
    given = c.get("value_range", [0, 255])
    if not isinstance(given, list) or len(given) != 2 or rank not in (3, 4):
        raise c.refuse(f"its range is {str(given)[:40]}, and its input has {rank} axes")
    low, high = (float(n) for n in given)
    y = c.emit("Mul", c.emit("Sub", x, low), 255 / (high - low))
    least, most = (c.reduce(op, y, [rank - 3, rank - 2], True) for op in ("Min", "Max"))
    scale = c.emit("RealDiv", c.const(255.0, like=y), c.emit("Sub", most, least))
    offset = c.emit("Mul", c.emit("Neg", least), scale)
    y = c.emit("AddV2", c.emit("Mul", y, scale), offset)
    y = c.emit("Minimum", c.emit("Maximum", y, 0.0), 255.0)
    y = c.emit("AddV2", c.emit("Mul", y, (high - low) / 255), low)
    return c.emit("SelectV2", c.emit("IsNan", y), x, y, T=c.compute)


def _inner(config: LayerConfig) -> dict[str, LayerConfig]:
    """The layers of a pipeline by their places in a file."""
    return listed_layers(config, "layers", "layers")


def _inner_slots(config: LayerConfig, inside: Inside) -> list[Slot]:
    return [slot for place, inner in _inner(config).items() for slot in inside.slots(inner, place)]


@layer("Pipeline", weights=_inner_slots, ignores=("training", "mask"))
def pipeline(c: Call) -> Result:
    """One layer behind the other."""
    c.read.add("layers")
    result: object = c.unchanged()
    for place, inner in _inner(c.layer).items():
        result = c.apply(inner, place, result)
    return result


def encoded(c: Call, numbers: Value, depth: int, weights: Value | None = None) -> Value:
    """Numbers of categories as `output_mode` wants them.   [..., n] -> [..., n], or [..., depth]

    Args:
        weights: what each number counts for, if not 1.
    """
    mode = c.choice("output_mode", "int", "one_hot", "multi_hot", "count", "binary")
    if c.flag("sparse"):
        raise c.refuse("its output is sparse")
    if mode == "int":
        return numbers
    numbers = c.cast(numbers, INT32)
    if mode == "one_hot":
        numbers = c.squeeze(numbers, -1) if c.shape(numbers)[-1] == 1 else numbers
        return _one_hot(c, numbers, depth)
    return category_counts(c, numbers, depth, mode, weights)


def category_counts(
    c: Call, numbers: Value, depth: int, mode: str = "count", weights: Value | None = None
) -> Value:
    """How often each category is among numbers; whether at all unless the mode is "count"."""
    rank = c.rank(numbers)
    if rank > 2:
        raise c.refuse(f"its output_mode '{mode}' is known for rows of numbers only, not for {rank} axes")
    chosen = _one_hot(c, c.cast(numbers, INT32), depth)
    if weights is not None:
        chosen = c.emit("Mul", chosen, c.expand(floats(c, weights), rank))
    return c.reduce("Sum" if mode == "count" else "Max", chosen, [rank - 1])


def _one_hot(c: Call, numbers: Value, depth: int) -> Value:
    on, off = (c.const(np.asarray(v, c.compute.numpy()), name) for v, name in ((1, "on"), (0, "off")))
    return c.emit("OneHot", numbers, c.const(depth, "depth"), on, off, T=c.compute, TI=INT32, axis=-1)


@layer("CategoryEncoding")
def category_encoding(c: Call) -> Result:
    if "output_mode" not in c.layer.options:
        raise c.refuse("it does not say how it encodes (output_mode)")
    weights = c.argument("count_weights", 1)
    if weights is not None and c.get("output_mode") != "count":
        raise c.refuse("it is called with count_weights, and does not count")
    counted = None if weights is None else c.literal(weights)
    return encoded(c, c[0], c.integer("num_tokens"), counted)


@layer("Discretization", ignores=("epsilon", "num_bins"))
def discretization(c: Call) -> Result:
    """The number of the bin that each element is in, from the upper bound of one to the next."""
    bounds = c.get("bin_boundaries")
    if not isinstance(bounds, list):
        raise c.refuse("its bins were learnt and are not in the config", "save it with bin_boundaries")
    numbers = c.emit("Bucketize", floats(c, c[0]), boundaries=tuple(float(b) for b in bounds))
    mode = c.get("output_mode", "int")
    y = encoded(c, numbers, len(bounds) + 1)
    return c.cast(y, dtype("int64")) if mode == "int" and c.generation < 3 else y


@layer("Hashing")
def hashing(c: Call) -> Result:
    """Texts or whole numbers by a hash of FarmHash64, or of SipHash64 with a salt."""
    bins = c.integer("num_bins")
    x = c[0]
    hidden = c.get("mask_value")
    keeps_zero = hidden is not None and bins > 1
    texts = x
    if c.type_of(x).is_floating:
        texts = c.cast(x, dtype("int64"))
    if c.type_of(texts) is not dtype("string"):
        texts = c.emit("AsString", texts)
    # Bin 0 is kept for what is masked.
    numbers = _hashed(c, texts, bins - 1 if keeps_zero else bins)
    if keeps_zero:
        mask = c.const(np.array(hidden.encode(), object)) if isinstance(hidden, str) else c.literal(hidden, x)
        is_hidden = c.emit("Equal", x, mask)
        numbers = c.emit("AddV2", numbers, 1)
        numbers = c.emit("SelectV2", is_hidden, c.emit("ZerosLike", numbers), numbers, T=dtype("int64"))
    return encoded(c, numbers, bins)


_CROSS_KEY = 0xDECAFCAFFE
"""TensorFlow's key of hashes of crosses."""


@layer("HashedCrossing")
def hashed_crossing(c: Call) -> Result:
    """A hash of what stands side by side in several columns of texts or whole numbers."""
    bins, text, whole = c.integer("num_bins"), dtype("string"), dtype("int64")
    columns = []
    for x in c.xs:
        if c.type_of(x) is not text and not c.type_of(x).is_integer:
            raise c.refuse(f"its input is of the type {c.type_of(x).name}")
        columns.append(c.reshape(x if c.type_of(x) is text else c.cast(x, whole), (None, 1)))
    kinds: dict[str, Any] = {
        "T": None, "N": 0, "hashed_output": True, "num_buckets": bins, "hash_key": _CROSS_KEY,
        "out_type": whole, "internal_type": text, "sparse_types": (),
        "dense_types": tuple(c.type_of(x) for x in columns),
    }  # fmt: skip
    numbers = c.node("SparseCross", *columns, **kinds).output(1)
    # Each row has one cross, so the values stand in the order of the rows.
    return encoded(c, c.shaped(numbers, [c.dim(c[0], n) for n in range(c.rank(c[0]))]), bins)


def _hashed(c: Call, texts: Value, bins: int) -> Value:
    salt = c.get("salt")
    if salt is None:
        return c.emit("StringToHashBucketFast", texts, T=None, num_buckets=bins)
    keys = (salt, salt) if isinstance(salt, int) else c.ints("salt", 2)
    return c.emit("StringToHashBucketStrong", texts, T=None, num_buckets=bins, key=tuple(keys))
