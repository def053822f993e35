"""Trains the small digits network that ships with thinflow, in numpy alone, and writes a frozen GraphDef.

    pip install thinflow scikit-learn
    python examples/train_digits.py OUT_FOLDER

scikit-learn only provides its bundled data set: 1797 handwritten digits, 8x8 pixels, values 0..16. 400 of
them are held out. OUT_FOLDER gets digits.pb, and digits_test.npz with the held-out images, their labels, and
some training images to calibrate with. The graph keeps what a training run leaves behind: batch norms,
dropout, nodes of the saver.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import thinflow
from thinflow.formats import save
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Versions
from thinflow.ir.types import FLOAT, INT32

Array = np.ndarray[Any, Any]

EPOCHS, BATCH, RATE = 40, 32, 2e-3
KEEP_PROB, EPSILON, MOMENTUM = 0.5, 1e-3, 0.95
TEST_IMAGES, CALIBRATION_IMAGES = 400, 200


class Layer:
    """y = forward(x); backward turns dL/dy into dL/dx and fills `gradients`, named as the `weights`."""

    def __init__(self, **weights: Array) -> None:
        self.weights = weights
        self.gradients: dict[str, Array] = {}

    def forward(self, x: Array, training: bool) -> Array:
        raise NotImplementedError

    def backward(self, dy: Array) -> Array:
        raise NotImplementedError


class Conv(Layer):
    """3x3 or 1x1, stride 1, SAME. weights [kh,kw,c,k]"""

    def forward(self, x: Array, training: bool) -> Array:
        w = self.weights["weights"]
        self.patches = patches(x, w.shape[0])
        return np.tensordot(self.patches, w, 3)

    def backward(self, dy: Array) -> Array:
        w = self.weights["weights"]
        self.gradients["weights"] = np.tensordot(self.patches, dy, ((0, 1, 2), (0, 1, 2)))
        return np.tensordot(patches(dy, w.shape[0]), w[::-1, ::-1], ((3, 4, 5), (0, 1, 3)))


class Depthwise(Layer):
    """3x3 on every channel by itself, stride 1, SAME. depthwise_weights [3,3,c,1]"""

    def forward(self, x: Array, training: bool) -> Array:
        self.patches = patches(x, 3)
        return np.einsum("nhwijc,ijc->nhwc", self.patches, self.weights["depthwise_weights"][..., 0])

    def backward(self, dy: Array) -> Array:
        self.gradients["depthwise_weights"] = np.einsum("nhwijc,nhwc->ijc", self.patches, dy)[..., None]
        return np.einsum(
            "nhwijc,ijc->nhwc", patches(dy, 3), self.weights["depthwise_weights"][::-1, ::-1, :, 0]
        )


class Dense(Layer):
    """x [n,...] flattened times weights [c,k], plus biases [k]."""

    def forward(self, x: Array, training: bool) -> Array:
        self.shape, self.x = x.shape, x.reshape(len(x), -1)
        return self.x @ self.weights["weights"] + self.weights["biases"]

    def backward(self, dy: Array) -> Array:
        self.gradients = {"weights": self.x.T @ dy, "biases": dy.sum(0)}
        return (dy @ self.weights["weights"].T).reshape(self.shape)


class BatchNorm(Layer):
    """Ioffe and Szegedy 2015; moving averages serve when not training."""

    def __init__(self, channels: int) -> None:
        super().__init__(gamma=np.ones(channels, np.float32), beta=np.zeros(channels, np.float32))
        self.mean, self.variance = np.zeros(channels, np.float32), np.ones(channels, np.float32)

    def forward(self, x: Array, training: bool) -> Array:
        mean, variance = self.mean, self.variance
        if training:
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
            self.mean = MOMENTUM * self.mean + (1 - MOMENTUM) * mean
            self.variance = MOMENTUM * self.variance + (1 - MOMENTUM) * variance
        self.scale = 1 / np.sqrt(variance + EPSILON)
        self.normal = (x - mean) * self.scale
        return self.normal * self.weights["gamma"] + self.weights["beta"]

    def backward(self, dy: Array) -> Array:
        axes = (0, 1, 2)
        self.gradients = {"gamma": (dy * self.normal).sum(axes), "beta": dy.sum(axes)}
        centred = dy - dy.mean(axes) - self.normal * (dy * self.normal).mean(axes)
        return centred * self.scale * self.weights["gamma"]


class Relu(Layer):
    def forward(self, x: Array, training: bool) -> Array:
        self.positive = x > 0
        return x * self.positive

    def backward(self, dy: Array) -> Array:
        return dy * self.positive


class MaxPool(Layer):
    """2x2, stride 2."""

    def forward(self, x: Array, training: bool) -> Array:
        n, h, w, c = x.shape
        blocks = x.reshape(n, h // 2, 2, w // 2, 2, c)
        y = blocks.max((2, 4), keepdims=True)
        self.winners = blocks == y
        self.winners = self.winners / self.winners.sum((2, 4), keepdims=True)
        return y.reshape(n, h // 2, w // 2, c)

    def backward(self, dy: Array) -> Array:
        n, h, w, c = dy.shape
        return (self.winners * dy[:, :, None, :, None]).reshape(n, 2 * h, 2 * w, c).astype(np.float32)


class Dropout(Layer):
    """Zeroes features at random while training, and scales the others up."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self.rng = rng

    def forward(self, x: Array, training: bool) -> Array:
        kept = self.rng.random(x.shape) < KEEP_PROB
        self.mask = (kept / KEEP_PROB).astype(np.float32) if training else np.ones_like(x)
        return x * self.mask

    def backward(self, dy: Array) -> Array:
        return dy * self.mask


def patches(x: Array, size: int) -> Array:
    """The size x size neighbourhood of every pixel: [n,h,w,size,size,c], zeros outside."""
    edge = size // 2
    padded = np.pad(x, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (1, 2))
    return views.transpose(0, 1, 2, 4, 5, 3)


def network(rng: np.random.Generator) -> dict[str, Layer]:
    """The untrained layers by scope, in order."""

    def he(*shape: int, fan_in: int) -> Array:
        return np.float32(np.sqrt(2 / fan_in)) * rng.standard_normal(shape, np.float32)

    def zeros(k: int) -> Array:
        return np.zeros(k, np.float32)

    return {
        "conv1": Conv(weights=he(3, 3, 1, 16, fan_in=9)),
        "conv1/BatchNorm": BatchNorm(16),
        "conv1/Relu": Relu(),
        "conv2_depthwise": Depthwise(depthwise_weights=he(3, 3, 16, 1, fan_in=9)),
        "conv2_depthwise/BatchNorm": BatchNorm(16),
        "conv2_depthwise/Relu": Relu(),
        "conv2_pointwise": Conv(weights=he(1, 1, 16, 32, fan_in=16)),
        "conv2_pointwise/BatchNorm": BatchNorm(32),
        "conv2_pointwise/Relu": Relu(),
        "pool": MaxPool(),
        "conv3": Conv(weights=he(3, 3, 32, 32, fan_in=288)),
        "conv3/BatchNorm": BatchNorm(32),
        "conv3/Relu": Relu(),
        "fc1": Dense(weights=he(512, 64, fan_in=512), biases=zeros(64)),
        "fc1/Relu": Relu(),
        "dropout": Dropout(rng),
        "logits": Dense(weights=he(64, 10, fan_in=64), biases=zeros(10)),
    }


def predict(layers: dict[str, Layer], images: Array, training: bool = False) -> Array:
    """Scores [n,10] of images [n,8,8,1], values 0..16."""
    x = images.astype(np.float32) / 16
    for layer in layers.values():
        x = layer.forward(x, training)
    return x


def train(layers: dict[str, Layer], images: Array, labels: Array, rng: np.random.Generator) -> None:
    """Adam on the cross entropy, the step size falling along a cosine."""
    steps = EPOCHS * (len(images) // BATCH)
    moments: dict[tuple[str, str], tuple[Array, Array]] = {}
    for step, batch in enumerate(batches(len(images), rng), 1):
        scores = predict(layers, images[batch], training=True)
        probabilities = np.exp(scores - scores.max(1, keepdims=True))
        probabilities /= probabilities.sum(1, keepdims=True)
        gradient = (probabilities - np.eye(10, dtype=np.float32)[labels[batch]]) / len(batch)
        for layer in reversed(layers.values()):
            gradient = layer.backward(gradient)
        rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
        for scope, layer in layers.items():
            for name, slope in layer.gradients.items():
                first, second = moments.get((scope, name), (np.zeros_like(slope), np.zeros_like(slope)))
                first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
                moments[scope, name] = first, second
                change = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
                layer.weights[name] = (layer.weights[name] - rate * change).astype(np.float32)


def batches(count: int, rng: np.random.Generator) -> Iterator[Array]:
    """Indices of every batch of the training."""
    for _ in range(EPOCHS):
        order = rng.permutation(count)
        yield from (order[i : i + BATCH] for i in range(0, count - BATCH + 1, BATCH))


class Writer:
    """Adds the frozen layers to a graph, under the names TensorFlow 1 would have given."""

    def __init__(self) -> None:
        self.graph = thinflow.Graph()
        self.graph.versions = Versions(producer=134, min_consumer=12)

    def op(self, op: str, name: str, *inputs: thinflow.Value, **attrs: Any) -> thinflow.Value:
        return self.graph.add(op, inputs, name, attrs=attrs).output()

    def const(self, name: str, content: Any) -> thinflow.Value:
        return self.graph.constant(np.asarray(content), name)

    def read(self, name: str, content: Array) -> thinflow.Value:
        value = self.const(name, content.astype(np.float32))
        return self.op("Identity", f"{name}/read", value, T=FLOAT)

    def layer(self, x: thinflow.Value, scope: str, layer: Layer) -> thinflow.Value:
        weights = {name: self.read(f"{scope}/{name}", w) for name, w in layer.weights.items()}
        windows = {"T": FLOAT, "strides": (1, 1, 1, 1), "padding": b"SAME", "data_format": b"NHWC"}
        if isinstance(layer, Conv):
            return self.op("Conv2D", f"{scope}/Conv2D", x, weights["weights"], **windows)
        if isinstance(layer, Depthwise):
            return self.op(
                "DepthwiseConv2dNative", f"{scope}/depthwise", x, weights["depthwise_weights"], **windows
            )
        if isinstance(layer, BatchNorm):
            mean = self.read(f"{scope}/moving_mean", layer.mean)
            variance = self.read(f"{scope}/moving_variance", layer.variance)
            attrs = {"T": FLOAT, "U": FLOAT, "data_format": b"NHWC", "epsilon": EPSILON, "is_training": False}
            inputs = (x, weights["gamma"], weights["beta"], mean, variance)
            return self.op("FusedBatchNormV3", f"{scope}/FusedBatchNormV3", *inputs, **attrs)
        if isinstance(layer, MaxPool):
            windows |= {"strides": (1, 2, 2, 1), "ksize": (1, 2, 2, 1), "padding": b"VALID"}
            return self.op("MaxPool", f"{scope}/MaxPool", x, **windows)
        if isinstance(layer, Dense):
            if x.node.op == "Relu" and len(layer.shape) == 4:
                shape = self.const("flatten/Reshape/shape", np.array([-1, layer.x.shape[1]], np.int32))
                x = self.op("Reshape", "flatten/Reshape", x, shape, T=FLOAT, Tshape=INT32)
            y = self.op("MatMul", f"{scope}/MatMul", x, weights["weights"], T=FLOAT)
            return self.op("BiasAdd", f"{scope}/BiasAdd", y, weights["biases"], T=FLOAT, data_format=b"NHWC")
        if isinstance(layer, Dropout):
            return self.dropout(x, scope)
        return self.op("Relu", scope, x, T=FLOAT)

    def dropout(self, x: thinflow.Value, scope: str) -> thinflow.Value:
        """x / keep_prob * floor(keep_prob + uniform), frozen with a keep_prob of 1: it does nothing."""
        uniform = f"{scope}/random_uniform"
        keep_prob = self.const(f"{scope}/keep_prob", np.float32(1))
        shape = self.op("Shape", f"{scope}/Shape", x, T=FLOAT, out_type=INT32)
        low = self.const(f"{uniform}/min", np.float32(0))
        high = self.const(f"{uniform}/max", np.float32(1))
        noise = self.op(
            "RandomUniform", f"{uniform}/RandomUniform", shape, T=INT32, dtype=FLOAT, seed=0, seed2=0
        )
        width = self.op("Sub", f"{uniform}/sub", high, low, T=FLOAT)
        scaled = self.op("Mul", f"{uniform}/mul", noise, width, T=FLOAT)
        noise = self.op("Add", uniform, scaled, low, T=FLOAT)
        total = self.op("Add", f"{scope}/add", keep_prob, noise, T=FLOAT)
        mask = self.op("Floor", f"{scope}/Floor", total, T=FLOAT)
        grown = self.op("RealDiv", f"{scope}/div", x, keep_prob, T=FLOAT)
        return self.op("Mul", f"{scope}/mul", grown, mask, T=FLOAT)

    def leftovers(self, names: list[str], steps: int) -> None:
        """What a training run leaves in a file: the step count and half a saver."""
        self.const("global_step", np.int64(steps))
        self.const("save/Const", b"model")
        self.graph.add("NoOp", name="save/restore_all")
        self.const("save/SaveV2/tensor_names", np.array([n.encode() for n in names], object))
        self.graph.add("NoOp", name="init")


def write_graph(layers: dict[str, Layer], steps: int, path: Path) -> None:
    """The frozen network as a GraphDef: `image` [?,8,8,1] in 0..16 -> `probabilities` [?,10]."""
    writer = Writer()
    image = writer.op("Placeholder", "image", dtype=FLOAT, shape=ShapeAttr((None, 8, 8, 1)))
    x = writer.op("Mul", "scale/mul", image, writer.const("scale/mul/y", np.float32(1 / 16)), T=FLOAT)
    for scope, layer in layers.items():
        x = writer.layer(x, scope, layer)
    x = writer.op("Softmax", "probabilities", x, T=FLOAT)
    writer.leftovers([f"{scope}/{name}" for scope, layer in layers.items() for name in layer.weights], steps)
    writer.graph.inputs, writer.graph.outputs = [image], [x]
    save(writer.graph, path)


def main(folder: Path) -> None:
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = digits.images[..., None].astype(np.uint8)
    labels = digits.target.astype(np.int64)
    rng = np.random.Generator(np.random.PCG64(0))
    order = rng.permutation(len(images))
    held_out, kept = order[:TEST_IMAGES], order[TEST_IMAGES:]
    layers = network(rng)
    train(layers, images[kept], labels[kept], rng)
    for name, part in (("training", kept), ("held-out", held_out)):
        right = (predict(layers, images[part]).argmax(1) == labels[part]).sum()
        print(f"{name}: {right} of {len(part)} right, {right / len(part):.2%}")
    write_graph(layers, EPOCHS * (len(kept) // BATCH), folder / "digits.pb")
    calibration = kept[:CALIBRATION_IMAGES]
    np.savez_compressed(
        folder / "digits_test.npz",
        images=images[held_out],
        labels=labels[held_out].astype(np.uint8),
        calibration_images=images[calibration],
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
