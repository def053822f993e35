"""Fewer operators for the same result: what LiteRT's kernels can do in one step is put into one operator.

Each rule looks at one operator and its neighbours, and either declines or rewires the subgraph. None changes
an array: weights may be shared, so a rule that needs other numbers makes a tensor of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from thinflow.lower.tflite import fuse_arithmetic as arithmetic
from thinflow.lower.tflite import fuse_channels as channels
from thinflow.lower.tflite import fuse_layout as layout
from thinflow.lower.tflite.clamps import drop_clamps
from thinflow.lower.tflite.column_blocks import merge_columns
from thinflow.lower.tflite.fewer import drop_flattening, fuse_prelu
from thinflow.lower.tflite.gelu import expand_erf, fuse_gelu
from thinflow.lower.tflite.program import Operator, Subgraph
from thinflow.lower.tflite.quantized_context import is_quantized
from thinflow.lower.tflite.quantized_passes import merge_addends
from thinflow.lower.tflite.wiring import Wiring

Rule = Callable[[Wiring, Operator], None]
_MAX_ROUNDS = 20

RULES: dict[str, Sequence[Rule]] = {
    "RELU": (arithmetic.fuse_activation,),
    "RELU6": (arithmetic.fuse_activation,),
    "RELU_N1_TO_1": (arithmetic.fuse_activation,),
    "MAXIMUM": (arithmetic.fuse_leaky_relu,),
    "MINIMUM": (arithmetic.fuse_relu6,),
    "ADD": (arithmetic.drop_neutral, fuse_prelu, arithmetic.fuse_bias, arithmetic.merge_constants),
    "SUB": (arithmetic.invert_constant,),
    "DIV": (arithmetic.invert_constant,),
    "MUL": (
        arithmetic.drop_neutral,
        arithmetic.fuse_hard_swish,
        fuse_gelu,
        arithmetic.fuse_scale,
        arithmetic.merge_constants,
    ),
    "CONV_2D": (layout.fuse_pad, arithmetic.fuse_input_scale),
    "DEPTHWISE_CONV_2D": (layout.fuse_pad, arithmetic.fuse_input_scale),
    "FULLY_CONNECTED": (drop_flattening, arithmetic.fuse_input_scale),
    "BATCH_TO_SPACE_ND": (layout.fuse_dilation,),
    "RESHAPE": (layout.merge_reshapes, layout.drop_reshape, layout.keep_dims),
    "TRANSPOSE": (layout.merge_transposes, layout.simplify_transpose),
    "CAST": (layout.drop_cast,),
    "PAD": (layout.drop_empty_pad,),
    "PADV2": (layout.drop_empty_pad,),
    "MIRROR_PAD": (layout.drop_empty_pad,),
    "TILE": (layout.drop_tile,),
    "CONCATENATION": (layout.drop_single_join,),
}

LAST_RULES: dict[str, Sequence[Rule]] = {
    "ADD": (channels.to_depthwise,),
    "MAX_POOL_2D": (channels.pool_to_depthwise,),
    "AVERAGE_POOL_2D": (channels.pool_to_depthwise,),
}
"""For what the others have left: a convolution nearby takes arithmetic for less."""


def fuse(subgraph: Subgraph, *, matrix_unit: bool | None = None) -> None:
    """Apply every rule until none finds anything, then the last ones; then what concerns codes, and ERF.

    Args:
        matrix_unit: see `merge_columns`; None for any processor or accelerator, where layers keep their form.
    """
    for _ in range(_MAX_ROUNDS):
        if not _apply(RULES, subgraph):
            break
    _apply(LAST_RULES, subgraph)
    merge_addends(subgraph)
    if matrix_unit is not None:
        merge_columns(subgraph, matrix_unit=matrix_unit)
    drop_clamps(subgraph)
    expand_erf(subgraph)


def _apply(rules: Mapping[str, Sequence[Rule]], subgraph: Subgraph) -> int:
    """One round over all operators but those on codes, which are no reals; how many inputs it changed."""
    wiring = Wiring(subgraph)
    for operator in [o for o in subgraph.operators if not is_quantized(o)]:
        for rule in rules.get(operator.code, ()):
            if not wiring.is_gone(operator) and rule in rules.get(operator.code, ()):
                rule(wiring, operator)
    wiring.finish()
    subgraph.remove_dead()
    return wiring.changes
