"""Operators that TensorFlow's converter leaves of the shared models and of recurrent layers, beside ours."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from thinflow.formats import graphdef
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.lower.tflite.convert import Lowered, lower_graph
from thinflow.tflite.reader import read_program
from thinflow.tflite.runtime import interpreter
from thinflow.tflite.writer import to_bytes

Array = np.ndarray[Any, Any]
LAYERS = tf.keras.layers

SHARED = {
    "kws_DS_CNN_S": ("Mfcc", (1, 49, 10), "labels_softmax"),
    "kws_CNN_S": ("Mfcc", (1, 49, 10), "labels_softmax"),
    "kws_DNN_S": ("Mfcc", (1, 25, 10), "labels_softmax"),
    "autoencoder": ("X", (1, 784), "output"),
    "pose_v2s": ("image", (1, None, None, 3), "Openpose/concat_stage7"),
}
MOVING = ("TRANSPOSE", "PAD", "PADV2", "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "CAST", "SHAPE")

# layers, shape of the input
RECURRENT = {
    "lstm": (lambda: [LAYERS.LSTM(8)], (1, 6, 5)),
    "lstm_sequence": (lambda: [LAYERS.LSTM(64, return_sequences=True)], (2, 6, 5)),
    "lstm_stack": (lambda: [LAYERS.LSTM(8, return_sequences=True), LAYERS.LSTM(4)], (None, 6, 5)),
    "lstm_backwards": (lambda: [LAYERS.LSTM(8, go_backwards=True, return_sequences=True)], (2, 6, 5)),
    "lstm_without_bias": (lambda: [LAYERS.LSTM(8, use_bias=False)], (1, 6, 5)),
    "lstm_masked": (lambda: [LAYERS.Masking(), LAYERS.LSTM(8)], (None, 6, 5)),
    "lstm_both_ways": (lambda: [LAYERS.Bidirectional(LAYERS.LSTM(8, return_sequences=True))], (None, 6, 5)),
    "lstm_unrolled": (lambda: [LAYERS.LSTM(8, unroll=True)], (2, 6, 5)),
    "gru": (lambda: [LAYERS.GRU(8)], (None, 6, 5)),
    "gru_reset_before": (lambda: [LAYERS.GRU(8, reset_after=False, return_sequences=True)], (2, 6, 5)),
    "simple": (lambda: [LAYERS.SimpleRNN(8, return_sequences=True)], (None, 6, 5)),
    "cells": (lambda: [LAYERS.RNN([LAYERS.LSTMCell(8), LAYERS.GRUCell(6)])], (None, 6, 5)),
    "convolutional": (lambda: [LAYERS.ConvLSTM1D(4, 3)], (2, 5, 8, 3)),
}


def counts_of(content: bytes) -> Counter[str]:
    return Counter(o.code for s in read_program(content).subgraphs for o in s.operators)


def lowered(graph: Graph, fed: str, shape: tuple[int | None, ...], wanted: str, **options: str) -> Lowered:
    graph.inputs, graph.outputs = [graph.value(fed)], [graph.value(wanted)]
    graph.inputs[0].spec = TensorSpec(FLOAT, shape)
    return lower_graph(graph, graph.inputs, graph.outputs, **options)


@pytest.mark.parametrize("name", SHARED)
def test_nothing_more_is_left_of_shared_models(name: str, shared: Path) -> None:
    fed, shape, wanted = SHARED[name]
    path = shared / "models" / f"{name}.pb"
    message = tf.compat.v1.GraphDef.FromString(path.read_bytes())

    def imported(x: tf.Tensor) -> Any:
        return tf.graph_util.import_graph_def(message, {fed: x}, [f"{wanted}:0"], name="")

    function = tf.function(imported, autograph=False).get_concrete_function(tf.TensorSpec(shape, tf.float32))
    theirs = counts_of(tf.lite.TFLiteConverter.from_concrete_functions([function]).convert())
    ours = counts_of(to_bytes(lowered(graphdef.load(path), fed, shape, wanted).program))
    assert ours.total() <= theirs.total()
    more = {code: (ours[code], theirs[code]) for code in MOVING if ours[code] > theirs[code]}
    assert not more


@pytest.mark.parametrize("lowers_control_flow", [True, False])
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name: str, lowers_control_flow: bool) -> None:
    """The numbers of TensorFlow, in any form, for any size of the batch, run after run."""
    make, shape = RECURRENT[name]
    tf.keras.utils.set_random_seed(1)
    fed = tf.keras.Input(shape[1:], batch_size=shape[0])
    result = fed
    for layer in make():
        result = layer(result)
    model = tf.keras.Model(fed, result)
    for weight in model.weights:
        weight.assign(np.random.default_rng(0).normal(0, 0.4, weight.shape))
    call = tf.function(lambda x: model(x)).get_concrete_function(tf.TensorSpec(shape, tf.float32))
    frozen = convert_variables_to_constants_v2(call, lower_control_flow=lowers_control_flow)
    content = frozen.graph.as_graph_def().SerializeToString()
    names = frozen.inputs[0].op.name, frozen.outputs[0].op.name
    for form in ("auto", "fused", "loop"):
        found = lowered(graphdef.from_bytes(content), names[0], shape, names[1], recurrent=form)
        session = interpreter(model_content=to_bytes(found.program))
        for batch in [shape[0]] if shape[0] else [2, 1, 3]:
            x = np.random.default_rng(batch).normal(size=(batch, *shape[1:])).astype(np.float32)
            expected = call(x).numpy()
            session.resize_tensor_input(session.get_input_details()[0]["index"], x.shape)
            session.allocate_tensors()
            for _ in range(2):
                session.set_tensor(session.get_input_details()[0]["index"], x)
                session.invoke()
                actual = session.get_tensor(session.get_output_details()[0]["index"])
                np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
