"""Kernels for floats in wide registers answer as LiteRT's own do, within 1e-5 of the largest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.c.linux import MACHINES, run_on_linux
from tests.lower.c.c_answers import STRICT, differences, fed_and_wanted
from tests.lower.c.c_networks import RELU, Layers, windows
from thinflow.engines._c_library import compiler
from thinflow.engines._c_processor import processors_here
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.tflite.reader import read_program


def channels(net: Layers) -> None:
    """Depthwise: whole registers, and some beyond them; with a step, and dilated."""
    net.depthwise(1, 3, 2, **RELU)
    net.depthwise(1, 5, fused_activation_function="RELU6")
    net.depthwise(1, 3, dilation_h_factor=2, dilation_w_factor=2)


def rows(net: Layers) -> None:
    """Rows of more units than a register holds, and of fewer."""
    net.dense(150, **RELU)
    net.dense(3)


NETWORKS = [
    *((windows, (2, 11, 9, 3)), (channels, (2, 9, 7, 43)), (channels, (1, 5, 6, 96))),
    *((rows, (1, 43)), (rows, (13, 43))),
]


def _content(build: Callable[[Layers], None], shape: tuple[int, ...], cpu: str) -> bytes:
    """A file of which every layer has a kernel for wide registers."""
    net = Layers(*shape, kind="float", seed=3)
    build(net)
    made = network(read_program(net.content()), Options(cpu=cpu))
    kernels = [call.kernel for layer in made.layers for call in layer.calls]
    assert all(kernel.endswith("_float_lanes") for kernel in kernels)
    return net.content()


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(("build", "shape"), NETWORKS, ids=lambda x: getattr(x, "__name__", ""))
def test_here(build: Callable[[Layers], None], shape: tuple[int, ...], cpu: str) -> None:
    content = _content(build, shape, cpu)
    if cpu not in processors_here():
        pytest.skip(f"this machine is no {cpu}")
    assert differences(content, cpu=cpu, runs=1) == []


@pytest.mark.parametrize(
    "machine", ["cortex-a53", pytest.param("cortex-a76 in 32 bits", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("build", "shape"), NETWORKS, ids=lambda x: getattr(x, "__name__", ""))
def test_cortex_a(
    build: Callable[[Layers], None], shape: tuple[int, ...], machine: str, tmp_path: Path
) -> None:
    cpu = machine.partition(" ")[0]
    content = _content(build, shape, cpu)
    if why := MACHINES[machine].missing():
        pytest.skip(why)
    made = network(read_program(content), Options(cpu=cpu))
    feeds, wanted = fed_and_wanted(content)
    raw, size = feeds.reshape(len(feeds), -1).view(np.uint8), made.block.outputs[0].size_bytes or 0
    files = Writer(made, "net").files()
    run = run_on_linux(MACHINES[machine], files, "net", raw, size, tmp_path, flags=STRICT, is_counted=False)
    got = run.answers.view(np.float32).reshape(wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_what_is_computed_and_what_a_register_holds_none_of_takes_portable_c() -> None:
    few, eight = Layers(1, 6, 6, 5, kind="float"), Layers(1, 6, 6, 8, kind="float")
    few.depthwise(1, 3)
    eight.depthwise(1, 3)
    groups = Layers(1, 6, 6, 8, kind="float")
    groups.weighted("CONV_2D", (6, 3, 3, 4), 0, (1, 6, 6, 6), padding="SAME", stride_h=1, stride_w=1)
    for net, cpu, wanted in (
        (few, "cortex-a53", "depthwise_conv_2d_float"),
        # Registers of AVX2 would do, but a network has those of one width.
        (eight, "x86-64-v4", "depthwise_conv_2d_float"),
        (eight, "x86-64-v3", "depthwise_float_lanes"),
        (groups, "cortex-a53", "conv_2d_float"),
    ):
        made = network(read_program(net.content()), Options(cpu=cpu))
        assert [call.kernel for layer in made.layers for call in layer.calls] == [wanted]
