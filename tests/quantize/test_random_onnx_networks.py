"""Random networks in eight bits: valid files, and ONNX Runtime's integer kernels do what the pairs say.

A failing example is printed as a `Network(...)`; `Network(...).graph()` is the graph.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, note, settings

from tests.networks import Network, networks
from tests.quantize.onnx_programs import check, run
from thinflow.interpreter import Plan
from thinflow.ir.text import graph_text
from thinflow.onnx.program import OPSETS
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.onnx import OnnxMaker
from thinflow.optimize.samples import Samples
from thinflow.quantize.recipe import Recipe

STEPS = 3.0
"""How many codes of the coarsest tensor fused kernels may be away from one op at a time: ties round
differently, and what follows enlarges it."""
NOISE = 0.2
"""Largest error, relative to the largest value, on samples that calibration saw."""


@settings(max_examples=60)
@given(networks())
def test_kernels_do_what_the_pairs_say(network: Network) -> None:
    graph = float_graph(network.graph(), verify=False).graph
    note(graph_text(graph))
    feeds = [{graph.value(k): v for k, v in network.sample(n).items()} for n in range(3)]
    samples = Samples(lambda: iter(feeds), 3, False)
    opset = OPSETS[network.seed % len(OPSETS)]
    maker = OnnxMaker(opset, threads=1)
    made = maker.quantize(maker.open_or_fixed(graph, samples), samples, Recipe(few_samples=0))
    program = made.quantized.program
    program.validate()
    check(program)
    plan = Plan(graph, made.core.outputs, made.core.inputs)
    for feed in feeds:
        arrays = made.core.before(feed)
        named = {v.name: a for v, a in zip(made.core.inputs, arrays, strict=True)}
        expected = plan.run(dict(zip(made.core.inputs, arrays, strict=True)))
        fused, plain = run(program, named), run(program, named, optimized=False)
        for a, b, original in zip(fused, plain, expected, strict=True):
            largest = max(np.abs(original).max(initial=0.0), 1e-3)
            assert np.abs(a - b).max(initial=0.0) <= STEPS / 255 * largest
            assert np.abs(a - original).max(initial=0.0) <= NOISE * largest
