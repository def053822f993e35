"""Models that take messages and text: parse_example, feature columns, lookup layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from scripts.eras_models.making import (
    Array,
    Spec,
    drawn,
    floats,
    function_model,
    ints,
    keras_model,
    texts,
    tf1_model,
    v1,
    variable,
    weights,
)

_WORDS = (b"to be or not to be", b"that is the question", b"whether it is nobler", b"be")
_CITIES = (b"Rome", b"Oslo", b"Lima", b"Bonn")


def _messages(random: np.random.Generator, sizes: tuple[int, ...]) -> Array:
    """tf.train.Example: age [1], hobbies (any number), city, and numbers [3]."""
    made = np.empty(sizes, object)
    for place in np.ndindex(sizes):
        words = [_CITIES[int(random.integers(4))] for _ in range(int(random.integers(1, 4)))]
        features = {
            "age": tf.train.Feature(float_list=tf.train.FloatList(value=random.uniform(0, 1, 1))),
            "numbers": tf.train.Feature(float_list=tf.train.FloatList(value=random.uniform(-1, 1, 3))),
            "count": tf.train.Feature(int64_list=tf.train.Int64List(value=random.integers(0, 9, 1))),
            "hobbies": tf.train.Feature(bytes_list=tf.train.BytesList(value=words)),
            "city": tf.train.Feature(bytes_list=tf.train.BytesList(value=words[:1])),
        }
        example = tf.train.Example(features=tf.train.Features(feature=features))
        made[place] = example.SerializeToString(deterministic=True)
    return made


def _examples(*shape: int | None) -> Spec:
    return drawn(*shape, dtype=tf.string)(_messages)


_PARSED = {
    "age": tf.io.FixedLenFeature([1], tf.float32),
    "numbers": tf.io.FixedLenFeature([3], tf.float32),
    "count": tf.io.FixedLenFeature([1], tf.int64),
    "city": tf.io.FixedLenFeature([], tf.string, "Rome"),
}


@tf1_model("frozen saved_model", examples=_examples(None))
def parse_example_dense(examples: Any) -> Any:
    """An estimator's serving input: messages in, a dense core behind."""
    parsed = v1.parse_example(examples, {k: v for k, v in _PARSED.items() if k != "city"})
    x = tf.concat([parsed["age"], parsed["numbers"], tf.cast(parsed["count"], tf.float32)], 1)
    h = tf.nn.relu(tf.matmul(x, weights("w", 5, 6)))
    return {"y": tf.nn.softmax(tf.matmul(h, weights("v", 6, 3)))}


@function_model("tf2", examples=_examples(None))
def parse_example(m: Any) -> Any:
    m.w, m.rows = variable("parse_w", 4, 3), variable("parse_rows", 8, 3)

    def call(examples: Any) -> Any:
        parsed = tf.io.parse_example(examples, _PARSED)
        city = tf.gather(m.rows, tf.strings.to_hash_bucket_fast(parsed["city"], 8))
        return {"y": tf.concat([parsed["age"], parsed["numbers"]], 1) @ m.w + city}

    return call


@function_model("tf2", examples=_examples(None))
def parse_example_sparse(m: Any) -> Any:
    m.rows = variable("hobby_rows", 8, 3)

    def call(examples: Any) -> Any:
        parsed = tf.io.parse_example(examples, {"hobbies": tf.io.VarLenFeature(tf.string)})["hobbies"]
        ids = tf.sparse.SparseTensor(
            parsed.indices, tf.strings.to_hash_bucket_fast(parsed.values, 8), parsed.dense_shape
        )
        return {"y": tf.nn.embedding_lookup_sparse(m.rows, ids, None, combiner="mean")}

    return call


@tf1_model("frozen", age=floats(None, 1, low=0.0, high=1.0), count=ints(None, 1, high=9, dtype=tf.int64))
def feature_columns(age: Any, count: Any) -> Any:
    """A numeric one, buckets, a category with its embedding, as DenseFeatures writes them."""
    edges = [0.25, 0.5, 0.75]
    buckets = tf.one_hot(tf.raw_ops.Bucketize(input=age, boundaries=edges), 4)
    wide = tf.reshape(buckets, [-1, 4])
    sparse = tf.sparse.from_dense(count + 1)
    known = tf.sparse.SparseTensor(sparse.indices, sparse.values - 1, sparse.dense_shape)
    deep = v1.nn.safe_embedding_lookup_sparse(weights("rows", 9, 3), known, combiner="mean")
    x = tf.concat([age, wide, tf.reshape(deep, [-1, 3])], 1)
    return {"y": tf.sigmoid(tf.matmul(x, weights("w", 8, 1)))}


@tf1_model("frozen", city=texts(None, of=_CITIES), numbers=floats(None, 3))
def hashed_column(city: Any, numbers: Any) -> Any:
    ids = v1.string_to_hash_bucket_fast(city, 16)
    crossed = v1.string_to_hash_bucket_fast(tf.strings.join([city, tf.as_string(ids)], "_X_"), 8)
    x = tf.concat([tf.one_hot(crossed, 8), numbers], 1)
    return {"y": tf.matmul(x, weights("w", 11, 2)), "ids": ids}


@keras_model("k3 k2", line=texts(None, of=_WORDS))
def text_vectorization(k: Any, line: Any) -> Any:
    words = ["be", "to", "is", "that", "the", "it"]
    layer = k.layers.TextVectorization(output_sequence_length=6, vocabulary=words)
    x = k.layers.Embedding(10, 4)(layer(line))
    return k.layers.Dense(3, "softmax")(k.layers.GlobalAveragePooling1D()(x))


@keras_model("k3 k2", line=texts(None, of=_WORDS))
def text_tf_idf(k: Any, line: Any) -> Any:
    layer = k.layers.TextVectorization(
        output_mode="tf_idf", vocabulary=["be", "to", "is", "that"], idf_weights=[0.4, 0.6, 0.8, 0.9]
    )
    return k.layers.Dense(3)(layer(line))


@keras_model("k3 k2", city=texts(None, 1, of=_CITIES))
def string_lookup(k: Any, city: Any) -> Any:
    ids = k.layers.StringLookup(vocabulary=["Rome", "Oslo", "Lima"])(city)
    return k.layers.Dense(3)(k.layers.Flatten()(k.layers.Embedding(5, 4)(ids)))


@keras_model("k3 k2", city=texts(None, 1, of=_CITIES), count=ints(None, 1, high=9, dtype=tf.int64))
def lookup_one_hot(k: Any, city: Any, count: Any) -> Any:
    a = k.layers.StringLookup(vocabulary=["Rome", "Oslo", "Lima"], output_mode="one_hot")(city)
    b = k.layers.IntegerLookup(vocabulary=[1, 3, 5, 7], output_mode="multi_hot")(count)
    return k.layers.Dense(3)(k.layers.Concatenate()([a, b]))


@keras_model("k2", count=ints(None, 1, high=4, dtype=tf.int64))
def string_lookup_inverted(k: Any, count: Any) -> Any:
    return k.layers.StringLookup(vocabulary=["Rome", "Oslo", "Lima"], invert=True)(count)


@keras_model("k3 k2", age=floats(None, 1, low=0.0, high=9.0))
def buckets_and_numbers(k: Any, age: Any) -> Any:
    a = k.layers.Discretization([1.0, 3.0, 6.0], output_mode="one_hot")(age)
    b = k.layers.Normalization(mean=4.0, variance=6.0)(age)
    return k.layers.Dense(2)(k.layers.Concatenate()([a, b]))


@keras_model("k3", city=texts(None, 1, of=_CITIES), age=ints(None, 1, high=90))
def hashing_and_crosses(k: Any, city: Any, age: Any) -> Any:
    a = k.layers.Hashing(6, output_mode="one_hot")(city)
    b = k.layers.CategoryEncoding(90, output_mode="one_hot")(age)
    return k.layers.Dense(2)(k.layers.Concatenate()([a, b]))


@keras_model("k3 k2", user=ints(None, high=7), item=ints(None, high=11))
def recommender(k: Any, user: Any, item: Any) -> Any:
    """Two towers of embeddings."""
    u = k.layers.Dense(4, "relu")(k.layers.Embedding(7, 4)(user))
    i = k.layers.Dense(4, "relu")(k.layers.Embedding(11, 4)(item))
    return {"score": k.layers.Dot(1)([u, i]), "user_vector": u}


@function_model("tf2", lines=texts(None, of=(b'{"a": 1}', b"12,7.5", b"7")))
def text_to_numbers(m: Any) -> Any:
    def call(lines: Any) -> Any:
        digits = tf.strings.regex_replace(lines, "[^0-9]", "")
        return {
            "number": tf.strings.to_number(tf.strings.join(["0", digits])),
            "length": tf.strings.length(lines),
            "upper": tf.strings.upper(lines),
            "first": tf.strings.substr(lines, 0, 1),
        }

    return call


@function_model("tf2", image=texts(of=(b"",)))
def decoded_picture(m: Any) -> Any:
    """A JPEG is made inside so that the answer does not hang on a file: width and height by its parts."""
    m.w = variable("jpeg_w", 3, 2)
    pixels = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
    content = tf.io.encode_png(pixels).numpy()

    def call(image: Any) -> Any:
        decoded = tf.io.decode_png(tf.strings.join([image, content]), channels=3)
        return {"y": tf.reduce_mean(tf.cast(decoded, tf.float32), [0, 1])[None] @ m.w}

    return call
