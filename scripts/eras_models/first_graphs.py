"""Graphs of TensorFlow 1, written by hand: loops with frames, norms, pictures, text."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from scripts.eras_models.making import floats, ints, texts, tf1_model, v1, weights


def _dense(x: Any, units: int, name: str) -> Any:
    return tf.nn.bias_add(
        tf.matmul(x, weights(f"{name}_w", int(x.shape[-1]), units)), weights(f"{name}_b", units)
    )


def _conv(x: Any, units: int, name: str, stride: int = 1, **how: Any) -> Any:
    w = weights(f"{name}_w", 3, 3, int(x.shape[-1]), units)
    return tf.nn.bias_add(
        v1.nn.conv2d(x, w, [1, stride, stride, 1], "SAME", **how), weights(f"{name}_b", units)
    )


def _cell(h: Any, x: Any, units: int, name: str) -> Any:
    return tf.tanh(_dense(tf.concat([x, h], 1), units, name))


def _lstm_cell(x: Any, h: Any, c: Any, units: int, name: str) -> tuple[Any, Any]:
    i, j, f, o = tf.split(_dense(tf.concat([x, h], 1), 4 * units, name), 4, 1)
    c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
    return tf.tanh(c) * tf.sigmoid(o), c


@tf1_model("frozen saved_model checkpoint", x=floats(None, 10))
def perceptron(x: Any) -> Any:
    return {"y": tf.nn.softmax(_dense(tf.nn.relu(_dense(x, 8, "one")), 3, "two"))}


@tf1_model("frozen saved_model checkpoint", image=floats(None, 16, 16, 3))
def cnn(image: Any) -> Any:
    x = tf.nn.relu(_conv(image, 6, "one"))
    x = v1.nn.lrn(v1.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"), 2, 1.0, 1e-3, 0.75)
    x = tf.nn.relu6(_conv(x, 4, "two", 2))
    return {"y": tf.nn.softmax(_dense(tf.reshape(x, [-1, 4 * 4 * 4]), 5, "last"))}


@tf1_model("frozen checkpoint", image=floats(None, 16, 16, 3))
def fused_norms(image: Any) -> Any:
    """Of both modes: the statistics of training are those of the batch."""
    x = _conv(image, 6, "one")
    numbers = [weights(n, 6, low=0.5, high=1.5) for n in ("gamma", "beta", "mean", "variance")]
    x, _, _ = v1.nn.fused_batch_norm(x, *numbers, is_training=False)
    return {"y": tf.reduce_mean(tf.nn.relu(x), [1, 2])}


@tf1_model("frozen", image=floats(1, 16, 16, 3))
def fused_norm_of_the_batch(image: Any) -> Any:
    x = _conv(image, 6, "one")
    y, mean, _ = v1.nn.fused_batch_norm(
        x, weights("gamma", 6, low=0.5, high=1.5), weights("beta", 6), is_training=True
    )
    return {"y": tf.nn.relu(y), "mean": mean}


@tf1_model("frozen", image=floats(None, 3, 12, 12))
def channels_first(image: Any) -> Any:
    """NCHW, as GPUs were fed. TensorFlow's CPU answers through a copy with the channels last."""
    w = weights("w", 3, 3, 3, 6)
    last = tf.transpose(image, [0, 2, 3, 1])
    x = tf.transpose(v1.nn.conv2d(last, w, [1, 2, 2, 1], "SAME"), [0, 3, 1, 2])
    x = tf.nn.relu(x * weights("scale", 6, 1, 1) + weights("shift", 6, 1, 1))
    return {"y": tf.nn.softmax(_dense(tf.reduce_mean(x, [2, 3]), 4, "last"))}


@tf1_model("frozen", image=floats(None, 16, 16, 3))
def deeplab(image: Any) -> Any:
    x = tf.nn.relu(_conv(image, 4, "stem", 2))
    parts = [tf.nn.relu(_conv(x, 4, f"rate{r}", dilations=[1, r, r, 1])) for r in (1, 2)]
    pooled = v1.nn.avg_pool(x, [1, 8, 8, 1], [1, 1, 1, 1], "VALID")
    parts.append(v1.image.resize_bilinear(pooled, [8, 8], align_corners=True))
    x = _conv(tf.concat(parts, 3), 3, "logits")
    x = v1.image.resize_bilinear(x, tf.shape(image)[1:3], align_corners=True)
    return {"classes": tf.argmax(x, 3), "logits": x}


@tf1_model("frozen", image=floats(None, 8, 8, 3))
def atrous_through_space(image: Any) -> Any:
    """A dilated convolution as it was before the op had dilations."""
    x = v1.nn.convolution(image, weights("w", 3, 3, 3, 4), "SAME", dilation_rate=[2, 2])
    return {"y": tf.nn.relu(x)}


@tf1_model("frozen", image=floats(None, 10, 10, 1))
def espcn(image: Any) -> Any:
    x = tf.tanh(_conv(tf.tanh(_conv(image, 6, "one")), 4, "two"))
    return {"y": v1.depth_to_space(_conv(x, 9, "three"), 3)}


@tf1_model("frozen", image=floats(None, None, None, 1, length=10))
def fsrcnn(image: Any) -> Any:
    x = tf.nn.leaky_relu(_conv(image, 6, "one"), 0.1)
    size = tf.shape(image)
    grown = tf.stack([size[0], size[1] * 2, size[2] * 2, 1])
    y = v1.nn.conv2d_transpose(x, weights("up", 5, 5, 1, 6), grown, [1, 2, 2, 1], "SAME")
    return {"y": tf.clip_by_value(y, -1.0, 1.0)}


@tf1_model("frozen checkpoint", x=floats(None, 6, 4))
def hand_written_loop(x: Any) -> Any:
    """dynamic_rnn written by hand: while_loop with TensorArrays."""
    steps = tf.shape(x)[1]
    taken = tf.TensorArray(tf.float32, size=steps, name="taken").unstack(tf.transpose(x, [1, 0, 2]))
    written = tf.TensorArray(tf.float32, size=steps, name="written")
    w, b = weights("w", 9, 5), weights("b", 5)

    def step(time: Any, h: Any, out: Any) -> Any:
        h = tf.tanh(tf.matmul(tf.concat([taken.read(time), h], 1), w) + b)
        return time + 1, h, out.write(time, h)

    first = [0, tf.zeros([tf.shape(x)[0], 5]), written]
    _, last, out = v1.while_loop(lambda time, *_: time < steps, step, first)
    return {"last": last, "all": tf.transpose(out.stack(), [1, 0, 2])}


@tf1_model("frozen", x=floats(1, 6, 4))
def dynamic_lstm(x: Any) -> Any:
    """A loop over a batch of one with an LSTM's cell in it."""
    w, b = weights("w", 9, 20), weights("b", 20)
    taken = tf.TensorArray(tf.float32, size=6).unstack(tf.transpose(x, [1, 0, 2]))

    def step(time: Any, h: Any, c: Any) -> Any:
        i, j, f, o = tf.split(tf.matmul(tf.concat([taken.read(time), h], 1), w) + b, 4, 1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        return time + 1, tf.tanh(c) * tf.sigmoid(o), c

    _, h, c = v1.while_loop(lambda time, *_: time < 6, step, [0, tf.zeros([1, 5]), tf.zeros([1, 5])])
    return {"y": _dense(h, 3, "last"), "c": c}


@tf1_model("frozen", x=floats(None, 5, 4))
def static_lstm(x: Any) -> Any:
    """Unrolled in Python."""
    h = c = tf.zeros([tf.shape(x)[0], 5])
    with v1.variable_scope("cell", reuse=v1.AUTO_REUSE):
        for part in tf.unstack(x, axis=1):
            h, c = _lstm_cell(part, h, c, 5, "cell")
    return {"y": _dense(h, 3, "last")}


@tf1_model("frozen", x=floats(None, 6, 4))
def map_fn(x: Any) -> Any:
    w = weights("w", 4, 3)
    return {"y": tf.map_fn(lambda row: tf.nn.softmax(tf.matmul(row, w)), x)}


@tf1_model("frozen", x=floats(None, 6, 4))
def scan(x: Any) -> Any:
    w = weights("w", 4, 4)
    y = tf.scan(lambda h, row: tf.tanh(tf.matmul(h, w) + row), tf.transpose(x, [1, 0, 2]))
    return {"y": tf.transpose(y, [1, 0, 2])}


@tf1_model("frozen", x=floats(None, 6), flag=floats(low=-1.0, high=1.0))
def branches(x: Any, flag: Any) -> Any:
    w = weights("w", 6, 6)
    return {"y": v1.cond(flag > 0, lambda: tf.matmul(x, w), lambda: x * 2.0)}


@tf1_model("frozen checkpoint", image=floats(None, 8, 8, 3))
def training_switch(image: Any) -> Any:
    """A placeholder with a default decides about dropout and the norm."""
    training = v1.placeholder_with_default(False, [], name="training")
    x = _conv(image, 4, "one")
    stored = weights("mean", 4), weights("variance", 4, low=0.5, high=1.5)
    mean, variance = v1.cond(
        training,
        lambda: tuple(tf.nn.moments(x, [0, 1, 2])),
        lambda: tuple(tf.identity(number) for number in stored),
    )
    x = tf.nn.relu(tf.nn.batch_normalization(x, mean, variance, weights("beta", 4), None, 1e-3))
    x = v1.cond(training, lambda: tf.nn.dropout(x, rate=0.5), lambda: tf.identity(x))
    return {"y": tf.reduce_mean(x, [1, 2])}


@tf1_model("frozen", ids=ints(None, 5, high=13, dtype=tf.int64))
def partitioned_embedding(ids: Any) -> Any:
    parts = [weights(f"part{n}", size, 4) for n, size in enumerate((5, 4, 4))]
    mod = v1.nn.embedding_lookup(parts, ids, partition_strategy="mod")
    div = v1.nn.embedding_lookup(parts, ids, partition_strategy="div")
    return {"mod": tf.reduce_mean(mod, 1), "div": tf.reduce_max(div, 1)}


@tf1_model("frozen", ids=ints(None, 5, high=13))
def embedding_bag(ids: Any) -> Any:
    """Zeros pad; a sparse lookup sums the rest."""
    full = tf.sparse.from_dense(tf.cast(ids, tf.int64))
    bag = v1.nn.embedding_lookup_sparse(weights("table", 13, 4), full, None, combiner="mean")
    return {"y": bag}


@tf1_model("saved_model", words=texts(None, of=[b"one", b"two", b"three", b"many"]))
def text_table(words: Any) -> Any:
    keys, values = tf.constant(["one", "two", "three"]), tf.constant([0, 1, 2], tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), 3)
    ids = table.lookup(words)
    return {"y": tf.gather(weights("rows", 4, 5), ids), "ids": ids}


@tf1_model("saved_model", numbers=ints(None, 3, high=5, dtype=tf.int64))
def table_of_labels(numbers: Any) -> Any:
    """From class numbers to names, behind a dense core."""
    keys = tf.constant([0, 1, 2, 3], tf.int64)
    names = tf.constant(["ant", "bee", "cat", "dog"])
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, names), "none")
    return {"names": table.lookup(numbers), "sum": tf.reduce_sum(numbers, 1)}


@tf1_model("frozen", x=floats(None, 6, low=-2.0, high=2.0))
def fake_quant_in_training(x: Any) -> Any:
    def quantized(t: Any, low: float, high: float) -> Any:
        return tf.quantization.fake_quant_with_min_max_vars(t, low, high)

    h = tf.nn.relu6(tf.matmul(quantized(x, -2.0, 2.0), quantized(weights("w", 6, 8), -0.5, 0.5)))
    return {
        "y": quantized(tf.matmul(quantized(h, 0.0, 6.0), quantized(weights("v", 8, 3), -0.5, 0.5)), -4.0, 4.0)
    }


@tf1_model("frozen", image=floats(None, 8, 8, 3))
def fake_quant_by_channel(image: Any) -> Any:
    w = weights("w", 3, 3, 3, 4)
    low, high = np.float32([-0.5, -0.4, -0.45, -0.5]), np.float32([0.5, 0.45, 0.5, 0.4])
    w = tf.quantization.fake_quant_with_min_max_vars_per_channel(w, low, high, narrow_range=True)
    x = tf.quantization.fake_quant_with_min_max_args(image, -1.0, 1.0)
    y = tf.nn.relu6(v1.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"))
    return {"y": tf.quantization.fake_quant_with_min_max_args(y, 0.0, 6.0)}


@tf1_model("frozen", x=floats(4, 6))
def quantized_ops(x: Any) -> Any:
    """As the old graph transform wrote eight-bit graphs."""
    codes, low, high = tf.quantization.quantize(x, -1.0, 1.0, tf.quint8)
    w, w_low, w_high = tf.quantization.quantize(weights("w", 6, 3), -0.5, 0.5, tf.quint8)
    product, p_low, p_high = tf.raw_ops.QuantizedMatMul(
        a=codes, b=w, min_a=low, max_a=high, min_b=w_low, max_b=w_high, Toutput=tf.qint32
    )
    range_low, range_high = tf.raw_ops.RequantizationRange(input=product, input_min=p_low, input_max=p_high)
    small, s_low, s_high = tf.raw_ops.Requantize(
        input=product,
        input_min=p_low,
        input_max=p_high,
        requested_output_min=range_low,
        requested_output_max=range_high,
        out_type=tf.quint8,
    )
    return {"y": tf.quantization.dequantize(small, s_low, s_high)}


@tf1_model("frozen", tolerance=1e-3, x=floats(None, 4, 4))
def linear_algebra(x: Any) -> Any:
    positive = tf.matmul(x, x, transpose_b=True) + 2 * tf.eye(4)
    solved = tf.linalg.solve(positive, x)
    values = tf.linalg.eigvalsh(positive)
    return {
        "solved": solved,
        "factor": tf.linalg.cholesky(positive),
        "inverse": tf.linalg.inv(positive),
        "values": values,
        "determinant": tf.linalg.det(positive),
    }


@tf1_model("frozen", scores=floats(12, low=0.0, high=1.0), boxes=floats(12, 4, low=0.0, high=1.0))
def suppression(scores: Any, boxes: Any) -> Any:
    low, high = tf.minimum(boxes[:, :2], boxes[:, 2:]), tf.maximum(boxes[:, :2], boxes[:, 2:])
    kept = v1.image.non_max_suppression(tf.concat([low, high], 1), scores, 5, 0.4)
    return {"kept": kept, "best": tf.gather(scores, kept)}


@tf1_model("frozen", x=floats(None, 8))
def wide_and_deep(x: Any) -> Any:
    """Buckets, a crossed one-hot part, and a dense one."""
    buckets = tf.raw_ops.Bucketize(input=x[:, :2], boundaries=[-0.5, 0.0, 0.5])
    wide = tf.reshape(tf.one_hot(buckets, 4), [-1, 8])
    deep = tf.nn.elu(_dense(x, 6, "deep"))
    return {"y": tf.sigmoid(_dense(wide, 1, "wide") + _dense(deep, 1, "last"))}
