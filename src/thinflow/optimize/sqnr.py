"""Signal to quantization noise of programs beside a float one, and how often both give the same answer.

Both are taken of the logits, where there are some.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, Generic, TypeVar

from thinflow.engines import litert, onnxruntime
from thinflow.ir.interface import State
from thinflow.onnx import program as onnx
from thinflow.onnx.writer import to_bytes as onnx_to_bytes
from thinflow.optimize.converted import RuntimeModel
from thinflow.optimize.quality import Score, score_of
from thinflow.optimize.quantized import with_float_borders
from thinflow.program.model import Operator
from thinflow.quantize.kernels import Kernels
from thinflow.quantize.macs import kernels_of, main_block
from thinflow.quantize.parts import part_for
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


class LogitsMeter(Generic[P]):
    """Measures the logits of a smaller program beside those of the float one, sample by sample; memory does
    not grow with their number. See `logits_meter`.
    """

    def __init__(self, before: RuntimeModel, after: RuntimeModel, shown: Mapping[int, int]) -> None:
        self._models, self._shown = (before, after), shown
        self.score = Score()

    def add(self, arrays: Inputs) -> None:
        """Count one sample."""
        before, after = (model.run(arrays) for model in self._models)
        for number, axis in self._shown.items():
            self.score = self.score.plus(score_of([before[number]], [after[number]], [axis]))


def logits_meter(
    program: P, smaller: P, states: Sequence[State] = (), *, threads: int = 2
) -> LogitsMeter[P] | None:
    """A meter for the logits of a smaller program; None if no output of both comes of squashed ones.

    Args:
        program: the float one.
        states: that both hand on; they are no answers.
    """
    shorter, smallest = before_squashing(program), before_squashing(smaller)
    pairs = ((program, shorter), (smaller, smallest))
    cut = [[a is not b for a, b in zip(*map(_outputs, pair), strict=True)] for pair in pairs]
    if cut[0] != cut[1] or not any(cut[0]):
        return None
    handed = {s.output.name for s in states}
    named = enumerate(zip(_outputs(program), _class_axes(program), strict=True))
    shown = {number: axis for number, (tensor, axis) in named if tensor.name not in handed}
    return LogitsMeter(_opened(shorter, threads), _opened(smallest, threads, states), shown)


def _class_axes(program: tflite.Program | onnx.Program) -> list[int]:
    """The axis of each output's logits that a softmax goes along: the last one, unless it says otherwise."""
    producers, kernels = main_block(program).producers(), kernels_of(program)
    makers = [_source(producers, kernels, tensor)[1] for tensor in _outputs(program)]
    return [-1 if maker is None else int(maker.options.get("axis", -1)) for maker in makers]


def _outputs(program: tflite.Program | onnx.Program) -> list[Any]:
    return list(main_block(program).outputs)


class SqnrMeter(Generic[P]):
    """Measures programs beside a float one, whose outputs for some samples it keeps.

    Args:
        program: the float program.
        samples: the inputs of each sample, in the program's order; kept in memory, as the outputs are.
    """

    def __init__(self, program: P, samples: Iterable[Inputs], *, threads: int = 2) -> None:
        self.threads = threads
        self.samples = list(samples)
        self.expected = self._outputs(program)

    def sqnr(self, program: P) -> float:
        """Signal to quantization noise over all samples and float outputs, in decibels."""
        return self.score(program).sqnr_db

    def score(self, program: P) -> Score:
        """How near a program's answers are; it may take and give integers at its ends."""
        return reduce(Score.plus, self.scores(program), Score())

    def scores(self, program: P) -> list[Score]:
        """The same for each sample alone."""
        pairs = zip(self.expected, self._outputs(program), strict=True)
        return [score_of(before, after) for before, after in pairs]

    def _outputs(self, program: P) -> list[list[Array]]:
        model = _opened(program, self.threads)
        return [model.run(arrays) for arrays in self.samples]


def _opened(
    program: tflite.Program | onnx.Program, threads: int, states: Sequence[State] = ()
) -> RuntimeModel:
    if isinstance(program, onnx.Program):
        return onnxruntime.Model(onnx_to_bytes(program), threads=threads)
    return litert.Model.as_it_says(tflite_to_bytes(with_float_borders(program, states)), threads=threads)
