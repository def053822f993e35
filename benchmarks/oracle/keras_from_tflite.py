"""Keras models again from the weights of eight-bit .tflite files: keras_from_tflite.py FOLDER IN.tflite ...

FOLDER/IN.h5 is the model, with batch norms as it was trained with; IN.pb its frozen GraphDef, IN.tflite what
TFLiteConverter makes of it, and IN.npz inputs `x` and Keras's answers `y`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf  # noqa: TID251
from tensorflow.lite.python import schema_py_generated as schema  # noqa: TID251
from tensorflow.python.framework.convert_to_constants import (  # noqa: TID251
    convert_variables_to_constants_v2,
)

keras = tf.keras
OPS = {value: name for name, value in vars(schema.BuiltinOperator).items() if not name.startswith("_")}
PADDING = {schema.Padding.SAME: "same", schema.Padding.VALID: "valid"}
ROWS = 32


class Rebuilt:
    """A Keras model while operators of a file are added to it.

    Attributes:
        values: Keras's tensors, by the number of the file's.
    """

    def __init__(self, content: bytes) -> None:
        self.model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content))
        (self.graph,) = self.model.subgraphs
        self.rng = np.random.default_rng(0)
        (first,) = self.graph.inputs
        self.input = keras.Input(shape=tuple(self.graph.tensors[first].shape[1:]))
        self.values: dict[int, Any] = {first: self.input}

    def network(self) -> Any:
        for operator in self.graph.operators:
            code = self.model.operatorCodes[operator.opcodeIndex]
            name = OPS[max(code.builtinCode, code.deprecatedBuiltinCode)]
            self.values[operator.outputs[0]] = RULES[name](self, operator, operator.builtinOptions)
        return keras.Model(self.input, self.values[self.graph.outputs[0]])

    def weights(self, number: int) -> np.ndarray:
        """A constant as real numbers."""
        tensor = self.graph.tensors[number]
        kind = {schema.TensorType.INT8: np.int8, schema.TensorType.INT32: np.int32}[tensor.type]
        codes = np.asarray(self.model.buffers[tensor.buffer].data).view(kind).reshape(tensor.shape)
        shape = [1] * codes.ndim
        shape[tensor.quantization.quantizedDimension if codes.ndim > 1 else 0] = -1
        return (codes * np.reshape(tensor.quantization.scale, shape)).astype(np.float32)

    def layer(self, x: Any, layer: Any, kernel: np.ndarray, bias: np.ndarray, activation: int) -> Any:
        """The layer, and a batch norm that gives back what is taken from its weights."""
        y = layer(x)
        if activation == schema.ActivationFunctionType.NONE:
            layer.set_weights([kernel, bias])
            return y
        assert activation == schema.ActivationFunctionType.RELU
        gamma, variance = self.rng.uniform(0.5, 2, (2, bias.size))
        beta, mean = 0.1 * self.rng.standard_normal((2, bias.size))
        norm = keras.layers.BatchNormalization()
        y = norm(y)
        factor = gamma / np.sqrt(variance + norm.epsilon)
        # Of a depthwise kernel the last two axes count the channels.
        is_depthwise = isinstance(layer, keras.layers.DepthwiseConv2D)
        by_channel = factor.reshape(kernel.shape[-2:] if is_depthwise else -1)
        layer.set_weights([kernel / by_channel, (bias - beta) / factor + mean])
        norm.set_weights([gamma, beta, mean, variance])
        return keras.layers.ReLU()(y)


def convolution(r: Rebuilt, operator: Any, options: Any) -> Any:
    x, kernel, bias = operator.inputs
    w = r.weights(kernel).transpose(1, 2, 3, 0)
    strides, padding = (options.strideH, options.strideW), PADDING[options.padding]
    layer = keras.layers.Conv2D(w.shape[3], w.shape[:2], strides, padding)
    return r.layer(r.values[x], layer, w, r.weights(bias), options.fusedActivationFunction)


def depthwise(r: Rebuilt, operator: Any, options: Any) -> Any:
    x, kernel, bias = operator.inputs
    w = r.weights(kernel)[0]
    channels = r.values[x].shape[-1]
    w = w.reshape(*w.shape[:2], channels, options.depthMultiplier)
    strides, padding = (options.strideH, options.strideW), PADDING[options.padding]
    layer = keras.layers.DepthwiseConv2D(w.shape[:2], strides, padding, options.depthMultiplier)
    return r.layer(r.values[x], layer, w, r.weights(bias), options.fusedActivationFunction)


def dense(r: Rebuilt, operator: Any, options: Any) -> Any:
    x, kernel, bias = operator.inputs
    w = r.weights(kernel).T
    return r.layer(
        r.values[x], keras.layers.Dense(w.shape[1]), w, r.weights(bias), options.fusedActivationFunction
    )


def pool(r: Rebuilt, operator: Any, options: Any) -> Any:
    sizes, strides = (options.filterHeight, options.filterWidth), (options.strideH, options.strideW)
    return keras.layers.AveragePooling2D(sizes, strides, PADDING[options.padding])(
        r.values[operator.inputs[0]]
    )


def reshape(r: Rebuilt, operator: Any, options: Any) -> Any:
    shape = r.graph.tensors[operator.outputs[0]].shape[1:]
    return keras.layers.Reshape([int(size) for size in shape])(r.values[operator.inputs[0]])


def add(r: Rebuilt, operator: Any, options: Any) -> Any:
    y = keras.layers.Add()([r.values[number] for number in operator.inputs])
    bent = options.fusedActivationFunction == schema.ActivationFunctionType.RELU
    return keras.layers.ReLU()(y) if bent else y


def softmax(r: Rebuilt, operator: Any, options: Any) -> Any:
    return keras.layers.Softmax()(r.values[operator.inputs[0]])


RULES: dict[str, Callable[[Rebuilt, Any, Any], Any]] = {
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": depthwise,
    "FULLY_CONNECTED": dense,
    "AVERAGE_POOL_2D": pool,
    "RESHAPE": reshape,
    "ADD": add,
    "SOFTMAX": softmax,
}


def rebuild(source: Path, target: Path) -> None:
    rebuilt = Rebuilt(source.read_bytes())
    model = rebuilt.network()
    model.save(target.with_suffix(".h5"))
    shape = [1, *model.inputs[0].shape[1:]]
    function = tf.function(lambda x: model(x, training=False))
    concrete = function.get_concrete_function(tf.TensorSpec(shape, tf.float32))
    frozen = convert_variables_to_constants_v2(concrete).graph.as_graph_def()
    target.with_suffix(".pb").write_bytes(frozen.SerializeToString())
    target.with_suffix(".tflite").write_bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())
    (number,) = rebuilt.graph.inputs
    grid = rebuilt.graph.tensors[number].quantization
    # Where the file's own inputs lie: in the middle of what its codes can say.
    codes = np.random.default_rng(1).normal(0, 40, (ROWS, *shape[1:])).clip(-128, 127)
    x = ((codes - grid.zeroPoint[0]) * grid.scale[0]).astype(np.float32)
    np.savez(target.with_suffix(".npz"), x=x, y=model(x, training=False).numpy())


def main() -> None:
    folder, *sources = map(Path, sys.argv[1:])
    for source in sources:
        rebuild(source, folder / source.stem)


main()
