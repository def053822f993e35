"""Ranges of activations, over samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from thinflow.api.exploring.finding import Finder
from thinflow.compare.inner_values import inner_values
from thinflow.explorer.building import Built
from thinflow.explorer.document import Overlay, Texts
from thinflow.ir.graph import Graph
from thinflow.typing import Progress


def range_overlay(
    built: Built,
    graph: Graph,
    feeds: Iterable[Mapping[str, Any]],
    texts: Texts,
    progress: Progress | None = None,
) -> Overlay:
    """Largest magnitude of what each node computed; its ends in words.

    Args:
        built: where the nodes are.
        graph: with its ends set, or as it was read from a file that an engine runs.
        feeds: name -> array, each run once; the tensors of one are in memory at a time.
        texts: of the page.
        progress: told after each.
    """
    ends: dict[str, tuple[float, float]] = {}
    count = 0
    for count, feed in enumerate(feeds, 1):
        if progress is not None:
            progress(count, count + 1, "running samples")
        for value, array in inner_values(graph, feed).items():
            if array.dtype.kind not in "fiub" or not array.size:
                continue
            finite = array[np.isfinite(array)]
            if finite.size:
                low, high = ends.get(value.name, (np.inf, -np.inf))
                ends[value.name] = min(low, float(finite.min())), max(high, float(finite.max()))
    finder = Finder(built)
    values: list[float | None] = [None] * len(built.boxes)
    reasons: dict[int, int] = {}
    for name, (low, high) in ends.items():
        place = finder.find(name)
        if place is not None and values[place] is None:
            values[place] = float(f"{max(abs(low), abs(high)):.6g}")
            reasons[place] = texts.of(f"from {low:.6g} to {high:.6g}")
    about = f"Largest magnitude of what the node computed, over {count} sample{'s' if count != 1 else ''}."
    return Overlay("range", "activation range", about, values, worse="high", reasons=reasons)
