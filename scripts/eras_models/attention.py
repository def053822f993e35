"""Transformers and their parts."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from scripts.eras_models.making import floats, function_model, ints, keras_model, variable


@keras_model("k3 k2", x=floats(None, 6, 8))
def attention(k: Any, x: Any) -> Any:
    return k.layers.LayerNormalization()(x + k.layers.MultiHeadAttention(2, 4)(x, x))


@keras_model("k3 k2", x=floats(None, 6, 8))
def encoder(k: Any, x: Any) -> Any:
    for _ in range(2):
        x = k.layers.LayerNormalization()(x + k.layers.MultiHeadAttention(2, 4)(x, x))
        x = k.layers.LayerNormalization()(x + k.layers.Dense(8)(k.layers.Dense(16, "gelu")(x)))
    return k.layers.Dense(3, "softmax")(k.layers.GlobalAveragePooling1D()(x))


@keras_model("k3 k2", ids=ints(None, 6, high=20))
def decoder_causal(k: Any, ids: Any) -> Any:
    places = k.layers.Embedding(6, 8)(tf.range(6)[None]) if k.__name__ == "tf_keras" else None
    x = k.layers.Embedding(20, 8)(ids)
    if places is not None:
        x = x + places
    x = k.layers.LayerNormalization()(x + k.layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True))
    return k.layers.Dense(20)(x + k.layers.Dense(8)(k.layers.Dense(16, "relu")(x)))


@keras_model("k3", ids=ints(None, None, high=20), mask=ints(None, None, high=2))
def encoder_open_length(k: Any, ids: Any, mask: Any) -> Any:
    x = k.layers.Embedding(20, 8)(ids)
    seen = k.layers.Lambda(lambda m: tf.cast(m, tf.bool)[:, None, :], output_shape=(1, None))(mask)
    x = k.layers.LayerNormalization()(x + k.layers.MultiHeadAttention(2, 4)(x, x, attention_mask=seen))
    return {"sequence": x, "pooled": k.layers.Dense(4, "tanh")(x[:, 0])}


@keras_model("k3", ids=ints(None, 6, high=20), mask=ints(None, 6, high=2), kinds=ints(None, 6, high=2))
def bert(k: Any, ids: Any, mask: Any, kinds: Any) -> Any:
    x = k.layers.Embedding(20, 8)(ids) + k.layers.Embedding(2, 8)(kinds)
    x = k.layers.LayerNormalization(epsilon=1e-12)(x)
    seen = k.layers.Lambda(lambda m: tf.cast(m, tf.bool)[:, None, :], output_shape=(1, 6))(mask)
    for _ in range(2):
        a = k.layers.MultiHeadAttention(2, 4)(x, x, attention_mask=seen)
        x = k.layers.LayerNormalization(epsilon=1e-12)(x + a)
        y = k.layers.Dense(8)(k.layers.Dense(16, "gelu")(x))
        x = k.layers.LayerNormalization(epsilon=1e-12)(x + y)
    return {"sequence_output": x, "pooled_output": k.layers.Dense(8, "tanh")(x[:, 0])}


@keras_model("k3", image=floats(None, 16, 16, 3))
def vision_transformer(k: Any, image: Any) -> Any:
    x = k.layers.Reshape((16, 8))(k.layers.Conv2D(8, 4, 4)(image))
    y = k.layers.LayerNormalization()(x)
    x = x + k.layers.MultiHeadAttention(2, 4)(y, y)
    x = x + k.layers.Dense(8)(k.layers.Dense(16, "gelu")(k.layers.LayerNormalization()(x)))
    return k.layers.Dense(4)(k.layers.GlobalAveragePooling1D()(x))


@keras_model("k3", x=floats(None, 6, 8))
def grouped_query_attention(k: Any, x: Any) -> Any:
    return k.layers.GroupQueryAttention(4, 4, 2)(x, x)


@keras_model("k3", query=floats(None, 4, 8), value=floats(None, 6, 8))
def additive_attention(k: Any, query: Any, value: Any) -> Any:
    return [k.layers.AdditiveAttention()([query, value]), k.layers.Attention(use_scale=True)([query, value])]


@keras_model("k3 k2", x=floats(None, 8))
def layer_norm_rank2(k: Any, x: Any) -> Any:
    return k.layers.Dense(3)(k.layers.LayerNormalization()(x))


@keras_model("k3 k2", x=floats(None, 5, 8))
def layer_norm_rank3(k: Any, x: Any) -> Any:
    return k.layers.LayerNormalization(epsilon=1e-5)(k.layers.Dense(8)(x))


@keras_model("k3 k2", x=floats(None, 4, 5, 8))
def layer_norm_rank4(k: Any, x: Any) -> Any:
    last = k.layers.LayerNormalization()(x)
    return k.layers.LayerNormalization(axis=[1, 2, 3])(last)


@keras_model("k2", x=floats(None, 5, 8))
def layer_norm_no_scale(k: Any, x: Any) -> Any:
    return k.layers.LayerNormalization(center=False)(k.layers.LayerNormalization(scale=False)(x))


@keras_model("k3", x=floats(None, 5, 8))
def rms_and_unit_norm(k: Any, x: Any) -> Any:
    return k.layers.UnitNormalization()(k.layers.RMSNormalization()(x))


@function_model("tf2 fz2", x=floats(None, 5, 8))
def gelus(m: Any) -> Any:
    """Each of numbers of its own: ONNX Runtime breaks two forms that share a product with 0.5."""

    def call(x: Any) -> Any:
        a, b, c, d, e = (x + shift for shift in (-0.2, -0.1, 0.0, 0.1, 0.2))
        cubic = 0.5 * a * (1 + tf.tanh(0.7978845608 * (a + 0.044715 * a**3)))
        exact = 0.5 * b * (1 + tf.math.erf(b / 1.41421356))
        quick = c * tf.sigmoid(1.702 * c)
        built_in = tf.nn.gelu(d) + tf.nn.gelu(e, approximate=True)
        return {"y": tf.stack([cubic, exact, quick, built_in])}

    return call


@function_model("tf2", x=floats(None, 5, 8), y=floats(None, 6, 8))
def einsums(m: Any) -> Any:
    m.w = variable("einsum_w", 8, 2, 4)

    def call(x: Any, y: Any) -> Any:
        q, k = tf.einsum("btd,dhk->bthk", x, m.w), tf.einsum("bsd,dhk->bshk", y, m.w)
        weights = tf.nn.softmax(tf.einsum("bthk,bshk->bhts", q, k))
        return {"mixed": tf.einsum("bhts,bshk->bthk", weights, k), "trace": tf.einsum("btd,btd->b", x, x)}

    return call


@function_model("tf2 fz2", x=floats(None, 6, 8))
def encoder_module(m: Any) -> Any:
    """A transformer's layer written by hand."""
    for name in ("q", "k", "v", "o"):
        setattr(m, name, variable(f"encoder_{name}", 8, 8))
    m.gain, m.shift = variable("encoder_gain", 8, low=0.6, high=1.4), variable("encoder_shift", 8)

    def norm(x: Any) -> Any:
        mean, var = tf.nn.moments(x, [-1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, var, m.shift, m.gain, 1e-6)

    def heads(x: Any) -> Any:
        return tf.transpose(tf.reshape(x, [tf.shape(x)[0], -1, 2, 4]), [0, 2, 1, 3])

    def call(x: Any) -> Any:
        q, k, v = heads(x @ m.q), heads(x @ m.k), heads(x @ m.v)
        y = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 2.0) @ v
        y = tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [tf.shape(x)[0], -1, 8]) @ m.o
        return {"y": norm(x + y)}

    return call


@function_model("tf2", x=floats(1, 1, 8), cache=floats(1, 6, 8), place=ints(high=6))
def decoder_step(m: Any) -> Any:
    m.w = variable("step_w", 8, 8)

    def call(x: Any, cache: Any, place: Any) -> Any:
        key = x @ m.w
        hot = tf.one_hot(place, 6)[None, :, None]
        new = cache * (1 - hot) + key * hot
        near = tf.where(tf.range(6) <= place, x @ tf.transpose(new, [0, 2, 1]), -1e9)
        return {"y": tf.nn.softmax(near) @ new, "new": new}

    return call


@function_model("tf2", x=floats(None, 6, 8))
def mixture_of_experts(m: Any) -> Any:
    m.gate, m.experts = variable("moe_gate", 8, 4), variable("moe_experts", 4, 8, 8)

    def call(x: Any) -> Any:
        score, which = tf.math.top_k(tf.nn.softmax(x @ m.gate), 2)
        mixed = tf.einsum("btd,edf->btef", x, m.experts)
        chosen = tf.gather(mixed, which, batch_dims=2)
        return {"y": tf.reduce_sum(chosen * score[..., None], 2), "load": tf.reduce_sum(score, [0, 1])}

    return call


@function_model("tf2", x=floats(None, 6, 8))
def rotary_positions(m: Any) -> Any:
    m.w = variable("rope_w", 8, 8)

    def call(x: Any) -> Any:
        q = x @ m.w
        angle = tf.cast(tf.range(tf.shape(x)[1]), tf.float32)[:, None] * tf.pow(100.0, -tf.range(4.0) / 4)
        a, b = tf.split(q, 2, -1)
        sin, cos = tf.sin(angle), tf.cos(angle)
        return {"y": tf.concat([a * cos - b * sin, a * sin + b * cos], -1)}

    return call
