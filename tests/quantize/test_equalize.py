"""Rescaled pairs of layers: the same answers in float, better ones in eight bits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.programs import CONV, POOL, Builder, quantize, run, samples, sqnr, uneven
from thinflow.quantize.channel_groups import Group, find_groups
from thinflow.quantize.channels import channel_statistics
from thinflow.quantize.equalize import equalizing_factors, rescaled, smoothing_factors
from thinflow.tflite.model import Program


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
    (group,) = find_groups(program)
    (writer,) = group.writers
    assert (writer.operator.origin, group.channels) == ("node0", 12)
    factors = np.random.default_rng(1).uniform(0.1, 10, 12)
    feed = samples(program)[0]
    new = rescaled(program, {group: factors})
    assert sqnr(run(program, *feed.values())[0], run(new, *feed.values())[0]) > 100
    assert not np.array_equal(new.subgraphs[0].operators[0].inputs[1].data, writer.constants)


@pytest.mark.parametrize(("between", "act"), [("tanh", "NONE"), ("nothing", "RELU6")])
def test_no_group_where_scaling_changes_the_answer(between: str, act: str) -> None:
    assert find_groups(chain(between, act)) == []


def test_no_group_with_a_reader_that_takes_nothing_an_output_or_shared_weights() -> None:
    b = Builder()
    y = b.conv(b.input(1, 8, 8, 4), 4, act="RELU")
    z = b.conv(y, 4, act="RELU")
    b.channels[z] = 4
    assert len(find_groups(b.program(b.conv(z, 4)))) == 2
    assert len(find_groups(b.program(b.operators[-1].outputs[0], z))) == 1

    b = Builder()
    y = b.conv(b.input(1, 8, 8, 4), 4, act="RELU")
    assert find_groups(b.program(b.op("ADD", y, b.conv(y, 4)))) == []

    b = Builder()
    w, x = b.normal(4, 3, 3, 4), b.input(1, 8, 8, 4)
    y = b.op("CONV_2D", b.op("CONV_2D", x, w, b.normal(4), **CONV), w, b.normal(4), **CONV)
    assert find_groups(b.program(y)) == []


def test_equalized_layers_reach_equally_far() -> None:
    b = Builder(5)
    y = uneven(b, uneven(b, uneven(b, b.input(1, 8, 8, 4), 8), 8), 8)
    program = b.program(y)
    groups = find_groups(program)
    assert len(groups) == 2
    new = rescaled(program, dict(zip(groups, equalizing_factors(groups), strict=True)))
    for group in find_groups(new):
        outgoing, incoming = reaches(group)
        assert np.abs(np.log(outgoing / incoming)).max() < 0.05


def reaches(group: Group) -> tuple[np.ndarray, np.ndarray]:
    first, second = (np.abs(side[0].constants) for side in (group.writers, group.readers))
    return first.max(axis=(1, 2, 3)), second.max(axis=(0, 1, 2))


def test_equalizing_helps_scales_per_tensor() -> None:
    program = chain()
    groups = find_groups(program)
    better = rescaled(program, dict(zip(groups, equalizing_factors(groups), strict=True)))
    assert quality(better, program, per_channel=False) > quality(program, program, per_channel=False) + 3


def test_smoothing_helps_uneven_activations() -> None:
    program = chain("depthwise")
    (group,) = find_groups(program)
    statistics = channel_statistics(program, group.watched, samples(program))
    factors = smoothing_factors(group, statistics)
    assert np.exp(np.log(factors).mean()) == pytest.approx(1, rel=1e-6)
    sizes = statistics[list(group.watched)[-1]].largest / factors
    assert sizes.max() / sizes.min() < 1.01  # a depthwise layer takes over all of the size
    better = rescaled(program, {group: factors})
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
    groups = find_groups(program)
    (factors,) = equalizing_factors(groups)
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
    program = b.program(b.op("SQRT", b.input(2, 3)))
    y = program.subgraphs[0].outputs[0]
    whole = np.float32([[1, 4, 9], [16, 25, 36]])
    partly = np.float32([[8100, -1, 6400], [-1, -1, 4900]])
    found = channel_statistics(program, [y], [{"in0": whole}, {"in0": partly}])[y]
    assert found.largest.tolist() == [4, 5, 6]
    assert found.mean.tolist() == [2.5, 3.5, 4.5]


def residual() -> Program:
    """Two layers into a sum, which two layers read, one of them behind a flattened picture."""
    b = Builder(7)
    x = b.input(1, 4, 4, 4)
    y = b.op("ADD", uneven(b, x, 6), uneven(b, x, 6), fused_activation_function="RELU")
    b.channels[y] = 6
    flat = b.op("RESHAPE", y, b.const(np.array([1, 96])))
    return b.program(b.conv(y, 3, act="NONE"), b.op("FULLY_CONNECTED", flat, b.normal(5, 96), b.normal(5)))


def norm() -> Program:
    """A layer norm as it is spelled in LiteRT, whose scales and offsets two dense layers read."""
    b = Builder(8)
    x = b.input(4, 6)
    mean = b.op("MEAN", x, b.const(np.array([1])), keep_dims=True)
    square = b.op("SQUARED_DIFFERENCE", x, mean)
    root = b.op("RSQRT", b.op("MEAN", square, b.const(np.array([1])), keep_dims=True))
    factor = b.op("MUL", root, b.const(np.float32([1, 1, 40, 1, 1, 40])))
    offset = b.op("SUB", b.normal(6), b.op("MUL", mean, factor))
    y = b.op("ADD", b.op("MUL", x, factor), offset)
    return b.program(*(b.op("FULLY_CONNECTED", y, b.normal(n, 6), b.normal(n)) for n in (5, 7)))


def attention() -> Program:
    """Values of heads, mixed and put side by side again: each head has factors of its own."""
    b = Builder(9)
    x = b.input(1, 8, 6)
    values = b.op("FULLY_CONNECTED", x, b.normal(6, 6), b.normal(6), keep_num_dims=True)
    order = b.const(np.array([0, 2, 1, 3]))
    heads = b.op("TRANSPOSE", b.op("RESHAPE", values, b.const(np.array([1, 8, 2, 3]))), order)
    scores = b.op("SOFTMAX", b.normal(1, 2, 8, 8), beta=1.0)
    mixed = b.op("TRANSPOSE", b.op("BATCH_MATMUL", scores, heads), order)
    y = b.op("RESHAPE", mixed, b.const(np.array([1, 8, 6])))
    return b.program(b.op("FULLY_CONNECTED", y, b.normal(5, 6), b.normal(5), keep_num_dims=True))


@pytest.mark.parametrize(
    ("make", "channels", "writers", "readers"),
    [
        (residual, 6, ["CONV_2D", "CONV_2D"], ["CONV_2D", "FULLY_CONNECTED"]),
        (norm, 6, ["MUL"], ["FULLY_CONNECTED", "FULLY_CONNECTED"]),
        (attention, 6, ["FULLY_CONNECTED"], ["FULLY_CONNECTED"]),
    ],
)
def test_a_group_reaches_as_far_as_its_factors(make, channels: int, writers: list, readers: list) -> None:
    program = make()
    (group,) = find_groups(program)
    assert [b.operator.code for b in group.writers] == writers
    assert [b.operator.code for b in group.readers] == readers
    assert group.channels == channels
    factors = np.random.default_rng(1).uniform(0.1, 10, channels)
    feed = samples(program)[0]
    before, after = (run(p, *feed.values()) for p in (program, rescaled(program, {group: factors})))
    assert all(sqnr(x, y) > 90 for x, y in zip(before, after, strict=True))


def test_loud_channels_behind_a_norm_are_smoothed() -> None:
    program = norm()
    (group,) = find_groups(program)
    statistics = channel_statistics(program, group.watched, samples(program))
    better = rescaled(program, {group: smoothing_factors(group, statistics)})
    assert quality(better, program) > quality(program, program) + 3


@pytest.mark.parametrize("code", ["MUL", "DIV", "TANH"])
def test_what_mixes_or_bends_channels_has_no_group(code: str) -> None:
    b = Builder()
    y = b.conv(b.input(1, 8, 8, 4), 4, act="RELU")
    z = b.op("TANH", y) if code == "TANH" else b.op(code, y, y)
    b.channels[z] = 4
    assert find_groups(b.program(b.conv(z, 4, act="NONE"))) == []


def test_rows_of_constants_follow_a_sum() -> None:
    b = Builder()
    y = b.op("ADD", b.conv(b.input(1, 8, 8, 4), 4, act="RELU"), b.normal(4))
    b.channels[y] = 4
    program = b.program(b.conv(y, 3, act="NONE"))
    (group,) = find_groups(program)
    feed = samples(program)[0]
    new = rescaled(program, {group: np.array([0.1, 2, 5, 10])})
    assert sqnr(run(program, *feed.values())[0], run(new, *feed.values())[0]) > 100


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_keep_their_answers(seed: int) -> None:
    """Whatever groups are found, under whatever factors."""
    b = Builder(seed)
    x = b.input(1, 8, 8, 4)
    values = [b.conv(x, 4, act="RELU")]
    for _ in range(8):
        y = values[b.rng.integers(len(values))]
        z = values[b.rng.integers(len(values))]
        kind = b.rng.integers(7)
        act = str(b.rng.choice(["NONE", "RELU", "RELU6"]))
        if kind < 2:
            new = b.conv(y, 4, act=act)
        elif kind == 2:
            new = b.depthwise(y, act=act)
        elif kind == 3:
            new = b.op(str(b.rng.choice(["ADD", "MUL", "SUB", "MAXIMUM"])), y, z)
        elif kind == 4:
            new = b.op("MUL", y, b.normal(*[(4,), (1,)][b.rng.integers(2)]))
        elif kind == 5:
            new = b.op(str(b.rng.choice(["RELU", "LOGISTIC", "NEG", "LEAKY_RELU"])), y)
        else:
            new = b.op("MUL", y, b.op("MEAN", z, b.const(np.array([1, 2])), keep_dims=True))
        b.channels[new] = 4
        values.append(new)
    program = b.program(b.conv(values[-1], 3, act="NONE"), b.conv(values[-2], 3, act="NONE"))
    groups = find_groups(program)
    new_program = rescaled(program, {g: b.rng.uniform(0.1, 10, g.channels) for g in groups})
    feed = samples(program)[0]
    for before, after in zip(run(program, *feed.values()), run(new_program, *feed.values()), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-4 * np.abs(before).max())
