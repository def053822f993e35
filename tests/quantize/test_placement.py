"""Norms that take mean and variance of what they are fed keep their answers in eight bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.networks import Array
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT
from thinflow.quantize.crossings import AMONG_FLOATS

pytest.importorskip("ai_edge_litert")
CHANNELS = 8


def normed() -> Graph:
    """A convolution whose channels differ thirtyfold, and a norm in training mode that evens them out."""
    rng = np.random.default_rng(7)
    spread = np.logspace(0, -1.5, CHANNELS)
    filters = (rng.standard_normal((3, 3, 3, CHANNELS)) * spread).astype(np.float32)
    ones, none = np.ones(CHANNELS, np.float32), np.zeros(0, np.float32)
    graph = Graph()
    x = graph.add(
        "Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 12, 12, 3))}
    ).output()
    window = {"T": FLOAT, "strides": (1, 1, 1, 1), "padding": "SAME"}
    y = graph.add("Conv2D", [x, graph.constant(filters, "w")], "conv", attrs=window).output()
    named = {"scale": ones, "offset": ones, "mean": none, "variance": none}
    weights = [graph.constant(array, name) for name, array in named.items()]
    training = {"T": FLOAT, "U": FLOAT, "epsilon": 1e-12, "is_training": True}
    y = graph.add("FusedBatchNormV3", [y, *weights], "norm", attrs=training).output()
    graph.inputs, graph.outputs = [x], [y]
    return graph


def samples(count: int) -> list[dict[str, Array]]:
    rng = np.random.default_rng(8)
    return [{"x": rng.standard_normal((1, 12, 12, 3)).astype(np.float32)} for _ in range(count)]


def test_squares_of_quiet_channels_do_not_vanish(tmp_path: Path) -> None:
    """In integers the variance of the quietest channel is 0, and one by its root is infinite."""
    graph, target = normed(), tmp_path / "q.tflite"
    made = thinflow.quantize(graph, calibration=samples(20))
    made.save(target)
    exact = thinflow.Session(graph, engine="reference")
    found = thinflow.Session(target)
    signal = noise = 0.0
    for feed in samples(3):
        (a,), (b,) = exact.run(["norm"], feed), found.run(["norm"], feed)
        signal, noise = signal + float(np.square(a).sum()), noise + float(np.square(a - b).sum())
    assert 10 * np.log10(signal / noise) > 20
    reasons = {why for _, why in made.quantized.float_operators}
    assert "it is part of a variance that is computed at run time" in reasons


def test_what_is_handed_through_is_not_rounded() -> None:
    """A state that calibration saw at 0 only keeps other values, and costs no operators."""
    rng = np.random.default_rng(9)
    graph = Graph()
    x, state = (
        graph.add("Placeholder", name=n, attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 8))}).output()
        for n in ("x", "state")
    )
    weights = graph.constant(rng.standard_normal((8, 8)).astype(np.float32), "w")
    y = graph.add("MatMul", [x, weights], "y").output()
    kept = graph.add("Reshape", [state, graph.constant(np.array([8, 1], np.int32), "shape")], "kept").output()
    graph.inputs, graph.outputs = [x, state], [y, kept]
    zeros = np.zeros((1, 8), np.float32)
    samples = [{"x": rng.standard_normal((1, 8)).astype(np.float32), "state": zeros} for _ in range(8)]
    made = thinflow.quantize(graph, samples, effort="none")
    assert {o.code: why for o, why in made.quantized.float_operators}["RESHAPE"] == AMONG_FLOATS
    assert [o.code for o in made.quantized.program.subgraphs[0].operators].count("FULLY_CONNECTED") == 1
