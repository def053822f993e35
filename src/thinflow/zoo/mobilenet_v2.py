"""MobileNet v2 1.0 224 in the style of a Keras model frozen by TensorFlow 2.

Resource variables have become constants called `.../ReadVariableOp/resource` behind Identities that kept the
name of the read, a NoOp waits for all of these, and the output is an Identity called `Identity` that waits
for the NoOp.
"""

from __future__ import annotations

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import FLOAT, INT32
from thinflow.typing import Array
from thinflow.zoo._layers import Builder

SUMMARY = (
    "MobileNet v2 1.0, frozen by TF2 from Keras, FusedBatchNormV3, AddV2, NoOp (3.5M parameters, 224x224)"
)
INPUT = "input"
SIZE = 224

_ROOT = "mobilenetv2_1.00_224"
_CLASSES = 1000
_EPSILON = 1e-3
# Expansion, channels, repeats and stride: table 2 of the paper (Sandler et al., 2018).
_GROUPS = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]


def build(seed: int) -> Graph:
    b = Builder(seed, producer=1087, min_consumer=12)
    image = b.placeholder(INPUT, SIZE, probe_size=160, batch=None)
    x = _conv(b, image, f"{_ROOT}/Conv1", f"{_ROOT}/bn_Conv1", 32, 3, 2)
    x = b.activation("Relu6", x, f"{_ROOT}/Conv1_relu/Relu6")
    number = 0
    for expansion, k, repeats, stride in _GROUPS:
        for repeat in range(repeats):
            x = _inverted_residual(b, x, number, expansion, k, stride if repeat == 0 else 1)
            number += 1
    x = _conv(b, x, f"{_ROOT}/Conv_1", f"{_ROOT}/Conv_1_bn", 1280)
    x = b.activation("Relu6", x, f"{_ROOT}/out_relu/Relu6")
    return b.finish([image], [_head(b, x)])


def _inverted_residual(b: Builder, x: Value, number: int, expansion: int, k: int, stride: int) -> Value:
    """Widen, filter each channel, narrow without an activation; added to x where the shapes allow."""
    scope = f"{_ROOT}/block_{number}" if number else f"{_ROOT}/expanded_conv"
    channels = b.seen(x).shape[-1]
    y = x
    if expansion != 1:
        y = _conv(b, y, f"{scope}_expand", f"{scope}_expand_BN", channels * expansion)
        y = b.activation("Relu6", y, f"{scope}_expand_relu/Relu6")
    # Keras pads in front of stride 2 by a Pad of its own: by (0, 1) where sizes are even.
    if stride == 2:
        y = b.pad(y, f"{scope}_pad/Pad", (0, 1))
    y = _depthwise(b, y, f"{scope}_depthwise", stride)
    y = b.activation("Relu6", y, f"{scope}_depthwise_relu/Relu6")
    y = _conv(b, y, f"{scope}_project", f"{scope}_project_BN", k)
    return b.add("AddV2", x, y, f"{scope}_add/add") if stride == 1 and channels == k else y


def _variable(b: Builder, array: Array, read_name: str) -> Value:
    return b.read(array, f"{read_name}/resource", read_name)


def _conv(b: Builder, x: Value, scope: str, norm_scope: str, k: int, size: int = 1, stride: int = 1) -> Value:
    weights = b.filters(size, size, b.seen(x).shape[-1], k)
    w = _variable(b, weights, f"{scope}/Conv2D/ReadVariableOp")
    return _batch_norm(b, b.conv(x, weights, w, f"{scope}/Conv2D", stride), norm_scope)


def _depthwise(b: Builder, x: Value, scope: str, stride: int) -> Value:
    channels = b.seen(x).shape[-1]
    weights = b.filters(3, 3, 1, channels).reshape(3, 3, channels, 1)
    w = _variable(b, weights, f"{scope}/depthwise/ReadVariableOp")
    y = b.depthwise(x, weights, w, f"{scope}/depthwise", stride, "VALID" if stride == 2 else "SAME")
    return _batch_norm(b, y, f"{scope}_BN")


def _batch_norm(b: Builder, x: Value, scope: str) -> Value:
    mean, variance = b.statistics(x)
    gamma, beta = b.scales(mean.size), b.shifts(mean.size)
    y = b.normalized(x, mean, variance, gamma, beta, _EPSILON)
    named = {
        "ReadVariableOp": gamma,
        "ReadVariableOp_1": beta,
        "FusedBatchNormV3/ReadVariableOp": mean,
        "FusedBatchNormV3/ReadVariableOp_1": variance,
    }
    params = [_variable(b, array, f"{scope}/{name}") for name, array in named.items()]
    return b.op(
        "FusedBatchNormV3",
        [x, *params],
        f"{scope}/FusedBatchNormV3",
        y,
        T=FLOAT,
        U=FLOAT,
        epsilon=_EPSILON,
        exponential_avg_factor=1.0,
        data_format=b"NHWC",
        is_training=False,
    )


def _head(b: Builder, x: Value) -> Value:
    """Global mean, dense, softmax; then the Identity that TF2 puts behind every output."""
    scope = f"{_ROOT}/global_average_pooling2d/Mean"
    axes = b.const([1, 2], f"{scope}/reduction_indices")
    x = b.op("Mean", [x, axes], scope, b.seen(x).mean((1, 2)), T=FLOAT, Tidx=INT32, keep_dims=False)
    weights, bias = b.classifier(x, _CLASSES)
    scope = f"{_ROOT}/predictions"
    w = _variable(b, weights, f"{scope}/MatMul/ReadVariableOp")
    bias_value = _variable(b, bias, f"{scope}/BiasAdd/ReadVariableOp")
    y = b.op(
        "MatMul",
        [x, w],
        f"{scope}/MatMul",
        b.seen(x) @ weights,
        T=FLOAT,
        transpose_a=False,
        transpose_b=False,
    )
    y = b.bias_add(y, bias, bias_value, f"{scope}/BiasAdd")
    y = b.op("Softmax", [y], f"{scope}/Softmax", T=FLOAT)
    # The freezer kept the reads of variables, and the NoOp that waited for them.
    reads: list[Node] = [n for n in b.graph if n.op == "Identity"]
    done = b.op("NoOp", [], "NoOp", control_inputs=reads)
    return b.op("Identity", [y], "Identity", control_inputs=[done.node], T=FLOAT)
