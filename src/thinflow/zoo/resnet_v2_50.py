"""ResNet-50 v2 as TF-Slim freezes it, its 49 batch norms spelled out as Rsqrt, Mul, Sub and Add."""

from __future__ import annotations

from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import FLOAT, INT32
from thinflow.typing import Array
from thinflow.zoo._layers import Builder

SUMMARY = "ResNet-50 v2, TF-Slim names, batch norms spelled out (25.6M parameters, 224x224)"
INPUT = "input"
SIZE = 224

_ROOT = "resnet_v2_50"
_CLASSES = 1001  # 1000 and "background"
_EPSILON = 1e-5
_BLOCKS = [(64, 3, 2), (128, 4, 2), (256, 6, 2), (512, 3, 1)]  # width, units, stride of the last unit
_BRANCH_GAIN = 0.5  # variance a residual branch adds; its sum grows over sixteen units


def build(seed: int) -> Graph:
    b = Builder(seed, producer=24)
    image = b.placeholder(INPUT, SIZE, probe_size=160)
    x = b.pad(image, f"{_ROOT}/Pad", (3, 3))
    # No Relu follows: He's factor of 2 is for what a Relu halves.
    x = _conv(b, x, f"{_ROOT}/conv1", 64, 7, 2, "VALID", gain=1.0)
    x = b.pool("MaxPool", x, f"{_ROOT}/pool1/MaxPool", 3, 2, "SAME")
    for number, (width, units, stride) in enumerate(_BLOCKS, 1):
        for unit in range(1, units + 1):
            scope = f"{_ROOT}/block{number}/unit_{unit}/bottleneck_v2"
            x = _bottleneck(b, x, scope, width, stride if unit == units else 1)
    x = _batch_norm_relu(b, x, f"{_ROOT}/postnorm", f"{_ROOT}/postnorm/Relu")
    return b.finish([image], [_head(b, x)])


def _bottleneck(b: Builder, x: Value, scope: str, width: int, stride: int) -> Value:
    """x or its shortcut, plus 1x1, 3x3 and 1x1 convolutions of the normalized x."""
    depth = 4 * width
    preact = _batch_norm_relu(b, x, f"{scope}/preact", f"{scope}/preact/Relu")
    if b.seen(x).shape[-1] != depth:
        shortcut = _conv(b, preact, f"{scope}/shortcut", depth, 1, stride, gain=1.0)
    else:
        # A 1x1 pool with a stride only leaves pixels out, as TF-Slim's subsample does.
        shortcut = x if stride == 1 else b.pool("MaxPool", x, f"{scope}/shortcut/MaxPool", 1, stride, "VALID")
    y = _conv_norm_relu(b, preact, f"{scope}/conv1", width, 1, 1)
    if stride == 1:
        y = _conv_norm_relu(b, y, f"{scope}/conv2", width, 3, 1)
    else:
        # TF-Slim pads by itself, so that the padding does not depend on the image's size.
        y = b.pad(y, f"{scope}/Pad", (1, 1))
        y = _conv_norm_relu(b, y, f"{scope}/conv2", width, 3, stride, "VALID")
    y = _conv(b, y, f"{scope}/conv3", depth, 1, 1, gain=_BRANCH_GAIN)
    return b.add("Add", shortcut, y, f"{scope}/add")


def _conv_norm_relu(
    b: Builder, x: Value, scope: str, k: int, size: int, stride: int, padding: str = "SAME"
) -> Value:
    weights = b.filters(size, size, b.seen(x).shape[-1], k)
    y = b.conv(x, weights, b.read(weights, f"{scope}/weights"), f"{scope}/Conv2D", stride, padding)
    return _batch_norm_relu(b, y, f"{scope}/BatchNorm", f"{scope}/Relu")


def _conv(
    b: Builder, x: Value, scope: str, k: int, size: int, stride: int, padding: str = "SAME", *, gain: float
) -> Value:
    """A convolution with a bias instead of a batch norm."""
    weights, bias = b.filters(size, size, b.seen(x).shape[-1], k, gain), b.shifts(k)
    return _conv_bias(b, x, scope, weights, bias, stride, padding)


def _conv_bias(
    b: Builder, x: Value, scope: str, weights: Array, bias: Array, stride: int = 1, padding: str = "SAME"
) -> Value:
    w = b.read(weights, f"{scope}/weights")
    bias_value = b.read(bias, f"{scope}/biases")
    y = b.conv(x, weights, w, f"{scope}/Conv2D", stride, padding)
    return b.bias_add(y, bias, bias_value, f"{scope}/BiasAdd")


def _batch_norm_relu(b: Builder, x: Value, scope: str, relu: str) -> Value:
    """y = x * (gamma * rsqrt(variance + epsilon)) + (beta - mean * (gamma * rsqrt(variance + epsilon)))"""
    mean, variance = b.statistics(x)
    gamma, beta = b.scales(mean.size), b.shifts(mean.size)
    y = b.normalized(x, mean, variance, gamma, beta, _EPSILON)
    gamma_value = b.read(gamma, f"{scope}/gamma")
    beta_value = b.read(beta, f"{scope}/beta")
    mean_value = b.read(mean, f"{scope}/moving_mean")
    variance_value = b.read(variance, f"{scope}/moving_variance")
    inner = f"{scope}/batchnorm"
    total = b.op("Add", [variance_value, b.const(_EPSILON, f"{inner}/add/y")], f"{inner}/add", T=FLOAT)
    rsqrt = b.op("Rsqrt", [total], f"{inner}/Rsqrt", T=FLOAT)
    scale = b.op("Mul", [rsqrt, gamma_value], f"{inner}/mul", T=FLOAT)
    scaled = b.op("Mul", [x, scale], f"{inner}/mul_1", T=FLOAT)
    offset = b.op("Mul", [mean_value, scale], f"{inner}/mul_2", T=FLOAT)
    shift = b.op("Sub", [beta_value, offset], f"{inner}/sub", T=FLOAT)
    return b.activation("Relu", b.op("Add", [scaled, shift], f"{inner}/add_1", y, T=FLOAT), relu)


def _head(b: Builder, x: Value) -> Value:
    """Global mean, a 1x1 convolution as the classifier, and softmax between two reshapes."""
    axes = b.const([1, 2], f"{_ROOT}/pool5/reduction_indices")
    pooled = b.seen(x).mean((1, 2), keepdims=True)
    x = b.op("Mean", [x, axes], f"{_ROOT}/pool5", pooled, T=FLOAT, Tidx=INT32, keep_dims=True)
    weights, bias = b.classifier(x, _CLASSES)
    logits = _conv_bias(b, x, f"{_ROOT}/logits", weights[None, None], bias)
    flat = b.op("Squeeze", [logits], f"{_ROOT}/SpatialSqueeze", T=FLOAT, squeeze_dims=(1, 2))
    scope = f"{_ROOT}/predictions"
    rows = b.reshape(flat, [-1, _CLASSES], f"{scope}/Reshape", f"{scope}/Reshape/shape")
    softmax = b.op("Softmax", [rows], f"{scope}/Softmax", T=FLOAT)
    return b.reshape(softmax, [1, _CLASSES], f"{scope}/Reshape_1", f"{scope}/Shape")
