"""Kernels that keep one sum in a register answer as LiteRT's own do: they are portable C, and run here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.lower.c.c_answers import differences
from tests.lower.c.c_networks import RELU, Layers
from thinflow.engines._c_library import compiler
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.tflite.reader import read_program

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


def windows(net: Layers) -> None:
    """Convolutions of filters and pixels that fill no block, in place and elsewhere."""
    net.conv(5, 3, 2, **RELU)
    net.conv(13, 1)
    net.conv(7, 1, **RELU)
    net.conv(9, 3, 1, "VALID")


def planes(net: Layers) -> None:
    """Depthwise, with a border and without one, in place and elsewhere."""
    net.depthwise(1, 3, 1, **RELU)
    net.depthwise(1, 3, 2)
    net.depthwise(1, 5, 1)
    net.depthwise(1, 2, 1, "VALID", **RELU)


def along_time(net: Layers) -> None:
    """Windows over pictures of one column."""
    net.depthwise(1, 1, 1, **RELU)
    net.weighted("DEPTHWISE_CONV_2D", (1, 4, 1, 6), 3, (1, 8, 1, 6), padding="VALID", stride_h=1, stride_w=1)
    net.weighted("DEPTHWISE_CONV_2D", (1, 3, 1, 6), 3, (1, 4, 1, 6), padding="SAME", stride_h=2, stride_w=1)


def rows(net: Layers) -> None:
    """One row, and depths that are no multiple of what is unrolled."""
    net.dense(21, **RELU)
    net.dense(9)


NETWORKS = [
    (windows, (2, 9, 7, 3)),
    (planes, (2, 11, 13, 6)),
    (along_time, (1, 11, 1, 6)),
    (rows, (1, 43)),
    (rows, (3, 16)),
]


@pytest.mark.parametrize("cpu", ["cortex-m0", "cortex-m3", "riscv32imc"])
@pytest.mark.parametrize(("build", "shape"), NETWORKS, ids=lambda x: getattr(x, "__name__", ""))
def test_layers(build: Callable[[Layers], None], shape: tuple[int, ...], cpu: str) -> None:
    net = Layers(*shape, seed=3)
    build(net)
    made = network(read_program(net.content()), Options(cpu=cpu))
    kernels = [call.kernel for layer in made.layers for call in layer.calls]
    assert all(kernel.endswith("_scalar") for kernel in kernels)
    assert differences(net.content(), cpu=cpu) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_layers_of_any_size(seed: int) -> None:
    rng = np.random.default_rng(seed)
    height, width, depth = (int(n) for n in rng.integers(1, 10, 3))
    net = Layers(int(rng.integers(1, 3)), height, width, depth, seed=seed)
    window, step = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    padding = "SAME" if window > min(height, width) else str(rng.choice(["SAME", "VALID"]))
    activation = {"fused_activation_function": str(rng.choice(["NONE", "RELU", "RELU6"]))}
    if seed % 2:
        net.conv(int(rng.integers(1, 20)), window, step, padding, **activation)
    else:
        net.depthwise(1, window, step, padding, **activation)
    for cpu in ("cortex-m0", "cortex-m3", "riscv32imc"):
        assert differences(net.content(), cpu=cpu, runs=2) == []
