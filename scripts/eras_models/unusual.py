"""What is saved in ways of its own: several signatures, state in variables, FakeQuant, odd shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from scripts.eras_models.making import (
    Feeds,
    bools,
    floats,
    function_model,
    ints,
    keras_model,
    register,
    saved_model_answers,
    texts,
    tf1_model,
    v1,
    variable,
    weights,
)


def _save_several(folder: Path, names: Sequence[str]) -> str:
    """A module with signatures that take the same and give different things."""
    module = tf.Module()
    module.w, module.v = variable("several_w", 4, 3), variable("several_v", 3, 4)
    spec = tf.TensorSpec([None, 4], tf.float32, name="x")

    @tf.function(input_signature=[spec])
    def encode(x: Any) -> Any:
        return {"y": tf.tanh(x @ module.w)}

    @tf.function(input_signature=[spec])
    def rebuild(x: Any) -> Any:
        return {"y": tf.tanh(x @ module.w) @ module.v}

    module.encode, module.rebuild = encode, rebuild
    tf.saved_model.save(
        module, str(folder / "saved"), signatures=dict(zip(names, (encode, rebuild), strict=True))
    )
    return "saved"


def _several_with_default(folder: Path) -> str:
    return _save_several(folder, ["encode", "serving_default"])


def _several_named(folder: Path) -> str:
    return _save_several(folder, ["encode", "rebuild"])


def _rebuilt(path: Path, feeds: Sequence[Feeds]) -> list[Feeds]:
    return saved_model_answers(path, feeds, "rebuild")


register("tf2_several_signatures", _several_with_default, x=floats(None, 4))
register("tf2_signature_by_name", _several_named, _rebuilt, signature="rebuild", x=floats(None, 4))


def _save_state(folder: Path) -> str:
    """A function that counts its calls in a variable."""
    module = tf.Module()
    module.w, module.count = variable("state_w", 4, 3), tf.Variable(1.0)

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def step(x: Any) -> Any:
        old = module.count.read_value()
        module.count.assign(old * 0.5)
        return {"y": x @ module.w * old}

    module.step = step
    tf.saved_model.save(module, str(folder / "saved"), signatures=step)
    return "saved"


register("tf2_state_in_variable", _save_state, x=floats(None, 4))


def _save_whole(build: Callable[[Any], Any]) -> Callable[[Path], str]:
    """Keras 2's own way of saving: the whole model, layers, losses and all, in a SavedModel."""

    def save(folder: Path) -> str:
        import tf_keras as k

        k.utils.set_random_seed(5)
        build(k).save(str(folder / "saved"))
        return "saved"

    return save


def _whole_cnn(k: Any) -> Any:
    image = k.Input((8, 8, 2), name="image")
    x = k.layers.ReLU()(k.layers.BatchNormalization()(k.layers.Conv2D(3, 3)(image)))
    return k.Model(image, k.layers.Dense(2, name="y")(k.layers.Flatten()(x)))


def _whole_text(k: Any) -> Any:
    line = k.Input((), dtype="string", name="line")
    layer = k.layers.TextVectorization(output_sequence_length=5, vocabulary=["be", "to", "is", "that"])
    x = k.layers.Embedding(7, 4)(layer(line))
    return k.Model(line, k.layers.Dense(2, name="y")(k.layers.GlobalAveragePooling1D()(x)))


def _whole_encoder(k: Any) -> Any:
    ids, mask = (k.Input((6,), dtype="int32", name=n) for n in ("ids", "mask"))
    x = k.layers.Embedding(20, 8)(ids) + k.layers.Embedding(6, 8)(tf.range(6)[None])
    seen = k.layers.Lambda(lambda m: tf.cast(m, tf.bool)[:, None, :])(mask)
    x = k.layers.LayerNormalization()(x + k.layers.MultiHeadAttention(2, 4)(x, x, attention_mask=seen))
    return k.Model([ids, mask], k.layers.Dense(2, name="y")(x[:, 0]))


_TEXTS = (b"to be or not", b"that is", b"it")
register("k2_saved_whole", _save_whole(_whole_cnn), image=floats(None, 8, 8, 2))
register("k2_saved_whole_text", _save_whole(_whole_text), line=texts(None, of=_TEXTS))
register(
    "k2_saved_whole_encoder",
    _save_whole(_whole_encoder),
    ids=ints(None, 6, high=20),
    mask=ints(None, 6, high=2),
)


def _save_table_of_file(folder: Path) -> str:
    """TensorFlow 1's table of words with a file beside the model."""
    words = folder / "words.txt"
    words.write_text("one\ntwo\nthree\n")
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        asset = tf.constant(str(words))
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, asset)
        initializer = tf.lookup.TextFileInitializer(
            asset,
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        table = tf.lookup.StaticVocabularyTable(initializer, 2)
        text = v1.placeholder(tf.string, [None], name="text")
        y = tf.identity(tf.gather(weights("rows", 5, 3), table.lookup(text)), name="y")
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        builder = v1.saved_model.Builder(str(folder / "saved"))
        signature = v1.saved_model.predict_signature_def({"text": text}, {"y": y})
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {"serving_default": signature},
            main_op=v1.tables_initializer(),
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
        )
        builder.save()
    return "saved"


register("tf1_table_of_file", _save_table_of_file, text=texts(None, of=(b"one", b"three", b"many")))


def _fake(x: Any, low: float, high: float) -> Any:
    return tf.quantization.fake_quant_with_min_max_vars(x, low, high)


@keras_model("k2", image=floats(None, 8, 8, 2))
def training_aware_by_tensor(k: Any, image: Any) -> Any:
    """As the model optimization toolkit leaves them: FakeQuant around every layer."""

    class Quantized(k.layers.Layer):
        def build(self, shape: Any) -> None:
            self.kernel = self.add_weight("kernel", (3, 3, int(shape[-1]), 4), initializer="glorot_uniform")
            self.bias = self.add_weight("bias", (4,), initializer="zeros")

        def call(self, x: Any) -> Any:
            y = tf.nn.conv2d(x, _fake(self.kernel, -0.5, 0.5), 1, "SAME")
            return _fake(tf.nn.relu(y + self.bias), 0.0, 2.0)

    x = k.layers.Lambda(lambda t: _fake(t, -1.0, 1.0))(image)
    return k.layers.GlobalAveragePooling2D()(Quantized()(Quantized()(x)))


@keras_model("k2", image=floats(None, 8, 8, 2))
def training_aware_by_channel(k: Any, image: Any) -> Any:
    class Quantized(k.layers.Layer):
        def build(self, shape: Any) -> None:
            self.kernel = self.add_weight("kernel", (3, 3, int(shape[-1]), 4), initializer="glorot_uniform")
            self.low = self.add_weight("low", (4,), initializer=k.initializers.Constant(-0.6))
            self.high = self.add_weight("high", (4,), initializer=k.initializers.Constant(0.6))

        def call(self, x: Any) -> Any:
            w = tf.quantization.fake_quant_with_min_max_vars_per_channel(
                self.kernel, self.low, self.high, narrow_range=True
            )
            return _fake(tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME")), 0.0, 2.0)

    x = k.layers.Lambda(lambda t: _fake(t, -1.0, 1.0))(image)
    return k.layers.Flatten()(Quantized()(x))


@function_model("tf2 fz2", x=floats(None, 6), keep=bools(None))
def masks_and_places(m: Any) -> Any:
    """Boolean masks, where, scatter: sizes that depend on numbers, made fixed again."""

    def call(x: Any, keep: Any) -> Any:
        weight = tf.cast(keep, tf.float32)[:, None]
        chosen = tf.boolean_mask(x, keep)
        places = tf.where(x > 0.5)
        scattered = tf.scatter_nd(places, tf.gather_nd(x, places), tf.shape(x, tf.int64))
        return {"sum": tf.reduce_sum(chosen, 0), "mean": tf.reduce_mean(x * weight, 0), "large": scattered}

    return call


@function_model("tf2", x=floats(None, 4, 6))
def ragged_rows(m: Any) -> Any:
    m.w = variable("ragged_w", 6, 3)

    def call(x: Any) -> Any:
        rows = tf.RaggedTensor.from_tensor(x, lengths=tf.fill([tf.shape(x)[0]], 3))
        return {"y": tf.reduce_sum(rows.to_tensor(), 1) @ m.w}

    return call


@function_model("tf2", x=floats(None, 5, 3), y=floats(None, 7, 3))
def point_cloud(m: Any) -> Any:
    """Pairwise distances and the nearest three."""

    def call(x: Any, y: Any) -> Any:
        distance = tf.reduce_sum((x[:, :, None] - y[:, None]) ** 2, -1)
        near, places = tf.math.top_k(-distance, 3)
        return {"near": -near, "mean": tf.reduce_mean(tf.gather(y, places, batch_dims=1), 2)}

    return call


@function_model("tf2", image=floats(None, 10, 10, 3, low=0.0, high=1.0))
def colours(m: Any) -> Any:
    def call(image: Any) -> Any:
        hsv = tf.image.rgb_to_hsv(image)
        x = tf.image.adjust_contrast(tf.image.adjust_brightness(image, 0.1), 1.3)
        x = tf.image.per_image_standardization(x)
        return {"hsv": hsv, "x": tf.image.flip_left_right(tf.image.central_crop(x, 0.6))}

    return call


@function_model("tf2", image=floats(None, 8, 8, 3), boxes=floats(5, 4, low=0.0, high=1.0))
def crop_and_resize(m: Any) -> Any:
    def call(image: Any, boxes: Any) -> Any:
        corners = tf.concat([boxes[:, :2] * 0.5, 0.5 + boxes[:, 2:] * 0.5], 1)
        y = tf.image.crop_and_resize(image[:1], corners, tf.zeros([5], tf.int32), [4, 4])
        return {"y": tf.reduce_max(y, [1, 2])}

    return call


@function_model("tf2 fz2", x=floats(None, 12, 2))
def patches_and_bands(m: Any) -> Any:
    def call(x: Any) -> Any:
        shifted = tf.roll(x, 1, 1) + tf.reverse(x, [1])
        parts = tf.split(shifted, [5, 3, 4], 1)
        tiled = tf.tile(parts[1], [1, 2, 1])
        return {"y": tf.concat([parts[0], tiled], 1), "last": x[:, -1, ::-1], "strided": x[:, 1:11:3]}

    return call


@function_model("tf2", x=floats(None, 6))
def statistics(m: Any) -> Any:
    def call(x: Any) -> Any:
        mean, variance = tf.nn.moments(x, [1])
        return {
            "norm": tf.math.l2_normalize(x, 1),
            "deviation": tf.sqrt(variance + 1e-6),
            "sum": tf.reduce_logsumexp(x, 1),
            "product": tf.math.cumprod(x, 1, exclusive=True),
            "any": tf.reduce_any(x > 0.9, 1),
            "mean": mean,
            "special": tf.math.lgamma(x + 2.0)
            + tf.math.erf(x)
            + tf.math.log1p(x + 1.5)
            + tf.math.rsqrt(x + 2.0),
        }

    return call


@tf1_model("frozen", tolerance=1e-3, image=floats(None, 8, 8, 2))
def local_response_and_dilation(image: Any) -> Any:
    x = v1.nn.dilation2d(
        image, filter=weights("f", 3, 3, 2), strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="SAME"
    )
    x, places = v1.nn.max_pool_with_argmax(
        x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME", include_batch_in_index=False
    )
    return {"y": tf.nn.local_response_normalization(x), "places": places}


@function_model("tf2", steps=ints(high=5), x=floats(1, 3))
def growing_loop(m: Any) -> Any:
    """A list that grows while the loop runs."""
    m.w = variable("grow_w", 3, 3)

    def call(steps: Any, x: Any) -> Any:
        def turn(n: Any, all_: Any) -> Any:
            return n + 1, tf.concat([all_, tf.tanh(all_[-1:] @ m.w)], 0)

        shapes = [tf.TensorShape([]), tf.TensorShape([None, 3])]
        _, found = tf.while_loop(lambda n, _: n < steps + 1, turn, [0, x], shape_invariants=shapes)
        return {"y": found}

    return call


@function_model("tf2", prompt=ints(1, 4, high=9))
def greedy_decoder(m: Any) -> Any:
    """Words are looked up until there are enough."""
    m.rows, m.w = variable("greedy_rows", 9, 6), variable("greedy_w", 6, 9)

    def call(prompt: Any) -> Any:
        def turn(n: Any, words: Any) -> Any:
            score = tf.reduce_mean(tf.gather(m.rows, words), 1) @ m.w
            return n + 1, tf.concat([words, tf.argmax(score, -1, output_type=tf.int32)[:, None]], 1)

        shapes = [tf.TensorShape([]), tf.TensorShape([1, None])]
        _, words = tf.while_loop(lambda n, _: n < 3, turn, [0, prompt], shape_invariants=shapes)
        return {"words": words}

    return call


@function_model("tf2", x=floats(None, 3))
def nothing_but_constants_beside(m: Any) -> Any:
    """An input that only gives the batch."""
    m.row = variable("row", 3)
    return lambda x: {
        "y": tf.tile(m.row[None], [tf.shape(x)[0], 1]),
        "n": tf.shape(x)[0],
        "moved": x + np.float32(1),
    }
