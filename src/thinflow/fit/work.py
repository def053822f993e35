"""The work of a layer in C: what its instructions grow with."""

from __future__ import annotations

import math
from dataclasses import dataclass

from thinflow.lower.c.layer import Layer
from thinflow.tflite.model import Operator, Tensor

QUANTITIES = ("macs", "columns", "outputs", "pixels", "inputs", "channels", "calls", "runs")
"""What the instructions of a layer are a weighted sum of."""
_NAMED = ("type", "rounding", "op", "stride")
"""Words of a kernel that change what an element costs; others follow from sizes."""


@dataclass(frozen=True)
class Work:
    """What one layer does.

    Attributes:
        kernels: names of what it calls, which say what each quantity costs.
        kind: the operator and its element type, for kernels that were never counted.
        quantities: macs: products that are summed. columns: of them for one output channel: the steps of
            its windows. outputs, inputs: elements. pixels: outputs of one channel. channels: of the
            output. calls: of kernels. runs: of products with one element of the input, where several
            channels are made of each.
    """

    kernels: str
    kind: str
    quantities: tuple[float, ...]


def work_of(layer: Layer) -> Work:
    """What a layer does."""
    operator = layer.operator
    # What only closes a loop reads, and writes nothing.
    y = next(iter((*operator.outputs, *operator.reads())))
    read = [t for t in operator.reads() if not t.is_constant]
    channels = (y.shape or (1,))[-1] or 1
    multiplier = _multiplier(operator)
    outputs = sum(map(_elements, operator.outputs))
    quantities = (
        layer.macs,
        layer.macs / channels,
        outputs,
        outputs / channels,
        sum(map(_elements, read)),
        channels,
        len(layer.calls),
        layer.macs / multiplier if multiplier > 1 else 0,
    )
    first = read[0] if read else y
    names = [kernel_name(call.kernel, call.words) for call in layer.calls]
    kind = f"{operator.code if operator.code != 'CUSTOM' else operator.custom_code} {first.dtype.name}"
    # Of several channels made of one, the loops of depthwise kernels are others.
    wide = " wide" if multiplier > 1 else ""
    return Work(
        " + ".join(dict.fromkeys(names)) + (wide if names else ""), kind, tuple(map(float, quantities))
    )


def _multiplier(operator: Operator) -> int:
    """Filters for each channel of a depthwise convolution; 1 for everything else."""
    # By the sizes, as kernels have it: files may leave the option out.
    if operator.code != "DEPTHWISE_CONV_2D" or operator.inputs[0] is None:
        return 1
    made, read = ((t.shape or (1,))[-1] or 1 for t in (operator.outputs[0], operator.inputs[0]))
    return max(made // read, 1)


def kernel_name(kernel: str, words: dict[str, str]) -> str:
    """A kernel with the words that change what an element costs."""
    return "_".join([kernel, *(words[word] for word in _NAMED if word in words)])


def _elements(tensor: Tensor) -> int:
    return math.prod(n or 1 for n in tensor.shape or ())
