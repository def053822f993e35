"""Eight-bit graphs in sessions: placement, reasons, what stays exact; the keyword models after the recipe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.engines.eight_bit import frozen
from tests.lower.eight_bit import fed, measured, narrowed, reals, stored, two
from tests.lower.tflite.harness import Net
from thinflow.analysis.shapes import infer_with_loops
from thinflow.api import load
from thinflow.engines.partition import EXACT_FLOPS, better_exact
from thinflow.engines.session import Session
from thinflow.lower.tflite.quantized_context import takes_quantized
from thinflow.synthetic import synthetic_array
from thinflow.zoo import build


def net_of(side: int, how) -> tuple[Net, list]:
    net = Net()
    x, w = fed(net, (1, side, side, 8), -1, 2), stored(net, (3, 3, 8, 16), -1, 1)
    wide = two(net, "QuantizedConv2D", x, w, strides=(1, 1, 1, 1), padding="SAME")
    return net, reals(net, how(net, wide))


def session_of(net: Net, y, engine: str = "litert") -> Session:
    net.graph.inputs, net.graph.outputs = list(net.feeds), [y]
    return Session(net.graph, engine=engine)


def test_a_frozen_graph_runs_whole_in_litert():
    net, y = net_of(24, lambda net, wide: narrowed(net, wide, -9, 9))
    session = session_of(net, y)
    assert set(session.placement.values()) == {"litert"}
    (result,) = session.run([y.name], {v.name: a for v, a in net.feeds.items()})
    np.testing.assert_allclose(result, net.reference(y)[0], atol=18.01 / 255)


def test_measured_ranges_stay_in_the_interpreter_and_say_why():
    net, y = net_of(24, measured)
    session = session_of(net, y)
    assert session.placement["QuantizedConv2D"] == "reference"
    assert "freeze_requantization_ranges" in session.reasons["QuantizedConv2D"]
    (result,) = session.run([y.name], {v.name: a for v, a in net.feeds.items()})
    np.testing.assert_array_equal(result, net.reference(y)[0])


def test_little_arithmetic_keeps_tensorflows_codes():
    net, y = net_of(4, lambda net, wide: narrowed(net, wide, -9, 9))
    infer_with_loops(net.graph)
    assert {n.name for n in better_exact(net.graph)} == {"QuantizedConv2D", "narrow", "reals"}
    session = session_of(net, y)
    assert set(session.placement.values()) == {"reference"}
    assert "to the last" in session.reasons["narrow"]
    (result,) = session.run([y.name], {v.name: a for v, a in net.feeds.items()})
    np.testing.assert_array_equal(result, net.reference(y)[0])
    net, _ = net_of(24, lambda net, wide: narrowed(net, wide, -9, 9))
    infer_with_loops(net.graph)
    assert EXACT_FLOPS < 2 * 24 * 24 * 9 * 8 * 16
    assert not better_exact(net.graph)


def test_a_trained_net_gives_the_same_answers():
    graph = build("digits")
    rng = np.random.default_rng(3)
    feeds = [{v: synthetic_array(v, rng) for v in graph.inputs} for _ in range(6)]
    eight = frozen(graph, feeds)
    session, exact = Session(eight, engine="litert"), Session(eight, engine="reference")
    places = list(session.placement.values())
    assert places.count("litert") > 0.95 * len(places)
    output = eight.outputs[0].name
    for feed in feeds:
        given = {v.name: a for v, a in feed.items()}
        (here,), (there,) = session.run([output], given), exact.run([output], given)
        assert np.argmax(here) == np.argmax(there)
        np.testing.assert_allclose(here, there, atol=0.05)


@pytest.mark.parametrize("name", ["kws_CNN_S", "kws_DNN_S", "kws_DS_CNN_S"])
def test_keyword_models_give_the_same_answers(shared: Path, name: str):
    graph = load(str(shared / "models" / f"{name}.pb"), inputs=["wav_data"], outputs=["labels_softmax"])
    clips = [np.array(f.read_bytes(), object) for f in sorted((shared / "data" / "kws").glob("*.wav"))[::14]]
    eight = frozen(graph, [{graph.inputs[0]: clip} for clip in clips[:6]])
    session, exact = Session(eight, engine="litert"), Session(eight, engine="reference")
    coded = [n.name for n in eight if takes_quantized(n.op) and n.name in session.placement]
    assert coded
    assert all(session.placement[n] == "litert" for n in coded)
    answers = [s.run(["labels_softmax"], {"wav_data": c})[0] for s in (session, exact) for c in clips]
    here, there = np.split(np.concatenate(answers), 2)
    assert (here.argmax(1) == there.argmax(1)).mean() > 0.9
    assert np.abs(here - there).mean() < 0.02
