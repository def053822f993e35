"""Convolutions of int8 images with few channels that read several columns at once, and their decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from thinflow.lower.tflite.column_blocks import merge_columns
from thinflow.lower.tflite.program import Subgraph, Tensor
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.result import Decision


def merge(subgraph: Subgraph, decisions: Sequence[Decision], recipe: Recipe) -> list[Decision]:
    """The decisions, after convolutions were changed as the recipe wants; no result changes."""
    if recipe.columns == "off":
        return list(decisions)
    made = merge_columns(subgraph, matrix_unit=recipe.columns == "amx")
    derived: dict[str, list[Tensor]] = {}
    for tensor, source in made.items():
        derived.setdefault(source.name, []).append(tensor)
    left = {t.name for t in subgraph.tensors()}
    return [new for decision in decisions for new in _told(decision, derived.get(decision.tensor, ()), left)]


def _told(decision: Decision, derived: Sequence[Tensor], left: set[str]) -> Iterator[Decision]:
    """The decision if its tensor still is there, and the same for tensors that hold its numbers."""
    if decision.tensor in left:
        yield decision
    for tensor in derived:
        assert tensor.quantization is not None, "codes have a scale"
        reason = f"the numbers of '{decision.tensor}', several columns at once"
        yield replace(decision, tensor=tensor.name, scale=tensor.quantization.scale, reason=reason)
