"""Models of Keras of every structure: nested, shared, of several ends, frozen, of other types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Model = Callable[[Any, int], Any]
STRUCTURES: dict[str, tuple[Model, tuple[int, ...]]] = {}
"""Name -> what makes a model of a package, and the generations that can have it."""


def structure(name: str, generations: tuple[int, ...] = (2, 3)) -> Callable[[Model], Model]:
    def register(make: Model) -> Model:
        STRUCTURES[name] = make, generations
        return make

    return register


def encoder(k: Any, name: str = "encoder", size: int = 6) -> Any:
    """A model to nest: with normalization, whose weights stand apart in .h5 files."""
    x = k.Input((size,))
    y = k.layers.Dense(4)(x)
    y = k.layers.BatchNormalization()(y)
    return k.Model(x, k.layers.Dense(3, activation="relu")(y), name=name)


def tower(k: Any, name: str = "tower", size: int = 6) -> Any:
    layers = [k.layers.Dense(4), k.layers.BatchNormalization(), k.layers.Dense(3)]
    return k.Sequential([k.Input((size,)), *layers], name=name)


@structure("sequential")
def sequential(k: Any, generation: int) -> Any:
    return tower(k)


@structure("sequential without an input layer", (2,))
def bare_sequential(k: Any, generation: int) -> Any:
    return k.Sequential([k.layers.Dense(4, input_shape=(6,)), k.layers.Dense(3)])


@structure("sequential in sequential")
def nested_sequential(k: Any, generation: int) -> Any:
    return k.Sequential([k.Input((6,)), tower(k), k.layers.Dense(2)])


@structure("sequential that begins with a model")
def begins_with_model(k: Any, generation: int) -> Any:
    model = k.Sequential([encoder(k), k.layers.Dense(2)])
    model.build((None, 6))
    return model


@structure("functional in functional")
def nested(k: Any, generation: int) -> Any:
    x = k.Input((6,), name="x")
    y = encoder(k)(x)
    return k.Model(x, k.layers.BatchNormalization()(y))


@structure("models in models in models")
def deep(k: Any, generation: int) -> Any:
    x = k.Input((6,))
    inner = k.Model(x, k.layers.Dense(6)(k.layers.BatchNormalization()(x)), name="inner")
    y = k.Input((6,))
    middle = k.Model(y, k.layers.Dense(6)(inner(y)), name="middle")
    z = k.Input((6,))
    return k.Model(z, k.layers.Add()([middle(z), middle(z)]))


@structure("shared layer")
def shared_layer(k: Any, generation: int) -> Any:
    x, y = k.Input((6,), name="x"), k.Input((6,), name="y")
    dense = k.layers.Dense(4)
    return k.Model([x, y], k.layers.Concatenate()([dense(x), dense(y), dense(k.layers.Dense(6)(x))]))


@structure("shared model")
def shared_model(k: Any, generation: int) -> Any:
    x, y = k.Input((6,), name="x"), k.Input((6,), name="y")
    inner = encoder(k)
    return k.Model([x, y], [inner(x), k.layers.Subtract()([inner(x), inner(y)])])


@structure("shared sequential")
def shared_tower(k: Any, generation: int) -> Any:
    x, y = k.Input((6,), name="x"), k.Input((6,), name="y")
    inner = tower(k)
    return k.Model([x, y], k.layers.Concatenate()([inner(x), inner(y)]))


@structure("a nested model is the output")
def nested_output(k: Any, generation: int) -> Any:
    x = k.Input((6,))
    inner = encoder(k)
    return k.Model(x, [inner(x), inner(k.layers.Dense(6)(x))])


@structure("a nested model of several inputs and outputs")
def nested_many(k: Any, generation: int) -> Any:
    a, b = k.Input((6,), name="a"), k.Input((3,), name="b")
    inner = k.Model([a, b], [k.layers.Dense(2)(b), k.layers.Concatenate()([a, b])], name="inner")
    x, y = k.Input((6,), name="x"), k.Input((3,), name="y")
    one, two = inner([x, y])
    return k.Model([x, y], [two, k.layers.Dense(2)(one)])


@structure("outputs that are inputs, and twice the same")
def same_outputs(k: Any, generation: int) -> Any:
    x = k.Input((6,))
    y = k.layers.Dense(2)(x)
    return k.Model(x, [y, y, k.layers.Dropout(0.2)(x)])


@structure("frozen layers")
def frozen_layers(k: Any, generation: int) -> Any:
    x = k.Input((6,))
    inner = encoder(k)
    inner.layers[1].trainable = False
    inner.layers[2].trainable = False
    return k.Model(x, inner(x))


@structure("frozen model")
def frozen_model(k: Any, generation: int) -> Any:
    x = k.Input((6,))
    inner, outer = encoder(k), tower(k, "tower", 3)
    inner.trainable = False
    return k.Model(x, outer(inner(x)))


@structure("frozen whole")
def frozen_whole(k: Any, generation: int) -> Any:
    model = nested(k, generation)
    model.trainable = False
    return model


@structure("names that graphs do not take", (3,))
def odd_names(k: Any, generation: int) -> Any:
    layers = [k.layers.Dense(4, name="a b"), k.layers.Dense(3, name="_x.y")]
    return k.Sequential([k.Input((6,), name="in-put"), *layers], name="the_model")


@structure("dict of inputs", (3,))
def dict_inputs(k: Any, generation: int) -> Any:
    inputs = {"b": k.Input((6,), name="b"), "a": k.Input((6,), name="a")}
    return k.Model(inputs, k.layers.Subtract()([inputs["a"], inputs["b"]]))


@structure("dict of outputs")
def dict_outputs(k: Any, generation: int) -> Any:
    x = k.Input((6,))
    return k.Model(x, {"two": k.layers.Dense(2)(x), "one": k.layers.Dense(1)(x)})


@structure("activation layers as activations")
def layer_activations(k: Any, generation: int) -> Any:
    x = k.Input((6,))
    y = k.layers.Dense(4, activation=k.layers.LeakyReLU(0.2))(x)
    return k.Model(x, k.layers.Activation(k.activations.tanh)(y))


@structure("fixed batch")
def fixed_batch(k: Any, generation: int) -> Any:
    x = k.Input(batch_shape=(2, 6))
    return k.Model(x, k.layers.Reshape((3, 2))(x))


@structure("open sizes")
def open_sizes(k: Any, generation: int) -> Any:
    x = k.Input((None, None, 3))
    y = k.layers.Conv2D(4, 3, padding="same")(x)
    y = k.layers.UpSampling2D(2)(k.layers.MaxPooling2D(2)(y))
    y = k.layers.Conv2DTranspose(3, 3, strides=2, padding="same")(y)
    return k.Model(x, k.layers.GlobalAveragePooling2D()(y))


@structure("mask in a mean")
def masked_mean(k: Any, generation: int) -> Any:
    x = k.Input((5, 3))
    y = k.layers.Masking(0.0)(x)
    y = k.layers.Dense(4)(y)
    return k.Model(x, k.layers.GlobalAveragePooling1D()(y))


@structure("embedded mask in a mean")
def embedded_mean(k: Any, generation: int) -> Any:
    x = k.Input((5,), dtype="int32")
    y = k.layers.Embedding(4, 3, mask_zero=True)(x)
    return k.Model(x, k.layers.GlobalAveragePooling1D()(k.layers.Dropout(0.1)(y)))


@structure("embedded mask in a sequential")
def embedded_sequential(k: Any, generation: int) -> Any:
    layers = [k.layers.Embedding(4, 3, mask_zero=True), k.layers.GlobalAveragePooling1D(), k.layers.Dense(2)]
    return k.Sequential([k.Input((5,), dtype="int32"), *layers])


@structure("channels first", (3,))
def channels_first(k: Any, generation: int) -> Any:
    x = k.Input((3, 8, 8))
    first = {"data_format": "channels_first"}
    y = k.layers.ZeroPadding2D(1, **first)(x)
    y = k.layers.MaxPooling2D(2, **first)(y)
    y = k.layers.UpSampling2D(2, **first)(k.layers.Cropping2D(1, **first)(y))
    return k.Model(x, k.layers.Flatten(**first)(k.layers.GlobalMaxPooling2D(keepdims=True, **first)(y)))


@structure("shared between models", (2,))
def shared_between(k: Any, generation: int) -> Any:
    x = k.Input((6,))
    dense = k.layers.Dense(6, name="common")
    inner = k.Model(x, dense(x), name="inner")
    y = k.Input((6,))
    return k.Model(y, k.layers.Add()([inner(y), k.layers.Dense(6)(y)]))


def inputs_of(model: Any, rng: np.random.Generator) -> list[np.ndarray]:
    """Batches of two for a model; zeros among them, for masks."""
    found = []
    for tensor in model.inputs:
        shape = [2 if size is None and n == 0 else size or 6 for n, size in enumerate(tensor.shape)]
        if "int" in str(tensor.dtype):
            found.append(rng.integers(0, 4, shape).astype(np.int32))
            continue
        values = rng.standard_normal(shape).astype(np.float32)
        if len(shape) == 3:
            values[:, -2:] = 0
        found.append(values)
    return found


@structure("embedding and back", (3,))
def reversible(k: Any, generation: int) -> Any:
    tied = k.layers.ReversibleEmbedding(7, 5, logit_soft_cap=2.0)
    apart = k.layers.ReversibleEmbedding(7, 5, tie_weights=False)
    x = k.Input((4, 5))
    places = k.ops.argmax(x, axis=-1)
    back = apart(k.layers.Dense(5)(x), reverse=True)
    return k.Model(x, [tied(tied(places), reverse=True), apart(places), back])
