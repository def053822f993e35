"""Transposed depthwise convolutions, as convolutions of what is put apart."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, refuse_unless
from thinflow.ops._windows import layout, window


@decompose("DepthwiseConv2dNativeBackpropInput")
def depthwise_backprop_input(
    sizes: Term,
    w: Term,
    dy: Term,
    *,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
) -> Term:
    """dy [n, oh, ow, c * m], with zeros between its pixels and around them, by the reversed filter.

    Args:
        w: [kh, kw, c, m].
    """
    refuse_unless(data_format == "NHWC", f"data_format is {data_format}")
    refuse_unless(len(dy.shape) == 4 and len(w.shape) == 4, "a batch of images and a filter are needed")
    spans = [w.static_size(axis, "the size of its filter") for axis in (0, 1)]
    multiples = w.static_size(3, "the depth of its filter")
    whole = sizes.elements or ()
    # Batch and channels may be left out.
    whole = whole[1:3] if len(whole) == 4 else whole
    win = window(layout("NHWC"), spans, strides, padding, dilations, explicit_paddings)
    known = [n for n in whole if n is not None]
    refuse_unless(len(known) == 2, "the size of the result is not known", "give the shapes of the inputs")
    ends = []
    for axis, (size, pads) in enumerate(zip(known, win.pads(known), strict=True)):
        out = dy.static_size(axis + 1, "the size of its images")
        stride, reach = win.strides[axis], (spans[axis] - 1) * win.dilations[axis] + 1
        dy = _apart(dy, axis + 1, stride)
        before = reach - 1 - pads[0]
        # Of the zeros behind the last pixel some are there already.
        ends.append((before, size + reach - 1 - before - out * stride))
    dy = _bordered(dy, ends)
    reversed_filter = w.reverse(0).reverse(1)
    attrs = {
        "strides": (1, 1, 1, 1),
        "dilations": tuple(dilations),
        "padding": "VALID",
        "data_format": "NHWC",
    }
    if multiples == 1:
        return dy.apply("DepthwiseConv2dNative", reversed_filter, **attrs)
    # One result of each group of m channels.
    return dy.apply("Conv2D", reversed_filter.transpose((0, 1, 3, 2)), **attrs)


def _apart(x: Term, axis: int, stride: int) -> Term:
    """With zeros behind each pixel along an axis of images, so that they are a stride apart."""
    if stride == 1:
        return x
    height, width, depth = (x.static_size(n, "the size of its images") for n in (1, 2, 3))
    if axis == 1:
        rows = x.reshape([-1, height, 1, width * depth]).pad([(0, 0), (0, 0), (0, stride - 1), (0, 0)])
        return rows.reshape([-1, height * stride, width, depth])
    pixels = x.reshape([-1, width, 1, depth]).pad([(0, 0), (0, 0), (0, stride - 1), (0, 0)])
    return pixels.reshape([-1, height, width * stride, depth])


def _bordered(x: Term, ends: Sequence[tuple[int, int]]) -> Term:
    """Images with zeros around them; negative numbers cut off."""
    pads = [(0, 0), *((max(a, 0), max(b, 0)) for a, b in ends), (0, 0)]
    x = x.pad(pads) if any(map(any, pads)) else x
    parts = {
        axis: (max(-a, 0), b if b < 0 else None, 1) for axis, (a, b) in enumerate(ends, 1) if min(a, b) < 0
    }
    return x.slice(parts) if parts else x
