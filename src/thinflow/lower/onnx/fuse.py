"""Fewer operators for the same result.

Run-time optimizers do much of this as well; it is done here so that the file is small and says what it means.
"""

from __future__ import annotations

import numpy as np

from thinflow.lower.onnx import fuse_arithmetic as arithmetic
from thinflow.lower.onnx import fuse_layout as layout
from thinflow.lower.onnx import layer_norm
from thinflow.lower.onnx.gelu import FuseGelu
from thinflow.lower.onnx.wiring import new_constant
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.program import fusion
from thinflow.program.wiring import with_constant

# Where several rules are for one op, the first that fits decides.
RULES = fusion.by_code(
    arithmetic.DropNeutral(),
    arithmetic.FuseBias(),
    arithmetic.FuseGemm(),
    FuseGelu(),
    layer_norm.FuseLayerNorm(),
    layer_norm.FuseAppliedNorm(),
    layer_norm.FuseNormScale(),
    layer_norm.FuseNormOffset(),
    arithmetic.FuseClip(),
    arithmetic.FuseRelu(),
    layout.FusePad(),
    layout.MergeReshapes(),
    layout.DropReshape(),
    layout.AsReshape(),
    layout.MergeTransposes(),
    layout.SimplifyTranspose(),
    layout.MergeEqualTransposes(),
    layout.DropCast(),
    layout.DropSingleConcat(),
)
CHANNEL_RULES = fusion.by_code(arithmetic.FuseChannels())
"""For the whole program, where no layer takes the factors."""


def fuse(program: Program) -> None:
    """Apply every rule until none finds anything."""
    fusion.fuse(program, RULES)
    own_halves(program)


def fuse_channels(program: Program) -> None:
    """Join a factor and an addend per channel wherever nobody looks into the pair."""
    fusion.fuse(program, CHANNEL_RULES, rounds=1)


def own_halves(program: Program) -> None:
    """Let one product at most read 0.5 * x, and others x / 2, which is the same number.

    ONNX Runtime makes one op of a gelu and drops its half of x, even where something else reads that as well;
    then it refuses the model. Copies of the product would not do: it merges them first.
    """
    for half in [o for o in program.operators if o.code == "Mul" and _is_half(o)]:
        (y,), (x, constant) = half.outputs, with_constant(half)
        read = [o for o in program.operators if y in o.inputs]
        kept = [] if y in program.outputs else [o for o in read if o.code == "Mul"][:1]
        if not any(o.code == "Mul" for o in read) or read == kept or x is None or constant is None:
            continue
        two = new_constant(f"{y.name}/two", np.full_like(constant, 2), y.dtype)
        other = Tensor(f"{y.name}/half", y.shape, y.dtype)
        place = program.operators.index(half) + 1
        program.operators.insert(place, Operator("Div", [x, two], [other], origin=half.origin))
        for reader in read:
            if reader not in kept:
                reader.inputs = [other if t is y else t for t in reader.inputs]


def _is_half(operator: Operator) -> bool:
    _, constant = with_constant(operator)
    return constant is not None and constant.size == 1 and bool((constant == 0.5).all())
