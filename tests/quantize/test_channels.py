"""Bias correction: the mean of every output channel is what it was in float."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.quantize.programs import CONV, Builder, run
from thinflow.quantize.channels import channel_statistics, corrected, layers_to_correct
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.schemes import storing
from thinflow.quantize.simulate import rounded_weights, simulated
from thinflow.tflite.model import Program, Tensor

Build = Callable[[Builder], Tensor]
LAYERS: dict[str, Build] = {
    "conv": lambda b: b.conv(b.input(1, 6, 6, 64), 32, act="NONE", padding="VALID"),
    "depthwise": lambda b: b.op(
        "DEPTHWISE_CONV_2D", b.input(1, 6, 6, 64), b.normal(1, 3, 3, 128), b.normal(128),
        **CONV | {"padding": "VALID"}, depth_multiplier=2,
    ),
    "dense": lambda b: b.op("FULLY_CONNECTED", b.input(4, 64), b.normal(32, 64), b.normal(32)),
    "dense_without_bias": lambda b: b.op("FULLY_CONNECTED", b.input(4, 64), b.normal(32, 64)),
}  # fmt: skip


def shifted(program: Program, count: int = 12) -> list[dict[str, np.ndarray]]:
    """Samples whose channels have means of their own."""
    rng = np.random.default_rng(4)
    (x,) = program.subgraphs[0].inputs
    mean = rng.uniform(-2, 2, x.shape[-1])
    return [{x.name: (rng.standard_normal(x.shape) + mean).astype(np.float32)} for _ in range(count)]


@pytest.mark.parametrize("layer", LAYERS)
def test_means_come_back(layer: str) -> None:
    builder = Builder()
    program = builder.program(LAYERS[layer](builder))
    feeds = shifted(program)
    ((operator, x),) = layers_to_correct(program).items()
    # As rough as one bit: what matters is the shift.
    rough = {operator: np.sign(operator.inputs[1].data) * np.float32(0.3)}
    statistics = channel_statistics(program, [x], feeds)
    better = corrected(program, rough, statistics)
    (same,) = (o for o in better.subgraphs[0].operators if o.code == operator.code)
    rounded, repaired = (
        simulated(p, {o: rough[operator]}, {}) for p, o in ((program, operator), (better, same))
    )
    means = [average(p, feeds) for p in (program, rounded, repaired)]
    before, after = (np.abs(m - means[0]).max() for m in means[1:])
    assert before > 0.5
    # Borders see other parts of the picture, hence not exactly.
    assert after < before * (0.5 if layer in {"conv", "depthwise"} else 1e-4)


def average(program: Program, feeds: list[dict[str, np.ndarray]]) -> np.ndarray:
    outputs = np.stack([run(program, *f.values())[0] for f in feeds])
    return outputs.reshape(-1, outputs.shape[-1]).mean(axis=0)


def test_grouped_layers_are_left_alone() -> None:
    b = Builder()
    y = b.op("CONV_2D", b.input(1, 6, 6, 8), b.normal(8, 3, 3, 2), b.normal(8), **CONV)
    program = b.program(y)
    ((operator, x),) = layers_to_correct(program).items()
    statistics = channel_statistics(program, [x], shifted(program))
    better = corrected(program, {operator: operator.inputs[1].data * 0.5}, statistics)
    assert better.subgraphs[0].operators[0] is operator


@pytest.mark.parametrize("scheme", ["int8", "int8_weights", "int4_weights", "float16", "dynamic"])
def test_rounded_weights_are_those_of_the_scheme(scheme: str) -> None:
    b = Builder()
    y = b.conv(b.conv(b.conv(b.input(1, 6, 6, 32), 32), 32), 32)
    program = b.program(y)
    recipe = Recipe(scheme=scheme)
    rounded = rounded_weights(program, recipe, storing(program, recipe))
    assert len(rounded) == 3
    first, middle, _ = (np.abs(w - o.inputs[1].data).max() for o, w in rounded.items())
    largest = np.abs(program.subgraphs[0].operators[0].inputs[1].data).max()
    assert 0 < first <= largest / 254 * 1.001
    assert (middle > first * 4) == (scheme == "int4_weights")
