"""Convolutions, pooling and resizing in older words."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import INT32
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.downgrade.rules import DowngradeSite, downgrade

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
    lowest = -np.inf if np.issubdtype(element, np.floating) else np.iinfo(element).min
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
