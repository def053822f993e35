"""Inception v3 as published in December 2015 (`tensorflow_inception_graph.pb`): a JPEG in, 1008 classes out.

It predates FusedBatchNorm and ConcatV2: every convolution is followed by BatchNormWithGlobalNormalization,
which TensorFlow accepts only from a graph of version 8 or older, and by a CheckNumerics that nothing reads: a
control edge makes sure it runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import FLOAT, UINT8
from thinflow.typing import Array
from thinflow.zoo._layers import Builder, pictures

SUMMARY = "Inception v3 of 2015, JPEG front end, BatchNormWithGlobalNormalization (23.9M parameters, 299x299)"
INPUT = "Mul"
SIZE = 299

# The published file's softmax is as wide as that; not all of its classes have a label.
_CLASSES = 1008
_EPSILON = 1e-3
# Small enough to be quick, large enough for every VALID window down to the last grid.
_PROBE_SIZE = 235

# A branch is a list of steps: (height, width, channels[, stride]) or a pooling op, each reading the one
# before; the stride-2 ones do not pad. A step that is a list splits: each of its convolutions reads the step
# before, and all are joined. Names follow from the position, as in the original.
Step = tuple[int, ...] | str | list[tuple[int, ...]]
Branch = list[Step]


def build(seed: int) -> Graph:
    b = Builder(seed, producer=8)
    image = _front_end(b, seed)
    x = _conv(b, image, "conv", (3, 3, 32, 2))
    x = _conv(b, x, "conv_1", (3, 3, 32), "VALID")
    x = _conv(b, x, "conv_2", (3, 3, 64))
    x = _max_pool(b, x, "pool", 2)
    x = _conv(b, x, "conv_3", (1, 1, 80), "VALID")
    x = _conv(b, x, "conv_4", (3, 3, 192), "VALID")
    x = _max_pool(b, x, "pool_1", 2)
    for number, branches in enumerate(_mixed_blocks()):
        x = _mixed(b, x, f"mixed_{number}" if number else "mixed", branches)
    return b.finish([image], [_head(b, x)])


def _mixed_blocks() -> list[dict[str, Branch]]:
    """The branches of the eleven blocks, by scope ("" is the block's own)."""

    def grid_35(pooled: int) -> dict[str, Branch]:
        return {
            "": [(1, 1, 64)],
            "tower": [(1, 1, 48), (5, 5, 64)],
            "tower_1": [(1, 1, 64), (3, 3, 96), (3, 3, 96)],
            "tower_2": ["AvgPool", (1, 1, pooled)],
        }

    def grid_17(k: int) -> dict[str, Branch]:
        return {
            "": [(1, 1, 192)],
            "tower": [(1, 1, k), (1, 7, k), (7, 1, 192)],
            "tower_1": [(1, 1, k), (7, 1, k), (1, 7, k), (7, 1, k), (1, 7, 192)],
            "tower_2": ["AvgPool", (1, 1, 192)],
        }

    def grid_8(pooling: str) -> dict[str, Branch]:
        return {
            "": [(1, 1, 320)],
            "tower": [(1, 1, 384), [(1, 3, 384), (3, 1, 384)]],
            "tower_1": [(1, 1, 448), (3, 3, 384), [(1, 3, 384), (3, 1, 384)]],
            "tower_2": [pooling, (1, 1, 192)],
        }

    to_17: dict[str, Branch] = {
        "": [(3, 3, 384, 2)],
        "tower": [(1, 1, 64), (3, 3, 96), (3, 3, 96, 2)],
        "pool": ["MaxPool"],
    }
    to_8: dict[str, Branch] = {
        "tower": [(1, 1, 192), (3, 3, 320, 2)],
        "tower_1": [(1, 1, 192), (1, 7, 192), (7, 1, 192), (3, 3, 192, 2)],
        "pool": ["MaxPool"],
    }
    widths_17 = (128, 160, 160, 192)
    return [
        *map(grid_35, (32, 64, 64)),
        to_17,
        *map(grid_17, widths_17),
        to_8,
        grid_8("AvgPool"),
        grid_8("MaxPool"),
    ]


def _front_end(b: Builder, seed: int) -> Value:
    """JPEG bytes -> [1,299,299,3] in -1..1, called Mul."""
    # An empty string: who runs it feeds the JPEG in place of this constant, as with the original.
    contents = b.graph.constant(np.array(b"", object), "DecodeJpeg/contents")
    # The attributes of 2015: `dct_method` came later, and a reader fills in its default.
    decode: dict[str, Any] = {
        "channels": 3,
        "ratio": 1,
        "fancy_upscaling": True,
        "try_recover_truncated": False,
    }
    decoded = b.op("DecodeJpeg", [contents], "DecodeJpeg", acceptable_fraction=1.0, **decode)
    cast = b.op("Cast", [decoded], "Cast", SrcT=UINT8, DstT=FLOAT)
    batch = b.op("ExpandDims", [cast, b.const(0, "ExpandDims/dim")], "ExpandDims", T=FLOAT)
    size = b.const([SIZE, SIZE], "ResizeBilinear/size")
    resized = b.op("ResizeBilinear", [batch, size], "ResizeBilinear", T=FLOAT)
    centred = b.op("Sub", [resized, b.const(128.0, "Sub/y")], "Sub", T=FLOAT)
    # Nothing in front is run: there is no JPEG to decode while the graph is built.
    seen = pictures(4, _PROBE_SIZE, seed)
    return b.op("Mul", [centred, b.const(1 / 128, "Mul/y")], INPUT, seen, T=FLOAT)


def _conv(b: Builder, x: Value, scope: str, step: tuple[int, ...], padding: str = "SAME") -> Value:
    height, width, k, stride = (*step, 1)[:4]
    weights = b.filters(height, width, b.seen(x).shape[-1], k)
    w = b.const(weights, f"{scope}/conv2d_params")
    y = b.conv(x, weights, w, f"{scope}/Conv2D", stride, "VALID" if stride == 2 else padding)
    mean, variance = b.statistics(y)
    gamma, beta = np.ones(k, np.float32), b.shifts(k)  # gamma is in the file, and scaling is switched off
    seen = b.normalized(y, mean, variance, gamma, beta, _EPSILON)
    beta_value = b.const(beta, f"{scope}/batchnorm/beta")
    gamma_value = b.const(gamma, f"{scope}/batchnorm/gamma")
    mean_value = b.const(mean, f"{scope}/batchnorm/moving_mean")
    variance_value = b.const(variance, f"{scope}/batchnorm/moving_variance")
    normal = b.op(
        "BatchNormWithGlobalNormalization",
        [y, mean_value, variance_value, beta_value, gamma_value],
        f"{scope}/batchnorm",
        seen,
        T=FLOAT,
        variance_epsilon=_EPSILON,
        scale_after_normalization=False,
    )
    return b.activation("Relu", _checked(b, normal, scope, seen), scope)


def _checked(b: Builder, x: Value, scope: str, seen: Array) -> Value:
    """x, once CheckNumerics has looked at it."""
    check = b.op(
        "CheckNumerics", [x], f"{scope}/CheckNumerics", T=FLOAT, message=f"{scope}: Inf or NaN".encode()
    )
    return b.op("Identity", [x], f"{scope}/control_dependency", seen, control_inputs=[check.node], T=FLOAT)


def _max_pool(b: Builder, x: Value, scope: str, stride: int) -> Value:
    x = _checked(b, x, scope, b.seen(x))
    return b.pool("MaxPool", x, scope, 3, stride, "VALID" if stride == 2 else "SAME")


def _mixed(b: Builder, x: Value, scope: str, branches: dict[str, Branch]) -> Value:
    """Every branch on x, joined along the channels."""
    ends: list[Value] = []
    for name, steps in branches.items():
        if name == "pool":
            ends.append(_max_pool(b, x, f"{scope}/pool", 2))
        else:
            ends.extend(_branch(b, x, f"{scope}/{name}" if name else scope, steps))
    axis = b.const(3, f"{scope}/join/concat_dim")
    joined = np.concatenate([b.seen(end) for end in ends], 3)
    # The old Concat has its axis first.
    return b.op("Concat", [axis, *ends], f"{scope}/join", joined, T=FLOAT, N=len(ends))


def _branch(b: Builder, x: Value, scope: str, steps: Branch) -> list[Value]:
    """The ends of a branch: one value, or those of its final split."""
    convs = 0
    for step in steps:
        if isinstance(step, list):
            return [_conv(b, x, f"{scope}/mixed/{_numbered(i)}", inner) for i, inner in enumerate(step)]
        if step == "AvgPool":
            x = b.pool("AvgPool", x, f"{scope}/pool", 3, 1, "SAME")
        elif step == "MaxPool":
            x = _max_pool(b, x, f"{scope}/pool", 1)
        else:
            assert isinstance(step, tuple)
            x = _conv(b, x, f"{scope}/{_numbered(convs)}", step)
            convs += 1
    return [x]


def _numbered(index: int) -> str:
    return f"conv_{index}" if index else "conv"


def _head(b: Builder, x: Value) -> Value:
    """Mean over the 8x8 grid, then the classifier."""
    # The probe pictures end in a smaller grid than 8x8, so what pool_3 makes of them is computed here.
    pooled = b.seen(x).mean((1, 2), keepdims=True)
    window: dict[str, Any] = {
        "ksize": (1, 8, 8, 1),
        "strides": (1, 1, 1, 1),
        "padding": b"VALID",
        "data_format": b"NHWC",
    }
    x = b.op("AvgPool", [x], "pool_3", pooled, T=FLOAT, **window)
    x = b.reshape(x, [1, 2048], "pool_3/_reshape", "pool_3/_reshape/shape")
    weights, bias = b.classifier(x, _CLASSES)
    w, bias_value = b.const(weights, "softmax/weights"), b.const(bias, "softmax/biases")
    product = b.op(
        "MatMul",
        [x, w],
        "softmax/logits/MatMul",
        b.seen(x) @ weights,
        T=FLOAT,
        transpose_a=False,
        transpose_b=False,
    )
    logits = b.bias_add(product, bias, bias_value, "softmax/logits")
    return b.op("Softmax", [logits], "softmax", T=FLOAT)
