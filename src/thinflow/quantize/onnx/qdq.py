"""Rewrite a float ONNX program into one that computes on 8-bit codes.

    x -> Conv(x, w, b) -> y      ->      Q -> DQ -> Conv(DQ, DQ(int8 w), DQ(int32 b)) -> Q -> DQ -> y

Q is QuantizeLinear and DQ DequantizeLinear. ONNX Runtime replaces DQ, op and Q by one integer kernel, and
nothing of the pairs is left between two of them. Who wants floats reads behind a DQ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from thinflow.ir.brief import brief_repr
from thinflow.ir.types import FLOAT, DType, dtype
from thinflow.onnx.program import Operator, Program, Tensor
from thinflow.quantize.onnx.kernels import KERNELS, all_reads, data_inputs, is_float, weights_of
from thinflow.quantize.onnx.options import QdqOptions, check_recipe
from thinflow.quantize.onnx.placement import Placement, gives_floats, place
from thinflow.quantize.onnx.ranges import Assignment, assign
from thinflow.quantize.onnx.weights import Weights
from thinflow.quantize.ranges import Parameters, Range, parameters_for
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.result import Decision
from thinflow.typing import Array


@brief_repr
@dataclass
class Quantized:
    """An 8-bit program and how it came to be.

    Attributes:
        decisions: one per quantized tensor, in the order of the program.
        float_operators: operators of `program` that still compute in float, and why.
        warnings: what is likely to cost accuracy.
    """

    program: Program
    decisions: list[Decision] = field(default_factory=list)
    float_operators: list[tuple[Operator, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def quantize_qdq(
    program: Program,
    ranges: Mapping[Tensor, Range],
    recipe: Recipe | None = None,
    options: QdqOptions | None = None,
    *,
    imported: Mapping[Tensor, Range] | None = None,
) -> Quantized:
    """An 8-bit version of a float program, which stays as it is and shares float constants with the result.

    Args:
        ranges: of every float32 tensor that is not constant, see `observe`. What is missing stays float.
        imported: ranges the model was trained with, see `prepare`.

    Raises:
        ParameterError: the recipe asks for what an ONNX model cannot have.
    """
    recipe = recipe or Recipe()
    check_recipe(recipe)
    placement = place(program, recipe, ranges.keys() | (imported or {}).keys())
    assignment = assign(program, placement, ranges, imported)
    for tensor, given in (imported or {}).items():
        assignment.of.setdefault(tensor, parameters_for(given, "given by the model"))
    rewriter = _Rewriter(program, placement, assignment, recipe, options or QdqOptions(), imported or {})
    for operator in program.operators:
        rewriter.add(operator)
    return Quantized(
        rewriter.finish(),
        rewriter.decisions,
        [(o, why) for o, why in placement.items() if why],
        assignment.warnings,
    )


class _Rewriter:
    """Builds the new program; a tensor may exist in float, as codes, or in both forms.

    The float form keeps the tensor's identity and name, so whoever reads it need not change.
    """

    def __init__(
        self,
        program: Program,
        placement: Placement,
        assignment: Assignment,
        recipe: Recipe,
        options: QdqOptions,
        trained: Collection[Tensor],
    ) -> None:
        self.program, self.placement, self.assignment = program, placement, assignment
        self._trained = trained
        self.options = options
        self.element: DType = dtype(options.activations)
        self.operators: list[Operator] = []
        self.decisions: list[Decision] = []
        self._readers = all_reads(program.operators)
        self._names = _names(program)
        self._floats = set(program.inputs)  # what exists as it was: in float, or of another type
        self._codes: dict[Tensor, Tensor] = {}
        self._behind: dict[Tensor, Tensor] = {}  # codes -> what their DequantizeLinear gives
        self._scales: dict[tuple[Any, ...], tuple[Tensor, Tensor]] = {}
        self._constants: dict[tuple[Any, ...], Tensor] = {}
        self._weights = Weights(self, recipe.per_channel, options.weight_max)

    def finish(self) -> Program:
        for tensor in self.program.outputs:
            self._as_float(tensor)
        return replace(self.program, operators=self.operators)

    def add(self, operator: Operator) -> None:
        """Append one operator in the form the placement says."""
        if self.placement.get(operator) != "":
            self._add_float(operator)
        elif operator.outputs[0] in self.assignment.absorbed:
            self._codes[operator.outputs[0]] = self._codes[self.assignment.absorbed[operator.outputs[0]]]
        elif KERNELS[operator.code].clamps:
            x = data_inputs(operator)[0]
            self._write(operator.outputs[0], x if x in self._floats else self._as_read(x), operator)
        elif KERNELS[operator.code].on_codes:
            self._add_on_codes(operator)
        else:
            self._add_integer(operator)

    # ---------------------------------------------------------------------------------------------- operators

    def _add_float(self, operator: Operator) -> None:
        for tensor in operator.inputs:
            if tensor is not None and tensor in self._codes:
                self._as_float(tensor)
        new = replace(operator, outputs=list(operator.outputs))
        self.operators.append(new)
        for number, tensor in enumerate(operator.outputs):
            if tensor in self._trained:
                new.outputs[number] = self.tensor(f"{tensor.name}/exact", tensor.shape, FLOAT)
                self._write(tensor, new.outputs[number], operator)
            else:
                self._floats.add(tensor)

    def _add_integer(self, operator: Operator) -> None:
        special = {}
        if weights_of(operator) is not None:
            special = self._weights.of(operator, self._scale_of(data_inputs(operator)[0]))
        data = set(data_inputs(operator))
        inputs = [
            special.get(n, t) if t not in data or n in special else self._as_read(t, operator)
            for n, t in enumerate(operator.inputs)
        ]
        new = replace(operator, inputs=inputs, outputs=list(operator.outputs))
        self.operators.append(new)
        if gives_floats(operator, self.placement, self._readers):
            self._floats.update(operator.outputs)
            return
        for number, tensor in enumerate(operator.outputs):
            if is_float(tensor):
                new.outputs[number] = self.tensor(f"{tensor.name}/exact", tensor.shape, FLOAT)
                self._write(tensor, new.outputs[number], operator)
            else:
                self._floats.add(tensor)

    def _add_on_codes(self, operator: Operator) -> None:
        """Pad: with the code of the number it pads with."""
        x, y = data_inputs(operator)[0], operator.outputs[0]
        parameters = self.assignment.of[y]
        border = operator.inputs[2] if len(operator.inputs) > 2 else None
        number = np.zeros((), np.float32) if border is None else border.array()
        code = self.constant(f"{y.name}/border", self._code_array(number, parameters), self.element)
        codes = self._new_codes(y)
        inputs = [self._as_codes(x), operator.inputs[1], code, *operator.inputs[3:]]
        self.operators.append(replace(operator, inputs=inputs, outputs=[codes]))

    # ------------------------------------------------------------------------------------------------ tensors

    def _write(self, tensor: Tensor, exact: Tensor, operator: Operator) -> None:
        """Make the codes of a tensor from its numbers."""
        codes = self._new_codes(tensor)
        pair = self._scale_and_zero(self.assignment.of[tensor])
        self.operators.append(Operator("QuantizeLinear", [exact, *pair], [codes], {}, operator.origin))

    def _new_codes(self, tensor: Tensor) -> Tensor:
        parameters = self.assignment.of[tensor]
        self._codes[tensor] = codes = self.tensor(f"{tensor.name}/codes", tensor.shape, self.element)
        self.record(codes, parameters, parameters.range, parameters.range.observer, parameters.reason)
        return codes

    def _as_codes(self, tensor: Tensor) -> Tensor:
        """The codes of a computed tensor, made now if only its floats exist."""
        if tensor not in self._codes:
            pair = self._scale_and_zero(self.assignment.of[tensor])
            self.operators.append(Operator("QuantizeLinear", [tensor, *pair], [self._new_codes(tensor)]))
        return self._codes[tensor]

    def _as_read(self, tensor: Tensor, operator: Operator | None = None) -> Tensor:
        """What an operator on codes reads: numbers that are exactly codes, behind a DequantizeLinear."""
        if tensor.is_constant:
            return self._constant(tensor, operator)
        codes = self._as_codes(tensor)
        if codes not in self._behind:
            target = tensor
            if tensor in self._floats:
                target = self.tensor(f"{tensor.name}/rounded", tensor.shape, FLOAT)
            self._dequantize(codes, self.assignment.of[tensor], target)
        return self._behind[codes]

    def _as_float(self, tensor: Tensor) -> None:
        """See to it that the float form is there, under the tensor's own name."""
        if tensor in self._floats or tensor.is_constant:
            return
        codes = self._codes[tensor]
        found = self._behind.get(codes)
        if found is None:
            self._dequantize(codes, self.assignment.of[tensor], tensor)
        elif found is not tensor:  # a Relu that was absorbed shares its codes with its input
            self.operators.append(Operator("Identity", [found], [tensor]))
        self._floats.add(tensor)

    def _dequantize(self, codes: Tensor, parameters: Parameters, target: Tensor) -> None:
        pair = self._scale_and_zero(parameters)
        self.operators.append(Operator("DequantizeLinear", [codes, *pair], [target]))
        self._behind[codes] = target

    def _constant(self, tensor: Tensor, operator: Operator | None) -> Tensor:
        tied = operator is not None and KERNELS[operator.code].tied
        if tied and operator is not None:
            parameters = self.assignment.of[operator.outputs[0]]
        else:
            own = Range(float(tensor.array().min()), float(tensor.array().max()), "constant")
            parameters = parameters_for(own, "constant: its own range")
        key = (tensor, parameters.scale, parameters.zero_point)
        if key not in self._constants:
            data = self._code_array(tensor.array(), parameters)
            codes = self.constant(f"{tensor.name}/codes", data, self.element)
            self.record(codes, parameters, parameters.range, "constant", parameters.reason)
            self._dequantize(codes, parameters, self.tensor(f"{tensor.name}/rounded", tensor.shape, FLOAT))
            self._constants[key] = self._behind[codes]
        return self._constants[key]

    def _code_array(self, values: Array, parameters: Parameters) -> Array:
        codes = parameters.codes(np.asarray(values)).astype(np.int16) + self.options.offset
        return np.asarray(codes, self.element.numpy())

    def _scale_of(self, tensor: Tensor) -> float:
        return self.assignment.of[tensor].scale

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

    # ------------------------------------------------------------------------------------- also for `Weights`

    def tensor(self, name: str, shape: tuple[int | None, ...] | None, element: DType) -> Tensor:
        """A new tensor; the name gets a number if it is taken."""
        wished, count = name, 0
        while name in self._names:
            count += 1
            name = f"{wished}_{count}"
        self._names.add(name)
        return Tensor(name, shape, element)

    def constant(self, name: str, array: Array, element: DType) -> Tensor:
        """A new constant; the array is shared."""
        made = self.tensor(name, tuple(array.shape), element)
        made.data = array
        return made

    def record(
        self, tensor: Tensor, parameters: Parameters | Array, wanted: Range, observer: str, reason: str
    ) -> None:
        """Keep what was decided about a tensor of codes, for reports."""
        if isinstance(parameters, Parameters):
            scale = np.array([parameters.scale], np.float32)
            zero = parameters.zero_point + self.options.offset
        else:
            scale, zero = parameters, 0
        extremes = (wanted.low, wanted.high)
        self.decisions.append(Decision(tensor.name, scale, zero, extremes, observer, reason))


def _names(program: Program) -> set[str]:
    """The names of all tensors, those in the bodies of loops and branches included."""
    found: set[str] = set()
    pending = [program]
    while pending:
        one = pending.pop()
        found.update(t.name for t in one.tensors())
        pending += [body for o in one.operators for body in o.bodies.values()]
    return found
