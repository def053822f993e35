"""Functions on tensors of a model: Keras 3's operations, and TensorFlow's in models of Keras 2.

Each takes the package's functions and two tensors [b, 4, 6] with numbers between -2 and 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[[Any, Any, Any], Any]

KERAS_3: dict[str, Function] = {
    "arithmetic": lambda o, x, y: (x + y) * 2.0 - y / 3.0 + 1.5 * x - (-y),
    "reversed": lambda o, x, y: 2.0 - x + 1.0 / (o.abs(y) + 1.0),
    "power": lambda o, x, y: o.power(o.abs(x), 1.5) + x**2,
    "floor": lambda o, x, y: o.floor_divide(x, 0.7) + o.mod(y, 0.6) + o.floor(x) + o.ceil(y) + o.round(x),
    "extremes": lambda o, x, y: o.maximum(x, y) - o.minimum(x, 0.3),
    "exponents": lambda o, x, y: o.exp(x) + o.log(o.abs(y) + 1.0) + o.log1p(o.abs(x)) + o.expm1(y),
    "roots": lambda o, x, y: o.sqrt(o.abs(x)) + o.rsqrt(o.abs(y) + 1.0) + o.square(x),
    "angles": lambda o, x, y: o.sin(x) + o.cos(y) + o.tan(x / 3.0) + o.arctan(y) + o.tanh(x) + o.sinh(y),
    "atan2": lambda o, x, y: o.arctan2(x, y),
    "erf": lambda o, x, y: o.erf(x) + o.sign(y) + o.negative(x),
    "comparison": lambda o, x, y: o.where(o.greater(x, y), x, y * 2.0),
    "logic": lambda o, x, y: o.cast(o.logical_and(x > 0.0, o.logical_not(y <= 0.5)), "float32") + x,
    "or": lambda o, x, y: o.where(o.logical_or(o.equal(x, y), x < 0.0), 1.0, y),
    "clip": lambda o, x, y: o.clip(x, -0.5, 0.8) + o.clip(y, 0.0, 6.0),
    "cast": lambda o, x, y: o.cast(o.cast(x * 3.0, "int32"), "float32") + y,
    "integers": lambda o, x, y: o.cast(x * 3.0, "int32") * 1.5 + y,
    "reshape": lambda o, x, y: o.reshape(x, (-1, 3, 8)),
    "transpose": lambda o, x, y: o.transpose(x, (0, 2, 1)),
    "swap": lambda o, x, y: o.swapaxes(o.moveaxis(x, 1, 2), 1, 2),
    "expand": lambda o, x, y: o.squeeze(o.expand_dims(x, 2), 2) + y,
    "join": lambda o, x, y: o.concatenate([x, y, x], axis=-1),
    "stack": lambda o, x, y: o.stack([x, y], axis=1),
    "split": lambda o, x, y: o.split(x, 3, axis=2)[1],
    "cut": lambda o, x, y: o.split(x, [1, 4], axis=2)[1],
    "pad": lambda o, x, y: o.pad(x, [[0, 0], [1, 2], [0, 3]]),
    "mirror": lambda o, x, y: o.pad(x, [[0, 0], [1, 2], [0, 3]], mode="reflect"),
    "flip": lambda o, x, y: o.flip(x, axis=1) + o.roll(y, 2, axis=2),
    "repeat": lambda o, x, y: o.concatenate([o.repeat(x, 2, axis=1), o.tile(y, [1, 2, 1])], axis=1),
    "take": lambda o, x, y: o.take(x, [2, 0, 1], axis=1),
    "slices": lambda o, x, y: x[:, 1:3, ::2] + y[:, :-2, 1:6:2],
    "index": lambda o, x, y: x[:, -1] + y[:, 0, :],
    "axes": lambda o, x, y: x[..., None, 2:] + y[:, :, None, 1:5],
    "sum": lambda o, x, y: o.sum(x, axis=1) + o.mean(y, axis=1),
    "max": lambda o, x, y: o.max(x, axis=-1, keepdims=True) - o.min(y, axis=[2], keepdims=True),
    "product": lambda o, x, y: o.prod(x, axis=-1) + o.logsumexp(y, axis=-1),
    "variance": lambda o, x, y: o.var(x, axis=-1) + o.std(y, axis=-1),
    "argmax": lambda o, x, y: (
        o.cast(o.argmax(x, axis=-1), "float32") + o.cast(o.argmin(y, axis=2), "float32")
    ),
    "topk": lambda o, x, y: o.top_k(x, 3)[0],
    "cumsum": lambda o, x, y: o.cumsum(x, axis=1),
    "matmul": lambda o, x, y: o.matmul(x, o.transpose(y, (0, 2, 1))),
    "einsum": lambda o, x, y: o.einsum("bij,bkj->bik", x, y),
    "onehot": lambda o, x, y: o.one_hot(o.argmax(x, axis=-1), 6) + y,
    "softmax": lambda o, x, y: o.softmax(x, axis=1) + o.log_softmax(y),
    "activations": lambda o, x, y: (
        o.relu(x) + o.sigmoid(y) + o.silu(x) + o.gelu(y) + o.elu(x) + o.leaky_relu(y)
    ),
    "more": lambda o, x, y: (
        o.softplus(x) + o.softsign(y) + o.hard_sigmoid(x) + o.hard_silu(y) + o.relu6(3 * x)
    ),
    "normalize": lambda o, x, y: o.normalize(x, axis=-1) + y,
    "zeros": lambda o, x, y: o.zeros_like(x) + o.ones_like(y),
    "resize": lambda o, x, y: o.image.resize(o.expand_dims(x, -1), (8, 9)),
    "any": lambda o, x, y: (
        o.cast(o.any(x > 1.0, axis=-1), "float32") + o.cast(o.all(y > -1.9, axis=-1), "float32")
    ),
    "sort": lambda o, x, y: o.sort(x) + o.sort(y, axis=1),
    "argsort": lambda o, x, y: o.take_along_axis(x, o.argsort(x, axis=1), axis=1) + y,
    "sort integers": lambda o, x, y: o.cast(o.sort(o.cast(x * 3.0, "int32")), "float32") + y,
    "take along": lambda o, x, y: o.take_along_axis(y, o.argsort(x) - 3, axis=-1),
    "lower triangle": lambda o, x, y: o.tril(x) + o.tril(y, k=2) + o.tril(x, k=-1),
    "upper triangle": lambda o, x, y: o.triu(x) + o.triu(y, k=1) + o.triu(x, k=-2),
    "multihot": lambda o, x, y: o.multi_hot(o.cast(o.abs(x) * 3.0, "int32"), 7)[:, :4, 0] + y[:, :, 0],
    "segments": lambda o, x, y: (
        o.segment_sum(x, o.cast([0, 0], "int32"), num_segments=1)[0]
        + o.segment_max(y, o.cast([0, 0], "int32"), num_segments=1)[0]
    ),
    "in top k": lambda o, x, y: o.cast(o.in_top_k(o.argmax(y[:, 0], axis=-1), x[:, 0], 2), "float32"),
    "conv": lambda o, x, y: o.conv(x, o.ones((3, 6, 5)), 1, "same"),
    "conv 2d": lambda o, x, y: o.conv(o.expand_dims(x, -1), o.ones((2, 3, 1, 4)), (1, 2), "same"),
    "computed kernel": lambda o, x, y: o.conv(x, o.reshape(o.mean(y, axis=(0, 1)), (1, 6, 1)), 1, "valid"),
    "depthwise": lambda o, x, y: o.depthwise_conv(o.expand_dims(x, 1), o.ones((1, 3, 6, 2)), 1, "same"),
    "separable": lambda o, x, y: o.separable_conv(x, o.ones((2, 6, 2)), o.ones((1, 12, 3)), 1, "valid"),
    "pooling": lambda o, x, y: o.max_pool(x, 2, 2) + o.average_pool(y, 3, 2, "same"),
    "pooling 2d": lambda o, x, y: o.max_pool(o.expand_dims(x, -1), (2, 3), 1, "same"),
    "adaptive": lambda o, x, y: o.adaptive_average_pool(x, (3,)) + o.adaptive_max_pool(y, (3,)),
    "batch norm": lambda o, x, y: (
        o.batch_normalization(
            x, o.ones(6) * 0.5, o.ones(6) * 2.0, -1, offset=o.ones(6), scale=o.ones(6) * 3.0, epsilon=1e-2
        )
        + o.batch_normalization(y, o.ones(4), o.ones(4), 1)
    ),
    "moments": lambda o, x, y: o.moments(x, axes=[1])[0] + o.moments(y, axes=[1])[1],
    "degrees": lambda o, x, y: o.deg2rad(x) + o.rad2deg(y),
    "numbers": lambda o, x, y: (
        o.exp2(x) + o.trunc(3.0 * y) + o.sinc(x) + o.erfc(y) + o.nan_to_num(x / 0.0, posinf=3.0)
    ),
    "rounding": lambda o, x, y: o.round(x, 2) + o.round(y),
    "pairs": lambda o, x, y: o.hypot(x, y) + o.logaddexp(x, y) + o.heaviside(o.trunc(x), y),
    "close": lambda o, x, y: (
        o.cast(o.isclose(x, y, rtol=0.1, atol=0.3), "float32") + o.cast(o.isposinf(x), "float32")
    ),
    "diff": lambda o, x, y: o.diff(x, n=2) + o.diff(y, axis=-1)[:, :, 1:],
    "outer": lambda o, x, y: o.outer(x[:, 0, 0], y[0, 0]),
    "append": lambda o, x, y: o.append(x, y, axis=1) + o.full_like(o.append(x, y, axis=1), 3),
    "peaks": lambda o, x, y: o.ptp(x, axis=1) + o.average(y, axis=1) + o.average(x, axis=1, weights=o.abs(y)),
    "count": lambda o, x, y: o.cast(o.count_nonzero(o.trunc(x), axis=-1), "float32") + o.norm(y, axis=-1),
    "cumulated": lambda o, x, y: o.cumprod(x, axis=2) + o.cumsum(y, axis=-1),
    "stacked": lambda o, x, y: o.concatenate([o.vstack([x, y]), o.hstack([y, x])[:0, :4]], axis=0),
    "colours": lambda o, x, y: (
        o.image.rgb_to_grayscale(o.abs(x[:, :, None, :3]))
        + o.image.hsv_to_rgb(o.image.rgb_to_hsv(o.sigmoid(y[:, :, None, :3])))
    ),
    "blocks": lambda o, x, y: o.depth_to_space(o.reshape(x, (-1, 2, 3, 4)), 2),
}
TENSORFLOW: dict[str, Function] = {
    "arithmetic": lambda t, x, y: (x + y) * 2.0 - y / 3.0 + 1.5 * x - (-y),
    "reversed": lambda t, x, y: 2.0 - x + 1.0 / (t.abs(y) + 1.0),
    "named": lambda t, x, y: t.multiply(t.add(x, y), t.subtract(x, 0.5)) + t.divide(x, 2.0),
    "power": lambda t, x, y: t.pow(t.abs(x), 1.5) + x**2,
    "floor": lambda t, x, y: x // 0.7 + y % 0.6 + t.floor(x) + t.math.ceil(y) + t.round(x),
    "extremes": lambda t, x, y: t.maximum(x, y) - t.minimum(x, 0.3),
    "exponents": lambda t, x, y: t.exp(x) + t.math.log(t.abs(y) + 1.0) + t.math.log1p(t.abs(x)),
    "roots": lambda t, x, y: t.sqrt(t.abs(x)) + t.math.rsqrt(t.abs(y) + 1.0) + t.square(x),
    "comparison": lambda t, x, y: t.where(x > y, x, y * 2.0),
    "logic": lambda t, x, y: t.cast(t.logical_and(x > 0.0, t.logical_not(y <= 0.5)), t.float32) + x,
    "clip": lambda t, x, y: t.clip_by_value(x, -0.5, 0.8) + y,
    "cast": lambda t, x, y: t.cast(t.cast(x * 3.0, t.int32), t.float32) + y,
    "reshape": lambda t, x, y: t.reshape(x, (-1, 3, 8)),
    "shape": lambda t, x, y: t.reshape(x, (t.shape(x)[0], 24)),
    "transpose": lambda t, x, y: t.transpose(x, (0, 2, 1)),
    "expand": lambda t, x, y: t.squeeze(t.expand_dims(x, 2), 2) + y,
    "join": lambda t, x, y: t.concat([x, y, x], axis=-1),
    "stack": lambda t, x, y: t.stack([x, y], axis=1),
    "split": lambda t, x, y: t.split(x, 3, axis=2)[1],
    "cut": lambda t, x, y: t.split(x, [1, 3, 2], axis=2)[1],
    "unstack": lambda t, x, y: t.unstack(x, axis=1)[2],
    "pad": lambda t, x, y: t.pad(x, [[0, 0], [1, 2], [0, 3]], constant_values=0.5),
    "mirror": lambda t, x, y: t.pad(x, [[0, 0], [1, 2], [0, 3]], "REFLECT"),
    "flip": lambda t, x, y: t.reverse(x, [1]) + t.roll(y, 2, 2),
    "tile": lambda t, x, y: t.tile(y, [1, 2, 1]),
    "gather": lambda t, x, y: t.gather(x, [2, 0, 1], axis=1),
    "slices": lambda t, x, y: x[:, 1:3, ::2] + y[:, :-2, 1:6:2],
    "index": lambda t, x, y: x[:, -1] + y[:, 0, :],
    "axes": lambda t, x, y: x[:, :, None, 2:] + y[:, :, None, 1:5],
    "sum": lambda t, x, y: t.reduce_sum(x, axis=1) + t.reduce_mean(y, 1),
    "max": lambda t, x, y: t.reduce_max(x, -1, keepdims=True) - t.reduce_min(y, axis=[2], keepdims=True),
    "variance": lambda t, x, y: t.math.reduce_variance(x, axis=-1) + t.math.reduce_std(y, axis=-1),
    "argmax": lambda t, x, y: t.cast(t.argmax(x, axis=-1), t.float32),
    "matmul": lambda t, x, y: t.matmul(x, y, transpose_b=True),
    "onehot": lambda t, x, y: t.one_hot(t.argmax(x, axis=-1), 6) + y,
    "softmax": lambda t, x, y: t.nn.softmax(x, axis=1) + t.nn.log_softmax(y),
    "activations": lambda t, x, y: (
        t.nn.relu(x) + t.sigmoid(y) + t.nn.silu(x) + t.nn.gelu(y) + t.nn.leaky_relu(y)
    ),
    "normalize": lambda t, x, y: t.math.l2_normalize(x, axis=-1) + y,
    "resize": lambda t, x, y: t.image.resize(t.expand_dims(x, -1), (8, 9)),
    "sort": lambda t, x, y: t.sort(x, axis=1, direction="DESCENDING") + t.sort(y),
    "cumprod": lambda t, x, y: t.math.cumprod(x, axis=1) + t.cumsum(y, 2),
    "depth": lambda t, x, y: t.nn.depth_to_space(t.reshape(x, (-1, 2, 3, 4)), 2),
}
