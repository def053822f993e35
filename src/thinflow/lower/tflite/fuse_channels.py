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
from thinflow.lower.tflite.wiring import Wiring, activation, new_constant
from thinflow.program.wiring import with_constant
from thinflow.typing import Array


def to_depthwise(wiring: Wiring, operator: Operator) -> None:
    """relu(x * s + b) -> depthwise convolution by s [1,1,1,channels] with bias b and the activation.

    x [n,h,w,channels]. One of s and b may be a single number; two would be quick as they are.
    """
    scaled, addend = with_constant(operator)
    product = wiring.sole_producer(scaled, "MUL")
    if product is None or activation(product) != "NONE":
        return
    x, factor = with_constant(product)
    channels = _channels(x)
    if x is None or factor is None or addend is None or channels is None:
        return
    s, b = _per_channel(factor, channels), _per_channel(addend, channels)
    if s is None or b is None or factor.size == addend.size == 1 != channels:
        return
    name = operator.outputs[0].name
    wiring.set_input(operator, 0, x)
    wiring.set_input(operator, 1, new_constant(f"{name}/weights", s.reshape(1, 1, 1, -1)))
    wiring.set_input(operator, 2, new_constant(f"{name}/bias", b))
    _become_one_tap(operator, (1, 1))


def pool_to_depthwise(wiring: Wiring, operator: Operator) -> None:
    """Pooling over windows of one pixel, which only skips pixels -> depthwise convolution by ones.

    XNNPACK refuses such pools; left to LiteRT's own kernels, each would cut the model in two.
    """
    x, options = operator.inputs[0], operator.options
    window = options["filter_height"], options["filter_width"]
    strides = options["stride_h"], options["stride_w"]
    channels = _channels(x)
    if channels is None or window != (1, 1) or strides == (1, 1):
        return
    name = operator.outputs[0].name
    ones = np.ones((1, 1, 1, channels), np.float32)
    wiring.set_input(operator, 1, new_constant(f"{name}/weights", ones))
    wiring.set_input(operator, 2, new_constant(f"{name}/bias", np.zeros(channels, np.float32)))
    _become_one_tap(operator, strides)


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


def _channels(x: Tensor | None) -> int | None:
    """The last size of a float32 image batch; None if it is something else or unknown."""
    if x is None or x.dtype is not FLOAT or x.shape is None or len(x.shape) != 4:
        return None
    return x.shape[-1] or None


def _per_channel(constant: Array, channels: int) -> Array | None:
    """A constant as float32 [channels] if it differs by channel only and broadcasts to no larger shape."""
    if constant.dtype != np.float32 or constant.ndim > 4 or constant.size not in (1, channels):
        return None
    if constant.size != 1 and constant.shape[-1] != channels:
        return None
    return np.broadcast_to(constant.reshape(-1), (channels,)).copy()
