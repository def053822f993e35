"""Fused layers taken apart again, and batch norms in training: fusion rejoins what a runtime can."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, refuse_unless
from thinflow.ir.types import INT32
from thinflow.ops.traits import Trait, has


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
            refuse_unless(has(op, Trait.ELEMENTWISE), f"the fused op {op} has no form")
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


@decompose("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm_in_training(
    x: Term,
    scale: Term,
    offset: Term,
    mean: Term,
    variance: Term,
    *,
    epsilon: float = 1e-4,
    exponential_avg_factor: float = 1.0,
    data_format: str = "NHWC",
    is_training: bool = True,
) -> tuple[Term, ...]:
    """Normalized by the mean and variance of x itself; then the statistics.

    Those are the running mean and unbiased variance, of which `exponential_avg_factor` is new, and the ones
    used here. x is centred first: x * factor - mean * factor would cancel where the mean is large.
    """
    refuse_unless(is_training, "with parameters of its own it is one operator")
    sizes = x.shape
    channels = 1 if data_format in ("NCHW", "NCDHW") else len(sizes) - 1
    count = sizes[channels]
    others = [n for n in range(len(sizes)) if n != channels]
    # Axes of one element need no sum: layer norms written as batch norms have two of them.
    summed = [n for n in others if sizes[n] != 1] or others[:1]
    # Keeping the axes costs nothing, and lets the statistics broadcast against x as they are.
    z = x.cast(scale.dtype)
    used_mean = z.mean(*summed, keep=True)
    centred = z - used_mean
    used_variance = centred.square().mean(*summed, keep=True)
    factor = (used_variance + epsilon).apply("Rsqrt")
    # Sizes of 1 behind the channels, for NCHW: [c,1,1].
    along = [1] * (len(sizes) - 1 - channels)
    if not scale.is_all(1):
        factor = factor * (scale.reshape([-1, *along]) if along else scale)
    y = centred * factor
    if not offset.is_all(0):
        y = y + (offset.reshape([-1, *along]) if along else offset)
    used = [t.reshape([-1 if count is None else count]) for t in (used_mean, used_variance)]
    # TensorFlow normalizes by the biased variance, and gives the unbiased one to the running statistics.
    new = [used[0], used[1] * _correction(z, summed, used_mean)]
    if exponential_avg_factor != 1:
        share, kept = exponential_avg_factor, 1 - exponential_avg_factor
        new = [old * kept + fresh * share for old, fresh in zip((mean, variance), new, strict=True)]
    return (y.cast(x.dtype), *new, *used)


def _correction(x: Term, axes: list[int], mean: Term) -> Term:
    """n / (n - 1) for n elements per channel, n if there is one: makes a variance unbiased."""
    known = [x.shape[n] for n in axes]
    if None not in known:
        count = int(np.prod([n or 0 for n in known]))
        # With one element there is nothing to correct, nor to divide by.
        return x.of(count / max(count - 1, 1))
    sizes = [t.apply("Size", out_type=INT32).cast(x.dtype) for t in (x, mean)]
    elements = sizes[0] / sizes[1]
    return elements / (elements - 1.0).maximum(1.0)


@decompose("_FusedBatchNormEx")
def fused_batch_norm_ex(
    x: Term,
    scale: Term,
    offset: Term,
    mean: Term,
    variance: Term,
    *side: Term,
    epsilon: float = 1e-4,
    data_format: str = "NHWC",
    is_training: bool = True,
    activation_mode: str = "Identity",
) -> tuple[Term, ...]:
    """A batch norm, what is added to it, and an activation."""
    refuse_unless(activation_mode in ("Identity", "Relu"), f"activation_mode {activation_mode} is not known")
    inputs = [t.value for t in (x, scale, offset, mean, variance)]
    y, *rest = x.body.add(
        "FusedBatchNormV3", inputs, ports=5, T=x.dtype, U=scale.dtype,
        epsilon=epsilon, data_format=data_format, is_training=is_training,
    )  # fmt: skip
    for addend in side:
        y = y + addend
    return y.apply("Relu") if activation_mode == "Relu" else y, *rest


@decompose("BatchNormWithGlobalNormalization")
def batch_norm_with_global_normalization(
    x: Term,
    mean: Term,
    variance: Term,
    beta: Term,
    gamma: Term,
    *,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> Term:
    """The batch norm of 2015, with the scale as an option."""
    if not scale_after_normalization:
        gamma = beta.of(np.ones(beta.static_size(0, "the number of channels")))
    inputs = [t.value for t in (x, gamma, beta, mean, variance)]
    return x.body.add(
        "FusedBatchNormV3", inputs, T=x.dtype, U=gamma.dtype, epsilon=variance_epsilon, is_training=False
    )[0]
