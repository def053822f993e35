"""Kernels for the wide registers of this machine answer as LiteRT's own do, to the last bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.c.c_answers import differences
from tests.lower.c.c_networks import Layers, planes, products, sums, windows
from thinflow.engines._c_library import compiler
from thinflow.engines._c_processor import processors_here
from thinflow.lower.c.convert import network
from thinflow.lower.c.forms import NotHere
from thinflow.lower.c.lines import Stairs, line_of
from thinflow.lower.c.options import Options
from thinflow.tflite.reader import read_program

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
CPUS = ["x86-64-v3", "x86-64-v4"]
NETWORKS = [(windows, (2, 11, 9, 3)), (planes, (1, 17, 16, 1)), (sums, (3, 43)), (products, (2, 3, 5, 43))]


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("rounding", ["litert", pytest.param("xnnpack", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("build", "shape"), NETWORKS, ids=lambda x: getattr(x, "__name__", ""))
def test_layers(build: Callable[[Layers], None], shape: tuple[int, ...], rounding: str, cpu: str) -> None:
    if cpu not in processors_here():
        pytest.skip(f"this machine is no {cpu}")
    net = Layers(*shape, seed=3)
    build(net)
    made = network(read_program(net.content()), Options(rounding, cpu))
    assert all(call.kernel.endswith("_lanes") for layer in made.layers for call in layer.calls)
    assert differences(net.content(), rounding, cpu=cpu) == []


@st.composite
def layers(draw: st.DrawFn) -> bytes:
    """A layer of odd sizes, with tails, steps and dilations."""
    size = draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(1, 21))
    net = Layers(1, *size, seed=draw(st.integers(0, 99)))
    window, step = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    padding = "SAME" if window > min(size[:2]) else draw(st.sampled_from(["SAME", "VALID"]))
    options = {"dilation_w_factor": draw(st.integers(1, 2))} if padding == "SAME" and step == 1 else {}
    activation = draw(st.sampled_from(["NONE", "RELU", "RELU6"]))
    if draw(st.booleans()):
        net.conv(
            draw(st.integers(1, 90)), window, step, padding, fused_activation_function=activation, **options
        )
    else:
        net.depthwise(1, window, step, padding, fused_activation_function=activation, **options)
    return net.content()


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(layers())
def test_layers_of_any_size(content: bytes) -> None:
    for cpu in processors_here()[:-1]:
        assert differences(content, cpu=cpu, runs=1) == []


@pytest.mark.parametrize(
    ("rounding", "least"), [("once", -128), ("twice", -128), ("twice", -7), ("float", -128)]
)
def test_a_line_answers_as_the_integers_do_for_all_sums(rounding: str, least: int) -> None:
    factors = np.random.default_rng(2).uniform(0.002, 0.1, 40)
    stairs = Stairs(factors, rounding, -7, (least, 127))
    every = np.tile(np.arange(-20000, 20001), (40, 1))
    # Each by itself: what has no line raises.
    wanted, met = stairs.at(every), 0
    for n, factor in enumerate(factors):
        one = Stairs(np.array([factor]), rounding, -7, (least, 127))
        try:
            scale, above, below, taken = line_of(one, every[n, :1], every[n, -1:])
        except NotHere:
            continue
        sums = every[n] - taken
        real = sums * np.float64(scale) + np.where(sums < 0, below, above)
        got = np.clip(np.rint(real.astype(np.float32)), *one.limits)
        np.testing.assert_array_equal(got, wanted[n])
        met += 1
    assert met > 30
