"""Integer kernels of the runtimes, described by what they ask for.

There is one `Kernels` for each runtime and arithmetic: `litert.INT8_KERNELS`, `litert.INT16_KERNELS` and
`onnx.INT8_KERNELS`. Placement, ranges, weights and calibration know nothing else of a runtime; only writing
the new program differs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from thinflow.ir.types import FLOAT, DType
from thinflow.program.model import Operator as _Operator
from thinflow.typing import Array

Operator = _Operator[Any]
"""Of any runtime."""


@dataclass(frozen=True)
class Arithmetic:
    """The integers that activations and biases are stored in. Weights are int8, -127 to 127, in all of them.

    Attributes:
        activation, bias: element types.
        low, high: quantized values of activations.
        is_symmetric: whether the zero point is always 0.
        largest_bias: quantized biases stay within +-this.
    """

    activation: DType
    bias: DType
    low: int
    high: int
    is_symmetric: bool
    largest_bias: int

    def quantized(self, values: Array, scale: float, zero_point: int) -> Array:
        """The nearest quantized values, ties to even; copies."""
        # In float64: a quotient rounded to float32 could land on a tie that is none. The zero point comes
        # after the rounding, as in ONNX's QuantizeLinear; before it, an odd one would turn ties to even the
        # other way.
        nearest = np.rint(values.astype(np.float64) / scale) + zero_point
        # numpy makes scalars of 0-d arrays
        return np.asarray(np.clip(nearest, self.low, self.high), self.activation.numpy())


class Fixed(NamedTuple):
    """Output parameters that a kernel insists on."""

    scale: float
    zero_point: int


class Weighted(NamedTuple):
    """Input numbers of an op with constant weights.

    Attributes:
        x, weights, bias: input numbers; None for an op without a bias.
        axis: the dimension of the weights with one scale per entry.
        may_compute: weights that are not constant are data like x.
    """

    x: int
    weights: int
    bias: int | None
    axis: int
    may_compute: bool = False


class Cost(NamedTuple):
    """Time that kernels take for an element of an operator's largest tensor; see `Kernels.work`.

    The unit is the time that DEQUANTIZE takes for an element.
    """

    floats: float
    integers: float

    @property
    def times_slower(self) -> float:
        """How many times longer than floats integers take."""
        return self.integers / self.floats


class Kernel(NamedTuple):
    """Demands of an integer kernel. Tensors that are not float32 in the float program are left alone.

    Attributes:
        weighted: for ops with symmetric int8 weights and an integer bias.
        same_scale: all float inputs and outputs share scale and zero point.
        averages: numbers of its inputs, on the one grid that all of them share: none of them may be cut off
            before.
        fixed: the output's parameters, if the kernel dictates them.
        known_range: of the output, if it is the same for every model; any parameters will do.
        is_heavy: it multiplies and adds, so integers pay off even between float neighbours.
        is_clamp: quantizing its output to the range it clamps to does all that it does.
        data: numbers of the inputs that hold numbers to compute with; None for all.
        gives_floats: it can also give floats, straight from its 32-bit sums.
        moves_integers: it takes and gives quantized values as they are, without a pair around it.
        scale_limit: scales of its inputs must be below it.
        sum_bits: of sums of rescaled inputs, by which these are shifted; None for what adds none.
        options: that its integer form must have.
        code: of its integer form, with these options alone, if that is another operator.
        centred: numbers of inputs whose zero point is better 0: a faster kernel takes no other.
        has_matrices: it multiplies by constants that `weighted` has no words for.
        cost: of the float kernel and of the integer one, where these differ by much; None if they do not.
    """

    weighted: Weighted | None = None
    same_scale: bool = False
    averages: bool = False
    fixed: Fixed | None = None
    known_range: tuple[float, float] | None = None
    is_heavy: bool = False
    is_clamp: bool = False
    data: tuple[int, ...] | None = None
    gives_floats: bool = False
    moves_integers: bool = False
    scale_limit: float = math.inf
    sum_bits: int | None = None
    options: tuple[tuple[str, Any], ...] = ()
    code: str = ""
    centred: tuple[int, ...] = ()
    has_matrices: bool = False
    cost: Cost | None = None


@dataclass(frozen=True)
class Kernels:
    """The integer kernels of a runtime in one arithmetic, and what pays off there.

    Attributes:
        arithmetic: what they compute with.
        table: op -> what its kernel asks for.
        refusals: op without a kernel -> why that is so, where it is not for want of one.
        missing: what is said of the other ops without a kernel; has a place for the name.
        saturates: op -> the input from which its output stays within one quantized value of its limit.
        reads_sizes: ops that look at a tensor's sizes only and read whichever form exists.
        decides: ops whose input is the model's answer.
        reciprocal_root: the op that makes a factor of a variance.
        scalings: ops that such a factor may go through.
        largest_factor: kernels want s_x * s_w / s_y below it.
        floats_are_free: a pair around an op in float costs next to nothing: what borders on no heavy integer
            operator stays float, and so does what only floats are wanted of.
        float_row: a product and the op whose constant row is better added to its float sums.
        slower: what is said of an op whose integer kernel is slow; has a place for how many times slower than
            float. "" if costs were not measured.
        call: what an operator takes whatever its size, as elements in the unit of `Cost`.
        unit_ns: that unit in nanoseconds, on the processor that costs were measured on.
    """

    arithmetic: Arithmetic
    table: Mapping[str, Kernel]
    refusals: Mapping[str, str]
    missing: str
    saturates: Mapping[str, float]
    reads_sizes: frozenset[str]
    decides: frozenset[str]
    reciprocal_root: str
    scalings: frozenset[str]
    largest_factor: float = math.inf
    floats_are_free: bool = False
    float_row: tuple[str, str] = field(default=("", ""))
    slower: str = ""
    # 0.09 us of 0.055 ns each in LiteRT (`python -m benchmarks int8_kernels`, its smallest shape).
    call: int = 1600
    unit_ns: float = 0.055

    # ------------------------------------------------------------------------ what differs by runtime

    def why_form(self, operator: Operator) -> str:
        """The reason against the integer kernel of an op in this operator's form; empty if there is none."""
        raise NotImplementedError

    def clamp(self, operator: Operator) -> tuple[float, float] | None:
        """The constant limits of an operator's outputs; None if it has none."""
        raise NotImplementedError

    def weight_axis(self, operator: Operator) -> int | None:
        """The axis of constant weights with a scale per entry; None if the kernel takes one scale only."""
        weighted = self.table[operator.code].weighted
        return None if weighted is None else weighted.axis

    def made_one(self, operators: Sequence[Operator]) -> Mapping[Operator, str]:
        """Operators that the runtime computes as one with others, in float alone -> why."""
        return {}

    def work(self, operator: Operator) -> float:
        """What `Cost` counts for an operator; open sizes count as 1."""
        tensors = (*filter(None, operator.inputs), *operator.outputs)
        return max((elements(t) for t in tensors), default=0)

    def why_missing(self, operator: Operator) -> str:
        """The reason for which an operator has no integer kernel."""
        return self.why_not(operator.code)

    # ---------------------------------------------------------------------------- reading the table

    @property
    def name(self) -> str:
        """Of the activations' type: "int8"."""
        return self.arithmetic.activation.name

    @cached_property
    def weighted(self) -> frozenset[str]:
        """Ops with int8 weights."""
        return frozenset(code for code, kernel in self.table.items() if kernel.weighted is not None)

    def why_not(self, code: str) -> str:
        """The reason for which an op has no row in the table."""
        return self.refusals.get(code) or self.missing.format(code)

    def is_light(self, operator: Operator) -> bool:
        """True if integers pay off only beside others."""
        kernel = self.table.get(operator.code)
        return kernel is not None and not kernel.is_heavy

    def weights(self, operator: Operator) -> Any:
        """The constant weights of an operator with a kernel for them; None if there are none."""
        kernel = self.table.get(operator.code)
        if kernel is None or kernel.weighted is None:
            return None
        tensor = input_at(operator, kernel.weighted.weights)
        return tensor if tensor is not None and tensor.is_constant else None

    def bias(self, operator: Operator) -> Any:
        """The bias that an operator with weights adds to its sums; None if there is none."""
        kernel = self.table.get(operator.code)
        if kernel is None or kernel.weighted is None or kernel.weighted.bias is None:
            return None
        return input_at(operator, kernel.weighted.bias)

    def data_inputs(self, operator: Operator) -> list[Any]:
        """The float inputs whose numbers the op works on, weights and bias left out; constants included."""
        kernel = self.table.get(operator.code) or Kernel()
        constants: list[int | None] = []
        if kernel.weighted is not None:
            _, weights, bias, *_ = kernel.weighted
            # Weights that are computed stay data, for kernels that may have such; they need a range like x.
            special = {weights: self.weights(operator), bias: self.bias(operator)}
            constants = [number for number, t in special.items() if t is not None and t.is_constant]
        return [
            t
            for number, t in enumerate(operator.inputs)
            if (kernel.data is None or number in kernel.data) and number not in constants and is_float(t)
        ]

    def computed_inputs(self, operator: Operator) -> list[Any]:
        """Those of `data_inputs` that are computed or fed, each once."""
        return list(dict.fromkeys(t for t in self.data_inputs(operator) if not t.is_constant))


def table_of(rows: Mapping[str, Kernel]) -> dict[str, Kernel]:
    """A row per op, from rows for several ops each, whose names have spaces between them."""
    return {code: kernel for codes, kernel in rows.items() for code in codes.split()}


def input_at(operator: Operator, number: int) -> Any:
    """An input; None if the operator has fewer."""
    return operator.inputs[number] if number < len(operator.inputs) else None


def is_float(tensor: Any) -> bool:
    """True if a tensor is one that quantization is about."""
    return tensor is not None and tensor.dtype is FLOAT


def elements(tensor: Any) -> int:
    """Number of elements; open sizes count as 1."""
    return math.prod(size or 1 for size in tensor.shape or ())


def float_inputs(operator: Operator) -> list[Any]:
    """Its float32 inputs that are computed or fed, each once."""
    return list(dict.fromkeys(t for t in operator.reads() if is_float(t) and not t.is_constant))


def float_outputs(operator: Operator) -> list[Any]:
    """Its float32 outputs."""
    return [t for t in operator.outputs if is_float(t)]
