"""Convolutional networks of Keras 2 and 3."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from scripts.eras_models.making import floats, ints, keras_model


@keras_model("k3 k2", image=floats(None, 16, 16, 3))
def cnn(k: Any, image: Any) -> Any:
    x = k.layers.Conv2D(6, 3, padding="same")(image)
    x = k.layers.ReLU()(k.layers.BatchNormalization()(x))
    x = k.layers.MaxPooling2D()(x)
    x = k.layers.Flatten()(k.layers.Conv2D(4, 3, strides=2, activation="relu")(x))
    return k.layers.Dense(5, "softmax")(k.layers.Dropout(0.4)(x))


@keras_model("k3 k2", image=floats(None, 16, 16, 3))
def resnet(k: Any, image: Any) -> Any:
    def block(x: Any, units: int, stride: int) -> Any:
        short = k.layers.Conv2D(units, 1, strides=stride)(x) if stride > 1 else x
        y = k.layers.ReLU()(k.layers.BatchNormalization()(k.layers.Conv2D(units, 3, stride, "same")(x)))
        y = k.layers.BatchNormalization()(k.layers.Conv2D(units, 3, padding="same", use_bias=False)(y))
        return k.layers.ReLU()(k.layers.Add()([short, y]))

    x = block(block(k.layers.Conv2D(6, 3, padding="same")(image), 6, 1), 8, 2)
    return k.layers.Dense(5, "softmax")(k.layers.GlobalAveragePooling2D()(x))


@keras_model("k3 k2", image=floats(None, 16, 16, 3))
def mobilenet_block(k: Any, image: Any) -> Any:
    def block(x: Any, units: int, stride: int) -> Any:
        y = k.layers.ReLU(6.0)(
            k.layers.BatchNormalization()(k.layers.Conv2D(4 * units, 1, use_bias=False)(x))
        )
        y = k.layers.DepthwiseConv2D(3, stride, "same", use_bias=False)(y)
        y = k.layers.ReLU(6.0)(k.layers.BatchNormalization()(y))
        y = k.layers.BatchNormalization()(k.layers.Conv2D(units, 1, use_bias=False)(y))
        return k.layers.Add()([x, y]) if stride == 1 else y

    x = k.layers.ZeroPadding2D(((0, 1), (0, 1)))(image)
    x = k.layers.Conv2D(4, 3, 2, activation="relu6")(x)
    x = k.layers.GlobalAveragePooling2D(keepdims=True)(block(block(x, 4, 1), 6, 2))
    return k.layers.Reshape((5,))(k.layers.Conv2D(5, 1)(x))


@keras_model("k3", image=floats(None, 16, 16, 3))
def squeeze_excite_hard_swish(k: Any, image: Any) -> Any:
    """MobileNetV3's block."""
    x = k.layers.Activation("hard_silu")(k.layers.Conv2D(8, 3, 2, "same")(image))
    s = k.layers.GlobalAveragePooling2D(keepdims=True)(x)
    s = k.layers.Conv2D(8, 1, activation="hard_sigmoid")(k.layers.Conv2D(2, 1, activation="relu")(s))
    return k.layers.Dense(4)(k.layers.Flatten()(k.layers.Multiply()([x, s])))


@keras_model("k3 k2", image=floats(None, 16, 16, 3, low=0.0, high=255.0))
def efficientnet_block(k: Any, image: Any) -> Any:
    x = k.layers.Normalization(mean=[120.0, 110, 100], variance=[900.0, 800, 700])(
        k.layers.Rescaling(1 / 255.0, name="scale")(image) * 255.0
    )
    x = k.layers.Activation("swish")(k.layers.BatchNormalization()(k.layers.Conv2D(6, 3, 2, "same")(x)))
    y = k.layers.Activation("swish")(
        k.layers.BatchNormalization()(k.layers.DepthwiseConv2D(5, padding="same")(x))
    )
    s = k.layers.Reshape((1, 1, 6))(k.layers.GlobalAveragePooling2D()(y))
    s = k.layers.Conv2D(6, 1, activation="sigmoid")(k.layers.Conv2D(2, 1, activation="swish")(s))
    y = k.layers.Conv2D(6, 1)(k.layers.Multiply()([y, s]))
    return k.layers.Dense(4, "softmax")(k.layers.GlobalAveragePooling2D()(k.layers.Add()([x, y])))


@keras_model("k3", image=floats(None, 16, 16, 3))
def convnext(k: Any, image: Any) -> Any:
    x = k.layers.LayerNormalization(epsilon=1e-6)(k.layers.Conv2D(8, 4, 4)(image))
    y = k.layers.LayerNormalization(epsilon=1e-6)(k.layers.DepthwiseConv2D(7, padding="same")(x))
    y = k.layers.Dense(8)(k.layers.Dense(32, "gelu")(y))
    x = k.layers.Add()([x, k.layers.Rescaling(0.3)(y)])
    return k.layers.Dense(4)(k.layers.LayerNormalization(epsilon=1e-6)(k.layers.GlobalAveragePooling2D()(x)))


@keras_model("k3 k2", image=floats(None, 16, 16, 2))
def unet(k: Any, image: Any) -> Any:
    a = k.layers.Conv2D(4, 3, padding="same", activation="relu")(image)
    b = k.layers.Conv2D(6, 3, padding="same", activation="relu")(k.layers.MaxPooling2D()(a))
    c = k.layers.Conv2D(8, 3, padding="same", activation="relu")(k.layers.MaxPooling2D()(b))
    b = k.layers.Concatenate()([b, k.layers.Conv2DTranspose(6, 2, 2)(c)])
    a = k.layers.Concatenate()([a, k.layers.UpSampling2D(interpolation="bilinear")(b)])
    return k.layers.Conv2D(1, 1, activation="sigmoid")(a)


@keras_model("k3", image=floats(None, None, None, 3, length=12))
def open_picture(k: Any, image: Any) -> Any:
    """Fully convolutional: height and width are open."""
    x = k.layers.Conv2D(6, 3, 2, "same", activation="relu")(image)
    return k.layers.Conv2DTranspose(2, 3, 2, "same")(k.layers.SeparableConv2D(6, 3, padding="same")(x))


@keras_model("k3", image=floats(None, 16, 16, 3))
def dilated(k: Any, image: Any) -> Any:
    rates = [
        k.layers.Conv2D(4, 3, padding="same", dilation_rate=r, activation="relu")(image) for r in (1, 2, 4)
    ]
    pooled = k.layers.Conv2D(4, 1)(k.layers.GlobalAveragePooling2D(keepdims=True)(image))
    rates.append(k.layers.UpSampling2D(16, interpolation="bilinear")(pooled))
    return k.layers.Conv2D(3, 1)(k.layers.Concatenate()(rates))


@keras_model("k3", x=floats(None, 20, 3))
def conv1d(k: Any, x: Any) -> Any:
    y = k.layers.Conv1D(6, 3, padding="causal", dilation_rate=2, activation="relu")(x)
    y = k.layers.Conv1D(4, 3, strides=2, padding="same")(y)
    y = k.layers.Conv1DTranspose(3, 3, strides=2, padding="same")(y)
    return k.layers.MaxPooling1D()(k.layers.SeparableConv1D(4, 3)(y))


@keras_model("k3", x=floats(None, 8, 8, 8, 1))
def conv3d(k: Any, x: Any) -> Any:
    y = k.layers.MaxPooling3D(2)(k.layers.Conv3D(4, 3, padding="same", activation="relu")(x))
    y = k.layers.AveragePooling3D(2)(k.layers.BatchNormalization()(k.layers.Conv3D(3, 2)(y)))
    return k.layers.Dense(3)(k.layers.Flatten()(y))


@keras_model("k3", x=floats(None, 4, 4, 4, 2))
def conv3d_transposed(k: Any, x: Any) -> Any:
    return k.layers.Conv3D(1, 1)(k.layers.Conv3DTranspose(3, 2, 2)(x))


@keras_model("k3", image=floats(None, 12, 12, 4))
def grouped(k: Any, image: Any) -> Any:
    x = k.layers.GroupNormalization(2)(k.layers.Conv2D(8, 3, groups=2, padding="same")(image))
    return k.layers.Conv2D(4, 3, groups=4)(k.layers.PReLU(shared_axes=[1, 2])(x))


@keras_model("k3", image=floats(None, 12, 12, 4))
def activations(k: Any, image: Any) -> Any:
    names = (
        "elu",
        "selu",
        "gelu",
        "softplus",
        "softsign",
        "tanh",
        "mish",
        "hard_tanh",
        "exponential",
        "relu6",
    )
    parts = [k.layers.Activation(a)(k.layers.Conv2D(2, 1)(image)) for a in names]
    parts += [k.layers.LeakyReLU()(image), k.layers.ELU(0.5)(image), k.layers.ReLU(threshold=0.2)(image)]
    return k.layers.Concatenate()(parts)


@keras_model("k3", image=floats(None, 20, 20, 3, low=0.0, high=255.0))
def preprocessing(k: Any, image: Any) -> Any:
    """Layers that prepare pictures, and those for training that do nothing at inference."""
    x = k.layers.CenterCrop(14, 14)(k.layers.Resizing(16, 16)(image))
    for layer in (k.layers.RandomFlip(), k.layers.RandomRotation(0.2), k.layers.RandomZoom(0.1)):
        x = layer(x)
    x = k.layers.RandomContrast(0.2)(k.layers.RandomTranslation(0.1, 0.1)(x))
    return k.layers.Conv2D(3, 3)(k.layers.Rescaling(1 / 127.5, -1.0)(x))


@keras_model("k3 k2", image=floats(None, 20, 20, 3, low=0.0, high=255.0))
def resizing(k: Any, image: Any) -> Any:
    ways = ("bilinear", "nearest", "bicubic")
    return k.layers.Concatenate()([k.layers.Resizing(13, 9, interpolation=w)(image) for w in ways])


@keras_model("k3 k2", image=floats(None, 20, 16, 3, low=0.0, high=255.0))
def crops(k: Any, image: Any) -> Any:
    x = k.layers.RandomCrop(12, 12)(k.layers.CenterCrop(18, 14)(image))
    return k.layers.GlobalAveragePooling2D()(k.layers.Conv2D(4, 3)(k.layers.Rescaling(1 / 255.0)(x)))


@keras_model("k3", image=floats(None, 20, 16, 3, low=0.0, high=255.0))
def resizing_keeping_aspect(k: Any, image: Any) -> Any:
    cropped = k.layers.Resizing(12, 12, crop_to_aspect_ratio=True)(image)
    padded = k.layers.Resizing(12, 12, pad_to_aspect_ratio=True)(image)
    return k.layers.Concatenate()([cropped, padded])


@keras_model("k3", image=ints(None, 12, 12, 3, high=256, dtype=tf.uint8))
def bytes_in(k: Any, image: Any) -> Any:
    x = k.layers.Rescaling(1 / 255.0)(image)
    return k.layers.Dense(3, "softmax")(k.layers.Flatten()(k.layers.Conv2D(3, 3, 2)(x)))


@keras_model("k3 k2", tolerance=3e-2, dtype="mixed_float16", image=floats(None, 12, 12, 3))
def mixed_float16(k: Any, image: Any) -> Any:
    x = k.layers.ReLU()(k.layers.BatchNormalization()(k.layers.Conv2D(6, 3)(image)))
    return k.layers.Dense(3, dtype="float32")(k.layers.GlobalAveragePooling2D()(x))


@keras_model("k3", tolerance=6e-2, dtype="mixed_bfloat16", image=floats(None, 12, 12, 3))
def mixed_bfloat16(k: Any, image: Any) -> Any:
    x = k.layers.ReLU()(k.layers.Conv2D(6, 3)(image))
    return k.layers.Dense(3, dtype="float32")(k.layers.GlobalAveragePooling2D()(x))


@keras_model("k3 k2", dtype="float64", x=floats(None, 10, dtype=tf.float64))
def float64(k: Any, x: Any) -> Any:
    return k.layers.Dense(3, "softmax")(k.layers.BatchNormalization()(k.layers.Dense(8, "tanh")(x)))


@keras_model("k2", image=floats(None, 12, 12, 3))
def subclassed(k: Any, image: Any) -> Any:
    class Net(k.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm = k.layers.Conv2D(4, 3), k.layers.BatchNormalization()
            self.last = k.layers.Dense(3)

        def call(self, x: Any, training: Any = None) -> Any:
            y = tf.nn.relu(self.norm(self.first(x), training=training))
            return self.last(tf.reduce_mean(y, [1, 2]))

    return Net()(image)


@keras_model("k3 k2", image=floats(None, 12, 12, 3))
def sequential(k: Any, image: Any) -> Any:
    return k.Sequential(
        [
            k.layers.SeparableConv2D(5, 3, activation="relu"),
            k.layers.AveragePooling2D(2),
            k.layers.SpatialDropout2D(0.3),
            k.layers.GaussianNoise(0.1),
            k.layers.Flatten(),
            k.layers.Dense(3, "sigmoid"),
        ]
    )(image)


@keras_model("k3", image=floats(None, 16, 16, 3))
def several_heads(k: Any, image: Any) -> Any:
    x = k.layers.GlobalMaxPooling2D()(k.layers.Conv2D(6, 3, activation="relu")(image))
    return {"age": k.layers.Dense(1)(x), "kind": k.layers.Dense(3, "softmax")(x), "features": x}


@keras_model("k3", image=floats(None, 16, 16, 3))
def inception_block(k: Any, image: Any) -> Any:
    a = k.layers.Conv2D(3, 1, activation="relu")(image)
    b = k.layers.Conv2D(3, (1, 7), padding="same")(k.layers.Conv2D(3, (7, 1), padding="same")(image))
    c = k.layers.Conv2D(3, 1)(k.layers.AveragePooling2D(3, 1, "same")(image))
    return k.layers.Conv2D(4, 1)(k.layers.Concatenate()([a, b, c]))


@keras_model("k3", image=floats(None, 12, 12, 3))
def autoencoder(k: Any, image: Any) -> Any:
    x = k.layers.Conv2D(4, 3, 2, "same", activation="relu")(image)
    code = k.layers.Dense(6)(k.layers.Flatten()(x))
    x = k.layers.Reshape((6, 6, 4))(k.layers.Dense(144, "relu")(code))
    return [k.layers.Conv2DTranspose(3, 3, 2, "same", activation="sigmoid")(x), code]
