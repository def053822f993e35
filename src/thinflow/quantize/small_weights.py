"""Weights in fewer bits while activations stay float: computed in float32, or rounded while LiteRT runs.

The schemes "dynamic", "int8_weights", "int4_weights" and "float16". None of them needs samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from thinflow.ir.types import FLOAT, HALF, INT8, dtype
from thinflow.onnx import program as onnx
from thinflow.onnx.protos import ELEMENT_TYPES
from thinflow.program.model import Operator as AnyOperator
from thinflow.quantize.constants import Reading, Smaller, Storing
from thinflow.quantize.integer_lstm import CODE as LSTM
from thinflow.quantize.integer_lstm import float_matrices
from thinflow.quantize.kernels import is_float
from thinflow.quantize.kernels.litert import INT8_KERNELS, Weights, weights_of
from thinflow.quantize.recipe import PLAIN, Decision, Quantized, Recipe
from thinflow.quantize.rounding import NEAREST, Grid, Rounding, weight_grid
from thinflow.quantize.split_products import with_split_products
from thinflow.quantize.weights import INT4_MAX, WEIGHT_MAX, memory_key
from thinflow.tflite import model as tflite
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.typing import Array

INT4 = dtype("int4")
# Elements. TensorFlow's converter has the same limit (weights_min_num_elements): a layer with fewer takes
# little room.
FEWEST = 1024

_FEWEST_STEPPED = 4096
"""Weights of a product in a loop, from which on integers are faster, range finding included: a GRU of 24
units on 72 inputs takes 0.9 of the time, one of 32 on 24 inputs 1.05."""

# Activations of one sign then use all 256 steps, too. Convolutions have no such option in the schema.
_ASYMMETRIC = (("asymmetric_quantize_inputs", True),)
_HYBRID: dict[str, tuple[tuple[str, Any], ...]] = {
    "CONV_2D": (),
    "DEPTHWISE_CONV_2D": (),
    "TRANSPOSE_CONV": (),
    "FULLY_CONNECTED": _ASYMMETRIC,
    "BATCH_MATMUL": _ASYMMETRIC,
}
"""Ops that take float activations beside int8 weights, and the options that go with it."""


def dynamic(program: Program, recipe: Recipe) -> Storing:
    """int8 weights; LiteRT rounds the activations of each run to int8 and multiplies integers."""
    del program  # every layer is looked at alone
    return _Dynamic(recipe)


def split_bodies(program: Program) -> list[Subgraph]:
    """The bodies of loops as they are stored beside integers: products of joined inputs are sums."""
    return [with_split_products(body, _FEWEST_STEPPED) for body in program.subgraphs[1:]]


def splits_products(recipe: Recipe) -> bool:
    """True if a recipe's scheme stores the bodies of loops so."""
    return recipe.needs_samples or recipe.scheme == "dynamic"


def with_small_bodies(program: Program, recipe: Recipe, rounding: Rounding = NEAREST) -> Quantized[Program]:
    """The bodies of loops with int8 weights, called with floats: the program without its main block."""
    scheme = _Stepped(replace(recipe, scheme="dynamic"), rounding=rounding)
    return scheme.stored(replace(program, subgraphs=split_bodies(program)))


def weights_only(program: Program, recipe: Recipe) -> Storing:
    """int8 or int4 weights that LiteRT unpacks, to compute in float32."""
    scheme = _Unpacked(recipe)
    if recipe.scheme == "int4_weights":
        scheme.in_four_bits = frozenset(four_bit_layers(_layers(program), recipe))
    return scheme


O = TypeVar("O", bound=AnyOperator[Any])  # noqa: E741 (an operator of any runtime)


def four_bit_layers(layers: Sequence[O], recipe: Recipe) -> list[O]:
    """Those of all layers, in running order, whose weights have four bits."""
    # As is common below eight bits: the input and the answer meet the first and the last directly.
    return [o for o in layers[1:-1] if not recipe.keeps_eight_bits(o)]


def _layers(program: Program) -> list[Operator]:
    """Operators that multiply by constant weights, in the order of the file."""
    operators = [o for subgraph in program.subgraphs for o in subgraph.operators]
    return [o for o in operators if weights_of(o) is not None and o.code != "GATHER"]


@dataclass
class _IntegerWeights(Storing):
    # Of weights and a bias: layers that share both share the new bias, too.
    _biases: dict[tuple[Any, ...], Tensor] = field(default_factory=dict)

    def choose(self, operator: Operator, number: int, constant: Tensor) -> Smaller | str:
        if operator.code == LSTM:
            return self._matrix(operator, number, constant)
        weights = weights_of(operator)
        if weights is None or weights.number != number:
            return ""
        data = np.asarray(constant.array())
        if data.size < FEWEST:
            return f"its weights are {data.size}, and below {FEWEST} that is not worth it"
        if not np.isfinite(data).all():
            return f"constant '{constant.name}' has values that are not finite"
        return self._smaller(operator, weights, data)

    def _matrix(self, operator: Operator, number: int, constant: Tensor) -> Smaller | str:
        """One of the matrices of an LSTM."""
        matrices = float_matrices(operator)
        if number not in matrices:
            return ""
        size = sum(np.asarray(t.array()).size for t in matrices.values())
        if size < FEWEST:
            return f"its weights are {size}, and below {FEWEST} that is not worth it"
        return self._smaller(operator, Weights(number, constant, 0), np.asarray(constant.array()))

    def _smaller(self, operator: Operator, weights: Weights, data: np.ndarray) -> Smaller | str:
        raise NotImplementedError

    def _stored(self, weights: Weights, axis: int | None, *, bits: int = 8, spread: bool = False) -> Tensor:
        """The weights in integers with one scale, or one per entry of `axis`.

        Args:
            spread: repeat one scale for every output channel.
        """
        made = partial(_made, weights, axis, bits, spread, self.rounding)
        return self.once(weights.tensor, axis, bits, spread, make=made)

    def bias(self, operator: Operator, stored: Tensor) -> tuple[int, Tensor] | None:
        kernel = INT8_KERNELS.table.get(operator.code)
        number = None if kernel is None or kernel.weighted is None else kernel.weighted.bias
        bias, w = INT8_KERNELS.bias(operator), INT8_KERNELS.weights(operator)
        if number is None or bias is None or w is None or not bias.is_constant or not is_float(bias):
            return None
        data, old = np.asarray(w.array()), np.asarray(bias.array())
        new = self.rounding.bias(data, _grid(stored), old)
        if new is old:
            return None
        key = (*memory_key(data), *memory_key(old))
        if key not in self._biases:
            self._biases[key] = replace(bias, data=new.astype(np.float32))
        return number, self._biases[key]


def _grid(stored: Tensor) -> Grid:
    """The grid that stored weights lie on."""
    quantization = stored.quantization
    assert quantization is not None, "integers have a scale"
    axis = quantization.axis if quantization.is_per_channel else None
    return Grid(quantization.scale, axis, INT4_MAX if stored.dtype is INT4 else WEIGHT_MAX)


def _made(
    weights: Weights, axis: int | None, bits: int, spread: bool, rounding: Rounding
) -> tuple[Tensor, Decision]:
    data = np.asarray(weights.tensor.array())
    grid = weight_grid(data, axis, bits, rounding)
    how, scales = grid.how, grid.scales
    if axis is None and spread:
        axis, scales = weights.axis, np.repeat(scales, data.shape[weights.axis])
    quantized = rounding.codes(data, grid._replace(scales=scales, axis=axis))
    element = INT8 if bits == 8 else INT4
    name = f"{weights.tensor.name}/{element.name}"
    quantization = Quantization(scales, np.zeros(len(scales), np.int64), axis or 0)
    limits = float(data.min()), float(data.max())
    decision = Decision(name, scales, 0, limits, "weights", f"weights: {element.name}, symmetric, {how}")
    stored = Tensor(name, data.shape, element, quantized.astype(element.numpy()), quantization)
    return stored, decision


@dataclass
class _Dynamic(_IntegerWeights):
    def apply(self, program: Program) -> Quantized[Program]:
        # The bodies of loops alone: cells are there, and nothing that was learned of weights as they stand.
        return super().apply(replace(program, subgraphs=[program.subgraphs[0], *split_bodies(program)]))

    def _smaller(self, operator: Operator, weights: Weights, data: np.ndarray) -> Smaller | str:
        if operator.code == "GATHER":
            # One scale for the whole table: the rows that come out are one tensor, whichever were looked up.
            return Smaller(partial(self._stored, weights, None), Reading.BEHIND)
        if operator.code == LSTM:
            # Its kernel takes all as int8 or none, with one scale each.
            return Smaller(partial(self._stored, weights, None), Reading.DIRECT)
        options = _HYBRID.get(operator.code)
        if options is None:
            return f"LiteRT's {operator.code} takes no int8 weights beside float activations"
        per_channel = self.recipe.per_channel and operator.code != "BATCH_MATMUL"
        # Kernels read as many scales as there are channels: depthwise ones always, others for grouped layers.
        spread = operator.code in {"CONV_2D", "DEPTHWISE_CONV_2D"}
        make = partial(self._stored, weights, weights.axis if per_channel else None, spread=spread)
        return Smaller(make, Reading.DIRECT, options)


@dataclass
class _Stepped(_Dynamic):
    """Large products of integers, whose ranges LiteRT finds step by step; small ones unpacked."""

    def stored(self, bodies: Program) -> Quantized[Program]:
        """Bodies alone, which are no program of their own."""
        return _IntegerWeights.apply(self, bodies)

    def _smaller(self, operator: Operator, weights: Weights, data: np.ndarray) -> Smaller | str:
        if data.size >= _FEWEST_STEPPED or operator.code == "GATHER":
            return super()._smaller(operator, weights, data)
        axis = weights.axis if self.recipe.per_channel else None
        return Smaller(partial(self._stored, weights, axis), Reading.BEFORE)


@dataclass
class _Unpacked(_IntegerWeights):
    """`in_four_bits`: operators whose weights become int4."""

    in_four_bits: frozenset[Operator] = frozenset()

    def _smaller(self, operator: Operator, weights: Weights, data: np.ndarray) -> Smaller | str:
        if data.ndim < 2:
            return ""  # peepholes of an LSTM: a scale for each would be no smaller
        axis = weights.axis if self.recipe.per_channel else None
        bits = 4 if operator in self.in_four_bits else 8
        return Smaller(partial(self._stored, weights, axis, bits=bits), Reading.BEFORE)


# ---------------------------------------------------------------------------------------------------- float16
#
# Constants stored as float16, half the size; the runtime computes in float32.
#
# XNNPACK unpacks them once, when the model is loaded; ONNX Runtime runs the Cast behind each once.


LARGEST_HALF = float(np.finfo(np.float16).max)
SMALLEST_NORMAL = float(np.finfo(np.float16).tiny)
# Elements. DEQUANTIZE or Cast and its tensor take as much room in the file as so many save: 256 bytes.
FEWEST_FLOATS = 128
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
    if largest > LARGEST_HALF:
        return f"constant '{constant.name}' reaches {largest:.4g}, and float16 ends at {LARGEST_HALF:g}"
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
        if np.asarray(constant.array()).size < FEWEST_FLOATS:
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
    return (
        tensor is not None
        and is_float(tensor)
        and tensor.is_constant
        and tensor.array().size >= FEWEST_FLOATS
    )


def store_half(program: onnx.Program, recipe: Recipe = PLAIN) -> Quantized[onnx.Program]:
    """Store all larger float constants of an ONNX program as float16. The program stays as it is.

    Those in the bodies of loops and branches, those that float16 cannot reach, and those of operators that
    the recipe keeps in float stay float32.
    """
    result = Quantized(replace(program, operators=[]))
    wide: dict[onnx.Tensor, onnx.Tensor] = {}
    unique = onnx.unique_names({t.name for t in program.tensors()})

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
