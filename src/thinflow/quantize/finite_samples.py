"""Samples with numbers that are none: which they are, and the others without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from thinflow.errors import FeedError
from thinflow.quantize.feed_parts import some_of
from thinflow.quantize.feeds import Feeds
from thinflow.typing import Array

MOST_BAD = 0.1
"""Share of samples that may be left out; more, and the data are not what somebody took them for."""
_SHOWN = 3


def odd_input(feed: Mapping[str, Array]) -> str:
    """The name of the first input that holds NaN or infinity; "" if none does."""
    for name, array in feed.items():
        if array.dtype.kind in "fc" and not np.isfinite(array).all():
            return name
    return ""


def finite_feeds(feeds: Feeds) -> tuple[Feeds, list[str]]:
    """The samples whose inputs are all finite, and a warning where others are left out.

    Walks the samples once; pictures and sounds are not read, as their numbers are finite.

    Raises:
        FeedError: more than `MOST_BAD` of them are not finite.
    """
    if not feeds.may_be_odd:
        return feeds, []
    odd: dict[int, str] = {}
    count, loudest = 0, 0.0
    for number, feed in enumerate(feeds):
        count += 1
        if name := odd_input(feed):
            odd[number] = name
        elif (peak := _peak(feed)) > loudest:
            loudest, feeds.loudest = peak, number
    if not odd:
        return feeds, []
    places = {feeds.place(number): name for number, name in odd.items()}
    require_few(places, count)

    def walk() -> Iterator[dict[str, Array]]:
        for number, feed in enumerate(feeds):
            if number not in odd:
                yield feed

    kept = [number for number in range(count) if number not in odd]
    labels = None if feeds.labels is None else [feeds.labels[number] for number in kept]
    finite = Feeds(
        walk, len(kept), labels, total=feeds.total, has_pictures=feeds.has_pictures,
        places=[feeds.place(number) for number in kept], part=some_of(feeds.part, kept),
    )  # fmt: skip
    finite.loudest = None if feeds.loudest is None else kept.index(feeds.loudest)
    return finite, [left_out(places)]


def _peak(feed: Mapping[str, Array]) -> float:
    """The largest magnitude of the float inputs."""
    floats = [array for array in feed.values() if array.dtype.kind == "f" and array.size]
    return max((max(float(a.max()), -float(a.min())) for a in floats), default=0.0)


def require_few(odd: Mapping[str, str], count: int) -> None:
    """Refuse samples of which too many are not finite.

    Args:
        odd: place of such a sample -> the input it is.
        count: of all samples.

    Raises:
        FeedError: naming the first.
    """
    if len(odd) > MOST_BAD * count:
        place, name = next(iter(odd.items()))
        raise FeedError(
            f"{len(odd)} of {count} samples hold NaN or infinity; the first is {place}, in input '{name}'",
            hint="mend them or take them out: ranges and answers of such samples mean nothing",
        )


def left_out(odd: Mapping[str, str]) -> str:
    """A warning that names samples which were left out, and their inputs."""
    shown = ", ".join(f"{place} (input '{name}')" for place, name in [*odd.items()][:_SHOWN])
    more = f" and {len(odd) - _SHOWN} more" if len(odd) > _SHOWN else ""
    are = "holds" if len(odd) == 1 else "hold"
    return f"{shown}{more} {are} NaN or infinity and {'was' if len(odd) == 1 else 'were'} left out"
