"""Made-up networks of single layers in a row, to count what each kernel takes for each thing it does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.lower.c.c_networks import Layers
from tests.lower.c.front_ends import front_end

_MOST = 24_000
"""Elements of an activation: a board of QEMU has room for some of floats."""


def made_networks(kind: str, count: int) -> Iterator[bytes]:
    """Files of random layers of random sizes.

    Args:
        kind: "int8" or "float".
        count: of files.
    """
    for seed in range(count):
        rng = np.random.default_rng(seed)
        height, width = (int(n) for n in rng.integers(6, 34, 2))
        net = Layers(1, height, width, int(rng.choice([1, 1, 3, 4, 8, 13, 16])), kind=kind, seed=seed)
        for _ in range(int(rng.integers(5, 10))):
            _add(net, rng)
        yield _finished(net, rng)


def made_front_ends(count: int) -> Iterator[bytes]:
    """Files of front ends of sound of random sizes: what hears it, as TFLite Micro has it."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        yield front_end(int(rng.integers(100, 1025)), int(rng.integers(8, 65)), seed)


def _add(net: Layers, rng: np.random.Generator) -> None:
    """A layer that fits behind the last."""
    _, height, width, depth = net.sizes()
    step = int(rng.choice([1, 1, 2])) if min(height, width) > 4 else 1
    window = int(rng.choice([1, 1, 3, 3, 5])) if min(height, width) >= 5 else 1
    window = 7 if depth < 4 and min(height, width) > 8 and rng.random() < 0.3 else window
    padding = str(rng.choice(["SAME", "SAME", "VALID"]))
    most = max(1, _MOST * step * step // (height * width))
    what = rng.choice(["conv", "depthwise", "pool", "add", "mul", "act", "conv", "depthwise"])
    relu = {"fused_activation_function": str(rng.choice(["NONE", "RELU", "RELU6"]))}
    if what in ("conv", "depthwise") and rng.random() < 0.25:
        _along_time(net, rng, most)
    elif what == "conv":
        filters = min(int(rng.choice([4, 6, 8, 12, 16, 24, 32, 48, 64])), most)
        net.conv(filters, window, step, padding, **relu)
    elif what == "depthwise" and window > 1:
        # Many channels out of one: what models of sound begin with.
        several = min(int(rng.choice([2, 4, 8])), most // depth) if depth <= 4 and rng.random() < 0.8 else 1
        net.depthwise(max(several, 1), window, step, padding, **relu)
    elif what == "pool" and min(height, width) >= 4:
        net.pool(str(rng.choice(["MAX_POOL_2D", "AVERAGE_POOL_2D"])), int(rng.integers(2, 4)), step)
    elif what in ("add", "mul"):
        net.binary(what.upper(), net.last, net.last, **(relu if what == "add" else {}))
    elif what == "act":
        net.unary(str(rng.choice(["LOGISTIC", "TANH"])))


def _along_time(net: Layers, rng: np.random.Generator, most: int) -> None:
    """A window that is no square, as in networks of sound."""
    _, height, width, depth = net.sizes()
    window = min(int(rng.integers(2, 11)), height), min(int(rng.choice([1, 1, 4, 8])), width)
    out = (1, height - window[0] + 1, width - window[1] + 1)
    options = {"padding": "VALID", "stride_h": 1, "stride_w": 1}
    if rng.random() < 0.5:
        several = min(int(rng.choice([4, 8])), max(most // depth, 1)) if depth == 1 else 1
        shape = (1, *window, depth * several)
        net.weighted("DEPTHWISE_CONV_2D", shape, 3, (*out, shape[3]), depth_multiplier=several, **options)
    else:
        filters = min(int(rng.choice([8, 16, 32])), most)
        net.weighted("CONV_2D", (filters, *window, depth), 0, (*out, filters), **options)


def _finished(net: Layers, rng: np.random.Generator) -> bytes:
    """The end of a network: a mean, layers that are fully connected, and a softmax."""
    way = rng.integers(3)
    if way == 0:
        net.mean()
    elif way == 1:
        _, height, width, _ = net.sizes()
        net.pool("AVERAGE_POOL_2D", min(height, width))
    size = int(np.prod(net.sizes()))
    if size > 4096:
        net.mean()
        size = int(np.prod(net.sizes()))
    net.reshaped(1, size)
    for units in rng.choice([4, 7, 10, 16, 33, 64, 100, 128], 3):
        net.dense(int(units), fused_activation_function=str(rng.choice(["NONE", "RELU"])))
    net.softmax()
    return net.content()
