"""Constants of an ONNX program stored as float16, half the size; it computes in float32.

A Cast stands behind each. ONNX Runtime runs it once, when the model is loaded.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from thinflow.ir.types import FLOAT, HALF
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.quantize.onnx.qdq import Quantized
from thinflow.quantize.result import Decision

LARGEST = float(np.finfo(np.float16).max)
_FLOAT = 1  # ONNX's number for the type
FEWEST = 128  # elements; a Cast takes as much room in the file as these save


def store_half(program: Program) -> Quantized:
    """Store all larger float constants as float16. The program stays as it is.

    Those in the bodies of loops and branches, and those that float16 cannot reach, stay float32.
    """
    result = Quantized(replace(program, operators=[]))
    made: dict[Tensor, Tensor] = {}
    names = {t.name for t in program.tensors()}
    for operator in program.operators:
        inputs: list[Tensor | None] = []
        for tensor in operator.inputs:
            if tensor is not None and tensor not in made and _is_worth_it(tensor, result):
                made[tensor] = _stored(tensor, operator, names, result)
            inputs.append(None if tensor is None else made.get(tensor, tensor))
        result.program.operators.append(replace(operator, inputs=inputs))
    result.warnings = list(dict.fromkeys(result.warnings))
    return result


def _is_worth_it(tensor: Tensor, result: Quantized) -> bool:
    if tensor.dtype is not FLOAT or not tensor.is_constant or tensor.array().size < FEWEST:
        return False
    data = tensor.array()
    largest = float(np.abs(data[np.isfinite(data)]).max(initial=0.0))
    if largest > LARGEST:
        result.warnings.append(f"constant '{tensor.name}' reaches {largest:.4g}, and float16 ends at 65504")
    return largest <= LARGEST


def _stored(tensor: Tensor, operator: Operator, names: set[str], result: Quantized) -> Tensor:
    """The float form of a new float16 constant."""
    data = tensor.array()
    name = _unique(f"{tensor.name}/float16", names)
    half = Tensor(name, tensor.shape, HALF, data.astype(np.float16))
    wide = Tensor(_unique(f"{tensor.name}/float32", names), tensor.shape, FLOAT)
    cast = Operator("Cast", [half], [wide], {"to": _FLOAT}, operator.origin)
    result.program.operators.append(cast)
    limits = float(data.min()), float(data.max())
    result.decisions.append(
        Decision(name, np.zeros(0, np.float32), 0, limits, "weights", "stored as float16")
    )
    return wide


def _unique(wished: str, names: set[str]) -> str:
    name, count = wished, 0
    while name in names:
        count += 1
        name = f"{wished}_{count}"
    names.add(name)
    return name
