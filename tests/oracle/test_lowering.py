"""Our .tflite against TensorFlow's outputs, and against the .tflite of TensorFlow's own converter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.oracle import _peer
from tests.oracle._frozen import get
from thinflow.engines.litert import Model
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import float_model

NETWORKS = (
    "mobilenet",
    "mobilenet_small",
    "mobilenet_v2",
    "resnet50_v2",
    "inception_v3",
    "keras3:mobilenet_small",
    "keras3:mobilenet_v2_small",
    "tf1_norms",
    "zoo:digits",
)
COUNTED = (
    "mobilenet_small",
    "mobilenet_v2_small",
    "keras3:mobilenet_v2_small",
    "resnet50_v2",
    "tf1_norms",
    "zoo:digits",
)


def ours(name: str) -> bytes:
    """The .tflite thinflow makes of a graph after its float pipeline; everything in the graph is in it."""
    model = float_model(float_graph(get(name).graph(), verify=False).graph)
    assert not model.core.outside
    return model.content


@pytest.mark.parametrize("name", NETWORKS)
def test_computes_what_tensorflow_does(name: str) -> None:
    frozen = get(name)
    model = Model(ours(name))
    for seed in range(2):
        expected = frozen.run(seed)
        found = model.run(list(frozen.feeds(seed).values()))
        for a, b in zip(expected, found, strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4 * np.abs(a).max())


@pytest.mark.parametrize("name", ["mobilenet_small", "tf1_norms"])
def test_plain_conversion_computes_what_tensorflow_does(name: str, tmp_path: Path) -> None:
    frozen = get(name)
    path = tmp_path / "model.tflite"
    thinflow.convert(frozen.graph(), path)
    found = Model(str(path)).run(list(frozen.feeds().values()))
    for a, b in zip(frozen.run(), found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-4 * np.abs(a).max())


@pytest.mark.parametrize("name", COUNTED)
def test_no_more_operators_and_bytes_than_the_peer(name: str) -> None:
    content, peer = ours(name), _peer.convert(get(name))
    mine, theirs = _peer.operators(content), _peer.operators(peer)
    assert mine.total() <= theirs.total(), (
        f"only ours: {dict(mine - theirs)}; only theirs: {dict(theirs - mine)}"
    )
    assert len(content) <= len(peer)
