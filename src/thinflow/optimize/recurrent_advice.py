"""Advice on recurrent networks: where ranges that LiteRT finds in each run beat those of samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from thinflow.onnx import program as onnx
from thinflow.optimize.gains import Gain, usual_db
from thinflow.optimize.quality import Score
from thinflow.quantize.macs import multiplications, recurrent_multiplications, unrolled_cells
from thinflow.quantize.recipe import Recipe
from thinflow.tflite import model as tflite

_WORTH_DB = 1.0
"""What `dynamic` has to gain to be worth a word. Seven trained networks lose 0.1 to 7 dB by it, since int8
gives their cells ranges of each run where that pays."""
_MOST = 0.5
"""Part of the multiplications in recurrent layers from which on a network is recurrent for the most part."""


def recurrent_part(program: tflite.Program | onnx.Program) -> float:
    """The part of a LiteRT program's multiplications that its recurrent layers make; 0 for ONNX programs, for
    which there is no scheme `dynamic`.
    """
    if isinstance(program, onnx.Program):
        return 0.0
    inside, costs = recurrent_multiplications(program), multiplications(program)
    # Unrolled ones are among the layers outside of loops.
    outside = sum(costs.values()) - sum(costs[o] for o in unrolled_cells(program))
    return inside / max(inside + outside, 1)


def without_samples(program: tflite.Program | onnx.Program) -> str:
    """What else those may do who have no samples, behind a sentence; "" if nothing."""
    if recurrent_part(program) < _MOST:
        return ""
    return ", or take --scheme dynamic, which needs none: most of this network is recurrent"


def dynamic_advice(
    program: tflite.Program | onnx.Program, recipe: Recipe, scores: Callable[[Recipe], Sequence[Score]]
) -> list[str]:
    """A sentence that recommends the scheme `dynamic`, where a recurrent network has less noise by it.

    Args:
        recipe: of the smaller model.
        scores: recipe -> how near it comes to float, for each of some samples that made no ranges.
    """
    # Whoever wants integers at an end has no use for it.
    is_free = recipe.needs_samples and recipe.input_type == recipe.output_type == "float32"
    if not is_free or (part := recurrent_part(program)) < _MOST:
        return []
    other = Recipe(scheme="dynamic", skip_ops=recipe.skip_ops, per_channel=recipe.per_channel)
    before, after = scores(recipe), scores(other)
    # Nothing is known of other networks: what was measured counts alone.
    gain = Gain.between(before, after)
    if gain.mean_db - gain.error_db < _WORTH_DB or gain.together_db < 0:
        return []
    return [
        f"recurrent layers make {part:.0%} of the multiplications, and the scheme 'dynamic' leaves less"
        f" noise: {usual_db(after):.1f} instead of {usual_db(before):.1f} dB on {len(after)} samples held"
        " out: --scheme dynamic, which needs no samples"
    ]
