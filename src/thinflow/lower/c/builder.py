"""What forms build layers with."""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.layer import Argument, Call, Constant, Layer, Scratch, State, Struct, flat
from thinflow.lower.c.options import Options
from thinflow.tflite.model import Operator, Quantization, Tensor
from thinflow.typing import Array


class LayerBuilder:
    """Makes the layer of one operator.

    Attributes:
        rounding, cpu: see `Options`.
        layer: as far as it is.
    """

    def __init__(self, operator: Operator, options: Options) -> None:
        # Forms get the operator as well; the methods below read it for them.
        self.operator = operator
        self.rounding = options.rounding
        self.cpu = options.cpu
        self.layer = Layer(operator)

    # --- what the operator says -------------------------------------------------------------------------

    def input(self, number: int) -> Tensor:
        """An input that has to be there."""
        found = self.optional(number)
        if found is None:
            raise UnsupportedOp(f"input {number} is missing")
        return found

    def optional(self, number: int) -> Tensor | None:
        """An input, or None if it is absent."""
        inputs = self.operator.inputs
        return inputs[number] if number < len(inputs) else None

    def output(self, number: int = 0) -> Tensor:
        return self.operator.outputs[number]

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The sizes of a tensor; all are known by now."""
        # `convert` has refused what is open, and made batches 1.
        assert tensor.shape is not None
        return tuple(n or 0 for n in tensor.shape)

    def size(self, tensor: Tensor) -> int:
        """The number of its elements."""
        return math.prod(self.shape(tensor))

    def array(self, number: int) -> Array:
        """The elements of an input that has to be constant.

        Raises:
            UnsupportedOp: it is computed.
        """
        tensor = self.input(number)
        if not tensor.is_constant:
            raise UnsupportedOp(f"input {number}, '{tensor.name}', is computed; C needs it constant")
        return tensor.array()

    def array_or_zeros(self, number: int, size: int, dtype: type) -> Array:
        """As `array`, of a type; zeros if the input is absent.

        Raises:
            UnsupportedOp: it is computed.
        """
        absent = self.optional(number) is None
        return np.zeros(size, dtype) if absent else self.array(number).astype(dtype, copy=False)

    def scale(self, tensor: Tensor) -> tuple[np.float32, int]:
        """Scale and zero point of a tensor with one of each."""
        found = self.scales(tensor)
        if found.is_per_channel:
            raise UnsupportedOp(f"'{tensor.name}' has a scale for each channel")
        # Files may leave out zero points that are 0.
        return found.scale[0], int(found.zero_point[0]) if len(found.zero_point) else 0

    def scales(self, tensor: Tensor) -> Quantization:
        """Scales and zero points of a tensor.

        Raises:
            UnsupportedOp: it has none.
        """
        if tensor.quantization is None or not len(tensor.quantization.scale):
            raise UnsupportedOp(f"'{tensor.name}' is {tensor.dtype} without a scale")
        return tensor.quantization

    def option(self, name: str, default: int = 0) -> int:
        """A number among the options."""
        return int(self.operator.options.get(name, default))

    # --- what the layer does ----------------------------------------------------------------------------

    def constant(self, name: str, data: Array, dtype: str | None = None) -> Constant:
        """An array for the file of weights; the same content is written once."""
        return Constant(name, flat(data if dtype is None else data.astype(dtype)))

    def scratch(self, size_bytes: int) -> Scratch:
        """Memory for this layer only; aligned as the arena is."""
        return Scratch(size_bytes)

    def state(self, name: str, type: str, count: int, first: int = 0, values: Array | None = None) -> State:
        """Memory that lasts; see there what it begins with."""
        return State(name, type, count, first, values)

    def struct(self, type: str, /, **members: Argument) -> Struct:
        """Values of a struct, a pointer to which is passed."""
        return Struct(type, members)

    def call(self, kernel: str, *arguments: Argument, **words: str) -> None:
        """Call a kernel; several calls run in order."""
        # The order of the words is that of the function's name.
        self.layer.calls.append(Call(kernel, words, list(arguments)))

    def macs(self, count: int) -> None:
        """Note what the layer costs."""
        self.layer.macs += count

    def in_place(self, number: int = 0) -> None:
        """The output may lie where that input lies: the kernel reads each element before it writes there."""
        self.layer.in_place = number

    def same(self, number: int = 0) -> None:
        """The output is that input, in other sizes."""
        self.layer.same = number
