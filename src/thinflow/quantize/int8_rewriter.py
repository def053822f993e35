"""The operators of a float LiteRT program in integers, and conversions where both forms meet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.ir.types import INT8, UINT8
from thinflow.quantize import integer_lstm
from thinflow.quantize.borders import (
    is_crossing,
    is_of_grid,
    layer_scales_for,
)
from thinflow.quantize.kernels import Kernels, Weighted, is_float
from thinflow.quantize.ranges import (
    Assignment,
    Parameters,
    Range,
    constant_range,
    parameters_for,
    passes_limits,
)
from thinflow.quantize.recipe import Decision, Recipe
from thinflow.quantize.rounding import Grid, Rounding
from thinflow.quantize.weights import LayerScales, memory_key, quantize_bias
from thinflow.tflite.model import Operator, Quantization, Subgraph, Tensor


def edge_scales(operator: Operator, numbers: Weighted, assignment: Assignment) -> tuple[float, float]:
    """Scales of the input and the output of an operator with weights."""
    x, y = operator.inputs[numbers.x], assignment.of[operator.outputs[0]]
    assert x is not None, "the kernel table is wrong"
    if x.is_constant:
        return parameters_for(constant_range(x), arithmetic=y.arithmetic).scale, y.scale
    return assignment.of[x].scale, y.scale


class IntegerRewriter:
    """Builds the new subgraph step by step; a tensor may exist as floats, as integers, or in both forms."""

    def __init__(
        self,
        main: Subgraph,
        kernels: Kernels,
        assignment: Assignment,
        recipe: Recipe,
        borders: Mapping[Tensor, str],
        kept: Collection[Tensor],
        shifted: bool,
        rounding: Rounding,
    ) -> None:
        self.main = main
        self.rounding = rounding
        self.kernels = kernels
        self.assignment = assignment
        self.recipe = recipe
        self.arithmetic = kernels.arithmetic
        self.result = Subgraph([], [], name=main.name)
        self.decisions: list[Decision] = []
        self.made: dict[Operator, Operator] = {}
        self.kept_float: list[tuple[Operator, str]] = []
        self.interface: dict[Tensor, Tensor] = {}
        self._plain: dict[Tensor, Tensor] = {}  # float forms, and whatever is not quantized
        self._integer: dict[Tensor, Tensor] = {}
        self.states: dict[Tensor, Tensor] = {}  # variables of integer LSTMs
        self._shared: dict[
            tuple[Tensor, float, int], Tensor
        ] = {}  # copies with the scale of tensors they share one with
        self._constants: dict[tuple[Any, ...], Tensor] = {}
        # The form that is fed or fetched keeps the name where users see it.
        self._borders = {t for t in borders if t in assignment.of}
        self._visible = {*main.inputs, *main.outputs} - self._borders
        self._fed: dict[Tensor, Tensor] = {}  # uint8 inputs
        self._kept, self._shifted = kept, shifted
        self._unsigned = {t for t in self._borders if borders[t] == "uint8"}
        for tensor in main.inputs:
            self.interface[tensor] = new = self._input(tensor)
            self.result.inputs.append(new)

    def _input(self, tensor: Tensor) -> Tensor:
        if tensor not in self._borders:
            return self._rounded(tensor) if tensor in self._kept else self._plain_tensor(tensor)
        if tensor not in self._unsigned:
            return self._integer_tensor(tensor)
        self._fed[tensor] = self._unsigned_tensor(tensor)
        return self._fed[tensor]

    def finish(self) -> Subgraph:
        """Fetch the outputs in the form that was asked for."""
        for tensor in self.main.outputs:
            self.interface[tensor] = new = self._output(tensor)
            self.result.outputs.append(new)
        return self.result

    def _output(self, tensor: Tensor) -> Tensor:
        # A uint8 input that is an output as well goes out as it came.
        if tensor in self._fed:
            return self._fed[tensor]
        if tensor not in self._unsigned:
            return self._as_integer(tensor) if tensor in self._borders else self._as_plain(tensor)
        fetched = self._unsigned_tensor(tensor)
        # From the integers where they exist: going through floats would round a second time.
        source = self._integer.get(tensor) or self._as_plain(tensor)
        self.result.operators.append(Operator("QUANTIZE", [source], [fetched]))
        return fetched

    def _unsigned_tensor(self, tensor: Tensor) -> Tensor:
        """A uint8 tensor at the border: the int8 values, 128 higher."""
        parameters = self.assignment.of[tensor]
        stored = _stored(parameters)
        # Same scale, both ends 128 higher: QUANTIZE between the two types rounds nothing.
        stored.zero_point += 128
        new = Tensor(tensor.name, tensor.shape, UINT8, quantization=stored)
        self._record(new, parameters.range, parameters.range.observer, "the int8 values, 128 higher")
        return new

    def add(self, operator: Operator, why_float: str | None) -> None:
        """Append one operator; `why_float` is "" for integers and None if it does not compute on floats."""
        if operator.outputs and operator.outputs[0] in self.states:
            self._add_start(operator)
            return
        if why_float == "":
            self._add_integer(operator)
            return
        if is_crossing(operator) and self._are_same(operator):
            return
        if operator.code == "FAKE_QUANT" and operator.outputs[0] in self._kept:
            # Others read what it rounds as it is.
            x, y = operator.inputs[0], operator.outputs[0]
            assert x is not None, "FAKE_QUANT rounds something"
            source = self._as_plain(x)
            self.result.operators.append(Operator("QUANTIZE", [source], [self._integer_tensor(y)]))
            return
        read = self._as_anything if why_float is None else self._as_plain
        new = replace(
            operator,
            inputs=[None if t is None else read(t) for t in operator.inputs],
            outputs=[],
            intermediates=[self._plain_tensor(t) for t in operator.intermediates],
        )
        self.result.operators.append(new)
        self.made[operator] = new
        new.outputs += [
            self._rounded(t) if t in self._kept else self._plain_tensor(t) for t in operator.outputs
        ]
        if why_float and not is_crossing(operator):
            self.kept_float.append((new, why_float))

    def _are_same(self, operator: Operator) -> bool:
        """Let real numbers, and codes that an op has itself, be the same integers; False if they differ."""
        x, y = operator.inputs[0], operator.outputs[0]
        is_made = operator.code == "QUANTIZE"
        if x is None or not is_of_grid(y if is_made else x, self.assignment.of.get(x if is_made else y)):
            return False
        form = self._as_integer(x) if is_made else self._plain_tensor(x)
        (self._plain if is_made else self._integer)[y] = form
        form.name = y.name if y in self._borders else form.name
        return True

    # ---------------------------------------------------------------------------------------------- operators

    def _add_start(self, operator: Operator) -> None:
        """What writes the state that an integer LSTM begins with."""
        form, start = self.states[operator.outputs[0]], operator.inputs[0]
        assert start is not None, "a state begins with something"
        if start.is_constant:
            codes = integer_lstm.started(np.asarray(start.array()), form)
        else:
            codes = Tensor(f"{form.name}/start", start.shape, form.dtype, None, form.quantization)
            self.result.operators.append(Operator("QUANTIZE", [self._as_plain(start)], [codes]))
        self.result.operators.append(replace(operator, inputs=[codes, codes], outputs=[form]))

    def _add_lstm(self, operator: Operator) -> None:
        x, y = operator.inputs[0], operator.outputs[0]
        assert x is not None, "an LSTM reads a sequence"
        given, states = self._as_integer(x), self.states
        new, decisions = integer_lstm.integer_lstm(operator, given, self._integer_tensor(y), states)
        new.inputs[0] = given
        self.result.operators.append(new)
        self.made[operator] = new
        self.decisions += decisions

    def _add_integer(self, operator: Operator) -> None:
        kernel = self.kernels.table[operator.code]
        if operator.code == integer_lstm.CODE:
            self._add_lstm(operator)
            return
        if kernel.is_clamp and self._is_clamped(operator):
            (x,), (y,) = self.kernels.data_inputs(operator), operator.outputs
            self._integer[y] = same = self._as_integer(x)
            same.name = y.name if y in self._borders else same.name
            return
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
                shared = self.assignment.of[operator.outputs[0]] if kernel.same_scale else None
                inputs.append(self._constant(tensor, shared, is_centred=number in kernel.centred))
            else:
                is_shared = kernel.same_scale
                inputs.append(self._as_shared(tensor, operator) if is_shared else self._as_integer(tensor))
        outputs = [
            self._integer_tensor(t) if is_float(t) else self._plain_tensor(t) for t in operator.outputs
        ]
        code, options = operator.code, operator.options | dict(kernel.options)
        if kernel.code:
            code, options = kernel.code, dict(kernel.options)
        new = replace(operator, code=code, inputs=inputs, outputs=outputs, options=options)
        self.result.operators.append(new)
        self.made[operator] = new

    def _is_clamped(self, clamp: Operator) -> bool:
        """True if the integers of its input reach no farther than what a clamp lets through."""
        x = self.assignment.absorbed.get(clamp.outputs[0])
        if x is None or x in self._kept or x in self._visible or x in self._borders:
            return False
        return not passes_limits(clamp, self.kernels, self.assignment.of[x].reach)

    def _weights(self, operator: Operator, numbers: Weighted) -> dict[int, Tensor]:
        """int8 weights and integer bias of one operator, by input number."""
        w, b = self.kernels.weights(operator), self.kernels.bias(operator)
        s_x, s_y = edge_scales(operator, numbers, self.assignment)
        scales = layer_scales_for(operator, self.kernels, s_x, s_y, self.recipe, self._shifted)
        new = {numbers.weights: self._weight_tensor(w, scales)}
        if b is not None and numbers.bias is not None and scales.bias is not None:
            row = self.rounding.bias(np.asarray(w.array()), Grid.of(scales), np.asarray(b.array()))
            stored = quantize_bias(row, scales.bias, self.arithmetic.largest_bias)
            quantization = Quantization(scales.bias, np.zeros(len(scales.bias), np.int64))
            new[numbers.bias] = Tensor(b.name, b.shape, self.arithmetic.bias, stored, quantization)
            self._record(
                new[numbers.bias], constant_range(b), "weights", "bias: scale of input times weights"
            )
        return new

    def _weight_tensor(self, w: Tensor, scales: LayerScales) -> Tensor:
        data = np.asarray(w.array())
        # Steps of an unrolled network share their weights: several tensors, one memory.
        key = (*memory_key(data), scales.axis, scales.weights.tobytes())
        if key not in self._constants:
            zero_points = np.full(len(scales.weights), scales.zero_point, np.int64)
            stored = self.rounding.codes(data, Grid.of(scales))
            quantization = Quantization(scales.weights, zero_points, scales.axis or 0)
            self._constants[key] = Tensor(w.name, w.shape, INT8, stored, quantization)
            why = f"weights: symmetric, {scales.how}"
            self._record(self._constants[key], constant_range(w), "weights", why)
        return self._constants[key]

    def _constant(self, tensor: Tensor, shared: Parameters | None, *, is_centred: bool = False) -> Tensor:
        wanted = constant_range(tensor)
        wanted = wanted.centred(self.arithmetic) if is_centred else wanted
        parameters = shared or parameters_for(wanted, "constant: its own range", self.arithmetic)
        key = (tensor, parameters.scale, parameters.zero_point)
        if key not in self._constants:
            stored = parameters.quantized(np.asarray(tensor.array()))
            element = self.arithmetic.activation
            self._constants[key] = Tensor(tensor.name, tensor.shape, element, stored, _stored(parameters))
            self._decide(self._constants[key], parameters)
        return self._constants[key]

    # ------------------------------------------------------------------------------------------------ tensors

    def _as_anything(self, tensor: Tensor) -> Tensor:
        return self._integer.get(tensor) or self._as_plain(tensor)

    def _as_plain(self, tensor: Tensor) -> Tensor:
        """The float form (or the tensor as it is), made by DEQUANTIZE if only integers exist."""
        source = self._fed.get(tensor) or self._integer.get(tensor)
        if tensor not in self._plain and source is not None:
            new = self._plain_tensor(tensor)
            self.result.operators.append(Operator("DEQUANTIZE", [source], [new]))
        return self._plain_tensor(tensor)

    def _as_integer(self, tensor: Tensor) -> Tensor:
        """The integer form, made by QUANTIZE if only float exists."""
        if tensor not in self._integer:
            source = self._fed.get(tensor) or self._plain_tensor(tensor)
            self.result.operators.append(Operator("QUANTIZE", [source], [self._integer_tensor(tensor)]))
        return self._integer[tensor]

    def _rounded(self, tensor: Tensor) -> Tensor:
        """A tensor for the numbers as they come; the integer form is made of them, and floats of that."""
        exact = replace(tensor, name=tensor.name if tensor in self.main.inputs else f"{tensor.name}/exact")
        self.result.operators.append(Operator("QUANTIZE", [exact], [self._integer_tensor(tensor)]))
        return exact

    def _as_shared(self, tensor: Tensor, reader: Operator) -> Tensor:
        """The integer form on the grid that an operator has for all it reads, made by QUANTIZE if need be."""
        of = self.assignment.of
        wanted = of.get(reader.outputs[0]) or self.assignment.shared_as.get(tensor)
        if wanted is None or (tensor in of and wanted.is_like(of[tensor])):
            return self._as_integer(tensor)
        key = tensor, wanted.scale, wanted.zero_point
        if key not in self._shared:
            source = self._as_integer(tensor)
            element, stored = self.arithmetic.activation, _stored(wanted)
            count = sum(other is tensor for other, *_ in self._shared)
            name = f"{tensor.name}/tied_{count}" if count else f"{tensor.name}/tied"
            new = Tensor(name, tensor.shape, element, quantization=stored)
            self._decide(new, wanted)
            self.result.operators.append(Operator("QUANTIZE", [source], [new]))
            self._shared[key] = new
        return self._shared[key]

    def _plain_tensor(self, tensor: Tensor) -> Tensor:
        if tensor not in self._plain:
            hidden = (tensor in self._integer or tensor in self._fed) and tensor not in self._visible
            # Tensors of one file need names of their own, also where they are two forms of the same.
            self._plain[tensor] = replace(tensor, name=f"{tensor.name}/float" if hidden else tensor.name)
        return self._plain[tensor]

    def _integer_tensor(self, tensor: Tensor) -> Tensor:
        parameters = self.assignment.of[tensor]
        hidden = tensor in self._visible or tensor in self._plain or tensor in self._unsigned
        name = f"{tensor.name}/{self.kernels.name}" if hidden else tensor.name
        element = self.arithmetic.activation
        self._integer[tensor] = Tensor(name, tensor.shape, element, quantization=_stored(parameters))
        self._decide(self._integer[tensor], parameters)
        return self._integer[tensor]

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
