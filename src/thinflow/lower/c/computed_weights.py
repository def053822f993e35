"""Weights and biases of eight-bit layers, which may be constant or what other layers compute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.layer import NOTHING, Argument
from thinflow.lower.c.requantize import byte_weights, folded_bias

_BIAS_BITS = 31


@dataclass(frozen=True)
class Weights:
    """What a kernel is given.

    Attributes:
        data: int8, in the order of the file.
        zero_point: of these.
        bias: int32 [channels], with the zero point of the input folded in.
        is_constant: whether both are.
    """

    data: Argument
    zero_point: int
    bias: Argument
    is_constant: bool

    def rounding(self, b: LayerBuilder, exact: str, *, is_delegated: bool = False) -> str:
        """How the layer rounds.

        Args:
            b: of the layer.
            exact: how LiteRT's reference kernel does it.
            is_delegated: whether XNNPACK has a kernel for weights that are computed.

        Raises:
            UnsupportedOp: it has none, and LiteRT's own round otherwise from processor to processor.
        """
        if b.rounding == "litert":
            return exact
        if not self.is_constant and not is_delegated:
            raise UnsupportedOp(
                "XNNPACK has no kernel for it with weights that are computed, and LiteRT's own rounds"
                " otherwise from processor to processor; --rounding litert has it"
            )
        return "float"


def weights_and_bias(
    b: LayerBuilder, name: str, x_zero_point: int, *, bias_number: int = 2, axis: int = 0
) -> Weights:
    """The weights at input 1 and their bias; what is computed gets ready by calls of its own.

    Args:
        b: of the layer.
        name: of the weights, where they are constant.
        x_zero_point: to be folded into the bias; 0 where the kernel takes it from each input.
        bias_number: of the input that holds the bias; absent, it is zero.
        axis: of the weights, along which the channels are; 0 if a zero point is to be folded in.

    Raises:
        UnsupportedOp: sums may leave 32 bits.
    """
    given = b.optional(bias_number)
    has_constant_bias = given is None or given.is_constant
    if b.input(1).is_constant and has_constant_bias:
        w, zero_point = byte_weights(b, 1)
        folded = folded_bias(b, bias_number, np.moveaxis(w, axis, 0), x_zero_point, zero_point)
        return Weights(b.constant(name, w), zero_point, b.constant("bias", folded), is_constant=True)
    data, zero_point = _bytes(b, name)
    channels = b.shape(b.input(1))[axis]
    depth = b.size(b.input(1)) // channels
    # Of a bias that is computed nothing is known; LiteRT's kernels do not look, either.
    known = b.array_or_zeros(bias_number, channels, np.int64) if has_constant_bias else np.zeros(1, np.int64)
    # A byte less its zero point is below 2^8, so a product is below 2^16.
    if (depth << 16) + int(np.abs(known).max(initial=0)) >= 1 << _BIAS_BITS:
        raise UnsupportedOp("its sums may need more than 32 bits")
    bias: Argument = NOTHING if given is None else given
    if given is not None and given.is_constant:
        bias = b.constant("bias", b.array(bias_number).astype(np.int32, copy=False))
    if x_zero_point:
        room = b.scratch(4 * channels)
        b.call("fold_bias", data, bias, room, channels, depth, x_zero_point, zero_point)
        bias = room
    elif given is None:
        bias = b.constant("bias", np.zeros(channels, np.int32))
    return Weights(data, zero_point, bias, is_constant=False)


def _bytes(b: LayerBuilder, name: str) -> tuple[Argument, int]:
    """The weights as int8, and their zero point."""
    tensor = b.input(1)
    if tensor.is_constant:
        w, zero_point = byte_weights(b, 1)
        return b.constant(name, w), zero_point
    q, kind = b.scales(tensor), tensor.dtype.name
    if kind not in ("int8", "uint8"):
        raise UnsupportedOp(f"its weights are {kind} and computed")
    zero_point = int(q.zero_point[0]) if len(q.zero_point) else 0
    if q.is_per_channel and q.zero_point.any():
        raise UnsupportedOp("its weights have a zero point for each channel")
    if kind == "int8":
        return tensor, zero_point
    room = b.scratch(b.size(tensor))
    b.call("signed_bytes", tensor, room, b.size(tensor))
    return room, zero_point - 128
