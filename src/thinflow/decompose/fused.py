"""Kernels that TensorFlow's graph optimizer joined, taken apart again: fusion rejoins what a runtime can."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, refuse_unless

_ACTIVATIONS = ("Relu", "Relu6", "Elu", "Tanh", "Sigmoid")


@decompose("_FusedConv2D", "_FusedDepthwiseConv2dNative")
def fused_conv(
    x: Term,
    w: Term,
    *operands: Term,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    fused_ops: Sequence[str] = (),
    leakyrelu_alpha: float = 0.2,
) -> Term:
    y = x.apply(
        x.body.op.removeprefix("_Fused"), w, strides=tuple(strides), padding=padding, data_format=data_format,
        explicit_paddings=tuple(explicit_paddings), dilations=tuple(dilations),
    )  # fmt: skip
    return _followed(y, operands, fused_ops, leakyrelu_alpha, data_format)


@decompose("_FusedMatMul")
def fused_matmul(
    x: Term,
    w: Term,
    *operands: Term,
    transpose_a: bool = False,
    transpose_b: bool = False,
    fused_ops: Sequence[str] = (),
    leakyrelu_alpha: float = 0.2,
) -> Term:
    y = x.apply("MatMul", w, transpose_a=transpose_a, transpose_b=transpose_b)
    return _followed(y, operands, fused_ops, leakyrelu_alpha)


def _followed(
    y: Term, operands: Sequence[Term], fused_ops: Sequence[str], alpha: float, data_format: str = "NHWC"
) -> Term:
    """The ops behind a fused kernel, in order."""
    # Operands come in the order of the ops that read them.
    left = list(operands)
    for op in fused_ops:
        if op == "BiasAdd":
            y = y.apply("BiasAdd", left.pop(0), data_format=data_format)
        elif op == "Add":
            y = y + left.pop(0)
        else:
            refuse_unless(op in _ACTIVATIONS or op == "LeakyRelu", f"the fused op {op} has no form")
            y = y.apply(op, **({"alpha": alpha} if op == "LeakyRelu" else {}))
    return y


@decompose("FusedPadConv2D")
def fused_pad_conv(
    x: Term, paddings: Term, w: Term, *, mode: str, strides: Sequence[int], padding: str
) -> Term:
    bordered = x.apply("MirrorPad", paddings, mode=mode)
    return bordered.apply("Conv2D", w, strides=tuple(strides), padding=padding)


@decompose("FusedResizeAndPadConv2D")
def fused_resize_and_pad_conv(
    x: Term,
    size: Term,
    paddings: Term,
    w: Term,
    *,
    mode: str,
    strides: Sequence[int],
    padding: str,
    resize_align_corners: bool = False,
) -> Term:
    resized = x.apply("ResizeBilinear", size, align_corners=resize_align_corners).cast(x.dtype)
    return fused_pad_conv(resized, paddings, w, mode=mode, strides=strides, padding=padding)
