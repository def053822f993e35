"""Per-channel arithmetic in one pass over memory: batch norms that no convolution in front can take.

XNNPACK runs a product, a sum and the activation of the sum one after the other, each from memory to memory. A
depthwise convolution of one tap computes all of it in one pass: 0.3 to 0.9 times the time, measured over 3 to
1024 channels on one and two threads. A sum or a product alone would win nothing where LiteRT runs without
XNNPACK, so those stay.
"""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import FLOAT
from thinflow.lower.tflite.program import Operator, Tensor
from thinflow.lower.tflite.wiring import Match, Rewrite, activation, new_constant, plain
from thinflow.program.fusion import computed, const, need, only_if, op, value
from thinflow.typing import Array


class ToDepthwise(Rewrite):
    """relu(x * s + b) -> depthwise convolution by s [1,1,1,channels] with bias b and the activation.

    x [n,h,w,channels]. One of s and b may be a single number; two would be quick as they are.
    """

    patterns = (
        op(
            "ADD",
            op("MUL", computed("x"), const("factor"), any_order=True, where=plain),
            const("addend"),
            any_order=True,
        ),
    )

    def replace(self, m: Match) -> None:
        x, factor, addend = m.tensor("x"), m.array("factor"), m.array("addend")
        channels = _channels(x)
        only_if(channels)
        s, b = _per_channel(factor, channels or 0), _per_channel(addend, channels or 0)
        need(s is not None and b is not None, "factor and addend differ along more than the channels")
        only_if(not factor.size == addend.size == 1 != channels)
        assert s is not None
        assert b is not None
        m.wiring.set_input(m.head, 0, x)
        m.wiring.set_input(m.head, 1, new_constant(f"{m.output.name}/weights", s.reshape(1, 1, 1, -1)))
        m.wiring.set_input(m.head, 2, new_constant(f"{m.output.name}/bias", b))
        _become_one_tap(m.head, (1, 1))


class PoolToDepthwise(Rewrite):
    """Pooling over windows of one pixel, which only skips pixels -> depthwise convolution by ones.

    XNNPACK refuses such pools; left to LiteRT's own kernels, each would cut the model in two.
    """

    patterns = (op("MAX_POOL_2D|AVERAGE_POOL_2D", value("x")),)

    def replace(self, m: Match) -> None:
        options = m.head.options
        window = options["filter_height"], options["filter_width"]
        strides = options["stride_h"], options["stride_w"]
        only_if(window == (1, 1) and strides != (1, 1))
        channels = _channels(m.tensor("x"))
        need(channels, "the channels are not known, or not float32")
        # One tap of weight 1 is the pixel itself, exactly.
        ones = np.ones((1, 1, 1, channels or 0), np.float32)
        m.wiring.set_input(m.head, 1, new_constant(f"{m.output.name}/weights", ones))
        zeros = new_constant(f"{m.output.name}/bias", np.zeros(channels or 0, np.float32))
        m.wiring.set_input(m.head, 2, zeros)
        _become_one_tap(m.head, strides)


def _become_one_tap(operator: Operator, strides: tuple[int, int]) -> None:
    """Turn an operator whose inputs are x, weights and bias into the convolution; its activation stays."""
    operator.options = {
        "padding": "VALID",
        "stride_h": strides[0],
        "stride_w": strides[1],
        "dilation_h_factor": 1,
        "dilation_w_factor": 1,
        "depth_multiplier": 1,
        "fused_activation_function": activation(operator),
    }
    operator.code = "DEPTHWISE_CONV_2D"


def _channels(x: Tensor) -> int | None:
    """The last size of a float32 image batch; None if it is something else or unknown."""
    if x.dtype is not FLOAT or x.shape is None or len(x.shape) != 4:
        return None
    return x.shape[-1] or None


def _per_channel(constant: Array, channels: int) -> Array | None:
    """A constant as float32 [channels] if it differs by channel only and broadcasts to no larger shape."""
    if constant.dtype != np.float32 or constant.ndim > 4 or constant.size not in (1, channels):
        return None
    if constant.size != 1 and constant.shape[-1] != channels:
        return None
    # A copy, since a file needs all of its numbers: a broadcast view has one.
    return np.broadcast_to(constant.reshape(-1), (channels,)).copy()
