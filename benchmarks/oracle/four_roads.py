"""One network by several roads: four_roads.py FOLDER.

Writes Keras's MobileNetV2 with random weights and settled batch norms as net.pb (frozen), net.h5, net.keras,
net.tflite (TFLiteConverter) and, where tf2onnx is installed, net.onnx. What could not be written is told in a
line on stdout.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf  # noqa: TID251
from tensorflow.python.framework.convert_to_constants import (  # noqa: TID251
    convert_variables_to_constants_v2,
)

SIDE = 96


def main() -> None:
    folder = Path(sys.argv[1])
    net = _network()
    net.save(folder / "net.h5")
    net.save(folder / "net.keras")
    spec = tf.TensorSpec((1, SIDE, SIDE, 3), tf.float32, name="picture")
    concrete = tf.function(lambda picture: tf.identity(net(picture, training=False), name="logits"))
    frozen = convert_variables_to_constants_v2(concrete.get_concrete_function(spec))
    graph = frozen.graph.as_graph_def()
    (folder / "net.pb").write_bytes(graph.SerializeToString())
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen], net)
    (folder / "net.tflite").write_bytes(converter.convert())
    try:
        import tf2onnx
    except ImportError:
        print("net.onnx: tf2onnx is not installed")
        return
    tf2onnx.convert.from_graph_def(
        graph,
        input_names=["picture:0"],
        output_names=[frozen.outputs[0].name],
        opset=17,
        output_path=str(folder / "net.onnx"),
        inputs_as_nchw=["picture:0"],
    )


def _network() -> tf.keras.Model:
    tf.keras.utils.set_random_seed(1)
    net = tf.keras.applications.MobileNetV2(
        (SIDE, SIDE, 3), alpha=0.35, weights=None, classes=10, classifier_activation=None
    )
    rng = np.random.default_rng(1)
    for layer in net.layers:
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            layer.momentum = 0.5
            gamma, beta = (rng.uniform(0.5, 1.5, w.shape) for w in layer.weights[:2])
            layer.set_weights([gamma, beta - 1, *(w.numpy() for w in layer.weights[2:])])
    # Statistics of pictures like those that it is fed later.
    for _ in range(8):
        net(rng.uniform(-1, 1, (16, SIDE, SIDE, 3)).astype(np.float32), training=True)
    return net


if __name__ == "__main__":
    main()
