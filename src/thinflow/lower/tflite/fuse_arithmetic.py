"""Fusion of arithmetic: activations, biases and factors move into the operators beside them, or into one."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import FLOAT
from thinflow.lower.tflite.wiring import Match, Rewrite, activation, is_plain, new_constant, plain
from thinflow.program.fusion import Step, computed, const, need, only_if, op, value
from thinflow.program.wiring import keeps_shape, trailing_row
from thinflow.tflite.model import Operator, Tensor
from thinflow.typing import Array

# Their options have a fused_activation_function in the schema, and their kernels compute it.
_CAN_ACTIVATE = (
    "CONV_2D|DEPTHWISE_CONV_2D|TRANSPOSE_CONV|CONV_3D|FULLY_CONNECTED|ADD|SUB|MUL|DIV|MAX_POOL_2D"
    "|AVERAGE_POOL_2D"
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
_BROADCASTS = "the constant broadcasts to another shape"


def _behind(layers: str) -> tuple[Step, Step]:
    """What a plain layer gives, and that in another shape."""
    layer = op(layers, name="before", where=plain)
    return layer, op("RESHAPE|SQUEEZE|EXPAND_DIMS", layer, name="reshape")


class FuseActivation(Rewrite):
    """relu(conv(x)) -> conv with a fused activation."""

    patterns = tuple(op("RELU|RELU6|RELU_N1_TO_1", x) for x in _behind(_CAN_ACTIVATE))

    def replace(self, m: Match) -> None:
        before = m.operator("before")
        need(before.outputs[0].dtype is FLOAT, "LiteRT fuses activations of float32 only")
        before.options["fused_activation_function"] = m.head.code
        m.wiring.absorb(m.head, m.operators.get("reshape", before))


class FuseRelu6(Rewrite):
    """min(relu(x), 6) -> relu6(x)."""

    patterns = (
        op("MINIMUM", op("RELU", name="relu"), const("limit"), any_order=True),
        op(
            "MINIMUM",
            op(_CAN_ACTIVATE, name="before", when=lambda o: activation(o) == "RELU"),
            const("limit"),
            any_order=True,
        ),
    )

    def replace(self, m: Match) -> None:
        limit = m.array("limit")
        need(limit.size == 1 and float(limit.reshape(())) == 6.0, "the limit is not 6, as RELU6 has it")
        if (relu := m.operators.get("relu")) is not None:
            # A limit of more axes than x would give the result more of them.
            need(limit.ndim <= len(relu.outputs[0].shape or ()), _BROADCASTS)
            relu.code = "RELU6"
            m.wiring.absorb(m.head, relu)
            return
        before = m.operator("before")
        need(limit.ndim <= len(before.outputs[0].shape or ()), _BROADCASTS)
        before.options["fused_activation_function"] = "RELU6"
        m.wiring.absorb(m.head, before)


class FuseLeakyRelu(Rewrite):
    """max(x, a * x) -> leaky_relu(x, a)      0 <= a <= 1."""

    patterns = (
        op(
            "MAXIMUM",
            computed("x"),
            op("MUL", computed("x"), const("slope"), any_order=True, where=plain),
            any_order=True,
        ),
    )

    def replace(self, m: Match) -> None:
        x, slope = m.tensor("x"), m.array("slope")
        need(x.dtype is FLOAT, f"LEAKY_RELU takes float32, not {x.dtype}")
        need(slope.size == 1 and keeps_shape(x, slope), "the slope is not one number")
        alpha = float(slope.reshape(()))
        # Otherwise the greater of both is not x for positive numbers, or not a x for negative ones.
        need(0 <= alpha <= 1, f"a slope of {alpha:g} is not between 0 and 1")
        m.wiring.become(m.head, "LEAKY_RELU", x, alpha=alpha)


class FusePrelu(Rewrite):
    """relu(x) + a * relu(-x) -> prelu(x, -a), and relu(x) + a * (x - |x|) -> prelu(x, 2 a)."""

    patterns = tuple(
        op(
            "ADD",
            op("RELU", value("x")),
            op("MUL", part, const("factors"), any_order=True, where=plain),
            any_order=True,
            when=is_plain,
        )
        for part in (
            op("RELU", op("NEG", value("x")), name="negative"),
            op("SUB", value("x"), op("ABS", value("x")), where=plain),
        )
    )

    def replace(self, m: Match) -> None:
        x, factors = m.tensor("x"), m.array("factors")
        # For x < 0 the first is a * -x, the second a * (x - -x) = 2 a x.
        slopes = np.asarray(-factors if "negative" in m.operators else 2 * factors, factors.dtype)
        need(_fits(x, slopes), "the kernel takes slopes of no more axes than x, of its sizes or 1")
        alpha = new_constant(f"{m.output.name}/slopes", slopes)
        m.wiring.become(m.head, "PRELU", x, alpha)


def _fits(x: Tensor, slopes: Array) -> bool:
    """True if the kernel of PRELU takes the slopes: no more axes than x, and sizes that are x's or 1."""
    return slopes.ndim > 0 and keeps_shape(x, slopes)


def _take_in(m: Match) -> None:
    """Let the layer, or the change of its shape, give what the match ends in."""
    m.operator("before").options["fused_activation_function"] = activation(m.head)
    m.wiring.absorb(m.head, m.operators.get("reshape") or m.operator("before"))


class FuseBias(Rewrite):
    """conv(x) + b -> conv(x, b)      b [channels] or one number."""

    patterns = tuple(op("ADD", x, const("addend"), any_order=True) for x in _behind("|".join(_WEIGHTED)))

    def replace(self, m: Match) -> None:
        before, name = m.operator("before"), m.output.name
        addend = _per_channel(m, m.array("addend"))
        place = _WEIGHTED[before.code][1]
        bias = before.inputs[place] if place < len(before.inputs) else None
        need(bias is None or bias.is_constant, "the layer's bias is computed while the model runs")
        old = None if bias is None else bias.array()
        # Convolutions are lowered with a bias of zeros; adding to it would only copy.
        total = addend if old is None or not old.any() else old + addend
        m.wiring.set_input(before, place, new_constant(f"{name}/bias", total))
        _take_in(m)


class FuseScale(Rewrite):
    """conv(x, w, b) * s -> conv(x, w * s, b * s)      s [channels] or one number."""

    patterns = tuple(op("MUL", x, const("factor"), any_order=True) for x in _behind("|".join(_WEIGHTED)))

    def replace(self, m: Match) -> None:
        before, name = m.operator("before"), m.output.name
        factor = _per_channel(m, m.array("factor"))
        at_weights, at_bias, axis = _WEIGHTED[before.code]
        weights = before.inputs[at_weights]
        bias = before.inputs[at_bias] if at_bias < len(before.inputs) else None
        need(weights is not None and weights.is_constant, "the weights are computed while the model runs")
        need(bias is None or bias.is_constant, "the layer's bias is computed while the model runs")
        assert weights is not None
        array = weights.array()
        # Factors of results: along the axis of the weights that counts them, the others broadcast.
        along = [1] * array.ndim
        along[axis] = -1
        m.wiring.set_input(before, at_weights, new_constant(f"{name}/weights", array * factor.reshape(along)))
        if bias is not None and bias.array().any():
            m.wiring.set_input(before, at_bias, new_constant(f"{name}/bias", bias.array() * factor))
        _take_in(m)


def _per_channel(m: Match, constant: Array) -> Array:
    """A constant operand of what a layer gives as float32 [channels].

    Raises:
        Refuse: it is something else.
    """
    layer = m.operator("before")
    shape = m.operators.get("reshape", layer).outputs[0].shape
    at_weights, _, axis = _WEIGHTED[layer.code]
    weights = layer.inputs[at_weights]
    channels = None if weights is None or weights.shape is None else weights.shape[axis]
    need(shape is not None and channels is not None, "the number of channels is not known")
    need(constant.dtype == np.float32, "the constant is not float32")
    need(constant.ndim <= len(shape or ()), _BROADCASTS)
    # Channels are last in every layer's result, whatever axis of the weights counts them.
    row = trailing_row(constant, shape, channels or 0)
    need(row is not None, "the constant differs along more than the channels")
    assert row is not None
    return row


class FuseInputScale(Rewrite):
    """conv(x * s, w) -> conv(x, w * s)      s [channels of x] or one number; a border of zeros stays."""

    patterns = (
        op(
            "CONV_2D|DEPTHWISE_CONV_2D|FULLY_CONNECTED",
            op("MUL", computed("x"), const("factor"), any_order=True, name="scale", where=plain),
            const("weights"),
        ),
    )

    def replace(self, m: Match) -> None:
        x, factor, array = m.tensor("x"), m.array("factor"), m.array("weights")
        need(keeps_shape(x, factor), _BROADCASTS)
        need(factor.dtype == array.dtype == np.float32, "the factor and the weights are not both float32")
        # A depthwise filter's last axis counts outputs.
        per_input = m.head.code != "DEPTHWISE_CONV_2D"
        fits = per_input and factor.size == factor.shape[-1:][0] == array.shape[-1] if factor.ndim else False
        need(factor.size == 1 or fits, "the factor differs along more than the layer's input channels")
        # Input channels are the last axis of CONV_2D's and FULLY_CONNECTED's weights, OHWI and [units,in].
        # A border is padded behind the product, and zeros are zeros in any scale: so it needs no look.
        weights = new_constant(f"{m.output.name}/weights", array * factor.reshape(-1))
        m.wiring.set_input(m.head, 1, weights)
        m.wiring.bypass(m.operator("scale"), x)


class MergeConstants(Rewrite):
    """(x + a) + b -> x + (a + b), and so for products."""

    patterns = tuple(
        op(
            code,
            op(code, computed("x"), const("first"), any_order=True, where=plain),
            const("second"),
            any_order=True,
        )
        for code in ("ADD", "MUL")
    )

    def replace(self, m: Match) -> None:
        x, first, second = m.tensor("x"), m.array("first"), m.array("second")
        need(x.dtype is FLOAT, "only constants of float32 are merged")
        need(keeps_shape(x, first) and keeps_shape(x, second), _BROADCASTS)
        merged = first + second if m.head.code == "ADD" else first * second
        m.wiring.set_input(m.head, 0, x)
        m.wiring.set_input(m.head, 1, new_constant(f"{m.output.name}/const", merged))


class InvertConstant(Rewrite):
    """x - c -> x + -c and x / c -> x * 1/c, which then merge with their neighbours."""

    patterns = (op("SUB|DIV", value("x"), const("c")),)

    def replace(self, m: Match) -> None:
        only_if(m.tensor("c").dtype is FLOAT)
        array, is_sum = m.array("c"), m.head.code == "SUB"
        sound = is_sum or (np.isfinite(array).all() and (np.abs(array) > _TINY).all())
        need(sound, "the reciprocal of a divisor is no finite number of full precision")
        inverse = -array if is_sum else np.float32(1) / array
        m.head.code = "ADD" if is_sum else "MUL"
        # An option for quantized int16, which these are not.
        m.head.options.pop("pot_scale_int16", None)
        m.wiring.set_input(m.head, 1, new_constant(f"{m.output.name}/const", inverse))


class DropNeutral(Rewrite):
    """x + 0 and x * 1."""

    patterns = (op("ADD|MUL", computed("x"), const("c"), any_order=True, when=is_plain),)

    def replace(self, m: Match) -> None:
        x, constant = m.tensor("x"), m.array("c")
        only_if((constant == (0 if m.head.code == "ADD" else 1)).all())
        # A neutral constant with more or longer axes still makes x larger.
        need(keeps_shape(x, constant), _BROADCASTS)
        m.wiring.bypass(m.head, x)


def _hard_swish() -> tuple[Step, ...]:
    gate = op("ADD", value("x"), const("3", 3), any_order=True, when=lambda o: activation(o) == "RELU6")
    sixth = const("1/6", 1 / 6)

    def product(*factors: Step) -> Step:
        return op("MUL", value("x"), *factors, any_order=True, where=plain)

    return (
        op("MUL", value("x"), op("MUL", gate, sixth, any_order=True, where=plain), any_order=True),
        op("MUL", product(gate), sixth, any_order=True),
    )


class FuseHardSwish(Rewrite):
    """x * (relu6(x + 3) / 6) -> hard_swish(x), with the sixth anywhere."""

    patterns = _hard_swish()

    def replace(self, m: Match) -> None:
        need(is_plain(m.head), f"the product ends in {activation(m.head)}")
        need(m.output.dtype is FLOAT, f"HARD_SWISH takes float32, not {m.output.dtype}")
        m.wiring.become(m.head, "HARD_SWISH", m.tensor("x"))


# ---- Per-channel arithmetic in one pass over memory: batch norms that no convolution in front can take.
#
# XNNPACK runs a product, a sum and the activation of the sum one after the other, each from memory to
# memory. A depthwise convolution of one tap computes all of it in one pass: 0.3 to 0.9 times the time,
# measured over 3 to 1024 channels on one and two threads. A sum or a product alone would win nothing where
# LiteRT runs without XNNPACK, so those stay.


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
        s, b = _row_of_channels(factor, channels or 0), _row_of_channels(addend, channels or 0)
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
        # A window of one pixel has no border: SAME and VALID give ceil(size / stride) results alike.
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


def _row_of_channels(constant: Array, channels: int) -> Array | None:
    """A constant as float32 [channels] if it differs by channel only and broadcasts to no larger shape."""
    if constant.dtype != np.float32 or constant.ndim > 4 or constant.size not in (1, channels):
        return None
    if constant.size != 1 and constant.shape[-1] != channels:
        return None
    # A copy, since a file needs all of its numbers: a broadcast view has one.
    result: Array | None = np.broadcast_to(constant.reshape(-1), (channels,)).copy()
    return result
