"""From a float program to a smaller one, whatever the scheme."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, overload

from thinflow.errors import ParameterError
from thinflow.onnx import program as onnx
from thinflow.quantize.constants import Storing
from thinflow.quantize.int8 import quantize_int8
from thinflow.quantize.onnx_weights import store_integers
from thinflow.quantize.qdq import quantize_qdq
from thinflow.quantize.ranges import Range
from thinflow.quantize.recipe import QdqOptions, Quantized, Recipe, check_recipe
from thinflow.quantize.rounding import NEAREST, Rounding
from thinflow.quantize.small_weights import dynamic, float16, store_half, weights_only
from thinflow.tflite.model import Program

_STORING: dict[str, Callable[[Program, Recipe], Storing]] = {
    "dynamic": dynamic,
    "float16": float16,
    "int8_weights": weights_only,
    "int4_weights": weights_only,
}


def storing(program: Program, recipe: Recipe) -> Storing | None:
    """The rewriting of constants that a scheme asks for; None for integer arithmetic."""
    make = _STORING.get(recipe.scheme)
    return None if make is None else make(program, recipe)


@overload
def quantize_program(
    program: Program,
    recipe: Recipe,
    ranges: Mapping[Any, Range] | None = None,
    *,
    rounding: Rounding = NEAREST,
) -> Quantized[Program]: ...
@overload
def quantize_program(
    program: onnx.Program,
    recipe: Recipe,
    ranges: Mapping[Any, Range] | None = None,
    *,
    options: QdqOptions | None = None,
    imported: Mapping[Any, Range] | None = None,
    rounding: Rounding = NEAREST,
) -> Quantized[onnx.Program]: ...
def quantize_program(
    program: Program | onnx.Program,
    recipe: Recipe,
    ranges: Mapping[Any, Range] | None = None,
    *,
    options: QdqOptions | None = None,
    imported: Mapping[Any, Range] | None = None,
    rounding: Rounding = NEAREST,
) -> Quantized[Any]:
    """The program in a recipe's scheme; the given one stays as it is and shares constants with it.

    Args:
        ranges: of activations, see `calibrate`; only schemes with `Recipe.needs_samples` look at them.
        options, imported: for ONNX; see `quantize_qdq`.
        rounding: of weights, and what their biases become; float16 has no use for it.

    Raises:
        GraphError: the program is quantized already.
        ParameterError: the recipe names operators that the program does not have, or asks for what an ONNX
            model cannot have.
    """
    if isinstance(program, onnx.Program):
        check_recipe(recipe)
        recipe.check_names((o for block in program.programs() for o in block.operators), "ONNX")
        if recipe.scheme == "float16":
            return store_half(program, recipe)
        if recipe.scheme in ("int8_weights", "int4_weights"):
            return store_integers(program, recipe, rounding)
        return quantize_qdq(program, ranges or {}, recipe, options, imported=imported, rounding=rounding)
    if recipe.block_size:
        raise ParameterError(
            "block_size is for ONNX models", hint="LiteRT's kernels take one scale per channel: leave it out"
        )
    recipe.check_names((o for subgraph in program.subgraphs for o in subgraph.operators), "LiteRT")
    scheme = storing(program, recipe)
    if scheme is None:
        return quantize_int8(program, ranges or {}, recipe, rounding=rounding)
    scheme.rounding = rounding
    return scheme.apply(program)
