"""What ONNX's operators do with factors of channels, which lie at axis 1 of pictures and last elsewhere."""

from __future__ import annotations

import numpy as np

from thinflow.quantize.channel_rules import (
    Border,
    Factors,
    Flow,
    Rules,
    common,
    constant_numbers,
    on_axis,
    operands,
    rule,
    sizes,
    with_rank,
)
from thinflow.quantize.kernels import Operator, input_at

RULES: Rules = {}

# Those that both runtimes have.
rule("Relu", "LeakyRelu", "PRelu", "Abs", "Neg", "Identity", of=RULES)(common.passes)
rule("Reshape", "Flatten", "Squeeze", "Unsqueeze", of=RULES)(common.moves)
rule("Add", "Sub", "Max", "Min", "Sum", of=RULES)(common.adds)
rule("Mul", of=RULES)(common.multiplies)
rule("Div", of=RULES)(common.divides)
rule("Shape", "Size", of=RULES)(sizes)


@rule("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", of=RULES)
def pools(flow: Flow, operator: Operator) -> Factors | None:
    """Numbers that lie beside one another in a picture are mixed."""
    if len(operator.outputs) > 1:
        return None
    x = flow.of(input_at(operator, 0))
    return flow.cells.even(x, range(2, x.ndim))


@rule("Clip", of=RULES)
def clips(flow: Flow, operator: Operator) -> Factors | None:
    """At 0 only: any other limit would be another one for each channel."""
    limits = [t for t in operator.inputs[1:3] if t is not None]
    if any(not t.is_constant or np.asarray(t.array()).any() for t in limits):
        return None
    return flow.of(input_at(operator, 0))


@rule("Conv", of=RULES)
def convolves(flow: Flow, operator: Operator) -> Factors | None:
    """Weights [O, I of a group, ...]."""
    x, w = operands(operator, 0, 1)
    if not flow.is_usable(w):
        return None
    outputs, inputs, *window = np.asarray(w.array()).shape
    groups, rank = int(operator.options.get("group", 1)), 2 + len(window)
    takes = common.grouped(outputs, inputs, groups).reshape(outputs, inputs, *(1 for _ in window))
    row = flow.along(x, 1, groups * inputs)
    gives = on_axis(np.arange(outputs), 0, rank)
    # Alone in its group, a channel has a weight scale of its own for each output.
    return flow.layer(operator, 1, 2, row, 1, takes, gives, is_own_scale=inputs == 1 and groups > 1)


@rule("ConvTranspose", of=RULES)
def convolves_back(flow: Flow, operator: Operator) -> Factors | None:
    """Weights [I, O of a group, ...]."""
    x, w = operands(operator, 0, 1)
    if not flow.is_usable(w):
        return None
    inputs, outputs, *window = np.asarray(w.array()).shape
    groups, ones = int(operator.options.get("group", 1)), [1 for _ in window]
    gives = common.grouped(inputs, outputs, groups).reshape(inputs, outputs, *ones)
    takes = on_axis(np.arange(inputs), 0, 2 + len(window))
    return flow.layer(operator, 1, 2, flow.along(x, 1, inputs), 1, takes, gives)


@rule("Gemm", of=RULES)
def multiplies_and_adds(flow: Flow, operator: Operator) -> Factors | None:
    """alpha * A @ B + beta * C, where alpha and beta leave factors alone."""
    a, b = (bool(operator.options.get(name, 0)) for name in ("transA", "transB"))
    bias = 2 if input_at(operator, 2) is not None else None
    return common.matrices(flow, operator, flips_a=a, flips_b=b, bias=bias)


@rule("MatMul", of=RULES)
def matrices(flow: Flow, operator: Operator) -> Factors | None:
    return common.matrices(flow, operator)


@rule("LSTM", "GRU", "RNN", of=RULES)
def recurs(flow: Flow, operator: Operator) -> list[Factors] | None:
    """Weights [directions, gates, I] take up what the sequence has; the state keeps its numbers."""
    x, w = operands(operator, 0, 1)
    if not flow.is_usable(w):
        return None
    row = flow.along(x, -1, int(np.asarray(w.array()).shape[-1]))
    if row is None:
        return None
    flow.borders.append(Border(operator, 1, x, None, on_axis(row, 2, 3), None, "layer"))
    return [np.zeros((1,) * len(y.shape or ()), np.int64) for y in operator.outputs]


@rule("LayerNormalization", of=RULES)
def norms(flow: Flow, operator: Operator) -> Factors | None:
    """Its scale and offset give factors; what it takes the mean of may have none."""
    flow.cells.bind(flow.of(input_at(operator, 0)))
    scale = input_at(operator, 1)
    if len(operator.outputs) > 1 or not flow.is_usable(scale):
        return None
    shape, rank = np.asarray(scale.array()).shape, len(operator.outputs[0].shape)
    fresh = flow.cells.fresh(*shape)
    flow.borders.append(Border(operator, 1, None, operator.outputs[0], None, fresh, "row"))
    if input_at(operator, 2) is not None and not _adds(flow, operator, 2, fresh):
        flow.cells.bind(fresh)
    return with_rank(fresh, rank)


@rule("InstanceNormalization", of=RULES)
def norms_each(flow: Flow, operator: Operator) -> Factors | None:
    flow.cells.bind(flow.of(input_at(operator, 0)))
    scale, rank = input_at(operator, 1), len(operator.outputs[0].shape)
    if not flow.is_usable(scale):
        return None
    fresh = flow.cells.fresh(np.asarray(scale.array()).size)
    flow.borders.append(Border(operator, 1, None, operator.outputs[0], None, fresh, "row"))
    if not _adds(flow, operator, 2, fresh):
        flow.cells.bind(fresh)
    return on_axis(fresh, 1, rank)


@rule("BatchNormalization", of=RULES)
def applies_statistics(flow: Flow, operator: Operator) -> Factors | None:
    """scale * (x - mean) / sqrt(variance + epsilon) + offset."""
    x, y = input_at(operator, 0), operator.outputs[0]
    if len(operator.outputs) > 1 or operator.options.get("training_mode", 0):
        return None
    if not all(flow.is_usable(t) for t in operator.inputs[1:5]):
        return None
    size = np.asarray(input_at(operator, 1).array()).size
    row, fresh = flow.along(x, 1, size), flow.cells.fresh(size)
    if row is None:
        return None
    flow.borders.append(Border(operator, 1, x, y, row, fresh, "row"))
    flow.borders.append(Border(operator, 2, None, y, None, fresh, "added"))
    flow.borders.append(Border(operator, 3, None, x, None, row, "added"))
    return on_axis(fresh, 1, len(y.shape))


def _adds(flow: Flow, operator: Operator, number: int, factors: Factors) -> bool:
    constant = input_at(operator, number)
    return constant.is_constant and flow.adds(operator, number, factors)


@rule("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", of=RULES)
def reduces(flow: Flow, operator: Operator) -> Factors | None:
    """Axes are an attribute, or an input since opset 13 or 18; none are all."""
    x, given = operands(operator, 0, 1)
    axes = operator.options.get("axes") if given is None else constant_numbers(given)
    return flow.reduced(x, axes, operator.outputs[0]) if axes else None


@rule("Pad", of=RULES)
def pads(flow: Flow, operator: Operator) -> Factors | None:
    margins, value = constant_numbers(input_at(operator, 1)), input_at(operator, 2)
    x = input_at(operator, 0)
    rank = len(x.shape)
    if margins is None or len(margins) != 2 * rank:
        return None
    pairs = list(zip(margins[:rank], margins[rank:], strict=True))
    if operator.options.get("mode", "constant") != "constant":
        return flow.cells.even(flow.of(x), [a for a, pair in enumerate(pairs) if any(pair)])
    if value is not None and (not value.is_constant or np.asarray(value.array()).any()):
        return None
    return common.padded(flow, x, pairs)


@rule("Transpose", of=RULES)
def turns(flow: Flow, operator: Operator) -> Factors:
    factors = flow.of(input_at(operator, 0))
    return np.transpose(factors, operator.options.get("perm"))


@rule("Concat", of=RULES)
def joins(flow: Flow, operator: Operator) -> Factors | None:
    return flow.joined(list(operator.reads()), int(operator.options["axis"]))


@rule("Split", of=RULES)
def splits(flow: Flow, operator: Operator) -> list[Factors] | None:
    x = input_at(operator, 0)
    return flow.cut(x, operator.outputs, int(operator.options.get("axis", 0)) % len(x.shape))


@rule("Slice", of=RULES)
def slices(flow: Flow, operator: Operator) -> Factors | None:
    x = input_at(operator, 0)
    starts, ends = map(constant_numbers, operator.inputs[1:3])
    axes, steps = (constant_numbers(input_at(operator, n)) for n in (3, 4))
    if starts is None or ends is None:
        return None
    if any(input_at(operator, n) is not None for n in (3, 4) if (axes, steps)[n - 3] is None):
        return None
    parts = [slice(None)] * len(x.shape)
    for n, (start, end) in enumerate(zip(starts, ends, strict=True)):
        parts[axes[n] if axes else n] = slice(start, end, steps[n] if steps else 1)
    return flow.sliced(x, parts)


@rule("Resize", of=RULES)
def resizes(flow: Flow, operator: Operator) -> Factors | None:
    x, y = input_at(operator, 0), operator.outputs[0]
    # Extrapolation puts a number of its own around.
    if operator.options.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        return None
    changed = [a for a, (n, m) in enumerate(zip(x.shape, y.shape, strict=True)) if n is None or n != m]
    return flow.cells.even(flow.of(x), changed)
