"""Small convolutional networks described by plain data: a failing one can be written down and built again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import FLOAT, INT32

Array = np.ndarray[Any, Any]
Step = tuple[str, int, int, int]
"""Kind, which of the latest values it reads (0: the last), and two numbers whose meaning the kind decides."""

MOST_ELEMENTS = 4096
"""Of a value, per sample; steps that would make more do nothing."""


@dataclass(frozen=True)
class Network:
    """How to build a network. Any numbers make a valid one: a step that does not fit is left out.

    Attributes:
        batch: its size; None leaves it open.
        size: height, width and channels of the input.
        seed: for weights and samples.
        steps: what to stack.
    """

    batch: int | None
    size: tuple[int, int, int]
    seed: int
    steps: tuple[Step, ...]

    def graph(self) -> Graph:
        return _Builder(self).finish()

    def sample(self, number: int = 0, batch: int = 2) -> dict[str, Array]:
        """What to feed; `batch` counts where the network leaves it open."""
        rng = np.random.default_rng([self.seed, number])
        return {"x": rng.standard_normal((self.batch or batch, *self.size)).astype(np.float32)}


def networks(steps: int = 10) -> st.SearchStrategy[Network]:
    """Networks of up to that many steps."""
    small = st.integers(0, 3)
    step = st.tuples(st.sampled_from(sorted(KINDS)), small, small, small)
    return st.builds(
        Network,
        batch=st.sampled_from([1, 2, None]),
        size=st.tuples(st.integers(3, 9), st.integers(3, 9), st.integers(1, 4)),
        seed=st.integers(0, 9),
        steps=st.lists(step, min_size=1, max_size=steps).map(tuple),
    )


class _Builder:
    """Keeps the values made so far; all are float [batch, h, w, c] with h, w and c known."""

    def __init__(self, network: Network) -> None:
        self.graph = Graph()
        self.batch = network.batch
        self.rng = np.random.default_rng(network.seed)
        shape = ShapeAttr((network.batch, *network.size))
        self.x = self.graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": shape}).output()
        self.made = [(self.x, network.size)]
        for kind, back, a, b in network.steps:
            value, size = self.made[-1 - back % len(self.made)]
            result = KINDS[kind](self, value, size, a, b)
            if result is not None:
                self.made.append(result)

    def finish(self) -> Graph:
        """Outputs are the last value and another that nothing reads, if there is one."""
        last = self.made[-1][0]
        if last is self.x:
            last = self.op("Relu", self.x)
        unread = [v for v, _ in self.made if not v.readers and v is not last]
        self.graph.inputs, self.graph.outputs = [self.x], [last, *unread[:1]]
        infer_shapes(self.graph)
        return self.graph

    def op(self, name: str, *inputs: Value, **attrs: Any) -> Value:
        return self.graph.add(name, inputs, attrs={"T": FLOAT, **attrs}).output()

    def weights(self, *shape: int, fan_in: int) -> Value:
        numbers = self.rng.standard_normal(shape) / np.sqrt(fan_in)
        return self.graph.constant(numbers.astype(np.float32), "weights")

    def positive(self, count: int) -> Value:
        return self.graph.constant(self.rng.uniform(0.5, 1.5, count).astype(np.float32), "positive")

    def number(self, value: float) -> Value:
        return self.graph.constant(np.float32(value), "number")

    def ints(self, *numbers: Any) -> Value:
        return self.graph.constant(np.array(numbers, np.int32), "ints")


Size = tuple[int, int, int]
Made = tuple[Value, Size] | None
Kind = Callable[[_Builder, Value, Size, int, int], Made]


def _window(size: Size, a: int, b: int) -> tuple[int, int, dict[str, Any]]:
    """Kernel size, stride and the attributes that say so; VALID only where the window fits."""
    kernel, stride = 1 + a % 3, 1 + b % 2
    valid = b >= 2 and kernel <= min(size[:2])
    return kernel, stride, {"strides": (1, stride, stride, 1), "padding": "VALID" if valid else "SAME"}


def _after(size: Size, channels: int, kernel: int, stride: int, attrs: dict[str, Any]) -> Size:
    height, width = (d if attrs["padding"] == "SAME" else d - kernel + 1 for d in size[:2])
    return -(-height // stride), -(-width // stride), channels


def conv(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    kernel, stride, attrs = _window(size, one, two)
    channels = 2 + 2 * one
    w = b.weights(kernel, kernel, size[2], channels, fan_in=kernel * kernel * size[2])
    return b.op("Conv2D", x, w, **attrs), _after(size, channels, kernel, stride, attrs)


def depthwise(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    kernel, stride, attrs = _window(size, one, two)
    times = 2 if one == 3 and size[2] <= 8 else 1
    w = b.weights(kernel, kernel, size[2], times, fan_in=kernel * kernel)
    y = b.op("DepthwiseConv2dNative", x, w, **attrs)
    return y, _after(size, size[2] * times, kernel, stride, attrs)


def pool(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    kernel, stride, attrs = _window(size, one % 2 + 1, two)
    y = b.op("MaxPool" if one < 2 else "AvgPool", x, ksize=(1, kernel, kernel, 1), **attrs)
    return y, _after(size, size[2], kernel, stride, attrs)


def norm(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    training = one == 3
    op = "FusedBatchNormV3" if two % 2 else "FusedBatchNorm"
    mean = b.graph.constant(np.zeros(0, np.float32), "empty") if training else b.weights(size[2], fan_in=4)
    variance = mean if training else b.positive(size[2])
    more = {"U": FLOAT} if two % 2 else {}
    offset = b.weights(size[2], fan_in=4)
    y = b.op(op, x, b.positive(size[2]), offset, mean, variance, epsilon=1e-3, is_training=training, **more)
    return y, size


def bias(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    op = "BiasAdd" if one < 2 else "AddV2"
    return b.op(op, x, b.weights(size[2], fan_in=4)), size


def scale(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    return b.op("Mul", *((x, b.positive(size[2])) if one < 2 else (b.positive(size[2]), x))), size


def activation(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    names = ("Relu", "Relu6", "Sigmoid", "Tanh", "Elu", "LeakyRelu", "Softplus", "Identity")
    return b.op(names[(4 * one + two) % len(names)], x), size


def add(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    """With the latest other value of that size: a residual connection."""
    others = [v for v, s in b.made if s == size and v is not x]
    return (b.op(("AddV2", "Add", "Sub", "Maximum")[one], x, others[-1]), size) if others else None


def arithmetic(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    """With a constant: one number or one per channel, on either side."""
    c = b.positive(size[2]) if two % 2 else b.number(1.5)
    op = ("AddV2", "Sub", "RealDiv", "Minimum")[one]
    swapped = two >= 2 and op != "RealDiv"  # x may be near 0
    return b.op(op, *((c, x) if swapped else (x, c))), size


def gate(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    """Activations spelled out: hard swish with its sixth in three places, leaky relu, sigmoid gate."""
    if one == 3:
        slope = b.op("Mul", x, b.number(0.1 + 0.5 * two))
        return b.op("Maximum", x, slope), size
    if one == 2:
        return b.op("Mul", x, b.op("Sigmoid", x)), size
    clipped = b.op("Relu6", b.op("AddV2", x, b.number(3)))
    if two == 0:
        return b.op("Mul", b.op("Mul", x, clipped), b.number(1 / 6)), size
    if two == 1:
        return b.op("RealDiv", b.op("Mul", clipped, x), b.number(6)), size
    return b.op("Mul", b.op("Mul", clipped, b.number(1 / 6)), x), size


def dilated(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    """With the attribute, or as TensorFlow spells it; output as large as the input."""
    channels = 2 + one
    w = b.weights(3, 3, size[2], channels, fan_in=9 * size[2])
    if two < 2:
        attrs = {"strides": (1, 1, 1, 1), "padding": "SAME", "dilations": (1, 2, 2, 1)}
        return b.op("Conv2D", x, w, **attrs), (size[0], size[1], channels)
    extra = [(-d) % 2 for d in size[:2]]
    more = {"Tblock_shape": INT32}
    pads, crops = b.ints(*((2, 2 + e) for e in extra)), b.ints(*((0, e) for e in extra))
    blocks = b.op("SpaceToBatchND", x, b.ints(2, 2), pads, Tpaddings=INT32, **more)
    y = b.op("Conv2D", blocks, w, strides=(1, 1, 1, 1), padding="VALID")
    y = b.op("BatchToSpaceND", y, b.ints(2, 2), crops, Tcrops=INT32, **more)
    return y, (size[0], size[1], channels)


def padded_conv(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    """A VALID convolution behind explicit zeros, which may or may not be those of SAME."""
    stride, (before, after) = 1 + one % 2, ((1, 1), (0, 1), (1, 0), (2, 1))[two]
    height, width = (d + before + after for d in size[:2])
    if min(height, width) < 3:
        return None
    image = b.op("Pad", x, b.ints((0, 0), (before, after), (before, after), (0, 0)))
    w = b.weights(3, 3, size[2], 3, fan_in=9 * size[2])
    y = b.op("Conv2D", image, w, strides=(1, stride, stride, 1), padding="VALID")
    return y, ((height - 3) // stride + 1, (width - 3) // stride + 1, 3)


def upconv(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    """A transposed convolution; only where the batch is known, as its output size is a constant."""
    if b.batch is None or 4 * size[0] * size[1] * 3 > MOST_ELEMENTS:
        return None
    height, width = 2 * size[0], 2 * size[1]
    w = b.weights(2 + one % 2, 2 + one % 2, 3, size[2], fan_in=4 * size[2])
    sizes = b.ints(b.batch, height, width, 3)
    y = b.op("Conv2DBackpropInput", sizes, w, x, strides=(1, 2, 2, 1), padding="SAME")
    return y, (height, width, 3)


def softmax(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    return b.op("Softmax", x), size


def split(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    """The second half of the channels."""
    if size[2] % 2:
        return None
    axis = b.graph.constant(np.int32(3 if two % 2 else -1), "axis")
    halves = b.graph.add("Split", [axis, x], attrs={"T": FLOAT, "num_split": 2})
    return halves.output(1), (size[0], size[1], size[2] // 2)


def rearrange(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    """Pixels into channels, or back."""
    if size[2] % 4 == 0:
        return b.op("DepthToSpace", x, block_size=2), (2 * size[0], 2 * size[1], size[2] // 4)
    if size[0] % 2 or size[1] % 2:
        return None
    return b.op("SpaceToDepth", x, block_size=2), (size[0] // 2, size[1] // 2, 4 * size[2])


def concat(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    others = [(v, s) for v, s in b.made if s[:2] == size[:2]][-2 - one % 2 :]
    values = [v for v, _ in others]
    y = b.op("ConcatV2", *values, b.graph.constant(np.int32(3), "axis"), N=len(values), Tidx=INT32)
    return y, (size[0], size[1], sum(s[2] for _, s in others))


def mean(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    if two < 2:
        return b.op("Mean", x, b.ints(1, 2), keep_dims=True, Tidx=INT32), (1, 1, size[2])
    y = b.op("Mean", x, b.ints(2, 1), Tidx=INT32)
    return b.op("Reshape", y, b.ints(-1, 1, 1, size[2]), Tshape=INT32), (1, 1, size[2])


def matmul(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    """Every pixel through a dense layer."""
    rows = b.op("Reshape", x, b.ints(-1, size[2]), Tshape=INT32)
    shape = (3 + one, size[2]) if two % 2 else (size[2], 3 + one)
    y = b.op("MatMul", rows, b.weights(*shape, fan_in=size[2]), transpose_b=bool(two % 2))
    return b.op("Reshape", y, b.ints(-1, *size[:2], 3 + one), Tshape=INT32), (size[0], size[1], 3 + one)


def resize(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    height, width = (2 * d - one % 2 for d in size[:2])
    if height * width * size[2] > MOST_ELEMENTS:
        return None
    op = "ResizeBilinear" if one < 2 else "ResizeNearestNeighbor"
    flags = {"align_corners": two == 1, "half_pixel_centers": two == 2}
    return b.op(op, x, b.ints(height, width), **flags), (height, width, size[2])


def pad(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    sides = b.ints((0, 0), (one % 2, two % 2), (two % 2, 1), (0, 0))
    larger = size[0] + one % 2 + two % 2, size[1] + two % 2 + 1, size[2]
    if min(size[:2]) > 1 and one >= 2:
        return b.op("MirrorPad", x, sides, mode="REFLECT" if two < 2 else "SYMMETRIC"), larger
    return b.op("Pad", x, sides), larger


def crop(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    """Rows from 0 or 1 on, every column or every second one."""
    start, stride = min(one % 2, size[0] - 1), 1 + two % 2
    y = b.op(
        "StridedSlice", x, b.ints(0, start, 0, 0), b.ints(0, 0, 0, 0), b.ints(1, 1, stride, 1),
        Index=INT32, begin_mask=0b1101, end_mask=0b1111,
    )  # fmt: skip
    return y, (size[0] - start, -(-size[1] // stride), size[2])


def reshape(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    new = (size[0] * size[1], 1, size[2]) if one < 2 else (size[0], size[1] * size[2], 1)
    return b.op("Reshape", x, b.ints(-1, *new), Tshape=INT32), new


def transpose(b: _Builder, x: Value, size: Size, one: int, two: int) -> Made:
    order = ((0, 2, 1, 3), (0, 3, 1, 2), (0, 1, 3, 2), (0, 2, 3, 1))[one]
    height, width, channels = (size[i - 1] for i in order[1:])
    return b.op("Transpose", x, b.ints(*order), Tperm=INT32), (height, width, channels)


KINDS: dict[str, Kind] = {
    kind.__name__: kind
    for kind in (
        *(conv, dilated, padded_conv, depthwise, upconv, pool, norm, bias, scale, activation, gate, softmax),
        *(add, arithmetic, concat, split, rearrange, mean, matmul),
        *(resize, pad, crop, reshape, transpose),
    )
}
"""What a step can be."""
