"""The architectures' common part: a graph builder that runs every layer it adds on a few small pictures.

Random weights alone blow up or fade away over fifty layers. Training prevents that by letting batch norms
collect the mean and variance of what passes through them; so does this builder, with four seeded pictures,
somewhat smaller than the network's own to be quick. The last layer is centred on what it sees, so that
answers depend on the picture.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Node, Value, Versions
from thinflow.ir.types import FLOAT, INT32
from thinflow.typing import Array

# Three with blobs and stripes, and the fourth all grain.
_PROBES = 4
# Fewer, such as an image's three, would lose too much of what they can tell by having no common part.
_MANY_CHANNELS = 16
_LOGIT_SPREAD = 1.5  # standard deviation of a class score over pictures: clear favourites, no saturation


class Builder:
    """Adds nodes to a graph and knows, for every value, what it is on the probe pictures.

    Args:
        seed: of weights and pictures.
        producer: the TensorFlow graph version to claim.
        min_consumer: the oldest version that may read it.
    """

    def __init__(self, seed: int, producer: int, min_consumer: int = 0) -> None:
        self.graph = Graph()
        self.graph.versions = Versions(producer, min_consumer)
        self.rng = np.random.Generator(np.random.PCG64(seed))
        self._seed = seed
        self._seen: dict[Value, Array] = {}

    # --- nodes ----------------------------------------------------------------------------------------------

    def op(
        self,
        op: str,
        inputs: Sequence[Value],
        name: str,
        seen: Array | None = None,
        *,
        control_inputs: Iterable[Node] = (),
        **attrs: Any,
    ) -> Value:
        """A new node's first output; `seen` is what it is on the probe pictures, if anybody will ask."""
        value = self.graph.add(op, inputs, name, attrs=attrs, control_inputs=control_inputs).output()
        assert value.name == name, f"the name {name} is taken"
        if seen is not None:
            self._seen[value] = seen
        return value

    def seen(self, value: Value) -> Array:
        """The value on the probe pictures: [4,h,w,c], or [4,c] after pooling."""
        return self._seen[value]

    def const(self, array: Any, name: str) -> Value:
        """A constant; Python floats and ints become float and int32."""
        array = np.asarray(array)
        if array.dtype.kind in "fi":
            array = array.astype(np.float32 if array.dtype.kind == "f" else np.int32, copy=False)
        return self.graph.constant(array, name)

    def read(self, array: Array, name: str, read_name: str = "") -> Value:
        """A frozen variable: a constant behind the Identity that used to read it."""
        value = self.const(array, name)
        return self.op("Identity", [value], read_name or f"{name}/read", T=FLOAT)

    def placeholder(self, name: str, size: int, probe_size: int, batch: int | None = 1) -> Value:
        """The image input [batch,size,size,3], looked at in probe_size x probe_size."""
        shape = ShapeAttr((batch, size, size, 3))
        return self.op(
            "Placeholder", [], name, pictures(_PROBES, probe_size, self._seed), dtype=FLOAT, shape=shape
        )

    # --- random numbers -------------------------------------------------------------------------------------

    def normal(self, *shape: int, std: float) -> Array:
        """Normal float32 numbers around 0."""
        weights = self.rng.standard_normal(shape, dtype=np.float32)
        weights *= np.float32(std)
        return weights

    def filters(self, h: int, w: int, c: int, k: int, gain: float = 2.0) -> Array:
        """Convolution weights [h,w,c,k] after He et al. 2015: gain / fan-in is the variance.

        They sum to zero over many input channels. Otherwise what all channels have in common, which is most
        of what a Relu passes on, would add up over the layers, and a picture with a bit more contrast would
        saturate.
        """
        weights = self.normal(h, w, c, k, std=math.sqrt(gain / (h * w * c)))
        if c >= _MANY_CHANNELS:
            weights -= weights.mean(2, keepdims=True)
        return weights

    def scales(self, channels: int) -> Array:
        """Plausible trained gammas [channels], around 1."""
        return self.rng.uniform(0.7, 1.3, channels).astype(np.float32)

    def shifts(self, channels: int) -> Array:
        """Plausible trained betas or biases [channels], around 0."""
        return self.normal(channels, std=0.2)

    # --- layers that every style spells the same way --------------------------------------------------------

    def conv(
        self, x: Value, weights: Array, w: Value, name: str, stride: int = 1, padding: str = "SAME"
    ) -> Value:
        """Conv2D of x with w, which holds `weights`."""
        y = convolve(self.seen(x), weights, stride, padding)
        return self.op("Conv2D", [x, w], name, y, **_window_attrs(stride, padding), dilations=(1, 1, 1, 1))

    def depthwise(
        self, x: Value, weights: Array, w: Value, name: str, stride: int = 1, padding: str = "SAME"
    ) -> Value:
        """DepthwiseConv2dNative of x with w, which holds `weights` [h,w,c,1]."""
        y = convolve_depthwise(self.seen(x), weights, stride, padding)
        attrs = _window_attrs(stride, padding)
        return self.op("DepthwiseConv2dNative", [x, w], name, y, **attrs, dilations=(1, 1, 1, 1))

    def pool(self, op: str, x: Value, name: str, size: int, stride: int, padding: str) -> Value:
        """MaxPool or AvgPool of x over size x size."""
        y = pool(self.seen(x), size, stride, padding, take_max=op == "MaxPool")
        return self.op(op, [x], name, y, **_window_attrs(stride, padding), ksize=(1, size, size, 1))

    def activation(self, op: str, x: Value, name: str) -> Value:
        """Relu or Relu6 of x."""
        y = np.maximum(self.seen(x), 0)
        return self.op(op, [x], name, np.minimum(y, 6) if op == "Relu6" else y, T=FLOAT)

    def pad(self, x: Value, name: str, amount: tuple[int, int]) -> Value:
        """Zeros around height and width: (before, after)."""
        around = [[0, 0], list(amount), list(amount), [0, 0]]
        paddings = self.const(around, f"{name}/paddings")
        return self.op("Pad", [x, paddings], name, np.pad(self.seen(x), around), T=FLOAT, Tpaddings=INT32)

    def add(self, op: str, x: Value, y: Value, name: str) -> Value:
        """x + y with op Add or AddV2."""
        return self.op(op, [x, y], name, self.seen(x) + self.seen(y), T=FLOAT)

    def bias_add(self, x: Value, bias: Array, b: Value, name: str) -> Value:
        """BiasAdd of x and b, which holds `bias`."""
        return self.op("BiasAdd", [x, b], name, self.seen(x) + bias, T=FLOAT, data_format=b"NHWC")

    def reshape(self, x: Value, shape: Sequence[int], name: str, shape_name: str) -> Value:
        """x in another shape."""
        target = self.const(list(shape), shape_name)
        y = self._seen[x].reshape(_PROBES, -1) if x in self._seen else None
        return self.op("Reshape", [x, target], name, y, T=FLOAT, Tshape=INT32)

    def statistics(self, x: Value) -> tuple[Array, Array]:
        """Mean and variance [channels] of x.

        Rounded to three digits: another machine adds in another order, and should get the same file.
        """
        seen = self.seen(x)
        axes = tuple(range(seen.ndim - 1))
        mean, variance = seen.mean(axes), seen.var(axes)
        # Few positions make a poor estimate, and a dead channel would be divided by nothing.
        variance = 0.9 * variance + 0.1 * variance.mean() + np.float32(1e-4)
        return _three_digits(mean), _three_digits(variance)

    def normalized(
        self, x: Value, mean: Array, variance: Array, gamma: Array, beta: Array, epsilon: float
    ) -> Array:
        """The result of a batch norm of x."""
        scale = gamma / np.sqrt(variance + np.float32(epsilon))
        y: Array = self.seen(x) * scale + (beta - mean * scale)
        return y

    def classifier(self, features: Value, classes: int) -> tuple[Array, Array]:
        """Weights [c,classes] and bias [classes] whose scores differ from picture to picture.

        Pooled features of random networks are nearly the same for every picture; so would the scores be.
        """
        seen = self.seen(features).reshape(_PROBES, -1)
        centred = seen - seen.mean(0)
        length = math.sqrt(float((centred**2).sum(1).mean()))
        # A score's spread is that of the weights times the length of what tells two pictures apart.
        weights = self.normal(
            seen.shape[1], classes, std=float(_three_digits(np.array(_LOGIT_SPREAD / (length + 1e-6))))
        )
        # The bias takes off what the mean picture scores.
        return weights, _three_digits(-(seen.mean(0) @ weights)) + self.shifts(classes)

    def finish(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Graph:
        """The graph, with its inputs and outputs declared. The pictures are forgotten."""
        self.graph.inputs, self.graph.outputs = list(inputs), list(outputs)
        self._seen.clear()
        return self.graph


def pictures(count: int, size: int, seed: int) -> Array:
    """Seeded images [count,size,size,3] in -1..1: blobs, stripes and grain; every fourth is all grain."""
    # A stream of its own beside that of the weights.
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    across = np.linspace(-1, 1, size, dtype=np.float32)
    images = np.empty((count, size, size, 3), np.float32)
    for number, image in enumerate(images):
        if number % 4 == 3:
            image[:] = rng.uniform(-1, 1, image.shape)
            continue
        image[:] = rng.uniform(-0.5, 0.5, 3)
        for _ in range(6):
            x, y = rng.uniform(-1, 1, 2)
            width = rng.uniform(0.1, 0.6)
            blob = np.exp(-(((across - x) / width) ** 2) - (((across - y) / width) ** 2)[:, None])
            image += blob[:, :, None] * rng.uniform(-1, 1, 3)
        angle, waves = rng.uniform(0, math.pi), rng.uniform(4, 40)
        slope = math.cos(angle) * across + math.sin(angle) * across[:, None]
        image += np.sin(waves * slope)[:, :, None] * rng.uniform(-0.5, 0.5, 3)
        image += rng.standard_normal((size, size, 3), dtype=np.float32) * np.float32(rng.uniform(0.05, 0.4))
    return np.clip(images, -1, 1, out=images)


def convolve(x: Array, w: Array, stride: int, padding: str) -> Array:
    """x [n,h,w,c] with w [kh,kw,c,k] as TensorFlow convolves."""
    kh, kw, c, k = w.shape
    if kh == kw == 1:
        # A 1x1 window needs no copies of what it sees, whatever the padding.
        x = x[:, ::stride, ::stride]
        y: Array = (x.reshape(-1, c) @ w.reshape(c, k)).reshape(*x.shape[:3], k)
        return y
    # One matrix product over all windows: numpy has no convolution of images.
    windows = _windows(x, (kh, kw), stride, padding, 0.0)  # [n,h,w,kh,kw,c]
    y = (windows.reshape(-1, kh * kw * c) @ w.reshape(-1, k)).reshape(*windows.shape[:3], k)
    return y


def convolve_depthwise(x: Array, w: Array, stride: int, padding: str) -> Array:
    """x [n,h,w,c] with w [kh,kw,c,1], each channel with its own filter."""
    windows = _windows(x, w.shape[:2], stride, padding, 0.0)
    # Tap by tap: the windows of all channels at once would be kh kw times the image.
    y = windows[:, :, :, 0, 0] * w[0, 0, :, 0]
    for i, j in list(np.ndindex(*w.shape[:2]))[1:]:
        y += windows[:, :, :, i, j] * w[i, j, :, 0]
    return y


def pool(x: Array, size: int, stride: int, padding: str, *, take_max: bool) -> Array:
    """Maximum or mean of x [n,h,w,c] over size x size windows; padding counts in neither."""
    if take_max:
        # -inf as the border never is the maximum.
        y: Array = _windows(x, (size, size), stride, padding, -np.inf).max((3, 4))
        return y
    total = _windows(x, (size, size), stride, padding, 0.0).sum((3, 4))
    count = _windows(np.ones_like(x[:1, :, :, :1]), (size, size), stride, padding, 0.0).sum((3, 4))
    result: Array = total / count
    return result


def _windows(x: Array, size: Sequence[int], stride: int, padding: str, fill: float) -> Array:
    """A view [n,h,w,kh,kw,c] of the windows."""
    if padding == "SAME":
        around = [(0, 0)]
        for length, window in zip(x.shape[1:3], size, strict=True):
            # TensorFlow's SAME: the odd pixel at the end.
            missing = max((math.ceil(length / stride) - 1) * stride + window - length, 0)
            around.append((missing // 2, missing - missing // 2))
        x = np.pad(x, [*around, (0, 0)], constant_values=fill)
    views = np.lib.stride_tricks.sliding_window_view(x, tuple(size), axis=(1, 2))[:, ::stride, ::stride]
    result: Array = views.transpose(0, 1, 2, 4, 5, 3)
    return result


def _window_attrs(stride: int, padding: str) -> dict[str, Any]:
    return {
        "T": FLOAT,
        "strides": (1, stride, stride, 1),
        "padding": padding.encode(),
        "data_format": b"NHWC",
    }


def _three_digits(x: Array) -> Array:
    """x rounded to three significant digits, as float32 [same shape]."""
    # The floor keeps the logarithm of 0 finite; 0 / unit stays 0.
    exponent = np.floor(np.log10(np.maximum(np.abs(x), 1e-12)))
    unit = 10.0 ** (exponent - 2)
    return (np.round(x / unit) * unit).astype(np.float32)
