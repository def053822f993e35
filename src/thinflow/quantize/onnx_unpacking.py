"""Constant integers in an ONNX program, and what makes floats of them for layers that compute in float.

    codes -> Cast -> Mul(scales)             ONNX Runtime computes it once, when it loads a model
    codes -> DequantizeLinear(scales)        kept: for kernels that read the codes themselves

ONNX Runtime computes nothing in advance that reads from a DequantizeLinear, since a kernel for integers may
take its place. Where none does, it runs every time: `benchmarks/ptq`'s mobile takes 2.8 times as long as in
float with eight bits and 5.0 times with four, its dense 15 times. With Cast and Mul both take float's time.

The kernel that reads codes is MatMulNBits, for matrices of constants without a clamp behind. It rounds the
activations to eight bits in each run, in blocks of 32. Latencies beside float, of one row and of 256, on an
x86 processor with AVX-512 VNNI, and on one with AVX2 alone (`python -m benchmarks ptq_stored_codes`):

    weights        8 bits          4 bits          AVX2: 8 bits     4 bits
    256 x 256      0.90 to 1.16    0.90 to 1.32    1.00 to 2.18     0.91 to 1.31
    512 x 512      0.49 to 0.94    0.51 to 1.08    0.83 to 10.2     0.78 to 1.19
    1024 x 1024    0.36 to 0.78    0.30 to 0.89    0.77 to 1.34     0.65 to 1.00

With eight bits that rounding costs 4 dB of 42, and activations are to stay float: Cast and Mul. With four the
weights' own noise, of 17 dB, hides it, and large matrices gain time and seven eighths of their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from thinflow.ir.types import FLOAT, INT8, DType, dtype
from thinflow.onnx.program import Operator, Tensor
from thinflow.onnx.protos import ELEMENT_TYPES
from thinflow.quantize.kernels.onnx import INT8_KERNELS as KERNELS
from thinflow.quantize.rounding import Grid
from thinflow.quantize.small_weights import INT4
from thinflow.quantize.weights import INT4_MAX
from thinflow.typing import Array

_INT64 = dtype("int64")
_FEWEST_OF_KERNEL = 2**19
"""Weights from which on MatMulNBits with four bits is faster than float, whatever the number of rows."""


class Unpacking(NamedTuple):
    """Operators that make floats of stored codes.

    Attributes:
        operators: in running order.
        stored: the codes.
        result: the floats.
    """

    operators: list[Operator]
    stored: Tensor
    result: Tensor


def unpacking(
    name: str, codes: Array, grid: Grid, unique: Callable[[str], str], *, keeps_codes: bool = False
) -> Unpacking:
    """What makes the numbers of a grid out of codes.

    Args:
        name: of the weights; those of new tensors begin with it.
        unique: a name -> that name, or one like it that is not taken.
        keeps_codes: whether a kernel reads the codes, see `is_for_kernel`.
    """
    kind = INT4 if grid.limit == INT4_MAX else INT8
    make = _Maker(name, unique)
    stored = make.constant(kind.name, codes, kind)
    return make.dequantized(stored, grid) if keeps_codes else make.folded(stored, grid)


def is_for_kernel(
    operator: Operator, weights: Array, bits: int, readers: Mapping[Tensor, Sequence[tuple[Operator, int]]]
) -> bool:
    """True if ONNX Runtime has a kernel for an operator that reads the codes of its weights and gains by it.

    Args:
        readers: of each tensor, and the number of their input.
    """
    if bits != 4 or operator.code not in ("Gemm", "MatMul") or weights.ndim != 2:
        return False
    behind = [o for o, _ in readers.get(operator.outputs[0], ())]
    if len(behind) == 1 and behind[0].code == "Add":
        behind = [o for o, _ in readers.get(behind[0].outputs[0], ())]
    # A layer with its clamp is taken for one of integers to come, and no kernel for codes is put there.
    is_clamped = any(KERNELS.clamp(o) is not None for o in behind)
    return weights.size >= _FEWEST_OF_KERNEL and not is_clamped


def unpacked(result: Tensor, writers: Mapping[Tensor, Operator]) -> tuple[DType, Array] | None:
    """The type of the codes that a tensor is made of by `unpacking`, and the float32 numbers that they are.

    None if it is made in another way.
    """
    path = []
    tensor: Tensor | None = result
    while tensor is not None and not tensor.is_constant and tensor in writers:
        path.append(writers[tensor])
        tensor = writers[tensor].inputs[0]
    if not path or tensor is None or not tensor.is_constant:
        return None
    numbers = np.asarray(tensor.array(), np.float32)
    for operator in reversed(path):
        numbers = _step(operator, numbers)
    return tensor.dtype, numbers


def _step(operator: Operator, numbers: Array) -> Array:
    """What one of the operators of an unpacking makes."""
    if operator.code == "Cast":
        return numbers
    given = operator.inputs[1]
    assert given is not None, "only Cast has one input"
    if operator.code == "Reshape":
        return numbers.reshape(given.array())
    scales, axis, size = given.array(), operator.options.get("axis"), operator.options.get("block_size")
    if operator.code == "DequantizeLinear":
        block = None if axis is None or not size else (axis, size)
        scales = Grid(scales if block else scales.reshape(-1), axis, block=block).along(numbers.ndim)
    return np.asarray(numbers * scales, np.float32)


class _Maker:
    """Tensors and operators under names that begin with one."""

    def __init__(self, name: str, unique: Callable[[str], str]) -> None:
        self._name, self._unique = name, unique

    def constant(self, suffix: str, array: Array, kind: DType) -> Tensor:
        return Tensor(self._unique(f"{self._name}/{suffix}"), tuple(array.shape), kind, array)

    def _float(self, suffix: str, shape: tuple[int | None, ...] | None) -> Tensor:
        return Tensor(self._unique(f"{self._name}/{suffix}"), shape, FLOAT)

    def dequantized(self, stored: Tensor, grid: Grid) -> Unpacking:
        scales, options = grid.scales, dict[str, Any]()
        if grid.block is not None:
            options = {"axis": grid.block[0], "block_size": grid.block[1]}
        elif grid.axis is not None and scales.size > 1:
            options = {"axis": grid.axis}
        scale = self.constant("scale", scales if options else scales.reshape(()), FLOAT)
        result = self._float("float32", stored.shape)
        return Unpacking([Operator("DequantizeLinear", [stored, scale], [result], options)], stored, result)

    def folded(self, stored: Tensor, grid: Grid) -> Unpacking:
        data, scales = stored.array(), grid.along(stored.array().ndim)
        parted: tuple[int, ...] = data.shape
        if grid.block is not None:
            axis, size = grid.block
            # A dimension of blocks and one of what is in them, along which there is one scale.
            parted = (*data.shape[:axis], -1, size, *data.shape[axis + 1 :])
            scales = np.expand_dims(grid.scales, axis + 1)
        parted = data.reshape(parted).shape
        wide, scaled = self._float("wide", stored.shape), self._float("scaled", parted)
        operators = [Operator("Cast", [stored], [wide], {"to": ELEMENT_TYPES[FLOAT.name]})]
        last = self._reshaped(wide, "in_blocks", parted, operators)
        operators.append(Operator("Mul", [last, self.constant("scale", scales, FLOAT)], [scaled]))
        return Unpacking(operators, stored, self._reshaped(scaled, "float32", data.shape, operators))

    def _reshaped(self, x: Tensor, name: str, shape: tuple[int, ...], operators: list[Operator]) -> Tensor:
        if x.shape == shape:
            return x
        sizes = self.constant(f"{name}_shape", np.array(shape, np.int64), _INT64)
        result = self._float(name, shape)
        operators.append(Operator("Reshape", [x, sizes], [result]))
        return result
