"""Recurrent networks of Keras 2 and 3."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from scripts.eras_models.making import floats, ints, keras_model


@keras_model("k3 k2", x=floats(None, 7, 5))
def lstm(k: Any, x: Any) -> Any:
    return k.layers.Dense(3, "softmax")(k.layers.LSTM(6)(x))


@keras_model("k3 k2", x=floats(None, 7, 5))
def gru(k: Any, x: Any) -> Any:
    return k.layers.Dense(3, "softmax")(k.layers.GRU(6)(x))


@keras_model("k3 k2", x=floats(None, 7, 5))
def gru_reset_before(k: Any, x: Any) -> Any:
    return k.layers.Dense(3)(k.layers.GRU(6, reset_after=False)(x))


@keras_model("k3 k2", x=floats(None, 7, 5))
def simple_rnn(k: Any, x: Any) -> Any:
    return k.layers.SimpleRNN(6, return_sequences=True)(x)


@keras_model("k3", x=floats(None, None, 5, length=9))
def lstm_open_time(k: Any, x: Any) -> Any:
    return k.layers.Dense(4)(k.layers.LSTM(6, return_sequences=True)(x))


@keras_model("k3", x=floats(None, None, 5, length=9))
def gru_open_time(k: Any, x: Any) -> Any:
    return k.layers.Dense(4)(k.layers.GRU(6)(x))


@keras_model("k3 k2", x=floats(None, 7, 5))
def lstm_bidirectional(k: Any, x: Any) -> Any:
    y = k.layers.Bidirectional(k.layers.LSTM(4, return_sequences=True))(x)
    return k.layers.Dense(3)(k.layers.Bidirectional(k.layers.GRU(4))(y))


@keras_model("k3 k2", ids=ints(None, 8, high=12))
def lstm_masked(k: Any, ids: Any) -> Any:
    x = k.layers.Embedding(12, 5, mask_zero=True)(ids)
    return k.layers.Dense(3)(k.layers.LSTM(6)(x))


@keras_model("k3 k2", x=floats(None, 7, 5))
def lstm_stacked_cells(k: Any, x: Any) -> Any:
    cells = [k.layers.LSTMCell(4), k.layers.LSTMCell(3)]
    return k.layers.RNN(cells, return_sequences=True)(x)


@keras_model("k3", x=floats(None, 7, 5))
def gru_stacked(k: Any, x: Any) -> Any:
    y = k.layers.GRU(6, return_sequences=True)(x)
    return k.layers.Dense(2, "sigmoid")(k.layers.GRU(4)(y))


@keras_model("k3", x=floats(None, 7, 5))
def lstm_states(k: Any, x: Any) -> Any:
    y, h, c = k.layers.LSTM(4, return_sequences=True, return_state=True)(x)
    return [y, h, c]


@keras_model("k3", x=floats(None, 7, 5))
def lstm_backwards(k: Any, x: Any) -> Any:
    return k.layers.LSTM(4, go_backwards=True, return_sequences=True)(x)


@keras_model("k3", x=floats(None, 7, 5))
def lstm_unrolled(k: Any, x: Any) -> Any:
    return k.layers.Dense(2)(k.layers.LSTM(4, unroll=True)(x))


@keras_model("k3 k2", x=floats(2, 5, 4))
def lstm_stateful(k: Any, x: Any) -> Any:
    """It goes on from where the last call ended; each input here meets it fresh."""
    return k.layers.Dense(2)(k.layers.LSTM(3, stateful=True)(x))


@keras_model("k3", x=floats(1, 5, 4))
def gru_stateful(k: Any, x: Any) -> Any:
    return k.layers.GRU(3, stateful=True, return_sequences=True)(x)


@keras_model("k3", x=floats(None, 4, 6, 6, 2))
def conv_lstm(k: Any, x: Any) -> Any:
    y = k.layers.ConvLSTM2D(3, 3, padding="same")(x)
    return k.layers.GlobalAveragePooling2D()(y)


@keras_model("k3", x=floats(None, 6, 8, 8, 1))
def cnn_lstm(k: Any, x: Any) -> Any:
    y = k.layers.TimeDistributed(k.layers.Conv2D(3, 3, activation="relu"))(x)
    y = k.layers.TimeDistributed(k.layers.GlobalMaxPooling2D())(y)
    return k.layers.Dense(3, "softmax")(k.layers.LSTM(5)(y))


@keras_model("k3", source=ints(None, 5, high=9), target=ints(None, 4, high=9))
def sequence_to_sequence(k: Any, source: Any, target: Any) -> Any:
    seen, h, c = k.layers.LSTM(6, return_sequences=True, return_state=True)(k.layers.Embedding(9, 4)(source))
    y = k.layers.LSTM(6, return_sequences=True)(k.layers.Embedding(9, 4)(target), initial_state=[h, c])
    y = k.layers.Concatenate()([y, k.layers.Attention()([y, seen])])
    return k.layers.Dense(9, "softmax")(y)


@keras_model("k3", x=floats(None, 12, 4))
def ctc_speech(k: Any, x: Any) -> Any:
    """Convolution, two bidirectional layers, log probabilities for each step."""
    y = k.layers.Conv1D(6, 3, strides=2, padding="same", activation="relu")(x)
    y = k.layers.Bidirectional(k.layers.GRU(5, return_sequences=True))(y)
    return k.layers.Activation("log_softmax")(k.layers.Dense(8)(y))


@keras_model("k2", x=floats(None, 7, 5))
def lstm_dropout(k: Any, x: Any) -> Any:
    y = k.layers.LSTM(6, dropout=0.3, recurrent_dropout=0.2, return_sequences=True)(x)
    return k.layers.Dropout(0.5)(k.layers.LSTM(3)(y))


@keras_model("k2", x=floats(None, 7, 5))
def masking_layer(k: Any, x: Any) -> Any:
    y = k.layers.Masking(mask_value=0.0)(k.layers.Lambda(lambda t: tf.nn.relu(t - 0.9))(x))
    return k.layers.GRU(4)(y)


@keras_model("k3", x=floats(None, 4, 5), mask=ints(None, 4, high=2))
def explicit_mask(k: Any, x: Any, mask: Any) -> Any:
    seen = k.layers.Lambda(lambda m: tf.cast(m, tf.bool), output_shape=(4,))(mask)
    return k.layers.LSTM(3)(x, mask=seen)
