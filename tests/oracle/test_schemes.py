"""Every scheme that TensorFlow's converter knows too: as good, as small, and on the same runtime."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.night import ALL_NETWORKS
from tests.oracle import _peer
from tests.oracle._frozen import Array, Frozen, get
from tests.oracle._int8 import SAMPLES, pictures, sqnr
from thinflow.engines.litert import Model
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import FloatModel, float_model, quantized_model
from thinflow.optimize.quantized import QuantizedModel
from thinflow.optimize.samples import samples_for
from thinflow.quantize.recipe import Recipe

NETWORKS = ["mobilenet_small", "keras3:mobilenet_v2_small", *(["resnet50_v2"] if ALL_NETWORKS else [])]


def made(frozen: Frozen, feeds: dict[str, Array], recipe: Recipe) -> tuple[FloatModel, QuantizedModel]:
    graph = frozen.graph()
    samples = samples_for(graph, feeds)
    optimised = float_graph(graph, samples=samples, verify=False).graph
    model = float_model(optimised, samples_for(optimised, feeds))
    # As the peer does: nothing left to float, and nothing tried.
    plain = replace(recipe, float_parts=frozenset())
    return model, quantized_model(model, samples_for(optimised, feeds), recipe=plain, effort="none")


def answers(content: bytes, samples: list[Array]) -> list[Array]:
    model = Model(content, threads=2)
    return [model.run([x])[0] for x in samples]


@pytest.mark.parametrize("scheme", ["float16", "dynamic", "int16x8"])
@pytest.mark.parametrize("name", NETWORKS)
def test_as_good_and_as_small_as_the_peer(name: str, scheme: str) -> None:
    frozen = get(name)
    (size,) = {shape[1] for shape, _ in frozen.inputs.values()}
    assert isinstance(size, int)
    calibration = pictures(SAMPLES, size, seed=1)
    held_out = [x[np.newaxis] for x in pictures(6 if name == "resnet50_v2" else 96, size, seed=2)]
    model, ours = made(frozen, {"x": calibration}, Recipe(scheme=scheme))
    peer = _peer.convert_scheme(frozen, scheme, [[x[np.newaxis]] for x in calibration])
    expected = answers(model.content, held_out)
    our_sqnr, peer_sqnr = (sqnr(expected, answers(c, held_out)) for c in (ours.content, peer))
    assert our_sqnr >= peer_sqnr - 1.0, f"{our_sqnr:.1f} dB, the peer {peer_sqnr:.1f} dB"
    # The peer's convolutions without a bias share one of zeros; ours have their own, in 64 bits for int16x8.
    assert len(ours.content) <= len(peer) * (1.02 if scheme == "int16x8" else 1.005)
    mine, theirs = _peer.operators(ours.content), _peer.operators(peer)
    assert mine.total() <= theirs.total(), f"only ours: {mine - theirs}; only theirs: {theirs - mine}"


@pytest.mark.filterwarnings("ignore:Statistics for quantized inputs")
@pytest.mark.parametrize(("scheme", "border"), [("int8", "int8"), ("int8", "uint8"), ("int16x8", "int16")])
def test_integer_borders_are_those_of_the_peer(scheme: str, border: str) -> None:
    frozen = get("mobilenet_small")
    calibration = pictures(SAMPLES, 96, seed=1)
    recipe = Recipe(scheme=scheme, input_type=border, output_type=border)
    _, ours = made(frozen, {"x": calibration}, recipe)
    peer = _peer.convert_scheme(frozen, scheme, [[x[np.newaxis]] for x in calibration], border)
    first, second = Model(ours.content), Model(peer)
    for mine, theirs in zip(
        (*first.interpreter.get_input_details(), *first.interpreter.get_output_details()),
        (*second.interpreter.get_input_details(), *second.interpreter.get_output_details()),
        strict=True,
    ):
        assert mine["dtype"] == theirs["dtype"]
        (scale, zero), (peer_scale, peer_zero) = mine["quantization"], theirs["quantization"]
        assert scale == pytest.approx(peer_scale, rel=1e-3)
        assert abs(zero - peer_zero) <= 1


@pytest.mark.parametrize("name", ["tf1_loop", "tf2_loop", "tf1_norms"])
def test_small_graphs_in_float16(name: str) -> None:
    """Loops and unusual layouts: the same answers as the peer's where both store the same constants."""
    frozen = get(name)
    feeds = frozen.feeds()
    _, ours = made(frozen, {k: v[np.newaxis] for k, v in feeds.items()}, Recipe(scheme="float16"))
    expected = frozen.run()[0]
    found = Model(ours.content).run(list(feeds.values()))[0]
    assert sqnr([np.ravel(expected)], [np.ravel(found)]) > 55
