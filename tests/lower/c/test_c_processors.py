"""Kernels for processors answer as LiteRT's own do, on boards that QEMU plays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.c.boards import BOARDS, missing, run_on
from benchmarks.c.layer_counts import counted
from tests.lower.c.c_answers import litert
from tests.lower.c.c_networks import Layers
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.tflite.reader import read_program
from thinflow.typing import Array

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

RELU = {"fused_activation_function": "RELU"}


def wide(net: Layers) -> None:
    """Convolutions with channels by fours: patches are read where they lie."""
    net.conv(16, 1, **RELU)
    net.conv(8, 3, 2, **RELU)
    net.conv(9, 3)
    net.conv(6, 1)


def odd(net: Layers) -> None:
    """Channels, pixels and filters that fill no block."""
    net.conv(5, 3, 2)
    net.conv(3, 3, 1, "VALID", **RELU)
    net.conv(7, 1)


def planes(net: Layers) -> None:
    """Depthwise, by three and by other windows."""
    net.depthwise(1, 3, 1, **RELU)
    net.depthwise(1, 3, 2)
    net.depthwise(1, 3, 1, "VALID")
    net.depthwise(1, 2, 1, **RELU)
    net.depthwise(1, 5, 2)


def few(net: Layers) -> None:
    """Depthwise, inside the picture, with few outputs; windows that lie down, and that stand."""
    net.depthwise(1, 3, 2, "VALID", **RELU)
    net.weighted("DEPTHWISE_CONV_2D", (1, 1, 2, 8), 3, (1, 3, 2, 8), padding="VALID", stride_h=1, stride_w=1)
    net.weighted("DEPTHWISE_CONV_2D", (1, 3, 1, 8), 3, (1, 1, 2, 8), padding="VALID", stride_h=1, stride_w=1)


def rows(net: Layers) -> None:
    """Fully connected, with and without whole blocks."""
    net.dense(24, **RELU)
    net.dense(20)
    net.dense(3)


NETWORKS: list[tuple[Callable[[Layers], None], tuple[int, ...]]] = [
    (wide, (1, 9, 7, 12)),
    (odd, (1, 11, 9, 3)),
    (planes, (1, 17, 9, 6)),
    (few, (1, 7, 7, 8)),
    (rows, (3, 40)),
]


def on_board(content: bytes, cpu: str, feeds: Array, folder: Path) -> tuple[Array, list[str]]:
    """What a network answers on a processor, and the kernels it called."""
    made = network(read_program(content), Options(cpu=cpu))
    size = made.block.outputs[0].size_bytes or 0
    flat = feeds.reshape(len(feeds), -1).view(np.uint8)
    run = run_on(BOARDS[cpu], Writer(made, "net").files(), "net", flat, size, folder)
    return run.answers.view(np.int8), [c.kernel for layer in made.layers for c in layer.calls]


def answers(content: bytes, feeds: Array) -> Array:
    """What LiteRT's reference kernels answer."""
    engine = litert(content, "litert")
    found = []
    for feed in feeds:
        engine.set_tensor(engine.get_input_details()[0]["index"], feed)
        engine.invoke()
        found.append(engine.get_tensor(engine.get_output_details()[0]["index"]).reshape(-1))
    return np.array(found)


@pytest.mark.parametrize("cpu", ["cortex-m0", "cortex-m4", "cortex-m55"])
@pytest.mark.parametrize(("build", "shape"), NETWORKS, ids=lambda x: getattr(x, "__name__", ""))
def test_layers(build: Callable[[Layers], None], shape: tuple[int, ...], cpu: str, tmp_path: Path) -> None:
    net = Layers(*shape, seed=5)
    build(net)
    feeds = np.random.default_rng(1).integers(-128, 128, (4, *shape)).astype(np.int8)
    got, kernels = on_board(net.content(), cpu, feeds, tmp_path)
    np.testing.assert_array_equal(got, answers(net.content(), feeds))
    ending = {"cortex-m0": "_scalar", "cortex-m4": "_dsp", "cortex-m55": "_mve"}[cpu]
    assert all(k.endswith(ending) for k in kernels)


def test_sums_of_floats_stay_in_registers_of_one_number() -> None:
    net = Layers(1, 4, 4, 64, kind="float")
    net.conv(32, 1)
    run = counted(net.content(), "cortex-m4")
    # Where they lie in memory a product takes six instructions.
    assert run.layers[0] < 3 * run.network.layers[0].macs
