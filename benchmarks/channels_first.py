"""Convolutional networks said twice with the same weights: as PyTorch exports them to ONNX, with channels
behind the batch, and as TensorFlow has them, with channels last.

Weights are random, scaled so that activations keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[int, int, int]
"""Channels, height, width."""


class Words(Protocol):
    """What a network is said in. Values are opaque; pictures have one sample."""

    def conv(self, x: Any, w: Array, b: Array, stride: int, group: int) -> Any:
        """x under w [out, in / group, k, k], with a margin of k // 2."""
        ...

    def relu(self, x: Any) -> Any: ...

    def sigmoid(self, x: Any) -> Any: ...

    def add(self, x: Any, y: Any) -> Any: ...

    def scale(self, x: Any, y: Any) -> Any:
        """x times y [1, c, 1, 1]."""
        ...

    def join(self, parts: list[Any]) -> Any:
        """Channels of all parts."""
        ...

    def halves(self, x: Any, channels: int) -> tuple[Any, Any]: ...

    def max_pool(self, x: Any) -> Any:
        """3x3, every second pixel, with a margin."""
        ...

    def mean(self, x: Any) -> Any:
        """The mean of all pixels, [1, c, 1, 1]."""
        ...

    def dense(self, x: Any, w: Array, b: Array, shape: Shape) -> Any:
        """x of a shape as a vector in the order of channels, rows, columns, times w [n, k], plus b."""
        ...

    def shuffle(self, x: Any, groups: int, shape: Shape) -> Any: ...


class Net:
    """Builds a network in some words; shapes are followed on the way."""

    def __init__(self, words: Words, seed: int = 0) -> None:
        self.words, self.random = words, np.random.default_rng(seed)

    def conv(
        self,
        x: tuple[Any, Shape],
        out: int,
        k: int = 1,
        stride: int = 1,
        group: int = 1,
        *,
        relu: bool = True,
    ) -> tuple[Any, Shape]:
        value, (c, h, w) = x
        weights = self._normal((out, c // group, k, k), c // group * k * k)
        bias = self._normal((out,), 100)
        y = self.words.conv(value, weights, bias, stride, group)
        return (self.words.relu(y) if relu else y), (out, -(-h // stride), -(-w // stride))

    def dense(self, x: tuple[Any, Shape], out: int) -> Any:
        value, shape = x
        count = math.prod(shape)
        return self.words.dense(value, self._normal((count, out), count), self._normal((out,), 100), shape)

    def pool(self, x: tuple[Any, Shape]) -> tuple[Any, Shape]:
        value, (c, h, w) = x
        return self.words.max_pool(value), (c, -(-h // 2), -(-w // 2))

    def mean(self, x: tuple[Any, Shape]) -> tuple[Any, Shape]:
        return self.words.mean(x[0]), (x[1][0], 1, 1)

    def excited(self, x: tuple[Any, Shape]) -> tuple[Any, Shape]:
        """Channels weighted by what all of the picture says."""
        count = x[1][0]
        gates = self.conv(self.conv(self.mean(x), count // 4), count, relu=False)
        return self.words.scale(x[0], self.words.sigmoid(gates[0])), x[1]

    def _normal(self, shape: tuple[int, ...], fan_in: int) -> Array:
        return (self.random.standard_normal(shape) * math.sqrt(2 / fan_in)).astype(np.float32)


def resnet50(net: Net, x: tuple[Any, Shape]) -> Any:
    """97 MB of weights."""
    x = net.pool(net.conv(x, 64, 7, 2))
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(count):
            step = stride if block == 0 else 1
            inner = net.conv(net.conv(net.conv(x, width), width, 3, step), 4 * width, relu=False)
            # A smaller share of each block, or sixteen of them would add up beyond float's digits.
            short = net.conv(x, 4 * width, 1, step, relu=False) if block == 0 else x
            x = net.words.relu(net.words.add(inner[0], short[0])), inner[1]
    return net.dense(net.mean(x), 1000)


def shufflenet_v1(net: Net, x: tuple[Any, Shape]) -> Any:
    """Grouped convolutions with shuffled channels between them."""
    x = net.pool(net.conv(x, 24, 3, 2))
    for width, count in ((272, 4), (544, 8), (1088, 4)):
        for block in range(count):
            first = block == 0
            inner = net.conv(x, width // 4, group=1 if x[1][0] == 24 else 4)
            inner = net.words.shuffle(inner[0], 4, inner[1]), inner[1]
            inner = net.conv(inner, width // 4, 3, 2 if first else 1, width // 4, relu=False)
            inner = net.conv(inner, width - x[1][0] if first else width, group=4, relu=False)
            both = net.words.join([net.pool(x)[0], inner[0]]) if first else net.words.add(x[0], inner[0])
            x = net.words.relu(both), (width, *inner[1][1:])
    return net.dense(net.mean(x), 1000)


def shufflenet_v2(net: Net, x: tuple[Any, Shape]) -> Any:
    """Half of the channels pass by, and all are shuffled behind each block."""
    x = net.pool(net.conv(x, 24, 3, 2))
    for width, count in ((116, 4), (232, 8), (464, 4)):
        for block in range(count):
            half = width // 2
            if block == 0:
                left = net.conv(net.conv(x, x[1][0], 3, 2, x[1][0], relu=False), half)
                right = net.conv(net.conv(net.conv(x, half), half, 3, 2, half, relu=False), half)
            else:
                one, other = net.words.halves(x[0], width)
                left = one, (half, *x[1][1:])
                inner = net.conv(net.conv((other, left[1]), half), half, 3, 1, half, relu=False)
                right = net.conv(inner, half)
            shape = (width, *right[1][1:])
            x = net.words.shuffle(net.words.join([left[0], right[0]]), 2, shape), shape
    return net.dense(net.mean(net.conv(x, 1024)), 1000)


def squeeze_excite(net: Net, x: tuple[Any, Shape]) -> Any:
    """Inverted residuals whose channels are weighted, as MobileNet v3 and EfficientNet have them."""
    x = net.conv(x, 16, 3, 2)
    for width, stride in ((24, 2), (24, 1), (40, 2), (40, 1), (80, 2), (80, 1)):
        inner = net.conv(net.conv(x, 4 * x[1][0]), 4 * x[1][0], 3, stride, 4 * x[1][0])
        inner = net.conv(net.excited(inner), width, relu=False)
        x = (net.words.add(x[0], inner[0]), inner[1]) if x[1] == inner[1] else inner
    return net.dense(net.mean(net.conv(x, 480)), 1000)


def flattened(net: Net, x: tuple[Any, Shape]) -> Any:
    """Convolutions, and dense layers on all pixels, as AlexNet and VGG have them."""
    for width in (32, 64, 128, 256):
        x = net.pool(net.conv(net.conv(x, width, 3), width, 3))
    hidden = net.words.relu(net.dense(x, 256))
    return net.dense((hidden, (256, 1, 1)), 1000)


NETS: dict[str, Callable[[Net, tuple[Any, Shape]], Any]] = {
    "ResNet-50": resnet50,
    "ShuffleNet v1": shufflenet_v1,
    "ShuffleNet v2": shufflenet_v2,
    "squeeze and excite": squeeze_excite,
    "flattened pictures": flattened,
}
SHUFFLES = {"ShuffleNet v1": 16}
"""How often a net moves channels between convolutions in groups: each is one transpose in any layout."""
PICTURE: Shape = (3, 224, 224)


def write_onnx(name: str, path: Path) -> None:
    """A net of `NETS` as PyTorch would have exported it."""
    import onnx

    words = OnnxWords()
    y = NETS[name](Net(words), ("x", PICTURE))
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        words.nodes,
        name,
        [helper.make_tensor_value_info("x", kind, [1, *PICTURE])],
        [helper.make_tensor_value_info(y, kind, [1, 1000])],
        words.constants,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def write_graphdef(name: str, path: Path) -> None:
    """The same net as TensorFlow has it."""
    import thinflow
    from thinflow.ir.attrs import ShapeAttr
    from thinflow.ir.graph import Graph
    from thinflow.ir.types import FLOAT

    graph = Graph()
    channels, *sides = PICTURE
    shape = ShapeAttr((1, *sides, channels))
    x = graph.add("Placeholder", [], "x", attrs={"dtype": FLOAT, "shape": shape}).output()
    graph.inputs, graph.outputs = [x], [NETS[name](Net(TensorFlowWords(graph)), (x, PICTURE))]
    thinflow.save(graph, path)


class OnnxWords:
    """ONNX's words; values are names."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def conv(self, x: str, w: Array, b: Array, stride: int, group: int) -> str:
        pads, strides = [w.shape[-1] // 2] * 4, [stride, stride]
        return self._op("Conv", x, self._const(w), self._const(b), pads=pads, strides=strides, group=group)

    def relu(self, x: str) -> str:
        return self._op("Relu", x)

    def sigmoid(self, x: str) -> str:
        return self._op("Sigmoid", x)

    def add(self, x: str, y: str) -> str:
        return self._op("Add", x, y)

    def scale(self, x: str, y: str) -> str:
        return self._op("Mul", x, y)

    def join(self, parts: list[str]) -> str:
        return self._op("Concat", *parts, axis=1)

    def halves(self, x: str, channels: int) -> tuple[str, str]:
        half = channels // 2
        self._op("Split", x, self._const(np.array([half, half])), axis=1, count=2)
        one, other = self.nodes[-1].output
        return one, other

    def max_pool(self, x: str) -> str:
        return self._op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)

    def mean(self, x: str) -> str:
        return self._op("GlobalAveragePool", x)

    def dense(self, x: str, w: Array, b: Array, shape: Shape) -> str:
        flat = self._op("Flatten", x)
        return self._op("Gemm", flat, self._const(np.ascontiguousarray(w.T)), self._const(b), transB=1)

    def shuffle(self, x: str, groups: int, shape: Shape) -> str:
        channels, *sides = shape
        parts = self._op("Reshape", x, self._const(np.array([1, groups, channels // groups, *sides])))
        moved = self._op("Transpose", parts, perm=[0, 2, 1, 3, 4])
        return self._op("Reshape", moved, self._const(np.array([1, *shape])))

    def _op(self, op: str, *inputs: str, count: int = 1, **attrs: Any) -> str:
        import onnx

        outputs = [f"{op}_{len(self.nodes)}_{i}" for i in range(count)]
        self.nodes.append(onnx.helper.make_node(op, list(inputs), outputs, **attrs))
        return outputs[0]

    def _const(self, array: Array) -> str:
        import onnx

        name = f"constant_{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(array, name))
        return name


class TensorFlowWords:
    """TensorFlow's words, in a graph with channels last; values are those of the graph."""

    def __init__(self, graph: Any) -> None:
        from thinflow.ir.types import FLOAT, INT32

        self.graph, self.float, self.int32 = graph, FLOAT, INT32

    def conv(self, x: Any, w: Array, b: Array, stride: int, group: int) -> Any:
        out, depth, k, _ = w.shape
        filters = np.ascontiguousarray(w.transpose(2, 3, 1, 0))
        options = {"strides": (1, stride, stride, 1), "padding": "VALID", "data_format": "NHWC"}
        x = self._padded(x, k // 2, 0.0)
        if group > 1 and depth == 1:
            filters = filters.reshape(k, k, group, out // group)
            y = self._op("DepthwiseConv2dNative", x, self._const(filters), **options)
        else:
            y = self._op("Conv2D", x, self._const(filters), **options)
        return self._op("BiasAdd", y, self._const(b))

    def relu(self, x: Any) -> Any:
        return self._op("Relu", x)

    def sigmoid(self, x: Any) -> Any:
        return self._op("Sigmoid", x)

    def add(self, x: Any, y: Any) -> Any:
        return self._op("AddV2", x, y)

    def scale(self, x: Any, y: Any) -> Any:
        return self._op("Mul", x, y)

    def join(self, parts: list[Any]) -> Any:
        return self._op("ConcatV2", *parts, self._ints(3), N=len(parts), Tidx=self.int32)

    def halves(self, x: Any, channels: int) -> tuple[Any, Any]:
        node = self.graph.add("Split", [self._ints(3), x], attrs={"T": self.float, "num_split": 2})
        return node.output(0), node.output(1)

    def max_pool(self, x: Any) -> Any:
        windows = {"ksize": (1, 3, 3, 1), "strides": (1, 2, 2, 1), "padding": "VALID"}
        return self._op("MaxPool", self._padded(x, 1, -math.inf), **windows)

    def mean(self, x: Any) -> Any:
        return self._op("Mean", x, self._ints([1, 2]), keep_dims=True, Tidx=self.int32)

    def dense(self, x: Any, w: Array, b: Array, shape: Shape) -> Any:
        channels, *sides = shape
        flat = self._op("Reshape", x, self._ints([1, math.prod(shape)]), Tshape=self.int32)
        # Rows in the order in which pixels lie here.
        rows = w.reshape(channels, math.prod(sides), -1).transpose(1, 0, 2).reshape(w.shape)
        return self._op("BiasAdd", self._op("MatMul", flat, self._const(rows)), self._const(b))

    def shuffle(self, x: Any, groups: int, shape: Shape) -> Any:
        channels, *sides = shape
        parts = self._ints([1, *sides, groups, channels // groups])
        moved = self._op("Reshape", x, parts, Tshape=self.int32)
        moved = self._op("Transpose", moved, self._ints([0, 1, 2, 4, 3]), Tperm=self.int32)
        return self._op("Reshape", moved, self._ints([1, *sides, channels]), Tshape=self.int32)

    def _padded(self, x: Any, margin: int, fill: float) -> Any:
        if not margin:
            return x
        widths = self._ints([[0, 0], [margin] * 2, [margin] * 2, [0, 0]])
        return self._op("PadV2", x, widths, self._const(np.float32(fill)), Tpaddings=self.int32)

    def _op(self, op: str, *inputs: Any, **attrs: Any) -> Any:
        return self.graph.add(op, list(inputs), attrs={"T": self.float, **attrs}).output()

    def _const(self, array: Any) -> Any:
        return self.graph.constant(np.asarray(array, np.float32))

    def _ints(self, numbers: Any) -> Any:
        return self.graph.constant(np.asarray(numbers, np.int32))
