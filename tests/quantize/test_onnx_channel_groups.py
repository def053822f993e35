"""Rescaled channels of ONNX programs: the same answers in float, whatever groups are found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.quantize.onnx_programs import Net, run
from thinflow.ir.types import INT64
from thinflow.onnx.program import Program, Tensor
from thinflow.quantize.channel_groups import Group, find_groups, watched
from thinflow.quantize.channels import channel_statistics
from thinflow.quantize.equalize import equalizing_factors, rescaled, smoothing_factors


def groups_of(net: Net, *outputs: Tensor, seed: int = 1) -> list[Group]:
    """The groups of a program, which answers as before under any factors of theirs."""
    net.program.outputs = list(outputs)
    groups = find_groups(net.program)
    rng = np.random.default_rng(seed)
    new = rescaled(net.program, {g: rng.uniform(0.1, 10, g.channels) for g in groups})
    assert_same(net.program, new, net.samples()[0])
    return groups


def assert_same(before: Program, after: Program, feed: dict[str, np.ndarray]) -> None:
    for x, y in zip(run(before, feed, optimized=False), run(after, feed, optimized=False), strict=True):
        np.testing.assert_allclose(y, x, rtol=2e-3, atol=2e-4 * max(np.abs(x).max(), 1e-3))


def normal(net: Net, *shape: int) -> np.ndarray:
    return net.rng.standard_normal(shape).astype(np.float32)


def depthwise(net: Net, x: Tensor) -> Tensor:
    return net.op("Conv", x, normal(net, 4, 1, 3, 3), normal(net, 4), pads=(1,) * 4, group=4)


def grouped(net: Net, x: Tensor) -> Tensor:
    return net.op("Conv", x, normal(net, 4, 2, 1, 1), normal(net, 4), group=2)


def transposed(net: Net, x: Tensor) -> Tensor:
    w = normal(net, 4, 2, 2, 2)
    return net.op("ConvTranspose", x, w, normal(net, 4), group=2, strides=(2, 2), shape=(1, 4, 12, 12))


def norm(net: Net, x: Tensor) -> Tensor:
    rows = normal(net, 4), normal(net, 4), normal(net, 4), np.abs(normal(net, 4)) + 1
    return net.op("BatchNormalization", x, *rows)


def shuffled(net: Net, x: Tensor) -> Tensor:
    y = net.op("Reshape", x, np.array([1, 2, 2, 6, 6]), shape=(1, 2, 2, 6, 6))
    y = net.op("Transpose", y, perm=(0, 2, 1, 3, 4), shape=(1, 2, 2, 6, 6))
    return net.op("Reshape", y, np.array([1, 4, 6, 6]), shape=(1, 4, 6, 6))


def halves(net: Net, x: Tensor) -> Tensor:
    a, b = net.op("Split", x, np.array([2, 2]), axis=1, count=2, shape=(1, 2, 6, 6))
    return net.op("Concat", b, a, axis=1, shape=(1, 4, 6, 6))


def padded(net: Net, x: Tensor) -> Tensor:
    return net.op("Pad", x, np.array([0, 0, 1, 1, 0, 0, 1, 1]), shape=(1, 4, 8, 8))


def resized(net: Net, x: Tensor) -> Tensor:
    """As many pictures as there are: who asks for that sees no number."""
    batch = net.op("Shape", x, end=2, shape=(2,), element=INT64)
    sizes = net.op("Concat", batch, np.array([6, 6]), axis=0, shape=(4,), element=INT64)
    return net.op("Resize", x, None, None, sizes, mode="linear")


BETWEEN: dict[str, Callable[[Net, Tensor], Tensor]] = {
    "nothing": lambda net, x: x,
    "relu": lambda net, x: net.op("Relu", x),
    "leaky": lambda net, x: net.op("LeakyRelu", x, alpha=0.1),
    "slopes": lambda net, x: net.op("PRelu", x, normal(net, 4, 1, 1)),
    "clip": lambda net, x: net.op("Clip", x, np.float32(0)),
    "row": lambda net, x: net.op("Mul", x, normal(net, 4, 1, 1)),
    "quotient": lambda net, x: net.op("Div", x, np.abs(normal(net, 1, 4, 1, 1)) + 1),
    "offset": lambda net, x: net.op("Add", x, normal(net, 1, 4, 1, 1)),
    "difference": lambda net, x: net.op("Sub", normal(net, 4, 6, 6), x, shape=x.shape),
    "pool": lambda net, x: net.op("MaxPool", x, kernel_shape=(2, 2), strides=(2, 2), shape=(1, 4, 3, 3)),
    "mean": lambda net, x: net.op("ReduceMean", x, axes=(2, 3), keepdims=1, shape=(1, 4, 1, 1)),
    "global": lambda net, x: net.op("GlobalAveragePool", x, shape=(1, 4, 1, 1)),
    "depthwise": depthwise,
    "grouped": grouped,
    "transposed": transposed,
    "norm": norm,
    "shuffled": shuffled,
    "halves": halves,
    "padded": padded,
    "resized": resized,
}


@pytest.mark.parametrize("between", BETWEEN)
def test_channels_of_pictures(between: str) -> None:
    net = Net(1, 4, 6, 6)
    y = BETWEEN[between](net, net.conv(net.x))
    groups = groups_of(net, net.conv(y))
    takes_factors = between in ("row", "quotient", "depthwise", "grouped", "transposed", "norm")
    assert [g.channels for g in groups] == [4] * (1 + takes_factors)


@pytest.mark.parametrize(
    ("code", "inputs"),
    [("Tanh", ()), ("Clip", (np.float32(0), np.float32(6))), ("Add", (np.float32(3),)), ("Softmax", ())],
)
def test_what_bends_channels_has_no_group(code: str, inputs: tuple) -> None:
    net = Net(1, 4, 6, 6)
    assert groups_of(net, net.conv(net.op(code, net.conv(net.x), *inputs))) == []


def test_a_flattened_picture_repeats_each_factor() -> None:
    net = Net(None, 4, 6, 6)
    y = net.op("Relu", net.conv(net.x))
    flat = net.op("Flatten", y, shape=(None, 144))
    z = net.op(
        "Gemm", flat, normal(net, 3, 144), normal(net, 3), transB=1, alpha=0.5, beta=2.0, shape=(None, 3)
    )
    (group,) = groups_of(net, z)
    assert group.factors_of[flat].ravel().tolist() == np.repeat([1, 2, 3, 4], 36).tolist()


def attention(net: Net) -> Tensor:
    """Two heads of three numbers for each of five tokens, behind a layer norm."""
    normed = net.op("LayerNormalization", net.x, normal(net, 6), normal(net, 6), axis=-1)
    heads = []
    for _ in range(3):
        y = net.op("Add", net.op("MatMul", normed, normal(net, 6, 6)), normal(net, 6))
        y = net.op("Reshape", y, np.array([1, 5, 2, 3]), shape=(1, 5, 2, 3))
        heads.append(y)
    q, v = (net.op("Transpose", heads[n], perm=(0, 2, 1, 3), shape=(1, 2, 5, 3)) for n in (0, 2))
    k = net.op("Transpose", heads[1], perm=(0, 2, 3, 1), shape=(1, 2, 3, 5))
    scores = net.op("Softmax", net.op("MatMul", q, k, shape=(1, 2, 5, 5)), axis=-1)
    mixed = net.op("MatMul", scores, v, shape=(1, 2, 5, 3))
    mixed = net.op("Transpose", mixed, perm=(0, 2, 1, 3), shape=(1, 5, 2, 3))
    mixed = net.op("Reshape", mixed, np.array([1, 5, 6]), shape=(1, 5, 6))
    return net.op("MatMul", mixed, normal(net, 6, 4), shape=(1, 5, 4))


def test_attention_has_groups_behind_the_norm_of_queries_with_keys_and_of_values() -> None:
    net = Net(1, 5, 6)
    groups = groups_of(net, attention(net))
    assert sorted((g.channels, len(g.writers), len(g.readers)) for g in groups) == [
        (6, 1, 1),
        (6, 1, 3),
        (6, 2, 0),
    ]


def test_loud_queries_are_made_as_large_as_their_keys() -> None:
    net = Net(1, 5, 6)
    net.program.outputs = [attention(net)]
    (group,) = [g for g in find_groups(net.program) if not g.readers]
    seen = channel_statistics(net.program, watched([group]), net.samples(8))
    new = rescaled(net.program, {group: smoothing_factors(group, seen)})
    after = channel_statistics(new, watched([group]), net.samples(8))
    q, k = (after[t].largest for t in group.watched)
    # All factors have a mean of 1 together, which leaves one ratio for all channels.
    assert (q / k).max() / (q / k).min() == pytest.approx(1, rel=1e-3)


def test_statistics_lie_along_the_axis_of_channels() -> None:
    net = Net(2, 4, 6, 6)
    y = net.op("Relu", net.conv(net.x))
    net.program.outputs = [y]
    feeds = net.samples()
    values = np.stack([run(net.program, feed)[0] for feed in feeds])
    found = channel_statistics(net.program, {y: (1,)}, feeds)[y]
    np.testing.assert_allclose(found.largest, values.max(axis=(0, 1, 3, 4)), rtol=1e-5)
    np.testing.assert_allclose(found.mean, values.mean(axis=(0, 1, 3, 4)), rtol=1e-5)


def test_dead_and_constant_channels_give_finite_factors() -> None:
    net = Net(1, 4, 6, 6)
    y = net.op("Relu", net.conv(net.x))
    net.program.outputs = [net.conv(y)]
    weights = net.program.operators[0].inputs[1]
    weights.data = weights.data.copy()
    weights.data[:2] = 0
    (group,) = find_groups(net.program)
    seen = channel_statistics(net.program, watched([group]), net.samples())
    for factors in (smoothing_factors(group, seen), *equalizing_factors([group])):
        assert np.isfinite(factors).all()
        assert (factors > 0).all()


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_keep_their_answers(seed: int) -> None:
    net = Net(1, 4, 6, 6)
    net.rng = rng = np.random.default_rng(seed)
    kinds = [k for k in BETWEEN if k not in ("pool", "mean", "global", "transposed", "padded")]
    values = [net.conv(net.x)]
    for _ in range(9):
        x, other = (values[rng.integers(len(values))] for _ in range(2))
        kind = rng.integers(4)
        if kind == 0:
            y = net.op(str(rng.choice(["Add", "Mul", "Sub", "Max"])), x, other)
        elif kind == 1:
            y = net.op(str(rng.choice(["Sigmoid", "Neg", "Abs"])), x)
        else:
            y = BETWEEN[str(rng.choice(kinds))](net, x)
        values.append(y)
    groups_of(net, *(net.conv(y) for y in values[-3:]), seed=seed)
