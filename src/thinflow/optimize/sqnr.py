"""Signal to quantization noise of programs beside a float one, and how often both give the same answer.

Both are taken of the logits, where there are some.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Any, Generic, TypeVar

import numpy as np

from thinflow.engines import litert, onnxruntime
from thinflow.ir.interface import State
from thinflow.onnx import program as onnx
from thinflow.onnx.writer import to_bytes as onnx_to_bytes
from thinflow.optimize.class_axes import channel_axis
from thinflow.optimize.converted import RuntimeModel
from thinflow.optimize.quality import Score, score_of
from thinflow.optimize.quantized import with_float_borders
from thinflow.program.model import Operator
from thinflow.quantize.kernels import Kernels
from thinflow.quantize.macs import kernels_of, main_block
from thinflow.quantize.parts import part_for, with_further_outputs
from thinflow.quantize.rescale import UNEQUAL, unlikeness
from thinflow.tflite import model as tflite
from thinflow.tflite.writer import to_bytes as tflite_to_bytes
from thinflow.typing import Array

P = TypeVar("P", bound=tflite.Program | onnx.Program)
Inputs = Sequence[Array]

# A softmax that is sure of its answer gives nearly the same numbers whatever noise its logits have.
_SQUASHING = frozenset(("SOFTMAX", "LOG_SOFTMAX", "LOGISTIC", "LOGSOFTMAX", "SIGMOID"))


def before_squashing(program: P) -> P:
    """The program up to the logits: behind a softmax, noise can hardly be told from none.

    Outputs keep their number and order. The given program stays as it is.
    """
    main = main_block(program)
    source = partial(_source, main.producers(), kernels_of(program))
    outputs = []
    for tensor in main.outputs:
        _, operator = source(tensor)
        is_squashed = operator is not None and operator.code.upper() in _SQUASHING
        x = operator.inputs[0] if operator is not None and is_squashed else None
        # A graph input or a constant in front is no logit.
        outputs.append(tensor if x is None or x.is_constant or source(x)[0] in main.inputs else x)
    return part_for(program, outputs)


def has_softmax(program: P) -> bool:
    """True if the program's only output, [batch, classes], is a softmax's: its numbers are of classes."""
    main = main_block(program)
    if len(main.outputs) != 1 or len(main.outputs[0].shape or ()) != 2:
        return False
    _, operator = _source(main.producers(), kernels_of(program), main.outputs[0])
    return operator is not None and "SOFTMAX" in operator.code.upper()


def logits_of(program: P, samples: Iterable[Inputs], threads: int = 2) -> Iterator[Array]:
    """The logits of a program's only output for each sample; see `before_squashing`."""
    model = _opened(before_squashing(program), threads)
    for arrays in samples:
        yield model.run(arrays)[0]


def _source(
    producers: Mapping[Any, Operator[Any]], kernels: Kernels, tensor: Any
) -> tuple[Any, Operator[Any] | None]:
    """What holds the numbers of a tensor first, in whatever type and shape, and what makes it."""
    operator = producers.get(tensor)
    while operator is not None and _hands_on(operator, kernels):
        tensor = operator.inputs[0]
        operator = producers.get(tensor)
    return tensor, operator


def _hands_on(operator: Operator[Any], kernels: Kernels) -> bool:
    """True if an operator gives the numbers that it takes: in another shape or type."""
    if operator.code.upper().startswith(("QUANTIZE", "DEQUANTIZE", "CAST")):
        return True
    kernel = kernels.table.get(operator.code)
    if kernel is None or not kernel.same_scale or len(kernels.computed_inputs(operator)) != 1:
        return False
    # A reshape; a pool and a slice have fewer, and a clamp is none of what follows a softmax.
    before, after = kernels.computed_inputs(operator)[0].shape, operator.outputs[0].shape
    return before is not None and after is not None and _size(before) == _size(after)


def _size(shape: Sequence[int | None]) -> int:
    return math.prod(n or 1 for n in shape)


def beside_logits(program: P) -> tuple[P, list[int]]:
    """The program with its logits as outputs behind its own, and the number of each own output's logits.

    One run gives both. An output that nothing squashes has its own number.
    """
    outputs, logits = _outputs(program), _outputs(before_squashing(program))
    own = {tensor: number for number, tensor in reversed([*enumerate(outputs)])}
    further: dict[Any, int] = {}
    numbers = []
    for number, (given, before) in enumerate(zip(outputs, logits, strict=True)):
        if before is given:
            numbers.append(number)
        elif before in own:  # it is handed out already
            numbers.append(own[before])
        else:
            numbers.append(further.setdefault(before, len(outputs) + len(further)))
    return with_further_outputs(program, further), numbers


class LogitsMeter(Generic[P]):
    """Measures the logits of a smaller program beside those of the float one, sample by sample; memory does
    not grow with their number. See `logits_meter`.

    Attributes:
        before, after: the float model and the smaller one, which give their logits behind their outputs.
        score: of what was counted so far.
    """

    def __init__(
        self,
        models: tuple[RuntimeModel, RuntimeModel],
        numbers: tuple[Sequence[int], Sequence[int]],
        shown: Mapping[int, int],
    ) -> None:
        self.before, self.after = models
        self._numbers, self._shown = numbers, shown
        self.score = Score()

    def add(self, before: Sequence[Array], after: Sequence[Array]) -> None:
        """Count all that both models gave for one sample."""
        for number, axis in self._shown.items():
            one, other = (at[number] for at in self._numbers)
            self.score = self.score.plus(score_of([before[one]], [after[other]], [axis]))


def logits_meter(
    program: P, smaller: P, states: Sequence[State] = (), *, threads: int = 2
) -> LogitsMeter[P] | None:
    """A meter for the logits of a smaller program; None if no output of both comes of squashed ones.

    Args:
        program: the float one.
        states: that both hand on; they are no answers.
    """
    (both, at), (both_smaller, at_smaller) = beside_logits(program), beside_logits(smaller)
    cut = [[number != i for i, number in enumerate(numbers)] for numbers in (at, at_smaller)]
    if cut[0] != cut[1] or not any(cut[0]):
        return None
    handed = {s.output.name for s in states}
    named = enumerate(zip(_outputs(program), class_axes(program), strict=True))
    shown = {number: axis for number, (tensor, axis) in named if tensor.name not in handed}
    models = _opened(both, threads), _opened(both_smaller, threads, states)
    return LogitsMeter(models, (at, at_smaller), shown)


def class_axes(program: P) -> list[int]:
    """The axis of the classes in each output's logits: that of a softmax which says it, else of channels."""
    producers, kernels = main_block(program).producers(), kernels_of(program)
    makers = [_source(producers, kernels, tensor)[1] for tensor in _outputs(program)]
    shorter = before_squashing(program)
    return [
        int(maker.options["axis"])
        if maker is not None and maker.code.upper() in _SQUASHING and "axis" in maker.options
        else channel_axis(shorter, logits)
        for maker, logits in zip(makers, _outputs(shorter), strict=True)
    ]


def _outputs(program: tflite.Program | onnx.Program) -> list[Any]:
    return list(main_block(program).outputs)


class SqnrMeter(Generic[P]):
    """Measures programs beside a float one, whose outputs for some samples it keeps.

    Args:
        program: the float program.
        samples: the inputs of each sample, in the program's order; kept in memory, as the outputs are.
        axes: of the classes in each output; default: see `class_axes`.
    """

    def __init__(
        self,
        program: P,
        samples: Iterable[Inputs],
        *,
        threads: int = 2,
        axes: Sequence[int] | None = None,
    ) -> None:
        self.threads = threads
        self.axes = class_axes(program) if axes is None else axes
        self.samples = list(samples)
        self.expected = self._outputs(program)
        # Nothing where there is no sample.
        self._units = units_of([*zip(*self.expected, strict=True)], self.axes)

    def sqnr(self, program: P) -> float:
        """Signal to quantization noise over all samples and float outputs, in decibels."""
        return self.score(program).sqnr_db

    def score(self, program: P) -> Score:
        """How near a program's answers are; it may take and give integers at its ends."""
        return reduce(Score.plus, self.scores(program), Score())

    def scores(self, program: P) -> list[Score]:
        """The same for each sample alone."""
        pairs = zip(self.expected, self._outputs(program), strict=True)
        in_units = ((self._in_units(before), self._in_units(after)) for before, after in pairs)
        return [score_of(before, after, self.axes) for before, after in in_units]

    def _in_units(self, answers: list[Array]) -> list[Array]:
        """Answers in which numbers of unlike sizes count as much as one another."""
        return [a if unit is None else a / unit for a, unit in zip(answers, self._units, strict=True)]

    def _outputs(self, program: P) -> list[list[Array]]:
        model = _opened(program, self.threads)
        return [model.run(arrays) for arrays in self.samples]


def units_of(outputs: Sequence[Sequence[Array]], axes: Sequence[int]) -> list[Array | None]:
    """What to divide each output by so that its largest numbers, or the largest output, do not drown all
    others; None where these are of one size, as scores of classes are.

    Args:
        outputs: the answers to all samples, of each.
        axes: of the numbers that may be of several kinds.
    """
    found = [_units(answers, axis) for answers, axis in zip(outputs, axes, strict=True)]
    sizes = [
        0.0
        if unit is not None or not _is_float(answers)
        else math.sqrt(sum(float(np.square(a, dtype=np.float64).mean()) for a in answers if a.size))
        for answers, unit in zip(outputs, found, strict=True)
    ]
    # Numbers in units of their own are about 1.
    all_sizes = np.array([*sizes, *(1.0 for unit in found if unit is not None)])
    if not np.isfinite(all_sizes).all() or unlikeness(all_sizes) <= UNEQUAL:
        return found
    return [
        np.asarray(size / math.sqrt(len(answers)), answers[0].dtype) if size else unit
        for answers, unit, size in zip(outputs, found, sizes, strict=True)
    ]


def _is_float(answers: Sequence[Array]) -> bool:
    return bool(answers[0].dtype.kind == "f")


def _units(answers: Sequence[Array], axis: int) -> Array | None:
    if len({a.shape for a in answers}) != 1 or not _is_float(answers) or answers[0].ndim < 2:
        return None
    axes = tuple(a for a in range(answers[0].ndim) if a != axis % answers[0].ndim)
    squares = np.mean([np.square(a, dtype=np.float64).mean(axes, keepdims=True) for a in answers], 0)
    sizes = np.sqrt(squares)
    if not np.isfinite(sizes).all() or unlikeness(sizes.ravel()) <= UNEQUAL:
        return None
    return np.asarray(np.where(sizes > 0, sizes, sizes.max()), answers[0].dtype)


def _opened(
    program: tflite.Program | onnx.Program, threads: int, states: Sequence[State] = ()
) -> RuntimeModel:
    if isinstance(program, onnx.Program):
        return onnxruntime.Model(onnx_to_bytes(program), threads=threads)
    return litert.Model.as_it_says(tflite_to_bytes(with_float_borders(program, states)), threads=threads)
