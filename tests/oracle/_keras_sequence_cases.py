"""Recurrent layers and attention of Keras with random configurations; see `_keras_cases`."""

from __future__ import annotations

from typing import Any

from tests.oracle._keras_cases import Case, Draw, case


def _rnn_options(d: Draw) -> dict[str, Any]:
    return {
        "return_sequences": d.flag(),
        "return_state": d.flag(),
        "go_backwards": d.flag(),
        "unroll": d.flag(),
        "use_bias": d.flag(),
        "activation": d.of("tanh", "relu", "sigmoid"),
        **({"time_major": False} if d.generation == 2 else {}),
    }


def _gates(d: Draw) -> dict[str, Any]:
    return {"recurrent_activation": d.of("sigmoid", "hard_sigmoid", "tanh")}


@case("SimpleRNN")
def simple_rnn(d: Draw) -> Case:
    return Case(d.layers.SimpleRNN(d.size(), **_rnn_options(d)), [d.sizes(2, 2, 5)])


@case("LSTM")
def lstm(d: Draw) -> Case:
    return Case(d.layers.LSTM(d.size(), **_rnn_options(d), **_gates(d)), [d.sizes(2, 2, 5)])


@case("GRU")
def gru(d: Draw) -> Case:
    layer = d.layers.GRU(d.size(), reset_after=d.flag(), **_rnn_options(d), **_gates(d))
    return Case(layer, [d.sizes(2, 2, 5)])


def _plain(d: Draw, kind: str, **options: Any) -> Any:
    return getattr(d.layers, kind)(d.size(), **options)


@case("Bidirectional")
def bidirectional(d: Draw) -> Case:
    kind = d.of("LSTM", "GRU", "SimpleRNN")
    inner = _plain(d, kind, return_sequences=d.flag(), return_state=d.flag())
    return Case(
        d.layers.Bidirectional(inner, merge_mode=d.of("concat", "sum", "ave", "mul")), [d.sizes(2, 2, 5)]
    )


@case("Bidirectional of two layers")
def bidirectional_of_two(d: Draw) -> Case:
    forward = d.layers.LSTM(4, return_sequences=True, go_backwards=False)
    backward = d.layers.GRU(4, return_sequences=True, go_backwards=True)
    return Case(d.layers.Bidirectional(forward, backward_layer=backward), [d.sizes(2, 2, 5)])


@case("RNN of cells")
def rnn_of_cells(d: Draw) -> Case:
    kinds = d.random.choices(["LSTMCell", "GRUCell", "SimpleRNNCell"], k=d.of(1, 2, 3))
    cells = [_plain(d, kind) for kind in kinds]
    layer = d.layers.RNN(
        cells[0] if len(cells) == 1 else cells, return_sequences=d.flag(), go_backwards=d.flag()
    )
    return Case(layer, [d.sizes(2, 2, 5)])


class _Masked:
    """A mask in front of a layer, as Masking and Embedding set it."""

    def __init__(self, d: Draw, inner: Any) -> None:
        self.front, self.inner = d.layers.Embedding(4, 3, mask_zero=True), inner

    def __call__(self, x: Any) -> Any:
        return self.inner(self.front(x))


@case("LSTM of masked steps")
def masked_lstm(d: Draw) -> Case:
    inner = _plain(d, d.of("LSTM", "GRU", "SimpleRNN"), return_sequences=d.flag(), go_backwards=d.flag())
    return Case(_Masked(d, inner), [(d.size(2, 6),)], integers=4)


@case("LSTM with zeros for masked steps")
def zeroed_lstm(d: Draw) -> Case:
    layer = d.layers.LSTM(3, return_sequences=d.flag(), zero_output_for_mask=True)
    return Case(_Masked(d, layer), [(d.size(2, 6),)], integers=4)


@case("Bidirectional of masked steps")
def masked_bidirectional(d: Draw) -> Case:
    inner = _plain(d, d.of("LSTM", "GRU"), return_sequences=d.flag())
    return Case(_Masked(d, d.layers.Bidirectional(inner)), [(d.size(2, 6),)], integers=4)


class _Handed:
    """States that one layer hands to the next, as encoder and decoder do."""

    def __init__(self, d: Draw) -> None:
        units = d.size()
        self.first = d.layers.LSTM(units, return_sequences=True, return_state=True)
        self.second = d.layers.LSTM(units, return_sequences=d.flag())

    def __call__(self, x: Any) -> Any:
        y, h, c = self.first(x)
        return self.second(y, initial_state=[h, c])


@case("LSTM with states of another")
def handed(d: Draw) -> Case:
    return Case(_Handed(d), [d.sizes(2, 2, 5)])


@case("TimeDistributed")
def time_distributed(d: Draw) -> Case:
    inner, rank = d.of((d.layers.Dense(3), 2), (d.layers.Conv2D(2, 3), 4), (d.layers.Flatten(), 3))
    return Case(d.layers.TimeDistributed(inner), [d.sizes(rank, 4, 6)])


@case("TimeDistributed LSTM")
def time_distributed_lstm(d: Draw) -> Case:
    return Case(d.layers.TimeDistributed(_plain(d, "LSTM", return_sequences=d.flag())), [d.sizes(3, 2, 4)])


@case("ConvLSTM2D")
def conv_lstm(d: Draw) -> Case:
    return _conv_lstm(d, 2)


@case("ConvLSTM1D")
def conv_lstm_1d(d: Draw) -> Case:
    return _conv_lstm(d, 1)


@case("ConvLSTM3D")
def conv_lstm_3d(d: Draw) -> Case:
    return _conv_lstm(d, 3)


def _conv_lstm(d: Draw, dims: int) -> Case:
    strides = d.of(1, 2)
    layer = getattr(d.layers, f"ConvLSTM{dims}D")(
        d.size(1, 3),
        d.size(1, 3),
        strides=strides,
        padding=d.of("valid", "same"),
        dilation_rate=d.of(1, 2) if strides == 1 else 1,
        return_sequences=d.flag(),
        return_state=d.flag(),
        use_bias=d.flag(),
        recurrent_activation=d.of("sigmoid", "hard_sigmoid"),
    )
    return Case(layer, [(d.size(2, 3), *d.sizes(dims, 5, 7), d.size(1, 3))])


# --- attention ----------------------------------------------------------------------------------------------


class _Called:
    """A layer called with several tensors by position."""

    def __init__(self, layer: Any, count: int, **kwargs: Any) -> None:
        self.layer, self.count, self.kwargs = layer, count, kwargs

    def __call__(self, xs: Any) -> Any:
        return self.layer(*xs[: self.count], **self.kwargs)


def _attended(d: Draw, layer: Any, size: int) -> Case:
    steps, count = d.size(2, 5), d.of(2, 3)
    kwargs: dict[str, Any] = {"use_causal_mask": d.flag(), "return_attention_scores": d.flag()}
    return Case(_Called(layer, count, **kwargs), [(d.size(2, 5), size), *[(steps, size + 1)] * (count - 1)])


@case("MultiHeadAttention")
def multi_head_attention(d: Draw) -> Case:
    new = {"use_gate": d.flag(), "sliding_window": d.of(None, 1, 2)} if d.generation == 3 else {}
    layer = d.layers.MultiHeadAttention(
        d.size(1, 3), d.size(), value_dim=d.of(None, 4), use_bias=d.flag(), output_shape=d.of(None, 5), **new
    )
    return _attended(d, layer, d.size(2, 5))


@case("GroupQueryAttention", (3,))
def grouped_query_attention(d: Draw) -> Case:
    new = {"use_gate": d.flag(), "sliding_window": d.of(None, 1, 2)}
    layer = d.layers.GroupQueryAttention(d.size(), 4, d.of(1, 2, 4), use_bias=d.flag(), **new)
    count = d.of(2, 3)
    kwargs = {"use_causal_mask": d.flag(), "return_attention_scores": d.flag()}
    steps = d.size(2, 5)
    return Case(_Called(layer, count, **kwargs), [(d.size(2, 5), 6), *[(steps, 6)] * (count - 1)])


class _Mixed:
    """An attention mask that is an input."""

    def __init__(self, d: Draw) -> None:
        self.front = d.layers.Embedding(2, 3)
        self.layer = d.layers.MultiHeadAttention(2, 3, dropout=d.of(0.0, 0.1))

    def __call__(self, xs: Any) -> Any:
        x, seen = xs
        x = self.front(x)
        return self.layer(x, x, attention_mask=seen)


@case("MultiHeadAttention with a mask")
def masked_attention(d: Draw) -> Case:
    steps = d.size(2, 4)
    return Case(_Mixed(d), [(steps,), (steps, steps)], integers=2)


class _SelfAttention(_Masked):
    def __call__(self, x: Any) -> Any:
        y = self.front(x)
        return self.inner(y, y)


@case("MultiHeadAttention of masked steps")
def attention_of_masked(d: Draw) -> Case:
    return Case(
        _SelfAttention(d, d.layers.MultiHeadAttention(2, 3, dropout=d.of(0.0, 0.1))),
        [(d.size(2, 6),)],
        integers=4,
    )


@case("Attention")
def attention(d: Draw) -> Case:
    layer = d.layers.Attention(use_scale=d.flag(), score_mode=d.of("dot", "concat"))
    return _listed(d, layer)


@case("AdditiveAttention")
def additive_attention(d: Draw) -> Case:
    return _listed(d, d.layers.AdditiveAttention(use_scale=d.flag()))


def _listed(d: Draw, layer: Any) -> Case:
    steps, size, count = d.size(2, 5), d.size(2, 5), d.of(2, 3)
    kwargs = {"use_causal_mask": d.flag(), "return_attention_scores": d.flag()}
    return Case(layer, [(d.size(2, 5), size), *[(steps, size)] * (count - 1)], kwargs=kwargs)
