"""Noise of a second model against the first, tensor by tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from thinflow.api.exploring.finding import Finder
from thinflow.compare.differences import Layer
from thinflow.compare.inner_values import inner_differences
from thinflow.compare.verify import verify
from thinflow.errors import GraphError
from thinflow.explorer.building import Built
from thinflow.explorer.document import Overlay, Texts
from thinflow.ir.graph import Graph
from thinflow.synthetic import synthetic_feeds

LOUDEST_DB = 140.0
"""Of tensors that agree in every bit; beyond what float32 tells apart."""


def measured_over(a: Graph, b: Graph, feeds: Sequence[dict[str, Any]]) -> list[Layer]:
    """The tensors that both models have: their noise over all feeds, and the largest difference in any.

    Args:
        a, b: as for `measured_layers`.
        feeds: the tensors of one are in memory at a time; without any, one is made up.
    """
    found: dict[str, list[Layer]] = {}
    wanted: list[dict[str, Any] | None] = [*feeds] or [None]
    for feed in wanted:
        for layer in measured_layers(a, b, feed):
            found.setdefault(layer.name, []).append(layer)
    return [_together(layers) for layers in found.values()]


def _together(layers: Sequence[Layer]) -> Layer:
    known = [layer for layer in layers if not math.isnan(layer.noise)] or layers
    worst = max(known, key=lambda layer: layer.difference.largest)
    # Powers add up, not amplitudes; each sample counts the same, however loud it is.
    power = sum(layer.noise**2 for layer in known) / len(known)
    return replace(worst, noise=math.sqrt(power))


def measured_layers(a: Graph, b: Graph, feed: dict[str, Any] | None) -> list[Layer]:
    """The tensors that both models have, run on one feed.

    Args:
        a, b: graphs with their ends set, or as they were read from files that engines run.
        feed: by the names in `a`; made up if None.

    Raises:
        GraphError: they share no output, not all inputs, or no inner tensor.
    """
    found = verify(a, b, feed, runs=1, layers=True, second_opinion=False)
    layers = found.layers
    if not layers:
        fed = feed or {v.name: x for v, x in next(iter(synthetic_feeds(a.inputs, 1, 0))).items()}
        names = {v.name for v in b.inputs}
        twin = {n: x for n, x in fed.items() if n in names} or dict(
            zip([v.name for v in b.inputs], fed.values(), strict=False)
        )
        layers = inner_differences(a, b, fed, twin, tolerance=found.tolerance)
    if not layers:
        raise GraphError("the two models share no tensor that both can be asked for", a.path)
    return layers


def error_overlay(
    built: Built, layers: list[Layer], texts: Texts, other: str, *, second: bool, fed: str = "one feed"
) -> Overlay:
    """Signal to noise, in decibels, at the output of each node.

    Args:
        built: where the nodes are.
        layers: what was measured.
        texts: of the page.
        other: name of the model that it is measured against.
        second: whether `built` is the second of the two.
        fed: over what it was measured, in words.
    """
    finder = Finder(built)
    values: list[float | None] = [None] * len(built.boxes)
    reasons: dict[int, int] = {}
    for layer in layers:
        place = finder.find(layer.twin if second else layer.name)
        if place is None or math.isnan(layer.noise):
            continue
        values[place] = round(decibels(layer.noise), 2)
        codes = "" if layer.codes is None else f", {layer.codes:.3g} codes"
        reasons[place] = texts.of(f"largest difference {layer.difference.largest:.3g}{codes}")
    about = (
        f"Signal to noise of each tensor against {other}, over {fed}, with all noise that came before: "
        f"20 dB is a tenth of the amplitude, {LOUDEST_DB:.0f} dB stands for no difference."
    )
    return Overlay("error", "SQNR", about, values, unit="dB", worse="low", reasons=reasons)


def decibels(noise: float) -> float:
    """SQNR of a noise given as its share of the signal's root mean square."""
    if noise <= 0:
        return LOUDEST_DB
    return max(-LOUDEST_DB, min(LOUDEST_DB, -20 * math.log10(noise))) if math.isfinite(noise) else -LOUDEST_DB
