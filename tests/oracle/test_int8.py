"""Our int8 .tflite against the one TensorFlow's converter makes of the same graph and calibration data."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.night import ALL_NETWORKS
from tests.oracle import _peer
from tests.oracle._frozen import get
from tests.oracle._int8 import SAMPLES, pictures, sqnr
from thinflow.engines.litert import Model
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import float_model, quantized_model
from thinflow.optimize.samples import samples_for
from thinflow.quantize.recipe import Recipe

LARGE = ["resnet50_v2"] if ALL_NETWORKS else []


@pytest.mark.parametrize("name", ["mobilenet_small", "mobilenet", "keras3:mobilenet_v2_small", *LARGE])
def test_as_good_as_the_peer(name: str) -> None:
    frozen = get(name)
    (size,) = {shape[1] for shape, _ in frozen.inputs.values()}
    assert isinstance(size, int)
    calibration = pictures(SAMPLES, size, seed=1)
    held_out = [x[np.newaxis] for x in pictures(64 if size < 100 else 8, size, seed=2)]

    graph = frozen.graph()
    samples = samples_for(graph, {"x": calibration})
    optimised = float_graph(graph, samples=samples, verify=False).graph
    model = float_model(optimised)
    # As the peer does: all in integers, the nearest, by the least and the largest.
    plain = Recipe(float_parts=frozenset())
    given = samples_for(optimised, {"x": calibration})
    quantized = quantized_model(model, given, recipe=plain, effort="none")
    assert not quantized.quantized.float_operators
    peer = _peer.convert_int8(frozen, [[x[np.newaxis]] for x in calibration])

    reference = Model(model.content)
    expected = [reference.run([x])[0] for x in held_out]
    ours, theirs = (Model(content, threads=2) for content in (quantized.content, peer))
    our_sqnr = sqnr(expected, [ours.run([x])[0] for x in held_out])
    peer_sqnr = sqnr(expected, [theirs.run([x])[0] for x in held_out])
    assert our_sqnr >= peer_sqnr - 1.0, f"{our_sqnr:.1f} dB, the peer {peer_sqnr:.1f} dB"
    # A per-channel factor and addend is one depthwise tap here: faster, and a few bytes more a channel.
    assert len(quantized.content) <= 1.02 * len(peer)
    mine, others = _peer.operators(quantized.content), _peer.operators(peer)
    assert mine.total() <= others.total(), _only(mine, others)


def _only(mine: Counter[str], others: Counter[str]) -> str:
    return f"only ours: {dict(mine - others)}; only theirs: {dict(others - mine)}"
