"""Convolutions of quantized LiteRT programs that read several columns at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from thinflow.lower.tflite.fuse_quantized import merge_columns
from thinflow.quantize.recipe import Decision, Recipe
from thinflow.tflite.model import Subgraph, Tensor


def with_merged_columns(subgraph: Subgraph, decisions: Sequence[Decision], recipe: Recipe) -> list[Decision]:
    """Let convolutions read several columns at once where the recipe wants it, which changes no result.

    Returns:
        The decisions about what is left, and about the tensors that hold the same numbers otherwise.
    """
    if recipe.columns == "off":
        return list(decisions)
    derived: dict[str, list[Tensor]] = {}
    for tensor, source in merge_columns(subgraph, matrix_unit=recipe.columns == "amx").items():
        derived.setdefault(source.name, []).append(tensor)
    left = {t.name for t in subgraph.tensors()}

    def follow(decision: Decision) -> Iterator[Decision]:
        if decision.tensor in left:
            yield decision
        for tensor in derived.get(decision.tensor, ()):
            assert tensor.quantization is not None, "integers have a scale"
            reason = f"the numbers of '{decision.tensor}', several columns at once"
            yield replace(decision, tensor=tensor.name, scale=tensor.quantization.scale, reason=reason)

    return [new for decision in decisions for new in follow(decision)]
