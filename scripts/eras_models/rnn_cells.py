"""TensorFlow 1's own recurrent networks: cells under dynamic_rnn, static_rnn and both directions."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cells
from tensorflow.python.ops import rnn

from scripts.eras_models.making import floats, ints, tf1_model, v1, weights


def _last(x: Any, units: int = 3) -> Any:
    return tf.nn.bias_add(tf.matmul(x, weights("last_w", int(x.shape[-1]), units)), weights("last_b", units))


@tf1_model("frozen saved_model checkpoint", x=floats(None, 6, 4))
def dynamic_rnn_lstm(x: Any) -> Any:
    y, state = rnn.dynamic_rnn(cells.BasicLSTMCell(5), x, dtype=tf.float32)
    return {"y": tf.nn.softmax(_last(y[:, -1])), "c": state.c}


@tf1_model("frozen", x=floats(None, 6, 4))
def dynamic_rnn_gru(x: Any) -> Any:
    y, _ = rnn.dynamic_rnn(cells.GRUCell(5), x, dtype=tf.float32)
    return {"y": _last(y[:, -1])}


@tf1_model("frozen", x=floats(None, 6, 4), lengths=ints(None, low=2, high=7))
def dynamic_rnn_lengths(x: Any, lengths: Any) -> Any:
    """Peepholes, a projection and sequences of several lengths."""
    cell = cells.LSTMCell(5, use_peepholes=True, num_proj=3)
    y, state = rnn.dynamic_rnn(cell, x, lengths, dtype=tf.float32)
    return {"y": y, "h": state.h}


@tf1_model("frozen", x=floats(None, 6, 4))
def dynamic_rnn_stacked(x: Any) -> Any:
    layers = cells.MultiRNNCell([cells.BasicLSTMCell(4), cells.DropoutWrapper(cells.GRUCell(3))])
    y, _ = rnn.dynamic_rnn(layers, x, dtype=tf.float32)
    return {"y": y}


@tf1_model("frozen", x=floats(None, None, 4))
def dynamic_rnn_open_time(x: Any) -> Any:
    y, _ = rnn.dynamic_rnn(cells.BasicRNNCell(5), x, dtype=tf.float32)
    return {"y": y}


@tf1_model("frozen", x=floats(None, 6, 4))
def bidirectional_dynamic_rnn(x: Any) -> Any:
    both, _ = rnn.bidirectional_dynamic_rnn(cells.GRUCell(3), cells.GRUCell(3), x, dtype=tf.float32)
    return {"y": tf.concat(both, 2)}


@tf1_model("frozen", x=floats(None, 5, 4))
def static_rnn(x: Any) -> Any:
    y, _ = rnn.static_rnn(cells.BasicLSTMCell(5), tf.unstack(x, axis=1), dtype=tf.float32)
    return {"y": _last(y[-1])}


@tf1_model("frozen", x=floats(6, None, 4))
def time_major(x: Any) -> Any:
    y, _ = rnn.dynamic_rnn(cells.BasicLSTMCell(5), x, dtype=tf.float32, time_major=True)
    return {"y": y}


@tf1_model("frozen", x=floats(1, 4), state=floats(1, 10))
def one_step(x: Any, state: Any) -> Any:
    """A cell whose state the app carries."""
    c, h = tf.split(state, 2, 1)
    with v1.variable_scope("cell"):
        y, new = cells.BasicLSTMCell(5)(x, cells.LSTMStateTuple(c, h))
    return {"y": _last(y), "new": tf.concat(new, 1)}


@tf1_model("frozen", x=floats(None, 30))
def keyword_lstm(x: Any) -> Any:
    """The speech tutorial's way: a flat fingerprint, reshaped."""
    y, _ = rnn.dynamic_rnn(cells.LSTMCell(5), tf.reshape(x, [-1, 6, 5]), dtype=tf.float32)
    return {"y": tf.nn.softmax(_last(y[:, -1]))}
