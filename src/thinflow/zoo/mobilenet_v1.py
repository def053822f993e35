"""MobileNet v1 1.0 224 as TF-Slim freezes it: depthwise convolutions, FusedBatchNorm and Relu6."""

from __future__ import annotations

from typing import Any

from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import FLOAT
from thinflow.zoo._layers import Builder

SUMMARY = "MobileNet v1 1.0, TF-Slim names, depthwise, FusedBatchNorm, Relu6 (4.3M parameters, 224x224)"
INPUT = "input"
SIZE = 224

_ROOT = "MobilenetV1"
_INNER = f"{_ROOT}/{_ROOT}"  # slim puts variables in the outer scope and ops in the inner one
_CLASSES = 1001
_EPSILON = 1e-3
# Channels and stride of each depthwise separable layer, as TF-Slim has them.
_LAYERS = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]


def build(seed: int) -> Graph:
    b = Builder(seed, producer=24)
    image = b.placeholder(INPUT, SIZE, probe_size=160)
    x = _conv(b, image, "Conv2d_0", 32, 3, 2)
    for number, (k, stride) in enumerate(_LAYERS, 1):
        x = _depthwise(b, x, f"Conv2d_{number}_depthwise", stride)
        x = _conv(b, x, f"Conv2d_{number}_pointwise", k, 1, 1)
    return b.finish([image], [_head(b, x)])


def _conv(b: Builder, x: Value, scope: str, k: int, size: int, stride: int) -> Value:
    weights = b.filters(size, size, b.seen(x).shape[-1], k)
    w = b.read(weights, f"{_ROOT}/{scope}/weights")
    return _batch_norm_relu6(b, b.conv(x, weights, w, f"{_INNER}/{scope}/Conv2D", stride), scope)


def _depthwise(b: Builder, x: Value, scope: str, stride: int) -> Value:
    channels = b.seen(x).shape[-1]
    # Fan-in of a depthwise filter is its 3x3 taps alone, so it is drawn as one of a single input channel.
    weights = b.filters(3, 3, 1, channels).reshape(3, 3, channels, 1)
    w = b.read(weights, f"{_ROOT}/{scope}/depthwise_weights")
    return _batch_norm_relu6(b, b.depthwise(x, weights, w, f"{_INNER}/{scope}/depthwise", stride), scope)


def _batch_norm_relu6(b: Builder, x: Value, scope: str) -> Value:
    mean, variance = b.statistics(x)
    gamma, beta = b.scales(mean.size), b.shifts(mean.size)
    y = b.normalized(x, mean, variance, gamma, beta, _EPSILON)
    named = {"gamma": gamma, "beta": beta, "moving_mean": mean, "moving_variance": variance}
    params = [b.read(array, f"{_ROOT}/{scope}/BatchNorm/{name}") for name, array in named.items()]
    normal = b.op(
        "FusedBatchNorm",
        [x, *params],
        f"{_INNER}/{scope}/BatchNorm/FusedBatchNorm",
        y,
        T=FLOAT,
        epsilon=_EPSILON,
        data_format=b"NHWC",
        is_training=False,
    )
    return b.activation("Relu6", normal, f"{_INNER}/{scope}/Relu6")


def _head(b: Builder, x: Value) -> Value:
    """A 7x7 mean, an Identity that was a dropout, a 1x1 convolution and softmax between two reshapes."""
    scope = f"{_ROOT}/Logits"
    # The probe pictures end in a smaller grid than 7x7, so what the pooling makes of them is computed here.
    pooled = b.seen(x).mean((1, 2), keepdims=True)
    window: dict[str, Any] = {
        "T": FLOAT,
        "ksize": (1, 7, 7, 1),
        "strides": (1, 2, 2, 1),
        "padding": b"VALID",
        "data_format": b"NHWC",
    }
    x = b.op("AvgPool", [x], f"{scope}/AvgPool_1a/AvgPool", pooled, **window)
    x = b.op("Identity", [x], f"{scope}/Dropout_1b/Identity", pooled, T=FLOAT)
    weights, bias = b.classifier(x, _CLASSES)
    weights = weights[None, None]
    w = b.read(weights, f"{scope}/Conv2d_1c_1x1/weights")
    bias_value = b.read(bias, f"{scope}/Conv2d_1c_1x1/biases")
    y = b.conv(x, weights, w, f"{scope}/Conv2d_1c_1x1/Conv2D")
    y = b.bias_add(y, bias, bias_value, f"{scope}/Conv2d_1c_1x1/BiasAdd")
    flat = b.op("Squeeze", [y], f"{scope}/SpatialSqueeze", T=FLOAT, squeeze_dims=(1, 2))
    scope = f"{_ROOT}/Predictions"
    rows = b.reshape(flat, [-1, _CLASSES], f"{scope}/Reshape", f"{scope}/Reshape/shape")
    softmax = b.op("Softmax", [rows], f"{scope}/Softmax", T=FLOAT)
    return b.reshape(softmax, [1, _CLASSES], f"{scope}/Reshape_1", f"{scope}/Shape")
