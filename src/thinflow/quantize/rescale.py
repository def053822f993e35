"""Channels rescaled as a recipe says, by what samples or weights tell of their sizes.

A trained network may hold channels that are a hundred times larger than others: nothing in training forbids
it. One scale for a whole tensor then leaves nothing of the small ones, and answers fall to chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from thinflow.onnx import program as onnx
from thinflow.quantize.channel_groups import Group, find_groups, watched
from thinflow.quantize.channels import channel_statistics
from thinflow.quantize.equalize import (
    channel_sizes,
    equalizing_factors,
    rescaled,
    smoothing_factors,
    weight_sizes,
)
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.runners import Feed
from thinflow.tflite import model as tflite
from thinflow.typing import Array

P = TypeVar("P", bound=tflite.Program | onnx.Program)

# Of 8 bits, a channel of the middle size has 4 left where the largest is 16 times as large. Networks as they
# come from training stay below 4 (benchmarks/ptq, held by a test), one of heat maps reaches 5.2.
UNEQUAL = 16.0


@dataclass(frozen=True)
class Rescaling(Generic[P]):
    """A program whose channels were rescaled.

    Attributes:
        program: computes the same in float.
        groups: number of channel groups that have other factors than 1.
        ratio: the largest channel over the middle one, in the most unequal of all groups; 1.0 without any.
        where: the name of a tensor of that group.
    """

    program: P
    groups: int = 0
    ratio: float = 1.0
    where: str = ""


def rescale(program: P, recipe: Recipe, feeds: Sequence[Feed], *, threads: int = 1) -> Rescaling[P]:
    """The program as `Recipe.rescale` says.

    Schemes with ranges of activations ask for smoothing, by what samples show; others store weights alone,
    and ask for equalization, by weights. So do weights with one scale for a whole layer.

    Args:
        feeds: samples; a few tell the sizes of channels.

    Raises:
        FeedError: a sample does not fit.
    """
    groups = find_groups(program) if recipe.rescale != "off" else []
    if not groups:
        return Rescaling(program)
    smooths = recipe.needs_samples and (recipe.per_channel or recipe.rescale == "unequal")
    if smooths:
        seen = channel_statistics(program, watched(groups), feeds, threads=threads)
        ratios = [_ratio(channel_sizes(group, seen)) for group in groups]
    else:
        ratios = [_ratio(weight_sizes(group)) for group in groups]
    chosen = [g for g, r in zip(groups, ratios, strict=True) if recipe.rescale == "all" or r > UNEQUAL]
    if not chosen:
        return Rescaling(program)
    if smooths:
        factors = {group: smoothing_factors(group, seen) for group in chosen}
    else:
        factors = dict(zip(chosen, equalizing_factors(chosen), strict=True))
    most = int(np.argmax(ratios))
    return Rescaling(rescaled(program, factors), len(chosen), float(ratios[most]), _name_of(groups[most]))


def _ratio(sizes: Array) -> float:
    """The largest over the middle one; channels of zeros left out."""
    sizes = sizes[sizes > 0]
    return float(sizes.max() / np.median(sizes)) if sizes.size else 1.0


def _name_of(group: Group) -> str:
    return str(group.tensors[0].name)
