"""Graphs in ONNX Runtime, with the interpreter for the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.lower.onnx.harness import Net
from tests.lower.tflite.test_ops import conv, f
from thinflow import engines
from thinflow.engines import _regions
from thinflow.engines.session import Session
from thinflow.errors import EngineUnavailable, UnsupportedOp

pytest.importorskip("onnxruntime")


def network(net):
    x = net.feed(f(1, 6, 6, 3), shape=(None, 6, 6, 3))
    y = net.op("Conv2D", x, f(3, 3, 3, 4), name="conv", **conv())
    return x, net.op("Relu", y, name="relu")


def test_it_is_one_of_the_engines():
    assert "onnxruntime" in engines.names()
    assert not any(name.startswith("_") for name in engines.names())
    assert engines.find("onnxruntime").name == "onnxruntime"


def test_everything_runs_there():
    net = Net()
    x, y = network(net)
    session = Session(net.graph, "onnxruntime", threads=2)
    for batch in (1, 3):
        feed = f(batch, 6, 6, 3)
        (found,) = session.run([y], {x: feed})
        np.testing.assert_allclose(found, net.reference(y, feeds={x: feed})[0], rtol=1e-4, atol=1e-5)
    assert set(session.placement.values()) == {"onnxruntime"}
    assert session.reasons == {}


def test_what_it_cannot_run_goes_to_the_interpreter():
    net = Net()
    x, y = network(net)
    z = net.op("Softplus", net.op("Lgamma", net.op("Abs", y, name="abs"), name="odd"), name="end")
    session = Session(net.graph, "onnxruntime")
    (found,) = session.run([z], {x: net.feeds[x]})
    np.testing.assert_allclose(found, net.reference(z)[0], rtol=1e-4, atol=1e-5)
    assert session.placement["odd"] == "reference"
    assert session.placement["conv"] == session.placement["end"] == "onnxruntime"
    assert session.reasons["odd"] == "ONNX has no form of Lgamma"


def test_a_region_that_fails_while_running_falls_back():
    """Indices out of range are an error in both; the interpreter says it in its own words."""
    net = Net()
    x, at = net.feed(f(4), "x"), net.feed(np.array([1, 2], np.int32), "at")
    y = net.op("GatherV2", x, at, np.int32(0), name="gather")
    session = Session(net.graph, "onnxruntime")
    session.run([y], net.feeds)
    assert session.placement["gather"] == "onnxruntime"
    with pytest.raises(Exception, match=r"(?i)gather|index|indices"):
        session.run([y], {x: f(4), at: np.array([9, 0], np.int32)})
    assert session.placement["gather"] == "reference"
    assert "ONNX Runtime failed" in session.reasons["gather"]


def test_control_flow_stays_whole_in_the_interpreter():
    net = Net()
    x = net.feed(f(2), "x")
    switch = net.op("Switch", x, np.array(True), name="switch").node
    merge = net.op("Merge", net.op("Neg", switch.output(0)), switch.output(1), name="merge", N=2)
    session = Session(net.graph, "onnxruntime")
    (found,) = session.run([merge], net.feeds)
    np.testing.assert_array_equal(found, f(2))
    assert set(session.placement.values()) == {"reference"}


def test_constants_can_be_fetched():
    net = Net()
    x, y = network(net)
    c = net.const(f(3), "weights")
    found = Session(net.graph, "onnxruntime").run([c, y], {x: net.feeds[x]})
    np.testing.assert_array_equal(found[0], f(3))


def test_large_models_are_handed_over_as_files(monkeypatch):
    from thinflow.engines import _mapped

    monkeypatch.setattr(_mapped, "SMALL_BYTES", 10)
    net = Net()
    x, y = network(net)
    session = Session(net.graph, "onnxruntime")
    np.testing.assert_allclose(
        session.run([y], {x: net.feeds[x]})[0], net.reference(y)[0], rtol=1e-4, atol=1e-5
    )
    assert set(session.placement.values()) == {"onnxruntime"}


def test_models_it_refuses_are_said_so(tmp_path: Path):
    from thinflow.engines.onnxruntime import Model

    path = tmp_path / "broken.onnx"
    path.write_bytes(b"\x08\x07nonsense")
    for content in (b"\x08\x07nonsense", str(path)):
        with pytest.raises(EngineUnavailable, match="ONNX Runtime refuses the model"):
            Model(content)


def test_without_the_package(monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else real(name)
    )
    with pytest.raises(EngineUnavailable, match=r"pip install 'thinflow\[onnx\]'"):
        engines.find("onnxruntime")


def test_a_backend_that_refuses_to_lower():
    """The shared part: refusals at compile time put the region into the interpreter, with the reason."""

    def refuse(graph, region, threads):
        raise UnsupportedOp("not today")

    net = Net()
    x, y = network(net)
    backend = _regions.Backend("stub", lambda graph, nodes: {}, refuse)
    compiled = _regions.compile_regions(backend, net.graph, [x], [y], 1)
    (found,) = compiled.run([net.feeds[x]])
    np.testing.assert_allclose(found, net.reference(y)[0])
    assert set(compiled.placement.values()) == {"reference"}
    assert set(compiled.reasons.values()) == {"not today"}
