"""SavedModels of tf.Module and frozen functions of TensorFlow 2."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from scripts.eras_models.making import bools, floats, function_model, ints, texts, variable


@function_model("tf2 fz2", x=floats(None, 10))
def perceptron(m: Any) -> Any:
    m.w, m.b, m.v = variable("mlp_w", 10, 8), variable("mlp_b", 8), variable("mlp_v", 8, 3)
    return lambda x: {"y": tf.nn.softmax(tf.nn.relu(x @ m.w + m.b) @ m.v)}


@function_model("tf2 fz2", image=floats(None, 12, 12, 3))
def convolution(m: Any) -> Any:
    m.w, m.v = variable("conv_w", 3, 3, 3, 6), variable("conv_v", 3, 3, 6, 1)

    def call(image: Any) -> Any:
        x = tf.nn.relu(tf.nn.conv2d(image, m.w, 2, "SAME"))
        return {"y": tf.reduce_mean(tf.nn.depthwise_conv2d(x, m.v, [1, 1, 1, 1], "VALID"), [1, 2])}

    return call


@function_model("tf2 fz2", x=floats(None, 6, 4))
def while_loop(m: Any) -> Any:
    m.w, m.u = variable("loop_w", 4, 5), variable("loop_u", 5, 5)

    def call(x: Any) -> Any:
        def step(time: Any, h: Any) -> Any:
            return time + 1, tf.tanh(x[:, time] @ m.w + h @ m.u)

        _, h = tf.while_loop(lambda time, _: time < 6, step, [0, tf.zeros([tf.shape(x)[0], 5])])
        return {"y": h}

    return call


@function_model("tf2", x=floats(None, 4), turns=ints(high=5))
def for_loop_of_autograph(m: Any) -> Any:
    m.w = variable("for_w", 4, 4)

    def call(x: Any, turns: Any) -> Any:
        for _ in tf.range(turns):
            x = tf.tanh(x @ m.w)
            if tf.reduce_sum(x) > 1.0:
                x = x * 0.5
        return {"y": x}

    return call


@function_model("tf2", x=floats(None, 5, 4))
def vectorized_map(m: Any) -> Any:
    m.w = variable("vmap_w", 4, 3)
    return lambda x: {"y": tf.vectorized_map(lambda row: tf.nn.softmax(row @ m.w), x)}


@function_model("tf2", x=floats(None, 5, 4))
def map_fn(m: Any) -> Any:
    m.w = variable("map_w", 4, 3)
    return lambda x: {"y": tf.map_fn(lambda row: tf.tanh(row @ m.w), x)}


@function_model("tf2", x=floats(None, 5, 4))
def scan(m: Any) -> Any:
    m.w = variable("scan_w", 4, 4)

    def call(x: Any) -> Any:
        return {"y": tf.scan(lambda h, row: tf.tanh(h @ m.w + row), tf.transpose(x, [1, 0, 2]))}

    return call


@function_model("tf2", x=floats(None, 6), big=bools())
def branches(m: Any) -> Any:
    m.w = variable("cond_w", 6, 6)

    def call(x: Any, big: Any) -> Any:
        picked = tf.switch_case(tf.cast(big, tf.int32), [lambda: x @ m.w, lambda: x - 1.0])
        return {"y": tf.cond(tf.reduce_sum(x) > 0, lambda: picked * 2, lambda: picked)}

    return call


@function_model("tf2 fz2", image=floats(None, 8, 8, 3, low=0.0, high=255.0))
def picture_preparation(m: Any) -> Any:
    m.w = variable("prep_w", 3, 3, 3, 4)

    def call(image: Any) -> Any:
        x = tf.image.resize(image, [6, 6], antialias=False) / 127.5 - 1.0
        x = tf.reverse(x, [-1]) - tf.constant([0.1, 0.2, 0.3])
        return {"y": tf.nn.conv2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT"), m.w, 1, "VALID")}

    return call


@function_model("tf2", image=floats(None, 16, 16, 3))
def ssd_head(m: Any) -> Any:
    m.box, m.score = variable("ssd_box", 3, 3, 3, 8), variable("ssd_score", 3, 3, 3, 6)

    def call(image: Any) -> Any:
        box = tf.reshape(tf.nn.conv2d(image, m.box, 4, "SAME"), [-1, 32, 4])
        score = tf.sigmoid(tf.reshape(tf.nn.conv2d(image, m.score, 4, "SAME"), [-1, 32, 3]))
        center, size = tf.sigmoid(box[..., :2]), 0.4 * tf.exp(box[..., 2:] * 0.3)
        corners = tf.concat([center - size / 2, center + size / 2], -1)
        found = tf.image.combined_non_max_suppression(corners[:, :, None], score, 4, 8, 0.5, 0.3)
        return dict(zip(("boxes", "scores", "classes", "count"), found, strict=True))

    return call


@function_model("tf2", boxes=floats(12, 4, low=0.0, high=1.0), scores=floats(12, low=0.0, high=1.0))
def suppression_padded(m: Any) -> Any:
    def call(boxes: Any, scores: Any) -> Any:
        corners = tf.concat([boxes[:, :2], boxes[:, :2] + 0.2 + 0.3 * boxes[:, 2:]], 1)
        kept, count = tf.image.non_max_suppression_padded(
            corners, scores, 6, 0.4, 0.2, pad_to_max_output_size=True
        )
        return {"kept": kept, "count": count}

    return call


@function_model("tf2", boxes=floats(12, 4, low=0.0, high=1.0), scores=floats(12, low=0.0, high=1.0))
def suppression_soft(m: Any) -> Any:
    def call(boxes: Any, scores: Any) -> Any:
        corners = tf.concat([boxes[:, :2], boxes[:, :2] + 0.2 + 0.3 * boxes[:, 2:]], 1)
        kept, score = tf.image.non_max_suppression_with_scores(
            corners, scores, 6, iou_threshold=1.0, score_threshold=0.1, soft_nms_sigma=0.5
        )
        return {"kept": kept, "score": score}

    return call


@function_model("tf2", image=floats(None, 16, 16, 3))
def yolo_head(m: Any) -> Any:
    m.w = variable("yolo_w", 3, 3, 3, 14)

    def call(image: Any) -> Any:
        x = tf.reshape(tf.nn.conv2d(image, m.w, 4, "SAME"), [-1, 4, 4, 2, 7])
        down, right = tf.meshgrid(tf.range(4.0), tf.range(4.0), indexing="ij")
        center = (tf.sigmoid(x[..., :2]) + tf.stack([right, down], -1)[:, :, None]) / 4.0
        size = tf.exp(x[..., 2:4]) * tf.constant([[0.2, 0.3], [0.4, 0.1]])
        boxes = tf.concat([center - size / 2, center + size / 2], -1)
        score = tf.sigmoid(x[..., 4:5]) * tf.nn.softmax(x[..., 5:])
        return {"boxes": tf.reshape(boxes, [-1, 32, 4]), "scores": tf.reshape(score, [-1, 32, 2])}

    return call


@function_model("tf2", x=floats(5, 4), source=ints(8, high=5), target=ints(8, high=5))
def graph_network(m: Any) -> Any:
    """Messages along edges, summed by segments."""
    m.w, m.u = variable("gnn_w", 4, 4), variable("gnn_u", 4, 4)

    def call(x: Any, source: Any, target: Any) -> Any:
        sent = tf.gather(x @ m.w, source)
        total = tf.math.unsorted_segment_sum(sent, target, 5)
        largest = tf.maximum(tf.math.unsorted_segment_max(sent, target, 5), -10.0)
        mean = tf.math.unsorted_segment_mean(sent, target, 5)
        return {"y": tf.nn.relu(x @ m.u + total + largest + mean)}

    return call


@function_model("tf2", words=texts(None, of=[b"one", b"two", b"three", b"many"]))
def text_table(m: Any) -> Any:
    keys, values = tf.constant(["one", "two", "three"]), tf.constant([0, 1, 2], tf.int64)
    m.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), 3)
    m.rows = variable("text_rows", 4, 5)
    return lambda words: {"y": tf.gather(m.rows, m.table.lookup(words)), "ids": m.table.lookup(words)}


@function_model("tf2", lines=texts(None, of=[b"to be or not", b"not to be", b"be"]))
def text_split(m: Any) -> Any:
    """Words by hashing into a bag."""
    m.rows = variable("split_rows", 16, 4)

    def call(lines: Any) -> Any:
        words = tf.strings.split(lines).to_tensor("")
        ids = tf.strings.to_hash_bucket_fast(words, 16)
        known = tf.cast(tf.strings.length(words) > 0, tf.float32)[..., None]
        return {"y": tf.reduce_sum(tf.gather(m.rows, ids) * known, 1)}

    return call


@function_model("tf2", ids=ints(None, 5, high=13))
def embedding_bag(m: Any) -> Any:
    m.rows = variable("bag_rows", 13, 4)

    def call(ids: Any) -> Any:
        full = tf.sparse.from_dense(tf.cast(ids, tf.int64))
        return {"y": tf.nn.safe_embedding_lookup_sparse(m.rows, full, combiner="sqrtn")}

    return call


@function_model("tf2", tolerance=1e-3, wave=floats(None, 400))
def log_mel(m: Any) -> Any:
    """A keyword model's front end, then a dense layer."""
    m.w = variable("mel_w", 10, 4)

    def call(wave: Any) -> Any:
        spectrum = tf.abs(tf.signal.stft(wave, 64, 32, 64))
        mel = tf.signal.linear_to_mel_weight_matrix(10, 33, 8000, 60.0, 3800.0)
        return {"y": tf.reduce_mean(tf.math.log(spectrum @ mel + 1e-2), 1) @ m.w}

    return call


@function_model("tf2", tolerance=1e-3, wave=floats(None, 400))
def mfcc(m: Any) -> Any:
    def call(wave: Any) -> Any:
        spectrum = tf.abs(tf.signal.stft(wave, 64, 32, 64))
        mel = tf.signal.linear_to_mel_weight_matrix(12, 33, 8000, 60.0, 3800.0)
        return {"y": tf.signal.mfccs_from_log_mel_spectrograms(tf.math.log(spectrum @ mel + 1e-2))[..., :6]}

    return call


@function_model("tf2", tolerance=1e-3, x=floats(None, 16))
def fourier(m: Any) -> Any:
    m.w = variable("fft_w", 9, low=0.5, high=1.5)

    def call(x: Any) -> Any:
        spectrum = tf.signal.rfft(x) * tf.cast(m.w, tf.complex64)
        return {"y": tf.signal.irfft(spectrum), "power": tf.abs(spectrum) ** 2}

    return call


@function_model("tf2", tolerance=1e-3, wave=floats(400))
def yamnet(m: Any) -> Any:
    """One wave of any length in patches: frames, log mel, separable convolutions."""
    m.w, m.d, m.p = (
        variable("yam_w", 3, 3, 1, 4),
        variable("yam_d", 3, 3, 4, 1),
        variable("yam_p", 1, 1, 4, 5),
    )

    def call(wave: Any) -> Any:
        spectrum = tf.abs(tf.signal.stft(wave, 64, 32, 64))
        mel = tf.math.log(spectrum @ tf.signal.linear_to_mel_weight_matrix(8, 33, 8000, 60.0, 3800.0) + 1e-2)
        patches = tf.signal.frame(mel, 6, 3, axis=0)[..., None]
        x = tf.nn.relu(tf.nn.conv2d(patches, m.w, 2, "SAME"))
        x = tf.nn.relu(tf.nn.separable_conv2d(x, m.d, m.p, [1, 1, 1, 1], "SAME"))
        return {"scores": tf.sigmoid(tf.reduce_mean(x, [1, 2])), "mel": mel}

    return call


@function_model("tf2 fz2", tolerance=1e-3, x=floats(None, 4, 4))
def linear_algebra(m: Any) -> Any:
    def call(x: Any) -> Any:
        positive = tf.matmul(x, x, transpose_b=True) + 2 * tf.eye(4)
        lower = tf.linalg.cholesky(positive)
        return {
            "solved": tf.linalg.triangular_solve(lower, x),
            "inverse": tf.linalg.inv(positive),
            "determinant": tf.linalg.det(positive),
            "band": tf.linalg.band_part(x, 1, 0),
        }

    return call


@function_model("tf2", tolerance=2e-2, x=floats(None, 8, dtype=tf.float16))
def float16(m: Any) -> Any:
    m.w = variable("half_w", 8, 4, dtype=tf.float16)
    return lambda x: {"y": tf.nn.softmax(x @ m.w)}


@function_model("tf2", tolerance=6e-2, x=floats(None, 8))
def bfloat16(m: Any) -> Any:
    m.w = variable("brain_w", 8, 4, dtype=tf.bfloat16)
    return lambda x: {"y": tf.cast(tf.nn.relu(tf.cast(x, tf.bfloat16) @ m.w), tf.float32)}


@function_model("tf2", x=floats(None, 8, dtype=tf.float64))
def float64(m: Any) -> Any:
    m.w = variable("double_w", 8, 4, dtype=tf.float64)
    return lambda x: {"y": tf.nn.softmax(tf.tanh(x @ m.w))}


def _recurrence(m: Any, element: Any, x: Any) -> Any:
    """A hand-written loop that collects its states, all in one type.   x [batch, time, features]."""
    outputs = tf.TensorArray(element, size=5)
    state = tf.zeros([tf.shape(x)[0], 4], element)
    for time in tf.range(5):
        state = tf.tanh(x[:, time] @ m.w + state @ m.u)
        outputs = outputs.write(time, state)
    return {"y": tf.transpose(outputs.stack(), [1, 0, 2]), "last": state}


@function_model("tf2", tolerance=2e-2, x=floats(None, 5, 3, dtype=tf.float16))
def loop_float16(m: Any) -> Any:
    m.w, m.u = (variable(f"half_{n}", r, 4, dtype=tf.float16) for n, r in (("loop_w", 3), ("loop_u", 4)))
    return lambda x: _recurrence(m, tf.float16, x)


@function_model("tf2", tolerance=6e-2, x=floats(None, 5, 3))
def loop_bfloat16(m: Any) -> Any:
    m.w, m.u = (variable(f"brain_{n}", r, 4, dtype=tf.bfloat16) for n, r in (("loop_w", 3), ("loop_u", 4)))

    def call(x: Any) -> Any:
        found = _recurrence(m, tf.bfloat16, tf.cast(x, tf.bfloat16))
        return {name: tf.cast(y, tf.float32) for name, y in found.items()}

    return call


@function_model("tf2", x=floats(None, 5, 3, dtype=tf.float64))
def loop_float64(m: Any) -> Any:
    m.w, m.u = (variable(f"double_{n}", r, 4, dtype=tf.float64) for n, r in (("loop_w", 3), ("loop_u", 4)))
    return lambda x: _recurrence(m, tf.float64, x)


@function_model("tf2", x=floats(None, 6), y=ints(None, 6, high=9, dtype=tf.int64))
def several_types(m: Any) -> Any:
    def call(x: Any, y: Any) -> Any:
        values, places = tf.math.top_k(x, 3)
        return {
            "values": values,
            "places": places,
            "best": tf.argmax(x, -1),
            "parity": y % 2 == 0,
            "running": tf.cumsum(y, 1),
            "sorted": tf.sort(x, direction="DESCENDING"),
        }

    return call


@function_model("tf2", x=floats(None, 6))
def constant_output(m: Any) -> Any:
    m.w, m.version = variable("const_w", 6, 2), tf.Variable(np.float32([1.5, 2.0]))
    return lambda x: {"y": x @ m.w, "version": m.version + 0.0}
