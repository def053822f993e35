"""Rescaled pairs of layers: the same answers in float, better ones in eight bits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.programs import CONV, POOL, Builder, quantize, run, samples, sqnr
from thinflow.quantize.channels import channel_statistics
from thinflow.quantize.equalize import (
    Pair,
    equalizing_factors,
    find_pairs,
    rescaled,
    smoothing_factors,
)
from thinflow.tflite.model import Program, Tensor


def uneven(b: Builder, x: Tensor, k: int, size: int = 3, act: str = "RELU") -> Tensor:
    """A convolution whose output channels differ a thousandfold."""
    c = x.shape[-1] if x.shape else b.channels[x]
    spread = np.logspace(-1.5, 1.5, k)[b.rng.permutation(k)]
    w = b.rng.standard_normal((k, size, size, c)) * spread[:, None, None, None] / (size * size * c) ** 0.5
    bias = b.rng.standard_normal(k) * spread * 0.1
    y = b.op("CONV_2D", x, b.const(w), b.const(bias), **CONV, fused_activation_function=act)
    b.channels[y] = k
    return y


def chain(between: str = "nothing", act: str = "RELU") -> Program:
    b = Builder(3)
    y = uneven(b, b.input(1, 8, 8, 4), 12, act=act)
    if between == "pool":
        y = b.op("MAX_POOL_2D", y, **POOL)
    elif between == "relu":
        y = b.op("RELU", y)
    elif between == "pad":
        y = b.op("PAD", y, b.const(np.array([[0, 0], [1, 1], [1, 1], [0, 0]])))
    elif between == "mean":
        y = b.op("MEAN", y, b.const(np.array([1, 2])), keep_dims=False)
        return b.program(b.op("FULLY_CONNECTED", y, b.normal(5, 12), b.normal(5)))
    elif between == "tanh":
        y = b.op("TANH", y)
    elif between == "depthwise":
        w = b.normal(1, 3, 3, 24)
        y = b.op("DEPTHWISE_CONV_2D", y, w, b.normal(24), **CONV, depth_multiplier=2)
        return b.program(y)
    b.channels[y] = 12
    return b.program(b.conv(y, 6, act="NONE"))


@pytest.mark.parametrize("act", ["RELU", "NONE"])
@pytest.mark.parametrize("between", ["nothing", "pool", "relu", "pad", "mean", "depthwise"])
def test_rescaling_changes_no_answer(between: str, act: str) -> None:
    program = chain(between, act)
    (pair,) = find_pairs(program)
    assert (pair.first.origin, pair.channels) == ("node0", 12)
    factors = np.random.default_rng(1).uniform(0.1, 10, 12)
    feed = samples(program)[0]
    new = rescaled(program, {pair: factors})
    assert sqnr(run(program, *feed.values())[0], run(new, *feed.values())[0]) > 100
    assert not np.array_equal(new.subgraphs[0].operators[0].inputs[1].data, pair.first.inputs[1].data)


@pytest.mark.parametrize(("between", "act"), [("tanh", "NONE"), ("nothing", "RELU6")])
def test_no_pair_where_scaling_changes_the_answer(between: str, act: str) -> None:
    assert find_pairs(chain(between, act)) == []


def test_no_pair_with_two_readers_an_output_or_shared_weights() -> None:
    b = Builder()
    y = b.conv(b.input(1, 8, 8, 4), 4, act="RELU")
    z = b.conv(y, 4, act="RELU")
    b.channels[z] = 4
    assert len(find_pairs(b.program(b.conv(z, 4)))) == 2
    assert len(find_pairs(b.program(b.operators[-1].outputs[0], z))) == 1

    b = Builder()
    y = b.conv(b.input(1, 8, 8, 4), 4, act="RELU")
    assert find_pairs(b.program(b.op("ADD", y, b.conv(y, 4)))) == []

    b = Builder()
    w, x = b.normal(4, 3, 3, 4), b.input(1, 8, 8, 4)
    y = b.op("CONV_2D", b.op("CONV_2D", x, w, b.normal(4), **CONV), w, b.normal(4), **CONV)
    assert find_pairs(b.program(y)) == []


def test_equalized_layers_reach_equally_far() -> None:
    b = Builder(5)
    y = uneven(b, uneven(b, uneven(b, b.input(1, 8, 8, 4), 8), 8), 8)
    program = b.program(y)
    pairs = find_pairs(program)
    assert len(pairs) == 2
    new = rescaled(program, dict(zip(pairs, equalizing_factors(pairs), strict=True)))
    for pair in find_pairs(new):
        outgoing, incoming = reaches(pair)
        assert np.abs(np.log(outgoing / incoming)).max() < 0.05


def reaches(pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    first, second = (np.abs(o.inputs[1].data) for o in (pair.first, pair.second))
    return first.max(axis=(1, 2, 3)), second.max(axis=(0, 1, 2))


def test_equalizing_helps_scales_per_tensor() -> None:
    program = chain()
    pairs = find_pairs(program)
    better = rescaled(program, dict(zip(pairs, equalizing_factors(pairs), strict=True)))
    assert quality(better, program, per_channel=False) > quality(program, program, per_channel=False) + 3


def test_smoothing_helps_uneven_activations() -> None:
    program = chain("depthwise")
    (pair,) = find_pairs(program)
    statistics = channel_statistics(program, [pair.between], samples(program))[pair.between]
    factors = smoothing_factors(pair, statistics)
    assert np.exp(np.log(factors).mean()) == pytest.approx(1, rel=1e-6)
    sizes = statistics.largest / factors
    assert sizes.max() / sizes.min() < 1.01  # a depthwise layer takes over all of the size
    better = rescaled(program, {pair: factors})
    assert quality(better, program) > quality(program, program) + 0.5


def quality(program: Program, original: Program, **choices) -> float:
    """SQNR of the int8 form of a program beside another one."""
    feeds = samples(program)
    result = quantize(program, feeds, **choices).program
    pairs = [(run(original, *f.values())[0], run(result, *f.values())[0]) for f in feeds[:8]]
    expected, found = (np.concatenate([p[i].ravel() for p in pairs]) for i in (0, 1))
    return sqnr(expected, found)


def test_dead_channels_keep_their_size() -> None:
    program = chain()
    weights = program.subgraphs[0].operators[0].inputs[1]
    weights.data = weights.data.copy()
    weights.data[3] = 0
    pairs = find_pairs(program)
    (factors,) = equalizing_factors(pairs)
    assert factors[3] == 1
    assert np.isfinite(factors).all()


def test_channel_statistics() -> None:
    b = Builder()
    x = b.input(2, 3, 4)
    program = b.program(b.op("MUL", x, b.const(np.float32([1, 2, 3, 4]))))
    y = program.subgraphs[0].outputs[0]
    feeds = samples(program, 5)
    values = np.stack([f["in0"] for f in feeds]) * np.float32([1, 2, 3, 4])
    found = channel_statistics(program, [y], feeds)[y]
    np.testing.assert_allclose(found.largest, np.abs(values).max(axis=(0, 1, 2)), rtol=1e-6)
    np.testing.assert_allclose(found.mean, values.mean(axis=(0, 1, 2)), atol=1e-6)


def test_samples_that_are_not_finite_are_no_channels() -> None:
    """Also where as many finite values are left as there are channels: they may be of any."""
    b = Builder()
    program = b.program(b.op("MUL", b.input(2, 3), b.const(np.ones(3, np.float32))))
    y = program.subgraphs[0].outputs[0]
    whole = np.float32([[1, 2, 3], [4, 5, 6]])
    partly = np.float32([[90, np.nan, 80], [np.nan, np.nan, 70]])
    found = channel_statistics(program, [y], [{"in0": whole}, {"in0": partly}])[y]
    assert found.largest.tolist() == [4, 5, 6]
    assert found.mean.tolist() == [2.5, 3.5, 4.5]
