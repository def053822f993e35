"""Rewrite a float LiteRT program into int8 arithmetic.

    x [float] -> CONV_2D(x, w, b)   ->   QUANTIZE(x) -> CONV_2D(int8, int8 w, int32 b) -> DEQUANTIZE

QUANTIZE and DEQUANTIZE stand only where an int8 region borders on floats, once per tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from thinflow.errors import GraphError
from thinflow.ir.types import INT8, INT32
from thinflow.lower.tflite.program import Operator, Program, Quantization, Signature, Subgraph, Tensor
from thinflow.quantize.kernels import KERNELS, Weighted
from thinflow.quantize.placement import Placement, is_float, place
from thinflow.quantize.ranges import (
    Assignment,
    Parameters,
    Range,
    assign,
    constant_range,
    parameters_for,
)
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.weights import quantize_bias, quantize_weights, usable_scales, weight_scales

Array = np.ndarray[Any, Any]

LARGEST_FACTOR = 256  # XNNPACK refuses to run a model with s_x * s_w / s_y from here on


@dataclass(frozen=True)
class Decision:
    """What was chosen for one tensor of the result, and why.

    Attributes:
        tensor: its name in the result.
        scale: float32 [1], or one per channel.
        zero_point: of all channels.
        range: real numbers that were to be representable.
        observer: who proposed the range; "weights", "constant" or "fixed" if no observer did.
        reason: in a few words.
    """

    tensor: str
    scale: Array
    zero_point: int
    range: tuple[float, float]
    observer: str
    reason: str


@dataclass
class Quantized:
    """An int8 program and how it came to be.

    Attributes:
        decisions: one per quantized tensor, in the order of the program.
        float_operators: operators of `program` that still compute in float, and why.
        warnings: what is likely to cost accuracy.
    """

    program: Program
    decisions: list[Decision] = field(default_factory=list)
    float_operators: list[tuple[Operator, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def quantize_int8(
    program: Program, ranges: Mapping[Tensor, Range], recipe: Recipe | None = None
) -> Quantized:
    """An int8 version of a float program, which stays as it is and shares float constants with the result.

    Only the first subgraph is quantized; others are called by operators, which stay float.

    Args:
        ranges: of every float32 tensor that is not constant, see `calibrate`. What is missing stays float.

    Raises:
        GraphError: the program is quantized already.
    """
    recipe = recipe or Recipe()
    main = program.subgraphs[0]
    for tensor in main.tensors():
        if tensor.quantization is not None and len(tensor.quantization.scale):
            raise GraphError(f"tensor '{tensor.name}' is quantized already", hint="give the float model")
    main = replace(main, operators=[_free_pool(o, recipe) for o in main.operators])
    placement, assignment = _settle(main, recipe, ranges)
    if not recipe.keep_float_io:
        for tensor in (*main.inputs, *main.outputs):
            if is_float(tensor) and tensor in ranges and not tensor.is_constant:
                assignment.of.setdefault(tensor, parameters_for(ranges[tensor]))
    rewriter = _Rewriter(main, assignment, recipe)
    for operator in main.operators:
        rewriter.add(operator, placement.get(operator))
    subgraph = rewriter.finish()
    result = replace(program, subgraphs=[subgraph, *program.subgraphs[1:]])
    result.signatures = {
        key: Signature(*({n: rewriter.interface.get(t, t) for n, t in side.items()} for side in signature))
        for key, signature in program.signatures.items()
    }
    return Quantized(result, rewriter.decisions, rewriter.kept_float, assignment.warnings)


def _settle(main: Subgraph, recipe: Recipe, ranges: Mapping[Tensor, Range]) -> tuple[Placement, Assignment]:
    """Where int8 is used, and with which parameters; both depend on each other for operators with weights."""
    forced: dict[Operator, str] = {}
    while True:
        placement = place(main, recipe, ranges, forced)
        assignment = assign(main, placement, ranges)
        before = len(forced)
        for operator in (o for o, why in placement.items() if not why):
            numbers = KERNELS[operator.code].weighted
            if numbers is not None:
                scales = _weight_scales(operator, numbers, assignment, recipe)
                s_x, s_y = _edge_scales(operator, numbers, assignment)
                if s_x * float(scales.max(initial=0)) / s_y >= LARGEST_FACTOR:
                    forced[operator] = "its output needs much finer steps than its inputs have"
        if len(forced) == before:
            return placement, assignment


def _edge_scales(operator: Operator, numbers: Weighted, assignment: Assignment) -> tuple[float, float]:
    """Scales of the input and the output of an operator with weights."""
    x = operator.inputs[numbers.x]
    assert x is not None, "the kernel table is wrong"
    parameters = parameters_for(constant_range(x)) if x.is_constant else assignment.of[x]
    return parameters.scale, assignment.of[operator.outputs[0]].scale


def _weight_scales(operator: Operator, numbers: Weighted, assignment: Assignment, recipe: Recipe) -> Array:
    weights, bias = operator.inputs[numbers.weights], _bias_of(operator, numbers)
    assert weights is not None, "placement has looked at the weights"
    raw = weight_scales(np.asarray(weights.array()), numbers.axis if recipe.per_channel else None)
    values = None if bias is None else np.asarray(bias.array())
    return usable_scales(raw, values, *_edge_scales(operator, numbers, assignment))


def _bias_of(operator: Operator, numbers: Weighted) -> Tensor | None:
    return operator.inputs[numbers.bias] if numbers.bias < len(operator.inputs) else None


def _free_pool(operator: Operator, recipe: Recipe) -> Operator:
    """MEAN instead of an average over all of the picture.

    The average has a much smaller range than its input, and MEAN, unlike AVERAGE_POOL_2D, may use it.
    """
    x = operator.inputs[0] if operator.inputs else None
    if operator.code != "AVERAGE_POOL_2D" or x is None or x.shape is None or recipe.why_skipped(operator):
        return operator
    window = operator.options.get("filter_height"), operator.options.get("filter_width")
    is_plain = operator.options.get("fused_activation_function", "NONE") == "NONE"
    if window != x.shape[1:3] or (operator.outputs[0].shape or ())[1:3] != (1, 1) or not is_plain:
        return operator
    axes = Tensor(f"{operator.outputs[0].name}/axes", (2,), INT32, np.array([1, 2], np.int32))
    return replace(operator, code="MEAN", inputs=[x, axes], options={"keep_dims": True}, version=1)


class _Rewriter:
    """Builds the new subgraph step by step; a tensor may exist in float, in int8, or in both forms."""

    def __init__(self, main: Subgraph, assignment: Assignment, recipe: Recipe) -> None:
        self.main = main
        self.assignment = assignment
        self.recipe = recipe
        self.result = Subgraph(main.name, [], [])
        self.decisions: list[Decision] = []
        self.kept_float: list[tuple[Operator, str]] = []
        self.interface: dict[Tensor, Tensor] = {}
        self._plain: dict[Tensor, Tensor] = {}  # float forms, and whatever is not quantized
        self._int8: dict[Tensor, Tensor] = {}
        self._tied: dict[Tensor, Tensor] = {}  # copies with the scale of a class they are tied to
        self._constants: dict[tuple[Any, ...], Tensor] = {}
        # The float form keeps the name where users see it.
        self._visible = {*main.inputs, *main.outputs} if recipe.keep_float_io else set()
        for tensor in main.inputs:
            as_int8 = not recipe.keep_float_io and tensor in assignment.of
            new = self._int8_tensor(tensor) if as_int8 else self._plain_tensor(tensor)
            self.interface[tensor] = new
            self.result.inputs.append(new)

    def finish(self) -> Subgraph:
        """Fetch the outputs in the form that was asked for."""
        for tensor in self.main.outputs:
            as_int8 = not self.recipe.keep_float_io and tensor in self.assignment.of
            new = self._as_int8(tensor) if as_int8 else self._as_plain(tensor)
            self.interface[tensor] = new
            self.result.outputs.append(new)
        return self.result

    def add(self, operator: Operator, why_float: str | None) -> None:
        """Append one operator; `why_float` is "" for int8 and None if it does not compute on floats."""
        if why_float == "":
            self._add_int8(operator)
            return
        read = self._as_anything if why_float is None else self._as_plain
        new = replace(
            operator,
            inputs=[None if t is None else read(t) for t in operator.inputs],
            outputs=[self._plain_tensor(t) for t in operator.outputs],
            intermediates=[self._plain_tensor(t) for t in operator.intermediates],
        )
        self.result.operators.append(new)
        if why_float:
            self.kept_float.append((new, why_float))

    # ---------------------------------------------------------------------------------------------- operators

    def _add_int8(self, operator: Operator) -> None:
        kernel = KERNELS[operator.code]
        special: dict[int, Tensor] = {}
        if kernel.weighted is not None:
            special = self._weights(operator, kernel.weighted)
        inputs: list[Tensor | None] = []
        for number, tensor in enumerate(operator.inputs):
            if number in special:
                inputs.append(special[number])
            elif tensor is None or not is_float(tensor):
                inputs.append(None if tensor is None else self._as_plain(tensor))
            elif tensor.is_constant:
                tied_to = self.assignment.of[operator.outputs[0]] if kernel.tied else None
                inputs.append(self._constant(tensor, tied_to))
            else:
                inputs.append(self._as_tied(tensor) if kernel.tied else self._as_int8(tensor))
        outputs = [self._int8_tensor(t) if is_float(t) else self._plain_tensor(t) for t in operator.outputs]
        self.result.operators.append(replace(operator, inputs=inputs, outputs=outputs))

    def _weights(self, operator: Operator, numbers: Weighted) -> dict[int, Tensor]:
        """int8 weights and int32 bias of one operator, by input number."""
        w, b = operator.inputs[numbers.weights], _bias_of(operator, numbers)
        assert w is not None, "placement has looked at the weights"
        axis = numbers.axis if self.recipe.per_channel else None
        scales = _weight_scales(operator, numbers, self.assignment, self.recipe)
        new = {numbers.weights: self._weight_tensor(w, scales, axis)}
        if b is not None:
            s_b = np.float32(_edge_scales(operator, numbers, self.assignment)[0]) * scales
            codes = quantize_bias(np.asarray(b.array()), s_b)
            quantization = Quantization(s_b, np.zeros(len(s_b), np.int64))
            new[numbers.bias] = Tensor(b.name, b.shape, INT32, codes, quantization)
            self._record(
                new[numbers.bias], constant_range(b), "weights", "bias: scale of input times weights"
            )
        return new

    def _weight_tensor(self, w: Tensor, scales: Array, axis: int | None) -> Tensor:
        data = np.asarray(w.array())
        # Steps of an unrolled network share their weights: several tensors, one memory.
        memory = data.__array_interface__["data"][0], data.shape, data.strides, str(data.dtype)
        key = (memory, axis, scales.tobytes())
        if key not in self._constants:
            codes = quantize_weights(data, scales, axis)
            quantization = Quantization(scales, np.zeros(len(scales), np.int64), axis or 0)
            self._constants[key] = Tensor(w.name, w.shape, INT8, codes, quantization)
            how = "per tensor" if axis is None else f"per channel of dimension {axis}"
            self._record(self._constants[key], constant_range(w), "weights", f"weights: symmetric, {how}")
        return self._constants[key]

    def _constant(self, tensor: Tensor, tied_to: Parameters | None) -> Tensor:
        parameters = tied_to or parameters_for(constant_range(tensor), "constant: its own range")
        key = (tensor, parameters.scale, parameters.zero_point)
        if key not in self._constants:
            codes = parameters.codes(np.asarray(tensor.array()))
            self._constants[key] = Tensor(tensor.name, tensor.shape, INT8, codes, _stored(parameters))
            self._decide(self._constants[key], parameters)
        return self._constants[key]

    # ------------------------------------------------------------------------------------------------ tensors

    def _as_anything(self, tensor: Tensor) -> Tensor:
        return self._int8.get(tensor) or self._as_plain(tensor)

    def _as_plain(self, tensor: Tensor) -> Tensor:
        """The float form (or the tensor as it is), made by DEQUANTIZE if only int8 exists."""
        if tensor not in self._plain and tensor in self._int8:
            new = self._plain_tensor(tensor)
            self.result.operators.append(Operator("DEQUANTIZE", [self._int8[tensor]], [new]))
        return self._plain_tensor(tensor)

    def _as_int8(self, tensor: Tensor) -> Tensor:
        """The int8 form, made by QUANTIZE if only float exists."""
        if tensor not in self._int8:
            source = self._plain_tensor(tensor)
            self.result.operators.append(Operator("QUANTIZE", [source], [self._int8_tensor(tensor)]))
        return self._int8[tensor]

    def _as_tied(self, tensor: Tensor) -> Tensor:
        """The int8 form with the scale of the tensors it is tied to, made by QUANTIZE if it differs."""
        parameters = self.assignment.tied_as.get(tensor)
        if parameters is None:
            return self._as_int8(tensor)
        if tensor not in self._tied:
            source = self._as_int8(tensor)
            new = Tensor(f"{tensor.name}/tied", tensor.shape, INT8, quantization=_stored(parameters))
            self._decide(new, parameters)
            self.result.operators.append(Operator("QUANTIZE", [source], [new]))
            self._tied[tensor] = new
        return self._tied[tensor]

    def _plain_tensor(self, tensor: Tensor) -> Tensor:
        if tensor not in self._plain:
            hidden = tensor in self._int8 and tensor not in self._visible
            self._plain[tensor] = replace(tensor, name=f"{tensor.name}/float" if hidden else tensor.name)
        return self._plain[tensor]

    def _int8_tensor(self, tensor: Tensor) -> Tensor:
        parameters = self.assignment.of[tensor]
        hidden = tensor in self._visible or tensor in self._plain
        name = f"{tensor.name}/int8" if hidden else tensor.name
        self._int8[tensor] = Tensor(name, tensor.shape, INT8, quantization=_stored(parameters))
        self._decide(self._int8[tensor], parameters)
        return self._int8[tensor]

    def _decide(self, tensor: Tensor, parameters: Parameters) -> None:
        self._record(tensor, parameters.range, parameters.range.observer, parameters.reason)

    def _record(self, tensor: Tensor, wanted: Range, observer: str, reason: str) -> None:
        q = tensor.quantization
        assert q is not None, "only quantized tensors are recorded"
        self.decisions.append(
            Decision(tensor.name, q.scale, int(q.zero_point[0]), (wanted.low, wanted.high), observer, reason)
        )


def _stored(parameters: Parameters) -> Quantization:
    return Quantization(np.array([parameters.scale], np.float32), np.array([parameters.zero_point], np.int64))
