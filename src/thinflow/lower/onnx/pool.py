"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.graph import Node
from thinflow.lower.onnx.builder import Builder, ints, require, shape_of
from thinflow.lower.onnx.conv import geometry, is_channels_first, sizes_inside, spatial
from thinflow.lower.onnx.spatial import padded
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.ops.traits import Trait, has


def _pool(
    b: Builder,
    code: str,
    x: Tensor,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str,
    explicit: Sequence[int] = (),
    **more: Any,
) -> Tensor:
    first = is_channels_first(data_format)
    rank = len(shape_of(x, "x"))
    require(len(ksize) == len(strides) == rank, f"ksize and strides need {rank} values")
    window = spatial(ksize, first, "the window")
    ones = (1,) * len(window)
    options = geometry(
        sizes_inside(x, first),
        window,
        spatial(strides, first, "strides"),
        ones,
        padding,
        explicit,
        first=first,
    )
    if "auto_pad" in more:
        # ONNX takes pads or auto_pad, not both.
        options.pop("pads", None)
    options |= more
    if first:
        return b.emit(code, x, **options)
    result = b.result_spec().shape
    shape = None if result is None else (result[0], result[-1], *result[1:-1])
    return b.emit_channels_last(b.step(code, b.channels_first(x), shape=shape or (None,) * rank, **options))


def _unfused(node: Node, padding: str) -> dict[str, Any]:
    """Options that keep ONNX Runtime from taking a border of zeros in front into the pool.

    Its pools fill borders with the lowest number, so the maximum of negative numbers at the edge, which is
    that zero, would come out too low. Pools that say how they pad by name are left alone.
    """
    source = node.inputs[0].node
    while has(source.op, Trait.PASSES_THROUGH) and source.inputs:
        source = source.inputs[0].node
    named = {"VALID": "VALID", "SAME": "SAME_UPPER"}
    if source.op not in ("Pad", "PadV2") or padding not in named:
        return {}
    return {"auto_pad": named[padding]}


@lower("AvgPool", "AvgPool3D", to="onnx")
def avg_pool(
    b: Builder,
    node: Node,
    x: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str = "NHWC",
) -> Tensor:
    """The border does not count in the average, as in TensorFlow."""
    return _pool(b, "AveragePool", x, ksize, strides, padding, data_format, count_include_pad=0)


@lower("MaxPool", "MaxPool3D", to="onnx")
def max_pool(
    b: Builder,
    node: Node,
    x: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
) -> Tensor:
    """A border wider than the window, which MaxPool refuses, becomes a Pad with the lowest number."""
    if padding == "EXPLICIT":
        require(len(explicit_paddings) == 2 * len(ksize), "explicit_paddings needs two values per axis")
        pairs = list(zip(explicit_paddings[::2], explicit_paddings[1::2], strict=True))
        # A window that lies in the border altogether has no greatest element.
        if any(max(pair) >= size > 0 and any(pair) for pair, size in zip(pairs, ksize, strict=True)):
            element = x.dtype.numpy()
            limits = np.finfo(element) if x.dtype.is_floating else np.iinfo(element)
            x, padding = padded(b, x, pairs, b.scalar(limits.min, x, "lowest")), "VALID"
    own = _unfused(node, padding)
    return _pool(b, "MaxPool", x, ksize, strides, padding, data_format, explicit_paddings, **own)


@lower("MaxPoolV2", to="onnx")
def max_pool_v2(
    b: Builder,
    node: Node,
    x: Tensor,
    ksize: Tensor,
    strides: Tensor,
    *,
    padding: str,
    data_format: str = "NHWC",
) -> Tensor:
    sizes = ints(ksize, "ksize"), ints(strides, "strides")
    return _pool(b, "MaxPool", x, *sizes, padding, data_format, **_unfused(node, padding))
