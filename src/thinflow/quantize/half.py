"""Constants stored as float16, half the size; the runtime computes in float32.

XNNPACK unpacks them once, when the model is loaded; ONNX Runtime runs the Cast behind each once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, HALF
from thinflow.lower.tflite import program as tflite
from thinflow.onnx import program as onnx
from thinflow.onnx.protos import ELEMENT_TYPES
from thinflow.quantize.constants import Reading, Smaller, Storing
from thinflow.quantize.kernels import is_float
from thinflow.quantize.qdq import unique_names
from thinflow.quantize.recipe import PLAIN, Recipe
from thinflow.quantize.result import Decision, Quantized
from thinflow.typing import Array

LARGEST = float(np.finfo(np.float16).max)
SMALLEST_NORMAL = float(np.finfo(np.float16).tiny)
# Elements. DEQUANTIZE or Cast and its tensor take as much room in the file as so many save: 256 bytes.
FEWEST = 128
# Of the weights, from which on their lost bits are worth a warning.
SUBNORMAL_PART = 0.01


def float16(program: tflite.Program, recipe: Recipe) -> Storing:
    """Stores all larger float constants of a LiteRT program as float16."""
    del program  # every constant is looked at alone
    return _Half(recipe)


def _why_not(constant: Any) -> str:
    """Reason against float16; empty if there is none. Infinities stay what they are."""
    data = np.asarray(constant.array())
    # Infinities and NaN exist in float16 as well; only finite numbers could become infinite.
    largest = float(np.abs(data[np.isfinite(data)]).max(initial=0.0))
    if largest > LARGEST:
        return f"constant '{constant.name}' reaches {largest:.4g}, and float16 ends at {LARGEST:g}"
    return ""


def _stored(constant: Any, name: str, warnings: list[str]) -> tuple[Array, Decision]:
    """A constant in float16, and what is to be said of it."""
    data = np.asarray(constant.array())
    magnitude = np.abs(data)
    part = np.count_nonzero((magnitude > 0) & (magnitude < SMALLEST_NORMAL)) / data.size
    if part > SUBNORMAL_PART:
        warnings.append(
            f"{100 * part:.0f}% of '{constant.name}' are so small that float16 keeps few of their bits"
        )
    # float16 keeps NaN and infinities, but they end no range of real numbers, and JSON has no word for them.
    finite = data[np.isfinite(data)]
    limits = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    decision = Decision(name, np.zeros(0, np.float32), 0, limits, "weights", "stored as float16")
    return data.astype(np.float16), decision


@dataclass
class _Half(Storing):
    def choose(self, operator: tflite.Operator, number: int, constant: tflite.Tensor) -> Smaller | str:
        if np.asarray(constant.array()).size < FEWEST:
            return ""
        why = _why_not(constant)
        if why:
            return why
        return Smaller(lambda: self.once(constant, make=lambda: self._half_of(constant)), Reading.BEFORE)

    def _half_of(self, constant: tflite.Tensor) -> tuple[tflite.Tensor, Decision]:
        name = f"{constant.name}/float16"
        stored, decision = _stored(constant, name, self.warnings)
        return tflite.Tensor(name, constant.shape, HALF, stored), decision


def _is_large(tensor: onnx.Tensor | None) -> bool:
    """True for a float constant that is worth storing as float16."""
    return tensor is not None and is_float(tensor) and tensor.is_constant and tensor.array().size >= FEWEST


def store_half(program: onnx.Program, recipe: Recipe = PLAIN) -> Quantized[onnx.Program]:
    """Store all larger float constants of an ONNX program as float16. The program stays as it is.

    Those in the bodies of loops and branches, those that float16 cannot reach, and those of operators that
    the recipe keeps in float stay float32.
    """
    result = Quantized(replace(program, operators=[]))
    wide: dict[onnx.Tensor, onnx.Tensor] = {}
    unique = unique_names({t.name for t in program.tensors()})

    def widened(tensor: onnx.Tensor, operator: onnx.Operator) -> onnx.Tensor:
        """The stand-in of a tensor: itself, or the float32 form of its new float16 constant."""
        # One Cast serves all readers of a constant.
        if tensor in wide or not _is_large(tensor):
            return wide.get(tensor, tensor)
        why = _why_not(tensor)
        if why:
            result.warnings.append(why)
            return tensor
        name = unique(f"{tensor.name}/float16")
        stored, decision = _stored(tensor, name, result.warnings)
        half = onnx.Tensor(name, tensor.shape, HALF, stored)
        wide[tensor] = onnx.Tensor(unique(f"{tensor.name}/float32"), tensor.shape, FLOAT)
        options = {"to": ELEMENT_TYPES[FLOAT.name]}
        cast = onnx.Operator("Cast", [half], [wide[tensor]], options, operator.origin)
        result.program.operators.append(cast)
        result.decisions.append(decision)
        return wide[tensor]

    for operator in program.operators:
        why = recipe.why_skipped(operator)
        inputs = [t if t is None or why else widened(t, operator) for t in operator.inputs]
        new = replace(operator, inputs=inputs)
        result.program.operators.append(new)
        if why and any(map(_is_large, operator.inputs)):
            result.float_operators.append((new, why))
    result.warnings = list(dict.fromkeys(result.warnings))
    return result
