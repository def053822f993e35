"""Networks whose speed rests on ops that the runtimes have, and what the peers make of them.

runtime_pairs.py FOLDER [PART OF A NAME]: for each network, NAME/ is a SavedModel, NAME.npz an input of a
batch of one, NAME_peer.onnx is made by tf2onnx and NAME_peer.tflite by TFLiteConverter. The names are
printed, and what a peer cannot convert is told.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf  # noqa: TID251

BOXES = 100
_fake = tf.quantization.fake_quant_with_min_max_args


class Network(tf.Module):
    """A function of x that holds variables.

    Attributes:
        shape: of x; None where a batch is open.
    """

    def __init__(
        self, shape: tuple[int | None, ...], make: Callable[[Network], Callable[[Any], Any]]
    ) -> None:
        super().__init__()
        self.shape, self._random = shape, np.random.default_rng(0)
        self.kept: list[tf.Variable] = []
        self.call = tf.function(make(self), input_signature=[tf.TensorSpec(shape, tf.float32, name="x")])

    def weights(self, *shape: int) -> tf.Variable:
        fan_in = int(np.prod(shape[:-1]))
        variable = tf.Variable((self._random.standard_normal(shape) / fan_in**0.5).astype(np.float32))
        self.kept.append(variable)
        return variable


def boxes_of(x: Any) -> tuple[Any, Any]:
    """Corners [n,4] and scores [n] of x [n,5] from 0 to 1."""
    return tf.concat([x[:, :2], x[:, :2] + 0.1 + 0.2 * x[:, 2:4]], 1), x[:, 4]


def padded(network: Network) -> Any:
    def call(x: Any) -> Any:
        kept, count = tf.image.non_max_suppression_padded(
            *boxes_of(x), 20, 0.4, 0.2, pad_to_max_output_size=True
        )
        return {"kept": kept, "count": count}

    return call


def soft(network: Network) -> Any:
    def call(x: Any) -> Any:
        kept, score = tf.image.non_max_suppression_with_scores(
            *boxes_of(x), 20, iou_threshold=1.0, score_threshold=0.1, soft_nms_sigma=0.5
        )
        return {"kept": kept, "score": score}

    return call


def by_class(network: Network) -> Any:
    def call(x: Any) -> Any:
        boxes, scores = boxes_of(x)
        every = tf.stack([scores, 1 - scores, tf.abs(scores - 0.5)], -1)
        found = tf.image.combined_non_max_suppression(boxes[None, :, None], every[None], 10, 20, 0.5, 0.3)
        return dict(zip(("boxes", "scores", "classes", "count"), found, strict=True))

    return call


def _trained(network: Network, fake_weights: Callable[[Any], Any]) -> Any:
    """Layers as the model optimization toolkit leaves them: FakeQuant around each."""
    kernels = [network.weights(3, 3, c, 16) for c in (3, 16, 16)]

    def call(x: Any) -> Any:
        x = _fake(x, -1.0, 1.0)
        for kernel in kernels:
            x = _fake(tf.nn.relu(tf.nn.conv2d(x, fake_weights(kernel), 1, "SAME")), 0.0, 2.0)
        return {"y": x}

    return call


def fake_quant_by_tensor(network: Network) -> Any:
    return _trained(network, lambda w: _fake(w, -0.5, 0.5))


def fake_quant_by_channel(network: Network) -> Any:
    by_channel = tf.quantization.fake_quant_with_min_max_vars_per_channel
    return _trained(network, lambda w: by_channel(w, [-0.6] * 16, [0.6] * 16, narrow_range=True))


def mixture_of_experts(network: Network) -> Any:
    gate, experts = network.weights(64, 4), network.weights(4, 64, 64)

    def call(x: Any) -> Any:
        score, which = tf.math.top_k(tf.nn.softmax(x @ gate), 2)
        chosen = tf.gather(tf.einsum("btd,edf->btef", x, experts), which, batch_dims=2)
        return {"y": tf.reduce_sum(chosen * score[..., None], 2), "load": tf.reduce_sum(score, [0, 1])}

    return call


FUNCTIONS: dict[str, tuple[tuple[int | None, ...], Callable[[Network], Any]]] = {
    "nms_padded": ((BOXES, 5), padded),
    "nms_soft": ((BOXES, 5), soft),
    "nms_by_class": ((BOXES, 5), by_class),
    "fake_quant_by_tensor": ((None, 32, 32, 3), fake_quant_by_tensor),
    "fake_quant_by_channel": ((None, 32, 32, 3), fake_quant_by_channel),
    "mixture_of_experts": ((None, 32, 64), mixture_of_experts),
}


def convnext(batch: int | None = None) -> keras.Model:
    k = keras.layers
    image = keras.Input((64, 64, 3), batch, name="x")
    x = k.LayerNormalization(epsilon=1e-6)(k.Conv2D(32, 4, 4)(image))
    for _ in range(2):
        y = k.LayerNormalization(epsilon=1e-6)(k.DepthwiseConv2D(7, padding="same")(x))
        x = k.Add()([x, k.Rescaling(0.3)(k.Dense(32)(k.Dense(128, "gelu")(y)))])
    x = k.LayerNormalization(epsilon=1e-6)(k.GlobalAveragePooling2D()(x))
    return keras.Model(image, k.Dense(10)(x))


def lstm(batch: int | None = None, inputs: int = 32, units: int = 64) -> keras.Model:
    return keras.Sequential([keras.Input((40, inputs), batch), keras.layers.LSTM(units)])


def small_lstm(batch: int | None = None) -> keras.Model:
    return lstm(batch, 4, 8)


MODELS = {"convnext": convnext, "lstm_open_batch": lstm, "lstm_small_open_batch": small_lstm}


def main() -> None:
    folder = Path(sys.argv[1])
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    for name in (n for n in (*FUNCTIONS, *MODELS) if part in n):
        keras.utils.set_random_seed(0)
        shape = made(name, folder / name)
        rows = [n or 1 for n in shape]
        np.savez(folder / f"{name}.npz", whole=np.random.default_rng(0).random(rows, np.float32))
        print(name)
        for problem in converted(folder / name):
            print(f"{name}: {problem}", file=sys.stderr)


def made(name: str, folder: Path) -> tuple[int | None, ...]:
    """Writes a SavedModel; the shape of what it reads."""
    if name in MODELS:
        model = MODELS[name]()
        model.export(str(folder), verbose=False)
        return tuple(model.input_shape)
    network = Network(*FUNCTIONS[name])
    tf.saved_model.save(network, str(folder), signatures=network.call)
    return network.shape


def converted(model: Path) -> list[str]:
    """Writes what the peers make of a SavedModel; what they could not."""
    problems = []
    command = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", str(model)]
    target = ["--opset", "17", "--output", f"{model}_peer.onnx"]
    if subprocess.run([*command, *target], capture_output=True, text=True, check=False).returncode:
        problems.append("tf2onnx failed")
    try:
        content = tf.lite.TFLiteConverter.from_saved_model(str(model)).convert()
        Path(f"{model}_peer.tflite").write_bytes(content)
    except Exception as error:  # whatever it is, the other networks go on
        problems.append(f"TFLiteConverter failed: {type(error).__name__}")
        if model.name in MODELS:  # an LSTM it takes with a fixed batch only
            content = tf.lite.TFLiteConverter.from_keras_model(MODELS[model.name](1)).convert()
            Path(f"{model}_peer.tflite").write_bytes(content)
    return problems


if __name__ == "__main__":
    main()
