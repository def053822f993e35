"""Channels that training left dead cost nothing, and change no answer."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.c.c_answers import litert
from tests.lower.c.c_networks import Layers
from thinflow.engines._c_library import Library, compiler
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.tflite.reader import read_program

RELU = {"fused_activation_function": "RELU"}


def half_dead(last_window: int) -> bytes:
    """A convolution, a depthwise and another one: two filters of the first and two of the second are zero."""
    net = Layers(1, 6, 5, 3, seed=3)
    net.conv(8, **RELU)
    net.depthwise(1, **RELU)
    net.conv(6, last_window)
    first, middle, _ = net.block.operators
    for tensor, index in ((first.inputs[1], np.s_[2:4]), (middle.inputs[1], np.s_[..., 5:7])):
        assert tensor is not None
        tensor.data[index] = 0
    assert first.inputs[2] is not None
    first.inputs[2].data[2:4] = -3000
    return net.content()


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("window", [1, 3])
def test_constant_channels_are_dropped(window: int) -> None:
    content = half_dead(window)
    made, kept = (network(read_program(content), Options(keep_all=k)) for k in (False, True))
    # Over a border a window of three sees the zero point instead, which these channels are not.
    assert (made.macs < kept.macs) == (window == 1)
    compiled = Library(made, Writer(made, "net").files(), "net")
    engine, rng = litert(content, "litert"), np.random.default_rng(0)
    for _ in range(4):
        feed = rng.integers(-128, 128, (1, 6, 5, 3)).astype(np.int8)
        engine.set_tensor(engine.get_input_details()[0]["index"], feed)
        engine.invoke()
        wanted = engine.get_tensor(engine.get_output_details()[0]["index"])
        np.testing.assert_array_equal(compiled.run([feed])[0], wanted)
