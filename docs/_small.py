"""Writes small graphs that pages ask questions about: each is one habit of real networks.

python docs/_small.py NAME...
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import thinflow
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32, INT64

RNG = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray[Any, Any]:
    """Random ones of the size that keeps values as they are."""
    return RNG.normal(0, np.prod(shape[:-1]) ** -0.5, shape).astype(np.float32)


class Small(thinflow.Graph):
    """A graph of floats with one input."""

    def __init__(self, name: str, *shape: int, kind: Any = FLOAT) -> None:
        super().__init__()
        placeholder = {"dtype": kind, "shape": ShapeAttr(shape)}
        self.inputs = [self.add("Placeholder", name=name, attrs=placeholder).output()]

    def put(self, op: str, name: str, *inputs: Value, **attrs: Any) -> Value:
        """The first result of a new node."""
        return self.add(op, inputs, name, attrs={"T": FLOAT, **attrs}).output()

    def write(self, path: str, *outputs: Value) -> None:
        """Save it with these outputs."""
        self.outputs = list(outputs)
        thinflow.save(self, path)


def speech() -> None:
    """A recognizer that decodes its letters itself."""
    g = Small("frames", 50, 1, 40)
    flat = g.put("Reshape", "flat", g.inputs[0], g.constant(np.array([50, 40], np.int32), "flat/shape"))
    hidden = g.put("Relu", "hidden", g.put("MatMul", "first", flat, g.constant(weights(40, 64), "w1")))
    letters = g.put("MatMul", "letters", hidden, g.constant(weights(64, 29), "w2"))
    shape = g.constant(np.array([50, 1, 29], np.int32), "steps")
    logits = g.put("Reshape", "logits", letters, shape)
    length = g.constant(np.array([50], np.int32), "length")
    read = g.add("CTCGreedyDecoder", [logits, length], "decoded", attrs={"T": FLOAT, "merge_repeated": True})
    g.write("speech.pb", g.put("Identity", "text", read.output(1), T=INT64))


def tied() -> None:
    """A language model whose last layer is its embedding, read the other way round."""
    g = Small("words", 1, 8, kind=INT32)
    table = g.constant(weights(4000, 64), "embedding")
    axis = g.constant(np.int32(0), "axis")
    kinds = {"Tparams": FLOAT, "Tindices": INT32, "Taxis": INT32}
    seen = g.add("GatherV2", [table, g.inputs[0], axis], "seen", attrs=kinds).output()
    mean = g.put("Mean", "mean", seen, g.constant(np.int32(1), "over"), Tidx=INT32)
    dense = g.put("Tanh", "dense", g.put("MatMul", "mix", mean, g.constant(weights(64, 64), "w")))
    scores = g.put("MatMul", "scores", dense, table, transpose_b=True)
    g.write("tied.pb", g.put("Softmax", "next_word", scores))


def padded() -> None:
    """One convolution of stride 2 with the padding of TensorFlow, and with that of PyTorch."""
    kernel = weights(3, 3, 3, 8)
    for name, padding in (
        ("tensorflow", {"padding": "SAME"}),
        ("pytorch", {"padding": "EXPLICIT", "explicit_paddings": (0, 0, 1, 1, 1, 1, 0, 0)}),
    ):
        g = Small("image", 1, 8, 8, 3)
        strides = (1, 2, 2, 1)
        y = g.put("Conv2D", "y", g.inputs[0], g.constant(kernel, "kernel"), strides=strides, **padding)
        g.write(f"{name}.pb", y)


def flattened() -> None:
    """A convolution whose result is flattened, which is where layouts meet."""
    g = Small("image", 1, 16, 16, 3)
    strides = {"strides": (1, 2, 2, 1), "padding": "SAME"}
    y = g.put("Conv2D", "conv", g.inputs[0], g.constant(weights(3, 3, 3, 8), "kernel"), **strides)
    y = g.put("Relu", "relu", y)
    y = g.put("Reshape", "flat", y, g.constant(np.array([1, 512], np.int32), "flat/shape"))
    y = g.put("MatMul", "dense", y, g.constant(weights(512, 10), "w"))
    g.write("flattened.pb", g.put("Softmax", "answer", y))


MAKERS: dict[str, Callable[[], None]] = {maker.__name__: maker for maker in (speech, tied, padded, flattened)}


if __name__ == "__main__":
    for chosen in sys.argv[1:]:
        MAKERS[chosen]()
