"""Recurrent Keras networks and what the peers make of them: recurrent_pairs.py FOLDER.

For each network, NAME/ is a SavedModel, NAME_peer.onnx is made by tf2onnx and NAME_peer.tflite by
TFLiteConverter; feeds.npz is an input for all. The names are printed, and what a peer cannot convert is told.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf  # noqa: TID251

STEPS, INPUTS, UNITS = 40, 32, 64
layers = keras.layers
NETWORKS = {
    "lstm": lambda: [layers.LSTM(UNITS)],
    "lstm_of_all_steps": lambda: [layers.LSTM(UNITS, return_sequences=True), layers.Dense(8)],
    "lstm_stacked": lambda: [layers.LSTM(UNITS, return_sequences=True), layers.LSTM(UNITS)],
    "lstm_bidirectional": lambda: [layers.Bidirectional(layers.LSTM(UNITS, return_sequences=True))],
    "lstm_masked": lambda: [layers.Masking(), layers.LSTM(UNITS)],
    "gru": lambda: [layers.GRU(UNITS)],
    "gru_reset_before": lambda: [layers.GRU(UNITS, reset_after=False)],
    "rnn": lambda: [layers.SimpleRNN(UNITS, return_sequences=True)],
}


def main() -> None:
    folder = Path(sys.argv[1])
    shape = (STEPS, INPUTS)
    np.savez(folder / "feeds.npz", x=np.random.default_rng(0).standard_normal((1, *shape)).astype(np.float32))
    for name, make in NETWORKS.items():
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input(shape, batch_size=1), *make()])
        model.export(str(folder / name), verbose=False)
        print(name)
        command = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", str(folder / name)]
        target = ["--opset", "17", "--output", str(folder / f"{name}_peer.onnx")]
        done = subprocess.run([*command, *target], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name}: tf2onnx failed", file=sys.stderr)
        try:
            content = tf.lite.TFLiteConverter.from_keras_model(model).convert()
            (folder / f"{name}_peer.tflite").write_bytes(content)
        except Exception as error:  # whatever it is, the other networks go on
            print(f"{name}: TFLiteConverter failed: {type(error).__name__}", file=sys.stderr)


if __name__ == "__main__":
    main()
