"""Rewrite a float ONNX program into one that computes in 8-bit integers.

    x -> Conv(x, w, b) -> y      ->      Q -> DQ -> Conv(DQ, DQ(int8 w), DQ(int32 b)) -> Q -> DQ -> y

Q is QuantizeLinear and DQ DequantizeLinear. ONNX Runtime replaces DQ, op and Q by one integer kernel, and
nothing of the pairs is left between two of them. Who wants floats reads behind a DQ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, INT8, INT32, UINT8, DType, dtype
from thinflow.onnx.program import Operator, Program, Tensor, unique_names
from thinflow.quantize.kernels import is_float
from thinflow.quantize.kernels.onnx import INT8_KERNELS as KERNELS
from thinflow.quantize.narrow_sums import narrowed, overflow, pair_scales
from thinflow.quantize.onnx_unpacking import unpacking
from thinflow.quantize.placement import KEPT, Neighbours, Placement, gives_floats, place
from thinflow.quantize.ranges import (
    Assignment,
    Parameters,
    Range,
    assign,
    constant_range,
    parameters_for,
    passes_limits,
)
from thinflow.quantize.recipe import PLAIN, Decision, QdqOptions, Quantized, Recipe, check_recipe
from thinflow.quantize.rounding import NEAREST, Grid, Rounding
from thinflow.quantize.small_weights import FEWEST
from thinflow.quantize.weights import (
    ALL_OF_INT8,
    has_symmetric_grid,
    layer_scales,
    memory_key,
    quantize_bias,
    usable_scales,
    weight_scales,
)
from thinflow.typing import Array


def quantize_qdq(
    program: Program,
    ranges: Mapping[Any, Range],
    recipe: Recipe = PLAIN,
    options: QdqOptions | None = None,
    *,
    imported: Mapping[Any, Range] | None = None,
    rounding: Rounding = NEAREST,
) -> Quantized[Program]:
    """An 8-bit version of a float program, which stays as it is and shares float constants with the result.

    Args:
        ranges: of every float32 tensor that is not constant, see `calibrate`. What is missing stays float.
        imported: ranges the model was trained with, see `without_fake_quants`.
        rounding: of weights, and what their biases become.

    Raises:
        ParameterError: the recipe asks for what an ONNX model cannot have.
    """
    check_recipe(recipe)
    placement = place(program, KERNELS, recipe, ranges.keys() | (imported or {}).keys())
    assignment = assign(program, placement, ranges, KERNELS, imported)
    for tensor, given in (imported or {}).items():
        assignment.of.setdefault(tensor, parameters_for(given, "given by the model"))
    choices = options or QdqOptions()
    rewriter = _Rewriter(program, placement, assignment, recipe, choices, imported or {}, rounding)
    for operator in program.operators:
        rewriter.add(operator)
    float_operators = [(o, why) for o, why in placement.items() if why]
    made = rewriter.finish()
    return Quantized(made, rewriter.decisions, float_operators, assignment.warnings, rewriter.made)


class _Rewriter:
    """Builds the new program; a tensor may exist in float, as integers, or in both forms.

    The float form keeps the tensor's identity and name, so whoever reads it need not change.
    """

    def __init__(
        self,
        program: Program,
        placement: Placement,
        assignment: Assignment,
        recipe: Recipe,
        options: QdqOptions,
        trained: Mapping[Any, Range],
        rounding: Rounding,
    ) -> None:
        self.program, self.placement, self.assignment = program, placement, assignment
        self.recipe, self.options, self.rounding = recipe, options, rounding
        self._trained = trained
        # A file rounds what it is fed, for whoever reads it.
        self._rounded_inputs = {t for t in program.inputs if t in trained and trained[t].observer == KEPT}
        self.element: DType = dtype(options.activations)
        self.operators: list[Operator] = []
        self.decisions: list[Decision] = []
        self.made: dict[Operator, Operator] = {}
        self._neighbours = Neighbours(program, placement)
        # Bodies of loops and branches see the names around them, so theirs count as taken.
        self._unique = unique_names({t.name for one in program.programs() for t in one.tensors()})
        self._floats = set(program.inputs)  # what exists as it was: in float, or of another type
        self._integers: dict[Tensor, Tensor] = {}
        self._behind: dict[Tensor, Tensor] = {}  # integers -> what their DequantizeLinear gives
        self._scales: dict[tuple[Any, ...], tuple[Tensor, Tensor]] = {}
        self._constants: dict[tuple[Any, ...], Tensor] = {}

    def finish(self) -> Program:
        for tensor in self.program.outputs:
            self._as_float(tensor)
        return replace(self.program, operators=self.operators)

    def add(self, operator: Operator) -> None:
        """Append one operator in the form the placement says."""
        if self.placement.get(operator) != "":
            self._add_float(operator)
        elif KERNELS.table[operator.code].is_clamp and self._passes_limits(operator):
            self._add_integer(operator)
        elif operator.outputs[0] in self.assignment.absorbed:
            x = self.assignment.absorbed[operator.outputs[0]]
            # Its input was quantized to the clamp's own range, so the integers are clamped already.
            self._integers[operator.outputs[0]] = self._integers[x]
        elif KERNELS.table[operator.code].is_clamp:
            x = KERNELS.data_inputs(operator)[0]
            # Quantizing to the range that a clamp leaves is the clamp.
            self._write(operator.outputs[0], x if x in self._floats else self._as_read(x), operator)
        elif KERNELS.table[operator.code].moves_integers:
            self._add_on_integers(operator)
        else:
            self._add_integer(operator)

    def _passes_limits(self, clamp: Operator) -> bool:
        """True if integers reach beyond what a clamp lets through, as what its result is joined with may."""
        return passes_limits(clamp, KERNELS, self.assignment.of[clamp.outputs[0]].reach)

    # ---------------------------------------------------------------------------------------------- operators

    def _add_float(self, operator: Operator) -> None:
        for tensor in operator.inputs:
            if tensor is not None and tensor in self._integers:
                self._as_float(tensor)
        inputs = [
            self._as_read(t) if t is not None and t in self._rounded_inputs else t for t in operator.inputs
        ]
        new = replace(operator, inputs=inputs, outputs=list(operator.outputs))
        w = KERNELS.weights(operator) if self.recipe.stores_weights(operator) else None
        if w is not None and w.is_constant and is_float(w) and np.isfinite(w.array()).all():
            new = self.made[operator] = replace(new, inputs=self._with_small_weights(new, w))
        elif "hidden_size" in operator.options and not self.recipe.why_skipped(operator):
            new = replace(new, inputs=self._with_small_cells(new))
        self.operators.append(new)
        for number, tensor in enumerate(operator.outputs):
            # The model was trained with this rounding, so that readers in float get the rounded numbers, too.
            if tensor in self._trained:
                new.outputs[number] = self.tensor(f"{tensor.name}/exact", tensor.shape, FLOAT)
                self._write(tensor, new.outputs[number], operator)
            else:
                self._floats.add(tensor)

    def _with_small_weights(self, operator: Operator, w: Tensor) -> list[Tensor | None]:
        """Inputs of a layer in float, its weights stored as int8 and the bias such as goes with them."""
        axis = KERNELS.weight_axis(operator) if self.recipe.per_channel else None
        limit = self.options.weight_max
        grid = Grid(usable_scales(weight_scales(w.array(), axis, limit), None, 1.0, 0.0), axis, limit)
        stand_ins: dict[Tensor, Tensor] = {w: self._unpacked(w, grid)}
        b = KERNELS.bias(operator)
        if b is not None and b.is_constant and is_float(b):
            old = b.array()
            row = self.rounding.bias(w.array(), grid, old)
            if row is not old:
                stand_ins[b] = self.constant(b.name, row.astype(np.float32), FLOAT)
        return [stand_ins.get(t, t) if t is not None else None for t in operator.inputs]

    def _with_small_cells(self, operator: Operator) -> list[Tensor | None]:
        """Inputs of a recurrent op, which computes in float, with matrices [directions,rows,columns] that are
        stored as int8: a scale for each row.
        """
        inputs = list(operator.inputs)
        for number in (1, 2):
            w = inputs[number]
            if w is None or not w.is_constant or not is_float(w) or w.array().size < FEWEST:
                continue
            if np.isfinite(w.array()).all():
                axis, limit = 1 if self.recipe.per_channel else None, self.options.weight_max
                scales = usable_scales(weight_scales(w.array(), axis, limit), None, 1.0, 0.0)
                inputs[number] = self._unpacked(w, Grid(scales, axis, limit))
        return inputs

    def _unpacked(self, w: Tensor, grid: Grid) -> Tensor:
        """Weights in float that are stored as int8."""
        data = w.array()
        key = (*memory_key(data), "unpacked", grid.axis, grid.scales.tobytes())
        if key not in self._constants:
            codes = self.rounding.codes(data, grid)
            operators, stored, result = unpacking(w.name, codes, grid, self._unique)
            self.operators += operators
            how = "per tensor" if grid.axis is None else f"per channel of axis {grid.axis}"
            why = f"weights: symmetric, {how}, unpacked when the model is loaded"
            self.record(stored, grid.scales, _weight_range(data), "weights", why)
            self._constants[key] = result
        return self._constants[key]

    def _add_integer(self, operator: Operator) -> None:
        special: dict[int, Tensor] = {}
        if KERNELS.weights(operator) is not None:
            special = self._weights(operator)
        data = KERNELS.data_inputs(operator)
        inputs = [
            special.get(n) or (self._as_read(t, operator) if t is not None and t in data else t)
            for n, t in enumerate(operator.inputs)
        ]
        self.made[operator] = new = replace(operator, inputs=inputs, outputs=list(operator.outputs))
        self.operators.append(new)
        # Straight from the sums, without a rounding that nobody asked for: a source file does, and cuts off.
        is_kept = any(self._trained[t].observer == KEPT for t in operator.outputs if t in self._trained)
        if not is_kept and gives_floats(operator, self.placement, KERNELS, self._neighbours):
            self._floats.update(operator.outputs)
            return
        for number, tensor in enumerate(operator.outputs):
            if is_float(tensor):
                new.outputs[number] = self.tensor(f"{tensor.name}/exact", tensor.shape, FLOAT)
                self._write(tensor, new.outputs[number], operator)
            else:
                self._floats.add(tensor)

    def _add_on_integers(self, operator: Operator) -> None:
        """Pad: with the integer that stands for the number it pads with."""
        x, y = KERNELS.data_inputs(operator)[0], operator.outputs[0]
        parameters = self.assignment.of[y]
        border = operator.inputs[2] if len(operator.inputs) > 2 else None
        number = np.zeros((), np.float32) if border is None else border.array()
        # Pad moves integers as they are; what it puts around has to be in the same scale.
        filler = self.constant(f"{y.name}/border", self._quantized(number, parameters), self.element)
        stored = self._new_integers(y)
        inputs = [self._as_integers(x), operator.inputs[1], filler, *operator.inputs[3:]]
        self.operators.append(replace(operator, inputs=inputs, outputs=[stored]))

    # ------------------------------------------------------------------------------------------------ weights

    def _weights(self, operator: Operator) -> dict[int, Tensor]:
        """Stand-ins for the constant weights and bias of an operator, by input number."""
        numbers = KERNELS.table[operator.code].weighted
        assert numbers is not None, "only ops with weights get here"
        s_x = self.assignment.of[KERNELS.data_inputs(operator)[0]].scale
        per_channel, weight_max = self.recipe.per_channel, self.options.weight_max
        # 0 for the output's scale: how small a factor may be is a limit of LiteRT's kernels, not of ONNX
        # Runtime's.
        keep = self.recipe.keep_weights
        is_shifted, is_narrow = False, not keep and self.options.reduce_range is None
        if keep:
            found, axis = np.asarray(KERNELS.weights(operator).array()), KERNELS.weight_axis(operator)
            is_shifted = not has_symmetric_grid(found, axis)
            if is_shifted and has_symmetric_grid(found, axis, ALL_OF_INT8):
                is_shifted, weight_max = False, ALL_OF_INT8
        scales = layer_scales(
            operator, KERNELS, s_x, 0.0, per_channel=per_channel, weight_max=weight_max, keep=keep,
            shifted=is_shifted, least=pair_scales if is_narrow else None,
        )  # fmt: skip
        w, grid = KERNELS.weights(operator), Grid.of(scales, weight_max)
        new = {numbers.weights: self._weight(w, grid, operator, is_narrow)}
        if numbers.bias is not None and scales.bias is not None and scales.bias_row is not None:
            row = self.rounding.bias(w.array(), grid, scales.bias_row)
            new[numbers.bias] = self._bias(KERNELS.bias(operator), row, scales.bias)
        return new

    def _weight(self, w: Tensor, grid: Grid, operator: Operator, is_narrow: bool) -> Tensor:
        """Weights of an operator as integers of a grid: such that sums of two products fit 16 bits if they
        are to be narrow, else of the type whose sums hold them.
        """
        data, axis, scales = w.array(), grid.axis, grid.scales
        # Steps of an unrolled network share their weights: several tensors, one memory.
        key = (*memory_key(data), axis, scales.tobytes(), grid.zero_point)
        if key not in self._constants:
            codes, kind = self.rounding.codes(data, grid), INT8
            codes = narrowed(operator, codes) if is_narrow else codes
            is_wide = self.options.reduce_range is not False and overflow(operator, codes)
            if grid.zero_point or is_wide:
                codes, kind = (codes.astype(np.int16) + 128).astype(np.uint8), UINT8
            stored = self.constant(f"{w.name}/codes", codes, kind)
            how = "per tensor" if axis is None else f"per channel of axis {axis}"
            self.record(stored, scales, _weight_range(data), "weights", f"weights: symmetric, {how}")
            zero = grid.zero_point + 128 if kind is UINT8 else 0
            self._constants[key] = self._dequantized(w.name, stored, scales, axis, zero)
        return self._constants[key]

    def _bias(self, b: Tensor, row: Array, scales: Array) -> Tensor:
        stored = self.constant(f"{b.name}/codes", quantize_bias(row, scales), INT32)
        self.record(stored, scales, _weight_range(row), "weights", "bias: scale of input times weights")
        return self._dequantized(b.name, stored, scales, 0)

    def _dequantized(
        self, name: str, stored: Tensor, scales: Array, axis: int | None, zero_point: int = 0
    ) -> Tensor:
        # A scale per entry needs an axis; a single one for several entries is a scalar, without.
        one = axis is None or scales.size == 1 != stored.array().shape[axis]
        shape = () if one else scales.shape
        scale = self.constant(f"{name}/scale", scales.reshape(shape), FLOAT)
        zero = None
        # Biases do without: ONNX allows no zero point for int32 in DequantizeLinear. Weights share none, see
        # the writer.
        if stored.dtype is not INT32:
            zero = self.constant(
                f"{name}/zero_point", np.full(shape, zero_point, stored.dtype.numpy()), stored.dtype
            )
        result = self.tensor(f"{name}/rounded", stored.shape, FLOAT)
        options = {} if one else {"axis": axis}
        self.operators.append(Operator("DequantizeLinear", [stored, scale, zero], [result], options))
        return result

    # ------------------------------------------------------------------------------------------------ tensors

    def _write(self, tensor: Tensor, exact: Tensor, operator: Operator) -> None:
        """Quantize the exact numbers of a tensor."""
        stored = self._new_integers(tensor)
        pair = self._scale_and_zero(self.assignment.of[tensor])
        self.operators.append(Operator("QuantizeLinear", [exact, *pair], [stored], {}, operator.origin))

    def _new_integers(self, tensor: Tensor) -> Tensor:
        parameters = self.assignment.of[tensor]
        self._integers[tensor] = stored = self.tensor(f"{tensor.name}/codes", tensor.shape, self.element)
        self.record(stored, parameters, parameters.range, parameters.range.observer, parameters.reason)
        return stored

    def _as_integers(self, tensor: Tensor) -> Tensor:
        """The integer form of a computed tensor, made now if only its floats exist."""
        if tensor not in self._integers:
            pair = self._scale_and_zero(self.assignment.of[tensor])
            self.operators.append(Operator("QuantizeLinear", [tensor, *pair], [self._new_integers(tensor)]))
        return self._integers[tensor]

    def _as_read(self, tensor: Tensor, operator: Operator | None = None) -> Tensor:
        """The tensor that an integer operator reads: a DequantizeLinear of the integers."""
        if tensor.is_constant:
            return self._constant(tensor, operator)
        stored = self._as_integers(tensor)
        if stored not in self._behind:
            target = tensor
            if tensor in self._floats:
                target = self.tensor(f"{tensor.name}/rounded", tensor.shape, FLOAT)
            self._dequantize(stored, self.assignment.of[tensor], target)
        return self._behind[stored]

    def _as_float(self, tensor: Tensor) -> None:
        """See to it that the float form is there, under the tensor's own name."""
        if tensor in self._floats or tensor.is_constant:
            return
        stored = self._integers[tensor]
        found = self._behind.get(stored)
        if found is None:
            self._dequantize(stored, self.assignment.of[tensor], tensor)
        elif found is not tensor:  # a Relu that was absorbed shares its integers with its input
            self.operators.append(Operator("Identity", [found], [tensor]))
        self._floats.add(tensor)

    def _dequantize(self, stored: Tensor, parameters: Parameters, target: Tensor) -> None:
        pair = self._scale_and_zero(parameters)
        self.operators.append(Operator("DequantizeLinear", [stored, *pair], [target]))
        self._behind[stored] = target

    def _constant(self, tensor: Tensor, operator: Operator | None) -> Tensor:
        if operator is not None and KERNELS.table[operator.code].same_scale:
            parameters = self.assignment.of[operator.outputs[0]]
        else:
            parameters = parameters_for(constant_range(tensor), "constant: its own range")
        key = (tensor, parameters.scale, parameters.zero_point)
        if key not in self._constants:
            data = self._quantized(tensor.array(), parameters)
            stored = self.constant(f"{tensor.name}/codes", data, self.element)
            self.record(stored, parameters, parameters.range, "constant", parameters.reason)
            self._dequantize(stored, parameters, self.tensor(f"{tensor.name}/rounded", tensor.shape, FLOAT))
            self._constants[key] = self._behind[stored]
        return self._constants[key]

    def _quantized(self, values: Array, parameters: Parameters) -> Array:
        # In 16 bits: adding 128 would leave int8.
        stored = parameters.quantized(np.asarray(values)).astype(np.int16) + self.options.offset
        return np.asarray(stored, self.element.numpy())

    def _scale_and_zero(self, parameters: Parameters) -> tuple[Tensor, Tensor]:
        key = (parameters.scale, parameters.zero_point)
        if key not in self._scales:
            zero = np.array(parameters.zero_point + self.options.offset, self.element.numpy())
            scale = np.array(parameters.scale, np.float32)
            self._scales[key] = (
                self.constant("scale", scale, FLOAT),
                self.constant("zero_point", zero, self.element),
            )
        return self._scales[key]

    def tensor(self, name: str, shape: tuple[int | None, ...] | None, element: DType) -> Tensor:
        """A new tensor; the name gets a number if it is taken."""
        return Tensor(self._unique(name), shape, element)

    def constant(self, name: str, array: Array, element: DType) -> Tensor:
        """A new constant; the array is shared."""
        made = self.tensor(name, tuple(array.shape), element)
        made.data = array
        return made

    def record(
        self, tensor: Tensor, parameters: Parameters | Array, wanted: Range, observer: str, reason: str
    ) -> None:
        """Keep what was decided about a tensor of integers, for reports."""
        if isinstance(parameters, Parameters):
            scale = np.array([parameters.scale], np.float32)
            zero = parameters.zero_point + self.options.offset
        else:
            scale, zero = parameters, 0
        extremes = (wanted.low, wanted.high)
        self.decisions.append(Decision(tensor.name, scale, zero, extremes, observer, reason))


def _weight_range(data: Array) -> Range:
    """Extremes of weights, 0 included."""
    return Range(float(data.min(initial=0)), float(data.max(initial=0)), "weights")
