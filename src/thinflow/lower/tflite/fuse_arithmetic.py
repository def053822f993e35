"""Fusion of arithmetic: activations, biases and factors move into the operators beside them."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import FLOAT
from thinflow.lower.tflite.program import Operator, Tensor
from thinflow.lower.tflite.wiring import Wiring, activation, new_constant
from thinflow.program.wiring import is_number, keeps_shape, with_constant
from thinflow.typing import Array

_CAN_ACTIVATE = frozenset(
    """CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV CONV_3D FULLY_CONNECTED ADD SUB MUL DIV MAX_POOL_2D
    AVERAGE_POOL_2D""".split()  # noqa: SIM905
)
# op -> (input number of the weights, of the bias, axis of the weights that counts output channels)
_WEIGHTED = {
    "CONV_2D": (1, 2, 0),
    "DEPTHWISE_CONV_2D": (1, 2, 3),
    "FULLY_CONNECTED": (1, 2, 0),
    "TRANSPOSE_CONV": (1, 3, 0),
    "CONV_3D": (1, 2, 4),
}
_TINY = 1e-30  # below, the reciprocal loses digits or overflows


def fuse_activation(wiring: Wiring, operator: Operator) -> None:
    """relu(conv(x)) -> conv with a fused activation."""
    before = wiring.sole_producer(operator.inputs[0], *_CAN_ACTIVATE)
    if before is None or activation(before) != "NONE" or before.outputs[0].dtype is not FLOAT:
        return
    before.options["fused_activation_function"] = operator.code
    wiring.absorb(operator, before)


def fuse_relu6(wiring: Wiring, operator: Operator) -> None:
    """min(relu(x), 6) -> relu6(x)."""
    x, limit = with_constant(operator)
    if (
        x is None
        or limit is None
        or limit.size != 1
        or float(limit.reshape(())) != 6.0
        or limit.ndim > len(x.shape or ())
    ):
        return
    relu = wiring.sole_producer(x, "RELU")
    if relu is not None:
        relu.code = "RELU6"
        wiring.absorb(operator, relu)
        return
    before = wiring.sole_producer(x, *_CAN_ACTIVATE)
    if before is not None and activation(before) == "RELU":
        before.options["fused_activation_function"] = "RELU6"
        wiring.absorb(operator, before)


def fuse_bias(wiring: Wiring, operator: Operator) -> None:
    """conv(x) + b -> conv(x, b)      b [channels] or one number."""
    before, addend = _channel_operand(wiring, operator)
    if before is None or addend is None:
        return
    place = _WEIGHTED[before.code][1]
    bias = before.inputs[place] if place < len(before.inputs) else None
    if bias is not None and not bias.is_constant:
        return
    old = None if bias is None else np.asarray(bias.array())
    total = addend if old is None or not old.any() else old + addend
    wiring.set_input(before, place, new_constant(f"{operator.outputs[0].name}/bias", total))
    before.options["fused_activation_function"] = activation(operator)
    wiring.absorb(operator, before)


def fuse_scale(wiring: Wiring, operator: Operator) -> None:
    """conv(x, w, b) * s -> conv(x, w * s, b * s)      s [channels] or one number."""
    before, factor = _channel_operand(wiring, operator)
    if before is None or factor is None:
        return
    at_weights, at_bias, axis = _WEIGHTED[before.code]
    weights = before.inputs[at_weights]
    bias = before.inputs[at_bias] if at_bias < len(before.inputs) else None
    if weights is None or not weights.is_constant or (bias is not None and not bias.is_constant):
        return
    array = np.asarray(weights.array())
    along = [1] * array.ndim
    along[axis] = -1
    name = operator.outputs[0].name
    wiring.set_input(before, at_weights, new_constant(f"{name}/weights", array * factor.reshape(along)))
    if bias is not None and np.asarray(bias.array()).any():
        wiring.set_input(before, at_bias, new_constant(f"{name}/bias", np.asarray(bias.array()) * factor))
    before.options["fused_activation_function"] = activation(operator)
    wiring.absorb(operator, before)


def _channel_operand(wiring: Wiring, operator: Operator) -> tuple[Operator | None, Array | None]:
    """The convolution in front of an operator and its constant operand as [channels]; else (None, None)."""
    x, constant = with_constant(operator)
    before = wiring.sole_producer(x, *_WEIGHTED)
    if before is None or constant is None or x is None or x.shape is None or activation(before) != "NONE":
        return None, None
    at_weights, _, axis = _WEIGHTED[before.code]
    weights = before.inputs[at_weights]
    channels = None if weights is None or weights.shape is None else weights.shape[axis]
    if channels is None or constant.dtype != np.float32 or constant.ndim > len(x.shape):
        return None, None
    if constant.size == 1:
        return before, np.full(channels, constant.reshape(()), np.float32)
    if constant.size != channels or constant.shape[-1] != channels:
        return None, None
    return before, constant.reshape(-1)


def fuse_input_scale(wiring: Wiring, operator: Operator) -> None:
    """conv(x * s, w) -> conv(x, w * s)      s [channels of x] or one number; a border of zeros stays."""
    scale = wiring.sole_producer(operator.inputs[0], "MUL")
    weights = operator.inputs[1]
    if scale is None or activation(scale) != "NONE" or weights is None or not weights.is_constant:
        return
    x, factor = with_constant(scale)
    array = np.asarray(weights.array())
    if (
        x is None
        or factor is None
        or not keeps_shape(x, factor)
        or factor.dtype != np.float32
        or array.dtype != np.float32
    ):
        return
    per_input = operator.code != "DEPTHWISE_CONV_2D"  # a depthwise filter's last axis counts outputs
    if factor.size != 1 and (
        not per_input or factor.size != factor.shape[-1] or factor.size != array.shape[-1]
    ):
        return
    wiring.set_input(
        operator, 1, new_constant(f"{operator.outputs[0].name}/weights", array * factor.reshape(-1))
    )
    wiring.bypass(scale, x)


def merge_constants(wiring: Wiring, operator: Operator) -> None:
    """(x + a) + b -> x + (a + b), and so for products."""
    x, second = with_constant(operator)
    before = wiring.sole_producer(x, operator.code)
    if before is None or second is None or activation(before) != "NONE":
        return
    source, first = with_constant(before)
    if source is None or first is None or source.dtype is not FLOAT or not keeps_shape(source, first):
        return
    if keeps_shape(source, second):
        merged = first + second if operator.code == "ADD" else first * second
        wiring.set_input(operator, 0, source)
        wiring.set_input(operator, 1, new_constant(f"{operator.outputs[0].name}/const", merged))


def invert_constant(wiring: Wiring, operator: Operator) -> None:
    """x - c -> x + -c and x / c -> x * 1/c, which then merge with their neighbours."""
    y = operator.inputs[1]
    if y is None or not y.is_constant or y.dtype is not FLOAT:
        return
    array = np.asarray(y.array())
    if operator.code == "DIV" and not (np.isfinite(array).all() and (np.abs(array) > _TINY).all()):
        return
    inverse = -array if operator.code == "SUB" else np.float32(1) / array
    operator.code = "ADD" if operator.code == "SUB" else "MUL"
    operator.options.pop("pot_scale_int16", None)
    wiring.set_input(operator, 1, new_constant(f"{operator.outputs[0].name}/const", inverse))


def drop_neutral(wiring: Wiring, operator: Operator) -> None:
    """x + 0 and x * 1."""
    x, constant = with_constant(operator)
    neutral = 0 if operator.code == "ADD" else 1
    if x is None or constant is None or activation(operator) != "NONE":
        return
    if (constant == neutral).all() and keeps_shape(x, constant):
        wiring.bypass(operator, x)


def fuse_hard_swish(wiring: Wiring, operator: Operator) -> None:
    """x * (relu6(x + 3) / 6) -> hard_swish(x), with the sixth anywhere."""
    if activation(operator) != "NONE" or operator.outputs[0].dtype is not FLOAT:
        return
    for x, gate in (operator.inputs, operator.inputs[::-1]):
        sixth = wiring.sole_producer(gate, "MUL")
        if x is None or sixth is None or activation(sixth) != "NONE":
            continue
        inner, factor = with_constant(sixth)
        if factor is not None and is_number(factor, 1 / 6) and _is_gate_of(wiring, inner, x):
            wiring.become(operator, "HARD_SWISH", x)
            return
    product, factor = with_constant(operator)
    before = wiring.sole_producer(product, "MUL")
    if (
        before is not None
        and factor is not None
        and is_number(factor, 1 / 6)
        and activation(before) == "NONE"
    ):
        for x, gate in (before.inputs, before.inputs[::-1]):
            if x is not None and _is_gate_of(wiring, gate, x):
                wiring.become(operator, "HARD_SWISH", x)
                return


def _is_gate_of(wiring: Wiring, gate: Tensor | None, x: Tensor) -> bool:
    """Whether `gate` is relu6(x + 3) and read nowhere else."""
    shifted = wiring.sole_producer(gate, "ADD")
    if shifted is None or activation(shifted) != "RELU6":
        return False
    source, three = with_constant(shifted)
    return source is x and three is not None and is_number(three, 3)


def fuse_leaky_relu(wiring: Wiring, operator: Operator) -> None:
    """max(x, a * x) -> leaky_relu(x, a)      0 <= a <= 1."""
    for x, slope in (operator.inputs, operator.inputs[::-1]):
        scaled = wiring.sole_producer(slope, "MUL")
        if x is None or x.dtype is not FLOAT or scaled is None or activation(scaled) != "NONE":
            continue
        source, factor = with_constant(scaled)
        if source is x and factor is not None and factor.size == 1 and keeps_shape(x, factor):
            alpha = float(factor.reshape(()))
            if 0 <= alpha <= 1:
                wiring.become(operator, "LEAKY_RELU", x)
                operator.options["alpha"] = alpha
                return
