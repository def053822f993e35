"""Small quantized networks, made layer by layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import dtype
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

RELU = {"fused_activation_function": "RELU"}


class Layers:
    """Builds a program; each method appends an operator that reads the last value, and gives its output.

    Args:
        shape: of the input.
        kind: element type of inputs and values: "int8", "uint8" or "float".
        seed: of weights and scales.
    """

    def __init__(self, *shape: int, kind: str = "int8", seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.kind = kind
        self.block = Subgraph([], [])
        self.last = self.tensor("input", shape)
        self.block.inputs.append(self.last)

    def content(self) -> bytes:
        """The bytes of a .tflite file; the last value is its output."""
        self.block.outputs[:] = [self.last]
        return to_bytes(Program([self.block]))

    def tensor(
        self, name: str, shape: tuple[int, ...], scale: float | None = None, zero: int | None = None
    ) -> Tensor:
        """A value, of a random scale and zero point unless they are given."""
        quantization = None
        if self.kind in ("int8", "uint8", "int16"):
            limits = np.iinfo(self.kind)
            scale = float(self.rng.uniform(0.01, 0.1)) if scale is None else scale
            zero = int(self.rng.integers(limits.min, limits.max + 1)) if zero is None else zero
            quantization = Quantization(np.float32([scale]), np.int64([zero]))
        return Tensor(f"{name}_{len(self.block.operators)}", shape, dtype(self.kind), None, quantization)

    def constant(self, name: str, data: Any, scales: Any = None, zero: int = 0, axis: int = 0) -> Tensor:
        quantization = None
        if scales is not None:
            scales = np.atleast_1d(np.float32(scales))
            quantization = Quantization(scales, np.full(len(scales), zero, np.int64), axis)
        label = f"{name}_{len(self.block.operators)}"
        return Tensor(label, data.shape, dtype(data.dtype.name), data, quantization)

    def emit(self, code: str, inputs: list[Tensor | None], output: Tensor, **options: Any) -> Tensor:
        self.block.operators.append(Operator(code, inputs, [output], options))
        self.last = output
        return output

    def weighted(
        self, code: str, shape: tuple[int, ...], axis: int, out: tuple[int, ...], **options: Any
    ) -> Tensor:
        """A layer with weights of a shape, whose filters are along an axis."""
        x, filters = self.last, shape[axis]
        y = self.tensor(code.lower(), out)
        if self.kind == "float":
            w = self.constant("w", self.rng.standard_normal(shape).astype(np.float32))
            bias = self.constant("b", self.rng.standard_normal(filters).astype(np.float32))
            return self.emit(code, [x, w, bias], y, **options)
        assert x.quantization is not None
        assert y.quantization is not None
        scales = self.rng.uniform(0.002, 0.02, filters if self.kind == "int8" else 1)
        # Sums that fill the range of the output, whatever the number of products.
        depth = int(np.prod(shape)) // filters
        y.quantization.scale[:] = x.quantization.scale * scales.mean() * 60 * np.sqrt(depth)
        low, high = (-127, 128) if self.kind == "int8" else (0, 256)
        data = self.rng.integers(low, high, shape).astype(self.kind)
        zero = 0 if self.kind == "int8" else 120
        w = self.constant("w", data, scales, zero, axis)
        bias_scales = x.quantization.scale * np.float32(scales)
        bias = self.constant("b", self.rng.integers(-3000, 3000, filters).astype(np.int32), bias_scales)
        return self.emit(code, [x, w, bias], y, **options)

    def binary(self, code: str, a: Tensor, b: Tensor, **options: Any) -> Tensor:
        """Two values, element by element."""
        shape = np.broadcast_shapes(_sizes(a), _sizes(b))
        return self.emit(code, [a, b], self.tensor(code.lower(), shape), **options)

    def unary(self, code: str) -> Tensor:
        """A function of each element; sigmoid has a scale of its own, by definition."""
        limits = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}
        scale, zero = limits.get(code, (None, None))
        if self.kind == "uint8" and zero is not None:
            zero += 128
        return self.emit(code, [self.last], self.tensor(code.lower(), self.sizes(), scale, zero))

    def alike(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """A tensor of the scale of the last one."""
        return Tensor(
            f"{name}_{len(self.block.operators)}", shape, self.last.dtype, None, self.last.quantization
        )

    def pool(
        self, code: str, window: int = 2, step: int = 1, padding: str = "VALID", **options: Any
    ) -> Tensor:
        n, height, width, depth = self.sizes()
        out = (n, *(_out(size, window, step, padding) for size in (height, width)), depth)
        options |= {"padding": padding, "stride_h": step, "stride_w": step}
        options |= {"filter_height": window, "filter_width": window}
        return self.emit(code, [self.last], self.alike("pool", out), **options)

    def joined(self, a: Tensor, b: Tensor, axis: int = -1) -> Tensor:
        """Both behind each other, which have to have one scale."""
        assert a.quantization is b.quantization
        sizes = list(_sizes(a))
        sizes[axis] += _sizes(b)[axis]
        self.last = a
        return self.emit("CONCATENATION", [a, b], self.alike("joined", tuple(sizes)), axis=axis)

    def padded(self, around: tuple[int, int, int, int]) -> Tensor:
        """Rows above and below, columns left and right."""
        n, height, width, depth = self.sizes()
        top, bottom, left, right = around
        out = (n, height + top + bottom, width + left + right, depth)
        pads = self.constant("pads", np.int32([[0, 0], [top, bottom], [left, right], [0, 0]]))
        return self.emit("PAD", [self.last, pads], self.alike("padded", out))

    def mean(self) -> Tensor:
        """Over rows and columns."""
        n, _, _, depth = self.sizes()
        axes = self.constant("axes", np.int32([1, 2]))
        return self.emit("MEAN", [self.last, axes], self.tensor("mean", (n, depth)))

    def reshaped(self, *shape: int) -> Tensor:
        sizes = self.constant("sizes", np.int32(shape))
        return self.emit("RESHAPE", [self.last, sizes], self.alike("reshaped", shape))

    def softmax(self) -> Tensor:
        zero = -128 if self.kind == "int8" else 0
        return self.emit(
            "SOFTMAX", [self.last], self.tensor("softmax", self.sizes(), 1 / 256, zero), beta=1.0
        )

    def sizes(self) -> tuple[int, ...]:
        return _sizes(self.last)

    def conv(
        self, filters: int, window: int = 3, step: int = 1, padding: str = "SAME", **options: Any
    ) -> Tensor:
        n, height, width, depth = self.sizes()
        out = (n, *(_out(size, window, step, padding) for size in (height, width)), filters)
        options |= {"padding": padding, "stride_h": step, "stride_w": step}
        return self.weighted("CONV_2D", (filters, window, window, depth), 0, out, **options)

    def depthwise(
        self, multiplier: int = 1, window: int = 3, step: int = 1, padding: str = "SAME", **options: Any
    ) -> Tensor:
        n, height, width, depth = self.sizes()
        out = (n, *(_out(size, window, step, padding) for size in (height, width)), depth * multiplier)
        options |= {"padding": padding, "stride_h": step, "stride_w": step, "depth_multiplier": multiplier}
        return self.weighted("DEPTHWISE_CONV_2D", (1, window, window, depth * multiplier), 3, out, **options)

    def dense(self, units: int, **options: Any) -> Tensor:
        sizes = self.sizes()
        rows, depth = sizes[0], int(np.prod(sizes[1:]))
        return self.weighted("FULLY_CONNECTED", (units, depth), 0, (rows, units), **options)


def _sizes(tensor: Tensor) -> tuple[int, ...]:
    return tuple(n or 0 for n in tensor.shape or ())


def _out(size: int, window: int, step: int, padding: str) -> int:
    return -(-size // step) if padding == "SAME" else (size - window) // step + 1


def mixed(kind: str, seed: int = 0) -> bytes:
    """A small network with most of what convolutional networks have."""
    net = Layers(1, 9, 8, 3, kind=kind, seed=seed)
    net.conv(6, fused_activation_function="RELU")
    left = net.depthwise(1, step=2)
    net.last = left
    right = net.conv(6, window=1)
    net.binary("ADD", left, right, fused_activation_function="RELU6")
    net.pool("MAX_POOL_2D")
    both = net.last
    net.unary("LOGISTIC")
    net.binary("MUL", both, net.last)
    product = net.last
    net.joined(product, net.pool("MAX_POOL_2D", 3, padding="SAME"))
    net.padded((0, 1, 2, 0))
    net.pool("AVERAGE_POOL_2D", padding="SAME")
    net.mean()
    net.dense(7)
    net.softmax()
    return net.content()


def windows(net: Layers) -> None:
    """Convolutions of any window, step and number of filters."""
    net.conv(5, 3, 2)
    net.conv(70, 1, **RELU)
    net.conv(9, 3, 1, "VALID")
    net.conv(17, 2, dilation_h_factor=2, dilation_w_factor=3)


def planes(net: Layers) -> None:
    """Depthwise, of few channels and of more than a register holds."""
    net.depthwise(8, 5, 2, **RELU)
    net.depthwise(1, 3, 1)
    net.conv(39, 1)
    net.depthwise(1, 3, 2, **RELU)
    net.depthwise(1, 3, dilation_h_factor=2, dilation_w_factor=2)


def pools(net: Layers) -> None:
    """The largest and the mean, with a border and without one."""
    net.pool("MAX_POOL_2D", 3, 2, "SAME")
    net.pool("AVERAGE_POOL_2D", 3, 1, "SAME", **RELU)
    net.pool("MAX_POOL_2D", 2, 1, fused_activation_function="RELU6")
    net.pool("AVERAGE_POOL_2D", 2, 2)


def products(net: Layers) -> None:
    """Of two pictures, and of a picture with a number for each channel."""
    x = net.last
    numbers = net.rng.integers(-128, 128, (1, 1, 1, net.sizes()[-1])).astype(np.int8)
    channels = net.constant("channels", numbers, 0.02, 9)
    net.binary("MUL", x, channels, **RELU)
    net.binary("MUL", net.last, x)


def sums(net: Layers) -> None:
    """Rows and sums of two values."""
    left = net.dense(150, **RELU)
    right = net.dense(150)
    net.binary("ADD", left, right, **RELU)
    net.binary("SUB", left, net.last)
