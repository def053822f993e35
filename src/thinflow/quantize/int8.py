"""Rewrite a float LiteRT program into integer arithmetic: int8 weights, int8 or int16 activations.

    x [float] -> CONV_2D(x, w, b)   ->   QUANTIZE(x) -> CONV_2D(int8, int8 w, int32 b) -> DEQUANTIZE

QUANTIZE and DEQUANTIZE stand only where an integer region borders on floats, once per tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.ir.types import INT32
from thinflow.quantize import integer_lstm
from thinflow.quantize.borders import (
    integer_borders,
    layer_scales_for,
    why_scales_apart,
)
from thinflow.quantize.int8_rewriter import IntegerRewriter, edge_scales
from thinflow.quantize.kernels import Kernels
from thinflow.quantize.kernels.litert import BY_SCHEME
from thinflow.quantize.merged_columns import with_merged_columns
from thinflow.quantize.placement import KEPT, Placement, place
from thinflow.quantize.ranges import (
    Assignment,
    Range,
    assign,
    parameters_for,
)
from thinflow.quantize.recipe import PLAIN, Decision, Quantized, Recipe, require_float
from thinflow.quantize.rounding import NEAREST, Rounding
from thinflow.quantize.small_weights import dynamic, weights_only, with_small_bodies
from thinflow.tflite.model import Operator, Program, Signature, Subgraph, Tensor


def quantize_int8(
    program: Program,
    ranges: Mapping[Any, Range],
    recipe: Recipe = PLAIN,
    border_types: Mapping[str, str] | None = None,
    *,
    shifted: bool = False,
    rounding: Rounding = NEAREST,
) -> Quantized[Program]:
    """An integer version of a float program, which stays as it is and shares float constants with the result.

    Only the first subgraph computes in integers. Others, the bodies of loops, compute in float with weights
    that are stored as int8: calls hand over floats.

    Args:
        ranges: of every float32 tensor that is not constant, see `calibrate`. What is missing stays float.
        border_types: name of an input or output -> its type; all others are float32. Default: as the recipe
            says.
        shifted: whether weights may have a zero point, as only the uint8 kernels take them; see `unsigned`.
        rounding: of weights, and what their biases become.

    Raises:
        GraphError: the program is quantized already.
    """
    kernels = BY_SCHEME[recipe.scheme]
    main = program.subgraphs[0]
    require_float(program, 1)
    main = replace(main, operators=[_free_pool(o, recipe) for o in main.operators])
    lstms = [o for o in main.operators if o.code == integer_lstm.CODE and o.code in kernels.table]
    floats = {o: why for o in lstms if (why := integer_lstm.why_float(o, main, recipe))}
    ranges = integer_lstm.with_starts(ranges, main, [o for o in lstms if o not in floats])
    placement, assignment = _settle(main, kernels, recipe, ranges, shifted, floats)
    # An input or output may border on float operators alone and has no parameters yet.
    borders = integer_borders(main, recipe, border_types)
    for tensor in borders:
        if tensor in ranges and not tensor.is_constant:
            assignment.of.setdefault(tensor, parameters_for(ranges[tensor], arithmetic=kernels.arithmetic))
    # What a file rounds stays rounded, and cut off, whoever computes it.
    kept = {t for t, r in ranges.items() if r.observer == KEPT}
    for tensor in kept:
        assignment.of.setdefault(tensor, parameters_for(ranges[tensor], arithmetic=kernels.arithmetic))
    rewriter = IntegerRewriter(main, kernels, assignment, recipe, borders, kept, shifted, rounding)
    for operator in (o for o, why in placement.items() if o.code == integer_lstm.CODE and not why):
        y = assignment.of[operator.outputs[0]]
        rewriter.states |= integer_lstm.state_forms(operator, main, y, ranges)
    for operator in main.operators:
        rewriter.add(operator, placement.get(operator))
    subgraph = rewriter.finish()
    # What is stored is read by floats, whatever the model's own borders are.
    stored = replace(
        recipe,
        scheme="int8_weights",
        weights_only=(),
        dynamic_nodes=(),
        input_type="float32",
        output_type="float32",
    )
    subgraph, small, decisions = _with_small_weights(
        program, subgraph, rewriter.made, recipe, stored, rounding
    )
    decisions = with_merged_columns(subgraph, rewriter.decisions, recipe) + decisions
    made = {
        o: small.get(new, new) for o, new in rewriter.made.items() if placement.get(o) == "" or new in small
    }
    kept_float = [(small.get(new, new), why) for new, why in rewriter.kept_float]
    # One range for all steps, and for sums of gates, would leave them fewer bits than ranges of each step.
    bodies = with_small_bodies(program, stored, rounding)
    result = replace(program, subgraphs=[subgraph, *bodies.program.subgraphs])
    result.signatures = {
        key: Signature(*({n: rewriter.interface.get(t, t) for n, t in side.items()} for side in signature))
        for key, signature in program.signatures.items()
    }
    return Quantized(result, decisions + bodies.decisions, kept_float, assignment.warnings, made)


def _with_small_weights(
    program: Program,
    subgraph: Subgraph,
    made: Mapping[Operator, Operator],
    recipe: Recipe,
    stored: Recipe,
    rounding: Rounding,
) -> tuple[Subgraph, dict[Operator, Operator], list[Decision]]:
    """The subgraph with integer weights in layers that stay between floats, what these became, and grids.

    Args:
        made: operator of the float program -> that of the subgraph.
        stored: the recipe of what is read by floats.
    """
    small: dict[Operator, Operator] = {}
    decisions: list[Decision] = []
    for field_name, scheme in (
        ("weights_only", weights_only(program, stored)),
        ("dynamic_nodes", dynamic(program, replace(stored, scheme="dynamic"))),
    ):
        scheme.rounding = rounding
        # What both fields name is stored by the first.
        named = {n for o, n in made.items() if recipe.stores_weights(o, field_name)} - small.keys()
        if field_name == "weights_only":
            # Unpacked once: int8 beside floats costs LiteRT's LSTM 4 to 7 dB, and a small one gains no time.
            named |= {n for o, n in made.items() if o.code == integer_lstm.CODE and not recipe.why_skipped(o)}
        subgraph, now = scheme.stored_in(subgraph, named)
        small |= now
        decisions += scheme.decisions
    return subgraph, small, decisions


def _settle(
    main: Subgraph,
    kernels: Kernels,
    recipe: Recipe,
    ranges: Mapping[Any, Range],
    shifted: bool,
    floats: Mapping[Operator, str],
) -> tuple[Placement, Assignment]:
    """Placement and quantization parameters, which depend on each other for layers.

    Args:
        floats: operators that stay float, and why.
    """
    forced = dict(floats)
    while True:
        # An operator that has to stay float changes which tensors share a scale, and with them the factors of
        # others: once more from the start. The forced ones only grow in number, hence it ends.
        placement = place(main, kernels, recipe, ranges, forced)
        kept = {t: r for t, r in ranges.items() if r.observer == KEPT}
        assignment = assign(main, placement, ranges, kernels, kept)
        before = len(forced)
        for operator in (o for o, why in placement.items() if not why):
            kernel = kernels.table[operator.code]
            if kernel.weighted is not None:
                s_x, s_y = edge_scales(operator, kernel.weighted, assignment)
                scales = layer_scales_for(operator, kernels, s_x, s_y, recipe, shifted).weights
                # The kernels requantize sums with this factor, which has an upper end.
                if s_x * float(scales.max(initial=0)) / s_y >= kernels.largest_factor:
                    forced[operator] = "its output needs much finer steps than its inputs have"
            elif why := why_scales_apart(operator, kernels, assignment):
                forced[operator] = why
        if len(forced) == before:
            return placement, assignment


def _free_pool(operator: Operator, recipe: Recipe) -> Operator:
    """MEAN instead of an average over all of the picture.

    The average has a much smaller range than its input, and MEAN, unlike AVERAGE_POOL_2D, may use it.
    """
    x = operator.inputs[0] if operator.inputs else None
    if operator.code != "AVERAGE_POOL_2D" or x is None or x.shape is None or recipe.why_float(operator):
        return operator
    window = operator.options.get("filter_height"), operator.options.get("filter_width")
    is_plain = operator.options.get("fused_activation_function", "NONE") == "NONE"
    if window != x.shape[1:3] or (operator.outputs[0].shape or ())[1:3] != (1, 1) or not is_plain:
        return operator
    # NHWC: height and width.
    axes = Tensor(f"{operator.outputs[0].name}/axes", (2,), INT32, np.array([1, 2], np.int32))
    # Version 1 of MEAN, since options and version of the pool say nothing about it.
    return replace(operator, code="MEAN", inputs=[x, axes], options={"keep_dims": True}, version=1)
