"""What LiteRT's operators do with factors of channels, which mostly lie last."""

from __future__ import annotations

import numpy as np

from thinflow.quantize.channel_rules import (
    Factors,
    Flow,
    Rules,
    common,
    constant_numbers,
    on_axis,
    operands,
    rule,
    sizes,
)
from thinflow.quantize.kernels import Operator, input_at

RULES: Rules = {}

# Those that both runtimes have.
rule("RELU", "LEAKY_RELU", "PRELU", "ABS", "NEG", of=RULES)(common.passes)
rule("RESHAPE", "SQUEEZE", "EXPAND_DIMS", of=RULES)(common.moves)
rule("ADD", "SUB", "MAXIMUM", "MINIMUM", of=RULES)(common.adds)
rule("MUL", of=RULES)(common.multiplies)
rule("DIV", of=RULES)(common.divides)
rule("SHAPE", "RANK", of=RULES)(sizes)


@rule("MAX_POOL_2D", "AVERAGE_POOL_2D", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", of=RULES)
def pools(flow: Flow, operator: Operator) -> Factors:
    """Numbers that lie beside one another in a picture are mixed."""
    return flow.cells.even(flow.of(input_at(operator, 0)), (1, 2))


@rule("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND", of=RULES)
def batches(flow: Flow, operator: Operator) -> Factors:
    x = flow.of(input_at(operator, 0))
    return flow.cells.even(x, range(x.ndim - 1))


@rule("CONV_2D", of=RULES)
def convolves(flow: Flow, operator: Operator) -> Factors | None:
    """Weights OHWI, of which I is a part of the channels in a grouped one."""
    x, w = operands(operator, 0, 1)
    if not flow.is_usable(w) or x.shape[-1] is None:
        return None
    outputs, *_, inputs = np.asarray(w.array()).shape
    groups = max(x.shape[-1] // max(inputs, 1), 1)
    takes = common.grouped(outputs, inputs, groups).reshape(outputs, 1, 1, inputs)
    row = flow.along(x, 3, groups * inputs)
    return flow.layer(operator, 1, 2, row, 3, takes, on_axis(np.arange(outputs), 0, 4))


@rule("DEPTHWISE_CONV_2D", of=RULES)
def convolves_each(flow: Flow, operator: Operator) -> Factors | None:
    """Weights 1HWO, with as many outputs for each input, side by side."""
    x, w = operands(operator, 0, 1)
    if not flow.is_usable(w):
        return None
    size = np.asarray(w.array()).shape[3]
    # 0 is the schema's default, which a file has that does not state it.
    times = int(operator.options.get("depth_multiplier", 1)) or 1
    channels = on_axis(np.arange(size), 3, 4)
    row = flow.along(x, 3, size // times)
    return flow.layer(operator, 1, 2, row, 3, channels // times, channels, is_own_scale=True)


@rule("TRANSPOSE_CONV", of=RULES)
def convolves_back(flow: Flow, operator: Operator) -> Factors | None:
    """Weights OHWI; the sizes of the output are the first input."""
    x, w = operands(operator, 2, 1)
    if not flow.is_usable(w):
        return None
    outputs, *_, inputs = np.asarray(w.array()).shape
    takes, gives = on_axis(np.arange(inputs), 3, 4), on_axis(np.arange(outputs), 0, 4)
    return flow.layer(operator, 1, 3, flow.along(x, 3, inputs), 3, takes, gives)


@rule("FULLY_CONNECTED", of=RULES)
def connects(flow: Flow, operator: Operator) -> Factors | None:
    """Weights OI; a picture may be read as rows of I numbers."""
    x, w = operands(operator, 0, 1)
    if not flow.is_usable(w) or x.is_constant:
        return None
    outputs, inputs = np.asarray(w.array()).shape
    factors = flow.reshaped(flow.of(x), x.shape, (None, inputs))
    takes, gives = np.arange(inputs)[None], np.arange(outputs)[:, None]
    return flow.layer(operator, 1, 2, flow.row(factors, 1, inputs), -1, takes, gives)


@rule("BATCH_MATMUL", of=RULES)
def matrices(flow: Flow, operator: Operator) -> Factors | None:
    a, b = (bool(operator.options.get(name, False)) for name in ("adj_x", "adj_y"))
    return common.matrices(flow, operator, flips_a=a, flips_b=b)


@rule("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", of=RULES)
def reduces(flow: Flow, operator: Operator) -> Factors | None:
    axes = constant_numbers(input_at(operator, 1))
    return None if axes is None else flow.reduced(input_at(operator, 0), axes, operator.outputs[0])


@rule("PAD", of=RULES)
def pads(flow: Flow, operator: Operator) -> Factors | None:
    """Zeros around; PADV2 may pad with another number."""
    margins = constant_numbers(input_at(operator, 1))
    if not margins:
        return None
    return common.padded(flow, input_at(operator, 0), list(zip(margins[::2], margins[1::2], strict=True)))


@rule("MIRROR_PAD", of=RULES)
def mirrors(flow: Flow, operator: Operator) -> Factors | None:
    margins = constant_numbers(input_at(operator, 1)) or []
    around = [a for a in range(len(margins) // 2) if any(margins[2 * a : 2 * a + 2])]
    return flow.cells.even(flow.of(input_at(operator, 0)), around) if margins else None


@rule("TRANSPOSE", of=RULES)
def turns(flow: Flow, operator: Operator) -> Factors | None:
    order = constant_numbers(input_at(operator, 1))
    return None if order is None else flow.of(input_at(operator, 0)).transpose(order)


@rule("CONCATENATION", of=RULES)
def joins(flow: Flow, operator: Operator) -> Factors | None:
    return flow.joined(list(operator.reads()), int(operator.options.get("axis", 0)))


@rule("PACK", of=RULES)
def stacks(flow: Flow, operator: Operator) -> Factors:
    """Tensors on one another, along a new axis."""
    factors = flow.together(*(flow.of(t) for t in operator.reads()))
    axis = int(operator.options.get("axis", 0))
    return np.expand_dims(factors, axis)


@rule("SPLIT", "SPLIT_V", of=RULES)
def splits(flow: Flow, operator: Operator) -> list[Factors] | None:
    is_first = operator.code == "SPLIT"
    x, axis = input_at(operator, int(is_first)), constant_numbers(input_at(operator, 0 if is_first else 2))
    return None if axis is None else flow.cut(x, operator.outputs, axis[0] % len(x.shape))


@rule("SLICE", of=RULES)
def slices(flow: Flow, operator: Operator) -> Factors | None:
    begin, sizes = map(constant_numbers, operator.inputs[1:3])
    if begin is None or sizes is None:
        return None
    # A size of -1 reaches to the end.
    parts = [slice(b, b + n if n >= 0 else None) for b, n in zip(begin, sizes, strict=True)]
    return flow.sliced(input_at(operator, 0), parts)


@rule("STRIDED_SLICE", of=RULES)
def strides(flow: Flow, operator: Operator) -> Factors | None:
    """Without anything of the kind along the channels: the masks have many forms."""
    x, y = input_at(operator, 0), operator.outputs[0]
    steps = constant_numbers(input_at(operator, 3))
    factors = flow.of(x)
    if steps is None or len(y.shape) != factors.ndim:
        return None
    whole = all(n == 1 or (x.shape[a] == y.shape[a] and steps[a] == 1) for a, n in enumerate(factors.shape))
    return factors if whole else None


@rule("GATHER", of=RULES)
def takes(flow: Flow, operator: Operator) -> Factors | None:
    """Rows by their numbers, as a loop takes the next of a sequence, each with the factors of all."""
    factors, numbers = flow.of(input_at(operator, 0)), input_at(operator, 1)
    flow.of(numbers)
    axis = int(operator.options.get("axis", 0)) % factors.ndim
    if factors.shape[axis] > 1 or operator.options.get("batch_dims", 0) or numbers.shape is None:
        return None
    shape = factors.shape
    return factors.reshape((*shape[:axis], *(1 for _ in numbers.shape), *shape[axis + 1 :]))
