"""Networks of tf_slim, as TensorFlow 1's model garden had them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_slim

from scripts.eras_models.making import floats, tf1_model, v1, weights


def _norm(x: Any, training: Any = False, fused: bool = True) -> Any:
    """tf_slim's batch norm, whose own code no longer runs: a condition where a tensor says the mode."""
    units = int(x.shape[-1])
    with v1.variable_scope("BatchNorm"):
        gamma, variance = (weights(n, units, low=0.5, high=1.5) for n in ("gamma", "moving_variance"))
        beta, mean = (weights(n, units) for n in ("beta", "moving_mean"))
    if not fused:
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)

    def fused_norm(now: bool) -> Any:
        statistics = () if now else (mean, variance)
        return v1.nn.fused_batch_norm(x, gamma, beta, *statistics, is_training=now)[0]

    if isinstance(training, bool):
        return fused_norm(training)
    return v1.cond(training, lambda: fused_norm(True), lambda: fused_norm(False))


def _scope(training: Any, **options: Any) -> Any:
    layers = [tf_slim.conv2d, tf_slim.separable_conv2d, tf_slim.fully_connected]
    how = {"training": training, **options}
    return tf_slim.arg_scope(layers, normalizer_fn=_norm, normalizer_params=how)


@tf1_model("frozen saved_model checkpoint", prefix="slim", image=floats(None, 16, 16, 3))
def mobilenet_v1(image: Any) -> Any:
    with _scope(False):
        x = tf_slim.conv2d(image, 6, 3, 2, activation_fn=tf.nn.relu6)
        x = tf_slim.separable_conv2d(x, None, 3, 1, activation_fn=tf.nn.relu6)
        x = tf_slim.conv2d(x, 8, 1, activation_fn=tf.nn.relu6)
    x = tf_slim.avg_pool2d(x, [8, 8])
    x = tf_slim.conv2d(tf_slim.dropout(x, is_training=False), 5, 1, activation_fn=None, normalizer_fn=None)
    return {"y": tf.nn.softmax(tf.squeeze(x, [1, 2]))}


@tf1_model("frozen", prefix="slim", image=floats(None, 16, 16, 3))
def mobilenet_v2(image: Any) -> Any:
    with _scope(False):
        x = tf_slim.conv2d(image, 4, 3, 2, activation_fn=tf.nn.relu6)
        y = tf_slim.conv2d(x, 12, 1, activation_fn=tf.nn.relu6)
        y = tf_slim.separable_conv2d(y, None, 3, 1, activation_fn=tf.nn.relu6)
        x = x + tf_slim.conv2d(y, 4, 1, activation_fn=None)
    return {
        "y": tf_slim.fully_connected(tf.reduce_mean(x, [1, 2]), 5, activation_fn=None, normalizer_fn=None)
    }


@tf1_model("frozen", prefix="slim", image=floats(None, 16, 16, 3))
def inception(image: Any) -> Any:
    with _scope(False):
        a = tf_slim.conv2d(image, 3, 1)
        b = tf_slim.conv2d(tf_slim.conv2d(image, 3, [1, 5]), 3, [5, 1])
        c = tf_slim.conv2d(tf_slim.max_pool2d(image, 3, 1, padding="SAME"), 3, 1)
        x = tf_slim.conv2d(tf.concat([a, b, c], 3), 4, 3, 2, padding="VALID")
    x = tf_slim.flatten(tf_slim.avg_pool2d(x, 3, 2))
    return {"y": tf_slim.fully_connected(x, 5, activation_fn=tf.nn.softmax)}


@tf1_model("frozen", prefix="slim", image=floats(None, 16, 16, 3))
def resnet_v2(image: Any) -> Any:
    """Pre-activation: norms before the convolutions, which no convolution takes up."""

    def norm(x: Any, name: str) -> Any:
        with v1.variable_scope(name):
            return tf.nn.relu(_norm(x))

    x = tf_slim.conv2d(image, 6, 3, 2, activation_fn=None)
    y = tf_slim.conv2d(norm(x, "one"), 6, 3, activation_fn=None)
    x = x + tf_slim.conv2d(norm(y, "two"), 6, 3, activation_fn=None)
    return {"y": tf_slim.fully_connected(tf.reduce_mean(norm(x, "last"), [1, 2]), 5, activation_fn=None)}


@tf1_model("frozen checkpoint", prefix="slim", image=floats(None, 16, 16, 3))
def training_switch(image: Any) -> Any:
    """A placeholder says whether norms use the batch's statistics; frozen for inference by its default."""
    training = v1.placeholder_with_default(False, [], name="is_training")
    with _scope(training):
        x = tf_slim.conv2d(image, 6, 3, 2)
        x = tf_slim.conv2d(x, 4, 3)
    x = tf_slim.dropout(tf.reduce_mean(x, [1, 2]), is_training=training)
    return {"y": tf_slim.fully_connected(x, 3, activation_fn=None)}


@tf1_model("frozen", prefix="slim", image=floats(None, 12, 12, 3))
def unfused_norms(image: Any) -> Any:
    with _scope(False, fused=False):
        x = tf_slim.conv2d(tf_slim.conv2d(image, 4, 3), 5, 3, 2)
    return {"y": tf.reduce_max(x, [1, 2])}


@tf1_model("frozen", prefix="slim", image=floats(None, 16, 16, 3))
def vgg(image: Any) -> Any:
    x = tf_slim.repeat(image, 2, tf_slim.conv2d, 4, [3, 3], scope="conv1")
    x = tf_slim.flatten(tf_slim.max_pool2d(x, [2, 2]))
    return {"y": tf_slim.fully_connected(tf_slim.fully_connected(x, 8), 5, activation_fn=None)}


@tf1_model("frozen", prefix="slim", image=floats(None, 12, 12, 3))
def instance_norm(image: Any) -> Any:
    """Style transfer's norm and its upsampling."""
    x = tf_slim.instance_norm(tf_slim.conv2d(image, 4, 3, 2, activation_fn=None))
    x = v1.image.resize_nearest_neighbor(tf.nn.relu(x), [12, 12])
    return {"y": tf.tanh(tf_slim.conv2d(x, 3, 3, activation_fn=None))}


@tf1_model("frozen", prefix="slim", x=floats(None, 8))
def layer_norm(x: Any) -> Any:
    return {"y": tf_slim.layer_norm(tf_slim.fully_connected(x, 6, activation_fn=tf.tanh))}
