"""ONNX's transposed convolutions, and Col2Im, which is one whose filters are single pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.decompose.terms import Term
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula, Size, product, reshaped, size, vector
from thinflow.lift.onnx.values import bounded, channels_first, channels_last, numbers, text, transposed
from thinflow.lift.onnx.windows import (
    LINE,
    PICTURE,
    VOLUME,
    as_line,
    as_picture,
    biased,
    bordered,
    by_group,
    steps,
)
from thinflow.lift.rules import lifts

Ends = list[tuple[int, int]]
"""Pixels to cut off before and behind each axis; negative ones are added."""


def spread(
    f: Formula,
    x: Term,
    w: Term,
    strides: Sequence[int],
    more: Sequence[int],
    cut: Ends,
    *,
    depthwise: bool = False,
) -> Term:
    """The gradient of a convolution by its input: each pixel of x spread over a window.

    Args:
        x: [n, ..., cin] over pictures or volumes.
        w: [..., cout, cin]; of a depthwise one [..., channels, multiples].
        more: rows behind that no window reaches.
        cut: ends of the whole that go.
    """
    spans = [int(n or 0) for n in w.shape[:-2]]
    sizes = [size(x, axis + 1) for axis in range(len(spans))]
    outs = w.shape[-2]
    if outs is None or 0 in spans:
        raise UnsupportedOp("the sizes of its weights are not known")
    op = "DepthwiseConv2dNative" if depthwise else "Conv3D" if len(spans) == VOLUME else "Conv2D"
    axes = list(zip(spans, strides, more, cut, strict=True))
    is_same = any(map(any, cut)) and all(_is_same(*a) for a in axes)
    if is_same:
        whole: list[Size] = [i * s for i, s in zip(sizes, strides, strict=True)]
        return _op(f, op, x, w, [size(x, 0), *whole, outs], strides, "SAME")
    # TensorFlow's windows reach into as many rows as less than a stride; further ones are put behind.
    inside = [min(m, s - 1) for m, s in zip(more, strides, strict=True)]
    whole = [(i - 1) * s + k + m for i, s, k, m in zip(sizes, strides, spans, inside, strict=True)]
    y = _op(f, op, x, w, [size(x, 0), *whole, outs], strides, "VALID")
    behind = [b - (m - i) for (_, b), m, i in zip(cut, more, inside, strict=True)]
    y = f.term(bordered(f.call, y.value, [(0, max(-b, 0)) for b in behind], 0.0))
    parts = {
        axis + 1: (a, -b if b > 0 else None, 1)
        for axis, ((a, _), b) in enumerate(zip(cut, behind, strict=True))
        if a or b > 0
    }
    return y.slice(parts) if parts else y


def _is_same(span: int, stride: int, more: int, cut: tuple[int, int]) -> bool:
    """True if what is left is what TensorFlow's SAME gives, size times stride."""
    total = max(span - stride, 0)
    return cut[0] == total // 2 and span + more - sum(cut) == stride


def _op(
    f: Formula, op: str, x: Term, w: Term, sizes: Sequence[Size], strides: Sequence[int], padding: str
) -> Term:
    version, layout = ("V2", "NDHWC") if len(strides) == VOLUME else ("", "NHWC")
    operands = [vector(f, sizes).value, w.value, x.value]
    options = {"strides": (1, *strides, 1), "padding": padding, "data_format": layout}
    return f.add(f"{op}BackpropInput{version}", operands, **options)[0]  # type: ignore[arg-type]


def _dilated(f: Formula, w: Term, gaps: Sequence[int]) -> Term:
    """Filters [..., a, b] with zeros between their elements: TensorFlow's kernels know no gaps here."""
    for axis, gap in enumerate(gaps):
        if gap == 1:
            continue
        sizes = [int(n or 0) for n in w.shape]
        bounded(math.prod(sizes) * gap)
        before, behind = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :])
        apart = w.reshape([before, sizes[axis], 1, behind]).pad([(0, 0), (0, 0), (0, gap - 1), (0, 0)])
        row = apart.reshape([before, sizes[axis] * gap, behind]).cut(1, 0, (sizes[axis] - 1) * gap + 1)
        w = row.reshape([*sizes[:axis], (sizes[axis] - 1) * gap + 1, *sizes[axis + 1 :]])
    return w


@lifts("onnx.ConvTranspose", ignores=("kernel_shape", "pads", "auto_pad"))
def _conv_transpose(c: Call) -> Value:
    """All that the windows reach, less the pads."""
    kernel = c[1].spec.shape
    if kernel is None or None in kernel or len(kernel) < 3:
        raise UnsupportedOp("the sizes of its weights are not known")
    count, spans = len(kernel), [int(n or 0) for n in kernel[2:]]
    strides, dilations, sizes = steps(c, spans)
    reach = [(k - 1) * d + 1 for k, d in zip(spans, dilations, strict=True)]
    more, cut = _ends(c, reach, strides, sizes)
    f = Formula(c)
    x = channels_last(c, c[0], count)
    # [cin, cout/group, k...] -> [k..., cout/group, cin], with zeros in the gaps.
    filters = _dilated(f, f.term(transposed(c, c[1], (*range(2, count), 1, 0))), dilations).value
    if len(spans) == LINE:
        x, filters = as_picture(c, x), as_picture(c, filters, 0)
        strides, more, cut = (1, *strides), (0, *more), [(0, 0), *cut]

    group = int(c.get("group", 1))
    # TensorFlow's kernel wants equal steps; those across a line lead nowhere.
    steps_of = strides[1:] * 2 if len(spans) == LINE else strides
    if group > 1 and kernel[1] == 1 and len(steps_of) == PICTURE and len(set(steps_of)) == 1:
        shape = [*([1] * (len(spans) == LINE)), *reach, group, -1]
        y = spread(f, f.term(x), f.term(filters).reshape(shape), steps_of, more, cut, depthwise=True).value
    else:

        def op(x: Value, w: Value) -> Value:
            return spread(f, f.term(x), f.term(w), strides, more, cut).value

        y = by_group(c, group, x, filters, op)
    y = biased(c, y, c[2] if c.has(2) else None)
    return channels_first(c, as_line(c, y) if len(spans) == LINE else y, count)


def _ends(
    c: Call, reach: Sequence[int], strides: Sequence[int], sizes: Sequence[int | None]
) -> tuple[tuple[int, ...], Ends]:
    """Rows behind what the windows reach, and what is cut off of all that."""
    count, mode = len(reach), text(c, "auto_pad", "NOTSET")
    more = tuple(c.get("output_padding") or (0,) * count)
    if len(more) != count or min(more) < 0:
        raise UnsupportedOp(f"its output_padding has {len(more)} numbers, or negative ones")
    if mode not in {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", ""}:
        raise UnsupportedOp(f"it pads by '{mode}'")
    wanted = c.get("output_shape")
    axes = list(zip(reach, strides, more, sizes, strict=True))
    if wanted:
        known = [(i - 1) * s + r + m for r, s, m, i in axes if i is not None]
        if len(known) < count or len(wanted) < count:
            raise UnsupportedOp("the size of its result is stated, and that of its input is open")
        return more, [_halves(n - w, mode) for n, w in zip(known, wanted[-count:], strict=True)]
    if mode in {"SAME_UPPER", "SAME_LOWER"}:
        # The result has size times stride pixels.
        return more, [_halves(r + m - s, mode) for r, s, m, _ in axes]
    pads = (c.get("pads") if mode != "VALID" else None) or (0,) * (2 * count)
    if len(pads) != 2 * count or min(pads) < 0:
        raise UnsupportedOp(f"it has {len(pads)} pads, or negative ones, for {count} dimensions")
    return more, list(zip(pads[:count], pads[count:], strict=True))


def _halves(total: int, mode: str) -> tuple[int, int]:
    """What goes on both sides; what is missing stands behind.

    Raises:
        UnsupportedOp: more than one row is missing: ONNX's text puts them on both sides, its runtime behind.
    """
    if total < -1 or (total < 0 and mode == "SAME_UPPER"):
        raise UnsupportedOp("its stated result is larger than its windows reach")
    # As in ONNX's definition the odd pixel is cut off behind for SAME_UPPER, else in front.
    small, large = max(total, 0) // 2, max(total, 0) - max(total, 0) // 2
    return (small, large) if mode == "SAME_UPPER" else (large, small + min(total, 0))


@lifts("onnx.Col2Im")
def _col2im(c: Call) -> Value:
    """Columns [n, c * block, windows] spread over images; where windows overlap they add up."""
    image, block = (numbers(c, "", i) or () for i in (1, 2))
    count = len(image)
    if count not in (1, 2, 3) or len(block) != count:
        raise UnsupportedOp(f"it goes over {count} dimensions")
    strides = tuple(c.get("strides") or (1,) * count)
    dilations = tuple(c.get("dilations") or (1,) * count)
    pads = tuple(c.get("pads") or (0,) * (2 * count))
    reach = [(k - 1) * d + 1 for k, d in zip(block, dilations, strict=True)]
    ends = list(zip(pads[:count], pads[count:], strict=True))
    outs = [(n + sum(p) - r) // s + 1 for n, p, r, s in zip(image, ends, reach, strides, strict=True)]
    if min(*outs, *block, *strides) < 1:
        raise UnsupportedOp("its blocks do not fit into its images")
    # What is left behind the last window.
    more = [n + sum(p) - ((o - 1) * s + r)
            for n, p, o, s, r in zip(image, ends, outs, strides, reach, strict=True)]  # fmt: skip
    f, width = Formula(c), math.prod(block)
    bounded(width * math.prod(reach))
    x = f.operand(0)
    batch, depth = size(x, 0), size(x, 1)
    if not isinstance(depth, int) or depth % width:
        raise UnsupportedOp("its columns are not a whole number of blocks")
    images = product([batch, depth // width])
    columns = reshaped(x, [images, width, math.prod(outs)]).transpose((0, 2, 1))
    filters = np.zeros((*reach, 1, width))
    for at, place in enumerate(np.ndindex(*block)):
        spot = tuple(p * d for p, d in zip(place, dilations, strict=True))
        filters[spot][0, at] = 1
    if count == LINE:
        filters, outs, strides = filters[None], [1, *outs], (1, *strides)
        more, ends = [0, *more], [(0, 0), *ends]
    pixels = reshaped(columns, [images, *outs, width])
    y = spread(f, pixels, f.constant(filters, x.dtype), strides, more, ends)
    return reshaped(y, [batch, depth // width, *image]).value
