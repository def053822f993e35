"""Statistics of each channel of an activation over all samples, and biases corrected by them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from thinflow.ir.brief import brief_repr
from thinflow.ir.types import FLOAT
from thinflow.onnx import program as onnx
from thinflow.program import model
from thinflow.quantize.calibrate import watch_program
from thinflow.quantize.kernels import is_float
from thinflow.quantize.runners import Feed
from thinflow.tflite.model import Operator, Program, Tensor
from thinflow.typing import Array, Progress

T = TypeVar("T", bound=model.Tensor)


@brief_repr
@dataclass(frozen=True)
class ChannelStatistics:
    """Statistics of a tensor's channels, C entries.

    Attributes:
        largest: float64 [C], of the magnitudes.
        mean: float64 [C]
    """

    largest: Array
    mean: Array


class _Observer:
    """Sums up one tensor; a sample with values that are not finite is left out.

    Args:
        shape: of the tensor.
        axes: along which its channels lie.
    """

    passes = 1

    def __init__(self, shape: Sequence[int | None], axes: Sequence[int]) -> None:
        self.rank, self.axes = len(shape), [a % len(shape) for a in axes]
        self.sizes = [shape[a] or 0 for a in self.axes]
        self.others = tuple(a for a in range(self.rank) if a not in self.axes)
        self.largest = np.zeros(math.prod(self.sizes))
        self.sums = np.zeros(math.prod(self.sizes))
        self.count = 0

    def begin(self, walk: int) -> None:
        del walk  # one walk, nothing to reset

    def observe(self, values: Array, low: float, high: float) -> None:
        # Where some values are not finite, the others come as one flat array: nobody knows their channels
        # then, and as many of them as there are channels are no row of those.
        if values.ndim != self.rank or [values.shape[a] for a in self.axes] != self.sizes:
            return
        largest = np.maximum(values.max(axis=self.others), -values.min(axis=self.others)).ravel()
        self.largest = np.maximum(self.largest, largest)
        self.sums += values.sum(axis=self.others, dtype=np.float64).ravel()
        self.count += values.size // len(self.sums)

    def range(self) -> tuple[float, float]:
        return 1.0, -1.0  # nobody asks for it

    def statistics(self) -> ChannelStatistics:
        # A tensor that no sample filled has mean 0, which corrects nothing.
        return ChannelStatistics(self.largest, self.sums / max(self.count, 1))


def channel_statistics(
    program: Program | onnx.Program,
    tensors: Iterable[T] | Mapping[T, Sequence[int]],
    feeds: Iterable[Mapping[str, Array]],
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> dict[T, ChannelStatistics]:
    """Statistics of activations whose channels' number is known, in a float program.

    Args:
        tensors: with the axes along which their channels lie, several of them in row-major order; the last
            one where none are said.

    Raises:
        FeedError: a sample does not fit the inputs, or there are no samples.
        EngineUnavailable: the runtime is missing or cannot run the program.
    """
    axes = tensors if isinstance(tensors, Mapping) else dict.fromkeys(tensors, (-1,))
    watched = {
        t: _Observer(t.shape, along)
        for t, along in axes.items()
        if t.shape and all(t.shape[a] for a in along)
    }
    samples: Iterable[Feed] = feeds
    watch_program(program, watched, samples, threads=threads, progress=progress)
    return {tensor: one.statistics() for tensor, one in watched.items()}


# -------------------------------------------------------------------------------------------- bias correction
#
# Bias correction: rounded weights shift the mean of a layer's output, and its bias can take that back.
#
#     b' = b - sum_k (Wq - W)[k] * E[x[k]]        Nagel et al., ICCV 2019, with E[x] from samples
#
# Rounding is taken for the only error: E[x] is of the float model, and of the whole picture, so that padded
# borders are corrected as if they were inside.


# Not TRANSPOSE_CONV: with strides, other weights reach each position of its output, so that no one number per
# channel would do.
CORRECTED = frozenset(("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"))


def layers_to_correct(program: Program) -> dict[Operator, Tensor]:
    """Layers of the main subgraph with constant weights and bias -> their input [..., C]."""
    found: dict[Operator, Tensor] = {}
    for operator in program.subgraphs[0].operators:
        if operator.code in CORRECTED:
            x, w, b = (*operator.inputs, None)[:3]
            constant = w is not None and w.is_constant and is_float(w) and (b is None or b.is_constant)
            if x is not None and not x.is_constant and constant:
                found[operator] = x
    return found


def corrected(
    program: Program,
    rounded: Mapping[Operator, Array],
    statistics: Mapping[Tensor, ChannelStatistics],
) -> Program:
    """The program with biases that make up for rounded weights; the given one stays as it is.

    Args:
        rounded: layer -> its weights after rounding, as floats of the same shape.
        statistics: of the layers' inputs.
    """
    main = program.subgraphs[0]
    operators = []
    for operator in main.operators:
        x = operator.inputs[0] if operator.inputs else None
        known = statistics.get(x) if x is not None else None
        if operator in rounded and known is not None:
            operator = _corrected(operator, rounded[operator], known.mean)
        operators.append(operator)
    return replace(program, subgraphs=[replace(main, operators=operators), *program.subgraphs[1:]])


def _corrected(operator: Operator, rounded: Array, mean: Array) -> Operator:
    weights = operator.inputs[1]
    assert weights is not None, "only layers with weights are corrected"
    # float64: the errors are small differences of numbers that are nearly equal, and a channel sums
    # thousands.
    error = rounded.astype(np.float64) - np.asarray(weights.array())
    shift = _shift(operator.code, error, mean)
    if shift is None:
        return operator
    inputs = [*operator.inputs, None][:3]
    old = inputs[2]
    before = 0.0 if old is None else np.asarray(old.array())
    data = np.asarray(before - shift, np.float32)
    name = f"{operator.outputs[0].name}/bias" if old is None else old.name
    inputs[2] = Tensor(name, data.shape, FLOAT, data)
    return replace(operator, inputs=inputs)


def _shift(code: str, error: Array, mean: Array) -> Array | None:
    """float64 [outputs] mean of the output's error; None if the sizes are unusual, as in grouped layers."""
    channels = len(mean)
    if code == "DEPTHWISE_CONV_2D":
        # 1HWC with C * multiplier entries: output channel c reads input channel c // multiplier.
        times, rest = divmod(error.shape[3], channels)
        return None if rest else error.sum(axis=(0, 1, 2)) * np.repeat(mean, times)
    if error.shape[-1] != channels:
        return None
    # OHWI: each place of the window sees the same mean, so its errors can be summed before.
    per_channel = error.sum(axis=(1, 2)) if code == "CONV_2D" else error
    shift: Array = per_channel @ mean
    return shift
