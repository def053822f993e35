"""Arithmetic, activations, norms, matrix products, convolutions, pooling and resizing in older words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, FLOAT, INT32, INT64, STRING
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.downgrade.rules import DowngradeSite, downgrade, shape_of


@downgrade("AddV2")
def add(site: DowngradeSite) -> None:
    """add_v2(a, b) = add(a, b)"""
    site.becomes("Add")


@downgrade("LeakyRelu")
def leaky_relu(site: DowngradeSite) -> None:
    """The larger of x and alpha * x, if alpha <= 1, else the smaller."""
    x, alpha, element = site.input(0), float(site.node.get("alpha", 0.2)), site.type()
    if alpha == 0:  # infinity times 0 is no number
        site.becomes("Relu", drop="alpha", T=element)
        return
    scaled = site.add("Mul", x, site.constant(np.asarray(alpha, element.numpy()), "alpha"), T=element)
    site.replace(site.add("Maximum" if alpha <= 1 else "Minimum", x, scaled, T=element))


@downgrade("ClipByValue")
def clip(site: DowngradeSite) -> None:
    """clip(x, a, b) = maximum(minimum(x, b), a)"""
    x, low, high = (site.input(i) for i in range(3))
    upper = site.add("Minimum", x, high, T=site.type())
    site.replace(site.add("Maximum", upper, low, T=site.type()))


@downgrade("DivNoNan")
def divide_no_nan(site: DowngradeSite) -> None:
    """x / y where y is not zero, else 0."""
    x, y, element = site.input(0), site.input(1), site.type()
    quotient = site.add("RealDiv", x, y, T=element)
    # ZerosLike is 0 even where the quotient is infinite or NaN; a product with 0 would not be.
    zeros = site.add("ZerosLike", quotient, T=element)
    spread = site.add("Add", y, zeros if _same_shape(site, x, y) else site.zeros_like_all(x, y), T=element)
    is_zero = site.add("Equal", spread, site.constant(np.zeros((), element.numpy()), "zero"), T=element)
    site.replace(site.add("Select", is_zero, zeros, quotient, T=element))


@downgrade("SelectV2")
def select(site: DowngradeSite) -> None:
    """Select does not broadcast: its operands get the common shape first."""
    condition, yes, no = (site.input(i) for i in range(3))
    element = site.type()
    if _same_shape(site, condition, yes, no) or (condition.spec.shape == () and _same_shape(site, yes, no)):
        site.becomes("Select")
        return
    if element in {STRING, BOOL}:
        raise Refuse(
            f"Select does not broadcast, and a {element} cannot be spread by adding zeros", site.node
        )
    zeros = site.zeros_like_all(condition, yes, no)
    # All false, but of the common shape: OR with it spreads the condition and leaves its values.
    nowhere = site.add("Cast", zeros, SrcT=element, DstT=BOOL)
    spread = site.add("LogicalOr", condition, nowhere)
    wide = [site.add("Add", value, zeros, T=element) for value in (yes, no)]
    site.replace(site.add("Select", spread, *wide, T=element))


def _same_shape(site: DowngradeSite, *values: Value) -> bool:
    shapes = {v.spec.shape for v in values}
    return len(shapes) == 1 and None not in shapes and None not in (next(iter(shapes)) or ())


@downgrade("FusedBatchNormV3")
def batch_norm_3(site: DowngradeSite) -> None:
    """The third version has one output more, which only gradients read."""
    last = site.node.output(5)
    site.refuse_outputs(range(5, 6))
    if last.uses:
        raise Refuse("its output 5 is read, which FusedBatchNormV2 lacks", site.node)
    site.becomes("FusedBatchNormV2")


@downgrade("FusedBatchNormV2")
def batch_norm_2(site: DowngradeSite) -> None:
    """The first version takes float only."""
    if site.type("T") is not FLOAT or site.type("U") is not FLOAT:
        raise Refuse(f"FusedBatchNorm takes float, not {site.type('T')}", site.node)
    site.becomes("FusedBatchNorm", drop="U", T=FLOAT)


@downgrade(
    *(f"FusedBatchNorm{version}.exponential_avg_factor" for version in ("", "V2", "V3")),
)
def averaging(site: DowngradeSite) -> None:
    """Without training nothing is averaged."""
    if site.node.get("is_training", True):
        raise Refuse("it is in training mode and averages its statistics", site.node)
    del site.node.attrs["exponential_avg_factor"]


@downgrade("BatchMatMulV3")
def batch_matmul_3(site: DowngradeSite) -> None:
    """The third version may have other types at its ends."""
    types = {site.type(name) for name in ("Ta", "Tb", "Tout")}
    if len(types) > 1:
        raise Refuse(f"it mixes {' and '.join(sorted(t.name for t in types))}", site.node)
    site.becomes("BatchMatMulV2", drop="Ta Tb Tout", T=types.pop())


@downgrade("BatchMatMulV2")
def batch_matmul_2(site: DowngradeSite) -> None:
    """The first version does not broadcast; a right side that is one matrix becomes a plain product."""
    left, right = (site.input(i).spec.shape for i in range(2))
    if left is None or right is None:
        raise Refuse(
            "the shapes of its operands are not known, and BatchMatMul does not broadcast", site.node
        )
    # MatMul can transpose its right side, but does not conjugate.
    if len(right) == 2 and not site.node.get("adj_x", False) and not site.type().name.startswith("complex"):
        _one_matrix(site, left, right)
        return
    operands = _with_batch_of(site, 0, right), _with_batch_of(site, 1, left)
    site.node.set_inputs(operands)
    site.becomes("BatchMatMul")


def _with_batch_of(site: DowngradeSite, index: int, other: Sequence[int | None]) -> Value:
    """A stack of matrices, repeated where the other one has more batches: zeros of its batch sizes are added.

    Sizes that are not known are never taken for equal: one may be 1, and then repeats.
    """
    value = site.input(index)
    batch = (value.spec.shape or ())[:-2]
    # Aligned at their ends; a size that is absent counts as 1.
    own = (1,) * (len(other) - 2 - len(batch)) + batch
    pairs = zip(own[::-1], other[-3::-1], strict=False)
    if len(own) == len(batch) and all(theirs == 1 or theirs == mine is not None for mine, theirs in pairs):
        return value
    element = site.type()
    sizes = _outer_sizes(site, site.input(1 - index), len(other) - 2, [1, 1])
    zeros = site.add("Fill", sizes, site.constant(np.zeros((), element.numpy()), "zero"), T=element)
    return site.add("Add", value, zeros, T=element)


def _one_matrix(site: DowngradeSite, left: Sequence[int | None], right: Sequence[int | None]) -> None:
    """x [..., k] @ w [k, n]: all rows of x in one matrix product."""
    x, w, adjoint = site.input(0), site.input(1), bool(site.node.get("adj_y", False))
    inner, width = right[::-1] if adjoint else right
    if inner is None or width is None:
        raise Refuse(f"the sizes of '{w.name}' are not known", site.node)
    element = site.type()
    rows_shape = site.constant(np.array([-1, inner], np.int32), "rows")
    rows = site.add("Reshape", x, rows_shape, T=element, Tshape=INT32)
    product = site.add("MatMul", rows, w, T=element, transpose_a=False, transpose_b=adjoint)
    sizes = [*left[:-1], width]
    # Reshape finds one open size by itself, unless there are no elements to find it from.
    if sizes.count(None) <= 1 and 0 not in sizes:
        shape = site.constant(np.array([-1 if s is None else s for s in sizes], np.int32), "shape")
    else:
        shape = _outer_sizes(site, x, len(left) - 1, [width])
    site.replace(site.add("Reshape", product, shape, T=element, Tshape=INT32))


def _outer_sizes(site: DowngradeSite, x: Value, count: int, last: Sequence[int]) -> Value:
    """The first sizes of x and others behind them, at run time."""
    begin = site.constant(np.zeros(1, np.int32), "begin")
    size = site.constant(np.array([count], np.int32), "size")
    outer = site.add("Slice", shape_of(site, x), begin, size, T=INT32, Index=INT32)
    others = site.constant(np.array(last, np.int32), "sizes")
    axis = site.constant(np.int32(0), "axis")
    return site.add("ConcatV2", outer, others, axis, N=2, T=INT32, Tidx=INT32)


@downgrade("ArgMax.output_type", "ArgMin.output_type")
def arg_extreme(site: DowngradeSite) -> None:
    """Older ones give int64."""
    element = site.type("output_type")
    attrs = {k: v for k, v in site.node.attrs.items() if k != "output_type"}
    index = site.add(site.node.op, *site.node.inputs, **attrs)
    site.replace(site.add("Cast", index, SrcT=INT64, DstT=element))


# ---- Convolutions, pooling and resizing


_SPATIAL = {"NHWC": slice(1, 3), "NCHW": slice(2, 4)}


@downgrade("Conv2D.dilations", "DepthwiseConv2dNative.dilations")
def dilated(site: DowngradeSite) -> None:
    """A filter with zeros between its taps does the same."""
    steps = site.node.get("dilations")[_spatial(site)]
    filters = site.numbers(1, "filter")
    if site.node.get("strides")[_spatial(site)] != (1, 1) and steps != (1, 1):
        raise Refuse("it has strides and dilations", site.node)
    site.node.set_input(1, site.constant(stuffed(filters, *steps), "upsampled_filter"))
    del site.node.attrs["dilations"]


def stuffed(filters: np.ndarray[Any, Any], down: int, right: int) -> np.ndarray[Any, Any]:
    """Filters [(h-1)*down+1, (w-1)*right+1, ...] with zeros between the taps of filters [h, w, ...]."""
    height, width, *rest = filters.shape
    wide = np.zeros(((height - 1) * down + 1, (width - 1) * right + 1, *rest), filters.dtype)
    wide[::down, ::right] = filters
    return wide


@downgrade(
    *("Conv2D.padding=EXPLICIT", "DepthwiseConv2dNative.padding=EXPLICIT"),
    *("Conv2D.explicit_paddings", "DepthwiseConv2dNative.explicit_paddings"),
)
def padded(site: DowngradeSite) -> None:
    """A Pad with zeros in front, and no padding in the convolution."""
    _pad_in_front(site, None)


@downgrade("MaxPool.padding=EXPLICIT", "MaxPool.explicit_paddings")
def padded_pool(site: DowngradeSite) -> None:
    """A PadV2 with the least value in front, and no padding in the pooling."""
    element = site.type().numpy()
    # Never the maximum, so that the border does not show.
    lowest = -np.inf if site.type().kind == "f" else np.iinfo(element).min
    _pad_in_front(site, np.asarray(lowest, element))


def _pad_in_front(site: DowngradeSite, value: np.ndarray[Any, Any] | None) -> None:
    if site.node.get("padding") != "EXPLICIT":
        del site.node.attrs["explicit_paddings"]  # nobody reads it
        return
    margins = site.node.get("explicit_paddings", ())
    # Before and after for each of the four axes.
    if len(margins) != 8:
        raise Refuse(f"it has {len(margins)} explicit paddings, not 8", site.node)
    paddings = site.constant(np.array(margins, np.int32).reshape(4, 2), "paddings")
    x, element = site.input(0), site.type()
    if value is None:
        wide = site.add("Pad", x, paddings, T=element, Tpaddings=INT32)
    else:
        wide = site.add("PadV2", x, paddings, site.constant(value, "least"), T=element, Tpaddings=INT32)
    site.node.set_input(0, wide)
    del site.node.attrs["explicit_paddings"]
    site.node.attrs["padding"] = b"VALID"


def _spatial(site: DowngradeSite) -> slice:
    layout = site.node.get("data_format", "NHWC")
    if layout not in _SPATIAL:
        raise Refuse(f"its data_format is {layout}", site.node)
    return _SPATIAL[layout]


@downgrade(
    "ResizeBilinear.half_pixel_centers",
    "ResizeNearestNeighbor.half_pixel_centers",
    "ResizeBicubic.half_pixel_centers",
)
def centred(site: DowngradeSite) -> None:
    """Older kernels put the centres of pixels elsewhere."""
    raise Refuse(
        "it resizes with half_pixel_centers, which older kernels do not know; make the model without it",
        site.node,
    )
