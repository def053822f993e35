"""Quantized LiteRT programs in uint8, as the first ones were: weights may have a zero point there.

Every code is 128 higher than as int8, and so is every zero point: the numbers are the same.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from thinflow.ir.types import INT8, UINT8
from thinflow.quantize.kernels.litert import INT8_KERNELS
from thinflow.quantize.recipe import Quantized
from thinflow.quantize.weights import has_symmetric_grid, shifted_grid
from thinflow.tflite.model import Program, Quantization, Signature, Subgraph, Tensor


def has_shifted_weights(program: Program) -> bool:
    """True if all weights of a float program lie on grids, and some on one that only uint8 can have.

    One grid for all of a tensor: uint8 has none for each channel.
    """
    layers = [(o, INT8_KERNELS.weights(o)) for o in program.subgraphs[0].operators]
    arrays = [(np.asarray(w.array()), INT8_KERNELS.weight_axis(o)) for o, w in layers if w is not None]
    is_needed = not all(has_symmetric_grid(w, axis) for w, axis in arrays)
    return is_needed and all(shifted_grid(w) is not None for w, _ in arrays)


def as_unsigned(quantized: Quantized[Program]) -> Quantized[Program]:
    """A program of int8 in uint8; its operators are copies. O(tensors)."""
    program = quantized.program
    made: dict[Tensor, Tensor] = {}

    def one(tensor: Tensor) -> Tensor:
        if tensor not in made:
            made[tensor] = _raised(tensor)
        return made[tensor]

    main = program.subgraphs[0]
    copies = {
        o: replace(
            o,
            inputs=[None if t is None else one(t) for t in o.inputs],
            outputs=[one(t) for t in o.outputs],
        )
        for o in main.operators
    }
    inputs, outputs = ([one(t) for t in side] for side in (main.inputs, main.outputs))
    subgraph = Subgraph(inputs, outputs, list(copies.values()), name=main.name)
    signatures = {
        key: Signature(*({name: one(t) for name, t in side.items()} for side in pair))
        for key, pair in program.signatures.items()
    }
    raised = {t.name for t, new in made.items() if t is not new}
    return replace(
        quantized,
        program=replace(program, subgraphs=[subgraph, *program.subgraphs[1:]], signatures=signatures),
        decisions=[
            replace(d, zero_point=d.zero_point + 128) if d.tensor in raised else d
            for d in quantized.decisions
        ],
        float_operators=[(copies.get(o, o), why) for o, why in quantized.float_operators],
    )


def _raised(tensor: Tensor) -> Tensor:
    """An int8 tensor as uint8; others as they are."""
    known = tensor.quantization
    if tensor.dtype is not INT8 or known is None:
        return tensor
    quantization = Quantization(known.scale, known.zero_point + 128, known.axis)
    # A sum of an array without axes is none any more.
    data = None if tensor.data is None else np.asarray(tensor.array().astype(np.int16) + 128, np.uint8)
    return replace(tensor, dtype=UINT8, data=data, quantization=quantization)
