"""The networks: a function for each, that builds it in Keras. Trained by `train`, and rescaled by some.

Classifiers end in a layer `logits` and one `probabilities`, as people's do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import Model, layers

from benchmarks.ptq import data

Tensor = Any
"""What layers of Keras pass on."""


@dataclass(frozen=True)
class Network:
    """How one is made.

    Attributes:
        build: makes it, not trained.
        epochs: of training.
        rate: the largest learning rate.
        like: another network that it is made of, without training; "" for none.
        rescale: changes weights so that the function stays the same.
    """

    build: Callable[[], Model]
    epochs: int = 10
    rate: float = 3e-3
    like: str = ""
    rescale: Callable[[Model], None] | None = None


def _classifier(x: Tensor, result: Tensor, classes: int) -> Model:
    logits = layers.Dense(classes, name="logits")(result)
    return Model(x, layers.Softmax(name="probabilities")(logits))


def _norm(x: Tensor, activation: str | None = "relu", name: str | None = None) -> Tensor:
    x = layers.BatchNormalization(name=name and f"{name}_norm")(x)
    return x if activation is None else layers.Activation(activation)(x)


def plain() -> Model:
    """Convolutions and dense layers, biases and ReLU."""
    x = y = keras.Input((20, 20, 1), name="image")
    for i, filters in enumerate((16, 24, 32)):
        y = layers.Conv2D(filters, 3, padding="same", activation="relu", name=f"conv{i}")(y)
        y = layers.MaxPooling2D()(y)
    y = layers.Dense(64, activation="relu", name="hidden")(layers.Flatten()(y))
    return _classifier(x, y, 10)


def depthwise() -> Model:
    """Four depthwise separable blocks on spectra, as keyword nets of microcontrollers have."""
    x = keras.Input((49, 10, 1), name="spectrum")
    y = layers.Conv2D(64, (10, 4), strides=2, padding="same", use_bias=False)(x)
    y = _norm(y, name="first")
    for i in range(4):
        y = layers.DepthwiseConv2D(3, padding="same", use_bias=False, name=f"deep{i}")(y)
        y = _norm(y, name=f"deep{i}")
        y = layers.Conv2D(64, 1, use_bias=False, name=f"point{i}")(y)
        y = _norm(y, name=f"point{i}")
    return _classifier(x, layers.GlobalAveragePooling2D()(y), data.WORDS)


def residual() -> Model:
    """Three stages of residual blocks."""
    x = keras.Input((32, 32, 3), name="image")
    y = _norm(layers.Conv2D(16, 3, padding="same", use_bias=False)(x))
    for stage, filters in enumerate((16, 32, 48)):
        stride = 1 if stage == 0 else 2
        side = y if stage == 0 else layers.Conv2D(filters, 1, strides=stride)(y)
        y = _norm(layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(y))
        y = _norm(layers.Conv2D(filters, 3, padding="same", use_bias=False)(y), None)
        y = layers.ReLU()(layers.Add()([y, side]))
    return _classifier(x, layers.GlobalAveragePooling2D()(y), data.SHAPES)


def inverted() -> Model:
    """Inverted residual blocks with ReLU6, as MobileNetV2 has."""
    x = keras.Input((32, 32, 3), name="image")
    y = _norm(layers.Conv2D(12, 3, strides=2, padding="same", use_bias=False)(x), "relu6")
    for filters, stride in ((12, 1), (16, 2), (16, 1), (24, 2), (24, 1), (32, 1)):
        side, channels = y, y.shape[-1]
        y = _norm(layers.Conv2D(channels * 4, 1, use_bias=False)(y), "relu6")
        y = layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False)(y)
        y = _norm(y, "relu6")
        y = _norm(layers.Conv2D(filters, 1, use_bias=False)(y), None)
        if stride == 1 and channels == filters:
            y = layers.Add()([side, y])
    y = _norm(layers.Conv2D(96, 1, use_bias=False)(y), "relu6")
    return _classifier(x, layers.GlobalAveragePooling2D()(y), data.SHAPES)


def _squeezed(y: Tensor) -> Tensor:
    """y * a factor for each channel, made of their means."""
    channels = y.shape[-1]
    s = layers.GlobalAveragePooling2D(keepdims=True)(y)
    s = layers.Conv2D(max(8, channels // 4), 1, activation="relu")(s)
    return layers.Multiply()([y, layers.Conv2D(channels, 1, activation="hard_sigmoid")(s)])


def gated() -> Model:
    """Inverted residual blocks with squeeze-and-excite and hard swish, as MobileNetV3 has."""
    x = keras.Input((32, 32, 3), name="image")
    y = _norm(layers.Conv2D(12, 3, strides=2, padding="same", use_bias=False)(x), "hard_swish")
    for filters, stride, activation in (
        (12, 1, "relu"),
        (20, 2, "relu"),
        (20, 1, "hard_swish"),
        (32, 2, "hard_swish"),
    ):
        side, channels = y, y.shape[-1]
        y = _norm(layers.Conv2D(channels * 4, 1, use_bias=False)(y), activation)
        y = layers.DepthwiseConv2D(5, strides=stride, padding="same", use_bias=False)(y)
        y = _squeezed(_norm(y, activation))
        y = _norm(layers.Conv2D(filters, 1, use_bias=False)(y), None)
        if stride == 1 and channels == filters:
            y = layers.Add()([side, y])
    y = layers.GlobalAveragePooling2D()(_norm(layers.Conv2D(96, 1, use_bias=False)(y), "hard_swish"))
    return _classifier(x, layers.Dense(64, activation="hard_swish")(y), data.SHAPES)


def attention() -> Model:
    """A small vision transformer: 64 patches behind a stem, three blocks with layer norms and GELU."""
    width = 48
    x = keras.Input((32, 32, 3), name="image")
    # Without the stem six thousand pictures teach it little.
    y = _norm(layers.Conv2D(24, 3, strides=2, padding="same", use_bias=False)(x))
    y = _norm(layers.Conv2D(width, 3, strides=2, padding="same", use_bias=False, name="patches")(y))
    y = layers.Reshape((64, width))(y)
    # Its bias is the table of places, which an embedding of constant numbers would leave out of the model.
    y = layers.EinsumDense("btc,cd->btd", (64, width), bias_axes="td", name="places")(y)
    for i in range(3):
        z = layers.LayerNormalization(epsilon=1e-5, name=f"norm{i}a")(y)
        y = y + layers.MultiHeadAttention(4, width // 4, name=f"attend{i}")(z, z)
        z = layers.LayerNormalization(epsilon=1e-5, name=f"norm{i}b")(y)
        z = layers.Dense(width * 3, activation="gelu", name=f"widen{i}")(z)
        y = y + layers.Dense(width, name=f"narrow{i}")(z)
    y = layers.LayerNormalization(epsilon=1e-5)(y)
    return _classifier(x, layers.GlobalAveragePooling1D()(y), data.SHAPES)


def wide() -> Model:
    """An autoencoder of spectra, whose outputs span ranges that differ by a factor of thirty."""
    x = keras.Input((49, 10, 1), name="spectrum")
    y = layers.Flatten()(x)
    for units in (96, 48, 12, 48, 96):
        y = layers.Dense(units, use_bias=False)(y)
        y = _norm(y)
    return Model(x, layers.Dense(490, name="spectrum_again")(y))


def points() -> Model:
    """Maps of where things are: an encoder, a decoder, and ways across."""
    x = keras.Input((48, 48, 3), name="image")
    kept, y = [], x
    for filters in (16, 32, 48, 64):
        y = _norm(layers.Conv2D(filters, 3, strides=2, padding="same", use_bias=False)(y))
        y = _norm(layers.SeparableConv2D(filters, 3, padding="same", use_bias=False)(y))
        kept.append(y)
    for filters, across in zip((48, 32), (kept[2], kept[1]), strict=True):
        y = layers.UpSampling2D(interpolation="bilinear")(y)
        y = _norm(
            layers.SeparableConv2D(filters, 3, padding="same", use_bias=False)(
                layers.Concatenate()([y, across])
            )
        )
    return Model(x, layers.Conv2D(data.SHAPES, 1, name="maps")(y))


def dense() -> Model:
    """Three dense layers on spectra, as the smallest keyword nets have."""
    x = keras.Input((49, 10, 1), name="spectrum")
    y = layers.Flatten()(x)
    for i in range(3):
        y = layers.Dropout(0.2)(layers.Dense(144, activation="relu", name=f"hidden{i}")(y))
    return _classifier(x, y, data.WORDS)


def mobile() -> Model:
    """More than a million weights in inverted residual blocks, of ReLU6 first and of hard swish then."""
    x = keras.Input((32, 32, 3), name="image")
    y = _norm(layers.Conv2D(16, 3, strides=2, padding="same", use_bias=False)(x), "relu6")
    for filters, stride, wider, activation in (
        (16, 1, 1, "relu6"),
        (24, 2, 4, "relu6"),
        (24, 1, 4, "relu6"),
        (48, 2, 4, "hard_swish"),
        (48, 1, 4, "hard_swish"),
        (112, 2, 4, "hard_swish"),
        (112, 1, 5, "hard_swish"),
        (112, 1, 5, "hard_swish"),
        (112, 1, 5, "hard_swish"),
        (144, 1, 5, "hard_swish"),
    ):
        side, channels = y, y.shape[-1]
        y = _norm(layers.Conv2D(channels * wider, 1, use_bias=False)(y), activation)
        y = layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False)(y)
        y = _norm(layers.Conv2D(filters, 1, use_bias=False)(_norm(y, activation)), None)
        if stride == 1 and channels == filters:
            y = layers.Add()([side, y])
    y = layers.GlobalAveragePooling2D()(_norm(layers.Conv2D(512, 1, use_bias=False)(y), "hard_swish"))
    return _classifier(x, layers.Dense(640, activation="hard_swish")(y), data.SHAPES)


def lstm() -> Model:
    """Two LSTM layers on motions."""
    x = keras.Input((40, 6), name="motion")
    y = layers.LSTM(24)(layers.LSTM(24, return_sequences=True)(x))
    return _classifier(x, y, data.MOTIONS)


def gru() -> Model:
    """A convolution and a GRU on motions."""
    x = keras.Input((40, 6), name="motion")
    y = layers.Conv1D(24, 3, padding="same", activation="relu")(x)
    return _classifier(x, layers.GRU(32)(y), data.MOTIONS)


def crnn() -> Model:
    """Two dimensional convolutions, then a GRU both ways, as keyword nets of that kind have."""
    x = keras.Input((40, 6), name="motion")
    y = layers.Reshape((40, 6, 1))(x)
    y = _norm(layers.Conv2D(24, (5, 3), strides=(2, 1), padding="same", use_bias=False)(y))
    y = _norm(layers.Conv2D(24, 3, strides=(1, 2), padding="same", use_bias=False)(y))
    y = layers.Bidirectional(layers.GRU(24))(layers.Reshape((20, 72))(y))
    return _classifier(x, layers.Dense(32, activation="relu")(y), data.MOTIONS)


# ------------------------------------------------------------------------- the same functions, badly scaled


def _factors(count: int, seed: int) -> np.ndarray:
    """Powers of ten from 1/100 to 100."""
    return 10.0 ** np.random.default_rng(seed).uniform(-2, 2, count)


def _scale_plain(model: Model) -> None:
    """ReLU(s * x) = s * ReLU(x): a channel is multiplied before it, and divided in the next convolution."""
    for i, (name, reader) in enumerate((("conv0", "conv1"), ("conv1", "conv2"))):
        before, after = model.get_layer(name), model.get_layer(reader)
        (kernel, bias), (kernel2, bias2) = before.get_weights(), after.get_weights()
        s = _factors(len(bias), i)
        before.set_weights([kernel * s, bias * s])
        after.set_weights([kernel2 / s[:, None], bias2])


def _scale_depthwise(model: Model) -> None:
    """As above, through batch norms: into depthwise kernels and out of them."""
    for i in range(4):
        for name, reader, seed in ((f"deep{i}", f"point{i}", i), (f"point{i}", f"deep{i + 1}", i + 9)):
            if i == 3 and reader == "deep4":
                continue
            norm, after = model.get_layer(f"{name}_norm"), model.get_layer(reader)
            gamma, beta, mean, variance = norm.get_weights()
            s = _factors(len(gamma), seed)
            norm.set_weights([gamma * s, beta * s, mean, variance])
            (kernel,) = after.get_weights()
            after.set_weights([kernel / s[:, None]])


LOUD, LOUDER = (5, 17, 40), 40.0
"""Channels of layer norms that are made loud, and by what factor."""


def _scale_attention(model: Model) -> None:
    """Three channels behind each layer norm are far larger than the others, as in large transformers."""
    for i in range(3):
        s = np.ones(48)
        s[list(LOUD)] = LOUDER
        for name in (f"norm{i}a", f"norm{i}b"):
            norm = model.get_layer(name)
            gamma, beta = norm.get_weights()
            norm.set_weights([gamma * s, beta * s])
        widen, attend = model.get_layer(f"widen{i}"), model.get_layer(f"attend{i}")
        kernel, bias = widen.get_weights()
        widen.set_weights([kernel / s[:, None], bias])
        weights = attend.get_weights()
        # Query, key and value read the norm: kernels [48, heads, size], each with its bias behind it.
        attend.set_weights([w / s[:, None, None] if k in (0, 2, 4) else w for k, w in enumerate(weights)])


NETWORKS = {
    "plain": Network(plain),
    "plain_scaled": Network(plain, like="plain", rescale=_scale_plain),
    "depthwise": Network(depthwise),
    "depthwise_scaled": Network(depthwise, like="depthwise", rescale=_scale_depthwise),
    "residual": Network(residual, epochs=12),
    "inverted": Network(inverted, epochs=20),
    "gated": Network(gated, epochs=20),
    "attention": Network(attention, epochs=10, rate=2e-3),
    "attention_loud": Network(attention, like="attention", rescale=_scale_attention),
    "wide": Network(wide, epochs=20),
    "points": Network(points, epochs=16, rate=5e-3),
    "dense": Network(dense, epochs=40, rate=1e-3),
    "mobile": Network(mobile, epochs=9, rate=2e-3),
    "lstm": Network(lstm, epochs=12, rate=5e-3),
    "gru": Network(gru, epochs=12, rate=5e-3),
    "crnn": Network(crnn, epochs=12),
}
